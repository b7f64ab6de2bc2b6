# SPDX-License-Identifier: GPL-2.0-or-later
# The report about a VM that died: its vCPUs' last branches. The guests are a few instructions put
# over the image's first ones, so that every branch is known.
. "$(dirname "$0")/vmm_lib.inc"

field() { # OFFSET: a 64-bit number of the image's headers
	od -An -tu8 -j"$1" -N8 "$VPMU_GUEST" | tr -d ' '
}

phoff=$(field 32)
at=$(($(field 24) - $(field $((phoff + 16))) + $(field $((phoff + 8)))))
check "the image starts where this test thinks" [ "$(field 24)" -eq $((0x200000)) ]

# guest FILE BYTES: an image that begins with these instructions (printf's octal)
guest() {
	cp "$VPMU_GUEST" "$1"
	printf "$2" | dd of="$1" bs=1 seek=$at conv=notrunc 2>/dev/null
}

# run ARGUMENTS... : status 1, since the VM fails
run() {
	"$vmm" --no-socket "$@" >out 2>err
	check "status of $*" [ $? -eq 1 ]
	check "no complaints" [ ! -s err ]
}

# 200000 jmp 200002; 200002 xor eax,eax; 200004 jz 200006; 200006 ud2, with no IDT: triple fault
guest jumps.elf '\353\000\061\300\164\000\017\013'
# 200000 mov esp,301000H; 200005 call 20000c; 20000a: not reached; 20000c jmp 20000e; 20000e ud2
guest calls.elf '\274\000\020\060\000\350\002\000\000\000\017\013\353\000\017\013'
# 200000 mov ecx,100; 200005 dec ecx; 200007 jnz 200005; 200009 ud2
guest loop.elf '\271\144\000\000\000\377\311\165\374\017\013'
# Arch LBR on: mov ecx,14ceH; mov eax,7f0003H; xor edx,edx; wrmsr; 20000e jmp 200010; 200010 ud2
guest own.elf '\271\316\024\000\000\270\003\000\177\000\061\322\017\060\353\000\017\013'
# 200000 jmp 200002; 200002 hlt
guest halt.elf '\353\000\364'
# 200000 jmp 200002; 200002 vzeroupper: not among the instructions of the emulator
guest avx.elf '\353\000\305\370\167'

vm="engine=emulator,name=a"

# Nobody recorded
run --vm "$vm,image=jumps.elf"
cat >want <<END
vm a: failed: vCPU 0: triple fault at RIP 0x200006
vm a: no branches were recorded; lbr = branches in [host] keeps the last branches of each vCPU
END
check "one line that says how to have them" cmp want out
run --json --vm "$vm,image=jumps.elf"
check "the same in JSON" jq -es '.[-1] | .kind == "post-mortem" and .vm == "a" and
	(.note | contains("lbr = branches")) and (has("entries") | not)' out

# A capture of all branches, newest first
run --lbr branches --vm "$vm,image=jumps.elf"
cat >want <<END
vm a: failed: vCPU 0: triple fault at RIP 0x200006
a/0: 0x200004 -> 0x200006 (jcc)
a/0: 0x200000 -> 0x200002 (rel-jmp)
END
check "branches" cmp want out
run --json --lbr branches --vm "$vm,image=jumps.elf"
check "JSON" jq -es '.[-1] | del(.entries[].cycles) == {"kind":"post-mortem","vm":"a","vcpu":0,
	"source":"capture","entries":[{"from":"0x200004","to":"0x200006","type":"jcc"},
	{"from":"0x200000","to":"0x200002","type":"rel-jmp"}]}' out
check "cycles" jq -es '.[-1].entries | all(.cycles > 0 and .cycles < 100)' out

# The last 32 of more
run --lbr branches --vm "$vm,image=loop.elf"
check "32 branches" [ "$(grep -cx 'a/0: 0x200007 -> 0x200005 (jcc)' out)" -eq 32 ]
check "and no more" [ "$(wc -l <out)" -eq 33 ]

