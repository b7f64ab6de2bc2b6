#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
# Stock Linux guests with stock perf on a real KVM: tests/nested/linux.sh CASE [ARGUMENT...]
#   models    boots each model of the next arguments (none: all) with two vCPUs, looks at its driver's messages, and
#             compares perf stat with known instruction counts; ./check does it with BED_LAB=amd-v2
#   perf      perf record by 10,000 (or the next argument's number of) PMIs of a timer, none lost, on each model
#             of the further arguments (none: all)
#   hostile   guests that fault, spin, flood their console and write every MSR beside one that computes, a
#             server that is killed, and its leftovers
#   move      a guest that is saved and goes on in another vpmu-vmm, while its perf counts
#   stop      guests of a vpmu-vmm that is stopped for 30 s (SIGSTOP), and that are then paused for 30 s: of each model of
#             the next arguments (none: amd-v2), with one vCPU that is busy and one that is idle
#   boot      boots a guest of model amd-v2 for each of the next arguments (none: 1): a number of vCPUs, or qemu:NUMBER for
#             one of this system's QEMU
#   matrix    all of it: every model, 10,000 PMIs of each
# Each case is one boot of the nested bed (tests/nested/run), in which vpmu-vmm runs the guests with Debian 12's
# cloud kernel, or another one of tools/linux-guest: BED_GUEST=generic, BED_GUEST=newcloud and so on. Exit status
# 77 with a line "# SKIP" when something is missing.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
. "$here/qemu.inc"
top=$(cd "$here/../.." && pwd)
build=${VPMU_BUILD:-$top/build}
linux=$build/linux
guest=${BED_GUEST:-cloud} # the guests' kernel
export BED_CPUS=${BED_CPUS:-1} # with --exact only one executes at a time

skip() {
	echo "# SKIP nested: $*"
	exit 77
}

[ $# -gt 0 ] || {
	sed -n '3,19s/^# //p' "$0"
	exit 2
}
case=$1
shift
[ -e "$linux/complete" ] || skip "no Linux guests (tools/linux-guest)"
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
trap 'exit 130' INT TERM PIPE

fail() { # also behind a pipe, in a shell of its own
	echo "linux.sh: $*"
	: >"$tmp/failed"
}

# The job of a guest: the text of standard input is its /job.
initrd() { # name [argument of linux-guest initrd...]
	cat >"$tmp/job"
	name=$1
	shift
	VPMU_LINUX=$linux sh "$top/tools/linux-guest" initrd "$tmp/$name" job="$tmp/job" "$@"
}

# vpmu-vmm with one VM for each argument; its keys come behind these: kernel, initrd, engine, ram.
vm() { # name initrd model vcpus ram
	echo "name=$1,kernel=/bed/$guest.vmlinuz,initrd=/bed/$2,cmdline=console=ttyS0 quiet panic=-1,vcpus=$4,ram=$5,pmu=$3,engine=kvm"
}

bed() { # [--exact] PROGRAM...
	{ VPMU_BUILD=$build "$here/run" "$@" 2>&1 || echo "exit status of the bed: $?"; } | tee "$tmp/out"
	! grep -qx 'exit status of the bed: 77' "$tmp/out" || exit 77 # it has said what is missing
	! grep -q '^exit status of the bed: ' "$tmp/out" || fail "the bed failed"
}

# Each line of standard input must be in the output of guest $1, as an extended regular expression.
expect() { # guest
	while read -r line; do
		grep -Eq "^\[$1\] .*$line" "$tmp/out" || fail "guest $1 did not say: $line"
	done
}

# An operator's script in the bed, from standard input, with the programs of this build.
script() { # [--exact]
	{
		echo '#!/bed/busybox sh'
		echo 'export PATH=/bed:/bin:$PATH'
		echo '/bed/busybox mkdir -p /bin; /bed/busybox --install -s /bin'
		cat
	} >"$tmp/script"
	chmod +x "$tmp/script"
	BED_FILES="$linux/busybox $linux/$guest.vmlinuz $build/bin/vpmu-vmm $build/bin/vpmu $(ls "$tmp"/*.initrd 2>/dev/null | tr '\n' ' ') ${files-}" \
		BED_MB=${BED_MB:-1600} bed "$@" "$tmp/script"
}

