#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
# An upgrade to a vpmud with another schema of pins, and the way back: vpmud-other-schema is the same program, built
# with another KP_SCHEMA. It must refuse by one line and touch nothing, so that the version before goes on with all
# counts and sessions; and it must begin anew when the pins are removed, as in its line.
. "$(dirname "$0")/vpmud_lib.inc"
other=$VPMU_BIN/../tests/vpmud-other-schema
[ -x "$other" ] || { echo "# SKIP no vpmud with other pins in a build with sanitizers"; exit 77; }
need_cgroups
need_run
mount_bpf || { echo "# SKIP no BPF file system can be mounted"; exit 77; }
begin_conf
tenant /acme acme
mkdir "$ground/acme"
refused() { # PROGRAM THEIRS OURS
	"$1" -c "$conf" >"$dir/out" 2>"$dir/err" &
	server=$!
	if wait_for "$server" "$vpmu" sessions; then
		check "$1 over other pins" "it starts" "it refuses"
		finish
	fi
	wait "$server"
	check "$1 over other pins: exit status" $? 1
	server=
	check "lines" "$(wc -l <"$dir/err")" 1
	check_match "what it says" "$(cat "$dir/err")" \
		"^vpmud: BPF backend: $pin_dir/cfg: the pins have schema $2, this version has $3: .* rm -r $pin_dir\$"
}

start
"$vpmu" attach kept -e page-faults --for-each tenant || exit 1
programs acme 50
a=$(value kept page-faults /acme)
at_least "page faults before the upgrade" "$a" 1000
kill_server # as a package does before it starts the next one
pins=$(ls "$pin_dir")
state=$(cat "$VPMU_SOCKET.state")
ours=$(sed -n 's/^#define KP_SCHEMA \([0-9]*\)u$/\1/p' "$(dirname "$0")/../../cgroup/bpf/maps.h")

# ---- the upgrade: refused, again and again as a service manager tries ----
for n in 1 2; do
	refused "$other" "$ours" 1000
	programs acme 20 # and the kernel counts on
done
check "the pins are those of before" "$(ls "$pin_dir")" "$pins"
check "and the state file" "$(cat "$VPMU_SOCKET.state")" "$state"

# ---- back to the version before: nothing is lost ----
start
check "the session is there" "$("$vpmu" sessions -j | jq -r .session)" kept
b=$(value kept page-faults /acme)
at_least "page faults while no vpmud could run" "$b" $((a + 800))
programs acme 10
at_least "page faults from then on" "$(value kept page-faults /acme)" $((b + 200))
"$vpmu" conservation >"$dir/out" || check "conservation" "$(cat "$dir/out")" "equal everywhere"
kill_server

# ---- the pins removed, as in the line: the newer one begins anew and names the ended sessions ----
rm -r "$pin_dir"
vpmud=$other
start
check_match "it says so" "$(cat "$dir/server.log")" '^vpmud: the sessions of the former vpmud .* have ended$'
check "sessions" "$("$vpmu" sessions -j)" ""
"$vpmu" attach kept -e page-faults --for-each tenant || exit 1
programs acme 10
at_least "page faults of the newer one" "$(value kept page-faults /acme)" 200
kill_server

# ---- a downgrade is refused in the same way, and its session goes on as well ----
refused "$VPMU_BIN/vpmud" 1000 "$ours"
start
at_least "page faults kept over the downgrade" "$(value kept page-faults /acme)" 200
stop
finish
