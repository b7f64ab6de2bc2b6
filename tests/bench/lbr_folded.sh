#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
# How long `vpmu lbr -d 1 --folded` takes with many VMs (goal: 2 s with 1,000 on a machine that is idle
# otherwise), and how many of its 100 readings of all VMs that was enough for. By hand: sh
# tests/bench/lbr_folded.sh BUILD [VMS]. No test judges the time. Figures that must not depend on it - requests and
# pCPUs asked per VM - is counted by integration.cli_answers and test_capture_lbr.
set -eu
bin=$1/bin image=$1/guest/guest.elf vms=${2:-1000}
dir=$(mktemp -d)
export VPMU_SOCKET="$dir/s.sock"
trap 'kill "$server" 2>/dev/null; rm -rf "$dir"' EXIT

i=0
while [ $i -lt "$vms" ]; do
	printf '[vm v%d]\nimage=%s\nengine=emulator\ntenant=/t%d\nargs=spin 1000000\nmemory=8M\n' \
		$i "$image" $((i % 10))
	i=$((i + 1))
done >"$dir/vms.ini"
"$bin/vpmu-vmm" --socket "$VPMU_SOCKET" --hold --config "$dir/vms.ini" >"$dir/log" 2>&1 &
server=$!
until "$bin/vpmu" sharing >/dev/null 2>&1; do
	kill -0 "$server" || { cat "$dir/log"; exit 1; }
	sleep 0.2
done
start=$(date +%s.%N)
"$bin/vpmu" lbr -d 1 --folded >"$dir/folded" 2>"$dir/notes" || cat "$dir/notes"
end=$(date +%s.%N)
echo "$start $end $vms $(wc -l <"$dir/folded") $(awk '{ s += $NF } END { print s }' "$dir/folded") $(cut -d' ' -f1 /proc/loadavg)" |
	awk '{ printf "lbr_folded: %d VMs: %.2f s, %d stacks of %d readings, load %s\n", $3, $2 - $1, $4, $5 / $3, $6 }'
"$bin/vpmu" quit
