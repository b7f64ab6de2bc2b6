# SPDX-License-Identifier: GPL-2.0-or-later
# Refusals of vpmu-vmm: one line on standard error with the value and the expected form, nothing
# on standard output, exit status 2 for options and configuration, 1 for what fails later.
set -u
vmm=$VPMU_BIN/vpmu-vmm
cd "$VPMU_TMP" || exit 1
bad=0

# refused STATUS TEXT ARGUMENTS...
refused() {
	want=$1 text=$2
	shift 2
	"$vmm" "$@" >out 2>err
	got=$?
	if [ $got -ne "$want" ] || [ -s out ] || [ "$(wc -l <err)" -ne 1 ] || ! grep -qF -- "$text" err; then
		echo "vpmu-vmm $*: expected status $want and one line with '$text', saw status $got:"
		cat out err
		bad=1
	fi
}

# image OFFSET BYTES: the guest image with some bytes overwritten (printf's octal)
image() {
	cp "$VPMU_GUEST" bad.elf
	printf "$2" | dd of=bad.elf bs=1 seek="$1" conv=notrunc 2>/dev/null
}

vm="name=a,engine=emulator,image=$VPMU_GUEST"

# options
refused 2 'no VM given; expected --vm' --no-socket
refused 2 '"x": not an option' x
refused 2 '--pcpus: host/pcpus: "0" is invalid; expected 1 to 64' --pcpus 0 --vm "$vm"
refused 2 '--pcpus: given twice' --pcpus 1 --pcpus 2 --vm "$vm"
refused 2 '--wait-attach: "0" is invalid; expected 1 to 256' --wait-attach 0 --vm "$vm"
refused 2 '--exit-when-done: given with --hold' --exit-when-done --hold
refused 2 '--no-socket' --no-socket --paused --vm "$vm"
refused 2 'vm/colour: no such key' --vm "$vm,colour=red"
refused 2 'a VM of that name' --vm "$vm" --vm "$vm"
refused 2 'with pmu = amd-v2; expected no value' --vm "$vm,pmu=amd-v2,fixed=1"
refused 2 'key=value,key=value' --vm 'just text'
refused 2 '--admin-group: host/admin_group: no group "no-such-group"' --admin-group no-such-group --vm "$vm"
refused 2 '--reader-group: host/reader_group: no group "1x"' --reader-group '0=/a 1x=/b' --vm "$vm"

# configuration
refused 2 'none.ini: No such file or directory' -c none.ini
printf '[host]\npcpus = many\n' >a.ini
refused 2 'a.ini:2: host/pcpus: "many" is invalid; expected 1 to 64' -c a.ini
printf '[host]\npcpus = 1\nreader_group = 0=/a 0=b\n' >a.ini
refused 2 'a.ini:3: host/reader_group: tenant path "b" is invalid' -c a.ini
printf '[vm a]\nmemory = 3M\n' >a.ini
refused 2 'a.ini:2: vm a/memory: "3M" is invalid; expected 4M to 64G in steps of 2M' -c a.ini
printf '[vm a]\nargs = %0300d\n' 0 >a.ini
refused 2 'a.ini:2: line of' -c a.ini
printf '[vm a]\n' >a.ini
refused 2 'a.ini:1: vm a/image: not given' -c a.ini
head -c 100000 /dev/urandom >a.ini
refused 2 'a.ini:' -c a.ini
refused 2 '--config: given twice' -c a.ini -c a.ini

# images
refused 1 'nowhere.elf: No such file or directory' --no-socket --vm name=a,engine=emulator,image=nowhere.elf
refused 1 '/tmp: not a regular file' --no-socket --vm name=a,engine=emulator,image=/tmp
image 0 '\0'
refused 1 'bad.elf: first bytes are' --no-socket --vm name=a,engine=emulator,image=bad.elf
image 18 '\003'
refused 1 'bad.elf: e_machine is 0x3; expected 0x3e (x86-64)' --no-socket --vm name=a,engine=emulator,image=bad.elf
image 24 '\0\0\0\0'
refused 1 'bad.elf: e_entry is 0x0' --no-socket --vm name=a,engine=emulator,image=bad.elf
image 32 '\377\377\377\377\377\377\377\377'
refused 1 'bad.elf: e_phoff' --no-socket --vm name=a,engine=emulator,image=bad.elf
head -c 70 "$VPMU_GUEST" >bad.elf
refused 1 'bad.elf: e_phoff' --no-socket --vm name=a,engine=emulator,image=bad.elf

mkfifo fifo
refused 1 'fifo: not a regular file' --no-socket --vm name=a,engine=emulator,image=fifo
refused 1 '/dev/null: not a regular file' --no-socket --vm name=a,engine=emulator,image=/dev/null

# kernels, whatever the engine can do
refused 1 'nowhere: No such file or directory' --no-socket --vm name=a,kernel=nowhere
refused 1 'nodisk: No such file or directory' --no-socket --vm name=a,kernel="$VPMU_GUEST",initrd=nodisk
printf 'HdrS' | dd of=kernel bs=1 seek=514 2>/dev/null
refused 1 'kernel: bzImage: 518 bytes long' --no-socket --vm name=a,kernel=kernel
head -c 100000 /dev/zero | dd of=kernel bs=1 seek=518 2>/dev/null
refused 1 'kernel: bzImage: boot_flag is 0x0; expected 0xaa55' --no-socket --vm name=a,kernel=kernel
refused 1 'fifo: not a regular file' --no-socket --vm name=a,kernel=fifo
refused 2 'vm a/vcpus: 17 given with kernel; expected 1 to 16' --no-socket --vm name=a,kernel=kernel,vcpus=17
refused 2 'vm a/image: given with kernel' --no-socket --vm name=a,kernel=kernel,image=guest
refused 2 'vm a/cmdline: given without kernel' --no-socket --vm name=a,image=guest,cmdline=quiet

# a standard output that takes nothing
for option in --help --usage --version; do
	"$vmm" $option >/dev/full 2>err
	[ $? -eq 1 ] && [ "$(wc -l <err)" -eq 1 ] && grep -q 'standard output' err && continue
	echo "vpmu-vmm $option >/dev/full:"
	cat err
	bad=1
done
"$vmm" --help >out 2>err && [ ! -s err ] && grep -q '^Usage: vpmu-vmm' out || { echo "--help"; bad=1; }

# sockets
mkdir real
ln -s real way
refused 1 'way is a symbolic link' --socket way/x.sock --vm "$vm"
refused 1 'real/none: No such file or directory; expected a path in an existing directory' \
	--socket real/none/x.sock --vm "$vm"
[ ! -e real/none ] || { echo "--socket made a directory"; bad=1; }
refused 1 '/nonexistent/dir/x.sock' --socket /nonexistent/dir/x.sock --vm "$vm"
refused 1 'cgroup' --no-socket --cgroup-root /nonexistent --vm "$vm"

exit $bad
