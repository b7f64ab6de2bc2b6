#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
# Stock Linux in a stock QEMU under vpmu-qemu, on a real KVM: tests/preload/nested.sh CASE [MODEL[:VCPUS]...]
#   models    one guest for each MODEL (none: amd-v2): the kernel's driver must name the model's PMU, perf stat must count
#             known numbers of instructions, which are ticks of the TSC here, and each of 1000 (BED_PMIS) periods must be a
#             sample and a PMI
#   life      a guest of each MODEL (none: amd-v2) that is given a second CPU, boots again, is saved by savevm and goes
#             back there by loadvm, and loses its second CPU: it counts and takes PMIs after each of these
#   move      a guest of each MODEL (none: amd-v2) that migrates to another QEMU over a socket, and through a file to a
#             third one, while its perf counts
#   kexec     a guest of each MODEL (none: amd-v2) that starts another kernel by kexec: it counts, by RDPMC, and takes
#             PMIs in both
#   eoi       eoi.c with and without KVM's PV EOI, vpmu-qemu and NMIs, for BED_INTERRUPTS (2000) of its timer: each
#             interrupt must come once. QEMU's emulated SVM repeats some, which is only reported; in the lab none may be
#   apparmor  guest.c in a QEMU of each MODEL (none: amd-v2) with the profile that Debian 12's libvirt, or with BED_QEMU
#             Debian 13's, gives a domain, which the kernel enforces: with the guest guide's line, or as installed on
#             Debian 13, nothing is denied, without it, or without the package's lines, vpmu-qemu
# Each case is one boot of the nested bed (tests/nested/run), in which this system's QEMU, or that of tools/qemu (BED_QEMU=13
# or new), runs Debian 12's cloud kernel, or another one of tools/linux-guest (BED_GUEST=13cloud and so on), with stock perf.
# With BED_LAB=amd-v2 the bed is the emulator's lab, which takes a third of the CPU time. Skipped (77) when something is missing.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
top=$(cd "$here/../.." && pwd)
build=${VPMU_BUILD:-$top/build}
linux=$build/linux
guest=${BED_GUEST:-cloud}
pmis=${BED_PMIS:-1000}
period=1000000
mb=384 # of a guest
export BED_CPUS=${BED_CPUS:-1} # with --exact only one executes at a time

skip() {
	echo "# SKIP nested: $*"
	exit 77
}

. "$here/../nested/qemu.inc"
files=$(qemu_files) || skip "$(echo "$files" | tail -n 1)"
[ -e "$linux/complete" ] && [ -e "$linux/$guest.vmlinuz" ] || skip "no Linux guests (tools/linux-guest)"
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
trap 'exit 130' INT TERM PIPE
guest_files="$linux/$guest.vmlinuz $tmp/guest.initrd"
# 200000 instructions of nested-spin in ticks, and the most that a round of 40000000 may be. The lab's CPU takes a cycle for each
# instruction and one more for a taken branch.
exact=--exact ticks=200000 most=60000000
[ -z "${BED_LAB-}" ] || exact='' ticks=300000 most=90000000

fail() { # also behind a pipe, in a shell of its own
	echo "nested.sh: $*"
	: >"$tmp/failed"
}

# The head of all jobs. What counts TSC ticks has no name in Linux 6.1 on AMD.
cat >"$tmp/head" <<END
if grep -q GenuineIntel /proc/cpuinfo; then
	ev=ref-cycles numbers='0 9'
else
	ev=r100000120 numbers='4 0x100000120'
