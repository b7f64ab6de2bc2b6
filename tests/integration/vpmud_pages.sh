# SPDX-License-Identifier: GPL-2.0-or-later
# One counter for operator and guest: a VMM on vpmu/kvm.h whose vCPU is counted on vpmud's page, without perf events of
# its own, and to the count; through kills of vpmud. Without vpmud, and where vpmud refuses, events of the thread count.
. "$(dirname "$0")/vpmud_lib.inc"

vmm=$VPMU_BIN/../tests/vpmu-guest-pages
[ -x "$vmm" ] || { echo "# SKIP for x86-64 hosts"; exit 77; }
[ -w /dev/kvm ] || { echo "# SKIP /dev/kvm cannot be used"; exit 77; }
need_run
mount_bpf || { echo "# SKIP no BPF file system can be mounted"; exit 77; }

begin_conf
echo "guest_events = page-faults" >>"$conf"
mkfifo "$dir/in" "$dir/out"
"$vmm" "$run/vcpus.sock" <"$dir/in" >"$dir/out" &
vmm_pid=$!
jobs="$jobs $!"
exec 3>"$dir/in" 4<"$dir/out"
read -r answer <&4
[ "$answer" = ready ] || { echo "# SKIP $answer"; exit 77; }
one() { echo "$*" >&3; read -r answer <&4; }

# is SHARED EVENTS: soon the key is counted there. One event is of switches: when the thread has a CPU.
is() {
	for _ in $(seq 200); do
		one run
		[ "$answer" = "$*" ] && break
	done
	check "keys on vpmud's page, events of the thread" "$answer" "$*"
}

# exact N...: N page faults are N more for the consumer, and as many as perf counts.
exact() {
	for n; do
		one faults 0
		was=$answer
		one faults "$n"
		one faults 0
		# A kernel that hides switches makes gaps: then the values say so.
		set -- $was
		base=$1 perf=$2 gap=$3
		set -- $answer
		[ "$3" = "$gap" ] && check "$n page faults" "$(($1 - base))" "$(($2 - perf))"
		at_least "perf's page faults" "$(($2 - perf))" "$n"
		at_least "perf's page faults and the consumer's" "$(($2 - perf))" "$(($1 - base))"
		[ "$3" = "$gap" ] && intervals=$((intervals + 1))
	done
}
intervals=0

# Without vpmud.
one start
check "start" "$answer" 0
is 0 2
exact 10 100

# vpmud comes: the count moves to its page.
start
is 1 1
exact 0 1 10 200
check "counters of guests" "$("$vpmu" list -j | grep -c '"guest-counters": *1')" 1

# It is killed, and the next one takes over: nothing moves, and nothing is missed.
for _ in 1 2 3; do
	kill_server KILL
	exact 7 50
	is 1 1
	start
	exact 9
	for _ in $(seq 100); do
		"$vpmu" list -j | grep -q '"guest-counters": *1' && break
		sleep 0.1
		one run
	done
	check "counters of guests" "$("$vpmu" list -j | grep -c '"guest-counters": *1')" 1
	is 1 1
	exact 11 60
done

# Its list does not have the event any more: an event of the thread.
kill_server KILL
sed 's/^guest_events.*/guest_events = context-switches/' "$conf" >"$conf.other"
with=$conf conf=$conf.other
start
is 0 2
exact 12
kill_server
conf=$with
start
is 1 1
exact 13
at_least "exact intervals" "$intervals" 5
kill -KILL "$vmm_pid"
wait "$vmm_pid" 2>/dev/null
no_pages_left
finish
