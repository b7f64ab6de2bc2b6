# SPDX-License-Identifier: GPL-2.0-or-later
# vpmu-vmm as a program: output, exit status, ini file, pause and resume, signals.
. "$(dirname "$0")/vmm_lib.inc"

status() { # EXPECTED ARGUMENTS...
	want=$1
	shift
	"$vmm" "$@" >out 2>err
	check "status of $*" [ $? -eq "$want" ]
}

# A finished VM, as text
status 0 --no-socket --vm "name=a,engine=emulator,image=$VPMU_GUEST,args=run loop 100"
check "console line" grep -qx '\[a\] vcpu 0: loop 100 = 5050' out
check "end line" grep -qx 'vm a: done, status 0' out
check "no errors" [ ! -s err ]

# Several vCPUs are distinguished
status 0 --no-socket --vm "name=a,engine=emulator,vcpus=2,image=$VPMU_GUEST,args=run loop 100"
check "console line of vCPU 1" grep -qx '\[a/1\] vcpu 1: loop 100 = 5050' out

# A guest that ends with a status, and one that cannot be
status 1 --no-socket --vm "name=a,engine=emulator,image=$VPMU_GUEST,args=nonsense"
check "status is told" grep -q '^vm a: done, status [1-9]' out

# JSON: every line an object; guests' JSON survives being quoted
status 0 --json --no-socket --vm "name=a,engine=emulator,image=$VPMU_GUEST,args=stat -j sieve 100"
check "all lines are JSON" jq -es 'all(.kind)' out
check "ready first" jq -es '.[0] == {"kind":"ready","vms":1,"paused":false}' out
check "end last" jq -es '.[-1] == {"kind":"vm-end","vm":"a","state":"done","status":0}' out
check "guest's counts" jq -es '[.[] | select(.kind=="console").text | select(startswith("{")) |
	fromjson | select(.event=="instructions")][0]."counter-value" | tonumber > 100' out

# An ini file; options win over it
cat >host.ini <<END
[host]
pcpus = 1
seed = 7
[vm one]
tenant = /acme
engine = emulator
image = $VPMU_GUEST
args = run fib 10
[vm two]
tenant = /beta
engine = emulator
image = $VPMU_GUEST
args = run loop 3
END
status 0 --no-socket --config host.ini --pcpus 2
check "both ran" grep -qx '\[two\] vcpu 0: loop 3 = 6' out

# One pCPU, one seed: guests print the same, in the same order, every time. (Ends of VMs are another
# thread's lines and come when they come.)
for run in first second; do
	status 0 --no-socket --config host.ini --random-slices --slice 50 \
		--vm "name=c,vcpus=3,engine=emulator,image=$VPMU_GUEST,args=stat sieve 500"
	grep '^\[' out >$run
done
check "same seed, same output" cmp first second

# Paused until resume; held until quit
: >out # before the background does: what is there is the last one's
"$vmm" --socket sock --hold --console stdout --paused --vm "name=a,engine=emulator,image=$VPMU_GUEST,args=run loop 3" >out 2>err &
pid=$!
wait_for $pid "$vpmu" -S sock list
check "socket is there" [ -S sock ]
sleep 0.2
check "nothing ran" [ ! -s out ]
check "list says paused" sh -c "'$vpmu' -S sock list | grep -q state=paused"
"$vpmu" -S sock resume || bad=1
wait_for $pid grep -q '^vm a: done' out
check "ran after resume" grep -qx 'vm a: done, status 0' out
check "held" kill -0 $pid
check "a second one refuses the socket" sh -c "! '$vmm' --socket sock --hold"
"$vpmu" -S sock quit || bad=1
wait $pid
check "status after quit" [ $? -eq 0 ]
check "socket is gone" [ ! -e sock ]

# --wait-attach
: >out # before the background does: what is there is the last one's
"$vmm" --socket sock --wait-attach 1 --vm "name=a,engine=emulator,image=$VPMU_GUEST,args=run loop 3" >out 2>err &
pid=$!
wait_for $pid "$vpmu" -S sock list
sleep 0.2
check "nothing ran before the attach" [ ! -s out ]
"$vpmu" -S sock attach s -e instructions || bad=1
wait $pid
check "status when done" [ $? -eq 0 ]
check "ran after the attach" grep -qx 'vm a: done, status 0' out

# A signal ends it cleanly while VMs run
: >out # before the background does: what is there is the last one's
"$vmm" --socket sock --vm "name=a,vcpus=2,engine=emulator,image=$VPMU_GUEST,args=spin" >out 2>err &
pid=$!
wait_for $pid "$vpmu" -S sock list
kill -TERM $pid
wait $pid
check "status after SIGTERM" [ $? -eq 0 ]
check "socket is gone" [ ! -e sock ]
check "no complaints" [ ! -s err ]

# Its output has no reader
"$vmm" --no-socket --vm "name=a,engine=emulator,image=$VPMU_GUEST,args=record --raw -c 100 loop 10000" 2>err | head -c 1 >/dev/null
check "a closed output is no crash" sh -c '! grep -qi "signal\|core" err'

# Without KVM: "auto" comes to the emulator and prints the reason, "kvm" is refused
if unshare -m sh -c 'mount --bind /dev/null /dev/kvm' 2>/dev/null; then
	unshare -m sh -c "mount --bind /dev/null /dev/kvm
		exec '$vmm' --no-socket --vm 'name=a,image=$VPMU_GUEST,args=run loop 3'" >out 2>err
	check "auto without KVM" [ $? -eq 0 ]
	check "says so" grep -q '^vpmu-vmm: vm a: runs on the emulator (.*/dev/kvm' err
	unshare -m sh -c "mount --bind /dev/null /dev/kvm
		exec '$vmm' --no-socket --vm 'name=a,engine=kvm,image=$VPMU_GUEST'" >out 2>err
	check "kvm without KVM" [ $? -eq 1 ]
	check "one line that says why" sh -c '[ $(wc -l <err) -eq 1 ] && grep -q "vm a: .*/dev/kvm" err'
	unshare -m sh -c "mount --bind /dev/null /dev/kvm
		exec '$vmm' --no-socket --vm name=a,image=nowhere.elf" >out 2>err
	check "a VM that cannot be made: where it would have run is not said" \
		sh -c '[ $(wc -l <err) -eq 1 ] && grep -q "nowhere.elf: No such file" err'
else
	echo "# SKIP hiding /dev/kvm needs root and /dev/kvm"
fi

exit $bad
