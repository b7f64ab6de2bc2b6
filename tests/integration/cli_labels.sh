#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
# vpmu's marks of quality: every word, in every format, and never "exact" of a value
# that was scaled up. And why a VM that cannot be sampled shows nothing.
. "$(dirname "$0")/cli_lib.inc"
. "$(dirname "$0")/answers.inc"

v() { # COUNT ENABLED RUNNING QUALITY
	printf '{"count":"%s","counter-value":"1","enabled-ns":"%s","running-ns":"%s","quality":"%s","supported":true}' "$@"
}
vm_row() { # ID VM VALUES
	printf '{"row":%s,"kind":"vm","depth":1,"path":"/a","backend":"kvm","vm":"%s","gone":false,"values":[%s]}' "$@"
}
rows="$(vm_row 1 whole "$(v 300 100 100 'tsc'),$(v 100 100 100 modelled)"),$(
	vm_row 2 part "$(v 300 100 50 exact),$(v 100 100 50 'modelled')"),$(
	vm_row 3 missing "$(v 300 100 100 partial),$(v 100 100 50 'tsc partial')"),$(
	vm_row 4 never "$(v 0 0 0 exact),$(v 0 100 0 modelled)"),$(
	vm_row 5 plain "$(v 300 100 100 exact),$(v 100 100 100 exact)"),$(
	vm_row 6 old "$(v 300 100 100 aged | sed 's/}$/,"age-ns":"2100000000"}/'),$(v 100 100 100 'modelled aged')"),$(
	vm_row 7 early "$(v 300 100 100 late),$(v 100 100 100 'tsc partial late')" | sed 's/"gone"/"late-ns":"1300000000",&/')"
head='"session":"s","target":"/","age-ns":"1000000000","dropped":"0","events":["instructions","cycles"]'
one="$(vm_row 1 whole "$(v 300 100 50 'tsc'),$(v 100 100 100 modelled)")"
answers <<END
attach {"session":"s","ok":true}
read {$head,"scope":"vm","rows":[],"ok":true}
read {$head,"scope":"vm","rows":[],"ok":true}
read {$head,"scope":"vm","rows":[$rows],"ok":true}
detach {$head,"scope":"vm","rows":[$rows],"ok":true}
detach {$head,"scope":"vm","rows":[$rows],"ok":true}
detach {$head,"scope":"vm","rows":[$rows],"ok":true}
detach {$head,"scope":"vm","rows":[$rows],"ok":true}
detach {$head,"scope":"vm","rows":[$rows],"ok":true}
detach {$head,"scope":"vm","rows":[$rows],"ok":true}
detach {$head,"scope":"none","rows":[$one],"ok":true}
sharing {"backends":[],"ok":true}
list {"nodes":[],"ok":true}
END
"$vpmu" top -b -n 1 -d 0.01 --for-each vm | tr -s ' ' >"$dir/top"
check_match "top: each value has its marks" "$(cat "$dir/top")" '^whole .*3\.00\?|^whole .*[0-9]\?.*[0-9]~'
check_match "top: the marks of a quotient are those of both" "$(cat "$dir/top")" '^whole .* 3\.00~\?'
check_match "top: scaled up and modelled" "$(cat "$dir/top")" '^part .* [0-9.]+[kM]?~\*'
check_match "top: partial has a mark of its own" "$(cat "$dir/top")" '^missing .*[0-9]!.*[0-9]\?!\*'
check_match "top: no mark" "$(cat "$dir/top")" '^plain .* 3\.00( |$)'
check_match "top: what the marks mean" "$(cat "$dir/top")" '~ modelled \? estimated or tsc ! partial @ aged < late \* scaled up'
check_match "top: aged has a mark of its own" "$(cat "$dir/top")" '^old .*[0-9]@.*[0-9][kM]?~@'
check_match "top: late has a mark of its own" "$(cat "$dir/top")" '^early .*[0-9]<.*[0-9][kM]?\?!<'
out=$("$vpmu" stat -d 0.01 -x,)
check "-x: the quality of a quotient is that of both" "$(printf '%s\n' "$out" | grep ',instructions,' | cut -d, -f5,12)" \
'whole,insn per cycle (tsc modelled)
part,insn per cycle (modelled scaled)
missing,insn per cycle (partial tsc scaled)
never,
plain,insn per cycle
old,insn per cycle (aged modelled)
early,insn per cycle (late tsc partial)'
check "-x: the quality" "$(printf '%s\n' "$out" | cut -d, -f5,3,9)" \
'instructions,whole,tsc
cycles,whole,modelled
instructions,part,scaled
cycles,part,modelled scaled
instructions,missing,partial
cycles,missing,tsc partial scaled
instructions,never,
cycles,never,
instructions,plain,exact
cycles,plain,exact
instructions,old,aged
cycles,old,modelled aged
instructions,early,late
cycles,early,tsc partial late'
out=$("$vpmu" stat -d 0.01 -j)
check "-j: nothing that was scaled is exact" \
	"$(printf '%s\n' "$out" | grep -v '"pcnt-running":100.0' | grep -c '"quality":"exact"')" 0
