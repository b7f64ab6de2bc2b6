#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
# Runs every row of the lists in docs/perf.md: the command ends with the status of its list and prints the text of the
# row, or for those that succeed each text that cli_perf_table.want has for the command; a command without a text must
# print nothing. $1: another page, for the test of this test.
. "$(dirname "$0")/vpmud_lib.inc"
page=${1:-$(dirname "$0")/../../docs/perf.md}
rows=0

# The rows below the heading "## $1": command, status and text, each on a line of its own. The status is that of the
# line "Exit status N" above the list, unless the row has "status N" itself.
rows_of() {
	awk -v want="## $1" -v texts="$(dirname "$0")/cli_perf_table.want" '
	BEGIN { FS = "\t"; while ((getline <texts) > 0) text[$1, ++texts_of[$1]] = $2; FS = " " }
	/^## / { on = $0 == want }
	/^Exit status [0-9]/ { status = $3 + 0 }
	on && /^- `vpmu / {
		row = substr($0, 4)
		at = index(row, "`: ")
		command = substr(row, 1, at - 1); cell = substr(row, at + 3)
		if (status) {
			gsub(/^`|`$/, "", cell)
			print command; print status; print cell
			next
		}
		own = match(cell, /status [0-9]+/) ? substr(cell, RSTART + 7, RLENGTH - 7) : 0
		if (!texts_of[command]) { print command; print own; print "(a text in cli_perf_table.want)" }
		for (i = 1; i <= texts_of[command]; i++) { print command; print own; print text[command, i] }
	}' "$page"
}

# has TEXT FILE: a line of FILE contains TEXT, in which ... stands for anything
has() {
	pattern=$(printf '%s' "$1" | sed 's/\.\.\./\n/g; s/[][\.*^$]/\\&/g' | sed ':a; N; s/\n/.*/; ba')
	grep -q -e "$pattern" "$2"
}

run_rows() { # HEADING
	rows_of "$1" >"$dir/rows"
	exec 4<"$dir/rows"
	while read -r command <&4 && read -r status <&4 && IFS= read -r text <&4; do
		rows=$((rows + 1))
		(cd "$dir" && eval "$command") >"$dir/out" 2>&1 </dev/null 4<&-
		check "$command: status" $? "$status"
		if [ -z "$text" ]; then
			check "$command: prints nothing" "$(cat "$dir/out")" ""
		else
			has "$text" "$dir/out" || check "$command" "$(cat "$dir/out")" "$text"
		fi
	done
	exec 4<&-
}

vpmu() {
	"$VPMU_BIN/vpmu" "$@"
}
VPMU_BIN=$(cd "$VPMU_BIN" && pwd)
vpmu=$VPMU_BIN/vpmu

start_server --vm "$(vm web-1 tenant=/acme/web 'run -r 0 loop 100000')" --vm "$(vm db-1 tenant=/bob 'run -r 0 loop 100000')"
wait_state web-1 running
run_rows "On any server"
[ "$rows" -ge 40 ] || check "rows of the first table" "$rows" "40 or more"
stop_server
[ "$failures" = 0 ] || finish

need_run
need_cgroups
begin_conf
printf '[tenant /acme]\ncgroup = %s\n' "$top" >>"$conf"
sh -c "echo 0 >'$ground/cgroup.procs' && while :; do :; done" &
jobs=$! PID=$! CGROUP=$top
start
mount=${ground%/*}
# What is there of others, whose commands may end meanwhile.
others=$(find "$mount" -type d -name "vpmu-stat-*" 2>/dev/null)
left_over() {
	find "$mount" -type d -name "vpmu-stat-*" 2>/dev/null | while read -r d; do
		case "
$others
" in *"
$d
"*) ;; *) echo "$d" ;; esac
	done
}
before=$rows
run_rows "On a host with vpmud"
[ "$rows" -gt "$before" ] || check "rows of the second table" 0 "some"
# Nothing is left of the cgroups of commands.
check "cgroups of commands" "$(left_over)" ""
# A command that leaves a process, and a client that is killed: the cgroup goes, the process goes on.
"$vpmu" stat -e task-clock -- sh -c 'sleep 1000 >/dev/null 2>&1 & echo $! >'"$dir/left" 2>/dev/null
jobs="$jobs $(cat "$dir/left")"
check "a process that is left runs on" "$(tr '\0' ' ' <"/proc/$(cat "$dir/left")/cmdline")" "sleep 1000 "
check "its cgroup is the caller's" "$(grep ^0:: "/proc/$(cat "$dir/left")/cgroup")" "$(grep ^0:: /proc/self/cgroup)"
"$vpmu" stat -e task-clock -- sh -c "echo \$\$ >$dir/left; exec sleep 1000" 2>/dev/null &
client=$!
started() { [ -s "$dir/left" ] && grep -q vpmu-stat "/proc/$(cat "$dir/left")/cgroup"; }
wait_for "$client" started
check "it was in a cgroup of its own" "$(started && echo yes)" yes
jobs="$jobs $(cat "$dir/left")"
kill -KILL "$client"
wait "$client" 2>/dev/null
gone() { [ -z "$(find "$mount" -type d -name "vpmu-stat-$client")" ]; }
wait_for "$server" gone
check "a killed client's cgroup is gone" "$(gone && echo yes)" yes
# Cgroups that the command made are gone, too; their process goes on.
cat >"$dir/nest" <<'END'
own=$1$(sed -n 's/^0:://p' /proc/self/cgroup)
mkdir -p "$own/a/b" || exit 1
sleep 1000 >/dev/null 2>&1 &
echo $! >"$own/a/b/cgroup.procs" || exit 1
echo $! >"$2"
END
"$vpmu" stat -e task-clock -- sh "$dir/nest" "$mount" "$dir/left" 2>/dev/null
check "a command with cgroups below its own" $? 0
jobs="$jobs $(cat "$dir/left")"
check "they are gone" "$(left_over)" ""
check "the process in them runs on" "$(tr '\0' ' ' <"/proc/$(cat "$dir/left")/cmdline")" "sleep 1000 "
rm "$dir/left"
# SIGTERM reaches the command.
"$vpmu" stat -e task-clock -- sh -c "echo \$\$ >$dir/left; exec sleep 1000" 2>/dev/null &
client=$!
wait_for "$client" started
kill "$client"
wait "$client"
check "SIGTERM: exit status" $? 143
# What a command counts is its own, exactly: its forks' page faults, not those of others.
"$vpmu" stat -x, -e page-faults -- true 2>"$dir/one"
"$vpmu" stat -x, -e page-faults -- sh -c 'for i in 1 2 3 4 5 6 7 8 9 10; do true | cat; done' 2>"$dir/ten"
few=$(cut -d, -f1 "$dir/one") many=$(cut -d, -f1 "$dir/ten")
at_least "page faults of a command" "$few" 1
at_least "those of its children, too" "$many" $((few * 5))
[ "$few" -lt 2000 ] || check "and not those of the host" "$few" "fewer than 2000"
stop
finish
