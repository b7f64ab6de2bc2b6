#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
# bash completion of vpmu and vpmu-vmm, with a server that has names with colons, and with a hostile one.
. "$(dirname "$0")/cli_lib.inc"
. "$(dirname "$0")/answers.inc"
command -v bash >/dev/null || { echo "# SKIP no bash"; exit 77; }
completions=$(cd "$(dirname "$0")" && pwd)/../../cli/completions/vpmu.bash
PATH=$VPMU_BIN:$PATH

start_server --paused --vm "$(vm web:1 tenant=/acme/web:eu 'spin 1000000')" \
	--vm "$(vm web:2 tenant=/acme/web:eu 'spin 1000000')" \
	--vm "$(vm db-1 tenant=/bob 'spin 1000000')"
"$vpmu" attach bill:march -e cycles || exit 1
touch "$dir/image one.elf" "$dir/file.ini"

# The answers for a line that is typed up to its end, as the shell gets them, on one line; a blank in one is a _.
ask() { # LINE
	got=$(cd "$dir" && bash --norc -c '
		. "$1"
		COMP_LINE=$2 COMP_POINT=${#2}
		_vpmu
		printf "%s\n" "${COMPREPLY[@]}"' - "$completions" "$1" | LC_ALL=C sort -u | tr ' \n' '_ ')
}
completes() { # LINE WANT
	ask "$1"
	check "$1" "$got" "$2 "
}
has_answers() { # LINE WORD...
	ask "$1"
	line=$1
	shift
	for word; do
		case " $got " in
		*" $word "*) ;;
		*) check "$line: an answer" "$got" "$word" ;;
		esac
	done
}

# Commands and options are those of the program.
for c in $("$vpmu" help | sed -n '/^Commands:/,$s/^  \([a-z]*\) .*/\1/p'); do
	has_answers "vpmu " "$c"
done
completes "vpmu st" "stat"
completes "vpmu help pro" "profile"
completes "vpmu --so" "--socket"
completes "vpmu stat --ev" "--event"
completes "vpmu stat --t" "--target --timeout --tree"
completes "vpmu stat --si" "--since"
completes "vpmu stat --un" "--until"
completes "vpmu -S $VPMU_SOCKET lbr --fol" "--folded"
completes "vpmu vm --so" "--socket"
has_answers "vpmu stat -" -e -t -I -d -x -j -o -r --append --no-big-num --session --for-each
has_answers "vpmu top -" -b -f -n -x -j

# Values of options, behind a blank and behind =, which the shell takes for the end of a word.
completes "vpmu stat --for-each v" "vcpu vm"
completes "vpmu lbr --format " "brstack perf-script pprof"
completes "vpmu profile --format=p" "perf-script pprof"
completes "vpmu stat --for-each=v" "vcpu vm"
completes "vpmu stat --for-each=" "tenant vcpu vm"
completes "vpmu lbr --mode=call" "call-stack calls"
completes "vpmu stat --session b" "bill:march"
completes "vpmu stat --session=bill:m" "march"
completes "vpmu stat -e instr" "instructions"
completes "vpmu stat -M ip" "ipc"
completes "vpmu stat -M ipc,bra" "ipc,branch ipc,branch-miss-rate ipc,branch-mpki ipc,branch-share"
completes "vpmu stat --metrics=sta" "stall"
completes "vpmu stat --event=cycles,instr" "cycles,instructions"
completes "vpmu stat -e cycles,branches-t" "cycles,branches-taken"
completes "vpmu stat -o fi" "file.ini"
completes "vpmu stat -I " ""

# Names with colons: the shell keeps the part before the last one.
completes "vpmu stat -t w" "web:1 web:2"
completes "vpmu stat -t web:" "1 2"
completes "vpmu stat -t /acme/web:e" "eu"
completes "vpmu stat --target=/b" "/bob"
completes "vpmu detach bill:" "march"
completes "vpmu pause web:" "1 2"
completes "vpmu profile -d 1 d" "db-1"
completes "vpmu vm rm web:" "1 2"
completes "vpmu vm save db" "db-1"
completes "vpmu vm save db-1 fi" "file.ini"
completes "vpmu vm restore im" "image_one.elf"
completes "vpmu vm restore image\\ o" "image_one.elf"
completes "vpmu tenant rm /acme/web:" "eu"
completes "vpmu tenant " "add rm set"
completes "vpmu tenant set /b" "/bob"
completes "vpmu tenant set /bob " "max_events= weight="
completes "vpmu vm set d" "db-1"
completes "vpmu vm set db-1 " "max_events= weight="

