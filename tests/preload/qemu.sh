#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
# A stock QEMU with vpmu-qemu on this machine's /dev/kvm: tests/preload/qemu.sh BUILD TMP
#
# BED_QEMU=13 or BED_QEMU=new: the QEMU of tools/qemu, for which root is needed.
# The guest (guest.c) finds its PMU, counts, takes PMIs, is migrated to a file, and goes on from there in another QEMU.
# Another one reads a counter from vpmud's page. Then what must not get a PMU: it must run as without vpmu-qemu.
# Skipped (77) without QEMU or a KVM that QEMU can use, and in builds with sanitizers, which have no library. Time limits
# catch hangs only.
set -u
build=$(cd "$1" && pwd) || exit 2
tmp=$2
# Another release's QEMU, with that release's programs: in its root.
if [ -n "${BED_QEMU-}" ]; then
	root=$build/qemu-$BED_QEMU
	here=$(cd "$(dirname "$0")" && pwd)
	[ -e "$root/complete" ] || { echo "# SKIP no $root (tools/qemu $BED_QEMU)"; exit 77; }
	mkdir -p "$root/dev" "$root/proc" "$root/tmp" "$root$build" "$root$here" "$tmp"
	tmp=$(cd "$tmp" && pwd)
	# Libraries of this build that the other release does not have.
	ldd "$build/bin/vpmu-qemu" "$build/bin/vpmu-preload.so" 2>/dev/null | sed -n 's/.* => \(\/[^ ]*\) .*/\1/p' | while read -r lib; do
		[ -e "$root/usr/lib/x86_64-linux-gnu/${lib##*/}" ] || cp -L "$lib" "$root/usr/lib/x86_64-linux-gnu/"
	done
	unshare --mount true 2>/dev/null || { echo "# SKIP no right to make a mount namespace"; exit 77; }
	exec unshare --mount sh -c 'root=$1 build=$2 here=$3
		mount --rbind /dev "$root/dev" && mount -t proc proc "$root/proc" && mount -t tmpfs tmpfs "$root/tmp" &&
			mount --bind "$build" "$root$build" && mount --bind "$here" "$root$here" &&
			exec env -u BED_QEMU PATH=/usr/bin:/usr/sbin chroot "$root" sh "$here/qemu.sh" "$build" "$4"' \
		sh "$root" "$build" "$here" "$tmp"
fi
qemu=$(command -v qemu-system-x86_64)
run=$build/bin/vpmu-qemu
bad=0
rm -rf "$tmp"
mkdir -p "$tmp" && cd "$tmp" || exit 2

[ -e "$build/bin/vpmu-preload.so" ] || { echo "# SKIP no vpmu-preload.so: a sanitizer cannot be preloaded into a plain QEMU"; exit 77; }
[ -n "$qemu" ] || { echo "# SKIP no qemu-system-x86_64"; exit 77; }
[ -r /dev/kvm ] && [ -w /dev/kvm ] || { echo "# SKIP no /dev/kvm"; exit 77; }

unset VPMU_QEMU VPMU_PMU VPMU_GP VPMU_POLICY VPMU_ALLOW VPMU_DENY
export VPMU_QEMU_CONFIG=/dev/null VPMU_VPMUD=none # not this host's
pids=
trap 'kill $pids $(jobs -p) 2>/dev/null; wait' EXIT

vm="-M pc -m 64 -nodefaults -display none -no-reboot -device isa-debug-exit,iobase=0xf4
	-kernel $build/tests/preload/guest.elf"

wrong() {
	echo "FAILED: $*"
	bad=1
}

# wait_for TEXT FILE: until FILE has it, or QEMU has ended
wait_for() {
	n=0
	until grep -q "$1" "$2" 2>/dev/null; do
		kill -0 "$pid" 2>/dev/null || return 1
		[ $((n += 1)) -le 30000 ] || return 1
		sleep 0.1
	done
}

# start NAME ARGUMENTS...: QEMU with its serial port and monitor as NAME.serial.* and NAME.monitor.*
start() {
	name=$1
	shift
	for p in serial.in serial.out monitor.in monitor.out; do
		mkfifo "$name.$p"
	done
	cat "$name.serial.out" >"$name.text" &
	cat "$name.monitor.out" >"$name.answers" &
	"$@" $vm -chardev pipe,id=s,path="$name.serial" -serial chardev:s \
		-chardev pipe,id=m,path="$name.monitor" -mon chardev=m,mode=readline 2>"$name.err" &
	pid=$!
	pids="$pids $pid"
}

# Which CPU works on this KVM without vpmu-qemu? The guest must only come up: with a PMU of KVM's it waits to be migrated, so
# that it would not end.
cpu= ends=
for c in host host,-arch-capabilities; do
	"$qemu" $vm -accel kvm -cpu $c -serial file:plain.text >plain.out 2>&1 </dev/null &
	pid=$!
	wait_for '^\(wrong\|ready\)' plain.text
	kill "$pid" 2>/dev/null
	wait "$pid"
	grep -q '^ready' plain.text && ends='-append o0'
	grep -q '^\(wrong\|ready\)' plain.text && cpu=$c && break
