#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
# Stock Linux guests with stock perf on a real KVM: tests/nested/linux.sh CASE [ARGUMENT...]
#   models    boots each model of the next arguments (none: all), and looks at what its driver says
#   perf      perf stat of known instruction counts, and perf record by 10,000 (or the next argument's
#             number of) PMIs of a timer, none lost
# Each case is one boot of the nested bed (tests/nested/run), in which vpmu-vmm runs the guests. Exit status
# 77 with a line "# SKIP" when something is missing.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
top=$(cd "$here/../.." && pwd)
build=${VPMU_BUILD:-$top/build}
linux=$build/linux

skip() {
	echo "# SKIP nested: $*"
	exit 77
}

[ $# -gt 0 ] || {
	sed -n '3,8s/^# //p' "$0"
	exit 2
}
case=$1
shift
[ -e "$linux/complete" ] || skip "no Linux guests (tools/linux-guest)"
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
trap 'exit 130' INT TERM
failed=0

fail() {
	echo "linux.sh: $*"
	failed=1
}

# What a guest does: the text of standard input is its /job.
initrd() { # name [argument of linux-guest initrd...]
	cat >"$tmp/job"
	name=$1
	shift
	VPMU_LINUX=$linux sh "$top/tools/linux-guest" initrd "$tmp/$name" job="$tmp/job" "$@"
}

# vpmu-vmm with one VM for each argument, whose keys come behind these: kernel, initrd, engine, ram.
vm() { # name initrd model vcpus ram
	echo "name=$1,kernel=/bed/cloud.vmlinuz,initrd=/bed/$2,cmdline=console=ttyS0 quiet panic=-1,vcpus=$4,ram=$5,pmu=$3,engine=kvm"
}

bed() { # [--exact] PROGRAM...
	{ VPMU_BUILD=$build "$here/run" "$@" 2>&1 || echo "exit status of the bed: $?"; } | tee "$tmp/out"
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
	BED_FILES="$linux/busybox $linux/cloud.vmlinuz $build/bin/vpmu-vmm $build/bin/vpmu $(echo "$tmp"/*.initrd)" \
		BED_MB=${BED_MB:-1600} bed "$@" "$tmp/script"
}

guests_see() { # model
	case $1 in
	amd-k7) echo 'Performance Events: AMD PMU driver' ;;
	amd-core) echo 'Performance Events: Fam17h.* core perfctr, AMD PMU driver' ;;
	amd-v2) echo 'Performance Events: Fam17h.* core perfctr, AMD PMU driver' && echo 'version: +2' ;;
	intel-v2) echo 'Performance Events: .*Intel PMU driver' && echo 'version: +2' ;;
	intel-v5) echo 'Performance Events: Sapphire Rapids events.* Intel PMU driver' && echo 'version: +5' ;;
	esac
}

case $case in
models)
	models=${*:-amd-k7 amd-core amd-v2 intel-v2 intel-v5}
	initrd job.initrd <<-'END'
		dmesg | grep -A16 'Performance Events'
		dmesg | grep -iE 'uhhuh|general protection|WARNING: CPU|BUG:|Oops|lockup|rcu.*stall' && echo 'the log has a complaint'
		echo "CPUs online: $(nproc)"
	END
	for m in $models; do
		echo "vpmu-vmm --no-socket --vm '$(vm "$m" job.initrd "$m" 2 160M)'"
	done >"$tmp/starts"
	script --exact <"$tmp/starts"
	for m in $models; do
		guests_see "$m" | expect "$m"
		echo 'CPUs online: 2' | expect "$m"
		! grep -q "^\[$m\] the log has a complaint" "$tmp/out" || fail "guest $m: see its log"
		grep -q "^vm $m: done" "$tmp/out" || fail "guest $m did not switch itself off"
	done
	;;
perf)
	# One instruction is one tick of the machine's TSC. A PMI with its exits takes some 100,000.
	n=${1:-10000} period=1000000
	initrd job.initrd --perf bin/spin="$build/tests/nested-spin" <<-END
		echo 0 >/proc/sys/kernel/perf_cpu_time_max_percent
		for n in 20000000 40000000 80000000; do
			perf stat -x, -e ref-cycles spin \$n 2>&1 | sed "s/^/count of \$n,/"
		done
		before=\$(awk '/^ *PMI:/ { print \$2 }' /proc/interrupts)
		perf record -q -e ref-cycles -c $period -o /tmp/data spin $((n * period)) 2>&1
		after=\$(awk '/^ *PMI:/ { print \$2 }' /proc/interrupts)
		perf report -i /tmp/data --stats 2>/dev/null | grep -E 'SAMPLE|LOST|THROTTLE'
		echo "PMIs: \$((after - before))"
		dmesg | grep -iE 'uhhuh|general protection|WARNING: CPU|BUG:|Oops|lockup' && echo 'the log has a complaint'
	END
	script --exact <<-END
		vpmu-vmm --no-socket --vm '$(vm perf job.initrd intel-v5 1 384M)'
	END
	# What the guest's perf counted is what the program executed, and what the kernels did meanwhile.
	for m in 20000000 40000000 80000000; do
		count=$(sed -n "s/^.*count of $m,\([0-9]*\),.*/\1/p" "$tmp/out")
		[ "${count:-0}" -ge $m ] && [ "$count" -le $((m + m / 50 + 1000000)) ] ||
			fail "perf stat of $m instructions counted ${count:-nothing}"
	done
	samples=$(sed -n 's/^.* SAMPLE events: *\([0-9]*\)$/\1/p' "$tmp/out" | tail -n 1)
	pmis=$(sed -n 's/^.* PMIs: \([0-9]*\)/\1/p' "$tmp/out")
	echo "$n periods: ${samples:-no} samples, ${pmis:-no} PMIs"
	[ "${samples:-0}" -ge "$n" ] || fail "${samples:-no} samples of at least $n"
	[ "${samples:-0}" = "${pmis:-none}" ] || fail "${samples:-no} samples, ${pmis:-no} PMIs"
	! grep -qE 'LOST|THROTTLE|the log has a complaint' "$tmp/out" || fail "see the guest's output"
	;;
*)
	echo "linux.sh: unknown case '$case'" >&2
	exit 2
	;;
esac
[ $failed = 0 ]
