#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
# The rules of docs/operator-guide.md, as they stand there, for VMs in cgroups as those places have them. The test has
# a cgroup namespace of its own, so that paths begin where they do on a host.
if [ -z "${PLACES_INSIDE-}" ]; then
	. "$(dirname "$0")/vpmud_lib.inc"
	[ "$(id -u)" = 0 ] || { echo "# SKIP not root: vpmud cannot count"; exit 77; }
	command -v qemu-system-x86_64 >/dev/null || { echo "# SKIP no qemu-system-x86_64"; exit 77; }
	unshare -C -m true 2>/dev/null || { echo "# SKIP no right to make namespaces"; exit 77; }
	need_cgroups
	echo $$ >"$ground/cgroup.procs" || { echo "# SKIP processes cannot be moved to a cgroup"; exit 77; }
	PLACES_INSIDE=yes unshare -C -m sh "$0"
	status=$?
	echo $$ >"${ground%/*}/cgroup.procs"
	exit $status
fi
. "$(dirname "$0")/vpmud_lib.inc"
page=$(cd "$(dirname "$0")/../../docs" && pwd)/operator-guide.md
need_run
mkdir "$dir/cg"
mount -t cgroup2 none "$dir/cg" || { echo "# SKIP cgroup2 cannot be mounted in a namespace"; exit 77; }
ground=$dir/cg
leave() { # processes that end leave cgroups behind
	end_places
	umount "$dir/cg" 2>/dev/null
	umount "$dir/bpf" 2>/dev/null
}
on_exit=leave
printf '\372\353\376' >"$dir/busy.img" # cli; jmp .: its first vCPU loops
head -c 507 /dev/zero >>"$dir/busy.img"
printf '\125\252' >>"$dir/busy.img"
head -c 65024 /dev/zero >>"$dir/busy.img"
chmod 711 "$dir" # other users may read it, too

section() { # NAME: the lines of the block
	awk -v want="place=$1" '/^```/ { on = !on && $1 == "```ini" && $2 == want; next } on' "$page"
}
row() { "$vpmu" list -j | jq -r --arg v "$1" 'select(.vm == $v) | .path'; }
is() { [ "$(row "$1")" = "$2" ]; }
gone() { [ -z "$(row "$1")" ]; }
counts() { [ "$("$vpmu" stat --session all -j | jq -r --arg t "$1" 'select(.tenant == $t) | .count')" -gt 20000000 ] 2>/dev/null; }
disbelieved() { "$vpmu" check | grep -q '^names of VMs'; }
tried=

# place BLOCK CGROUP VM TENANT [USER]: a VM named VM in CGROUP, which USER runs, is found in TENANT, and counted for it
place() {
	tried="$tried $1"
	section "$1" >"$dir/section"
	[ -s "$dir/section" ] || { check "docs/operator-guide.md has place=$1" no yes; return; }
	{
		printf '[vpmud]\nsocket = %s\npin_dir = none\nlibvirt = none\ncgroup_root = %s\n' \
			"$VPMU_SOCKET" "$ground"
		cat "$dir/section"
	} >"$conf"
	mkdir -p "$ground$2"
	start
	"$vpmu" attach all -e task-clock --for-each tenant >/dev/null || exit 1
	sh -c 'echo $$ >"$0/cgroup.procs" && exec "$@"' "$ground$2" ${5:+setpriv --reuid $5 --clear-groups} qemu-system-x86_64 \
		-name "$3,debug-threads=on" -machine pc,accel=tcg -m 16 -display none -serial none -monitor none \
		-net none -drive "file=$dir/busy.img,format=raw,if=ide,snapshot=on" >/dev/null 2>&1 &
	vm=$!
	jobs="$jobs $vm"
	found() { [ -n "$(row "$3")" ] || ! kill -0 "$vm" 2>/dev/null; }
	wait_for "$server" found "$1" "$2" "$3"
	check "$1: the tenant of $3 in $2" "$(row "$3")" "$4"
	if is "$3" "$4"; then
		wait_for "$server $vm" counts "$4"
		counts "$4" || check "$1: $4 has counts" no yes
	fi
	if [ "${5-}" = 2002 ]; then # who may not have such a name
		wait_for "$server $vm" disbelieved
		check_match "$1: vpmu check" "$("$vpmu" check)" '^names of VMs +no +1 named as VMs of a tenant'
		check_match "$1: the log" "$(cat "$dir/server.log")" "^vpmud: VM $3, process $vm: its name makes it no VM of"
	fi
	kill "$vm"
	wait "$vm" 2>/dev/null
	kill_server
	find "$ground$2" -depth -type d -exec rmdir {} + 2>/dev/null
}

scope=/machine.slice/machine-qemu
# A name that is not from libvirt, which is not queried here, chooses nothing.
place libvirt-name "${scope}\\x2d1\\x2dacme\\x2dweb.scope/libvirt/emulator" acme-web /host
place libvirt-scope "${scope}\\x2d2\\x2dacme\\x2ddb.scope/libvirt/emulator" db /acme
pod=3d9f0b52_1c7e_4a35_9a59_0c4f4c7f3f10
slices=/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod$pod.slice
place kubevirt-systemd "$slices/cri-containerd-0123.scope" default_vm1 \
	"/pods/burstable/kubepods-burstable-pod$pod.slice"
place kubevirt-systemd "/kubepods.slice/kubepods-pod$pod.slice/crio-0123.scope" default_vm2 \
	"/pods/guaranteed/kubepods-pod$pod.slice"
place kubevirt-cgroupfs /kubepods/besteffort/pod3d9f0b52-1c7e-4a35-9a59-0c4f4c7f3f10/0123 default_vm3 \
	/pods/pod3d9f0b52-1c7e-4a35-9a59-0c4f4c7f3f10
place kubevirt-namespace "$slices/cri-containerd-0123.scope" shop_vm /namespaces/shop
place kata "$slices/kata_0123" sandbox-0123 "/pods/burstable/kubepods-burstable-pod$pod.slice"
place proxmox /qemu.slice/100.scope web /pve/100.scope
place qemu-name /user.slice/script lab-1 /lab 2001
place qemu-name /user.slice/other lab-2 /host 2002
place qemu-slice /lab.slice/run-r1.scope other /lab

# Every section of the page is tried: those for metadata need libvirt, so they are read only (container.sh libvirt in
# tests/packages tries libvirt-metadata).
for name in $(sed -n 's/^```ini place=//p' "$page"); do
	case " $tried nova libvirt-metadata " in *" $name "*) ;; *) check "place=$name is tried" no yes ;; esac
done
for name in nova libvirt-metadata; do
	{ printf '[vpmud]\nsocket = %s\n' "$VPMU_SOCKET"; section $name; } >"$conf"
	check "$name: the section is accepted" "$("$vpmud" -c "$conf" --check-config 2>&1 >/dev/null)" ""
done
finish
