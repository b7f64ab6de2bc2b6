#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
# vpmu profile and vpmu lbr of a real host through vpmud: the clock of two tenants without VMs, in every
# format. What guests' samples look like is tested with a fake kernel (it_cgroup_sampling) and in the test
# bed kvmbed (bed_profile).
. "$(dirname "$0")/vpmud_lib.inc"

need_cgroups
need_run
mkdir -p "$ground/acme/web" "$ground/globex"
begin_conf
tenant /acme acme /globex globex
start

# A program that only computes, in a cgroup below the one that the rule names.
sh -c 'echo $$ >"$0/cgroup.procs" && exec "$1"' "$ground/acme/web" "$VPMU_BIN/../tests/vpmu-spin" &
busy=$!
jobs=$busy

# ---- rows ----
ticks() { awk '{ print $14 + $15 }' "/proc/$busy/stat"; } # of 10 ms that the program ran
ran() { [ "$(ticks)" -ge "$1" ]; }
sampled() { "$vpmu" sessions -j | grep -q '"profile"'; }
# Samples may be lost if vpmud does not run for seconds, and never untold: at the end the sum of the numbers told is vpmud's
# own.
told=0 stopped= period=1000000
tell() { told=$((told + ${1:-0})); }
# told_messages WHAT: standard error has nothing but lines that tell how many were lost, or are of processes that had
# ended before their cgroup was read.
told_messages() {
	lost=$(sed -n 's/^vpmu: \([1-9][0-9]*\) samples were lost and are missing: .*; raise the period with -c$/\1/p' "$dir/err")
	tell "$lost"
	check "$1: messages" "$(grep -Ev "^vpmu: (${lost:-[1-9][0-9]*} samples were lost and are missing: |[1-9][0-9]* samples are of unknown tenants; )" "$dir/err")" ""
}
told_total() { tell "$(jq -r 'select(.kind == "profile-total") | .lost' "$1")"; }
# sample OUT ARG...: a profile of the tenant until its program has run for 0.3 s. Another may have this CPU
# for a while. $stopped: so many ticks more, in which vpmud is stopped.
sample() {
	out=$1
	shift
	"$vpmu" profile -e cpu-clock -c "$period" -d 3000 "$@" /acme >"$out" 2>"$dir/err" &
	profile=$!
	jobs="$busy $profile"
	wait_for "$profile" sampled
	[ -z "$stopped" ] || kill -STOP "$server"
	wait_for "$busy" ran $(($(ticks) + 30 + ${stopped:-0}))
	[ -z "$stopped" ] || kill -CONT "$server"
	kill -INT "$profile"
	wait "$profile"
	check "profile $*: exit status" $? 0
	told_messages "profile $*"
	jobs=$busy
}
sample "$dir/rows" -j
check "every row is the tenant's" "$(jq -r 'select(.kind == "profile") | .tenant' "$dir/rows" | sort -u)" /acme
check "and no VM's" "$(jq -r 'select(.kind == "profile") | .vm // "none"' "$dir/rows" | sort -u)" none
check "whose code it is" "$(jq -r 'select(.kind == "profile") | .side' "$dir/rows" | grep -vxE 'user|host')" ""
user=$(jq -s '[.[] | select(.side == "user") | .samples | tonumber] | add // 0' "$dir/rows")
[ "$user" -ge 1 ] || check "samples of the program" "$user" "at least 1"
check "the program's code has its name" \
	"$(jq -r 'select(.side == "user") | "\(.comm) \(.function) \(.object | sub(".*/"; ""))"' "$dir/rows" | head -n 1)" \
	"vpmu-spin spin_here vpmu-spin"
check "all samples are in rows" \
	"$(jq -s '([.[] | select(.kind == "profile") | .samples | tonumber] | add) ==
		(.[-1].samples | tonumber) - (.[-1]["other-rows"] | tonumber)' "$dir/rows")" true
told_total "$dir/rows"
check "backend" "$(jq -r .backend "$dir/rows" | sort -u)" bpf

# ---- CPUs: the program is on one of them ----
last=$(sed 's/.*[-,]//' /sys/devices/system/cpu/online)
if [ "$last" != 0 ]; then
	taskset -pc 0 "$busy" >/dev/null
	sample "$dir/on" -j -C 0
	told_total "$dir/on"
	check "its CPU: samples" "$(jq -s '.[-1].samples | tonumber >= 100' "$dir/on")" true
	"$vpmu" profile -e cpu-clock -c 1000000 -d 0.5 -j -C "1-$last" / >"$dir/off" 2>"$dir/err"
	check "other CPUs: no sample of it" "$(jq -s '[.[] | select(.tenant == "/acme")] | length' "$dir/off")" 0
	told_total "$dir/off"
	taskset -pc "0-$last" "$busy" >/dev/null
