#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
# ./demo --json and the other acts print only objects of the documented kinds, with the promised contents, and what
# they print agrees with itself. ./demo's table has each act. Usage: demo_json.sh BUILDDIR
set -eu
cd "$(dirname "$0")/.."
out=$(mktemp)
trap 'rm -f "$out" "$out.act"' EXIT
export VPMU_BUILD=$1
fail() {
	echo "demo_json: $*"
	exit 1
}
[ "$(./demo --acts | awk '/^ *examples/ { print $1 }' | sort)" = "$(find examples -name '*.sh' -perm -100 | sort)" ] ||
	fail "the table of acts does not have the acts: $(./demo --acts)"
missing=$(./demo --acts | sed -n 's/^Missing here: //p')
./demo --json >"$out"
ran=
for act in linux kvm host; do
	rc=0
	why=$(examples/$act.sh --json 2>&1 >"$out.act") || rc=$?
	case $rc in
	0) ran="$ran $act" ;;
	77) echo "# SKIP ${why##*$'\n'}" ;;
	*) fail "examples/$act.sh: exit status $rc: $why" ;;
	esac
	case "$act $rc: $missing" in
	"kvm 0:"*/dev/kvm* | "host 0:"*BPF*) fail "examples/$act.sh ran, and ./demo misses '$missing'" ;;
	"kvm 77:"*/dev/kvm*) ;;
	"kvm 77:"*) fail "examples/kvm.sh did not run, and ./demo does not miss /dev/kvm: '$missing'" ;;
	esac
	# On KVM without a PMU nothing is counted whose conservation could be shown.
	[ $rc = 77 ] || [ $act = kvm ] || jq -se 'map(select(.kind == "conservation")) | length > 0' "$out.act" >/dev/null ||
		fail "examples/$act.sh says nothing of conservation"
	[ $rc = 77 ] || jq -se 'map(select(.kind == "tenant")) | length > 1' "$out.act" >/dev/null ||
		fail "examples/$act.sh counts no tenants"
	cat "$out.act" >>"$out"
done
[ -s "$out" ] || fail "no output"
jq -e . "$out" >/dev/null || fail "a line is not JSON"
check() { # what jq-program: true over the whole output
	[ "$(jq -s "$2" "$out")" = true ] || fail "$1"
}
check "an object of an unknown kind" \
	'all(.kind | IN("guest", "tenant", "sharing", "conservation", "record", "record-total", "profile",
		"profile-total", "lbr", "folded-stacks", "perf-stat", "perf-record",
		"perf-chain"))'
check "16 vCPUs of 8 VMs, 8 counters each" \
	'[.[] | select(.kind == "guest" and (.vm | startswith("kvm") | not))] | length == 128 and
	 (map([.vm, .vcpu]) | unique | length) == 16'
check "an emulator guest counter without a number, or not all the time" \
	'[.[] | select(.kind == "guest" and (.vm | startswith("kvm") | not))]
	 | all((.value | type) == "number" and .value > 0 and .running == 100)'
check "4 tenants with a count of instructions" \
	'([.[] | select(.kind == "tenant" and .event == "instructions" and (.value | type) == "number")
	   | .tenant] | unique) - ["/", "/host", "/acme"] | contains(["/acme/web", "/acme/db", "/globex", "/initech"])'
check "a parent tenant that is not the sum of its children" \
	'[.[] | select(.kind == "tenant" and .event == "loads")] | map({(.tenant): .value}) | add
	 | ."/acme" == ."/acme/web" + ."/acme/db"'
check "more hardware counters than 2 pCPUs of 7, or hardly any sharing" \
	'map(select(.kind == "sharing"))[0] | .host_counters <= 14 and .consumers > 4 * .host_counters'
check "hardware counts that are not the charged counts" \
	'[.[] | select(.kind == "conservation")] | length > 0 and all(.hardware == .charged)'
