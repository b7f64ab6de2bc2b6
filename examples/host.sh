#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
# This host, counted by vpmud, without a VMM of ours: examples/host.sh [--json]
# Two tenants: a QEMU domain in each where there are QEMU and libvirt, and else a cgroup. One computes; the
# other one wakes up again and again, or starts programs. vpmud is killed while they run, and the counts go on.
# Needs root, cgroup2 and BPF.
. "$(dirname "$0")/acts.sh"

ground= # a cgroup2 directory
homes=  # the domains' files
end_domains() { # they outlive libvirt's driver
	local f
	[ -n "$homes" ] || return 0
	for f in "$homes"/run/qemu/*.pid; do
		[ ! -s "$f" ] || kill -KILL "$(cat "$f")" 2>/dev/null
	done
	exec 9>&-
	rm -rf "$homes"
	homes=
}
act_cleanup() {
	end_domains
	[ -n "$ground" ] && find "$ground" -depth -type d -exec rmdir {} + 2>/dev/null
	umount "$work/bpf" 2>/dev/null
}

host_end() {
	[ -n "$look_pids" ] && kill $look_pids && wait $look_pids 2>/dev/null
	look_pids=
	[ -n "$vmm_pid" ] && kill "$vmm_pid" && wait "$vmm_pid"
	vmm_pid=
}

in_cgroup() { # DIR COMMAND: in the background
	sh -c 'echo $$ >"$0/cgroup.procs" && eval "$1"' "$1" "$2" &
	look_pids="$look_pids $!"
}

# domain NAME CODE: its guest executes CODE, the beginning of a boot sector
domain() {
	{
		printf "$2"
		head -c $((510 - $(printf "$2" | wc -c))) /dev/zero
		printf '\125\252'
		head -c 65024 /dev/zero
	} >"$homes/$1.img"
	cat >"$homes/$1.xml" <<END
<domain type='qemu'><name>$1</name><memory unit='MiB'>32</memory><vcpu>1</vcpu>
<os><type arch='x86_64' machine='pc'>hvm</type></os><devices>
<disk type='file' device='disk'><driver name='qemu' type='raw'/><source file='$homes/$1.img'/>
<target dev='hda' bus='ide'/></disk>
<video><model type='none'/></video><memballoon model='none'/></devices></domain>
END
}

# Domains acme-vm and globex-vm of libvirt's embedded driver, which virsh has as long as it runs. It runs as nobody:
# for root, libvirt wants a user that only one of its packages makes. If they cannot run, $lacks has the reason.
start_domains() {
	local user=65534 p
	for p in virsh qemu-system-x86_64; do
		command -v $p >/dev/null || { lacks="$p is not installed"; return 1; }
	done
	[ "$(id -u)" = 0 ] || { lacks="this user is not root"; return 1; }
	homes=/run/vpmu-demo-$$
	mkdir -m 700 "$homes" "$homes/etc" 2>/dev/null || { homes= lacks="no directory can be made in /run"; return 1; }
	printf '%s\n' 'security_driver = "none"' 'cgroup_controllers = []' 'namespaces = []' \
		'stdio_handler = "file"' 'remember_owner = 0' >"$homes/etc/qemu.conf"
	domain acme-vm-$$ '\372\353\376'       # cli; jmp .
	domain globex-vm-$$ '\373\364\353\375' # sti; 1: hlt; jmp 1b: 18 interrupts a second
	mkfifo "$work/virsh"
	chown -R $user:$user "$homes"
	env HOME="$homes" LIBVIRT_LOG_OUTPUTS=4:file:/dev/null setpriv --reuid $user --regid $user --clear-groups \
		virsh -q -c "qemu:///embed?root=$homes" <"$work/virsh" >"$work/virsh.log" 2>&1 &
	look_pids="$look_pids $!"
	exec 9>"$work/virsh"
	printf 'create %s\n' "$homes/acme-vm-$$.xml" "$homes/globex-vm-$$.xml" >&9
	until [ -s "$homes/run/qemu/acme-vm-$$.pid" ] && [ -s "$homes/run/qemu/globex-vm-$$.pid" ]; do
		if ! kill -0 ${look_pids##* } 2>/dev/null || grep -q '^error' "$work/virsh.log"; then
			lacks="libvirt: $(grep -m 1 '^error' "$work/virsh.log")"
			return 1
		fi
		sleep 0.05
	done
}

for mount in /sys/fs/cgroup/unified /sys/fs/cgroup; do
	[ "$(stat -f -c %T $mount 2>/dev/null)" = cgroup2fs ] && mkdir $mount/vpmu-demo-$$ 2>/dev/null &&
		ground=$mount/vpmu-demo-$$ && break
done
[ -n "$ground" ] || cannot "there is no cgroup2 directory that this user may write to"
mkdir "$ground/acme" "$ground/globex"
rm -f "$VPMU_SOCKET"
# Where counts are pinned, so that they outlive vpmud.
mkdir "$work/bpf"
pins=none
mount -t bpf bpf "$work/bpf" 2>/dev/null && pins=$work/bpf/vpmu
cat >"$work/vpmud.conf" <<END
[vpmud]
socket = $VPMU_SOCKET
pin_dir = $pins
libvirt = none
[tenant /acme]
cgroup = /${ground##*/}/acme
vm = acme-vm-$$
vm_owner = 65534
[tenant /globex]
cgroup = /${ground##*/}/globex
vm = globex-vm-$$
vm_owner = 65534
END
"$vpmud" --check-config -c "$work/vpmud.conf" >"$work/vpmud.err" 2>&1 || die "$(tail -n 1 "$work/vpmud.err")"
start_vpmud() {
	"$vpmud" -c "$work/vpmud.conf" 2>"$work/vpmud.err" &
	vmm_pid=$!
	until "$vpmu" list >/dev/null 2>&1; do
		kill -0 "$vmm_pid" 2>/dev/null || return 1
		sleep 0.05
	done
}
if ! start_vpmud; then
	vmm_pid=
	cannot "$(tail -n 1 "$work/vpmud.err")"
fi
if start_domains; then
	until [ "$("$vpmu" list -j | grep -c "\"vm\":\"\(acme\|globex\)-vm-$$\".*\"vcpus\":1")" = 2 ]; do
		kill -0 "$vmm_pid" 2>/dev/null || die "vpmud has ended: $(tail -n 1 "$work/vpmud.err")"
		sleep 0.05
	done
	note "This host, counted by vpmud: two tenants with a QEMU domain of libvirt each, one computes, one wakes up"
	note "18 times a second"
	note ""
	[ "$json" = 1 ] || "$vpmu" list | sed 's/ counted=.*//; s/ uuid=[^ ]*//; s/^/    /'
else
	end_domains
	in_cgroup "$ground/acme" 'while :; do :; done'
	in_cgroup "$ground/globex" 'while :; do /bin/true; done'
	note "This host, counted by vpmud: two tenants of plain cgroups, one computes, one starts programs (no QEMU domains:"
	note "$lacks)"
fi
note ""
"$vpmu" attach -e context-switches,page-faults,task-clock --for-each tenant demo >/dev/null || die "vpmud counts nothing"
counts='map({key: (.tenant + " " + .event), value: (.count | tonumber)}) | from_entries'
# Until both have done something.
until "$vpmu" stat --session demo -j | jq -se "$counts"' | ."/acme task-clock" > 300000000 and
	."/globex context-switches" > 10' >/dev/null; do
	kill -0 "$vmm_pid" 2>/dev/null || die "vpmud has ended: $(tail -n 1 "$work/vpmud.err")"
	sleep 0.05
done
if [ "$pins" != none ]; then
	note "vpmud is killed with signal 9, and another one started. The counts go on where they were:"
	before=$("$vpmu" stat --session demo -j)
	kill -KILL "$vmm_pid"
	wait "$vmm_pid" 2>/dev/null
	start_vpmud || die "vpmud does not start again: $(tail -n 1 "$work/vpmud.err")"
	after=$("$vpmu" stat --session demo -j) || die "the session has not survived"
	[ "$(jq -s --argjson after "$(jq -sc "$counts" <<<"$after")" "$counts"' | to_entries |
		length > 0 and all($after[.key] >= .value)' <<<"$before")" = true ] || die "a count went back"
fi
if [ "$json" = 1 ]; then
	print_json_tenants
else
	"$vpmu" stat --session demo | sed 's/^/    /'
	note "Is anything lost?"
	"$vpmu" conservation | sed 's/^/    /'
fi
conserved "on this host"
"$vpmu" detach demo >/dev/null
host_end