fi

# ---- a tenant in which nothing runs ----
"$vpmu" profile -e cpu-clock -c 1000000 -d 0.2 /globex >"$dir/out" 2>"$dir/err"
status=$?
lost=$(sed -n 's/^#.* samples, \([0-9,]*\) lost, .*/\1/p' "$dir/out" | tr -d ,)
tell "$lost"
if [ "${lost:-0}" = 0 ]; then
	check "nothing ran: exit status" $status 1
	check_match "nothing ran" "$(cat "$dir/err")" '^vpmu: profile: no samples of /globex'
else # of which tenant they were is not known
	check "nothing ran, and some were lost: exit status" $status 0
fi

# ---- what other tools read ----
# The format of FlameGraph's stackcollapse-perf.pl: a line with name, process and event, lines with
# address, symbol and object, an empty line. This counts samples as it does.
collapse() {
	awk '
	/^$/ { if (stack != "") { n[name stack]++; all++ } stack = ""; name = ""; next }
	/^[^\t ].*[^ ] +[0-9]+ +[0-9]+\.[0-9]+: +[0-9]+ +[^ ]+:$/ { name = $1; next }
	/^\t *[0-9a-f]+ .+ \(.*\)$/ { stack = ";" $2 stack; next }
	{ print "not in the format: " $0; exit 1 }
	END { print all + 0 }' "$1"
}
sample "$dir/script" --format=perf-script
n=$(collapse "$dir/script")
[ "$n" -ge 1 ] 2>/dev/null || check "perf-script: samples" "$n" "at least 1"
check "perf-script: all of them" "$n" "$(grep -cE '^/acme(:vpmu-spin)? [0-9]+ [0-9]+\.[0-9]{9}: 1000000 cpu-clock:$' "$dir/script")"
check "perf-script: names" "$(grep -q '^/acme:vpmu-spin ' "$dir/script" && grep -c -m 1 ' spin_here+0x[0-9a-f]* (/.*/vpmu-spin)$' "$dir/script")" 1
check "perf-script: in the order of their times" "$(awk '/^[^\t]/ && NF { print $3 }' "$dir/script" | sort -c -t . -k 1,1n -k 2,2 2>&1)" ""
sample "$dir/folded" --folded
check "folded: lines" "$(grep -vcE '^/acme;\[(user|host)\](;[^;]+)+ [0-9]+$' "$dir/folded")" 0
check "folded: names" "$(grep -c -m 1 '^/acme;\[user\];vpmu-spin;.*spin_here [0-9]*$' "$dir/folded")" 1
[ -s "$dir/folded" ] || check "folded: samples" "$(cat "$dir/folded")" "some"
stopped=70 period=100000
sample "$dir/folded" --folded
check_match "vpmud was stopped: lost samples" "$(cat "$dir/err")" '^vpmu: [1-9][0-9]* samples were lost and are missing: '
check "one format only" "$("$vpmu" profile --format=perf-script --folded 2>&1 | head -n 1)" \
	"vpmu: profile: give only one of --format, --folded and -j"
check_match "another format" "$("$vpmu" profile --format=perf 2>&1 | head -n 1)" \
	'^vpmu: profile: --format "perf" is invalid; expected perf-script'

# ---- names of guests' kernels: files that are none are refused before anything is sampled ----
echo 'not kallsyms' >"$dir/syms"
check "a file without symbols" "$("$vpmu" profile -d 600 -e cpu-clock --guestkallsyms="$dir/syms" 2>&1)" \
	"vpmu: --guestkallsyms: $dir/syms:1: not a line of kallsyms, which are ADDRESS TYPE NAME"
check_match "no file" "$("$vpmu" profile -d 600 -e cpu-clock --guestkallsyms=vm-1="$dir/none" 2>&1)" \
	"^vpmu: --guestkallsyms: $dir/none: No such file"
check "no profile is left" "$("$vpmu" sessions -j | grep -c '"profile"')" 0
check "every lost sample was told" "$told" "$("$vpmu" metrics --prometheus | sed -n 's/^vpmu_samples_lost_total //p')"

# ---- branch records: not on a host without them, with the reason ----
"$vpmu" lbr -d 0.1 /acme >"$dir/out" 2>"$dir/err"
if grep -q 'not supported' "$dir/err"; then
	check "lbr" "$(cat "$dir/err")" \
		"vpmu: -t: branch records of mode call-stack are <not supported>: the kernel has no perf event with branch records on this CPU"
else
	# A tenant without VMs has no vCPUs, and no records of them.
	check_match "lbr" "$(cat "$dir/err")" '^vpmu: lbr: no vCPU of /acme has records'
fi
finish
