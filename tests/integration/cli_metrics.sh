#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
# vpmu stat -M and its kin: the same value in every output, from the counts beside it, never better than
# the worst of these. And `vpmu metrics`, also with files that have faults.
. "$(dirname "$0")/cli_lib.inc"
. "$(dirname "$0")/answers.inc"
HOME=$dir/home
export HOME
unset XDG_CONFIG_HOME
mkdir -p "$HOME/.config/vpmu/metrics"

# ---- vpmu metrics ----
"$vpmu" metrics >"$dir/out" 2>"$dir/err"
check "metrics: exit status" $? 0
check "metrics: nothing on standard error" "$(cat "$dir/err")" ""
check_match "metrics: ipc" "$(cat "$dir/out")" '^ipc +core +insn per cycle +instructions / cycles +Instructions per cycle$'
check_match "metrics -j" "$("$vpmu" metrics -j)" '^\{"metric":"ghz","group":"core","unit":"GHz",.*"events":\["cycles:GH","task-clock"\],'
printf '[ipc]\ndescription = mine\nformula = loads / cycles\n' >"$HOME/.config/vpmu/metrics/mine.metrics"
printf '[x]\nformula = loads +\n' >"$HOME/.config/vpmu/metrics/bad.metrics"
"$vpmu" metrics >"$dir/out" 2>"$dir/err"
check "metrics: exit status with a fault in a file" $? 1
check "metrics: the fault" "$(cat "$dir/err")" \
	"vpmu: metrics: $HOME/.config/vpmu/metrics/bad.metrics:2: formula, character 8: expected the name of an event, a number, ( or -"
check "metrics: the user's file replaces" "$(grep -c '^ipc ' "$dir/out")" 1
check_match "metrics: the user's file replaces" "$(cat "$dir/out")" '^ipc +mine .*mine$'
check_match "metrics: the others are there" "$(cat "$dir/out")" '^kernel-share '
rm "$HOME/.config/vpmu/metrics/"*

# A program without its files.
mkdir "$dir/bin"
cp "$vpmu" "$dir/bin/vpmu"
"$dir/bin/vpmu" metrics >"$dir/out" 2>"$dir/err"
check "metrics: exit status without files" $? 1
check "metrics: without files" "$(cat "$dir/out" "$dir/err")" \
	"vpmu: metrics: $dir/bin/../share/vpmu/metrics: no metrics are here; expected the files *.metrics that are installed with vpmu"
rm "$dir/bin/vpmu"

refused() { # PATTERN ARG...
	pattern=$1
	shift
	"$vpmu" "$@" >"$dir/out" 2>"$dir/err"
	check "vpmu $*: exit status" $? 2
	check_match "vpmu $*" "$(cat "$dir/err")" "$pattern"
	check "vpmu $*: lines" "$(cat "$dir/out" "$dir/err" | wc -l)" 1
}
refused '^vpmu: stat: -M: "ipk" is no metric' stat -M ipk
refused '^vpmu: stat: -M: "ipc:w" is invalid; expected the modifiers u k h G H after ":"$' stat -M ipc:w
refused "^vpmu: attach: -M: ./none.metrics: No such file" attach a -M ./none.metrics
printf '[x]\nformula = loads +\n' >"$dir/bad.metrics"
refused "^vpmu: stat: -M: $dir/bad.metrics:2: formula" stat -M "$dir/bad.metrics"

# ---- how good a value is, in every output ----
v() { # COUNT ENABLED RUNNING QUALITY
	printf '{"count":"%s","counter-value":"1","enabled-ns":"%s","running-ns":"%s","quality":"%s","supported":true}' "$@"
}
none='{"count":"0","counter-value":"0","enabled-ns":"0","running-ns":"0","quality":"exact","supported":false}'
vm_row() { # ID VM VALUES
	printf '{"row":%s,"kind":"vm","depth":1,"path":"/a","backend":"kvm","vm":"%s","gone":false,"values":[%s]}' "$@"
}
rows="$(vm_row 1 mixed "$(v 300 100 100 'tsc'),$(v 100 100 100 modelled),$none"),$(
	vm_row 2 scaled "$(v 300 100 50 exact),$(v 100 100 80 exact),$none"),$(
	vm_row 3 zero "$(v 300 100 100 exact),$(v 0 100 100 exact),$none"),$(
	vm_row 4 never "$(v 300 100 100 exact),$(v 0 100 0 exact),$none"),$(
	vm_row 5 plain "$(v 300 100 100 exact),$(v 100 100 100 exact),$none")"
