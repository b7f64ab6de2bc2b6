# SPDX-License-Identifier: GPL-2.0-or-later
# Policies of VMs: the guests' events, their notices, the operator's view.
. "$(dirname "$0")/vmm_lib.inc"

# run KEYS SCRIPT: an emulator VM with these keys executes an msr script; then its line of `list`
run() {
	: >out # before the background does: what is there is the last one's
	"$vmm" --hold --console stdout --socket sock --vm "name=a,engine=emulator,image=$VPMU_GUEST,$1,args=msr $2" >out 2>err &
	pid=$!
	wait_for $pid grep -q '^vm a:' out
	"$vpmu" -S sock list -j | jq -c 'select(.vm == "a")' >list
	"$vpmu" -S sock quit || bad=1
	wait $pid
	check "$1: done" grep -qx 'vm a: done, status 0' out
	check "$1: no complaints" [ ! -s err ]
}

some='0x[1-9a-f][0-9a-f]*'
# counted MSR VALUE: the counter's final value
counted() {
	check "count of $1" grep -qx "\[a\] vcpu 0: rd $1 = $2" out
}

listed() { # JQ-CONDITION
	check "list: $1" jq -e "$1" list
}

# Counter 0: instructions, in user mode; counter 1: loads, which are no architectural event.
ev0=0x4100c0
ev1=0x4181d0
both="wr 0x186 $ev0 wr 0x187 $ev1 count 0x38f 3 loop 100 rd 0xc1 rd 0xc2"

run "policy=full" "$both"
counted 0xc1 $some
counted 0xc2 $some
listed '.policy == "full" and (has("denied") | not)'

# An event that the host cannot count: the guest reads 0 and the quality FFH, the operator sees it
run "policy=full" "wr 0x186 $ev0 wr 0x187 0x4301c4 count 0x38f 3 loop 100 rd 0xc2 rd 0x56504d06"
counted 0xc2 0x0
counted 0x56504d06 0xff
listed '.unsupported == "1" and (."unsupported-last" | endswith("r1c4")) and (has("denied") | not)'

run "pmu=amd-v2" "wr 0xc0010200 0x4300e7 count 0xc0000301 1 loop 100 rd 0xc0010201 rd 0x56504d02"
counted 0xc0010201 0x0
counted 0x56504d02 0xff
listed '.unsupported == "1" and (."unsupported-last" | endswith("re7"))'

run "policy=standard" "$both"
counted 0xc2 $some
listed '.policy == "standard" and .denied == "0" and (has("denied-last") | not)'

# Denied: programmed without a fault, reads back, counts nothing; the operator sees which
run "policy=architectural" "$both rd 0x187"
counted 0xc1 $some
counted 0xc2 0x0
counted 0x187 $ev1
listed '.policy == "architectural" and .denied == "1" and ."denied-last" == "loads:u"'

run "deny=loads" "$both"
counted 0xc1 $some
counted 0xc2 0x0
listed '.policy == "full" and .denied == "1" and ."denied-last" == "loads:u"'

run "allow=r81d0" "$both"
counted 0xc1 0x0
counted 0xc2 $some
listed '.denied == "1" and ."denied-last" == "instructions:u"'

# By unit mask: every event d0H but those of unit mask 81H
run "deny=d0/0/0,,!d0/ff/81" "$both wr 0x187 0x4182d0"
counted 0xc2 $some
listed '.denied == "1" and ."denied-last" == "stores:u"'

# Fixed counters go by their events: 0 instructions, 1 cycles
fixed="wr 0x38d 0x22 count 0x38f 0x300000000 loop 100 rd 0x309 rd 0x30a"
run "deny=instructions" "$fixed"
counted 0x309 0x0
counted 0x30a $some
listed '.denied == "1" and ."denied-last" == "fixed counter 0"'

# AMD encodings are AMD's; the denial is known by name
run "pmu=amd-v2,deny=r00c0" "wr 0xc0010200 $ev0 count 0xc0000301 1 loop 100 rd 0xc0010201"
counted 0xc0010201 0x0
listed '.denied == "1" and ."denied-last" == "instructions:u"'

# Off: as a CPU without a PMU
run "policy=off" "rd 0x186 wr 0x38f 1 cpuid 0xa pmc 0"
check "no PMU MSRs" grep -q 'rd 0x186: #GP' out
check "no counters" grep -q 'pmc 0.*: #GP' out
check "CPUID says so" grep -q 'cpuid 0xa.0 = 0x0 0x0 0x0 0x0' out
listed '.policy == "off" and .denied == "0"'

# Branch records: where the model has them, unless they are switched off or the policy is narrower
run "policy=full" "rd 0x14ce wr 0x14ce 0x7f0003 cpuid 7 cpuid 0x1c"
check "LBR_CTL can be written" grep -q 'wr 0x14ce <- 0x7f0003 ok' out
for keys in lbr=off policy=standard pmu=intel-v4; do
	run "$keys" "rd 0x14ce wr 0x14ce 0x7f0003 cpuid 0x1c"
	check "$keys: no LBR_CTL" grep -q 'rd 0x14ce: #GP' out
	check "$keys: CPUID says so" grep -q 'cpuid 0x1c.0 = 0x0 0x0 0x0 0x0' out
done

# What does not go together, or does not exist, is one line
refused() { # TEXT KEYS
	"$vmm" --no-socket --vm "name=a,engine=emulator,image=$VPMU_GUEST,$2" >out 2>err
	check "$2: status" [ $? -eq 2 ]
	check "$2: one line" [ "$(wc -l <err)" -eq 1 ]
	check "$2: says" grep -qF -- "$1" err
}
refused 'vm/policy: "some" is invalid; expected full, standard, architectural or off' policy=some
refused 'vm a/deny: given with allow; expected only one of them' allow=cycles,deny=loads
refused 'vm a/allow:' allow=no-such-event
refused 'vm a/deny: invalid with pmu = none; expected no value' pmu=none,deny=loads
refused 'vm a/lbr: invalid with pmu = amd-k7; expected off' pmu=amd-k7,lbr=on
refused 'vm/pmu: "pentium" is invalid; expected none, intel-v2' pmu=pentium

# A VM that comes by request is under the same rules
: >out # before the background does: what is there is the last one's
"$vmm" --hold --socket sock >out 2>err &
pid=$!
wait_for $pid "$vpmu" -S sock list
"$vpmu" -S sock vm add name=b engine=emulator image="$VPMU_GUEST" policy=architectural \
	args="msr $both" >/dev/null || bad=1
wait_for $pid grep -q '^vm b:' out
"$vpmu" -S sock list -j | jq -c 'select(.vm == "b")' >list
listed '.policy == "architectural" and .denied == "1"'
"$vpmu" -S sock check -j >check.out
check "check: sampling" jq -es 'any(.what == "sampling" and .ok)' check.out
check "check: branch records" jq -es 'any(.what == "branch records" and .ok)' check.out
"$vpmu" -S sock quit || bad=1
wait $pid

exit $bad
