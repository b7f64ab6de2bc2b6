# SPDX-License-Identifier: GPL-2.0-or-later
# Containment as it is when VMs run: every thread's rights, the lines of `vpmu check`, and that all
# that a server is for still works. Lost operations of a contained process: unit.test_contain.
. "$(dirname "$0")/cli_lib.inc"

said() { # STEP: "true" or "false" of `check`
	"$vpmu" check -j | jq -r --arg w "contain: $1" 'select(.what == $w) | .ok'
}

# facts FIELD: of every thread, each value once
facts() {
	cat /proc/"$server"/task/*/status | sed -n "s/^$1:[[:space:]]*//p" | sort -u
}

all_works() { # WHAT
	"$vpmu" vm add name=late engine=emulator image="$image" tenant=/late args="run loop 3" || exit 1
	wait_state late "done"
	check "$1: a VM that is added" "$("$vpmu" console late)" 'vcpu 0: loop 3 = 6'
	"$vpmu" vm save web web.snap && "$vpmu" vm rm web && "$vpmu" vm restore web.snap trust=yes ||
		check "$1: snapshots" refused work
	check "$1: the snapshot" "$(find "$dir/snaps" -name '*.snap' | wc -l)" 1
	rm -f "$dir/snaps/web.snap"
	"$vpmu" profile -d 0.1 / >"$dir/out" 2>&1
	check "$1: profile" $? 0
	if out=$("$vpmu" vm add name=k engine=kvm image="$image" args="run loop 3" 2>&1); then
		wait_state k "done"
		check "$1: KVM" "$("$vpmu" console k)" 'vcpu 0: loop 3 = 6'
	else
		echo "# SKIP $1: the KVM part: $out"
	fi
}

contained() { # WHAT
	check "$1: no new privileges" "$(said 'no new privileges') $(facts NoNewPrivs)" "true 1"
	case $("$vpmu" check -j | jq -r 'select(.what == "contain: system calls") | .why') in
	*sanitizer*) echo "# SKIP $1: seccomp: a build with a sanitizer" ;;
	*) check "$1: seccomp" "$(said 'system calls') $(facts Seccomp)" "true 2" ;;
	esac
	check_match "$1: capabilities" "$(said capabilities) $(facts CapEff)" '^true 0000000?0?[04]0000000000?$'
	check "$1: threads" "$([ "$(ls /proc/"$server"/task | wc -l)" -gt 2 ] && echo many)" many
}

mkdir "$dir/snaps"
start_server --snapshot-dir "$dir/snaps" --vm "$(vm web vcpus=2,console="$dir/web.con" spin)"
wait_state web running
contained "as this user"
all_works "as this user"
stop_server
check "the socket is gone" "$(ls "$VPMU_SOCKET" 2>/dev/null)" ""

# Another user
if [ "$(id -u)" = 0 ] && id nobody >/dev/null 2>&1; then
	chmod 755 "$dir"
	chown nobody "$dir/snaps"
	cp "$image" "$dir/guest.elf" && image=$dir/guest.elf # the build may be where only root looks
	start_server --user nobody --snapshot-dir "$dir/snaps" --vm "$(vm web vcpus=2,console="$dir/web.con" spin)"
	wait_state web running
	contained "as nobody"
	uid=$(id -u nobody)
	check "as nobody: user" "$(said user) $(facts Uid | tr '\t' ' ')" "true $uid $uid $uid $uid"
	check "as nobody: groups" "$(facts Groups | tr -d ' ')" "$(id -g nobody)"
	all_works "as nobody"
	stop_server
else
	echo "# SKIP another user: needs root and a user nobody"
fi

refused() { # STATUS TEXT ARG...
	s=$1 p=$2
	shift 2
	refuses "$s" "$p" "$vmm" --no-socket "$@"
}
refused 1 'no user "no-such-user"' --user no-such-user --vm "$(vm a vcpus=1 help)"
if [ "$(id -u)" = 0 ]; then
	cp "$vmm" "$dir/vmm"
	chmod 755 "$dir/vmm" "$dir"
	su -s /bin/sh nobody -c "'$dir/vmm' --no-socket --user root --vm '$(vm a vcpus=1 help)'" >"$dir/out" 2>"$dir/err"
	check_match "only root becomes another user" "$? $(cat "$dir/err")" '^1 .*only root can become "root"'
fi

# RAM of all VMs
refused 1 'vm b/memory: 16M is invalid; expected up to 8M, what other VMs have left of the 24M of --ram-limit' \
	--ram-limit 24M --vm "$(vm a vcpus=1 spin)" --vm "$(vm b vcpus=1 spin)"
refused 2 'host/ram_limit: "1M" is invalid; expected 4M to' --ram-limit 1M --vm "$(vm a vcpus=1 spin)"
start_server --ram-limit 40M --vm "$(vm a vcpus=1 spin)" --vm "$(vm b vcpus=1 "run loop 3")"
wait_state b done
more() { "$vpmu" vm add name="$1" engine=emulator image="$image" args=spin memory="$2" 2>&1; }
check "an ended VM has no RAM" "$(more c 24M)" "VM c added"
check_match "a full machine" "$(more d 4M)" 'vm d/memory: 4M is invalid; expected up to 0M'
"$vpmu" vm rm c >"$dir/out"
check "a removed VM has none either" "$(more d 24M)" "VM d added"
check_match "by the machine's size" "$("$vmm" --no-socket --vm "$(vm a vcpus=1,memory=64G spin)" \
	--vm "$(vm b vcpus=1,memory=64G spin)" --vm "$(vm c vcpus=1,memory=64G spin)" --ram-limit 150G 2>&1)" \
	'vm c/memory: 65536M is invalid; expected up to 22528M'
stop_server
finish