check "-j: the quality" "$(printf '%s\n' "$out" | sed -n 's/.*"vm":"\(.*\)","backend.*"quality":"\([^"]*\)".*/\1 \2/p')" \
'whole tsc
whole modelled
part scaled
part modelled scaled
missing partial
missing tsc partial scaled
plain exact
plain exact
old aged
old modelled aged
early late
early tsc partial late'
check "-j: the quality of a quotient" "$(printf '%s\n' "$out" | sed -n 's/.*"vm":"\(.*\)","backend.*"metric-quality":"\([^"]*\)".*/\1 \2/p')" \
'whole tsc modelled
part modelled scaled
missing partial tsc scaled
plain exact
old aged modelled
early late tsc partial'
check "-j: how late" "$(printf '%s\n' "$out" | sed -n 's/.*"vm":"\(.*\)","backend.*"late-ns":\([0-9]*\).*/\1 \2/p' | sort -u)" "early 1300000000"
check "-j: the age" "$(printf '%s\n' "$out" | sed -n 's/.*"vm":"\(.*\)","backend.*"age-ns":\([0-9]*\).*/\1 \2/p')" "old 2100000000"
check "-j: no time that the server does not report" "$(printf '%s\n' "$out" | grep -c '"as-of-ns"\|"span-ns"\|"width-ns"')" 0
out=$("$vpmu" stat -d 0.01)
check_match "table: both words" "$out" '^missing .* 200 \(tsc\) \(partial\) \(50\.00%\)$'
check_match "table: how old" "$out" '^ aged: .* \(up to 2\.100 s\)$'
check_match "table: how late" "$out" '^ late: .* \(up to 1\.300 s\)$'
for word in modelled tsc partial aged late; do
	check_match "table: $word is explained" "$out" "^ $word: "
done
out=$("$vpmu" stat -d 0.01)
check_match "lines: the quotient has the words of both" "$out" '# +6\.00  insn per cycle \(tsc\) \(modelled\)  \(tsc\)  \(50\.00%\)$'

# A number that is wider than its column: shorter, with its marks, never with digits cut off.
printf '[big]\ndescription = x\nformula = 1000000000000 * instructions / cycles\n[low]\ndescription = x\nformula = 0 - 4567890123 * instructions\n' >"$dir/big.metrics"
answers <<END
attach {"session":"s","ok":true}
read {$head,"scope":"vm","rows":[],"ok":true}
read {$head,"scope":"vm","rows":[],"ok":true}
read {$head,"scope":"vm","rows":[$rows],"ok":true}
sharing {"backends":[],"ok":true}
list {"nodes":[],"ok":true}
END
"$vpmu" top -b -n 1 -d 0.01 --for-each vm -M "$dir/big.metrics" | tr -s ' ' >"$dir/top"
check_match "top: a large metric" "$(cat "$dir/top")" '^plain .* 100\.0 3\.00T -1\.37T$'
check_match "top: a large metric and its marks" "$(cat "$dir/top")" '^missing .* 50\.0 1\.50T\?!\* -1\.37T!$'

