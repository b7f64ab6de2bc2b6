#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
# One counter for guest and operator, to the instruction: tests/nested/shared.sh
#
# In the lab (tests/nested/run with BED_LAB) vpmud counts, and vpmu-qemu gives a stock Linux in a stock QEMU its PMU, whose
# counters are vpmud's. The guest executes rounds of known length (rounds.c). In each round these are compared:
#   guest     what an event of the guest's perf counted in user mode
#   operator  what `vpmu stat` has for the VM, in its user mode
#   truth     the same instructions single-stepped on this machine, and one for each VMRUN with a RIP of user mode: AMD's
#             counters count the VMRUN as the guest's, or, if it injects an interrupt, the IRET from that
#             (in a round with such VMRUNs guest and operator may have one more: it was seen once, and the trace of KVM's
#             entries does not show why)
# In the last round perf samples in the guest, 10 times. And: what counts in guests (:G) and in the host (:H) is all (:GH),
# and `vpmu conservation` is equal.
#
# Beside it another tenant's VM switches its PMU on and off HOSTILE_SWITCHES times (4000; a million: vpmud_hostile.sh; 0: not
# there), from two vCPUs that count instructions, too (tests/preload/hostile.c). A round begins after each part of its
# switches. The counts stay exact, with its tenant's quota of one event they have their counters all of the time, the hostile
# VM comes to its end, and what vpmud holds does not grow.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
top=$(cd "$here/../.." && pwd)
build=${VPMU_BUILD:-$top/build}
linux=$build/linux
export BED_LAB=${BED_LAB:-amd-v2} BED_CPUS=${BED_CPUS:-1}

skip() {
	echo "# SKIP shared: $*"
	exit 77
}

. "$here/qemu.inc"
files=$(qemu_files) || skip "$(echo "$files" | tail -n 1)"
[ -e "$linux/complete" ] || skip "no Linux guests (tools/linux-guest)"
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
trap 'exit 130' INT TERM PIPE
failed=0

fail() {
	echo "shared.sh: $*"
	failed=1
}

rounds=6 # as in rounds.c
switches=${HOSTILE_SWITCHES:-4000}
cat >"$tmp/job" <<-'END'
	dmesg | grep -A26 'Performance Events' | grep -E 'Performance|PMU|version|generic'
	rounds
END
VPMU_LINUX=$linux sh "$top/tools/linux-guest" initrd "$tmp/guest.initrd" job="$tmp/job" bin/rounds="$build/tests/nested-rounds"

# The guest waits for the operator's line in each round, and executes nothing in user mode while vpmu counts it.
cat >"$tmp/script" <<-END
	#!/bed/busybox sh
	rounds=$rounds switches=$switches
END
cat >>"$tmp/script" <<-'END'
	export PATH=/bed:/bin
	trace=/sys/kernel/tracing
	cd /tmp
	mkdir /sys/fs/cgroup/vms /sys/fs/cgroup/hostile
	cat >vpmud.conf <<-CONF
		[vpmud]
		libvirt = none
		guest_events = instructions
		[tenant /vms]
		cgroup = /vms
		[tenant /hostile]
		cgroup = /hostile
		policy = full
		tenant_max_events = 1
	CONF
	echo 2 >/proc/sys/kernel/perf_event_paranoid
	vpmud -c vpmud.conf &
	vpmud=$!
	until vpmu list >/dev/null 2>&1; do
		kill -0 $vpmud || exit 1
		sleep 0.1
	done
	echo "vpmud has started"
	holds() { (ls /proc/$vpmud/fd /proc/$vpmud/task; find /sys/fs/bpf) | wc -l; } # descriptors, threads, pins
	mkfifo serial.in serial.out
	cat >vm <<-'VM'
		echo 0 >/sys/fs/cgroup/vms/cgroup.procs
		exec vpmu-qemu --qemu /bed/qemu-system-x86_64 -L /bed -name l2,debug-threads=on -accel kvm -M q35 -m 192 -cpu host,-xsave \
			-nodefaults -display none -no-reboot -kernel /bed/cloud.vmlinuz -initrd /bed/guest.initrd \
			-append 'console=ttyS0 quiet panic=-1' -serial pipe:/tmp/serial
	VM
	VPMU_PMU=amd-v2 sh vm &
	qemu=$!
	exec 5>serial.in
	cat serial.out >guest &
	until vpmu list | grep -q "vm.*pid=$qemu"; do
		kill -0 $qemu || exit 1
		sleep 0.1
	done
	vpmu attach s -e instructions:uG,instructions:uH,instructions:uGH --for-each vm
	vpmu list
	for t in /proc/$qemu/task/*; do
		! grep -q 'CPU 0/KVM' $t/comm || echo ${t##*/} >$trace/set_event_pid
	done
	until [ "$(grep -c ready guest)" = 1 ]; do
		kill -0 $qemu || exit 1
		sleep 0.05
	done
	if [ $switches != 0 ]; then
		echo "vpmud holds $(holds)"
		cat >other <<-VM
			echo 0 >/sys/fs/cgroup/hostile/cgroup.procs
			exec vpmu-qemu --qemu /bed/qemu-system-x86_64 -L /bed -name hostile,debug-threads=on -accel kvm -M pc -m 64 -smp 2 \
				-cpu host,-xsave,-kvm-pv-eoi -nodefaults -display none -no-reboot -device isa-debug-exit,iobase=0xf4 \
				-kernel /bed/hostile.elf -append s$switches -serial file:/tmp/hostile -monitor none
		VM
		: >hostile
		VPMU_PMU=amd-v2 sh other &
		other=$!
	fi
	part() { # NUMBER: until the other VM has done so many parts of its switches
		[ $switches != 0 ] || return
		until [ "$(grep -c switched hostile)" -ge $1 ]; do
			kill -0 $other || return
			sleep 0.05
		done
	}
	for n in $(seq 0 $rounds); do
		part $n
		until [ "$(grep -c ready guest)" = $((n + 1)) ]; do
			kill -0 $qemu || exit 1
			sleep 0.05
		done
		[ $n != 0 ] || echo 1 >$trace/events/kvm/kvm_entry/enable
		vpmu stat --session s -x, | sed "s/^/operator $n,/"
		echo "round $n" >$trace/trace_marker
		if [ $n = $rounds ] && [ $switches != 0 ]; then
			wait $other
			echo "hostile VM: status $?"
			sed 's/\r$//; s/^/[hostile] /' hostile
			until ! vpmu list | grep -q hostile.*pid; do sleep 0.1; done
			echo "then vpmud holds $(holds)"
		fi
		if [ $n = $rounds ]; then
			vpmu sharing
			vpmu list -j
			vpmu conservation | sed 's/^/conservation: /'
		fi
		echo >&5
	done
	cat $trace/trace >trace
	exec 5>&-
	wait $qemu
	echo "QEMU: status $?"
	sed 's/\r$//; s/^/[l2] /' guest
	# The RIPs of user mode have less digits.
	awk '/: round/ { at = $NF }
		/kvm_entry/ && / rip 0x[0-9a-f]{1,12}( |$)/ { n[at]++ }
		END { for (at in n) print "entries " at " " n[at] }' trace
