# SPDX-License-Identifier: GPL-2.0-or-later
# A hostile guest (tests/preload/hostile.c) in a stock QEMU under vpmu-qemu, on vpmud's socket: it writes all MSRs, ports and
# registers of its local APIC, puts RDPMC back, and switches its PMU on and off (HOSTILE_SWITCHES times; a million takes some
# minutes of CPU), while its second vCPU switches its own PMU and is reset. Beside it a VM whose page faults vpmud counts, and
# one more QEMU, whose guest counts and takes PMIs all the while. The first keeps exact counts, all of the time, in the second
# nothing goes wrong, vpmud answers, QEMU holds no more than before the switches, and when the hostile VM is gone, vpmud holds
# what it held before. vpmud_guests.sh has the hostile VMM on the socket.
. "$(dirname "$0")/vpmud_lib.inc"
. "$(dirname "$0")/vpmud_counter.inc"
guests=$VPMU_BIN/../tests/preload
[ -e "$VPMU_BIN/vpmu-preload.so" ] || { echo "# SKIP no vpmu-preload.so: a sanitizer cannot be preloaded into a plain QEMU"; exit 77; }
command -v qemu-system-x86_64 >/dev/null || { echo "# SKIP no qemu-system-x86_64"; exit 77; }
unset VPMU_QEMU VPMU_GP VPMU_POLICY VPMU_ALLOW VPMU_DENY
export VPMU_QEMU_CONFIG=/dev/null VPMU_VPMUD="$run/vcpus.sock"

# qemu NAME GUEST APPEND MODEL VCPUS: in the background, its process in $pid. Its guest's text is in NAME.text; of its serial port
# only what comes in is a FIFO, which it cannot block on.
qemu() {
	rm -f "$dir/$1.in" "$dir/$1.text"
	mkfifo "$dir/$1.in"
	VPMU_PMU=$4 "$VPMU_BIN/vpmu-qemu" -name "guest=$1-$own,debug-threads=on" -M pc -m 64 -smp "$5" -nodefaults -display none -no-reboot \
		-accel kvm -cpu "$(cpu "$4")" -device isa-debug-exit,iobase=0xf4 -kernel "$guests/$2.elf" -append "$3" \
		-serial stdio <>"$dir/$1.in" >"$dir/$1.text" 2>"$dir/$1.err" &
	pid=$!
	jobs="$jobs $pid"
}
cpu() { # MODEL: Intel's on AMD is another vendor's CPU
	case $1:$host in
	intel-*:amd) echo "$cpu,vendor=GenuineIntel,family=6,model=85,stepping=4" ;;
	*) echo "$cpu" ;;
	esac
}
said() { grep -q "^$2" "$dir/$1.text"; }
grep -q GenuineIntel /proc/cpuinfo && host=intel models=intel-v5 || host=amd models="amd-v2 intel-v5"

# Which CPU works on this KVM without vpmu-qemu? The guest must only come up and end, whatever PMU KVM gives it.
cpu=
for c in host host,-arch-capabilities; do
	timeout 600 qemu-system-x86_64 -M pc -m 64 -nodefaults -display none -no-reboot -device isa-debug-exit,iobase=0xf4 \
		-accel kvm -cpu $c -kernel "$guests/guest.elf" -append o0 -serial stdio >"$dir/plain" 2>&1 </dev/null
	grep -q '^done' "$dir/plain" && cpu=$c && break
done
[ -n "$cpu" ] || { echo "# SKIP QEMU cannot use this KVM: $(tail -n 1 "$dir/plain")"; exit 77; }

begin_conf
printf 'guest_events = page-faults instructions\n[tenant /hostile]\nvm = hostile-%s\nvm_owner = 0\npolicy = full\n' "$own" >>"$conf"
printf '[tenant /victim]\nvm = victim-%s\nvm_owner = 0\npolicy = full\n' "$own" >>"$conf"
start
vmm_start 1
exec 3>"$dir/in1" 4<"$dir/out1"
read -r answer <&4
bind_soon one
qemu victim guest victim "${models%% *}" 1
victim=$pid
wait_for "$victim" said victim ready

