#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
# What "container.sh qemu" runs inside of a Debian with libvirt's system daemon (qemu:///system), as root, under systemd:
# "Under libvirt" of docs/guest-guide.md as it is written there, with /dev/kvm, QEMU as libvirt-qemu and libvirt's seccomp
# sandbox. With VMS=10, which takes minutes: so many VMs of two tenants under one libvirt, each with a PMU that its guest
# uses all the while, counted by a vpmud that is killed KILLS times: each tenant's count is the sum of its VMs',
# conservation holds, the guests' counters go on, and when VMs are killed, too, nothing is left behind.
# With PLANT=pins vpmud's pins are removed after the first kill, with PLANT=lines AppArmor's lines are not included, with
# PLANT=emulator the domain keeps QEMU as it is: then the script must fail.
. /root/test/inside.inc
export LIBVIRT_DEFAULT_URI=qemu:///system
images=/var/lib/libvirt/images

names() { virsh list --name | grep .; }
trap 'for d in $(names); do virsh destroy "$d"; done >/dev/null 2>&1' EXIT

# ---- the device ----
mknod -m 660 /dev/kvm c 10 232 && chgrp kvm /dev/kvm || exit 1
if ! su -s /bin/sh -c ': <>/dev/kvm' libvirt-qemu 2>/dev/null; then
	echo "# SKIP libvirt-qemu cannot open a /dev/kvm here"
	echo 'inside: all done'
	exit 0
fi

# domain NAME EMULATOR [TENANT [CPU]]: the test guest, whose serial port is a pair of FIFOs. The CPU as this KVM lets QEMU 7.2 have it.
domain() {
	[ -e "$images/$1.in" ] || {
		mkfifo "$images/$1.in" "$images/$1.out" || exit 1
		sleep infinity <>"$images/$1.in" >/dev/null &
		cat <>"$images/$1.out" >>"$1.text" &
	}
	[ "$2" = vpmu-qemu ] && emulator=$(block guest-guide.md vpmu-qemu-devices) || emulator="<emulator>/usr/bin/qemu-system-x86_64</emulator>"
	cpu=$(block guest-guide.md "${4-vpmu-qemu-domain}" |
		sed "s|^\(<cpu [^>]*\)/>|\1></cpu>|; s|</cpu>|<feature policy='disable' name='arch-capabilities'/></cpu>|")
	cat >"$1.xml" <<-END
		<domain type='kvm'><name>$1</name><memory unit='MiB'>64</memory><vcpu>1</vcpu>
		<metadata><vpmu:tenant xmlns:vpmu='urn:vpmu:1'>${3-/acme}</vpmu:tenant></metadata>
		<os><type arch='x86_64' machine='pc'>hvm</type><kernel>$images/guest.elf</kernel></os>
		<features><acpi/><apic/></features>$cpu<devices>$emulator
		<serial type='pipe'><source path='$images/$1'/><target port='0'/></serial>
		<controller type='usb' model='none'/><video><model type='none'/></video><memballoon model='none'/></devices></domain>
	END
	need virsh define "$1.xml"
}
said() { grep -c "^$2" "$1.text"; }
process() { pgrep -f "guest=$1,"; }