check "a tenant that counted less than its guests saw" \
	'([.[] | select(.kind == "guest" and .event == "stores" and (.vm | startswith("gx"))) | .value] | add)
	 <= (map(select(.kind == "tenant" and .tenant == "/globex" and .event == "stores"))[0].value)'
check "the guest that samples itself: not every PMI, or not where it was" \
	'([.[] | select(.kind == "record-total")] | length == 2 and
		all(.samples == .expected and .lost == 0 and .samples > 100)) and
	 ([.[] | select(.kind == "record" and .vcpu == 0)] |
		(map(.samples) | add) > 100 and any(.function == "workload_syscalls"))'
check "the operator's profile: samples that are not what was counted, or not where it was" \
	'(map(select(.kind == "profile-total"))[0] | .lost == 0 and .samples > 100 and
		((.count / .period | floor) - .samples | IN(0, 1))) and
	 ([.[] | select(.kind == "profile")] | map(.samples) | add) ==
		map(select(.kind == "profile-total"))[0].samples and
	 ([.[] | select(.kind == "profile")] | max_by(.samples) | .vm == "gx-1" and
		.function == "workload_sieve")'
check "a vCPU without a call chain, or a chain that is none" \
	'([.[] | select(.kind == "lbr")] | (map([.vm, .vcpu]) | unique | length) == 18 and length == 18 and
		all(.chain | length > 0 and all(type == "string" and length > 0)))'
check "a chain of fib that does not call itself" \
	'[.[] | select(.kind == "lbr" and .vm == "web-1")] |
	 all(.chain[0:3] | all(. == "workload_fib"))'
if [[ $ran == *linux* ]]; then
	# The program's path is known: tests/linux/path.S. Linux clears branch records when it switches tasks, so a few
	# samples may have less than all of them.
	check "a stock Linux guest whose own perf does not count what its program executes" \
		'[.[] | select(.kind == "perf-stat") | [.vm, .event, .value, .running]] | sort ==
		 [["debian-amd", "branches:u", 32001, 100], ["debian-amd", "instructions:u", 77008, 100],
		  ["debian-intel", "branches:u", 32001, 100], ["debian-intel", "instructions:u", 77008, 100]]'
	check "a stock Linux guest whose own perf loses samples or branches" \
		'[.[] | select(.kind == "perf-record")] | length == 2 and
		 all((if .vm == "debian-amd" then 16 else 32 end) as $depth |
			.samples == (77008 / 997 | floor) and .branches <= $depth * .samples and
			.branches > $depth * .samples / 2)'
	check "a stock Linux guest whose own perf does not find who calls whom" \
		'[.[] | select(.kind == "perf-chain")] | length > 2 and
		 any(.chain == ["inner", "middle", "outer", "_start"] and .percent > 50)'
	check "tenants of stock Linux guests that counted less than their perf, or other events than these" \
		'[.[] | select(.kind == "tenant" and .event == "branches:u" and (.tenant | IN("/acme", "/globex")))] |
		 length == 2 and all(.value > 32001 and .quality == "exact")'
fi
folded=$(jq -r 'select(.kind == "folded-stacks").path' "$out")
grep -q ';workload_fib;workload_fib.* [0-9]*$' "$folded" || fail "no recursion in $folded"
[ "$(grep -vcE '^[^; ]+(;[^; ]+)+ [1-9][0-9]*$' "$folded")" = 0 ] || fail "$folded: a line is not FRAME;...;FRAME COUNT"
check "folded stacks that do not add up to what the profile says, or to the host's count" \
	'map(select(.kind == "folded-stacks"))[0].samples as $n | $n == '"$(awk '{ n += $NF } END { print n }' "$folded")"' and
	 ((map(select(.kind == "tenant" and .tenant == "/" and .event == "instructions"))[0].value / 100000 | floor) - $n |
		IN(0, 1, 2))'
echo "demo_json: $(wc -l <"$out") objects, all as promised"