fi
echo 0 >/proc/sys/kernel/randomize_va_space
echo 0 >/proc/sys/kernel/perf_cpu_time_max_percent
pmis() { awk '/^ *PMI:/ { for (i = 2; i <= NF; i++) if (\$i ~ /^[0-9]+\$/) n += \$i; print n }' /proc/interrupts; }
# No two programs have the same addresses, which take more or fewer instructions.
exact() { taskset \$((1 << \$1)) spin --event \$numbers 100000 300000; }
# Known work, counted. On Intel the count of the whole system has the only counter of ref-cycles.
round() { # NUMBER CPUS
	if [ \$ev = ref-cycles ]; then
		taskset \$2 spin 40000000
		echo "round \$1,"
	else
		perf stat -x, -e \$ev taskset \$2 spin 40000000 2>&1 | sed "s/^/round \$1,/"
	fi
}
periods() { # CPU NUMBER
	before=\$(pmis)
	perf record -q --no-inherit -e "{\$ev}:S" -c $period -o /tmp/data taskset \$((1 << \$1)) spin \$((\$2 * $period)) 2>&1
	after=\$(pmis)
	perf report -i /tmp/data --stats 2>/dev/null | grep -E 'LOST|THROTTLE'
	perf script -i /tmp/data -F period | awk '{ sum += \$1; n++; bad += int(sum / $period) != n }
		END { printf "samples: %d, samples of other periods: %d", n, bad }'
	echo ", PMIs: \$((after - before)), of periods: \$2"
}
END

initrd() { # OPTIONS for tools/linux-guest; the job's text is standard input
	cat "$tmp/head" - >"$tmp/job"
	VPMU_LINUX=$linux sh "$top/tools/linux-guest" initrd "$tmp/guest.initrd" job="$tmp/job" bin/spin="$build/tests/nested-spin" "$@"
}

# The bed's processor has no XSAVE that its guests could use, and delivers interrupts twice with PV EOI (eoi.c).
cpu=${BED_CPU:-host,-xsave,-kvm-pv-eoi}
# An Intel guest makes its hypercalls by VMCALL, which KVM on AMD replaces in the guest's text: a page fault there. QEMU 11.1
# sets ARCH_CAPABILITIES of Intel's CPUs, which KVM on AMD refuses, and aborts.
foreign=-kvm-pv-unhalt,-kvm-pv-ipi,-kvm-pv-sched-yield,-arch-capabilities
cpu() { # MODEL
	case $1 in
	intel-v2) echo "$cpu,$foreign,vendor=GenuineIntel,family=6,model=85,stepping=4" ;;
	intel-v5) echo "$cpu,$foreign,vendor=GenuineIntel,family=6,model=143,stepping=8" ;;
	*) echo "$cpu" ;;
	esac
}

drivers() { # MODEL
	case $1 in
	amd-*) echo 'Performance Events: .*core perfctr, AMD PMU driver' && echo 'generic (registers|counters): +6$' ;;
	intel-*) echo 'Performance Events: .*' && echo 'Intel PMU driver' && echo 'generic (registers|counters): +8$' ;;
	esac
	case $1 in
	amd-v2 | intel-v2) echo 'version: +2$' ;;
	intel-v5) echo 'version: +5$' ;;
	esac
}

# All counters, also where the host has no more: they count ticks of the TSC.
gp() { # MODEL
	case $1 in
	amd-*) echo 6 ;;
	intel-*) echo 8 ;;
	esac
}

vcpus() { # MODEL[:VCPUS]
	case $1 in
	*:*) echo "${1#*:}" ;;
	*) echo 1 ;;
	esac
}

# The start of QEMU's command for a guest.
vm() { # MODEL[:VCPUS]
	echo "VPMU_PMU=${1%:*} VPMU_GP=$(gp "$1") timeout -s KILL ${BED_VM_SECONDS:-100}" \
		"/bed/vpmu-qemu --qemu /bed/qemu-system-x86_64 -L /bed -accel kvm -M q35 -m $mb -cpu $(cpu "${1%:*}") -nodefaults -display none" \
		"-kernel /bed/$guest.vmlinuz -initrd /bed/guest.initrd -append 'console=ttyS0 quiet panic=-1 ${BED_CMDLINE-}'"
}

bed() { # an operator's script in the bed, from standard input
	{
		echo '#!/bed/busybox sh'
		cat
	} >"$tmp/script"
	chmod +x "$tmp/script"
	export BED_FILES="$linux/busybox $build/bin/vpmu-qemu $build/bin/vpmu-preload.so $guest_files $files"
	{ VPMU_BUILD=$build BED_MB=${BED_MB:-1800} "$top/tests/nested/run" $exact "$tmp/script" 2>&1 || echo "exit status of the bed: $?"; } | tee "$tmp/out"
	! grep -qx 'exit status of the bed: 77' "$tmp/out" || exit 77 # it has said what is missing
	! grep -q '^exit status of the bed: ' "$tmp/out" || fail "the bed failed"
}