head='"session":"s","target":"/","age-ns":"1000000000","dropped":"0","events":["instructions","cycles","cache-misses"]'
one="$(vm_row 1 mixed "$(v 300 100 50 'tsc'),$(v 100 100 100 modelled),$none")"
answers <<END
attach {"session":"s","ok":true}
detach {$head,"scope":"vm","rows":[$rows],"ok":true}
detach {$head,"scope":"vm","rows":[$rows],"ok":true}
detach {$head,"scope":"vm","rows":[$rows],"ok":true}
detach {$head,"scope":"none","rows":[$one],"ok":true}
END
"$vpmu" stat -M ipc,cache-mpki -d 0.01 -x, >"$dir/out"
check "-x: the lines of metrics" "$(grep -E ',(ipc|cache-mpki),' "$dir/out")" \
',,ipc,/a,mixed,,100,100.00,tsc modelled,kvm,3.000000,insn per cycle
,,cache-mpki,/a,mixed,,0,0.00,,kvm,<not supported>,"per 1,000 insn"
,,ipc,/a,scaled,,50,50.00,scaled,kvm,4.800000,insn per cycle
,,cache-mpki,/a,scaled,,0,0.00,,kvm,<not supported>,"per 1,000 insn"
,,ipc,/a,zero,,0,0.00,,kvm,<not counted>,insn per cycle
,,cache-mpki,/a,zero,,0,0.00,,kvm,<not supported>,"per 1,000 insn"
,,ipc,/a,never,,0,0.00,,kvm,<not counted>,insn per cycle
,,cache-mpki,/a,never,,0,0.00,,kvm,<not supported>,"per 1,000 insn"
,,ipc,/a,plain,,100,100.00,exact,kvm,3.000000,insn per cycle
,,cache-mpki,/a,plain,,0,0.00,,kvm,<not supported>,"per 1,000 insn"'
check_match "-x: no other metric beside instructions" "$(cat "$dir/out")" ',instructions,/a,plain,,100,100.00,exact,kvm,,$'
"$vpmu" stat -M ipc,cache-mpki -d 0.01 -j | grep '"metric":"ipc"' |
	sed 's/.*"vm":"\([^"]*\)".*"metric-value":"\([^"]*\)","metric-unit":"\([^"]*\)","pcnt-running":\([0-9.]*\),/\1 \2 \3 \4 /' >"$dir/out"
check "-j: the objects of metrics" "$(cat "$dir/out")" \
'mixed 3.000000 insn per cycle 100.0 "quality":"tsc modelled"}
scaled 4.800000 insn per cycle 50.0 "quality":"scaled"}
zero <not counted> insn per cycle 0.0 "why":"the formula divides by 0"}
never <not counted> insn per cycle 0.0 "why":"cycles was not counted"}
plain 3.000000 insn per cycle 100.0 "quality":"exact"}'
"$vpmu" stat -M ipc,cache-mpki -d 0.01 | tr -s ' ' >"$dir/out"
for p in '^mixed .* 3\.00 \(tsc\) \(modelled\) <not supported>$' '^scaled .* 4\.80 \(50\.00%\) <not supported>$' \
	'^zero .* <not counted> <not supported>$' '^plain .* 3\.00 <not supported>$' \
	'^ ipc: not counted: the formula divides by 0$' '^ cache-mpki: not supported: cache-misses is not supported$' \
	'^ ipc: Instructions per cycle, in insn per cycle$'; do
	check_match "table" "$(cat "$dir/out")" "$p"
done
check_match "lines" "$("$vpmu" stat -M ipc,cache-mpki -d 0.01 | tr -s ' ')" \
	'^ 6\.00 ipc # insn per cycle \(tsc\) \(modelled\) \(50\.00%\)$'
kill_server

# ---- of real VMs: the number is that of the counts beside it ----
start_server --vm "$(vm web-1 tenant=/acme 'run -r 0 loop 1000')"
quotient() { # FILE TENANT: taken-share from the counts
	awk -F, -v t="$2" '$4 == t && $3 == "branches" { b = $1 } $4 == t && $3 == "branches-taken" { k = $1 }
		END { printf "%.6f", 100 * k / b }' "$1"
}
"$vpmu" attach s -M taken-share,ipc:u -e loads --for-each tenant || exit 1
ran() { [ "$("$vpmu" stat --session s -x, | awk -F, '$3 == "branches" { print $1; exit }')" -gt 1000 ] 2>/dev/null; }
wait_for "$server" ran || exit 1
"$vpmu" pause web-1
"$vpmu" stat --session s -M taken-share,ipc:u,cpi -x, >"$dir/out"
check "attach -M: the events" "$(cut -d, -f3 "$dir/out" | sort -u | tr '\n' ' ')" \
	'branches branches-taken cpi cycles:u instructions:u ipc:u loads taken-share '
