#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
# A cgroup that has run before vpmud found it is late, and what its row lacks is within late-ns, as is what the row of
# /host has too much; one in which nothing has run until then is not, nor is a tenant that has the cgroup above.
. "$(dirname "$0")/vpmud_lib.inc"
spin=$VPMU_BIN/../tests/vpmu-spin

need_cgroups
mount_bpf || { echo "# SKIP no BPF file system can be mounted"; exit 77; }
need_run
begin_conf
cat >>"$conf" <<END
[tenant /pods/*]
cgroup = $top/pods/*
[tenant /whole]
cgroup = $top/whole
[tenant /whole/*]
cgroup = $top/whole/*
END
mkdir "$ground/pods" "$ground/whole"
start
"$vpmu" attach all -e task-clock --for-each tenant >/dev/null || exit 1
read_rows() { "$vpmu" stat --session all -j >"$dir/read" || check "a reading" failed "it is there"; }
of() { # FIELD TENANT
	jq -r --arg t "$2" "select(.tenant == \$t) | $1" "$dir/read"
}
late() { of '."late-ns" // 0' "$1"; }
found() { "$vpmu" list -j | grep -q "\"path\":\"$1\""; }
# spins CGROUP TICKS: a program runs in it for so much CPU time
ran() { [ "$(awk '{ print $14 + $15 }' "/proc/$1/stat")" -ge "$2" ]; }
spins() {
	sh -c 'echo $$ >"$0/cgroup.procs" && exec "$1"' "$ground/$1" "$spin" &
	busy=$!
	jobs="$jobs $busy"
	wait_for "$busy" ran "$busy" "$2"
}

mkdir "$ground/pods/empty"
wait_for "$server" found /pods/empty
spins pods/empty 5
kill "$busy"
read_rows
check "found while it was empty" "$(late /pods/empty)" 0
check "no word of it" "$(of .quality /pods/empty | grep -c late)" 0

# Two that run for 0.2 s of CPU time while vpmud is stopped.
kill -STOP "$server"
mkdir "$ground/pods/early" "$ground/whole/early"
spins pods/early 20
kill "$busy"
spins whole/early 20
kill "$busy"
kill -CONT "$server"
wait_for "$server" found /whole/early
spins pods/early 5
spins whole/early 5
read_rows
for tenant in /pods/early /pods /whole/early /host; do
	at_least "$tenant is late" "$(late $tenant)" 190000000
	check_match "$tenant: the word" "$(of .quality $tenant)" '(^| )late( |$)'
done
for tenant in / /whole; do
	check "$tenant has all" "$(late $tenant)" 0
	check "$tenant: no word" "$(of .quality $tenant | grep -c late)" 0
done
at_least "all of it is in the tenant above" "$(of .count /whole)" 190000000
"$vpmu" stat --session all >"$dir/table" 2>&1
check_match "the table" "$(cat "$dir/table")" '\(late\)'
check_match "what it means" "$(cat "$dir/table")" '^ late: .*\(up to [0-9.]+ s\)$'

# They stay late over a restart, and nothing else becomes so but what has come meanwhile.
before=$(late /pods/early)
kill -KILL "$server"
wait "$server" 2>/dev/null
mkdir "$ground/pods/down"
spins pods/down 20
kill "$busy"
start
read_rows
check "after a restart" "$(late /pods/early)" "$before"
check "and the others" "$(late /pods/empty)" 0
at_least "it came while vpmud was down" "$(late /pods/down)" 190000000
# A row that begins later lacks nothing.
"$vpmu" attach later -e task-clock --for-each tenant >/dev/null
"$vpmu" stat --session later -j >"$dir/read"
check "a later session" "$(grep -c late "$dir/read")" 0
# What a rule that is new at a restart assigns begins then, as after a reload.
mkdir "$ground/new"
spins new 20
kill "$busy"
wait "$busy" 2>/dev/null
kill_server
mkdir "$ground/pods/next"
spins pods/next 20
printf '[tenant /new]\ncgroup = %s/new\n' "$top" >>"$conf"
start
wait_for "$server" found /pods/next
read_rows
check "the tenant of a new rule" "$(late /new)" 0
check "the word" "$(of .quality /new | grep -c late)" 0
check "it counts from then on" "$(of .count /new)" 0
at_least "what was assigned before and came while vpmud was down" "$(late /pods/next)" 190000000
# A row that came after the state file was written, by a vpmud that was killed then.
kill_server
jq '.written = 1 | .sessions[].rows |= map(select(.path != "/pods/early"))' "$VPMU_SOCKET.state" >"$dir/state" &&
	cat "$dir/state" >"$VPMU_SOCKET.state"
up=$(cut -d. -f1 /proc/uptime)
start
read_rows
at_least "it may have counted since the file was written" "$(late /pods/early)" "${up}000000000"
check "the others have their rows" "$(late /pods/empty)" 0
# The intervals that follow lack nothing.
"$vpmu" stat --session all -I 100 -j --interval-count 2 >"$dir/intervals" 2>"$dir/err" ||
	check "intervals" "$(cat "$dir/err")" "there are two"
check "intervals" "$(grep -c '"tenant":"/pods/early"' "$dir/intervals")" 2
check "intervals that lack it" "$(grep -c '"late-ns"\|"quality":"[^"]*late' "$dir/intervals")" 0
finish