done
[ -n "$cpu" ] || { echo "# SKIP QEMU cannot use this KVM: $(tail -n 1 plain.out)"; exit 77; }

# refused MODEL CPU STATE LINE: QEMU ends with LINE, and nothing runs
refused() {
	VPMU_PMU=$1 timeout 600 "$run" -accel kvm -cpu "$2" $vm -serial file:refused.text \
		-incoming "exec:cat $3" >refused.out 2>&1 </dev/null
	got=$?
	[ $got -gt 1 ] && [ $got != 124 ] || wrong "$3 in $1: status $got"
	grep -q "vCPU 0: $4; the VM cannot go on here" refused.out || wrong "$3 in $1: $(cat refused.out)"
	[ ! -s refused.text ] || wrong "$3 in $1: the guest runs: $(cat refused.text)"
}

# The guest that QEMU $pid has taken over goes on to its end, in two.text. $1: what for.
goes_on() {
	n=0
	until grep -q '^before' two.text || ! kill -0 "$pid" 2>/dev/null || [ $((n += 1)) -gt 10000 ]; do
		printf g 1<>two.serial.in
		sleep 0.3
	done
	wait_for '^\(done\|wrong\)' two.text || kill "$pid" 2>/dev/null
	wait "$pid"
	got=$?
	[ $got = 1 ] || wrong "$1: status $got, expected 1"
}

# migrated MODEL CPU
migrated() {
	echo "--- $1, -cpu $2"
	d=$1
	mkdir "$d" && cd "$d" || exit 2
	case $1 in
	amd-core) export VPMU_GP=6 ;; # a host of six demands that
	*) unset VPMU_GP ;;
	esac
	VPMU_PMU=$1 start one "$run" -accel kvm -cpu "$2"
	if ! wait_for '^ready' one.text; then
		wrong "$1: not ready: $(cat one.text one.err)"
		kill "$pid" 2>/dev/null
		cd ..
		return
	fi
	{
		echo 'migrate "exec:cat >state"'
		n=0
		until grep -q 'tatus:[[:space:]]*completed' one.answers || [ $((n += 1)) -gt 15000 ]; do
			echo 'info migrate'
			sleep 0.2
		done
		echo quit
	} >one.monitor.in
	wait "$pid"
	[ -s state ] || wrong "$1: no state: $(tail -n 3 one.answers) $(cat one.err)"
	# QEMU 11.1 carries the PMU of a CPU of this machine's vendor only, and the library says so.
	if grep -q 'this VMM does not save the PMU' one.err; then
		sed 's/^/  /' one.text
		echo "  not saved by this QEMU: $(cat one.err)"
		case $1 in "$model"-*) wrong "$1: not saved" ;; esac
		refused $1 "$2" state "the VMM has not saved the PMU's state"
		cd ..
		return
	fi
	VPMU_PMU=$1 start two "$run" -accel kvm -cpu "$2" -incoming 'exec:cat state'
	# A byte that comes before the state would be overwritten by it.
	goes_on "$1"
	[ "$(tail -n 1 two.text)" = done ] || wrong "$1: it did not get to its end"
	grep -hv 'warning: .* is deprecated' one.err two.err && wrong "$1: QEMU complains"
	sed 's/^/  /' one.text two.text
	cd ..
}

# With this QEMU starts only where the library shows the PMU.
guard=perfctr-nb=on,enforce
model=amd
grep -q GenuineIntel /proc/cpuinfo && model=intel
if [ $model = amd ]; then
	migrated amd-v2 $cpu,$guard
	migrated amd-core $cpu
	intel=$cpu,-arch-capabilities,vendor=GenuineIntel,family=6,model=85,stepping=4
else
	intel=$cpu
fi
migrated intel-v2 "$intel"
migrated intel-v5 "$intel,$guard"
for destination in "$qemu -cpu $cpu" "env VPMU_PMU=none $run -cpu $cpu" "$run -cpu $cpu,pmu=off"; do
	timeout 600 $destination,$guard -accel kvm $vm -serial null -incoming "exec:cat */state" >guard.out 2>&1 </dev/null
	[ $? = 1 ] && grep -q "Host doesn't support requested features" guard.out || wrong "$guard: QEMU starts: $(cat guard.out)"
done

# another model's state, also where the model does not fit the CPU
if [ $model = amd ] && [ -s amd-core/state ]; then
	refused amd-v2 $cpu amd-core/state "the PMU's state is of model amd-core with 6 counters; expected amd-v2 with [0-9]*"
	for m in amd-core amd-v2; do
		refused intel-v2 $cpu $m/state 'the state has a PMU of vpmu-preload, this VM has none'
	done
fi