guests_see() { # model
	case $1 in
	amd-k7) echo 'Performance Events: AMD PMU driver' && echo 'generic (registers|counters): +4$' ;;
	amd-core) echo 'Performance Events: Fam17h.* core perfctr, AMD PMU driver' && echo 'generic (registers|counters): +6$' ;;
	amd-v2)
		echo 'Performance Events: Fam17h.* core perfctr, AMD PMU driver'
		echo 'version: +2$' && echo 'generic (registers|counters): +6$'
		;;
	intel-*)
		# Since Linux 7 there can be lines in the middle of the driver's own.
		echo 'Performance Events: ' && echo 'Intel PMU driver'
		[ "$1" = intel-v2 ] && echo 'version: +2$'
		[ "$1" = intel-v5 ] && echo 'Performance Events: .*Sapphire Rapids events' && echo 'version: +5$'
		echo 'generic (registers|counters): +8$'
		;;
	esac
}

# What counts TSC ticks in each model's guest. Linux 6.1 has no name for it on AMD.
event() { # model
	case $1 in
	intel-*) echo ref-cycles ;;
	amd-*) echo r100000120 ;;
	esac
}

# The same for perf_event_open: type and config, which are PERF_COUNT_HW_REF_CPU_CYCLES and a raw event.
event_numbers() { # model
	case $1 in
	intel-*) echo 0 9 ;;
	amd-*) echo 4 0x100000120 ;;
	esac
}

# The smallest number behind "$2: " in lines of guest $1.
least() { # guest text
	sed -n "s/^\[$1\] .*$2: \([0-9]*\)\$/\1/p" "$tmp/out" | sort -n | head -n 1
}

all_models="amd-k7 amd-core amd-v2 intel-v2 intel-v5"
# perf stat counts what both kernels do from exec to exit, too. It is the same to a few ticks in the fastest of many runs
# of Linux 6.1, and to a few thousand of Linux 7.3.
case $guest in
new*) slack=20000 ;;
*) slack=1000 ;;
esac
# 200000 instructions of nested-spin in ticks. The emulator's CPU takes a cycle for each and one more for a taken branch;
# Linux 7.3 takes more time for an exec there, so that an interrupt comes into each of perf stat's runs.
want=200000
[ -z "${BED_LAB-}" ] || want=300000 slack=$((5 * slack))

case $case in
boot)
	[ $# != 0 ] || set -- 1
	for g; do
		n=${g#qemu:}
		initrd "$g.initrd" <<-END
			echo "CPUs online: \$(nproc), \$(uname -r)"
			dmesg -r | sed -n 's/^<[0-3]>/complaint: /p'
		END
		case $g in
		qemu:*)
			files=$(qemu_files) || skip "$(echo "$files" | tail -n 1)"
			# The bed's processor has no XSAVE that its guests could use.
			echo "{ qemu-system-x86_64 -L /bed -accel kvm -M q35 -m 192 -smp $n -cpu host,-xsave -nodefaults -display none -no-reboot" \
				"-serial stdio -kernel /bed/$guest.vmlinuz -initrd /bed/$g.initrd -append 'console=ttyS0 quiet panic=-1' </dev/null 2>&1 &&" \
				"echo 'vm $g: done'; } | sed 's/^[^v]/[$g] &/'"
			;;
		*) echo "vpmu-vmm --no-socket --vm '$(vm "$g" "$g.initrd" amd-v2 "$n" 192M)'" ;;
		esac
	done >"$tmp/starts"
	BED_MB=${BED_MB:-768} script <"$tmp/starts"
	for g; do
		echo "CPUs online: ${g#qemu:}, " | expect "$g"
		! grep "^\[$g\] complaint: " "$tmp/out" || fail "guest $g complains"
		grep -q "^vm $g: done" "$tmp/out" || fail "guest $g did not switch itself off"
	done
	;;