# ---- the package, and the page ----
cp guest.elf "$images/" || exit 1
need systemctl restart libvirtd
need virsh version
now() { date +%s.%N; }
took() { now | awk -v b="$1" '{ printf "%.1f", $1 - b }'; }
begin=$(now)
need apt-get install -y --no-install-recommends ./new/vpmu-qemu_*.deb
install=$(took "$begin")
need apt-get install -y --no-install-recommends ./new/vpmud_*.deb ./new/vpmu_*.deb
domain web-1 qemu
need virsh start web-1
becomes "a domain of plain QEMU" 1 said web-1 'wrong$'
check "a guest of plain QEMU finds no PMU" "$(grep -c 'ok: a PMI' web-1.text)" 0
need virsh destroy web-1
need virsh undefine web-1
domain web-1 qemu /acme vpmu-qemu-guard
check "the guard with plain QEMU" "$(virsh start web-1 2>&1 | grep -c 'missing features: perfctr_nb')" 1
need virsh undefine web-1
domain web-1 qemu
: >web-1.text
block guest-guide.md vpmu-qemu-conf >/etc/vpmu/qemu.conf
[ "${PLANT-}" = lines ] || {
	before=$(grep -c . /etc/apparmor.d/local/abstractions/libvirt-qemu)
	[ -d /etc/apparmor.d/abstractions/libvirt-qemu.d ] || check "the package's lines" none some
	if ! grep -q 'include.*abstractions/libvirt-qemu.d>' /etc/apparmor.d/abstractions/libvirt-qemu; then
		block guest-guide.md vpmu-qemu-apparmor | need sh -e
		check "one line more" "$(grep -c . /etc/apparmor.d/local/abstractions/libvirt-qemu)" $((before + 1))
	fi
}
[ "${PLANT-}" = emulator ] || {
	need virsh undefine web-1
	domain web-1 vpmu-qemu
}
begin=$(now)
need virsh start web-1
becomes "a domain of vpmu-qemu" 1 said web-1 ready
start=$(took "$begin")
check "PMIs of its guest" "$(said web-1 'ok: a PMI')" 3
four='leaf 0AH EAX 0*8300405$\|leaf 80000022H EBX 0*4$'
check "its four counters" "$(said web-1 "$four")" 1
check "lines of vpmu in its log" "$(grep vpmu- /var/log/libvirt/qemu/web-1.log | grep -v 'LD_PRELOAD\|/usr/bin/vpmu-qemu')" ""
pid=$(process web-1)
check "its user" "$(stat -c %U "/proc/$pid")" libvirt-qemu
check "its seccomp sandbox" "$(sed -n 's/^Seccomp:\t//p' "/proc/$pid/status")" 2
check "-sandbox on" "$(tr '\0' ' ' <"/proc/$pid/cmdline" | grep -c -- '-sandbox on')" 1
check "not tainted" "$(grep -c tainted /var/log/libvirt/qemu/web-1.log)" 0
printf g >"$images/web-1.in"
becomes "its guest's end" 1 said web-1 'done'
need virsh destroy web-1
need virsh undefine web-1
rm /etc/vpmu/qemu.conf
domain web-1 vpmu-qemu /acme vpmu-qemu-guard
need virsh undefine web-1
{ sed 's|</domain>||' web-1.xml; block guest-guide.md vpmu-qemu-env; echo '</domain>'; } >web-2.xml
: >web-1.text
need virsh define web-2.xml
need virsh start web-1
becomes "a domain with variables and the guard" 1 said web-1 ready
check "its four counters, by a variable" "$(said web-1 "$four")" 1
need virsh destroy web-1
need virsh undefine web-1
echo "ok: libvirt's system daemon, libvirt-qemu, seccomp: the page's domain has a PMU, and none without vpmu-qemu; package \
$install s, from virsh start to a guest that has counted and taken PMIs $start s"

# ---- AppArmor: the profile that libvirt would write for this domain compiles, and has the package's lines ----
# The kernel's part is not tried: the rules are compiled, not loaded.
uuid=12345678-1234-1234-1234-123456789abc
need sh -c "sed 's|<memory|<uuid>$uuid</uuid><memory|' web-1.xml >aa.xml"
need sh -c "/usr/lib/libvirt/virt-aa-helper -d -r -u libvirt-$uuid <aa.xml >aa.files 2>&1"
{
	sed "s/LIBVIRT_TEMPLATE/libvirt-$uuid/; /^}/d" /etc/apparmor.d/libvirt/TEMPLATE.qemu
	grep '^  *"/\|^  *deny' aa.files
	echo '}'
} >aa.profile
need apparmor_parser -QKT aa.profile
apparmor_parser -p aa.profile >aa.all 2>/dev/null
for rule in '/usr/bin/vpmu-qemu rmix,' '/usr/lib/@{multiarch}/vpmu/vpmu-preload.so mr,' '/etc/vpmu/qemu.conf r,' \
	'@{run}/vpmu/vcpus.sock rw,' '/dev/kvm rw,' '"/var/lib/libvirt/images/guest.elf" r,'; do
	check "AppArmor: $rule" "$(grep -cF "$rule" aa.all)" 1
done
echo "ok: AppArmor: the domain's profile of $(grep -c , aa.all) lines compiles with the package's lines"

# ---- many VMs ----
if [ -z "${VMS-}" ]; then
	echo "# SKIP the VMs of two tenants, which take minutes: VMS=10 sh tests/packages/container.sh qemu"
	echo 'inside: all done'
	exit 0
fi
n=0 vms=
: >/etc/vpmu/qemu.conf
while [ $((n += 1)) -le "$VMS" ]; do
	vms="$vms vm-$n"
	domain "vm-$n" vpmu-qemu "/t$((n % 2))"
	need virsh start "vm-$n"
done
printf '[tenant /*]\nmetadata = *\n' >>/etc/vpmu/vpmud.conf
need systemctl restart vpmud
journalctl -u vpmud -o cat >log
if grep -Eq 'does not permit|no BTF' log; then
	echo "# SKIP the VMs of two tenants: $(grep -Em1 'does not permit|no BTF' log)"
	echo 'inside: all done'
	exit 0
fi
found() { vpmu list -j | jq -s '[.[] | .. | objects | select(.vm? != null and (.vm | startswith("vm-")) and (.path | startswith("/t")))] | length'; }
becomes "VMs found" "$VMS" found
for v in $vms; do becomes "the guest of $v" 1 said "$v" ready; done