# Each line of standard input must be in the output of guest $1, as an extended regular expression.
expect() { # guest
	while read -r line; do
		grep -Eq "^\[$1\] .*$line" "$tmp/out" || fail "guest $1 did not say: $line"
	done
}

# What guest $1 counted in $2 rounds of 40000000, in each and all the time. What KVM does inside of KVM_RUN counts, too: page
# faults after a migration.
rounds() { # guest rounds
	sed -n "s/^\[$1\] round [0-9]*,\([0-9]*\).*/\1/p" "$tmp/out" >"$tmp/rounds"
	[ "$(wc -l <"$tmp/rounds")" -ge "$2" ] || fail "guest $1: $(wc -l <"$tmp/rounds") rounds of $2"
	case $1 in
	intel-*) ;;
	*)
		while read -r count; do
			[ "${count:-0}" -ge 40000000 ] && [ "$count" -le $most ] || fail "guest $1: perf stat of 40000000 counted ${count:-nothing}"
		done <"$tmp/rounds"
		;;
	esac
	whole=$(sed -n "s/^\[$1\] all the time,\([0-9]*\),.*/\1/p" "$tmp/out")
	[ "${whole:-0}" -ge 240000000 ] && [ "$whole" -le 10000000000 ] || fail "guest $1: the whole of at least six rounds is ${whole:-not counted}"
}

# What periods() and the log of guest $1 said; $2 times it ran.
check() { # guest times
	sed -n "s/^\[$1\] samples: //p" "$tmp/out" | tr -cd '0-9\n ' >"$tmp/periods"
	[ "$(wc -l <"$tmp/periods")" = "$2" ] || fail "guest $1: perf record has run $(wc -l <"$tmp/periods") times of $2"
	while read -r samples others pmis of; do
		echo "$1: $of periods, $samples samples, $others of them of other periods, $pmis PMIs"
		[ "$samples" -ge "$of" ] || fail "guest $1: $samples samples of at least $of"
		[ "$samples" = "$pmis" ] || fail "guest $1: $samples samples, $pmis PMIs"
		[ "$others" = 0 ] || fail "guest $1: $others samples are not of the next period"
	done <"$tmp/periods"
	! grep -qE "^\[$1\] .*(LOST|THROTTLE)" "$tmp/out" || fail "guest $1: samples are lost"
	! grep -iE "^\[$1\] complaint: .*(uhhuh|general protection|unchecked MSR|WARNING: CPU|BUG:|Oops|lockup|rcu.*stall)" "$tmp/out" ||
		fail "guest $1 complains"
}

[ $# -gt 0 ] || {
	sed -n '3,21s/^# //p' "$0"
	exit 2
}
case=$1
shift
[ $# -gt 0 ] || set -- amd-v2
case $case in
models)
	initrd --perf <<-END
		dmesg | grep -A26 'Performance Events' | grep -E 'Performance|PMU|version|generic'
		echo "CPUs online: \$(nproc)"
		for n in \$(seq 0 \$((\$(nproc) - 1))); do
			exact \$n
		done
		perf stat -x, -a -A -e \$ev sh -c 'for n in \$(seq 0 \$((\$(nproc) - 1))); do taskset \$((1 << n)) spin 20000000 & done; wait' 2>&1 |
			sed -n 's/^CPU\([0-9]*\),\([0-9]*\),.*/count of CPU \1: \2/p'
		perf stat -x, -e \$ev,\$ev,\$ev,\$ev,\$ev,\$ev,\$ev,\$ev,\$ev,\$ev,\$ev,\$ev,\$ev,\$ev spin 100000000 2>&1 |
			awk -F, '\$1 > 0 { n++; if (\$5 < 99) shared++; sum += \$1 } END { printf "multiplexed: %d of %d, mean %.0f\n", shared, n, sum / n }'
		periods \$((\$(nproc) - 1)) $pmis
		dmesg -r | sed -n 's/^<[0-4]>/complaint: /p'
	END
	for vm; do
		echo "$(vm "$vm") -smp $(vcpus "$vm") -no-reboot -serial stdio </dev/null 2>&1 | sed 's/\\r\$//; s/^/[$vm] /'"
	done >"$tmp/vms"
	bed <"$tmp/vms"
	for vm; do
		cpus=$(vcpus "$vm")
		drivers "${vm%:*}" | expect "$vm"
		printf '%s\n' "CPUs online: $cpus\$" 'multiplexed: 14 of 14, mean 1[0-9]{8}$' 'job: exit status 0$' | expect "$vm"
		[ "$(grep -c "^\[$vm\] 200000 instructions more, $ticks ticks more\$" "$tmp/out")" = "$cpus" ] ||
			fail "guest $vm: 200000 instructions are not $ticks ticks on each CPU"
		for n in $(seq 0 $((cpus - 1))); do
			count=$(sed -n "s/^\[$vm\] count of CPU $n: //p" "$tmp/out")
			[ "${count:-0}" -ge 20000000 ] && [ "$count" -le 100000000 ] || fail "guest $vm: CPU $n counted ${count:-nothing}"
		done
		check "$vm" 1
	done
	;;
