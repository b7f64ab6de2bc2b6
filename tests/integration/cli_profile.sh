#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
# vpmu profile and vpmu lbr on real VMs: samples equal counts, functions are those that ran,
# call chains are whole, every output format agrees, the guests do not notice.
. "$(dirname "$0")/cli_lib.inc"

# counted FILE KEY: a field of the last line of `profile -j`
counted() {
	sed -n "s/.*\"kind\":\"profile-total\".*\"$2\":\"\([^\"]*\)\".*/\1/p" "$1"
}

has_sessions() { # KIND N
	[ "$("$vpmu" sessions -j | grep -c "\"$1\":")" = "$2" ]
}

# folded_format FILE: every line is FRAME;...;FRAME COUNT, the format of flame graph tools
folded_format() {
	check "$1: lines that are no folded stack" "$(grep -vcE '^[^; ]+(;[^; ]+)+ [1-9][0-9]*$' "$1")" 0
	check "$1: has lines" "$(test -s "$1" && echo yes)" yes
}

# waiting KIND N PID: until the server has so many profiles or captures; PID is the last one's client
waiting() {
	wait_for "$3" has_sessions "$1" "$2" && return 0
	echo "FAILED: not $2 of kind $1:"
	"$vpmu" sessions
	exit 1
}

# ---- exact: VMs of known work, sampled from their first instruction to their last ----
start_server --paused \
	--vm "$(vm fib-1 tenant=/acme/web,vcpus=2 'run fib 24')" \
	--vm "$(vm loop-1 tenant=/acme/db 'run loop 3000000')" \
	--vm "$(vm other tenant=/bob 'run loop 500000')"
"$vpmu" attach all -e instructions -t /acme || exit 1
"$vpmu" profile -j --vcpu -c 1009 /acme >"$dir/profile.json" &
one=$!
"$vpmu" profile --folded -c 2003 /acme >"$dir/folded" &
two=$!
"$vpmu" profile -e branches-taken -c 701 -g /acme >"$dir/text" &
three=$!
waiting profile 3 $three
check "the same counter for three profiles and a session" \
	"$("$vpmu" sharing -j | grep -o '"keys":[0-9]*' | head -n 1)" '"keys":2'
"$vpmu" resume || exit 1
for v in fib-1 loop-1 other; do
	wait_state $v "done"
done
for p in $one $two $three; do
	kill -INT $p
	wait $p
	check "profile ends with 0 on Ctrl-C" $? 0
done

work=$("$vpmu" detach all -x, | cut -d, -f1)
samples=$(counted "$dir/profile.json" samples)
lost=$(counted "$dir/profile.json" lost)
check "the profile's count is the session's" "$(counted "$dir/profile.json" count)" "$work"
# Per pCPU the floor: two pCPUs, so up to one less in all.
check "samples and what was lost are what was counted" \
	"$((work / 1009 - samples - lost <= 1 && work / 1009 - samples - lost >= 0))" 1
check "nothing was lost" "$lost" 0
check "nothing was late" "$(counted "$dir/profile.json" late-max)" 0
check "rows add up to all samples" \
	"$(sed -n 's/.*"kind":"profile",.*"samples":"\([0-9]*\)".*/\1/p' "$dir/profile.json" |
		awk '{ s += $1 } END { print s }')" "$samples"
check_match "each vCPU has its rows" "$(cat "$dir/profile.json")" \
	'"vm":"fib-1","function":"workload_fib",.*"vcpu":1,"level":"user"'
check_match "the loop's function" "$(cat "$dir/profile.json")" \
	'"vm":"loop-1","function":"workload_loop"'
check "another tenant's VM is not in it" "$(grep -c '"vm":"other"' "$dir/profile.json")" 0
check "nearly all of loop-1 is its loop" \
	"$(awk -F'"samples":"' '/"loop-1"/ { n = $2 + 0; all += n; if (/workload_loop/) f += n }
		END { print (f > 0.9 * all) }' "$dir/profile.json")" 1

# Folded stacks: every sample once, chains from the outermost call to where the vCPU was.
check_match "a whole call chain" "$(cat "$dir/folded")" \
	'^loop-1;vcpu0;.*user_start;tools_main;.*workload_loop [0-9]+$|^loop-1;vcpu0;user_call;workload_loop [0-9]+$'
check_match "recursion" "$(cat "$dir/folded")" \
	'^fib-1;vcpu0;.*workload_fib;workload_fib;workload_fib.* [0-9]+$'
folded_format "$dir/folded"
stacks=$(awk '{ s += $NF } END { print s }' "$dir/folded")
check "stacks add up to what was counted" \
	"$((work / 2003 - stacks <= 1 && work / 2003 - stacks >= 0))" 1

check_match "people see the function" "$(cat "$dir/text")" '[0-9.]+%.*fib-1 +\[\.\] workload_fib'
check_match "and what was sampled" "$(head -n 1 "$dir/text")" \
	'^# /acme: branches-taken every 701: [0-9,]+ samples, 0 lost, [0-9,]+ counted(, backend: emulator)?$'
check_match "and chains" "$(cat "$dir/text")" 'workload_fib \([0-9]+ times\)'