# Keys of VMs and their values.
completes "vpmu vm add e" "engine="
completes "vpmu vm add engine=" "auto emulator kvm"
completes "vpmu vm add name=x pmu=amd-" "amd-core amd-k7 amd-v2"
completes "vpmu vm add policy=s" "standard"
completes "vpmu vm add tenant=/acme/web:" "eu"
completes "vpmu vm add image=fi" "file.ini"
completes "vpmu vm add lbr=" "off on"
completes "vpmu vm restore f t" "tenant= tenant_max_events= tenant_weight= trust="

# The server's program.
completes "vpmu-vmm --ho" "--hold"
has_answers "vpmu-vmm --" --vm --config --pcpus --wait-attach
completes "vpmu-vmm --lbr=b" "branches"
completes "vpmu-vmm --migrate " "balance none random"
completes "vpmu-vmm --config=fi" "file.ini"
completes "vpmu-vmm -c fi" "file.ini"
completes "vpmu-vmm --vm ena" ""
completes "vpmu-vmm --vm name=x,eng" "x,engine="
completes "vpmu-vmm --vm name=x,engine=e" "emulator"
completes "vpmu-vmm --vm=pmu=intel-v" "intel-v2 intel-v3 intel-v4 intel-v5"

# Every key that is offered is taken, and every key that is taken is offered.
"$vpmu" vm add nope=1 2>"$dir/err"
ask "vpmu vm add "
check "the keys are those of the server" "$got" \
	"$(sed 's/.*expected //; s/, /\n/g' "$dir/err" | sed 's/$/=/' | LC_ALL=C sort | tr '\n' ' ')"
expected() { sed 's/.*expected //; s/, /\n/g' "$dir/err" | grep -vx "$1" | sed 's/$/=/' | LC_ALL=C sort | tr '\n' ' '; }
"$vpmu" vm restore f nope=1 2>"$dir/err"
ask "vpmu vm restore f "
check "the keys of vm restore" "$got" "$(expected file)"
"$vpmu" vm set db-1 nope=1 2>"$dir/err"
ask "vpmu vm set db-1 "
check "the keys of vm set" "$got" "$(expected name)"
"$vpmu" tenant set /bob nope=1 2>"$dir/err"
ask "vpmu tenant set /bob "
check "the keys of tenant set" "$got" "$(expected path)"
stop_server
completes "vpmu stat -t w" ""

# Names of a server that is not ours: words that a shell would expand, or take for an option, are not offered.
vm='{"kind":"vm","path":"/","depth":1,"vcpus":1,"backend":"emulator","vm":'
answers <<END
list {"nodes":[{"kind":"root","path":"/","depth":0},{"kind":"tenant","path":"/\$(id)","depth":1},$vm"\$(touch $dir/ran)"},$vm"\`touch $dir/ran\`"},$vm"a;touch $dir/ran"},$vm"*"},$vm"?????"},$vm"{a,b}"},$vm"~root"},$vm"-rf"},$vm"=ls"},$vm"a b"},$vm"a\tb"},$vm"a\nb"},$vm"a'b"},$vm"a\"b"},$vm"a\\\\b"},$vm"\tfiles\t"},$vm""},$vm"fine.1:@x"}],"ok":true}
sessions {"sessions":[{"session":"!!"},{"session":"&"},{"session":7},{"session":"ok"}],"ok":true}
END
completes "vpmu stat -t " "/ fine.1:@x"
completes "vpmu pause " "fine.1:@x"
completes "vpmu tenant rm " ""
completes "vpmu detach " "ok"
check "what a name runs" "$(ls "$dir" | grep ran)" ""

# A server that does not answer does not block the shell.
answers <<END
list +3600000 {"nodes":[],"ok":true}
END
ask_late() { VPMU_COMPLETE_SECONDS=1 timeout 300 "$vpmu" --complete pause ''; }
check "a server that does not answer" "$(ask_late; echo $?)" "1"
finish