# ---- as of when: rates are computed from the server's times, whenever the client gets its answers ----
timed() { # SECONDS SINCE THE ATTACH, WIDTH, COUNT
	printf '{"session":"s","target":"/","scope":"vm","dropped":"0","events":["instructions"],"age-ns":"%s000000000",' "$1"
	printf '"as-of-ns":"10%s000000000","as-of-us":"17900000%s000123","width-ns":"%s","start-width-ns":"500000",' "$1" "$1" "$2"
	printf '"rows":[%s],"ok":true}' "$(vm_row 1 web "$(v "$3" 100 100 exact)")"
}
answers <<END
attach {"session":"s","ok":true}
read $(timed 11 1000000 1000)
read $(timed 11 1000000 1000)
read $(timed 15 2000000 9000)
detach $(timed 15 2000000 9000)
sharing {"backends":[],"ok":true}
list {"nodes":[],"ok":true}
END
as_of() {
	jq -r '[.rate // .count, ."as-of-ns", ."as-of-us", ."width-ns", ."span-ns", ."start-width-ns"] | join(" ")'
}
check "top: 8000 events in 4 s" "$("$vpmu" top -b -n 1 -d 0.01 --for-each vm -e instructions -j | as_of)" \
	"2000.00 1015000000000 1790000015000123 2000000 4000000000 1000000"
check "stat: from the attach on" "$("$vpmu" stat -d 0.01 -e instructions -j | as_of)" \
	"9000 1015000000000 1790000015000123 2000000 15000000000 500000"
at=$(date -d @1790000015 "+%F %T")
check_match "-v" "$("$vpmu" stat -d 0.01 -e instructions -v)" \
	"^ as of $at\\.000123, read within 2\\.000 ms; the counts are of 15\\.000000000 s, which began within 0\\.500 ms\$"
check_match "-I -v" "$("$vpmu" stat -I 10 --interval-count 1 -e instructions -v)" "^# as of $at\\.000123, read within 2"
check "no line without -v" "$("$vpmu" stat -d 0.01 -e instructions | grep -c 'as of')" 0
"$vpmu" stat -v -x, -d 0.01 2>"$dir/err"
check "-v -x: exit status" $? 2
check "-v -x" "$(cat "$dir/err")" \
	'vpmu: stat: -v: lines of -x and counts of --since have no such time; give it without them'
"$vpmu" stat -v -r 2 -- true 2>"$dir/err"
check "-v -r: exit status" $? 2
check "-v -r" "$(cat "$dir/err")" 'vpmu: stat: -v: the means of -r are of several times; give it without -r'
kill_server

# ---- where nothing ran ----
start_server --paused --vm "$(vm web-1 tenant=/acme 'spin 1000000')" --vm "$(vm web-2 tenant=/acme 'run loop 10')"
"$vpmu" stat -d 0.01 --for-each tenant -e instructions -x, >"$dir/out"
check "nothing ran: no zero" "$(cut -d, -f1,4 "$dir/out" | tr '\n' ' ')" \
	'<not counted>,/ <not counted>,/host <not counted>,/acme '
why() { # STATUS PATTERN ARG...
	local want=$1 pattern=$2 status
	shift 2
	"$vpmu" "$@" >"$dir/out" 2>"$dir/err"
	status=$?
	check "vpmu $*: exit status" $status "$want"
	check_match "vpmu $*: why" "$(cat "$dir/err")" "$pattern"
}
why 1 'profile: no samples of web-1: it is paused; `vpmu resume web-1` lets it run' profile -d 0.01 web-1
why 1 'lbr: no vCPU of web-1 has records: it is paused; `vpmu resume web-1`' lbr -d 0.01 web-1
why 1 'profile: no samples of /acme: none of its VMs runs: 2 paused, 0 ended' profile -d 0.01 /acme
why 1 'profile: no samples of /host: nothing of it ran, and it has no VMs' profile -d 0.01 /host
"$vpmu" resume
wait_state web-2 done
why 1 'profile: no samples of web-2: it has ended' profile -d 0.01 web-2
why 1 'lbr: no vCPU of web-2 has records: it has ended' lbr -d 0.01 --folded web-2
why 1 'profile: no samples of web-2: it has ended' profile -d 0.01 -j web-2
again 'grep -q "^# web-1" "$dir/out" && grep -Eq "counted only [0-9]+ instructions; lower the period with -c$" "$dir/err"' \
	"$vpmu" profile -d 0.01 -c 140737488355328 web-1
stop_server
finish
