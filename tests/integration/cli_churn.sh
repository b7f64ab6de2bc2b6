#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
# VMs and tenants come and go under sessions: nothing is lost, nothing counted twice.
. "$(dirname "$0")/cli_lib.inc"

start_server --vm "$(vm stay tenant=/acme/web 'run loop 1000000')"
"$vpmu" attach tree -e instructions --for-each tenant || exit 1
"$vpmu" attach vms -e instructions --for-each vm || exit 1
add() { # NAME TENANT N
	"$vpmu" vm add name="$1" tenant="$2" engine=emulator image="$image" args="run loop $3" || exit 1
}

sum=0
for i in 1 2 3 4 5; do
	add tmp-$i /acme/ci$((i % 2)) $((i * 100000))
	wait_state tmp-$i done
	"$vpmu" vm rm tmp-$i || exit 1
done
"$vpmu" stat --session vms -j >"$dir/vms" || exit 1
check "five VMs are shown as gone" "$(grep -c '"gone":true' "$dir/vms")" 5
for i in 1 2 3 4 5; do
	n=$(sed -n "s/.*\"vm\":\"tmp-$i\",.*\"counter-value\":\"\([0-9]*\)\".*/\1/p" "$dir/vms")
	[ "${n:-0}" -gt $((i * 100000)) ] || check "tmp-$i has counts" "${n:-none}" "more than $((i * 100000))"
	sum=$((sum + n))
done
check "gone VMs are shown once" "$("$vpmu" stat --session vms -j | grep -c '"gone":true')" 0

"$vpmu" stat --session tree -x, >"$dir/tree" || exit 1
check "tenants keep what removed VMs counted" \
	$(($(cell "$dir/tree" instructions /acme/ci0 "" "") + $(cell "$dir/tree" instructions /acme/ci1 "" ""))) $sum
web=$(cell "$dir/tree" instructions /acme/web "" "")
[ "$web" = "<not counted>" ] && web=0 # its VM had ended before the session began
acme=$(cell "$dir/tree" instructions /acme "" "")
check "/acme is the sum" "$acme" $((web + sum))

"$vpmu" tenant rm /acme/ci0 || exit 1
"$vpmu" tenant rm /acme/ci1 || exit 1
"$vpmu" stat --session tree -x, >"$dir/gone" || exit 1
"$vpmu" stat --session tree -x, >"$dir/tree2" || exit 1
check "removed tenants are shown once more" "$(grep -c ',/acme/ci' "$dir/gone")" 2
check "and then no more" "$(grep -c ',/acme/ci' "$dir/tree2")" 0
check "/acme keeps their counts" "$(cell "$dir/tree2" instructions /acme "" "")" "$acme"

# A session opened now sees nothing of all that; the old one goes on.
"$vpmu" attach new -e instructions -t /acme || exit 1
check "a new session has counted nothing" "$("$vpmu" stat --session new -x, | cut -d, -f1)" "<not counted>"
add late /acme/web 200000
wait_state late done
n=$("$vpmu" stat --session new -x, | cut -d, -f1)
check "both count on alike" "$("$vpmu" stat --session tree -x, >"$dir/t" && cell "$dir/t" instructions /acme "" "")" \
	$((acme + n))
"$vpmu" detach new >/dev/null || exit 1
check "the old one does not notice" "$("$vpmu" stat --session tree -x, >"$dir/t" && cell "$dir/t" instructions /acme "" "")" \
	$((acme + n))
check_match "a tenant with a VM stays" "$("$vpmu" tenant rm /acme/web 2>&1)" 'VM "'
"$vpmu" conservation >/dev/null
check "conservation" $? 0
stop_server
finish