# ---- VMs that run on: captures ----
"$vpmu" vm add name=spin tenant=/acme image="$image" engine=emulator args="spin 100000000" || exit 1
"$vpmu" vm add name=deep tenant=/acme vcpus=2 image="$image" engine=emulator args="run fib 40" || exit 1
wait_state deep running
# A row per vCPU, with places
again 'grep -Eq "^deep/1: captured, call-stack: [0-9]+ of [0-9,]+ records" "$dir/out" &&
	grep -Eq "^    workload_fib\+0x[0-9a-f]+\$" "$dir/out"' "$vpmu" lbr -d 0.3
# An object per vCPU
chain='^\{"kind":"lbr","vm":"deep","vcpu":0,("backend":"emulator",)?"source":"capture","mode":"call-stack","chain":\["workload_fib".*\]\}$'
again '[ $(wc -l <"$dir/out") = 2 ] && grep -Eq "$chain" "$dir/out"' "$vpmu" lbr -j -d 0.3 deep
again '[ $(wc -l <"$dir/out") = 14 ]' "$vpmu" lbr -n 7 -j -d 0.3 deep
again '[ $(grep -c " -> " "$dir/out") = 32 ]' "$vpmu" lbr --mode branches -d 0.2 spin
check_match "of the loop" "$(cat "$dir/out")" 'jcc +workload_loop\+0x[0-9a-f]+ +-> workload_loop\+0x.* cycles \(modelled\)'
again 'grep -q "\"type\":\"rel-call\"" "$dir/out"' "$vpmu" lbr --mode calls -d 0.2 -j deep
check "no other branches" "$(grep -c '"type":"\(jcc\|ret\|rel-jmp\)"' "$dir/out")" 0
# 20 times two vCPUs
again '[ $(awk "{ s += \$NF } END { print s }" "$dir/out") = 40 ]' "$vpmu" lbr --folded -n 20 -d 0.5 deep
check "of deep only" "$(grep -vc '^deep;vcpu[01];' "$dir/out")" 0
folded_format "$dir/out"

# Nobody reads on: it ends, not after a day.
"$vpmu" lbr -d 86400 -n 864000 spin 2>"$dir/closed.err" | head -n 1 >/dev/null
check "a closed pipe ends it quietly" "$(cat "$dir/closed.err")" ""
"$vpmu" lbr -d 86400 -n 864000 spin >/dev/full 2>"$dir/full.err"
check_match "with a message" "$(cat "$dir/full.err")" '^vpmu: standard output: No space'

# ---- what goes while it is looked at ----
"$vpmu" profile -j /acme >"$dir/gone.json" &
one=$!
"$vpmu" lbr -d 86400 deep >/dev/null 2>"$dir/gone.err" &
two=$!
waiting profile 1 $one
waiting capture 1 $two
"$vpmu" profile deep >"$dir/gone.text" &
three=$!
waiting profile 2 $three
check_match "sessions: the profile" "$("$vpmu" sessions)" '^@[0-9]+ +profile +/acme +no +instructions every 100000$'
check_match "sessions: the capture" "$("$vpmu" sessions)" '^@[0-9]+ +capture +deep +no +call-stack$'
"$vpmu" lbr --folded -n 864000 -d 86400 deep >"$dir/gone.folded" 2>/dev/null &
four=$!
waiting capture 2 $four
# Ten captures more: the one above reads at least as often as this, and has profiled at least so much.
again '[ $(awk "{ s += \$NF } END { print s }" "$dir/out") = 20 ]' "$vpmu" lbr --folded -n 10 -d 1 deep
"$vpmu" vm rm deep || exit 1
wait $four
check "captures of a VM that went" $? 1
check_match "what was read is shown" "$(cat "$dir/gone.folded")" '^deep;vcpu[01];.* [0-9]+$'
kill -INT $three
wait $three
check "a profile of a VM that went" $? 0
check_match "and says it" "$(head -n 1 "$dir/gone.text")" ' counted, until it was removed(, backend: emulator)?$'
kill -INT $two
wait $two
check "a capture of a VM that went" $? 1
check_match "says so" "$(cat "$dir/gone.err")" 'no VM "deep"'
kill -INT $one
wait $one
check "a profile goes on" $? 0
check_match "and shows what went" "$(cat "$dir/gone.json")" '"vm":"deep","function":"workload_fib"'
check "nothing is left behind" "$("$vpmu" sessions -j)" ""

# Long commands show the time, on a terminal only.
"$vpmu" vm add name=busy image="$image" engine=emulator args="spin 1000000" || exit 1
progress=$(script -qec "$vpmu profile -d 3 busy" /dev/null </dev/null | tr '\r' '\n')
check_match "profile: progress on a terminal" "$progress" '^vpmu: profile: [0-9]+ of 3 s'
check_match "profile: and the result" "$progress" '^OVERHEAD'
"$vpmu" profile -d 3 busy >/dev/null 2>"$dir/notes"
check "profile: no progress elsewhere" "$(cat "$dir/notes")" ''
"$vpmu" vm rm busy

# An image that is gone: numbers, and one line about it.
cp "$image" "$dir/copy.elf"
"$vpmu" vm add name=lost vcpus=2 image="$dir/copy.elf" engine=emulator args="run fib 40" || exit 1
wait_state lost running
rm "$dir/copy.elf"
again 'grep -Eq "lost/1 \[\.\] 0x[0-9a-f]+\$" "$dir/out"' "$vpmu" profile -d 0.3 --vcpu lost
check "said once" "$(grep -c 'copy.elf: No such file or directory; addresses are shown' "$dir/err")" 1

"$vpmu" conservation >/dev/null
check "conservation" $? 0
stop_server
finish
