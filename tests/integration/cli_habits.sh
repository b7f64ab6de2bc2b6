#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
# What people know from perf stat works in vpmu stat: -o, --append, -r, --timeout, --no-big-num, where
# counts go with a command, its times and exit status; and help.
. "$(dirname "$0")/cli_lib.inc"
. "$(dirname "$0")/answers.inc"

v() { # COUNT
	printf '{"count":"%s","counter-value":"1","enabled-ns":"100","running-ns":"100","quality":"exact","supported":true}' "$1"
}
counts() { # AGE_NS INSTRUCTIONS CYCLES
	printf '{"session":"s","target":"/","age-ns":"%s","dropped":"0","events":["instructions","cycles"],"scope":"none","ok":true,' "$1"
	printf '"rows":[{"row":1,"kind":"root","depth":0,"path":"/","backend":"kvm","gone":false,"values":[%s,%s]}]}' "$(v "$2")" "$(v "$3")"
}
counts_by_reads() {
	answers <<END
attach {"session":"s","ok":true}
detach $(counts 1000000000 3000000 2000000)
END
}

# ---- where it goes ----
counts_by_reads
"$vpmu" stat -a -x, -- sh -c 'echo mine' >"$dir/out" 2>"$dir/err"
check "a command has standard output for itself" "$(cat "$dir/out")" mine
check "the counts are on standard error" "$(cut -d, -f1,3 "$dir/err" | tr '\n' ' ')" '3000000,instructions 2000000,cycles '
"$vpmu" stat -d 0.01 -x, >"$dir/out" 2>"$dir/err"
check "without a command: on standard output" "$(wc -l <"$dir/out") $(wc -c <"$dir/err")" "2 0"
"$vpmu" stat -a -x, -o "$dir/file" -- sh -c 'echo mine; echo and mine >&2' >"$dir/out" 2>"$dir/err"
check "-o: standard output" "$(cat "$dir/out")" mine
check "-o: standard error" "$(cat "$dir/err")" 'and mine'
check "-o: the file" "$(cut -d, -f1 "$dir/file" | sed 's/on .*/on/' | tr '\n' ' ')" '# started on  3000000 2000000 '
"$vpmu" stat -x, -o "$dir/file" --append -d 0.01
check "--append" "$(grep -c instructions "$dir/file")" 2
"$vpmu" stat -x, -o "$dir/file" -d 0.01
check "-o replaces" "$(grep -c instructions "$dir/file")" 1
"$vpmu" stat -j -o "$dir/file" -d 0.01
check "-j -o: objects only" "$(grep -vc '^{' "$dir/file")" 0
"$vpmu" stat -a -o "$dir/file" -- true
check_match "-o: text" "$(cat "$dir/file")" '^ +3,000,000      instructions +# +1\.50  insn per cycle$'
check_match "the command's user time" "$(cat "$dir/file")" '^ +[0-9.]+ seconds user$'
check_match "the command's system time" "$(cat "$dir/file")" '^ +[0-9.]+ seconds sys$'
"$vpmu" stat -o /nowhere/file -d 0.01 2>"$dir/err"
check "-o: exit status" $? 1
check "-o: a file that cannot be written" "$(cat "$dir/err")" 'vpmu: stat: -o /nowhere/file: No such file or directory'
"$vpmu" stat -o /dev/full -d 0.01 2>"$dir/err"
check "-o: full: exit status" $? 1
check "-o: full" "$(cat "$dir/err")" 'vpmu: stat: -o /dev/full: No space left on device'

