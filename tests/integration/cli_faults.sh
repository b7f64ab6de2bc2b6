#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
# Commands that write files, with each allocation failing once, and each opening, writing, syncing, naming and
# closing of a file (fault.c). The command is done, and its file is as without a fault, or has no names of functions
# and a line has the reason; or it failed with one line and there is nothing. A disk that is full while the C library writes is a limit on the file's size.
#   FAULT_STEP=N: every N-th fault only
. "$(dirname "$0")/cli_lib.inc"
. "$(dirname "$0")/answers.inc"
preload=$VPMU_BIN/../tests/vpmu-fault.so
[ -e "$preload" ] || { echo "# SKIP no $preload: a build with sanitizers has allocators of its own"; exit 77; }
vm='{"kind":"vm","path":"/acme","depth":2,"vm":"spin","vcpus":1,"backend":"emulator","state":"running","engine":"emulator","pmu":"amd-v2","policy":"full","image":"'$image'"}'
chain() { # COUNT ADDRESS...
	n=$1 ips=
	shift
	for a in "$@"; do ips="$ips,\"$a\""; done
	printf '{"vm":"spin","samples":"%s","vcpu":0,"cpl":3,"chain":[%s]}' "$n" "${ips#,}"
}
branch='{"from":"0x204388","to":"0x204363","type":"ret","cycles":21}'
answers <<END
hello {"commands":["hello","list"],"server":"vpmud","version":"0.1.0","protocol":1,"access":"admin","pid":1,"ok":true}
list {"nodes":[{"kind":"root","path":"/","depth":0},{"kind":"tenant","path":"/acme","depth":1},$vm],"ok":true}
profile-start {"profile":"@1","target":"/","event":"instructions","period":"1000","lbr":true,"backend":"emulator","ok":true}
profile-stop {"profile":"@1","target":"/","lost":"0","event":"instructions","period":"1000","lbr":true,"backend":"emulator","samples":"5","late-max":"0","count":"5000","counter-value":"5000","enabled-ns":"1","running-ns":"1","quality":"exact","supported":true,"rows":[],"nr-rows":0,"other-rows":"0","chains":[$(chain 3 0x204340 0x20435e 0x204373),$(chain 2 0x204363)],"other-chains":"0","ok":true}
lbr-attach {"capture":"@1","target":"/","mode":"branches","backend":"emulator","ok":true}
lbr-read {"rows":[{"vm":"spin","vcpu":0,"backend":"emulator","entries":[$branch,$branch],"source":"capture","mode":"branches","total":"2"}],"ok":true}
lbr-detach {"ok":true}
profiles {"profiles":[],"ok":true}
sessions {"sessions":[{"session":"s","target":"/acme","for-each":"vm","nr-rows":1}],"ok":true}
sharing {"backends":[{"backend":"emulator","consumers":1,"keys":1,"host-counters":1}],"ok":true}
check {"rows":[{"what":"events","ok":false,"why":"no PMU","backend":"emulator"}],"ok":true}
END
target=$dir/out.file
step=${FAULT_STEP:-1}
faulty() { # KIND AT COMMAND...
	k=$1 n=$2
	shift 2
	FAULT=$k FAULT_AT=$n FAULT_COUNT=$dir/count LD_PRELOAD=$preload "$@" >"$dir/said" 2>"$dir/err"
}

# A file's contents, without the times in it.
meaning() {
	case $1 in
	pprof) gzip -dc <"$2" | strings -n 4 ;;
	metrics) sed 's/ [^ ]*$//' "$2" ;;
	*) cat "$2" ;;
	esac
}

# These run thousands of times: by the shell itself.
one_line() { # FILE
	{ IFS= read -r first && ! IFS= read -r second && [ -z "$second" ]; } <"$1" || return 1
	case $first in "vpmu: "*) ;; *) return 1 ;; esac
}

sweep() { # FORM KIND COMMAND...
	form=$1 kind=$2
	shift 2
	rm -f "$target"
	faulty "$kind" 0 "$@" || check "$*" "$(cat "$dir/err")" "done without a fault"
	meaning "$form" "$target" >"$dir/whole" 2>&1
	calls=$(cat "$dir/count") i=1 done=0 refused=0
	[ "$calls" -ge 1 ] || [ $kind = opens ] || check "$*: $kind" "$calls calls" "some"
	while [ "$i" -le "$calls" ] && [ "$failures" -lt 30 ]; do
		[ ! -e "$target" ] || rm -f "$target"
		faulty "$kind" "$i" "$@"
		status=$?
		if [ $status = 0 ]; then
			done=$((done + 1))
			meaning "$form" "$target" >"$dir/now" 2>&1
			[ -s "$target" ] || check "$*: $kind $i: its file" none "one"
			cmp -s "$dir/whole" "$dir/now" || grep -q '^vpmu: no names of functions: ' "$dir/err" ||
				check "$*: $kind $i: its file" "$(cat "$dir/now" "$dir/err")" "$(cat "$dir/whole")"
		else
			refused=$((refused + 1))
			[ $status -lt 128 ] || check "$*: $kind $i" "status $status: $(cat "$dir/err")" "no signal"
			one_line "$dir/err" || check "$*: $kind $i: the error" "$(cat "$dir/err")" "one line of vpmu"
			[ ! -e "$target" ] || check "$*: $kind $i: the file" "it is there" "none"
		fi
		for left in "$target".*; do
			[ ! -e "$left" ] || { check "$*: $kind $i: what is left beside it" "$left" "" && rm -f "$left"; }
		done
		i=$((i + step))
	done
	echo "# $form: $calls calls of kind $kind: $refused refused, $done done"
}

for kind in files opens memory; do
	sweep text $kind "$vpmu" profile --format=perf-script -d 0.001 -o "$target"
	sweep pprof $kind "$vpmu" profile --format=pprof -d 0.001 -o "$target"
	sweep text $kind "$vpmu" lbr --format=brstack -n 1 -d 0.001 -o "$target"
done

# ---- a full disk, as the C library finds it ----
full() { # COMMAND...
	for command in "$@"; do
		rm -f "$target"
		# shellcheck disable=SC2086
		said=$(ulimit -f 0; "$vpmu" $command "$target" 2>&1) && check "$command: a full disk" accepted refused
		check_match "$command: a full disk" "$said" '^vpmu: .*out\.file: .*File too large$'
		check "$command: what is left" "$(ls "$dir" | grep '^out\.file')" ""
	done
}
full "profile --format=perf-script -d 0.001 -o" "profile --format=pprof -d 0.001 -o" "lbr --format=brstack -n 1 -d 0.001 -o"

# ---- a command with several requests ----
kill_server
start_server --hold --paused --vm "name=spin,engine=emulator,image=$image,args=spin"
for kind in files opens memory; do
	sweep metrics $kind "$vpmu" metrics --textfile "$target"
	[ "$step" -ge 7 ] || step=7 # many calls
done
full "metrics --textfile"
finish
