#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
# What vpmu-preload.so costs a VMM: exits.sh BUILD [ROUNDS [EXITS]]
# The same exits (exits.c) by a program that does nothing but KVM_RUN, and with the library, in turn. Prints the least CPU
# time of an exit over all rounds, the difference (the library's user space), and the ratio of the two; likewise instructions,
# where they can be counted. Fails if the library has not answered the guest's MSRs. No time is judged. In the lab, where
# instructions are exact:
#   f=$PWD/build; BED_LAB=amd-v2 BED_FILES="$f/linux/busybox $f/bench/vpmu-preload-exits $f/bin/vpmu-qemu $f/bin/vpmu-preload.so" \
#       tests/nested/run $PWD/tests/bench/preload/exits.sh $f 1
set -u
build=$(cd "$1" && pwd) || exit 2
rounds=${2-20} exits=${3-10000}
prog=$build/bench/vpmu-preload-exits
unset VPMU_QEMU VPMU_GP VPMU_POLICY VPMU_ALLOW VPMU_DENY LD_PRELOAD
export VPMU_QEMU_CONFIG=/dev/null VPMU_VPMUD=none # not this host's
[ -e "$build/bin/vpmu-preload.so" ] || { echo "# SKIP no vpmu-preload.so"; exit 77; }
grep -q GenuineIntel /proc/cpuinfo && model=intel-v2 || model=amd-core
export EXITS="$exits" EXITS_MODEL=$model VPMU_PMU=$model
[ $model = intel-v2 ] || export VPMU_GP=6 # a host of six demands that
dir=$(mktemp -d) || exit 2
trap 'rm -rf "$dir"' EXIT

one() { # KIND bare|library: a line more in its file
	if [ "$2" = bare ]; then
		EXITS_KIND=$1 timeout 600 "$prog" >"$dir/out" 2>"$dir/err"
	else
		EXITS_KIND=$1 timeout 600 "$build/bin/vpmu-qemu" --qemu "$prog" -accel kvm -cpu host >"$dir/out" 2>"$dir/err"
	fi
	rc=$?
	[ $rc != 77 ] || { cat "$dir/err"; exit 77; }
	want=0
	[ "$1" = io ] || [ "$2" = library ] || want=$((exits / 1000 * 1000))
	if [ $rc != 0 ] || [ "$(cut -d' ' -f2 "$dir/out")" != $want ]; then
		echo "FAILED: $1, $2: status $rc, $(cat "$dir/out" "$dir/err"); expected $want MSR exits for the VMM"
		exit 1
	fi
	cut -d' ' -f1 "$dir/out" >>"$dir/$1.$2"
	cut -d' ' -f3 "$dir/out" >>"$dir/$1.$2.instructions"
}
r=0
while [ $((r += 1)) -le "$rounds" ]; do
	for kind in rdmsr wrmsr io; do
		one $kind bare
		one $kind library
	done
done
table() { # SUFFIX
	for kind in rdmsr wrmsr io; do
		sort -n "$dir/$kind.bare$1" | head -1 >"$dir/a"
		sort -n "$dir/$kind.library$1" | head -1 >"$dir/b"
		paste "$dir/a" "$dir/b" |
			awk -v k=$kind '{ printf "%-6s bare %7.0f  library %7.0f  difference %5.0f  ratio %.4f\n", k, $1, $2, $2 - $1, $2 / $1 }'
	done
}
echo "CPU time of an exit in ns ($model; the least of $rounds rounds of $exits):"
table ""
if ! grep -qx '0\.0' "$dir"/*.instructions; then
	echo "Instructions of the host for an exit:"
	table .instructions
fi
