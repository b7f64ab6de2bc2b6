# SPDX-License-Identifier: GPL-2.0-or-later
# record in guests: with period p exactly floor(count / p) PMIs (+- 1 at the end), on every model,
# by NMI and by vector, at any slice; and one clear line where nothing can be sampled.
. "$(dirname "$0")/guest_lib.inc"

ok='.ok and .lost == 0 and .without_cause == 0 and .partial == false and .pmis > 5 and
	(.pmis - .expected | fabs) <= 1 and .samples == .pmis'

for model in intel-v2 intel-v3 intel-v4 intel-v5 amd-k7 amd-core amd-v2; do
	set --
	i=0
	for how in --nmi --vector; do
		for what in "-c 777 sieve 5000" "-c 97 -e branches:u fib 12" \
			"-c 500 -e stores memcpy 5000" "-c 1000 -e cycles:u chase 3000" \
			"-c 300 -e instructions syscalls 500" "-c 1 -e instructions:u loop 10"; do
			i=$((i + 1))
			set -- "$@" --vm "name=g$i,engine=emulator,pmu=$model,image=$VPMU_GUEST,args=record -j $how $what"
		done
	done
	vms 0 --slice 333 "$@"
	all sample-summary "$ok" "$model"
	[ "$(wc -l <lines)" -eq 12 ] || { echo "FAILED: 12 summaries expected on $model"; bad=1; }
done

# A fixed counter samples as well.
for model in intel-v2 intel-v5; do
	guest 0 $model 1000 "record -j --fixed -c 1001 chain"
	all sample-summary "$ok" "$model --fixed"
done

# Where the time goes is known: sieve is in sieve, copies are in memcpy; the sum is the PMIs.
guest 0 intel-v5 500 "record -c 1000 sieve 20000"
grep -q '100.00%  \[\.\] workload_sieve' text || { echo "FAILED: histogram"; cat text; bad=1; }
guest 0 intel-v5 500 "record -j -c 211 chain 20000"
cp text chain.json
if ! grep histogram chain.json | jq -es 'map(.function) | contains(["chain_a","chain_b","chain_c","chain_d"])' >/dev/null ||
	[ "$(grep histogram chain.json | jq -s 'map(.samples) | add')" != \
		"$(grep summary chain.json | jq .samples)" ]; then
	echo "FAILED: functions of chain"
	cat chain.json
	bad=1
fi

# With branch records: the callers.
guest 0 intel-v5 500 "record -j -g -c 211 fib 12"
all sample-chain '.chain | index("user_call") and .[-1] == "workload_fib"' "call chains"

# Many vCPUs at once, each by its own period, one event: all exact.
set --
for i in 1 2 3 4 5 6 7 8; do
	set -- "$@" --vm "name=v$i,engine=emulator,vcpus=4,image=$VPMU_GUEST,args=record -j -c $((97 * i)) sieve 3000"
done
vms 0 --slice 200 "$@"
all sample-summary "$ok" "eight VMs of four vCPUs"
[ "$(wc -l <lines)" -eq 32 ] || { echo "FAILED: 32 summaries expected"; bad=1; }

# One pCPU and one seed: the same samples every time.
for run in first second; do
	vms 0 --slice 300 --pcpus 1 --seed 5 \
		--vm "name=a,engine=emulator,image=$VPMU_GUEST,args=record -j -c 333 chain" \
		--vm "name=b,engine=emulator,vcpus=2,image=$VPMU_GUEST,args=record -j -c 111 --vector fib 12"
	grep '^\[' out >$run
done
cmp first second || { echo "FAILED: same seed, other samples"; bad=1; }

# Impossible requests have one line of error.
guest 1 none 1000 "record loop"
one 'error: no PMU to sample with'
guest 1 amd-v2 1000 "record --fixed loop"
one 'error: instructions:u: no fixed counter counts that here'
guest 1 amd-v2 1000 "record -g loop"
one 'error: no call-stack mode'
guest 1 intel-v2 1000 "record -g loop"
one 'error: no branch records'
guest 1 intel-v5 1000 "record -c 0 loop"
one "error: -c '0' is invalid; expected 1 to 2147483647"

# On KVM nothing delivers PMIs: reported, not waited for.
if [ -r /dev/kvm ] && [ -w /dev/kvm ]; then
	"$vmm" --no-socket --vm "name=g,engine=kvm,image=$VPMU_GUEST,args=record loop" >out 2>err
	got=$?
	sed -n 's/^\[g\] //p' out >text
	if [ $got -ne 1 ]; then
		echo "FAILED: status $got on KVM"
		bad=1
	fi
	one 'error: '
else
	echo "# SKIP the KVM part: no usable /dev/kvm"
fi

exit $bad