life)
	initrd --perf <<-END
		cpus=\$(nproc)
		echo "booted: CPUs \$cpus"
		awk '\$3 == "native_read_pmc" { print "native_read_pmc: " \$1 }' /proc/kallsyms
		exact 0
		if [ \$cpus = 1 ]; then
			periods 0 50
			echo 'wants: device_add'
			until [ -e /sys/devices/system/cpu/cpu1 ]; do sleep 0.1; done
			echo 1 >/sys/devices/system/cpu/cpu1/online
			until [ \$(nproc) = 2 ]; do sleep 0.1; done
			exact 1
			periods 1 50
			dmesg -r | sed -n 's/^<[0-4]>/complaint: /p'
			echo 'wants: reboot'
			reboot -f
			sleep 100
		fi
		exact 1
		periods 0 50
		periods 1 50
		# It counts, on a counter that the rounds do not take, before and after.
		perf stat -x, -e \$ev -a sleep 4 2>&1 | sed 's/^/all the time,/' &
		for n in 1 2 3 4 5 6; do
			round \$n \$((1 + n % 2))
			sleep 0.2
		done
		wait
		periods 1 50
		echo 'wants: device_del'
		while [ -e /sys/devices/system/cpu/cpu1 ]; do sleep 0.1; done
		exact 0
		periods 0 50
		dmesg -r | sed -n 's/^<[0-4]>/complaint: /p'
	END
	for vm; do
		cat <<-END
			cd /tmp
			name=$vm
			qemu="$(vm "$vm") -smp 1,sockets=2,cores=1,threads=1,maxcpus=2"
		END
		cat <<-'END'
			rm -f mon.in mon.out
			mkfifo mon.in mon.out
			: >serial
			truncate -s 1M disk # savevm goes to a temporary overlay of it
			mkdir -p /var/tmp
			tail -f serial | sed "s/\r\$//; s/^/[$name] /" &
			sh -c "exec env $qemu -serial file:/tmp/serial -monitor pipe:/tmp/mon -drive if=none,format=raw,snapshot=on,file=/tmp/disk" </dev/null 2>&1 &
			pid=$!
			cat mon.out >answers &
			exec 5>mon.in
			trap '' PIPE # QEMU may have ended
			said() { # TEXT
				until grep -q "$1" serial; do
					kill -0 $pid || return
					sleep 0.1
				done
			}
			rdpmc() { # WHEN: the kernel's only RDPMC
				at=$(sed -n 's/^native_read_pmc: \([0-9a-f]*\).*/\1/p' serial | tail -n 1)
				answered=$(grep -a -c "^$at: " answers)
				echo "x /16xb 0x$at" >&5
				while [ "$(grep -a -c "^$at: " answers)" = "$answered" ]; do # savevm and loadvm take their time
					kill -0 $pid || return
					sleep 0.1
				done
				echo "[$name] RDPMC $1: $(grep -a "^$at: " answers | tail -n 1)"
			}
			said 'wants: device_add'
			rdpmc 'after the start'
			echo 'device_add host-x86_64-cpu,id=c1,socket-id=1,core-id=0,thread-id=0' >&5
			said 'round 1,'
			echo 'savevm one' >&5
			rdpmc 'after the reset'
			said 'round 5,'
			echo "before loadvm: $(grep -a -c '^round' serial) rounds"
			echo 'loadvm one' >&5
			rdpmc 'after loadvm'
			said 'wants: device_del'
			echo 'device_del c1' >&5
			wait $pid # the guest switches itself off
			echo "[$name] QEMU: status $?"
			exec 5>&-
			sleep 1
			kill $(jobs -p) 2>/dev/null
			grep -a '^Error' answers | sed "s/^/[$name] monitor: /"
		END
	done >"$tmp/vms"
	BED_MB=${BED_MB:-2600} bed <"$tmp/vms"
	for vm; do
		expect "$vm" <<-'END'
			booted: CPUs 1$
			booted: CPUs 2$
			RDPMC after the start: .*0xe5 0x33
			RDPMC after the reset: .*0xe5 0x33
			RDPMC after loadvm: .*0xe5 0x33
			job: exit status 0$
			QEMU: status 0$
		END
		[ "$(grep -c "^\[$vm\] 200000 instructions more, $ticks ticks more\$" "$tmp/out")" = 5 ] ||
			fail "guest $vm: 200000 instructions are not $ticks ticks on each CPU"
		! grep "^\[$vm\] monitor: " "$tmp/out" || fail "guest $vm: see above"
		rounds "$vm" 7 # some of the six come again with loadvm
		check "$vm" 6
	done
	;;