END
chmod +x "$tmp/script"
"$build/tests/linux-truth" trace "$tmp/path" "$build/tests/nested-rounds" </dev/null >/dev/null &
BED_FILES="$linux/busybox $linux/cloud.vmlinuz $tmp/guest.initrd $build/bin/vpmu-qemu $build/bin/vpmu-preload.so $build/bin/vpmud $build/bin/vpmu $build/tests/preload/hostile.elf $files" \
	BED_MB=768 "$here/run" "$tmp/script" >"$tmp/out" 2>&1 || {
	rc=$?
	kill $! 2>/dev/null || : # the single-stepping takes minutes
	cat "$tmp/out"
	exit $rc
}
wait
# Of a round: its single-stepped instructions, between two readings of the event.
for n in $(seq $rounds); do
	"$build/tests/linux-truth" between "$tmp/path" $((3 * n + 3)) $((3 * n + 6 + n / rounds * 2)) | sed "s/^/stepped $n /"
done >>"$tmp/out"
awk -F '[ ,]' '
	/^\[l2\] count / { guest[nr++] = $NF }
	/^operator .*,l2,/ {
		operator[$2, $5] = $3
		vm += $5 == "instructions:uG"
		shared += $10 != "100.00" || $11 != "exact"
	}
	/^entries / { extra[$2] = $3 }
	/^stepped / { stepped[$2] = $3 }
	END {
		for (n = 1; n <= rounds; n++) {
			g = guest[n] - guest[n - 1]
			o = operator[n, "instructions:uG"] - operator[n - 1, "instructions:uG"]
			h = operator[n, "instructions:uH"] - operator[n - 1, "instructions:uH"]
			all = operator[n, "instructions:uGH"] - operator[n - 1, "instructions:uGH"]
			truth = stepped[n] + extra[n - 1]
			good = g > 0 && g == o && g >= truth && g <= truth + (extra[n - 1] > 0) && o + h == all
			bad += !good
			printf "round %d: guest %d, operator %d, truth %d (%d, and %d at entries); host %d, together %d%s\n", n, g, o,
				truth, stepped[n], extra[n - 1], h, all, good ? "" : ": WRONG"
		}
		print guest[n] " samples"
		print "rows without a counter of their own all of the time: " shared + 0
		exit bad || guest[n] != 10 || vm != n || shared
	}' rounds=$rounds "$tmp/out" || fail "guest, operator and truth are not one"
expect() { # LINE
	grep -Eq "$1" "$tmp/out" || fail "nothing says: $1"
}
expect '^\[l2\] .*core perfctr, AMD PMU driver'
expect '"guest-counters": *1'
expect 'instructions:u: 1 vCPU of guests and 1 value of operators share it'
expect '^conservation: .* instructions:u .* yes'
! grep '^conservation: .* no\( \|$\)' "$tmp/out" || fail "counts are lost"
expect '^\[l2\] job: exit status 0'
expect '^QEMU: status 0'
if [ "$switches" != 0 ]; then
	expect '^hostile VM: status 1'
	expect '^\[hostile\] done'
	! grep -i '^\[hostile\] wrong' "$tmp/out" || fail "see above"
	sed -n 's/^\[hostile\] its switches/the second vCPU switches, in hexadecimal/p' "$tmp/out"
	before=$(sed -n 's/^vpmud holds //p' "$tmp/out") after=$(sed -n 's/^then vpmud holds //p' "$tmp/out")
	[ "${after:-1000}" -le $((before + 8)) ] || fail "vpmud holds $after descriptors, threads and pins, before $before" # some are l2's
fi
[ $failed = 0 ] || cat "$tmp/out"
[ $failed = 0 ]
