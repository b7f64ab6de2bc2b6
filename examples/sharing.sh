#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
# Many VMs share few hardware counters: examples/sharing.sh [--json]
# They count and sample events; the operator counts the same events per tenant, samples VMs and captures
# their call chains at the same time; nothing is lost. Leaves the call stacks of all VMs in the build folder,
# for a flame graph.
. "$(dirname "$0")/acts.sh"

# What an operator sees of VMs without their help: where gx-1 is, everybody's call chains, and the
# sampled call stacks of the host. Started before the VMs, so that chains begin at their first call.
folded=$build/demo.folded
look() {
	local as= p
	[ "$json" = 1 ] && as=-j
	"$vpmu" profile $as gx-1 >"$work/profile" 2>>"$work/look.err" &
	look_pids=$!
	"$vpmu" profile --folded / >"$folded" 2>>"$work/look.err" &
	look_pids="$look_pids $!"
	"$vpmu" lbr -j -n 36000 -d 3600 / >"$work/chains" 2>>"$work/look.err" &
	look_pids="$look_pids $!"
	until [ "$("$vpmu" sessions -j | grep -c '^{"\(profile\|capture\)"')" = 3 ]; do
		for p in $look_pids; do
			kill -0 "$p" 2>/dev/null || { cat "$work/look.err" >&2; return 1; }
		done
		sleep 0.02
	done
}

look_end() {
	local p
	kill -INT $look_pids # the VMs have ended: so does this, with what it has seen
	for p in $look_pids; do
		wait "$p" || { cat "$work/look.err" >&2; return 1; }
	done
	look_pids=
	# Of each vCPU the deepest chain of the readings.
	jq -sc '[.[] | select((.chain | length) > 0)] | group_by([.vm, .vcpu])
		| map(max_by(.chain | length)) | .[] | {kind, vm, vcpu, chain, source}' \
		"$work/chains" >"$work/lbr"
}

# The samples: of the guest itself, of the operator; and the chains.
print_json_samples() {
	jq -c 'select(.kind == "console") | . as $c | (.text | fromjson?)
		| if .kind == "sample-histogram" then
			{kind: "record", vm: $c.vm, vcpu, function, samples, percent}
		  elif .kind == "sample-summary" then
			{kind: "record-total", vm: $c.vm, vcpu, event, period, samples, expected, lost}
		  else empty end' "$work/vmm.log"
	jq -c "$number"' if .kind == "profile" then
			{kind, vm, function, level, samples: (.samples | num), percent}
		else {kind, target, event, period: (.period | num), samples: (.samples | num),
			lost: (.lost | num), count: (.count | num), quality} end' "$work/profile"
	cat "$work/lbr"
	jq -nc --arg path "$folded" --argjson samples "$(awk '{ n += $NF } END { print n + 0 }' "$folded")" \
		'{kind: "folded-stacks", path: $path, samples: $samples}'
}

events=instructions,cycles,ref-cycles,branches,branches-taken,loads,stores
note "vpmu: 4 tenants, 9 VMs, 18 vCPUs on 2 modelled pCPUs with 4 + 3 counters each"
note "      eight VMs count 7 events on 8 counters, one samples itself; the operator counts the same events per"
note "      tenant, samples the VMs, and captures their call chains"
note ""
act examples/demo.ini "$events" look || die "the emulator's act failed"
look_end || die "the operator's view failed"
if [ "$json" = 1 ]; then
	print_json
	print_json_samples
else
	note "A guest's view (VM web-1, vCPU 0, its own perf-like tool on its own vPMU):"
	guest_table web-1 0
	note ""
	note "The operator's view (at the same time, per tenant):"
	"$vpmu" stat --session demo | sed 's/^/    /'
	note "A guest samples itself, by PMIs of its vPMU (VM rec-1, vCPU 0: record -e instructions):"
	guest_table rec-1 0
	note ""
	note "The operator samples a VM without its help (gx-1):"
	sed 's/^/    /' "$work/profile"
	note ""
	note "Call chains from branch records, innermost first (one of each vCPU):"
	jq -r 'def runs: reduce .[] as $f ([]; if length > 0 and .[-1].f == $f
			then .[:-1] + [{f: $f, n: (.[-1].n + 1)}] else . + [{f: $f, n: 1}] end)
			| map(if .n > 1 then "\(.f) x\(.n)" else .f end);
		"    \(.vm)/\(.vcpu): \(.chain | runs | join(" < "))"' "$work/lbr"
	note ""
	note "Where all of them spent their instructions: the five call stacks with most samples, of $(wc -l <"$folded"),"
	note "outermost function first (samples every 100,000 instructions):"
	sort -t ' ' -k 2,2nr -k 1,1 "$folded" | head -n 5 | awk '{
		n = split($1, f, ";")
		out = ""
		for (i = 1; i <= n; i += k) {
			for (k = 1; i + k <= n && f[i + k] == f[i]; k++)
				;
			out = out (i > 1 ? ";" : "") f[i] (k > 1 ? " x" k : "")
		}
		printf "    %6d  %s\n", $2, out
	}'
	note "All of them are in $folded. To draw a flame graph: flamegraph.pl $folded >demo.svg,"
	note "or open the file at https://www.speedscope.app."
	note ""
	note "Sharing:"
	jq -r '"    \(.consumers) guest and operator consumers of \(.keys) distinct events, served by \(."host-counters") hardware counters"' "$work/sharing"
	note ""
	note "Is anything lost? hardware = sum of all accounts, per pCPU and event:"
	"$vpmu" conservation | sed 's/^/    /'
fi
conserved "on the emulator"
act_end
