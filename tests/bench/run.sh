#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
# Tests that vpmu-bench prints the machine and results in units: run.sh VPMU-BENCH. No time is judged.
set -u
out=$("$1" --json --rounds 20 switch_equal consumer_read) || exit 1
echo "$out"
[ "$(echo "$out" | grep -c '^{"machine":{.*"kernel":.*"load":')" = 1 ] || exit 1
[ "$(echo "$out" | grep -c '"name":"switch_equal".*"units":.*"of":"block".*"rounds":20')" = 1 ] || exit 1
[ "$(echo "$out" | grep -c '"name":"consumer_read".*"units":.*"of":"call".*"consumers":')" = 4 ] || exit 1
[ "$(echo "$out" | grep -c '"name":"consumer_read_flat"')" = 1 ] || exit 1
text=$("$1" --rounds 20 switch_equal) || exit 1
echo "$text"
[ "$(echo "$text" | grep -c '^# kernel  *[0-9]')" = 1 ] || exit 1
[ "$(echo "$text" | grep -c '^switch_equal .* ns .* block ')" = 1 ] || exit 1
text=$("$1" --rounds 1 control_stall) || exit 1
echo "$text"
[ "$(echo "$text" | grep -c '^control_stall .* ms .* <= 100 .*"call":"[a-z-]*","slice":10*,"calls":[1-9]')" = 12 ] || exit 1
# Without QEMU the comparison with it is skipped, with a line.
text=$(PATH=/nonexistent "$1" emu_mips_programs 2>&1) || exit 1
echo "$text"
[ "$(echo "$text" | grep -c 'emu_mips_programs: SKIPPED: qemu-system-x86_64 is not installed')" = 1 ] || exit 1
text=$(PATH=/nonexistent "$1" linux_boot_emu 2>&1) || exit 1
echo "$text"
[ "$(echo "$text" | grep -c 'linux_boot_emu: SKIPPED: qemu-system-x86_64 is not installed')" = 1 ] || exit 1
! echo "$text" | grep -q 'linux_boot_emu .*x icount'