# ---- how it looks ----
out=$("$vpmu" stat --timeout 10 --no-big-num)
check_match "--no-big-num" "$out" '^ +3000000      instructions'
check_match "-x: metric" "$("$vpmu" stat -d 0.01 -x,)" ',kvm,1\.50,insn per cycle$'
check_match "-j: metric" "$("$vpmu" stat -d 0.01 -j)" '"metric-value":"1\.500000","metric-unit":"insn per cycle"'
answers <<END
attach {"session":"s","ok":true}
read $(counts 1000 1000 1)
read $(counts 2000 10000 2)
read $(counts 3000 11200 3)
read $(counts 4000 20000 4)
read $(counts 5000 21200 6)
END
# Three runs count 1000, 1200 and 1200; what happens between them is of none.
"$vpmu" stat -a -r 3 --no-big-num -- sh -c 'echo run' >"$dir/out" 2>"$dir/err"
check "-r: exit status" $? 0
check "-r: runs" "$(grep -c run "$dir/out")" 3
check_match "-r: the mean" "$(cat "$dir/err")" '^ +1133      instructions .* \( \+-  5\.88% \)$'
check_match "-r: the title" "$(cat "$dir/err")" "\(3 runs\):$"
check_match "-r: the times" "$(cat "$dir/err")" '^ +[0-9.]+ \+- [0-9.]+ seconds time elapsed  \( \+- *[0-9.]+% \)$'
answers <<END
attach {"session":"s","ok":true}
read $(counts 1000 1000 1)
read $(counts 2000 10000 2)
read $(counts 3000 11200 3)
END
"$vpmu" stat -a -r 2 -x, -- true 2>"$dir/err"
check_match "-r -x: a field more" "$(cat "$dir/err")" '^1100,,instructions,.*insn per cycle,9\.09%$'
"$vpmu" stat -a -r 2 -- sh -c 'echo run; exit 4' >"$dir/out" 2>"$dir/err"
check "-r: the exit status of the command" $? 4

# ---- the default events: what the server's host counts ----
can() { # EVENT... : the answer to `events` in which these are counted, and the others are not
	printf '{"ok":true,"events":['
	first=
	for e in instructions cycles branches branches-taken task-clock context-switches page-faults cpu-clock; do
		supported=false
		case " $* " in *" $e "*) supported=true ;; esac
		printf '%s{"event":"%s","desc":"x","backends":[{"backend":"kvm","supported":%s,"why":"not permitted"}]}' "$first" $e $supported
		first=,
	done
	printf ']}'
}
defaults() { # EVENT...: stat with these; $dir/asked gets the request, $dir/err the note
	answers <<END
events $(can "$@")
attach {"session":"s","ok":true}
detach $(counts 1000000000 3000000 2000000)
END
	"$vpmu" stat -d 0.01 -x, >"$dir/out" 2>"$dir/err"
	check "with $*: exit status" $? 0
	events=$(sed -n 's/^attach //p' "$dir/answers.asked")
}
defaults instructions cycles branches branches-taken task-clock
check "all hardware events" "$events" instructions,cycles,branches,branches-taken
check "no note" "$(cat "$dir/err")" ""
defaults instructions cycles branches task-clock
check "all but one" "$events" instructions,cycles,branches
check "a note" "$(cat "$dir/err")" 'vpmu: stat: this host does not count branches-taken: it is left out'
defaults task-clock context-switches page-faults cpu-clock
check "no PMU" "$events" task-clock,context-switches,page-faults
check "no PMU: a note" "$(cat "$dir/err")" \
	'vpmu: stat: no hardware events are counted here: counting task-clock,context-switches,page-faults'
defaults nothing
check "nothing" "$events" instructions,cycles,branches,branches-taken
check "nothing: a note" "$(cat "$dir/err")" \
	'vpmu: stat: no event is counted here: not permitted; `vpmu check` shows what to do'
answers <<END
attach {"session":"s","ok":true}
detach $(counts 1000000000 3000000 2000000)
END
"$vpmu" stat -d 0.01 -x, >"$dir/out" 2>"$dir/err"
check "a server without the command events" "$(cat "$dir/err")$?" "0"

# ---- clocks: milliseconds, as perf prints them; JSON keeps nanoseconds ----
clock() { # COUNT
	answers <<END
attach {"session":"s","ok":true}
detach {"session":"s","target":"/","age-ns":"9","dropped":"0","events":["task-clock:u"],"scope":"none","ok":true,"rows":[{"row":1,"kind":"root","depth":0,"path":"/","backend":"kvm","gone":false,"values":[$(v "$1")]}]}
END
}
clock 1234567894999
check_match "text" "$("$vpmu" stat -e task-clock:u -d 0.01)" '^ +1,234,567\.89 msec task-clock:u'
check_match "text without separators" "$("$vpmu" stat --no-big-num -e task-clock:u -d 0.01)" '^ +1234567\.894999 msec task-clock:u'
check "-x: no nanosecond is lost" "$("$vpmu" stat -e task-clock:u -d 0.01 -x, | cut -d, -f1-3)" 1234567.894999,msec,task-clock:u
check_match "-j" "$("$vpmu" stat -e task-clock:u -d 0.01 -j)" '"counter-value":"1234567894999","count":"1234567894999","unit":"ns"'
clock 995000
check_match "rounded" "$("$vpmu" stat -e task-clock:u -d 0.01)" '^ +1\.00 msec task-clock:u'
clock 18446744073709551615
check_match "the largest" "$("$vpmu" stat -e task-clock:u -d 0.01)" '^ +18,446,744,073,709\.55 msec'

