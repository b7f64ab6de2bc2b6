#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
# A client adds a VM with a kernel that takes long to unpack: others are answered at the same time.
. "$(dirname "$0")/vmm_lib.inc"
command -v xz >/dev/null || { echo "# SKIP no xz"; exit 77; }
le32() { printf "\\$(printf %o $(($1 & 255)))\\$(printf %o $(($1 >> 8 & 255)))\\$(printf %o $(($1 >> 16 & 255)))\\$(printf %o $(($1 >> 24 & 255)))"; }
put() { dd of=slow.bz bs=1 seek=$(($1)) conv=notrunc status=none; }

# A bzImage of random bytes, which lzma unpacks at some 10 MB/s. One sector of setup, then the payload and its size.
size=$((8 << 20))
head -c $size /dev/urandom | xz --format=lzma -0 >payload
head -c 1024 /dev/zero >slow.bz
cat payload >>slow.bz
le32 $size >>slow.bz
printf '\001' | put 0x1f1                           # setup_sects
printf '\125\252\353\146HdrS\017\002' | put 0x1fe   # boot_flag, jump, header, version
printf '\001' | put 0x236                           # xloadflags
le32 0 | put 0x248                                  # payload_offset
le32 $(($(wc -c <payload) + 4)) | put 0x24c         # payload_length

VPMU_SOCKET=$PWD/s
export VPMU_SOCKET
"$vmm" --socket "$VPMU_SOCKET" --hold >out 2>err &
server=$!
trap 'kill $server 2>/dev/null' EXIT
wait_for "$server" "$vpmu" list

# adding COUNT: how often others were answered while the VMs were added
adding() {
	pids=
	for i in $(seq "$1"); do
		"$vpmu" vm add name=slow-$i engine=emulator memory=64M kernel="$PWD/slow.bz" >add.$i 2>&1 &
		pids="$pids $!"
	done
	lists=0
	for p in $pids; do
		while kill -0 "$p" 2>/dev/null; do
			"$vpmu" list >list 2>&1 || break 2
			lists=$((lists + 1))
		done
		wait "$p"
	done
}
adding 2
echo "# $lists answers while two kernels were unpacked"
check "answers while kernels were unpacked: $lists" [ $lists -ge 5 ]
for i in 1 2; do # then it is looked at
	check "what was wrong with it" grep -q "vm slow-$i: .*not an ELF file" add.$i
done
check "no VM is left" [ "$("$vpmu" list -j | jq -s 'map(select(.kind == "vm")) | length')" = 0 ]

# A client that does not wait for the answer leaves nothing behind, and the server can end before it.
"$vpmu" vm add name=left engine=emulator kernel="$PWD/slow.bz" >left 2>&1 &
left=$!
check "it is asked" "$vpmu" list
kill $left
wait $left 2>/dev/null
adding 1
check "what was wrong after a client that has gone" grep -q "vm slow-1: .*not an ELF file" add.1
"$vpmu" vm add name=last engine=emulator kernel="$PWD/slow.bz" >last 2>&1 &
check "it is asked" "$vpmu" list
"$vpmu" quit >quit 2>&1 || kill $server
wait $server
check "status of the server" [ $? -eq 0 ]
exit $bad
