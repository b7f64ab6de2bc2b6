#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
# vpmu stat -C: counts of chosen CPUs. A program that stays on one CPU is counted there and nowhere else, and
# the CPUs' counts add up to those of all.
. "$(dirname "$0")/vpmud_lib.inc"

need_cgroups
need_run
cpus=$(nproc)
[ "$cpus" -ge 2 ] && taskset -c 0 true && taskset -c 1 true || { echo "# SKIP needs CPUs 0 and 1"; exit 77; }
mkdir -p "$ground/acme/web"
begin_conf
tenant /acme acme /acme/web acme/web
start

ticks() { awk '{ print $14 + $15 }' "/proc/$busy/stat"; }
ran() { [ "$(ticks)" -ge "$1" ]; }
count() { jq -r 'select(.event == "task-clock") | ."counter-value"' "$1" | awk '{ printf "%.0f", $1 }'; } # ns
# Three sessions, then a program that runs for 0.3 s on CPU 1: it begins and ends while all of them count.
for list in 0 1 "0-$((cpus - 1))"; do
	"$vpmu" stat -C "$list" -t /acme -e task-clock -d 3000 -j >"$dir/on-$list" 2>"$dir/err-$list" &
	jobs="$jobs $!" readers="${readers-} $!"
done
sessions() { [ "$("$vpmu" sessions -j | grep -c '"session"')" -ge 3 ]; }
wait_for "${readers##* }" sessions
sh -c 'echo $$ >"$0/cgroup.procs" && exec taskset -c 1 "$1"' "$ground/acme/web" "$VPMU_BIN/../tests/vpmu-spin" &
busy=$!
jobs="$jobs $busy"
wait_for "$busy" grep -q vpmu-spin "/proc/$busy/maps"
wait_for "$busy" ran 30
kill "$busy"
wait "$busy" 2>/dev/null
kill -INT $readers
for r in $readers; do wait "$r"; done
jobs=
all=$(count "$dir/on-0-$((cpus - 1))") one=$(count "$dir/on-1") zero=$(count "$dir/on-0")
at_least "CPU 1 counts the program" "$one" 200000000
[ "${zero:-x}" -le 10000000 ] || check "CPU 0 does not" "$zero" "up to 10000000"
[ $((one + zero)) -ge $((all * 9 / 10)) ] && [ "$one" -le $((all * 11 / 10)) ] ||
	check "they add up" "$one + $zero" "$all"

# ---- wrong ones: one line ----
for list in "$cpus"0000 x 1-0 0, 0- ''; do
	refuses 2 '(is invalid; expected a list such as 0,2-4|expected .*1 to 4096)' \
		"$vpmu" stat -C "$list" -e task-clock -d 0.01
done
"$vpmu" attach named -C 0 -e task-clock 2>"$dir/err"
check_match "a session with a name" "$(cat "$dir/err")" "unrecognized option '-C'"
"$vpmu" stat -C 0 -e run-delay,task-clock -d 0.1 >"$dir/out" 2>&1
check_match "events of no CPU" "$(cat "$dir/out")" '<not supported> .*run-delay'
check_match "the title" "$(cat "$dir/out")" "for '/' on CPUs 0"
finish