# Frozen, the counts of both sessions are of one moment.
scopes() { ls -d /sys/fs/cgroup/machine.slice/machine-qemu*vm*.scope; }
freeze() { # 0 or 1
	for s in $(scopes); do echo "$1" >"$s/cgroup.freeze"; done
	for s in $(scopes); do
		until grep -q "frozen $1" "$s/cgroup.events" || [ ! -e "$s" ]; do sleep 0.1; done
	done
}
sum() { # SESSION TENANT: ns of the tenant's rows with a VM (vms) or of itself (tenants)
	vpmu stat --session "$1" -x, | awk -F, -v t="$2" -v s="$1" \
		'$3 == "task-clock" && $4 == t && ($5 != "") == (s == "vms") && $6 == "" { n += $1 } END { printf "%.0f", n * 1000000 }'
}
cpu() { # VM: by the kernel, in ns. Not by libvirt, which would wait for the frozen QEMU's monitor.
	sed -n 's/^usage_usec \(.*\)/\1000/p' /sys/fs/cgroup/machine.slice/machine-qemu*x2d"${1%-*}"*x2d"${1#*-}".scope/cpu.stat
}
stolen() { # what a hypervisor below took of all CPUs, in ns: task-clock has such time, the kernel's usage_usec has not
	awk -v hz="$(getconf CLK_TCK)" '$1 == "cpu" { printf "%.0f", $9 / hz * 1000000000 }' /proc/stat
}
one() { # VM: by vpmu
	vpmu stat --session vms -x, | awk -F, -v m="$1" '$3 == "task-clock" && $5 == m && $6 == "" { printf "%.0f", $1 * 1000000 }'
}
freeze 1
need vpmu attach tenants -e task-clock --for-each tenant
need vpmu attach vms -e task-clock --for-each vm
begin=$(cpu vm-1) steal=$(stolen)
freeze 0
k=0
while [ $((k += 1)) -le "${KILLS:-10}" ]; do
	pid=$(systemctl show -p MainPID --value vpmud)
	sed -n 's/^map_id:\t*//p' "/proc/$pid"/fdinfo/* 2>/dev/null >>maps
	need kill -9 "$pid"
	[ "${PLANT-}" != pins ] || [ $k != 1 ] || rm -rf /sys/fs/bpf/vpmu*
	sleep 1
	systemctl reset-failed vpmud.service vpmud.socket
	need systemctl start vpmud
	becomes "VMs found again after kill $k" "$VMS" found
done
freeze 1
for t in /t0 /t1; do
	all=$(sum tenants $t)
	check "$t is the sum of its VMs" "$(sum vms $t)" "$all"
	[ "$all" -gt 1000000000 ] || check "CPU time of $t" "$all" "more than a second"
	echo "ok: $t after ${KILLS:-10} kills of vpmud: $all ns, the sum of its VMs"
done
kernel=$(($(cpu vm-1) - begin)) ours=$(one vm-1) steal=$(($(stolen) - steal))
[ $((kernel - ours)) -lt 50000000 ] && [ $((ours - kernel)) -lt $((50000000 + steal)) ] ||
	check "CPU time of vm-1 over all kills" "$ours" "$kernel, as its cgroup has it"
echo "ok: CPU time of vm-1 over all kills: $ours ns; its cgroup has $kernel; stolen of all: $steal"
need vpmu conservation
freeze 0
for v in $vms; do printf g >"$images/$v.in"; done
for v in $vms; do
	becomes "the guest of $v went on" 1 said "$v" 'done'
	check "$v: no count went wrong" "$(said "$v" 'WRONG\|wrong')" 0
done
echo "ok: $VMS guests counted and took PMIs all the while"

# ---- killed: nothing is left ----
before=$(sum tenants /t1)
for v in $vms; do kill -9 "$(process "$v")"; done
becomes "VMs that libvirt runs" "" virsh list --name
becomes "VMs that vpmud has" 0 found
[ "$(sum tenants /t1)" -ge "$before" ] || check "the count of /t1 when its VMs are gone" "$(sum tenants /t1)" "at least $before"
need vpmu conservation
check "processes of QEMU" "$(pgrep -c qemu-system)" 0
check "their cgroups" "$(ls -d /sys/fs/cgroup/machine.slice/machine-qemu* 2>/dev/null)" ""
need vpmu detach vms
need vpmu detach tenants
need apt-get purge -y vpmud
check "pins" "$(ls /sys/fs/bpf | grep -vx 'maps.debug\|progs.debug')" "" # those two are the kernel's
check "sockets" "$(find /run/vpmu -type s 2>/dev/null)" ""
# The kernel frees maps after a grace period.
left() { for m in $(sort -un maps); do bpftool map show id "$m" 2>/dev/null | head -1; done; }
[ "$(sort -un maps | wc -l)" -gt 5 ] || check "maps of vpmud" "$(cat maps)" "more than 5"
becomes "maps of vpmud" "" left
echo "ok: VMs killed, vpmud purged: no process, cgroup, pin, socket or map of them is left"
echo 'inside: all done'