models)
	models=${*:-$all_models}
	for m in $models; do
		ev=$(event "$m")
		# No two programs have the same addresses, which take more or fewer instructions.
		initrd "$m.initrd" --perf bin/spin="$build/tests/nested-spin" <<-END
			dmesg | grep -A26 'Performance Events'
			echo "CPUs online: \$(nproc)"
			echo 0 >/proc/sys/kernel/randomize_va_space
			for n in 100000 300000; do
				taskset 2 perf stat -v -r 20 -e $ev spin \$n 2>&1 | sed -n "s/^$ev: \([0-9]*\) .*/count of \$n: \1/p"
			done
			taskset 2 spin --event $(event_numbers "$m") 100000 300000
			perf stat -x, -a -A -e $ev sh -c 'taskset 1 spin 20000000 & taskset 2 spin 20000000; wait' 2>&1 |
				sed -n 's/^CPU\([01]\),\([0-9]*\),.*/count of CPU \1: \2/p'
			dmesg -r | sed -n 's/^<[0-4]>/complaint: /p'
		END
		echo "vpmu-vmm --no-socket --vm '$(vm "$m" "$m.initrd" "$m" 2 384M)'"
	done >"$tmp/starts"
	script --exact <"$tmp/starts"
	for m in $models; do
		guests_see "$m" | expect "$m"
		echo 'CPUs online: 2' | expect "$m"
		# Effects of the host's KVM and CPU differ between hosts: only printed again.
		grep "^\[$m\] complaint: " "$tmp/out" | grep -vEf "$top/tests/linux/complaints" | sed 's/^/not explained: /' || :
		! grep -iE "^\[$m\] complaint: .*(uhhuh|general protection|unchecked MSR|WARNING: CPU|BUG:|Oops|lockup|rcu.*stall)" "$tmp/out" ||
			fail "guest $m complains"
		grep -q "^vm $m: done" "$tmp/out" || fail "guest $m did not switch itself off"
		# In the fastest of many runs no timer of either kernel came between.
		one=$(least "$m" 'count of 100000') three=$(least "$m" 'count of 300000')
		cpu0=$(least "$m" 'count of CPU 0') cpu1=$(least "$m" 'count of CPU 1')
		[ -n "$one" ] && [ -n "$three" ] && [ -n "$cpu0" ] && [ -n "$cpu1" ] || {
			fail "guest $m: counts are missing"
			continue
		}
		echo "$m: perf stat counted 200000 instructions more as $((three - one)) ticks; CPUs that execute 20000000 each: $cpu0 and $cpu1"
		[ $((three - one)) -ge $((want - slack)) ] && [ $((three - one)) -le $((want + slack)) ] ||
			fail "guest $m: perf stat counted 200000 instructions more as $((three - one)) ticks"
		# A program's own event, with the same work of the kernel between its readings, is exact.
		echo "200000 instructions more, $want ticks more\$" | expect "$m"
		for cpu in "$cpu0" "$cpu1"; do
			[ "$cpu" -ge $((100 * want)) ] && [ "$cpu" -le 100000000 ] || fail "guest $m: a CPU counted $cpu"
		done
	done
	;;