for t in / /acme; do
	check "taken-share of $t" "$(awk -F, -v t=$t '$3 == "taken-share" && $4 == t { print $11 }' "$dir/out")" \
		"$(quotient "$dir/out" $t)"
done
check "an event that the session lacks" "$(awk -F, '$3 == "cpi" && $4 == "/acme" { print $11 }' "$dir/out")" '<not counted>'
check_match "cycles are modelled, and so is ipc" "$(grep ',ipc:u,/acme,' "$dir/out")" ',100\.00,modelled,emulator,[0-9.]+,insn per cycle$'
"$vpmu" attach kept -M ipc:u,taken-share -e loads || exit 1
# A path stays with its user: whoever reads the session must not read a file because of it.
printf '[own]\ndescription = mine\nformula = instructions / cycles\n' >"$dir/own.metrics"
"$vpmu" attach path -M "$dir/own.metrics" || exit 1
check "paths are not kept" "$("$vpmu" sessions -j | jq -r 'select(.session == "path") | .metrics')" null
"$vpmu" detach path >/dev/null
check "the session keeps the names" "$("$vpmu" sessions -j | jq -r 'select(.session == "kept") | .metrics')" ipc:u,taken-share
"$vpmu" detach kept >"$dir/out"
for m in 'insn per cycle' taken-share; do
	check_match "detach shows what attach -M asked for" "$(cat "$dir/out")" "$m"
done
check_match "detach -M" "$("$vpmu" detach s -M taken-share -j)" '"metric":"taken-share","metric-value":"[0-9.]+","metric-unit":"%"'

# ---- :G and :H, alone and with :u and :k; why a backend cannot count one of them ----
"$vpmu" attach sides -M guest-share -e instructions,instructions:Gu,instructions:Gk,instructions:H,instructions:GH,instructions:Hu -t web-1 || exit 1
"$vpmu" resume web-1
side() { cell "$dir/out" "$1" /acme web-1 ""; }
more() { "$vpmu" stat --session sides -x, >"$dir/out" && [ "$(side instructions)" -gt 1000 ] 2>/dev/null; }
wait_for "$server" more || exit 1
"$vpmu" pause web-1
"$vpmu" stat --session sides -x, >"$dir/out"
if grep -q ',scaled,' "$dir/out"; then
	echo "FAILED: more keys than counters: choose fewer"
	failures=$((failures + 1))
fi
check "both privilege levels" "$(side instructions)" $(($(side instructions:Gu) + $(side instructions:Gk)))
check "both sides" "$(side instructions:GH)" $(($(side instructions:G) + $(side instructions:H)))
check "without a side: the guest" "$(side instructions)" "$(side instructions:G)"
check "the host has no user level here" "$(side instructions:Hu)" "<not supported>"
check_match "the reason" "$("$vpmu" stat --session sides)" "^ instructions:Hu: not supported: the host's work on modelled pCPUs is all at kernel privilege; expected :H or :Hk\$"
check_match "the reason, -j" "$("$vpmu" detach sides -j)" '"event":"instructions:Hu".*"why":"the host.s work'
"$vpmu" resume web-1
again 'grep -q "^vpmu: profile: no samples: web-1 ran, but counted no instructions:H$" "$dir/err"' \
	"$vpmu" profile -d 0.2 -e instructions:H web-1
again 'grep -q "\[\.\] workload_loop" "$dir/out"' "$vpmu" profile -d 0.2 -c 1000 -e instructions:Gu web-1
# A sample is at the next instruction. Behind a SYSCALL of the user's that is the kernel's entry.
check "a profile of :Gu has no kernel code" "$(grep '\[k\]' "$dir/out" | grep -v ' syscall_entry$')" ""
refused "event 'task-clock:G': the kernel counts software events of a thread in guest and host alike; expected 'task-clock'\$" \
	stat -e task-clock:G
refused "event 'cs:Hu'" stat -e '{cycles,cs}:Hu'
"$vpmu" resume web-1
again '[ "$(grep -c "taken-share" "$dir/out")" -ge 3 ]' "$vpmu" stat -M taken-share -I 20 -d 0.3
check_match "-I" "$(cat "$dir/out")" '^ +[0-9.]+ +[0-9.]+ +taken-share, % +/$'
"$vpmu" stat -a -r 2 -M taken-share -x, -- sleep 0.05 2>"$dir/out"
check "-r: fields" "$(awk -F, '{ print NF }' "$dir/out" | sort -u)" 13
stop_server
finish
