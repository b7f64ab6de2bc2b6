#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
# vpmu stat against real VMs: every output format shows the same counts, trees add up, intervals
# sum to the total, the operator's count of a VM is the guest's work and no more.
. "$(dirname "$0")/cli_lib.inc"

events=instructions,cycles,branches,branches-taken,loads,stores,cache-misses
start_server --paused \
	--vm "$(vm web-1 tenant=/acme/web,vcpus=2 'run loop 3000000')" \
	--vm "$(vm db-1 tenant=/acme/db 'run sieve')" \
	--vm "$(vm bob-1 tenant=/bob 'stat -e instructions,branches loop 1000000')" \
	--vm "$(vm free vcpus=1 'run loop 500000')"

"$vpmu" attach tree -e $events --for-each tenant || exit 1
"$vpmu" attach vms -e $events --for-each vm || exit 1
"$vpmu" attach vcpus -e $events --for-each vcpu || exit 1
"$vpmu" attach all -e $events || exit 1
# Started before anything runs, ended after everything did.
"$vpmu" stat -e instructions,cycles --for-each tenant -I 20 -x, >"$dir/intervals" &
intervals=$!
five() { [ "$("$vpmu" sessions -j | wc -l)" = 5 ]; }
wait_for $intervals five || exit 1
"$vpmu" resume || exit 1
for v in web-1 db-1 bob-1 free; do
	wait_state $v done
done
kill -INT $intervals
wait $intervals
check "stat -I ends with 0 on Ctrl-C" $? 0