move)
	initrd --perf <<-END
		exact 0
		perf stat -x, -e \$ev -a sleep 15 2>&1 | sed 's/^/all the time,/' &
		sleep 0.5
		for n in 1 2 3 4 5 6 7 8; do
			round \$n 1
			sleep 0.2
		done
		wait
		exact 0
		periods 0 50
		dmesg -r | sed -n 's/^<[0-4]>/complaint: /p'
	END
	for vm; do
		cat <<-END
			cd /tmp
			name=$vm
			qemu="$(vm "$vm")"
		END
		cat <<-'END'
			start() { # NUMBER OPTION...
				n=$1
				shift
				mkfifo mon$n.in mon$n.out
				: >serial$n
				sh -c "exec env $qemu -serial file:/tmp/serial$n -monitor pipe:/tmp/mon$n $*" </dev/null 2>&1 &
				pid=$!
				cat mon$n.out >answers$n &
			}
			trap '' PIPE # QEMU may have ended
			said() { # TEXT
				until cat serial? | grep -q "$1"; do
					kill -0 $pid || return
					sleep 0.1
				done
			}
			leaves() { # NUMBER URI
				echo "migrate \"$2\"" >&5
				until grep -a -q 'tatus:[[:space:]]*\(completed\|failed\)' answers$1; do
					kill -0 $pid || return
					echo 'info migrate' >&5
					sleep 0.3
				done
				grep -a 'tatus:[[:space:]]*\(completed\|failed\)' answers$1 | tail -n 1
				echo quit >&5
			}
			start 1
			exec 5>mon1.in
			said 'round 2,'
			start 2 -incoming unix:/tmp/sock
			exec 6>mon2.in
			until [ -e sock ]; do sleep 0.1; done
			leaves 1 unix:/tmp/sock
			exec 5>&6
			said 'round 5,'
			leaves 2 'exec:cat >/tmp/state'
			wait $pid
			ls -l state
			start 3 -incoming "'exec:cat /tmp/state'"
			exec 5>mon3.in
			wait $pid
			echo "[$name] QEMU: status $?"
			for n in 1 2 3; do
				sed "s/\r\$//; s/^/[$name] $n: /" serial$n
			done
			exec 5>&- 6>&-
			rm -f mon* serial? answers? state sock
		END
	done >"$tmp/vms"
	BED_MB=${BED_MB:-2800} bed <"$tmp/vms"
	for vm; do
		expect "$vm" <<-'END'
			1: round 2,
			2: round [5-8],
			3: all the time,
			job: exit status 0$
			QEMU: status 0$
		END
		sed -i "s/^\[$vm\] [123]: /[$vm] /" "$tmp/out"
		[ "$(grep -c "^\[$vm\] 200000 instructions more, $ticks ticks more\$" "$tmp/out")" = 2 ] ||
			fail "guest $vm: 200000 instructions are not $ticks ticks"
		rounds "$vm" 8
		check "$vm" 1
	done
	;;
