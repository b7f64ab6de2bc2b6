# SPDX-License-Identifier: GPL-2.0-or-later
# Consoles of VMs: whatever happens to standard output, VMs go on and lost lines are counted; `vpmu
# console` shows a guest's output; files and rates.
. "$(dirname "$0")/cli_lib.inc"

field() { # VM FIELD: of list -j
	"$vpmu" list -j | jq -r --arg vm "$1" --arg f "$2" 'select(.vm == $vm) | .[$f]'
}

# start ARG...: a server with file descriptor 7 as its standard output
start() {
	"$vmm" --socket "$VPMU_SOCKET" --hold "$@" >&7 2>"$dir/server.log" 7>&- 8>&- &
	server=$!
	exec 7>&-
	wait_for "$server" "$vpmu" sharing || { cat "$dir/server.log"; exit 1; }
}

# lives_on WHAT ERROR: the server's VM "a" prints to a standard output that fails; so does its end
lives_on() {
	"$vpmu" resume || exit 1
	wait_state a done
	check "$1: lines" "$(field a console-lines)" 21
	check "$1: all of them are counted" "$(field a console-dropped)" 21
	check "$1: the ring has them" "$("$vpmu" console a | grep -c .)" 21
	"$vpmu" vm add name=b engine=emulator image="$image" console=stdout args="run loop 3" || exit 1
	wait_state b "done"
	check "$1: the next VM" "$(field b console-lines) $(field b console-dropped)" "1 1"
	"$vpmu" vm add name=c engine=emulator image="$image" console=stdout args="spin" || exit 1
	"$vpmu" vm rm c || exit 1
	"$vpmu" quit || kill "$server"
	wait "$server"
	check "$1: exit status" $? 1
	server=
	check "$1: what it says" "$(cat "$dir/server.log")" \
		"vpmu-vmm: standard output: $2; lines that cannot be printed are dropped and counted, and the VMs go on"
}

exec 7>/dev/full
start --paused --console stdout --vm "$(vm a vcpus=1 help)"
lives_on "a full disk" "No space left on device"

mkfifo "$dir/fifo"
exec 8<>"$dir/fifo"
exec 7>"$dir/fifo"
start --paused --console stdout --vm "$(vm a vcpus=1 help)"
exec 8>&-
lives_on "a closed pipe" "Broken pipe"

# A pipe without a reader, full before the first line: VMs do not wait for it.
exec 8<>"$dir/fifo"
exec 7>"$dir/fifo"
start --paused --console stdout --console-rate 0 --vm "$(vm a vcpus=1 "record --raw -j -e instructions -c 100 loop 20000")"
"$vpmu" resume || exit 1
wait_state a done
check_match "a pipe nobody reads: lines are dropped" "$(field a console-dropped)" '^[1-9]'
lines=$(field a console-lines)
exec 9<"$dir/fifo" # a reader that is no writer as well
cat <&9 >"$dir/read" 8>&- &
reader=$!
exec 8>&- 9<&-
"$vpmu" quit || kill "$server"
wait "$server"
check "a pipe nobody reads: exit status" $? 0
server=
wait "$reader"
got=$(grep -c '^\[a\] [^(]' "$dir/read")
lost=$(sed -n 's/^\[a\] (\([0-9]*\) lines lost.*/\1/p' "$dir/read" | awk '{ n += $1 } END { print n + 0 }')
check "a pipe nobody reads: each line came or is counted" $((got + lost)) "$lines"

# With --hold the default is the ring; standard output has only the server's own lines.
exec 7>"$dir/out"
start --vm "$(vm a vcpus=2 "run loop 3")" --vm "$(vm f vcpus=1 "run loop 3")",console="$dir/f.con" \
	--vm "$(vm s vcpus=1 spin)"
wait_state a done
wait_state f done
check "ring: both vCPUs" "$("$vpmu" console a | sort | tr '\n' ' ')" \
	'[0] vcpu 0: loop 3 = 6 [1] vcpu 1: loop 3 = 6 '
check "a file" "$(cat "$dir/f.con")" 'vcpu 0: loop 3 = 6'
check "a file: its mode" "$(stat -c %a "$dir/f.con")" 600
check "a VM that runs: what is there" "$("$vpmu" console --no-follow s </dev/null 2>&1)" ""
# It follows until the VM is gone.
"$vpmu" console s >"$dir/s.out" 2>"$dir/s.err" &
follower=$!
"$vpmu" vm add name=x engine=emulator image="$image" console="$dir/x.con" 2>"$dir/err"
check "a file of a client: status" $? 1
check_match "a file of a client" "$(cat "$dir/err")" 'expected stdout or ring'
check "a file of a client: none" "$(ls "$dir/x.con" 2>/dev/null)" ""
"$vpmu" console nope 2>"$dir/err"
check "no such VM" "$? $(cat "$dir/err")" '1 vpmu: no VM "nope"; `vpmu list` shows the VMs'
"$vpmu" console >"$dir/err" 2>&1
check "no name: status" $? 2
"$vpmu" vm rm s || exit 1
wait "$follower"
check "the VM was removed" "$? $(cat "$dir/s.err")" '1 vpmu: no VM "s"; `vpmu list` shows the VMs'
stop_server
check "standard output" "$(sort "$dir/out" | tr '\n' ' ')" \
	'vm a: done, status 0 vm f: done, status 0 vm s: removed '

# Over its rate: counted. The first line passes the full bucket and is paid for for half a minute, so that no other
# one comes in.
exec 7>"$dir/out"
start --console stdout --console-rate 1 --vm "$(vm a vcpus=1 help)"
wait_state a done
check "rate: lines" "$(field a console-lines)" 21
check "rate: dropped" "$(field a console-dropped)" 20
stop_server
# What is lost is told once a second: a busy machine takes longer for the guest's 21 lines, and tells it in parts.
lost=$(sed -n 's/^\[a\] (\([0-9]*\) lines lost: they came too fast, or could not be written)$/\1/p' "$dir/out" |
	awk '{ n += $1 } END { print n + 0 }')
check "rate: told" "$lost $(grep -v '^\[a\] (' "$dir/out")" "20 [a] Guest arguments: COMMAND [ARGUMENTS]
vm a: done, status 0"

refused() { # TEXT ARG...
	text=$1
	shift
	"$vmm" --no-socket "$@" 2>"$dir/err" >"$dir/out"
	check_match "$*" "$? $(cat "$dir/err")" "^[12] .*$text"
}
refused 'host/console: "file" is invalid; expected stdout or ring' --console file --vm "$(vm a vcpus=1 help)"
refused 'vm/console: "x" is invalid; expected stdout, ring or the path' --vm "$(vm a vcpus=1 help),console=x"
refused 'console_rate: "-1" is invalid' --console-rate=-1 --vm "$(vm a vcpus=1 help)"
ln -s "$dir/f.con" "$dir/link"
refused 'a symbolic link; expected the file itself' --vm "$(vm a vcpus=1 help),console=$dir/link"
finish