# ---- exit status ----
counts_by_reads
printf 'not a program' >"$dir/plain"
status() { # WANT ARG...
	local want=$1
	shift
	"$vpmu" "$@" >"$dir/out" 2>"$dir/err" </dev/null
	check "vpmu $*: exit status" $? "$want"
}
status 127 stat -a -- /nowhere/cmd
check "127: one line" "$(cat "$dir/err")" 'vpmu: /nowhere/cmd: cannot run it: No such file or directory'
status 127 stat -a -- no-such-command-anywhere
status 126 stat -a -- "$dir/plain"
check_match "126: one line" "$(cat "$dir/err")" 'cannot run it: Permission denied$'
status 126 stat -a -- "$dir"
status 127 stat -a -I 10 -- /nowhere/cmd
status 5 stat -a -- sh -c 'exit 5'
status 143 stat -a -- sh -c 'kill -TERM $$'
kill_server

# ---- a real server: refusals because of the command line end with 2 ----
start_server --vm "$(vm web-1 tenant=/acme/web 'run loop 1000')"
status 2 stat -e bogus
status 2 stat -t web-1 --for-each tenant
status 2 attach 'a/b' -e cycles
status 2 tenant add acme
status 2 vm add name=x flavour=large
status 2 stat -t "$(printf '\377')"
status 1 stat -t nope
status 1 vm restore "$VPMU_SOCKET"
status 1 tenant rm /acme/web
status 2 stat -r 0 -- true
status 2 stat -r 2
check "-r without a command" "$(cat "$dir/err")" 'vpmu: stat: -r needs a command to repeat: give -- COMMAND as well'
status 2 stat -r 2 -I 10 -- true
status 2 stat --append
status 2 stat --timeout 5
status 2 stat --timeout 100 -d 1
check "-d and --timeout" "$(cat "$dir/err")" 'vpmu: stat: -d or --timeout is given twice; give it once'

# ---- help ----
status 0 help
check_match "help: commands" "$(cat "$dir/out")" '^  stat  '
"$vpmu" --help >"$dir/help"
check "help is --help" "$(cat "$dir/help")" "$(cat "$dir/out")"
status 0 -h
check "-h is --help" "$(cat "$dir/help")" "$(cat "$dir/out")"
for c in stat top vm help; do
	"$vpmu" $c --help >"$dir/help"
	status 0 help $c
	check "help $c" "$(cat "$dir/out")" "$(cat "$dir/help")"
	status 0 $c -h
	check "$c -h" "$(cat "$dir/out")" "$(cat "$dir/help")"
done
status 2 help bogus
check "help bogus" "$(cat "$dir/err")" 'vpmu: bogus: no such command; `vpmu help` lists the commands'
status 2 help stat top
stop_server

# ---- what changes something says so, in one line ----
answers <<END
attach {"session":"s","ok":true}
reload {"ok":true}
pause {"ok":true}
resume {"ok":true}
vm-add {"ok":true}
vm-remove {"ok":true}
vm-set {"ok":true}
vm-save {"ok":true}
vm-restore {"ok":true}
tenant-add {"ok":true}
tenant-remove {"ok":true}
tenant-set {"ok":true}
END
did() { # LINE ARG...
	line=$1
	shift
	status 0 "$@"
	check "vpmu $*" "$(cat "$dir/out")" "$line"
}
did 'session s attached' attach s -e cycles
did 'configuration reloaded' reload
did 'VM web paused' pause web
did 'all VMs paused' pause
did 'VM web resumed' resume web
did 'all VMs resumed' resume
did 'VM web added' vm add tenant=/a name=web
did 'VM web removed' vm rm web
did 'VM web changed' vm set web weight=5
did 'VM web saved; it stays paused' vm save web f
did 'VM restored from f?[31m' vm restore "$(printf 'f\033[31m')"
did 'tenant /a added' tenant add /a
did 'tenant /a removed' tenant rm /a
did 'tenant /a changed' tenant set /a weight=5

finish
