#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
# Very many tenants and eight events: files of vpmud do not grow with tenants, an answer has every row, its
# memory is bounded, and clients are answered while all cgroups go at once. Its cost is printed.
# VPMUD_SCALE=10000: so many tenants (default 1000).
. "$(dirname "$0")/vpmud_lib.inc"
tenants=${VPMUD_SCALE:-1000}
events=context-switches,page-faults,cpu-migrations,task-clock,minor-faults,major-faults,alignment-faults,emulation-faults

need_cgroups
need_run
printf '[vpmud]\nsocket = %s\npin_dir = none\nlibvirt = none\n[tenant /t/*]\ncgroup = %s/*\n' \
	"$VPMU_SOCKET" "$top" >"$conf"
make() { # FROM TO
	i=$1
	while [ "$i" -lt "$2" ]; do
		echo "$ground/c$i"
		i=$((i + 1))
	done | xargs mkdir
}
files() { ls "/proc/$server/fd" | wc -l; }
cpu_ms() { awk -v hz="$(getconf CLK_TCK)" '{print int(($14 + $15) * 1000 / hz)}' "/proc/$server/stat"; }
memory() { awk -v f="$1:" '$1 == f {print $2}' "/proc/$server/status"; }
rows() { "$vpmu" stat --session all -t /t -j 2>/dev/null; }
in_list() { [ "$("$vpmu" list -j | grep -c '"path":"/t/c')" = "$1" ]; }

make 0 10
start
wait_for "$server" in_list 10
"$vpmu" attach all -e $events --for-each tenant -t /t >/dev/null || exit 1
few=$(files)
"$vpmu" detach all >/dev/null
make 10 "$tenants"
wait_for "$server" in_list "$tenants"
t0=$(cpu_ms)
"$vpmu" attach all -e $events --for-each tenant -t /t >/dev/null || exit 1
t1=$(cpu_ms)
# A look at /proc has a few files open for a moment.
many=$(files)
[ "$many" -le $((few + 4)) ] || check "files of vpmud do not grow with tenants" "$many" "about $few"
"$vpmu" stat --session all -j >"$dir/read"
t2=$(cpu_ms)
check "every tenant with every event" "$(grep -c '"tenant":"/t/c' "$dir/read")" $((tenants * 8))
"$vpmu" check >"$dir/check"
echo "# $tenants tenants, 8 events: CPU time of vpmud $((t1 - t0)) ms to attach, $((t2 - t1)) ms to read;" \
	"$(memory VmRSS) KiB resident, $(memory VmHWM) at most; $few files," \
	"$(sed -n 's/.*; \([0-9]* perf events\),.*/\1/p' "$dir/check") on $(getconf _NPROCESSORS_ONLN) CPUs"
if ! grep -q 'sanitizer' "$dir/check"; then
	[ "$(memory VmHWM)" -lt 65536 ] || check "memory of vpmud" "$(memory VmHWM) KiB" "below 65536"
fi
find "$ground" -mindepth 1 -depth -type d -exec rmdir {} +
wait_for "$server" in_list 0
echo "# all removed: $(($(cpu_ms) - t2)) ms, the clients' lists included"
check "what they counted is here" "$("$vpmu" stat --session all -j | grep -c '"tenant":"/t"')" 8
finish
