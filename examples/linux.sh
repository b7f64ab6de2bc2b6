#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
# Stock Linux guests: examples/linux.sh [--json]
# Debian's kernel and Debian's perf in two VMs of the emulator, one with an AMD and one with an Intel PMU,
# counted and sampled by their own perf and by the operator at once. tools/linux-guest fetches them once.
. "$(dirname "$0")/acts.sh"

# The program that they count is assembly without a library: $path_insns instructions on every CPU,
# $path_branches of them branches.
path_insns=77008 path_branches=32001 path_period=997
linux_job() {
	cat <<END
echo 1000000 >/proc/sys/kernel/perf_event_max_sample_rate
echo 0 >/proc/sys/kernel/perf_cpu_time_max_percent
cd /bin
say() { echo "\$ \$*"; "\$@" 2>&1 | cat; } # perf draws no colours into a pipe
dmesg | sed -n 's/^.*\(Performance Events: .*\)/\1/p'
say perf stat $1 -e instructions:u,branches:u path
say perf record -q -b -e instructions:u -c $path_period -o /tmp/samples path
perf script -i /tmp/samples -F ip,brstack | awk 'NF { n++; b += NF - 1 } END { print "samples=" n "\nbranches=" b }'
if grep -q AuthenticAMD /proc/cpuinfo; then
	say perf report -i /tmp/samples --stdio -s symbol_from,symbol_to
else
	say perf record -q --call-graph lbr -e instructions:u -c $path_period -o /tmp/chains path
	say perf report -i /tmp/chains --stdio --no-children -g folded -s sym --percent-limit 10
fi
END
}

# The output of a guest's perf, from the console of a VM: up to the next command.
linux_part() { # vm command
	jq -r --arg vm "$1" 'select(.kind == "console" and .vm == $vm) | .text' "$work/vmm.log" |
		awk -v want="\$ $2" 'index($0, "$ ") == 1 || /^samples=/ { on = index($0, want) == 1 } on'
}

linux_sampled() { # vm samples|branches
	jq -r --arg vm "$1" 'select(.kind == "console" and .vm == $vm) | .text' "$work/vmm.log" | sed -n "s/^$2=//p"
}

linux_prepare() { # or sets the reason in $lacks
	local cc=${CC:-cc}
	tools/linux-guest gone && echo "fetching Debian's kernels and perf, once ..." >&2
	if ! lacks=$(tools/linux-guest 2>&1); then
		lacks=${lacks##*$'\n'}
		return 1
	fi
	if ! lacks=$($cc -static -nostdlib -no-pie -DROUNDS=2000 -o "$work/path" tests/linux/path.S 2>&1 &&
		linux_job "$([ "$json" = 1 ] && echo -j)" >"$work/job" &&
		tools/linux-guest initrd "$work/initrd" --perf bin/path="$work/path" job="$work/job" 2>&1); then
		lacks=${lacks##*$'\n'}
		return 1
	fi
	sed "s|^initrd = .*|initrd = $work/initrd|" examples/linux.ini >"$work/linux.ini"
}

linux_prepare || cannot "no stock Linux guest: $lacks"
act "$work/linux.ini" instructions:u,branches:u,instructions,branches || die "the act of stock Linux guests failed"
for vm in debian-amd debian-intel; do
	perf=$(linux_part $vm "perf stat")
	for n in "$path_insns.*instructions:u" "$path_branches.*branches:u"; do
		grep -q "\\b$n" <<<"$perf" || die "perf in $vm did not count ${n%%.*}: $perf"
	done
	[ "$(linux_sampled $vm samples)" = $((path_insns / path_period)) ] ||
		die "perf in $vm did not take $((path_insns / path_period)) samples: $(linux_part $vm "perf record")"
done
if [ "$json" = 1 ]; then
	jq -c "$number"' select(.kind == "console" and .vm[0:6] == "debian") | . as $c | (.text | fromjson?)
		| select(.event and ."counter-value")
		| {kind: "perf-stat", vm: $c.vm, event, value: (."counter-value" | tonumber),
		   running: ."pcnt-running"}' "$work/vmm.log"
	for vm in debian-amd debian-intel; do
		jq -nc --arg vm $vm --argjson samples "$(linux_sampled $vm samples)" --argjson period $path_period \
			--argjson branches "$(linux_sampled $vm branches)" \
			'{kind: "perf-record", vm: $vm, event: "instructions:u", period: $period, samples: $samples, branches: $branches}'
	done
	linux_part debian-intel "perf report" | jq -Rc 'capture("^(?<percent>[0-9.]+)% (?<chain>[^ ]+)$")
		| {kind: "perf-chain", vm: "debian-intel", chain: (.chain | split(";")), percent: (.percent | tonumber)}'
	print_json_tenants
else
	note "Two stock Linux guests on the emulator, VM debian-amd of tenant /acme and VM debian-intel of /globex:"
	note "Debian's kernel and Debian's perf as they are in its packages. perf counts a program that"
	note "executes $path_insns instructions, $path_branches of them branches, on every CPU:"
	note ""
	for vm in debian-amd debian-intel; do
		jq -r --arg vm $vm 'select(.kind == "console" and .vm == $vm) | .text' "$work/vmm.log" |
			sed -n "s/^Performance Events: /    $vm's kernel reports: /p"
		linux_part $vm "perf stat" | grep -E '^\$|instructions:u|branches:u' | sed 's/ *#.*//; s/^/    /'
		note ""
	done
	note "They sample the same program every $path_period instructions, by PMIs of their PMUs: $path_insns / $path_period ="
	note "$(linux_sampled debian-amd samples) samples each. Branch records show the branches before each sample ($(linux_sampled debian-amd branches) in all, from where to where) ..."
	{
		linux_part debian-amd "perf record"
		linux_part debian-amd "perf report" |
			awk '/^\$/; $1 ~ /^[0-9.]+%$/ { printf "%8s  %-8s -> %s\n", $1, $3, $5 }'
	} | sed 's/^/    /'
	note ""
	note "... or callers and callees, innermost first:"
	{
		linux_part debian-intel "perf record" | grep call-graph
		linux_part debian-intel "perf report" | awk '/^\$/; /^[0-9.]+% / { printf "%8s  %s\n", $1, $2 }'
	} | sed 's/^/    /'
	note ""
	note "The operator's counts of these VMs from their first instruction on, without their help and on the"
	note "same counters (:u is user code; the rest is the kernels'):"
	"$vpmu" stat --session demo | sed 's/^/    /'
	note "Is anything lost?"
	"$vpmu" conservation | sed 's/^/    /'
fi
conserved "with stock Linux guests"
act_end
