# SPDX-License-Identifier: GPL-2.0-or-later
# Guests that abuse their PMU, and guests that look for others' state: torture, leak and
# victim, all models together on two pCPUs.
. "$(dirname "$0")/guest_lib.inc"
VPMU_GUEST=$VPMU_TEST_GUEST # with tests/guest's commands

# Random operations: every vCPU lives, and what must hold holds.
models="intel-v2 intel-v3 intel-v4 intel-v5 amd-k7 amd-core amd-v2 none"
for seed in ${HOSTILE_SEEDS:-1 2 3}; do
	set --
	for model in $models; do
		set -- "$@" --vm "name=$model,engine=emulator,pmu=$model,vcpus=3,image=$VPMU_GUEST,args=torture -j $seed 4000"
	done
	vms 0 --slice 400 --seed $seed "$@"
	all guest-torture '.failures == 0 and .ops == 4000 and .faults > 100' "torture $seed"
	[ "$(wc -l <lines)" -eq 24 ] || { echo "FAILED: 24 lines expected"; bad=1; }
	# and it did something: PMIs came wherever there is a PMU
	sed -n 's/^\[none.*"pmis":0,.*/none/p; s/^\[[^n].*"pmis":\([0-9]*\).*/\1/p' out >pmis
	if [ "$(grep -c none pmis)" -ne 3 ] || [ "$(grep -v none pmis | awk '$1 < 100' | wc -l)" -ne 0 ]; then
		echo "FAILED: PMIs of torture $seed"
		cat pmis
		bad=1
	fi
done

# Somebody records and counts on every CPU; others look for it, and find nothing.
for model in intel-v5 amd-v2 intel-v2 amd-k7; do
	for seed in ${HOSTILE_SEEDS:-1 2}; do
		set --
		for i in 1 2 3; do
			set -- "$@" \
				--vm "name=victim$i,tenant=/v,engine=emulator,pmu=$model,vcpus=2,image=$VPMU_GUEST,args=victim 0x20000000 150" \
				--vm "name=leak$i,tenant=/l,engine=emulator,pmu=$model,vcpus=2,image=$VPMU_GUEST,args=leak -j --spin 2000 60"
		done
		vms 0 --slice 250 --seed $seed "$@"
		all guest-leak '.branches == 0 and .lost_branches == 0 and .counts == 0 and .status == 0 and
			.pmis == 0 and .registers == 0 and .pmis_watched and .checks > 2000' "leak on $model"
	done
	case $model in
	intel-v5 | amd-v2) all guest-leak '.lbr' "branch records were looked at on $model" ;;
	*) all guest-leak '.lbr | not' "no branch records on $model" ;;
	esac
done

# The same while others sample and record for themselves.
set --
for i in 1 2; do
	set -- "$@" \
		--vm "name=r$i,engine=emulator,vcpus=2,image=$VPMU_GUEST,args=record -c 300 -g fib 14" \
		--vm "name=t$i,engine=emulator,pmu=amd-v2,vcpus=2,image=$VPMU_GUEST,args=torture $i 3000" \
		--vm "name=leak$i,engine=emulator,vcpus=2,image=$VPMU_GUEST,args=leak -j --at 0x30000000 --spin 2000 60"
done
vms 0 --slice 250 "$@"
all guest-leak '.branches + .lost_branches + .counts + .status + .pmis + .registers == 0' \
	"leak among samplers"

# selftest, on all of them.
for model in $models; do
	guest 0 $model 300 "selftest"
	grep -q 'selftest: [0-9]* passed, 0 failed' text || { echo "FAILED: selftest on $model"; bad=1; }
	! grep '^FAIL' text || bad=1
	case $model in
	none) ;;
	*) grep -q '^PASS PMIs by vector' text && grep -q '^PASS PMIs by NMI' text ||
		{ echo "FAILED: selftest on $model checks no PMIs"; bad=1; } ;;
	esac
done

exit $bad