kexec)
	mb=640
	initrd --perf <<-END
		exact 0
		periods 0 50
		dmesg -r | sed -n 's/^<[0-4]>/complaint: /p'
	END
	mv "$tmp/guest.initrd" "$tmp/again.initrd"
	initrd again.initrd="$tmp/again.initrd" vmlinuz="$linux/$guest.vmlinuz" bin/kexec="$build/tests/nested-kexec" <<-END
		exact 0
		dmesg -r | sed -n 's/^<[0-4]>/complaint: /p'
		echo 'another kernel now'
		kexec /vmlinuz /again.initrd 'console=ttyS0 quiet panic=-1 ${BED_CMDLINE-}'
	END
	for vm; do
		echo "$(vm "$vm") -smp $(vcpus "$vm") -no-reboot -serial stdio </dev/null 2>&1 | sed 's/\\r\$//; s/^/[$vm] /'"
	done >"$tmp/vms"
	bed <"$tmp/vms"
	for vm; do
		printf '%s\n' 'another kernel now$' 'job: exit status 0$' | expect "$vm"
		[ "$(grep -c "^\[$vm\] 200000 instructions more, $ticks ticks more\$" "$tmp/out")" = 2 ] ||
			fail "guest $vm: 200000 instructions are not $ticks ticks in both kernels"
		check "$vm" 1
	done
	;;
eoi)
	hows='stock pit,stock pv,stock pv pit,vpmu pmi,vpmu pv pmi'
	guest_files=$build/tests/preload/eoi.elf
	IFS=,
	for how in $hows; do
		qemu='/bed/vpmu-qemu --qemu'
		case $how in stock*) qemu= ;; esac
		echo "VPMU_PMU=amd-v2 timeout -s KILL ${BED_VM_SECONDS:-300} $qemu /bed/qemu-system-x86_64 -L /bed -accel kvm -M pc -m 64" \
			"-cpu host,-xsave -nodefaults -display none -no-reboot -global kvm-pit.lost_tick_policy=discard" \
			"-device isa-debug-exit,iobase=0xf4 -kernel /bed/eoi.elf -append '$how ${BED_INTERRUPTS:-2000}' -serial stdio" \
			"</dev/null 2>&1 | sed 's/\\r\$//; s/^/[$how] /'"
	done >"$tmp/vms"
	unset IFS
	BED_MB=${BED_MB:-768} bed <"$tmp/vms"
	IFS=,
	for how in $hows; do
		case $how:$(sed -n "s/^\[$how\] //p" "$tmp/out") in
		*'wrong: an interrupt while they are off')
			[ -z "${BED_LAB-}" ] || fail "$how: see above"
			;;
		*' pv'*'ended by PV EOI 0,'*) fail "$how: no PV EOI" ;;
		*done) ;;
		*) fail "$how: see above" ;;
		esac
	done
	;;