perf)
	n=${1:-10000} period=1000000
	[ $# = 0 ] || shift
	models=${*:-$all_models}
	# One instruction is one tick of the machine's TSC. Each sample has the count at its PMI: that of sample
	# number k must be in period k, or a PMI was lost.
	for m in $models; do
		ev=$(event "$m")
		initrd "$m.initrd" --perf bin/spin="$build/tests/nested-spin" <<-END
			echo 0 >/proc/sys/kernel/perf_cpu_time_max_percent
			before=\$(awk '/^ *PMI:/ { print \$2 }' /proc/interrupts)
			perf record -q --no-inherit -e '{$ev}:S' -c $period -o /tmp/data spin $((n * period)) 2>&1
			after=\$(awk '/^ *PMI:/ { print \$2 }' /proc/interrupts)
			perf report -i /tmp/data --stats 2>/dev/null | grep -E 'SAMPLE|LOST|THROTTLE'
			perf script -i /tmp/data -F period | awk '{ sum += \$1; n++; bad += int(sum / $period) != n }
				END { print "samples: " n; print "samples of other periods: " bad + 0; printf "last count: %.0f\n", sum }'
			echo "PMIs: \$((after - before))"
			dmesg | grep -iE 'uhhuh|general protection|WARNING: CPU|BUG:|Oops|lockup' && echo 'the log has a complaint'
		END
		echo "vpmu-vmm --no-socket --vm '$(vm "$m" "$m.initrd" "$m" 1 384M)'"
	done >"$tmp/starts"
	script --exact <"$tmp/starts"
	for m in $models; do
		samples=$(least "$m" samples) pmis=$(least "$m" PMIs) others=$(least "$m" 'samples of other periods')
		echo "$m: $n periods, ${samples:-no} samples, ${others:-?} of them of other periods, ${pmis:-no} PMIs," \
			"last count $(least "$m" 'last count')"
		[ "${samples:-0}" -ge "$n" ] || fail "guest $m: ${samples:-no} samples of at least $n"
		[ "${samples:-0}" = "${pmis:-none}" ] || fail "guest $m: ${samples:-no} samples, ${pmis:-no} PMIs"
		[ "${others:-1}" = 0 ] || fail "guest $m: ${others:-no} samples are not of the next period"
		! grep -qE "^\[$m\] .*(LOST|THROTTLE|the log has a complaint)" "$tmp/out" || fail "see the output of guest $m"
	done
	;;
hostile)
	# The machine's KVM reports each unknown MSR, which takes longer than all else.
	export BED_KERNEL=loglevel=1
	files="$build/tests/hostile-fault $build/tests/hostile-spin $build/tests/hostile-flood $build/tests/hostile-msr $build/guest/guest.elf"
	script <<-'END'
		export VPMU_SOCKET=/tmp/s.sock
		image() { echo "name=$1,tenant=/$1,image=/bed/$2,engine=kvm,policy=full,pmu=${3-intel-v2}"; }
		server() {
			vpmu-vmm --socket $VPMU_SOCKET --hold --console stdout --console-rate 40 --cgroup-root /sys/fs/cgroup/vms "$@" >>/tmp/log 2>&1 &
			server=$!
			until vpmu sharing >/dev/null 2>&1; do
				kill -0 $server || { cat /tmp/log; echo "no server"; exit 1; }
				sleep 0.2
			done
		}
		ended() { until grep -q "^vm $1: " /tmp/log; do sleep 0.2; done; }
		cd /tmp
		mkdir /sys/fs/cgroup/vms
		server --vm "$(image fault hostile-fault)" --vm "$(image spin hostile-spin)" --vm "$(image flood hostile-flood)" \
			--vm "$(image msr1 hostile-msr)" --vm "$(image msr2 hostile-msr amd-v2)" \
			--vm "$(image good guest.elf),args=run fib 24"
		for vm in fault msr1 msr2 good; do ended $vm; done
		# One more that starts and ends beside those that go on.
		vpmu vm add name=late tenant=/late image=/bed/guest.elf engine=kvm args='run sieve 20000'
		ended late
		vpmu list | grep -E 'spin|flood'
		# 160 bytes at once are less than one line of the flood, so it is dropped; the others' lines are shorter.
		until vpmu list | grep -q "flood .*console-dropped="; do sleep 0.2; done
		vpmu vm rm spin && vpmu vm rm flood && echo "both can be removed"
		cat /tmp/log
		vpmu vm add name=last tenant=/last image=/bed/hostile-spin engine=kvm pmu=intel-v2
		echo "before the kill: $(ls -l /proc/$server/fd | grep -c kvm) files of KVM"
		ls -d /sys/fs/cgroup/vms/last
		kill -9 $server
		wait $server
		echo "left: $(ls -l /proc/[0-9]*/fd 2>/dev/null | grep -cE 'kvm|perf_event') files, $(ps | grep -c '[v]pmu-vmm') processes"
		server --vm "$(image last guest.elf),args=run loop 1000"
		ended last
		ls -d /sys/fs/cgroup/vms/last 2>&1
		vpmu list >/dev/null && vpmu quit && wait $server && echo "the next one ends well"
		ls -d /sys/fs/cgroup/vms/last 2>&1
		tail -n 2 /tmp/log
	END
	for want in 'vm fault: failed.*triple fault' 'vm msr1: done, status 0' 'vm msr2: done, status 0' \
		'\[good\] .*fib 24 = 46368' 'vm good: done, status 0' '\[late\] .*sieve 20000 = ' 'vm late: done, status 0' \
		'spin .*state=running' 'flood .*state=running' 'both can be removed' \
		'before the kill: ([3-9]|[1-9][0-9]+) files of KVM' '^/sys/fs/cgroup/vms/last' 'left: 0 files, 0 processes' \
		'vm last: done, status 0' 'the next one ends well' '/sys/fs/cgroup/vms/last: No such file'; do
		grep -Eq "$want" "$tmp/out" || fail "nothing says: $want"
	done
	! grep -Eq '^\[flood\].*fff' "$tmp/out" || fail "the flood is printed"
	;;