# vpmud's pages, by a server that permits all, with libvirt's sandbox: the library connects, gets the page, and does so
# again when the server is killed and another one comes.
serve() {
	"$build/tests/preload-pages" "$tmp/vcpus.sock" >"pages.$1" 2>&1 &
	server=$!
	pids="$pids $server"
	until [ -S "$tmp/vcpus.sock" ] || ! kill -0 $server 2>/dev/null; do sleep 0.1; done
}
pages() {
	echo "--- vpmud's pages, -sandbox on"
	mkdir pages && cd pages || exit 2
	serve one
	VPMU_VPMUD=$tmp/vcpus.sock start one "$run" -accel kvm -cpu $cpu -append pages \
		-sandbox on,obsolete=deny,elevateprivileges=deny,spawn=deny,resourcecontrol=deny
	wait_for '^\(ready\|wrong\)' one.text
	grep -q '^Seccomp:.*2' /proc/$pid/status || wrong "pages: no sandbox"
	kill -9 $server
	serve two
	wait_for '^request 1 ' pages.two || kill "$pid" 2>/dev/null
	printf g 1<>one.serial.in
	wait_for '^\(done\|wrong\)' one.text || kill "$pid" 2>/dev/null
	wait "$pid"
	got=$?
	[ $got = 1 ] || wrong "pages: status $got, expected 1"
	[ "$(tail -n 1 one.text)" = done ] || wrong "pages: $(cat one.text one.err pages.one pages.two)"
	sed 's/^/  /' one.text pages.one pages.two
	cd ..
}
pages

# A QEMU that replaces itself, by a command without vpmu-qemu.
replaced() {
	echo "--- cpr-exec"
	mkdir cpr && cd cpr || exit 2
	ram='-machine memory-backend=ram,aux-ram-share=on -object memory-backend-memfd,id=ram,size=64M,share=on'
	mkfifo two.serial.in two.serial.out
	cat two.serial.out >two.text &
	VPMU_PMU=auto start one "$run" -accel kvm -cpu $cpu $ram
	wait_for '^\(ready\|wrong\)' one.text
	set -- "$qemu" $vm -accel kvm -cpu $cpu $ram -chardev pipe,id=s,path=two.serial -serial chardev:s -incoming file:state
	printf '%s\n' 'migrate_set_parameter mode cpr-exec' "migrate_set_parameter cpr-exec-command $*" 'migrate file:state' \
		>one.monitor.in
	goes_on cpr-exec
	[ "$(tail -n 1 two.text)" = done ] || wrong "cpr-exec: $(cat two.text one.err)"
	sed 's/^/  /' two.text
	cd ..
}
grep -aq cpr-exec-command "$qemu" && replaced

# QEMU makes its VM in a child.
VPMU_PMU=auto "$run" -accel kvm -cpu $cpu $vm -serial "file:$tmp/daemon.text" -daemonize -pidfile "$tmp/daemon.pid" ||
	wrong "-daemonize: status $?"
pid=$(cat daemon.pid)
pids="$pids $pid"
wait_for '^\(ready\|wrong\)' daemon.text
grep -q '^ready' daemon.text || wrong "-daemonize: $(cat daemon.text)"
kill "$pid"

# left NAME MODEL LINE ARGUMENTS...: the VM runs as without vpmu-qemu, with LINE on standard error
left() {
	name=$1 mod=$2 line=$3
	shift 3
	set -- "$@" $ends
	timeout 600 "$qemu" $vm "$@" -serial file:left.text >left.out 2>&1 </dev/null
	want=$?
	VPMU_PMU=$mod timeout 600 "$run" $vm "$@" -serial "file:$name.text" >"$name.out" 2>&1 </dev/null
	got=$?
	[ $got = $want ] || wrong "$name: status $got, without vpmu-qemu $want"
	cmp -s left.text "$name.text" || wrong "$name: the guest differs: $(cat "$name.text")"
	if [ -z "$line" ]; then
		cmp -s left.out "$name.out" || wrong "$name: $(cat "$name.out")"
	elif [ "$(grep -c vpmu "$name.out")" != 1 ] || ! grep -q "$line" "$name.out"; then
		wrong "$name: $(cat "$name.out")"
	fi
}
left off none '' -accel kvm -cpu $cpu
left nopmu auto 'expected -cpu host, max' -accel kvm -cpu $cpu,pmu=off
if [ $model = amd ]; then
	left vendor intel-v2 "CPU is not Intel's, but the PMU is to be$" -accel kvm -cpu $cpu
	left foreign auto "CPU is not AMD's, but the PMU is to be$" -accel kvm -cpu "$intel"
fi

# QEMU is only asked: as without
"$qemu" -machine none -cpu help >plain.out 2>&1
"$run" -machine none -cpu help >asked.out 2>&1
cmp -s plain.out asked.out || wrong "-cpu help differs"

[ $bad = 0 ] && echo "qemu.sh: all right with $("$qemu" --version | head -n 1)"
exit $bad
