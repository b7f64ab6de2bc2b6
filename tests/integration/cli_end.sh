#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
# vpmu stat when the server or the target goes away: the counts up to then are printed, whole.
. "$(dirname "$0")/cli_lib.inc"
. "$(dirname "$0")/answers.inc"

# ---- the counts of a VM that runs from its first to its last instruction ----
start_server --paused --vm "$(vm web-1 tenant=/acme 'run loop 3000000')"
"$vpmu" attach whole -e instructions,branches || exit 1
"$vpmu" resume
wait_state web-1 done
"$vpmu" detach whole -x, >"$dir/whole" || exit 1
instructions=$(cell "$dir/whole" instructions / "" "") branches=$(cell "$dir/whole" branches / "" "")
stop_server

# ---- the same VM on a server that ends when its VM does: nothing is missing ----
ends_with_vms() { # SESSIONS ARG...: vpmu stat's
	"$vmm" --socket "$VPMU_SOCKET" --wait-attach "$1" --vm "$(vm web-1 tenant=/acme 'run loop 3000000')" \
		>"$dir/server.log" 2>&1 &
	server=$!
	wait_for "$server" test -S "$VPMU_SOCKET" || exit 1
	shift
	"$vpmu" stat "$@" >"$dir/out" 2>"$dir/err"
	status=$?
	wait "$server"
	server=
}
ends_with_vms 1 -e instructions,branches -x,
check "the server ended: exit status" $status 0
check "the server ended: instructions" "$(cell "$dir/out" instructions / "" "")" "$instructions"
check "the server ended: branches" "$(cell "$dir/out" branches / "" "")" "$branches"
check "the server ended: a note" "$(cat "$dir/err")" \
	'vpmu: stat: the server ended; these are the counts up to its end'
ends_with_vms 1 -e instructions,branches -x, -I 10
check "intervals: exit status" $status 0
check "intervals: they sum to the same" \
	"$(awk -F, '$4 == "instructions" { s += $2 } END { printf "%d", s }' "$dir/out")" "$instructions"
ends_with_vms 2 -e instructions -e branches -x, -t web-1 -t /acme
check "several sessions: one answer each" \
	"$(cell "$dir/out" instructions /acme "" ""),$(cell "$dir/out" branches /acme web-1 "")" "$instructions,$branches"
# An answer that is larger than a socket's buffer.
many=$(seq -s, 0 60 | sed 's/\([0-9]*\)/instructions:u/g')
ends_with_vms 1 -e instructions,$many -x, --for-each vcpu
check "many events: all lines" "$(wc -l <"$dir/out")" 62
check "many events: the first" "$(cell "$dir/out" instructions /acme web-1 0)" "$instructions"
ends_with_vms 1 -a -e instructions -x, -- sh -c 'exit 3'
check "with a command: its status" $status 3

# ---- quit and kill -9 ----
start_server --vm "$(vm web-1 tenant=/acme 'spin 1000000')" --vm "$(vm web-2 tenant=/acme 'spin 1000000')"
rm -f "$dir/out"
"$vpmu" stat -e instructions -x, -I 20 >"$dir/out" 2>"$dir/err" &
stat=$!
wait_for $stat test -s "$dir/out" || exit 1
"$vpmu" stat -e instructions -x, >"$dir/once" 2>"$dir/once.err" &
once=$!
one() { [ "$("$vpmu" sessions -j | wc -l)" = 2 ]; }
wait_for $once one || exit 1
"$vpmu" quit || kill "$server"
wait $stat
check "quit: exit status" $? 0
wait $once
check "quit, without -I: exit status" $? 0
check_match "quit, without -I: counts" "$(cat "$dir/once")" '^[0-9<]'
wait "$server"
start_server --vm "$(vm web-1 tenant=/acme 'spin 1000000')" --vm "$(vm web-2 tenant=/acme 'spin 1000000')"
rm -f "$dir/out"
"$vpmu" stat -e instructions -x, -I 20 >"$dir/out" 2>"$dir/err" &
stat=$!
wait_for $stat test -s "$dir/out" || exit 1
kill_server KILL
wait $stat
check "kill -9: exit status" $? 1
check_match "kill -9: the note" "$(cat "$dir/err")" \
	'^vpmu: stat: the server went away; these are the counts of [0-9.]+ s after the start, the last that were read$'

# The last reading is shown, when the server breaks off in the middle of it and when it is silent.
answers <<END
attach {"session":"s","ok":true}
read $(read_answer none "$(row 1 root 0 / "$emulator" 111 exact)")
read @
END
"$vpmu" stat -e cycles -x, >"$dir/out" 2>"$dir/err"
check "the server is lost: exit status" $? 1
check "the server is lost: counts" "$(cut -d, -f1,3 "$dir/out")" 111,cycles
check_match "the server is lost: the note" "$(cat "$dir/err")" 'these are the counts of 1\.000 s after'
answers <<END
attach {"session":"s","ok":true}
read @
END
"$vpmu" stat -e cycles -x, >"$dir/out" 2>"$dir/err"
check "nothing was read: exit status" $? 1
check "nothing was read: no counts" "$(cat "$dir/out")" ''
check_match "nothing was read: the note" "$(cat "$dir/err")" 'went away before counts were read'
kill_server

# ---- the target is removed ----
start_server --paused --vm "$(vm web-1 tenant=/acme 'run loop 3000000')" --vm "$(vm web-2 tenant=/bob 'spin 1000000')"
"$vpmu" stat -t web-1 -e instructions -x, >"$dir/vm" &
vm=$!
"$vpmu" stat -t web-1 -e instructions --for-each vcpu >"$dir/vcpu" &
vcpu=$!
"$vpmu" stat -t web-1 -t /acme -e instructions -x, -I 20 >"$dir/both" &
both=$!
"$vpmu" stat -t /acme -e instructions -x, --for-each tenant >"$dir/tenant" &
tenant=$!
five() { [ "$("$vpmu" sessions -j | wc -l)" = 5 ]; }
wait_for "$server" five || exit 1
"$vpmu" resume
wait_state web-1 done
"$vpmu" vm rm web-1 || exit 1
wait $vm
check "the VM was removed: exit status" $? 0
check "the VM was removed: counts" "$(cell "$dir/vm" instructions /acme web-1 "")" "$instructions"
wait $vcpu
check_match "its vCPUs were removed" "$(cat "$dir/vcpu")" "^web-1/0 \(gone\) /acme +[0-9,]+$"
check "the tenant is still counted" "$("$vpmu" sessions -j | wc -l)" 3
"$vpmu" tenant rm /acme || exit 1
wait $tenant
check "the tenant was removed: counts" "$(cell "$dir/tenant" instructions /acme "" "")" "$instructions"
wait $both
check "both were removed: intervals" \
	"$(awk -F, '$6 == "web-1" { s += $2 } END { printf "%d", s }' "$dir/both")" "$instructions"
check "no session is left" "$("$vpmu" sessions -j | wc -l)" 0
stop_server
finish