move)
	initrd job.initrd --perf bin/spin="$build/tests/nested-spin" <<-'END'
		for n in 1 2 3 4 5 6 7 8; do
			perf stat -x, -e ref-cycles spin 40000000 2>&1 | sed "s/^/round $n,/"
		done
		dmesg | grep -iE 'uhhuh|general protection|WARNING: CPU|BUG:|Oops|lockup' && echo 'the log has a complaint'
		echo 'all rounds done'
	END
	script --exact <<-END
		cd /tmp
		server() { # NUMBER
			n=\$1
			shift
			vpmu-vmm --socket /tmp/\$n.sock --hold --console stdout --snapshot-dir /tmp "\$@" &
			until vpmu -S /tmp/\$n.sock sharing >/dev/null 2>&1; do sleep 0.2; done
		}
		server 0 --vm '$(vm moves job.initrd intel-v5 1 192M)' >/tmp/0.log 2>&1
		for i in 1 2 3; do
			until grep -q "round \$((2 * i))," /tmp/*.log; do sleep 0.1; done
			vpmu -S /tmp/\$((i - 1)).sock vm save moves moves.snap || exit 1
			vpmu -S /tmp/\$((i - 1)).sock vm rm moves
			vpmu -S /tmp/\$((i - 1)).sock quit
			server \$i >/tmp/\$i.log 2>&1
			vpmu -S /tmp/\$i.sock vm restore moves.snap trust=yes || { cat /tmp/\$i.log; exit 1; }
			rm moves.snap
		done
		until grep -q '^vm moves: ' /tmp/3.log; do sleep 0.2; done
		cat /tmp/?.log
	END
	for n in 1 2 3 4 5 6 7 8; do
		count=$(sed -n "s/^.*round $n,\([0-9]*\),.*/\1/p" "$tmp/out")
		[ "${count:-0}" -ge 40000000 ] && [ "$count" -le 43000000 ] ||
			fail "perf stat of 40000000 instructions counted ${count:-nothing} in round $n"
	done
	echo 'all rounds done' | expect moves
	! grep -q '^\[moves\] the log has a complaint' "$tmp/out" || fail "see the guest's log"
	;;
stop)
	models=${*:-amd-v2}
	vms=
	# The watchdog of soft lockups reports after 20 s, that of RCU after 21 s. Both look at once when the clock has jumped:
	# then the time of their timers is over. The program on CPU 1 ends soon, since each second of it is 10^9 instructions.
	for m in $models; do
		initrd "$m.initrd" <<-'END'
			clock() { cut -d. -f1 /proc/uptime; }
			for round in 1 2; do
				taskset 2 sh -c 'while :; do :; done' &
				last=$(clock) now=$(clock)
				echo "round $round: ready"
				until [ $((now - last)) -ge 10 ]; do
					last=$now
					sleep 0.2
					now=$(clock)
				done
				echo "round $round: the clock jumped by $((now - last)) s"
				sleep 0.5
				kill $!
				sleep 25
			done
			echo "watchdogs: $(cat /proc/sys/kernel/emu_watchdog) $(cat /proc/sys/kernel/watchdog_thresh)"
			dmesg | grep -iE 'lockup|rcu.*(stall|starved)|WARNING: CPU|BUG:|Oops|blocked for more|Call Trace' | sed 's/^/complaint: /'
			echo 'all rounds done'
		END
		vms="$vms --vm '$(vm "$m" "$m.initrd" "$m" 2 192M)'"
	done
	script --exact <<-END
		cd /tmp
		: >/tmp/log
		tail -f /tmp/log &
		tail=\$!
		vpmu-vmm --socket /tmp/s.sock --hold --console stdout $vms >>/tmp/log 2>&1 &
		server=\$!
		ready() { # round
			for m in $models; do
				until grep -q "^\[\$m\] .*round \$1: ready" /tmp/log; do
					kill -0 \$server || exit 1
					sleep 0.2
				done
			done
		}
		ready 1
		kill -STOP \$server
		sleep 30
		kill -CONT \$server
		ready 2
		export VPMU_SOCKET=/tmp/s.sock
		for m in $models; do vpmu pause \$m; done
		sleep 30
		for m in $models; do vpmu resume \$m; done
		for m in $models; do until grep -q "^vm \$m: " /tmp/log; do sleep 0.2; done; done
		vpmu quit && wait \$server && echo 'the server ends well'
		sleep 2
		kill \$tail
	END
	grep -q '^the server ends well' "$tmp/out" || fail "the server did not end well"
	for m in $models; do
		printf '%s\n' 'round 1: the clock jumped by (29|3[0-9]) s' 'round 2: the clock jumped by (29|3[0-9]) s' 'watchdogs: 1 10' 'all rounds done' | expect "$m"
		! grep "^\[$m\] complaint: " "$tmp/out" || fail "guest $m complains"
		grep -q "^vm $m: done" "$tmp/out" || fail "guest $m did not switch itself off"
	done
	;;
matrix)
	for c in models 'perf 10000' hostile move stop; do
		"$0" $c || fail "case $c"
	done
	;;
*)
	echo "linux.sh: unknown case '$case'" >&2
	exit 2
	;;
esac
[ ! -e "$tmp/failed" ]
