# SPDX-License-Identifier: GPL-2.0-or-later
# `vpmu console` on a terminal: keys go to the guest as they are typed, its output is shown as it comes, without what
# harms a terminal; the terminal is as it was after every end.
. "$(dirname "$0")/cli_lib.inc"
echo_guest=$VPMU_BIN/../tests/guest-echo
typist=$VPMU_BIN/../tests/vpmu-typist

type_at() { # SCRIPT VM: sets $out, the output of both
	out=$(timeout ${TYPIST_LIMIT:-900} "$typist" "$1" "$vpmu" console "$2" | tr -d '\r')
	last=$(printf '%s\n' "$out" | tail -n 1)
}

start_server --vm "name=e,kernel=$echo_guest,engine=emulator,ram=64M" --vm "$(vm s vcpus=1 spin)"

# The unfinished line is there at once, and each key is answered by the guest, without a line end. Ctrl-C is the
# guest's, Ctrl-] is not.
type_at '+prompt settings =a +<61> ^C +<03> =é =b +<c3><a9><62> ^]' e
check "keys: the end" "$last" "status 0, restored"
check_match "keys: raw" "$out" '(changed)'
check "keys: nothing else on the screen" "$(printf '%s\n' "$out" | tr -d '\n')" \
	"Console of e. Ctrl-] leaves.readyprompt (changed)<61><03><c3><a9><62>status 0, restored"
check "the guest goes on" "$("$vpmu" list -j | jq -r 'select(.vm == "e") | .state')" running

# Again: what was there is shown once more, and Ctrl-] never came to the guest.
type_at '+<62> =x +red ^]' e
check "again: no Ctrl-] in the guest" "$(printf '%s\n' "$out" | grep -c '<1d>')" 0
check "again: what was there" "$(printf '%s\n' "$out" | grep -c '^prompt <61><03><c3><a9><62><78>')" 1
check_match "colours pass" "$out" "$(printf '\033\[31mred\033\[0m')"
check "titles, the clipboard, questions and modes do not" \
	"$(printf '%s\n' "$out" | grep -Ec "$(printf 'TITLE|Q0xJ|\033\[6n|\033\[c|1049')")" 0
check "again: the end" "$last" "status 0, restored"

# Not on a terminal: whole lines, and printable text only.
check "lines: one line for what was typed" "$("$vpmu" console -n e | grep -c '^prompt <61><03><c3><a9><62><78>')" 1
check "lines: no control characters" "$("$vpmu" console -n e | tr -d '\n' | tr -dc '[:cntrl:]' | wc -c)" 0

# Signals that come from elsewhere, and a stop.
for sig in "INT status 0" "TERM status 0" "HUP signal 1" "QUIT signal 3"; do
	type_at "+prompt settings !${sig%% *}" e
	check "SIG${sig%% *}" "$last" "${sig#* }, restored"
done
type_at '+prompt settings !TSTP stopped settings !CONT =c +<63> settings ^]' e
check "a stop" "$(printf '%s\n' "$out" | grep -o '([a-z]*)' | tr '\n' ' ')$last" \
	"(changed) (restored) (changed) status 0, restored"

# A guest without a kernel takes no keys.
type_at '+leaves settings =abc ^]' s
check_match "a guest without input" "$out" 'Console of s, read-only'
check "a guest without input: the end" "$last" "status 0, restored"

# The VM's end, its removal and the server's.
type_at '+prompt =q' e
check "the guest ends" "$last" "status 0, restored"
check_match "the guest ends: its last bytes" "$out" '<71>'
"$vpmu" vm add name=f engine=emulator ram=64M kernel="$echo_guest" || exit 1
(wait_state f running && sleep 1 && "$vpmu" vm rm f) &
remover=$!
type_at '+prompt' f
wait "$remover"
check "the VM is removed" "$last" "status 1, restored"
check_match "the VM is removed: why" "$out" '^vpmu: no VM "f"'
"$vpmu" vm add name=g engine=emulator ram=64M kernel="$echo_guest" || exit 1
(sleep 1 && kill -KILL "$server") &
killer=$!
type_at '+prompt' g
wait "$killer"
wait "$server" 2>/dev/null
server=
check "the server is lost" "$last" "status 1, restored"
check_match "the server is lost: why" "$out" '^vpmu: '
finish