# What vpmud holds: its descriptors by their kinds, threads, pages that are mapped, and pins.
server_holds() {
	ls -l "/proc/$server/fd" 2>/dev/null | sed -n 's/.* -> //p' | sed 's/[[:digit:]]\{3,\}//; s/:\[.*//' | grep -v history | sort |
		uniq -c | awk '{ printf "%s %s, ", $1, $2 }'
	echo "$(ls "/proc/$server/task" | wc -l) threads, $(grep -c bpf-map "/proc/$server/maps") pages, $(find "$dir/bpf" | wc -l) pins"
}
# How many descriptors, threads, timers and areas of memory a QEMU has.
held() { # PID
	(ls "/proc/$1/fd" "/proc/$1/task"; grep ^ID "/proc/$1/timers"; cat "/proc/$1/maps") 2>/dev/null | wc -l
}
# A client that has its answer may still be there.
as_before() {
	for _ in $(seq 100); do
		[ "$(server_holds)" = "$before" ] && return
		sleep 0.1
	done
	check "$1: what vpmud holds" "$(server_holds)" "$before"
}
is_there() { "$vpmu" list >"$dir/list" && grep -q "hostile-$own" "$dir/list"; }
gone() { "$vpmu" list >"$dir/list" && ! grep -q "hostile-$own" "$dir/list"; }
"$vpmu" attach share -e page-faults --for-each vm || check "vpmu attach" failed done
for model in $models; do
	before=$(server_holds)
	qemu hostile hostile "${HOSTILE_SWITCHES:-20000}" "$model" 2
	# On a fast host it could end before vpmud looks for new VMs.
	wait_for "$pid" said hostile phase && kill -STOP "$pid" && wait_for "$server" is_there && seen=$model
	first=$(held "$pid") most=0
	kill -CONT "$pid"
	rounds=0
	while kill -0 "$pid" 2>/dev/null; do
		exact one 0 10 200 1 20 2 100
		"$vpmu" list >"$dir/list" || check "$model: vpmu list" failed answered
		rounds=$((rounds + 1))
		now=$(held "$pid")
		[ "$now" -le $most ] || most=$now
		sleep 0.5
	done
	wait "$pid"
	check "$model: QEMU's status, and the guest's last line" "$? $(tail -n 1 "$dir/hostile.text")" "1 done"
	check "$model: its phases" "$(grep -c '^phase' "$dir/hostile.text")" 7
	check "$model: what is wrong in it" "$(grep -i -B8 '^wrong' "$dir/hostile.text"; cat "$dir/hostile.err")" ""
	check "$model: vpmud has seen it" "${seen-}" "$model"
	at_least "$model: descriptors, threads, timers and areas of memory: $first, and later $most" $((first + 64)) $most
	at_least "$model: rounds of the other VM" "$rounds" 1
	wait_for "$server" gone
	as_before "$model"
	"$vpmu" stat --session share -x, >"$dir/out" || check "$model: vpmu stat" failed done
	check "$model: the others have their counters all of the time" "$(grep -c ",victim-$own,,[0-9]*,100.00," "$dir/out")" 1
	echo "$model: $(grep -c '^ok' "$dir/hostile.text") checks in the hostile guest, its QEMU held $first and at most $most, $intervals exact intervals"
done

# ---- killed while it switches ----
qemu hostile hostile 4000000000 "${models%% *}" 2
wait_for "$pid" said hostile 'phase switches'
exact one 30
kill -KILL "$pid"
wait "$pid" 2>/dev/null
wait_for "$server" gone
exact one 7 50
page_is one "0 1"

printf g >"$dir/victim.in"
wait "$victim"
check "the other QEMU's status, and its guest's last line" "$? $(tail -n 1 "$dir/victim.text")" "1 done"
check "what is wrong in it" "$(grep -i '^wrong' "$dir/victim.text"; cat "$dir/victim.err")" ""
echo "the other QEMU's guest: $(grep -c '^ok: a PMI' "$dir/victim.text") PMIs, none missing"
"$vpmu" conservation >"$dir/out" || check "conservation" "$(cat "$dir/out")" "equal everywhere"
kill -KILL "$vmm1"
wait "$vmm1" 2>/dev/null
no_pages_left
stop
check "sockets that are left" "$(find "$run" -type s)" ""
at_least "exact intervals" "$intervals" 8
finish
