#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
# Tenants as real cgroup2 directories: made and removed with them, their ids, vCPU threads of the
# KVM engine in their tenants' cgroups, everything gone and the process back at the end.
. "$(dirname "$0")/cli_lib.inc"

ground=
for mount in /sys/fs/cgroup/unified /sys/fs/cgroup; do
	[ "$(stat -f -c %T $mount 2>/dev/null)" = cgroup2fs ] || continue
	mkdir $mount/vpmu-cli-$$ 2>/dev/null && ground=$mount/vpmu-cli-$$ && break
done
[ -n "$ground" ] || { echo "# SKIP no cgroup2 directory this user may write to"; exit 77; }
remove_ground() {
	find "$ground" -depth -type d -exec rmdir {} + 2>/dev/null
}
on_exit=remove_ground

before=$(grep '^0::' /proc/self/cgroup)
start_server --cgroup-root "$ground" --vm "$(vm s-1 tenant=/acme/web 'run loop 1000')"
wait_state s-1 done
check "directories" "$(cd "$ground" && find . -type d | sort | tr '\n' ' ')" ". ./acme ./acme/web "
check "ids" "$("$vpmu" list -j | sed -n 's/.*"path":"\/acme\/web","depth":2,"id":"\([0-9]*\)".*/\1/p')" \
	"$(stat -c %i "$ground/acme/web")"
check_match "list shows them" "$("$vpmu" list)" "web +tenant +$ground/acme/web"
check_match "check says so" "$("$vpmu" check)" "tenants are cgroups +yes +$ground"
"$vpmu" tenant add /bob/ci || exit 1
check "a new one" "$(stat -c %F "$ground/bob/ci")" directory
"$vpmu" tenant rm /bob/ci || exit 1
check "is gone with its tenant" "$(ls -d "$ground/bob/ci" 2>/dev/null)" ""
check_match "names of kernel files" "$("$vpmu" tenant add /bob/cgroup.procs 2>&1)" 'file of the kernel'

if "$vpmu" check | grep -q 'KVM engine *yes'; then
	"$vpmu" vm add name=k-1 tenant=/bob vcpus=2 engine=kvm image="$image" args="spin 1000000" || exit 1
	wait_state k-1 running
	# Two vCPU threads; on newer kernels a helper thread that KVM makes from the first of them as well.
	two() { [ "$(wc -l <"$ground/bob/cgroup.threads")" -ge 2 ]; }
	wait_for "$server" two || exit 1
	while read -r tid; do
		[ -d "/proc/$server/task/$tid" ] || check "threads of the server only" "$tid" "one of them"
	done <"$ground/bob/cgroup.threads"
	check "which is threaded" "$(cat "$ground/bob/cgroup.type")" threaded
	"$vpmu" attach k -e ref-cycles -t /bob || exit 1
	counted() { [ "$("$vpmu" stat --session k -x, | cut -d, -f1)" -gt 0 ]; }
	wait_for "$server" counted
	n=$("$vpmu" detach k -x, | cut -d, -f1)
	[ "$n" -gt 0 ] 2>/dev/null || check "counts of the cgroup's VM" "$n" "more than 0"
	"$vpmu" vm rm k-1 || exit 1
	"$vpmu" tenant rm /bob || exit 1
	check "the directory goes with the last VM" "$(ls -d "$ground/bob" 2>/dev/null)" ""
else
	echo "# SKIP the KVM part: no KVM engine"
fi
stop_server
check "nothing is left below the root" "$(find "$ground" -mindepth 1 -type d)" ""
# Directories of a server that was killed belong to the next one; those of another one, or of none, do not.
mkdir "$ground/kept" "$ground/kept/old"
start_server --cgroup-root "$ground" --vm "$(vm s-1 tenant=/acme/web 'run loop 1000')" \
	--vm "$(vm s-2 tenant=/kept/old 'run loop 1000')"
if getfattr -n user.vpmu.maker "$ground/acme" >/dev/null 2>&1 || ! command -v getfattr >/dev/null; then
	VPMU_SOCKET=$dir/second.sock
	"$vmm" --cgroup-root "$ground" --socket "$VPMU_SOCKET" --vm "$(vm s-3 tenant=/acme/web 'run loop 1000')" >/dev/null
	check "a second server leaves what the first one made" "$(ls -d "$ground/acme/web")" "$ground/acme/web"
	VPMU_SOCKET=$dir/s.sock
	kill_server KILL
	check "killed: they are there" "$(ls -d "$ground/acme/web")" "$ground/acme/web"
	start_server --cgroup-root "$ground" --vm "$(vm s-1 tenant=/acme/web 'run loop 1000')" \
		--vm "$(vm s-2 tenant=/kept/old 'run loop 1000')"
	stop_server
	check "taken over, and gone" "$(ls "$ground" | grep acme)" ""
	check "those of nobody stay" "$(ls -d "$ground/kept/old")" "$ground/kept/old"
else
	echo "# SKIP directories of a killed server: this kernel has no attributes of cgroups"
	stop_server
fi
rmdir "$ground/kept/old" "$ground/kept"
check "nobody is left in the root" "$(cat "$ground/cgroup.procs")" ""
check "we are where we were" "$(grep '^0::' /proc/self/cgroup)" "$before"
finish