for s in tree vms vcpus all; do
	"$vpmu" stat --session $s -x, >"$dir/$s" || exit 1
	"$vpmu" stat --session $s -j >"$dir/$s.json" || exit 1
	check "$s: as many values in JSON" "$(wc -l <"$dir/$s.json")" "$(wc -l <"$dir/$s")"
	check "$s: the same values in JSON" \
		"$(sed 's/.*"counter-value":"\([^"]*\)".*/\1/' "$dir/$s.json")" "$(cut -d, -f1 "$dir/$s")"
done

for e in instructions cycles branches branches-taken loads stores; do
	root=$(cell "$dir/tree" $e / "" "")
	host=$(cell "$dir/tree" $e /host "" "")
	[ "$host" != "<not counted>" ] || host=0
	acme=$(cell "$dir/tree" $e /acme "" "")
	web=$(cell "$dir/tree" $e /acme/web "" "")
	db=$(cell "$dir/tree" $e /acme/db "" "")
	bob=$(cell "$dir/tree" $e /bob "" "")
	check "$e: / is everything" "$root" $((host + acme + bob))
	check "$e: /acme is what is below" "$acme" $((web + db))
	check "$e: the host as one" "$(cell "$dir/all" $e / "" "")" "$root"
	check "$e: a VM alone in its tenant" "$(cell "$dir/vms" $e /bob bob-1 "")" "$bob"
	check "$e: vCPUs of a VM" "$web" $(($(cell "$dir/vcpus" $e /acme/web web-1 0) + \
		$(cell "$dir/vcpus" $e /acme/web web-1 1)))
done
check "cache-misses are not supported" "$(cell "$dir/tree" cache-misses / "" "")" "<not supported>"
check_match "cycles say how good they are" "$(grep ',cycles,/,' "$dir/tree")" ',100\.00,modelled,emulator,,$'
check_match "instructions are exact" "$(grep ',instructions,/,' "$dir/tree")" ',100\.00,exact,emulator,[0-9.]+,insn per cycle \(modelled\)$'

for e in instructions cycles; do
	for t in / /host /acme /acme/web /acme/db /bob; do
		sum=$(awk -F, -v e=$e -v t=$t '$4 == e && $5 == t { s += $2 } END { printf "%d", s }' \
			"$dir/intervals")
		check "$e of $t: intervals sum to the total" "$sum" "$(cell "$dir/tree" $e $t "" "")"
	done
done

# The guest's own count of its loop is part of the operator's count of that VM.
guest=$(sed -n 's/^\[bob-1\] *\([0-9,]*\) *instructions.*/\1/p' "$dir/server.log" | tr -d ,)
seen=$(cell "$dir/vms" instructions /bob bob-1 "")
if ! [ "${guest:-0}" -gt 1000000 ] || ! [ "$guest" -lt "$seen" ]; then
	check "the guest counts part of what the operator counts" "guest $guest, operator $seen" "less"
fi

# VMs and vCPUs as a tree: the same counts, below the names of their tenants.
out=$("$vpmu" stat --session vcpus --tree --no-big-num | sed -n '/^NAME/,/^$/p')
check "tree: names" "$(printf '%s\n' "$out" | sed 's/^\([^a-zA-Z/]*[a-zA-Z/0-9-]*\).*/\1/' | LC_ALL=C tr -d ' \200-\377|`' | sed 's/^-*//' | tr '\n' ' ')" \
	'NAME /host free free/0 /acme web web-1 web-1/0 web-1/1 db db-1 db-1/0 /bob bob-1 bob-1/0 '
check_match "tree: a tenant has no counts" "$out" '^/acme *$'
check_match "tree: a vCPU has its counts" "$(printf '%s\n' "$out" | grep 'web-1/1')" \
	" $(cell "$dir/vcpus" instructions /acme/web web-1 1) "
"$vpmu" stat --session vcpus --tree -j 2>"$dir/err"
check "tree: not for programs" "$? $(cat "$dir/err")" '2 vpmu: stat: --tree is for tables; give it without -x, -j and -I'

"$vpmu" conservation >"$dir/conservation"
check "conservation: exit status" $? 0
check "conservation: rows differ" "$(grep -c 'NO$' "$dir/conservation")" 0

# -e and -t add up, and what two targets share is shown once.
"$vpmu" stat -d 0.01 -e instructions -e cycles,loads -t web-1 -t /bob -t web-1 -x, >"$dir/out"
check "-e -e: all events" "$(cut -d, -f3 "$dir/out" | sort | uniq -c | tr -s ' \n' ' ')" ' 2 cycles 2 instructions 2 loads '
check "-t -t: both targets, each once" "$(cut -d, -f4,5 "$dir/out" | uniq | tr '\n' ' ')" '/acme/web,web-1 /bob, '
"$vpmu" stat -d 0.01 -e loads --for-each vm -t /acme -t web-1 -t free -x, >"$dir/out"
check "-t -t: no VM twice" "$(cut -d, -f5 "$dir/out" | tr '\n' ' ')" 'web-1 db-1 free '
"$vpmu" stat -d 0.01 -e loads --for-each tenant -t /acme/web -t /acme/db -t /acme >"$dir/out"
check "-t -t: trees beside each other" "$(sed -n '4,8s/ .*//p' "$dir/out")" 'TENANT
/acme/web
/acme/db
/acme'
# A target that is deeper than the one before is not below it.
"$vpmu" stat -d 0.01 -e loads --for-each tenant -t /bob -t /acme/web >"$dir/out"
check "-t -t: a deeper one" "$(sed -n '4,6s/ .*//p' "$dir/out")" 'TENANT
/bob
/acme/web'
check "top: -t -t" "$("$vpmu" top -b -n 1 -d 0.01 --for-each vm -t bob-1 -t free -e loads -e stores |
	awk '/^(bob-1|free|NAME)/ { print $1, $NF == "stores" }' | sort)" 'NAME 1
bob-1 0
free 0'

# People's output.
out=$("$vpmu" stat --session tree)
check_match "tree: top" "$out" '^/ +[0-9,]+ '
check_match "tree: branch" "$out" '^(│|\|) .*web +[0-9,]+ '
check_match "tree: quality in the heading" "$out" 'cycles \(modelled\)'
check_match "tree: legend" "$out" 'modelled: computed from the emulator'
out=$("$vpmu" stat --session all)
check_match "lines: IPC says it is modelled" "$out" '# +[0-9.]+ +insn per cycle \(modelled\)'
check_match "lines: thousands" "$out" '^ +[0-9]{1,3}(,[0-9]{3})+ +instructions'
check_match "lines: not supported" "$out" '<not supported> +cache-misses'

# A command, its status, and a session that ends with the client.
"$vpmu" stat -a -e instructions -x, -o "$dir/out" -- sh -c 'exit 3'
check "the command's exit status" $? 3
check "nothing ran meanwhile" "$(cell "$dir/out" instructions / "" "")" "<not counted>"
check "sessions of clients are gone" "$("$vpmu" sessions -j | wc -l)" 4
"$vpmu" stat -I 10 -d 0.5 | head -n 1 >/dev/null
check "a closed pipe: no session left" "$("$vpmu" sessions -j | wc -l)" 4
for s in tree vms vcpus all; do
	"$vpmu" detach $s -x, >"$dir/$s.last" || exit 1
	check "$s: detach shows the same counts" "$(cat "$dir/$s.last")" "$(cat "$dir/$s")"
done
# vpmu itself ignores SIGPIPE and SIGXFSZ; its command does not.
ignored() { grep SigIgn; }
check "the signals that a command ignores" "$("$vpmu" stat -a -e instructions -- cat /proc/self/status 2>/dev/null | ignored)" \
	"$(cat /proc/self/status | ignored)"
check "all sessions are gone" "$("$vpmu" sessions -j | wc -l)" 0
stop_server
finish