# The call chain: calls that have not returned
run --lbr call-stack --vm "$vm,image=calls.elf"
check "call chain" grep -qx 'a/0: 0x200005 -> 0x20000c (rel-call)' out
check "and nothing else" [ "$(wc -l <out)" -eq 2 ]
run --lbr call-stack --vm "$vm,image=jumps.elf"
check "no calls" grep -qx 'a/0: no branch was recorded' out

# The guest's own records, captured or not
for lbr in off branches; do
	run --json --lbr $lbr --vm "$vm,image=own.elf"
	check "the guest's own, lbr = $lbr" jq -es '.[-1] | .source == "guest" and
		(.entries | length) == 1 and .entries[0].from == "0x20000e" and
		.entries[0].to == "0x200010"' out
done
# ... unless it may not: its WRMSR is #GP, which kills it before the jump
run --json --lbr branches --vm "$vm,lbr=off,image=own.elf"
check "no branch records for the guest" jq -es '.[-2].reason == "vCPU 0: triple fault at RIP 0x20000c" and
	.[-1].source == "capture" and .[-1].entries == []' out

# Each vCPU's, also of those that only had to stop; other ways to die
run --json --lbr branches --vm "$vm,vcpus=3,image=halt.elf"
check "all halted" jq -es '[.[] | select(.kind == "post-mortem")] | map(.vcpu) == [0, 1, 2] and
	all(.entries | length == 1 and .[0].from == "0x200000")' out
run --lbr branches --vm "$vm,image=avx.elf"
check "an engine error" grep -q '^vm a: failed: vCPU 0: .*0x200002' out
check "its branch" grep -qx 'a/0: 0x200000 -> 0x200002 (rel-jmp)' out

# A VM that is done has none
"$vmm" --no-socket --lbr branches --vm "$vm,image=$VPMU_GUEST,args=run loop 10" >out 2>err
check "done: status" [ $? -eq 0 ]
check "done: no post-mortem" sh -c '! grep -q "^a/" out'

# On KVM nothing records, whatever is captured elsewhere, and nothing is printed about it
if "$vmm" --no-socket --vm "name=a,engine=kvm,image=$VPMU_GUEST,args=run loop 1" >out 2>err; then
	run --lbr branches --vm "name=b,engine=emulator,image=$VPMU_GUEST,args=run loop 1" \
		--vm "name=a,engine=kvm,image=jumps.elf"
	check "KVM: why" grep -qx 'vm a: failed: vCPU 0: triple fault at RIP 0x200006' out
	check "KVM: no post-mortem" sh -c '! grep -q "^a/\|branch" out'
else
	echo "# SKIP the KVM part: $(tail -n 1 err)"
fi

# Many at once: every line whole
args=
for i in $(seq 40); do args="$args --vm name=m$i,engine=emulator,vcpus=2,image=loop.elf,memory=4M"; done
run --lbr branches $args
check "every line whole" sh -c '! grep -Evx "vm m[0-9]+: failed: vCPU [01]: triple fault at RIP 0x200009|m[0-9]+/[01]: (0x200007 -> 0x200005 \(jcc\)|no branch was recorded)" out'
check "from each VM" [ "$(grep -c '^vm ' out)" -eq 40 ]

# A dead VM stays listed, with why
: >out # before the background does: what is there is the last one's
"$vmm" --hold --console stdout --socket sock --lbr branches --vm "$vm,image=jumps.elf" >out 2>err &
pid=$!
wait_for $pid grep -q '^a/0' out
wait_for $pid "$vpmu" -S sock list
check "listed" sh -c "'$vpmu' -S sock list -j | jq -es 'any(.vm == \"a\" and .state == \"failed\" and
	(.reason | contains(\"triple fault\")) and (.image | endswith(\"jumps.elf\")))'"
"$vpmu" -S sock quit || bad=1
wait $pid
check "status: a VM failed" [ $? -eq 1 ]

exit $bad
