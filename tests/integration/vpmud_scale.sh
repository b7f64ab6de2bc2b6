#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
# Very many tenants and eight events: files of vpmud do not grow with tenants, an answer has every row, its
# memory is bounded, and clients are answered while all cgroups go at once. What it took is printed.
# VPMUD_SCALE=10000: so many tenants (default 1000).
. "$(dirname "$0")/cli_lib.inc"
vpmud=$VPMU_BIN/vpmud
conf=$dir/vpmud.conf
tenants=${VPMUD_SCALE:-1000}
events=context-switches,page-faults,cpu-migrations,task-clock,minor-faults,major-faults,alignment-faults,emulation-faults

ground=
for mount in /sys/fs/cgroup/unified /sys/fs/cgroup; do
	[ "$(stat -f -c %T $mount 2>/dev/null)" = cgroup2fs ] || continue
	mkdir $mount/vpmud-scale-$$ 2>/dev/null && ground=$mount/vpmud-scale-$$ && break
done
[ -n "$ground" ] || { echo "# SKIP no cgroup2 directory this user may write to"; exit 77; }
clean() {
	rm -rf "/run/vpmud-scale-$$"
	find "$ground" -depth -type d -exec rmdir {} + 2>/dev/null
}
on_exit=clean
mkdir -m 755 "/run/vpmud-scale-$$" || exit 1
VPMU_SOCKET=/run/vpmud-scale-$$/s
printf '[vpmud]\nsocket = %s\npin_dir = none\nlibvirt = none\n[tenant /t/*]\ncgroup = /vpmud-scale-%s/*\n' \
	"$VPMU_SOCKET" $$ >"$conf"
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
"$vpmud" -c "$conf" >"$dir/server.log" 2>&1 &
server=$!
wait_for "$server" "$vpmu" sessions || {
	if grep -Eq 'does not permit|no BTF|refuses the BPF program' "$dir/server.log"; then
		echo "# SKIP counting: $(tail -1 "$dir/server.log")"
		wait "$server"
		server=
		exit 77
	fi
	check "vpmud starts" "$(cat "$dir/server.log")" "it answers"
	finish
}
wait_for "$server" in_list 10
"$vpmu" attach all -e $events --for-each tenant -t /t >/dev/null || exit 1
few=$(files)
"$vpmu" detach all >/dev/null
make 10 "$tenants"
wait_for "$server" in_list "$tenants"
t0=$(cpu_ms)
"$vpmu" attach all -e $events --for-each tenant -t /t >/dev/null || exit 1
t1=$(cpu_ms)
check "files of vpmud do not grow with tenants" "$(files)" "$few"
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
