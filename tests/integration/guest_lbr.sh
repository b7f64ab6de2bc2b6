# SPDX-License-Identifier: GPL-2.0-or-later
# Branch records as guests see them, against the truth the guests know themselves: call chains in
# call-stack mode, last branches otherwise; 100 vCPUs on 2 pCPUs, random slices and migration.
. "$(dirname "$0")/guest_lib.inc"

ok='.judged and .equal == .captures and .captures > 100 and .short == 0 and .wrong == 0 and .lost == 0'

for slice in ${LBR_SLICES:-50 700 20000}; do
	vms 0 --slice $slice \
		--vm "name=n,engine=emulator,vcpus=40,memory=64M,image=$VPMU_GUEST,args=lbr -j -c 397" \
		--vm "name=v,engine=emulator,vcpus=40,memory=64M,image=$VPMU_GUEST,args=lbr -j -c 201 --vector chain 3000" \
		--vm "name=b,engine=emulator,vcpus=10,memory=32M,image=$VPMU_GUEST,args=lbr -j --branches -c 300" \
		--vm "name=a,engine=emulator,pmu=amd-v2,vcpus=10,memory=32M,image=$VPMU_GUEST,args=lbr -j --branches -c 300"
	all guest-lbr "$ok" "slices of $slice"
	[ "$(wc -l <lines)" -eq 100 ] || { echo "FAILED: 100 lines expected"; bad=1; }
done

# Every depth: the tree is as deep as there are records, or one word would be missing.
for depth in 8 16 24 32; do
	guest 0 intel-v5 300 "lbr -j --depth $depth -c 101"
	all guest-lbr "$ok and .depth == $depth" "depth $depth"
	all guest-lbr '.chain | .[0] == "user_call" and .[1] == "chain_walk"' "the chain's outer end"
done

# A chain deeper than the records cannot be whole, and is not called so: fib's truth is not known.
guest 0 intel-v5 300 "lbr -j --depth 8 -c 101 fib 15"
all guest-lbr '.judged == false and .captures > 10' "fib is not judged"

# Models without.
guest 1 intel-v4 300 "lbr"
one 'error: no branch records'
guest 1 amd-core 300 "lbr --branches"
one 'error: no branch records: CPUID 80000022H EAX[1] (LbrExtV2) is 0'
guest 1 amd-v2 300 "lbr"
one 'error: no call-stack mode'
guest 1 none 300 "lbr"
one 'error: no branch records'

exit $bad
