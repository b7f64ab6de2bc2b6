#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
# What people type wrong: one line that names it, the right exit status, nothing else happens.
. "$(dirname "$0")/cli_lib.inc"

bad() { # STATUS PATTERN ARG...
	local want=$1 pattern=$2 err status
	shift 2
	err=$("$vpmu" "$@" 2>&1 >/dev/null </dev/null)
	status=$?
	check "vpmu $*: exit status" $status "$want"
	check_match "vpmu $*: message" "$err" "$pattern"
	# The named remedy exists: a command of vpmu, or the server.
	printf '%s\n' "$err" | grep -o '`[^`]*`' | sed 's/`vpmu /`/; s/`\([^ `]*\).*/\1/' >"$dir/names"
	while read -r name; do
		[ "$name" = vpmu-vmm ] || "$vpmu" help "$name" >/dev/null 2>&1 ||
			check "vpmu $*: $err" "\`$name\`" "the name of something"
	done <"$dir/names"
	case $err in
	"vpmu: "*) check "vpmu $*: one line" "$(printf '%s\n' "$err" | wc -l)" 1 ;;
	esac
}

# No server: which places were tried, and how to start one.
bad 1 "tried $VPMU_SOCKET .*-S PATH" list
bad 1 'tried /nowhere/s' -S /nowhere/s stat -d 1
bad 1 'tried /nowhere/s' events -S /nowhere/s
(unset VPMU_SOCKET; HOME=/ XDG_RUNTIME_DIR="$dir" "$vpmu" sharing 2>&1 | grep -q "tried .*$dir/vpmu/vpmu-vmm.sock" ||
	"$vpmu" sharing >/dev/null 2>&1) || check "the usual places" "not named" "named"
# Servers that listen at other sockets of these directories are named; a socket without a listener is not.
mkdir "$dir/vpmu"
"$VPMU_BIN/vpmu-vmm" --socket "$dir/vpmu/web.sock" --hold >/dev/null 2>&1 &
other=$!
wait_for "$other" "$vpmu" -S "$dir/vpmu/web.sock" sharing
perl -MIO::Socket::UNIX -e 'IO::Socket::UNIX->new(Local => $ARGV[0], Listen => 1) or die $!' "$dir/vpmu/nobody.sock"
for json in "" -j; do
	refuses 1 "tried /nowhere/s \(.*\); found .*$dir/vpmu/web.sock.*: choose one with -S PATH$" \
		env XDG_RUNTIME_DIR="$dir" "$vpmu" -S /nowhere/s list $json
	grep -q nobody.sock "$dir/err" && check "a socket of nobody" "$(cat "$dir/err")" "not named"
