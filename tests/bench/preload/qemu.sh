#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
# What vpmu-preload.so costs a stock QEMU in an exit that is QEMU's own: the host's instructions of an OUT to port 80H, of all
# of QEMU's threads and of the kernel for them, with and without the library. In the lab, where they are exact:
#   f=$PWD/build; BED_LAB=amd-v2 BED_CPUS=1 BED_FILES="$(. tests/nested/qemu.inc; qemu_files | tr '\n' ' ') \
#       /usr/share/qemu/multiboot_dma.bin $f/linux/busybox $f/linux/root/usr/bin/perf $f/tests/preload/guest.elf $f/bin/vpmu-qemu $f/bin/vpmu-preload.so" \
#       tests/nested/run $PWD/tests/bench/preload/qemu.sh [EXITS]
# Prints both numbers and their ratio. Nothing is judged.
set -u
n=${1-100000}
export VPMU_QEMU_CONFIG=/dev/null VPMU_VPMUD=none VPMU_PMU=amd-v2
cd /bed || exit 2
count() { # EXITS COMMAND...: instructions of QEMU
	exits=$1
	shift
	perf stat -x, -o /tmp/count -e instructions:H "$@" -L /bed -accel kvm -M pc -m 64 -cpu host,-xsave -nodefaults -display none \
		-no-reboot -device isa-debug-exit,iobase=0xf4 -kernel /bed/guest.elf -append "o$exits" -serial file:/tmp/text </dev/null
	[ "$(tail -n 1 /tmp/text | tr -d '\r')" = "done" ] || echo "FAILED: the guest of $*: $(cat /tmp/text)" >&2
	awk -F, '/instructions/ { print $1 }' /tmp/count
}
PATH=/bed:$PATH
for with in qemu-system-x86_64 "vpmu-qemu --qemu /bed/qemu-system-x86_64"; do
	none=$(count 0 $with)
	all=$(count "$n" $with)
	echo $(((all - none) / n)) >>/tmp/exits
	echo "$with: $none for its start, $(((all - none) / n)) for an exit"
done
paste -s -d' ' /tmp/exits | awk '{ printf "ratio %.4f\n", $2 / $1 }'
