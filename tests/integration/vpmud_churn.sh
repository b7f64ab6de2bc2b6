#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
# Cgroups and tasks come, move and go while vpmud is killed and ended ten times: totals of tenants never
# shrink, and in every reading tenants and the rest of the host are the whole, for every event.
# VPMUD_CHURN=N: steps of each of the ten rounds (default 2; 20 take a minute or two).
. "$(dirname "$0")/vpmud_lib.inc"
steps=${VPMUD_CHURN:-2}
events=context-switches,page-faults,cpu-migrations,cpu-clock

need_cgroups
mount_bpf || { echo "# SKIP no BPF file system can be mounted"; exit 77; }
need_run
begin_conf
tenant /a 'a*' /b 'b*' '/pods/*' 'pods/*'

# A reading, whose parts must be the whole for every event: the nodes right below "/", and "/".
sums() {
	"$vpmu" stat --session all -j >"$dir/read" || check "a reading" failed "it is there"
	jq -rs 'group_by(.event)[] | .[0].event as $e |
		(map(select(.tenant | test("^/[^/]+$")) | .count | tonumber) | add) as $parts |
		(map(select(.tenant == "/") | .count | tonumber) | add) as $whole |
		"\($e) \($parts) \($whole)"' "$dir/read" >"$dir/sums"
	check "$1: events" "$(wc -l <"$dir/sums")" 4
	while read -r event parts whole; do
		check "$1: tenants and /host are the whole, $event" "$parts" "$whole"
	done <"$dir/sums"
}
count() { # EVENT TENANT, of the last reading
	jq -rs --arg e "$1" --arg t "$2" \
		'map(select(.event == $e and .tenant == $t) | .count | tonumber) | add // 0' "$dir/read"
}

# One step of the churn: a cgroup comes, programs run in it and move to another one, and it goes.
step() { # NAME
	mkdir "$ground/$1" || return 1
	sh -c 'echo $$ >"$0/$1/cgroup.procs"; /bin/true; /bin/true
		echo $$ >"$0/b/cgroup.procs"; /bin/true' "$ground" "$1" || return 1
	rmdir "$ground/$1"
}
churn() { # ROUND STEPS
	i=0
	while [ $i -lt "$2" ]; do
		step "a$1-$i" && step "pods/p$1-$i" || return 1
		i=$((i + 1))
	done
}

mkdir "$ground/a" "$ground/b" "$ground/pods"
start
"$vpmu" attach all -e "$events" --for-each tenant >/dev/null || exit 1
sums "at the start"
# The steps of the foreground are what tenants have at least; the background is noise without an end.
(while :; do
	step "a-noise" && step "pods/noise" || exit
done) 2>/dev/null &
noise=$!
jobs=$noise
faults=0 round=0
for how in KILL KILL TERM KILL KILL KILL TERM KILL KILL KILL; do
	round=$((round + 1))
	churn $round "$steps" || check "round $round" failed "cgroups and programs"
	sums "before SIG$how $round"
	a=$(count page-faults /a) b=$(count page-faults /b) p=$(count page-faults /pods)
	# In the middle of it.
	churn "$round-x" "$steps" &
	busy=$!
	kill -$how "$server"
	wait "$server" 2>/dev/null
	wait $busy
	start
	sums "after SIG$how $round"
	# Two programs in /a and one in /b for each step, each with 20 page faults or more. While no task is
	# there, new cgroups below a tenant's have no node, but tasks in /b are charged to it.
	at_least "/a after round $round" "$(count page-faults /a)" "$a"
	at_least "/pods after round $round" "$(count page-faults /pods)" "$p"
	at_least "/b after round $round" "$(count page-faults /b)" $((b + 20 * steps))
	faults=$((faults + 20 * steps))
done
kill $noise
wait $noise 2>/dev/null
jobs=
sums "at the end"
at_least "page faults of /b" "$(count page-faults /b)" $faults
"$vpmu" conservation >"$dir/out" || check "conservation" "$(cat "$dir/out")" "equal everywhere"
check_match "conservation has rows" "$(cat "$dir/out")" 'page-faults .* yes'
echo "# $(wc -l <"$dir/out") rows of conservation; of the whole host: $(tr '\n' ';' <"$dir/sums")"

# ---- the same run as perf sees it ----
if command -v perf >/dev/null && perf stat -a -e context-switches --for-each-cgroup / true 2>/dev/null; then
	cg=${ground#$(dirname "$ground")/}
	mkfifo "$dir/go" "$dir/done"
	# In its cgroup before perf begins: a task is charged to where it was until its next switch.
	sh -c 'echo $$ >"$0/b/cgroup.procs"; read -r go <"$1/go"
		i=0; while [ $i -lt 50 ]; do /bin/true; i=$((i + 1)); done
		echo done >"$1/done"; read -r go <"$1/go"' "$ground" "$dir" &
	jobs=$!
	there() { grep -qx "$jobs" "$ground/b/cgroup.procs"; }
	wait_for "$jobs" there || check "the worker of perf" "$(cat "$dir/server.log")" "it runs"
	perf stat -a -x, -o "$dir/perf" -e page-faults --for-each-cgroup "$cg/b" -- sh -c '
		"$0" stat --session all -j >"$1/before"
		echo go >"$1/go"; read -r it <"$1/done"
		while grep -q "^State:.[^S]" "/proc/$2/status"; do :; done
		"$0" stat --session all -j >"$1/after"' "$vpmu" "$dir" "$jobs"
	echo end >"$dir/go"
	wait $jobs
	jobs=
	cp "$dir/before" "$dir/read"
	before=$(count page-faults /b)
	cp "$dir/after" "$dir/read"
	ours=$(($(count page-faults /b) - before))
	theirs=$(grep page-faults "$dir/perf" | cut -d, -f1)
	partial=$(jq -rs 'map(select(.event == "page-faults" and .tenant == "/b") | .quality // "" | test("partial")) | any' "$dir/read")
	echo "# page faults of one cgroup: perf $theirs, vpmu $ours, partial: $partial"
	[ "$partial" = true ] || check "page faults beside perf" "$ours" "$theirs"
	at_least "page faults of 50 programs" "$theirs" 1000
else
	echo "# SKIP agreement with perf stat: no perf that counts cgroups (package linux-perf)"
fi
stop
finish