done
# One that has no such command reports that, and the right server.
for use in reload:reload "history:stat --since -1m" "cgroup-find:stat -G /a"; do
	XDG_RUNTIME_DIR="$dir" "$vpmu" -S "$dir/vpmu/web.sock" ${use#*:} 2>"$dir/err"
	check "$use: status" $? 1
	check_match "$use: message" "$(cat "$dir/err")" \
		"the server at $dir/vpmu/web.sock has no command \"${use%%:*}\", which is one of vpmud"
done
"$vpmu" -S "$dir/vpmu/web.sock" quit || kill "$other"
wait "$other"

start_server --vm "$(vm web-1 tenant=/acme/web 'run loop 1000')"
wait_state web-1 done
bad 2 'no command given'
bad 2 'bogus: no such command' bogus
bad 2 'list: "x": this command takes no argument' list x
bad 2 "^vpmu: stat: unrecognized option '--bogus'; .vpmu help stat. shows the options$" stat --bogus
bad 2 "^vpmu: stat: unrecognized option '--taget'; did you mean '--target'. .vpmu help stat. shows the options$" stat --taget x
bad 2 "^vpmu: unrecognized option '--sokcet'; did you mean '--socket'. .vpmu help. shows the options$" --sokcet x list
bad 2 "^vpmu: stat: unrecognized option '-Z'; " stat -Z
bad 2 "^vpmu: stat: option '-e' needs a value; " stat -e
bad 2 "^vpmu: stat: option '--event' needs a value; " stat --event
bad 2 "^vpmu: stat: option '--append' takes no value; " stat --append=1
bad 2 "^vpmu: stat: option '--t' is ambiguous: --[a-z]* or --[a-z]*; " stat --t
bad 2 '^vpmu: stat: -A: counts are per tenant' stat -A
bad 2 '^vpmu: lst: no such command; did you mean "list"' lst
bad 2 '^vpmu: stta: no such command; did you mean "stat"' stta
bad 2 '^vpmu: record: no such command: `vpmu profile ' record -a
bad 2 '^vpmu: recrod: no such command; for perf.s "record": `vpmu profile ' recrod
bad 2 'stat: -I "5" is invalid; expected a number from 10 to 3600000' stat -I 5
bad 2 'a number from 10' stat -I 1e3
bad 2 'seconds above 0' stat -d 0
bad 2 "^vpmu: stat: -d \"nan\" is invalid; expected seconds above 0; perf's -d" stat -d nan
bad 2 '^vpmu: stat: -d "-1" is invalid; expected seconds above 0 and up to 1000000$' stat -d -1
bad 2 '^vpmu: stat: "report" is invalid; expected -- COMMAND; there is no perf.data: ' stat report
bad 2 '^vpmu: stat: "record" is invalid; expected -- COMMAND; ' stat -e cycles record true
bad 1 '^vpmu: stat: report cannot be counted by itself' stat -- report
bad 2 '^vpmu: profile: "ls" is invalid behind --; expected a TARGET of `vpmu list`; ' profile -- ls -l
bad 2 "^vpmu: -e: event 'sched:sched_switch' is invalid: tracepoints are not counted; expected names that " stat -e sched:sched_switch
bad 2 'expected tenant, vm or vcpu' stat --for-each pod
bad 2 'give only one of -j and -x' stat -j -x,
bad 2 'give a separator' stat -x ''
bad 2 'has its own events' stat --session a -e cycles
bad 2 'has its own events' stat --session a -t /
# What adds up may be repeated (cli_stat.sh, cli_end.sh); of the rest the last one does not win.
bad 2 '^vpmu: stat: -I is given twice; give it once$' stat -I 10 -I 20
bad 2 'stat: -d or --timeout is given twice' stat -d 1 -d 2
bad 2 'stat: -x is given twice' stat -x, -x:
bad 2 'stat: --for-each is given twice' stat --for-each vm --for-each vcpu
bad 2 'stat: --session is given twice' stat --session a --session b
bad 2 '-S is given twice' -S a list -S b
bad 2 'top: -d is given twice' top -b -d 1 -d 2
bad 2 'top: -n is given twice' top -b -n 1 -n 2
bad 2 'profile: -e is given twice' profile -e cycles -e instructions
bad 2 'profile: -c is given twice' profile -c 1 -c 2
bad 2 'profile: -d is given twice' profile -d 1 -d 2
bad 2 'lbr: --mode is given twice' lbr --mode calls --mode branches
bad 2 'lbr: -n is given twice' lbr -n 1 -n 2
bad 2 'attach: -t is given twice; a session has one target' attach a -e cycles -t web-1 -t /acme
bad 2 'stat: -G: a part of the list is empty' stat -G ''
bad 2 'stat: -G: a part of the list is empty' stat -G a,,b
bad 2 'stat: -p: a part of the list is empty' stat -p 1,
bad 2 'stat: -t: give up to 16 targets' stat $(seq -f '-t /t%g' 17)
bad 1 'no VM "nope"' stat -t web-1 -t nope
bad 2 'attach: give a NAME' attach -e cycles
bad 2 'attach: give the events with -e' attach a
bad 2 '"a" and "b": give only one NAME' attach a b
bad 2 'give the NAME of a session' detach
bad 2 'tenant add PATH' tenant
bad 2 'tenant add PATH' tenant mv /a
bad 2 'vm add KEY=VALUE' vm
bad 2 'give KEY=VALUE' vm add web
bad 2 'given twice' vm add name=a name=b
bad 2 'vm save NAME FILE' vm save web-1
bad 2 'vm restore: "x": give KEY=VALUE' vm restore f x
bad 2 '^vpmu: vm: the path of FILE is not UTF-8 text$' vm restore "$(printf 'f\377')" name=x
bad 1 'no VM "nope"' vm save nope "$dir/x"
bad 1 'start it with --snapshot-dir DIR' vm restore "$dir/x"
bad 2 'is not a terminal; give -b' top
bad 1 '^vpmu: -C: backend emulator does not count single CPUs' stat -C 0 -d 0.1
bad 2 'a number from 1' top -b -n 0
bad 2 '^vpmu: top: -d "0.009" is invalid; expected seconds from 0.01 to 3600$' top -b -n 1 -d 0.009
bad 2 'not an empty string' -S '' list
bad 2 "^vpmu: -e: event 'instructions:z': 'z' is no modifier; expected u k h G H\$" stat -e instructions:z
bad 2 '^vpmu: stat: -e: the list is empty; expected NAME\[,NAME...\]$' stat -e ''
bad 2 '^vpmu: stat: -M: the list is empty' stat -M ''
bad 2 "^vpmu: -e: unknown event 'bogus'; .*\`vpmu events\`" stat -e bogus
bad 1 'no tenant "/nope"' stat -t /nope
bad 1 '^vpmu: no VM "nope"; `vpmu list` shows what there is$' stat -t nope
bad 1 '^vpmu: no VM "web-2"; did you mean "web-1". `vpmu list` shows what there is$' stat -t web-2
bad 1 '^vpmu: no VM "web"; did you mean "/acme/web". `vpmu list` shows what there is$' stat -t web
bad 1 '^vpmu: no tenant "/acne"; did you mean "/acme". `vpmu list` shows what there is$' profile -d 1 /acne
bad 1 '^vpmu: no VM "web-2"; did you mean "web-1". `vpmu list` shows the VMs$' pause web-2
bad 1 '^vpmu: tenant /acme/wbe: no such tenant; did you mean "/acme/web". ' tenant rm /acme/wbe
bad 1 '^vpmu: stat: true cannot be counted by itself: (no cgroup2 is mounted here|/.*/vpmu-stat-[0-9]+: .*|the server .* has no command "cgroup-add", which is one of vpmud.*); give -a to count everything while it runs, or -t TARGET$' stat -- true
bad 2 '^vpmu: -p "x": give the number of a process$' stat -p x
bad 1 '^vpmu: -p 999999999: no such process$' stat -p 999999999
bad 2 'stat: --interval-count needs intervals' stat --interval-count 3
bad 2 'profile: give only one of -c and -F' profile -c 1 -F 99
bad 2 'profile: -F "0" is invalid; expected a number from 1 to 100000' profile -F 0
bad 2 '^vpmu: --for-each: "tenant" of VM web-1; expected none, vm or vcpu for a VM$' stat -t web-1 --for-each tenant
bad 1 '^vpmu: no session "nope"; `vpmu sessions` shows what there is$' stat --session nope
bad 1 'no session "nope"' detach nope
bad 1 '^vpmu: no session "nope"; ' stat --session nope -I 10 -- touch "$dir/ran"
check "the command was not started" "$(ls "$dir/ran" 2>/dev/null)" ""
bad 2 'A-Za-z0-9' attach 'a/b' -e cycles
bad 127 '/nowhere/cmd: cannot run it: No such file' stat -a -- /nowhere/cmd
bad 2 'tenant path' tenant add acme
bad 2 'tenant path' tenant add /../etc
bad 2 '/host is what runs in no tenant' tenant add /host/x
bad 1 'has VM "web-1"' tenant rm /acme/web
bad 1 'no such tenant' tenant rm /nope
bad 1 'no VM "nope"' vm rm nope
bad 1 '^vpmu: no VM "nope"; `vpmu list` shows the VMs$' vm set nope weight=5
bad 1 '^vpmu: no tenant "/nope"; `vpmu list` shows the tenants$' tenant set /nope weight=5
bad 2 '^vpmu: weight: 0 is invalid; expected 1 to 10000$' vm set web-1 weight=0
bad 2 '^vpmu: weight: 10001 is invalid; expected 1 to 10000$' tenant set /acme weight=10001
bad 2 '^vpmu: vm set: weight: "1e3" is invalid; expected a number$' vm set web-1 weight=1e3
bad 2 '^vpmu: tenant set: weight: "" is invalid; expected a number$' tenant set /acme weight=
bad 2 '^vpmu: tenant set: "5": give KEY=VALUE$' tenant set /acme 5
bad 2 '^vpmu: tenant set: weight is given twice' tenant set /acme weight=5 weight=6
bad 2 'give `tenant add PATH`, `tenant rm PATH` or `tenant set PATH KEY=VALUE' tenant set /acme
check "weights as they were" "$("$vpmu" list -j | grep -c weight)" 0
"$vpmu" vm set web-1 weight=200 || exit 1
"$vpmu" tenant set /acme/web weight=300 || exit 1
check "weights as they are set" "$("$vpmu" list -j | grep '"vm":"web-1"' | grep -o '"[a-z-]*weight":[0-9]*')" '"weight":200
"tenant-weight":300'
bad 2 '^vpmu: vm add: flavour: no such key; expected name, ' vm add name=x flavour=large
bad 2 '^vpmu: vm add: engine: "fast" is invalid; expected auto, emulator or kvm$' vm add name=x image="$image" engine=fast
bad 1 . vm add name=web-1 image="$image" engine=emulator
bad 1 '^vpmu: no VM "nope"; `vpmu list` shows the VMs$' pause nope
bad 2 "unknown event 'bogus'" profile -e bogus -d 1
bad 1 '^vpmu: -e: cache-misses: no CPU of backend emulator can sample it; it can sample instructions; `vpmu events` shows what is counted there$' profile -e cache-misses -d 1
bad 2 '-c "0" is invalid; expected a number of events from 1 to 140737488355328' profile -c 0 -d 1
bad 2 '-c "140737488355329" is invalid; expected a number' profile -c 140737488355329 -d 1
bad 2 '-c "1e6" is invalid; expected a number' profile -c 1e6
bad 2 'seconds above 0' profile -d 0
bad 2 'give only one of --format, --folded and -j' profile --folded -j
bad 2 '"a" and "b": give only one target' profile a b
bad 1 'no VM "nope"' profile -d 1 nope
bad 1 '^vpmu: no branch records of this target \(backend emulator\); give a VM of the emulator' profile -g -d 1 /host
bad 1 'no tenant "/nope"' lbr /nope
bad 1 'no vCPU of web-1 has records' lbr -d 0.1 web-1
bad 2 'an argument is not UTF-8 text' profile -d 1 "$(printf '\377')"
bad 2 '^vpmu: vm: the path of FILE is not UTF-8 text$' vm save web-1 "/tmp/$(printf '\377')"
bad 2 'call-stack, branches or calls' lbr --mode all
bad 2 'needs --mode call-stack' lbr --mode branches --folded
bad 2 'give only one of --format, --folded and -j' lbr -j --folded
bad 2 'a number from 1' lbr -n 0
bad 2 'give only one target' lbr a b
"$vpmu" attach twice -e cycles || exit 1
bad 1 'there is a session "twice"' attach twice -e cycles
"$vpmu" list >/dev/full 2>"$dir/err"
check "a full disk: exit status" $? 1
check_match "a full disk: message" "$(cat "$dir/err")" 'standard output'
for arg in --help --version "stat --help" "top -b -n 1 -d 0.1"; do
	"$vpmu" $arg >/dev/full 2>"$dir/err"
	check "$arg on a full disk: exit status" $? 1
	check "$arg on a full disk: message" "$(cat "$dir/err")" \
		"vpmu: standard output: No space left on device"
done
check "sessions left" "$("$vpmu" sessions -j | wc -l)" 1
check "VMs left" "$("$vpmu" list -j | grep -c '"kind":"vm"')" 1
for c in list stat top profile report lbr events check selftest attach detach sessions sharing conservation tenant vm pause resume reload quit; do
	"$vpmu" $c --help >"$dir/help" || check "$c --help" $? 0
	check_match "$c --help names itself" "$(cat "$dir/help")" "Usage: vpmu $c"
done
check_match "--version" "$("$vpmu" --version)" '^vpmu [0-9]'
stop_server
finish