apparmor)
	release=bookworm
	[ -z "${BED_QEMU-}" ] || release=trixie
	aa=$build/apparmor-$release # libvirt's rules, and what compiles them
	[ -e "$aa/complete" ] || (
		. "$top/tools/apt.inc"
		private_apt "$aa" $release
		[ $release = bookworm ] && more= || more='libvirt-daemon-driver-qemu libc6'
		cd "$aa" && apt-get update -q && apt-get download -q apparmor libvirt-daemon-system $more &&
			for deb in *.deb; do dpkg -x "$deb" . || exit; done && touch complete
	) >"$tmp/log" 2>&1 || skip "no rules of $release's libvirt: $(grep '^E:' "$tmp/log" | head -n 1)"
	[ -e "$build/bin/vpmu-preload.so" ] || skip "no vpmu-preload.so"
	line=$(sed -n "s/^ *echo '\(include .*vpmu-qemu>\)' >>\/etc\/apparmor.d\/local\/abstractions\/libvirt-qemu\$/\1/p" "$top/docs/guest-guide.md")
	[ -n "$line" ] || fail "no line for AppArmor in guest-guide.md"
	cp -r "$aa/etc/apparmor.d" "$tmp/rules"
	mkdir -p "$tmp/rules/abstractions/libvirt-qemu.d" "$tmp/rules/local/abstractions"
	: >"$tmp/rules/local/abstractions/libvirt-qemu"
	package() { cp "$top/debian/apparmor/vpmu-qemu" "$tmp/rules/abstractions/libvirt-qemu.d/"; }
	if [ $release = bookworm ]; then
		package
		with() { echo "$line" >>"$tmp/rules/local/abstractions/libvirt-qemu"; }
		parser() { "$aa/sbin/apparmor_parser" "$@"; }
	else
		with() { package; }
		parser() { "$aa/usr/lib64/ld-linux-x86-64.so.2" --library-path "$aa/usr/lib/x86_64-linux-gnu" "$aa/usr/sbin/apparmor_parser" "$@"; }
	fi
	for profile in without with; do
		[ $profile = without ] || with
		# A domain has its own files in it, here the guest and the roms of QEMU.
		sed "s/LIBVIRT_TEMPLATE/$profile/; /^}/d" "$tmp/rules/libvirt/TEMPLATE.qemu" >"$tmp/profile"
		echo '/var/lib/libvirt/images/guest.elf r, }' >>"$tmp/profile"
		parser --config-file=/dev/null -QK -b "$tmp/rules" -M "$aa/usr/share/apparmor-features/features" \
			-o "$tmp/$profile.policy" "$tmp/profile" || fail "the profile does not compile"
	done
	: | initrd
	files="$files $build/tests/preload/guest.elf $tmp/with.policy $tmp/without.policy"
	{
		echo "library=$(strings -n 8 "$build/bin/vpmu-qemu" | sed -n 's,^\(/.*\)/vpmu-preload.so$,\1,p' | head -n 1)"
		cat <<-'END'
			export PATH=/bin:/usr/bin
			images=/var/lib/libvirt/images
			mkdir -p /usr/bin /usr/share/qemu /usr/lib/x86_64-linux-gnu/vpmu $images "${library%/*}"
			mv /bed/vpmu-qemu /bed/qemu-system-x86_64 /usr/bin/
			mv /bed/vpmu-preload.so /usr/lib/x86_64-linux-gnu/vpmu/
			[ -e "$library" ] || ln -s /usr/lib/x86_64-linux-gnu/vpmu "$library"
			mv /bed/*.bin /usr/share/qemu/
			mv /bed/guest.elf $images/
			mount -t securityfs none /sys/kernel/security
			for p in with without; do cat /bed/$p.policy >/sys/kernel/security/apparmor/.replace; done
			run() { # PROFILE MODEL[:VCPUS] CPU: the profile, then the emulator, as libvirt does
				dmesg -c >/dev/null
				{
					echo g | VPMU_PMU=${2%:*} timeout -s KILL 100 sh -c 'echo "changeprofile $0" >/proc/self/attr/current && exec "$@"' \
						$1 /usr/bin/vpmu-qemu -L /usr/share/qemu -accel kvm -M pc -m 64 -cpu $3 -nodefaults -display none -no-reboot \
						-device isa-debug-exit,iobase=0xf4 -kernel $images/guest.elf -serial stdio -monitor none 2>&1
					echo "status $?"
					dmesg | sed -n 's/.*apparmor="DENIED" operation="\([^"]*\)".* name="\([^"]*\)".*/DENIED \1 \2/p'
				} | cat | tr -d '\r' | sed "s/^/[$1 $2] /"
			}
		END
		for vm; do
			echo "run without $vm $(cpu "${vm%:*}")"
			echo "run with $vm $(cpu "${vm%:*}")"
		done
	} >"$tmp/runs"
	bed <"$tmp/runs"
	for vm; do
		printf '%s\n' 'ok: a PMI$' 'done$' 'status 1$' | expect "with $vm"
		! grep "^\[with $vm\] DENIED" "$tmp/out" || fail "guest $vm: denied with the line"
		expect "without $vm" <<-'END'
			DENIED exec /usr/bin/vpmu-qemu
			status 126$
		END
	done
	;;
*)
	echo "nested.sh: unknown case '$case'" >&2
	exit 2
	;;
esac
[ ! -e "$tmp/failed" ]
