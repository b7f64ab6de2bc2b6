#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
# vpmud on real cgroups: its configuration and how it is refused, tenants that come and go with their
# cgroups, counts against known values, reload, sessions, rights, socket activation, ends.
. "$(dirname "$0")/vpmud_lib.inc"

# ---- without rights: options and configuration ----
status() { # WANT TEXT ARG...: exit status and the line on standard error
	want=$1 text=$2
	shift 2
	"$vpmud" "$@" >"$dir/out" 2>"$dir/err"
	check "$*: exit status" $? "$want"
	check "$*: lines" "$(wc -l <"$dir/err")" "$([ -n "$text" ] && echo 1 || echo 0)"
	check_match "$*" "$(cat "$dir/err")" "^$text"
}
status 2 'vpmud: "x": not an option' x
status 2 "vpmud: $dir/none: No such file" -C -c "$dir/none"
printf '[tenant /a]\ncgroup = a\n' >"$conf"
status 2 "vpmud: $conf:2: tenant /a/cgroup: \"a\" is invalid; expected a pattern" --check-config --config="$conf"
status 2 "vpmud: $conf:2: " -c "$conf"
printf '[vpmud]\nadmin_group = no-such-group\n' >"$conf"
status 2 "vpmud: $conf:2: vpmud/admin_group: no group \"no-such-group\"; expected a group" -C -c "$conf"
printf '[vpmud]\nadmin_group = 0\nreader_group = 0=/a no-such-group=/b\n' >"$conf"
status 2 "vpmud: $conf:3: vpmud/reader_group: no group \"no-such-group\"; expected a group" -C -c "$conf"
printf '[vpmud]\nreader_group = 0=acme\n' >"$conf"
status 2 "vpmud: $conf:2: vpmud/reader_group: tenant path \"acme\"" -C -c "$conf"
# -C refuses each of these, as the start does.
mkdir "$dir/plain"
for how in -C ''; do
	for place in "$dir/plain" "$dir/plain/new" "$dir/plain/new/" /nowhere/new /new; do
		printf '[vpmud]\n\npin_dir = %s\n' "$place" >"$conf"
		status 2 "vpmud: $conf:3: vpmud/pin_dir: \"$place\" is invalid; expected the path of a directory in a BPF" \
			$how -c "$conf"
	done
	printf '[vpmud]\ncgroup_root = %s\n' "$dir/plain" >"$conf"
	status 2 "vpmud: $conf:2: vpmud/cgroup_root: \"$dir/plain\" is invalid; expected the path where cgroup2" $how -c "$conf"
done
check "nothing was made" "$(ls -A "$dir/plain")" ""
printf '[vpmud]\npin_dir = none\n' >"$conf"
status 0 '' -C -c "$conf"
printf '[vpmud]\n' >"$conf"
status 0 '' -C -c "$conf"

# ---- requirements ----
need_cgroups
need_run
mount_bpf || echo "# SKIP restarts: no BPF file system can be mounted"

tenants() { "$vpmu" list -j | jq -r 'select(.kind == "tenant") | .path' | sort | tr '\n' ' '; }
are() { [ "$(tenants)" = "$1 " ]; }

begin_conf
tenant /acme 'acme*' /globex globex '/pods/*' 'pods/pod*'
mkdir "$ground/acme1" "$ground/globex" "$ground/pods" "$ground/pods/pod-a"
start
check "tenants at the start" "$(tenants)" "/acme /globex /pods /pods/pod-a "
check "who serves" "$("$vpmu" list -j | jq -r 'select(.kind == "root") | .path')" /
check "backend" "$("$vpmu" events -j | jq -r '.backends[0].backend' | sort -u)" bpf
check_match "no counter is in use" "$("$vpmu" check)" '^BPF backend +yes no counter is in use: nothing is attached'

# ---- counts of tenants ----
"$vpmu" attach all -e page-faults,context-switches --for-each tenant || exit 1
check_match "somebody counts" "$("$vpmu" check)" '^BPF backend +yes attached to context switches'
check_match "moves while somebody counts" "$("$vpmu" check)" \
	'^tasks that move while they run +(yes +charged to the old cgroup up to the move \((fentry|kprobe)\)|(no +)?charged to the old cgroup up to the next switch.*: .)'
programs acme1 50
a=$(value all page-faults /acme)
at_least "page faults of the tenant" "$a" 1000
check "none of the other's" "$(value all page-faults /globex)" "<not counted>"
programs globex 30
at_least "page faults of the other" "$(value all page-faults /globex)" 600
check "the first one's stay" "$(value all page-faults /acme)" "$a"

# A cgroup that is made counts from then on, for the same tenant; its counts stay.
mkdir "$ground/acme2" "$ground/pods/pod-b"
wait_for "$server" are "/acme /globex /pods /pods/pod-a /pods/pod-b"
programs acme2 20
programs pods/pod-b 10
b=$(value all page-faults /acme)
at_least "two cgroups, one tenant" "$b" "$((a + 400))"
p=$(value all page-faults /pods/pod-b)
at_least "a new tenant" "$p" 200
rmdir "$ground/acme2" "$ground/pods/pod-b"
wait_for "$server" are "/acme /globex /pods /pods/pod-a"
check "its counts are the parent's" "$(value all page-faults /pods)" "$p"
check "and the tenant's" "$(value all page-faults /acme)" "$b"

# A task that moves is charged to where it is.
sh -c 'echo $$ >"$0/cgroup.procs" && exec sleep 1000' "$ground/pods/pod-a" &
mover=$!
jobs=$mover
there() { grep -qx "$mover" "$ground/pods/pod-a/cgroup.procs"; }
wait_for "$mover" there
s=$(value all context-switches /globex)
echo "$mover" >"$ground/globex/cgroup.procs"
kill -STOP "$mover"
kill -CONT "$mover"
kill "$mover"
wait "$mover" 2>/dev/null
at_least "switches of a task that has moved" "$(value all context-switches /globex)" "$((s + 1))"

# Everything adds up, per CPU and event.
"$vpmu" conservation >"$dir/out" || check "conservation" "$(cat "$dir/out")" "equal everywhere"
check_match "conservation has rows" "$(cat "$dir/out")" 'page-faults .* yes'

# ---- reload ----
printf '[tenant /acme]\ncgroup = oops\n' >"$conf.new"
cp "$conf" "$conf.old"
cp "$conf.new" "$conf"
check_match "a bad file" "$("$vpmu" reload 2>&1)" "^vpmu: .*$conf:2: tenant /acme/cgroup: \"oops\" is invalid"
kill -HUP "$server"
told() { grep -q "vpmud: $conf:2: tenant /acme/cgroup" "$dir/server.log"; }
wait_for "$server" told
check_match "check says so" "$("$vpmu" check)" "^configuration +no +the old one is in force: $conf:2"
check "the old one is in force" "$(tenants)" "/acme /globex /pods /pods/pod-a "
sed 's|^\[tenant /globex\]|[tenant /initech]|; s|^libvirt.*|isolated = yes\n&|' "$conf.old" >"$conf"
g=$(value all page-faults /)
check_match "what needs a start" "$("$vpmu" reload 2>&1)" "^vpmu: isolated has changed in the file, which takes"
check "new rules" "$(tenants)" "/acme /initech /pods /pods/pod-a "
programs globex 10
at_least "the cgroup's new tenant" "$(value all page-faults /initech)" 200
at_least "nothing is lost" "$(value all page-faults /)" "$((g + 200))"
at_least "what stayed went on" "$(value all page-faults /acme)" "$b"
"$vpmu" detach all >/dev/null || exit 1
check_match "no counter is in use again" "$("$vpmu" check)" '^BPF backend +yes no counter is in use'

# ---- a VM: found, counted by vCPU, started again ----
qemu=$(command -v qemu-system-x86_64 || command -v qemu-system-aarch64)
if [ -n "$qemu" ]; then
	mkdir "$ground/acme-vm"
	start_vm() { # a VM whose first vCPU executes its firmware, and then whatever it finds
		sh -c 'echo $$ >"$0/cgroup.procs" && exec "$@"' "$ground/acme-vm" "$qemu" -name web,debug-threads=on \
			-machine "$(case $qemu in *aarch64) echo virt ;; *) echo q35 ;; esac),accel=tcg" \
			-smp 2 -m 64 -display none -serial none -monitor none -net none >/dev/null 2>&1 &
		vm=$!
		jobs="$jobs $vm"
	}
	stop_vm() {
		kill "$vm"
		wait "$vm" 2>/dev/null
	}
	rows() { "$vpmu" list -j | jq -r 'select(.vm == "web") | "\(.path) \(.vcpus) \(.pid) \(.counted)"'; }
	runs() { [ "$(rows)" = "/acme 2 $vm cgroup" ]; }
	ended() { [ -z "$(rows)" ]; }
	"$vpmu" attach vm -e task-clock --for-each vcpu -t /acme || exit 1
	"$vpmu" attach sum -e task-clock -t /acme || exit 1
	start_vm
	wait_for "$server $vm" runs
	vcpu() { "$vpmu" stat --session vm -x, >"$dir/read" && cell "$dir/read" task-clock /acme web "$1"; }
	busy() { [ "$(vcpu 0)" -gt 1000000 ]; }
	wait_for "$server $vm" busy
	"$vpmu" attach one -e task-clock -t web || exit 1
	one() { "$vpmu" stat --session one -x, | counts_of; }
	grows() { [ "$(one)" -gt "$o" ]; }
	o=1000000
	wait_for "$server $vm" grows
	v=$(vcpu 0)
	stop_vm
	wait_for "$server" ended
	o=$(one)
	at_least "the session of a VM that has ended" "$o" 1000000
	at_least "what its vCPU counted is the tenant's" "$("$vpmu" stat --session sum -x, | counts_of)" "$v"
	start_vm
	wait_for "$server $vm" runs
	wait_for "$server $vm" busy
	wait_for "$server $vm" grows # started again, and counted on
	o=$(one)
	if [ "$pin_dir" != none ]; then # it runs when vpmud starts
		sum() { "$vpmu" stat --session sum -x, | counts_of; }
		v=$(sum)
		kill_server KILL
		start
		wait_for "$server $vm" runs
		wait_for "$server $vm" busy
		at_least "the tenant of a VM that is found again" "$(sum)" "$v"
		at_least "the session of the VM, with the run before" "$(one)" "$o"
		v=$(sum)
	fi
	stop_vm
	wait_for "$server" ended
	at_least "the tenant of a VM that has ended" "$("$vpmu" stat --session sum -x, | counts_of)" "$v"
	"$vpmu" detach vm >/dev/null
	"$vpmu" detach sum >/dev/null
	"$vpmu" detach one >/dev/null
else
	echo "# SKIP a VM: no qemu-system-x86_64 and no qemu-system-aarch64"
fi

# ---- rights ----
facts() { sed -n "s/^$1:[[:space:]]*//p" "/proc/$server/status"; }
row() { "$vpmu" check -j | jq -r --arg w "$1" 'select(.what == $w) | "\(.ok) \(.why)"'; }
check_match "landlock would hide others' files" "$(row 'contain: files')" 'no landlock: '
check_match "vpmud's own right" "$(row 'vpmud may count')" '^true perf events of all tasks'
# What has :G or :H means that. Everything else is counted in guests and in the host, because cgroups
# without VMs have no guests.
sides() { # EVENT: the key that it is counted by
	# Events of a former vpmud are counted for some seconds more.
	"$vpmu" attach sides -e "$1" >/dev/null &&
		"$vpmu" conservation -j | jq -r .event | grep "^$1" | sort -u
	"$vpmu" detach sides >/dev/null
}
cycles=$(sides cycles)
[ -z "$cycles" ] || check "cycles" "$cycles" "cycles:GH"
# Another VMM than QEMU, which starts after vpmud: only its open files show that it runs a VM.
if command -v python3 >/dev/null && python3 -c 'import fcntl; fcntl.ioctl(open("/dev/kvm"), 0xAE01, 0)' 2>/dev/null; then
	python3 -c 'import fcntl, time
kvm = open("/dev/kvm")
vm = fcntl.ioctl(kvm, 0xAE01, 0)
vcpu = fcntl.ioctl(vm, 0xAE41, 0)
time.sleep(100000)' &
	other=$!
	jobs="$jobs $other"
	found() { "$vpmu" list -j | grep -q "\"pid\":$other,"; }
	wait_for "$server $other" found
	check_match "another VMM" "$("$vpmu" list -j | jq -r "select(.pid == $other) | .path")" "^/host"
	kill $other
	wait $other 2>/dev/null
else
	echo "# SKIP another VMM than QEMU: no python3, or no right to use /dev/kvm"
fi
case $("$vpmu" check -j | jq -r 'select(.what == "contain: system calls") | .why') in
*sanitizer*) echo "# SKIP seccomp: a build with a sanitizer" ;;
*) check "seccomp" "$(facts Seccomp)" 2 ;;
esac
check "no new privileges" "$(facts NoNewPrivs)" 1
# CAP_BPF 39, CAP_PERFMON 38, CAP_SYS_PTRACE 19, CAP_DAC_READ_SEARCH 2: those of them that we have
have=$((0x$(sed -n 's/^CapEff:[[:space:]]*//p' /proc/self/status) & 0xc000080004))
check "capabilities" "$((0x$(facts CapEff)))" "$have"
check "nor can they come back" "$((0x$(facts CapBnd) & ~0xc000080004))" 0
cp "$vpmu" "$run/vpmu" # the build may be where only root looks
if id nobody >/dev/null 2>&1; then
	check_match "others may not connect" \
		"$(setpriv --reuid nobody --clear-groups "$run/vpmu" list 2>&1)" '^vpmu: .*Permission denied'
fi
stop

# ---- in a container: threads have other numbers than the kernel's program sees ----
if unshare -p -f --mount-proc true 2>/dev/null; then
	unshare -p -f --mount-proc --kill-child "$vpmud" -c "$conf" 2>"$dir/err" &
	server=$!
	wait_for "$server" "$vpmu" sessions
	check_match "a PID namespace of its own" "$(cat "$dir/err")" "^vpmud: PID namespace: not the host's: "
	check_match "check says so" "$("$vpmu" check)" "^PID namespace +no +not the host's: "
	check_match "its remedy" "$("$vpmu" check)" '^PID namespace: run vpmud on the host'
	kill -KILL "$server" # unshare ignores other signals
	wait "$server" 2>/dev/null
	server=
	silent() { ! "$vpmu" sessions; }
	wait_for $$ silent
	rm -f "$VPMU_SOCKET"
else
	echo "# SKIP a PID namespace of its own: unshare cannot make one"
fi

# ---- readers ----
if id nobody >/dev/null 2>&1; then
	gid=$(id -g nobody)
	sed -i "s|^libvirt.*|&\nreader_group = $gid=/acme|" "$conf"
	start
	reader() { setpriv --reuid nobody --regid "$gid" --clear-groups "$run/vpmu" "$@" 2>&1; }
	check "a reader's tenants" "$(reader list -j | jq -r .path | sort | tr '\n' ' ')" "/acme "
	check_match "a reader may not reload" "$(reader reload)" 'for administrators only'
	check_match "others do not exist" "$(reader stat -e page-faults -t /initech -d 0.1)" 'no tenant "/initech"'
	check "no figures of the whole host" "$(reader check | grep -c 'VMs found')" 0
	check_match "its own" "$(reader stat -e page-faults -t /acme -d 0.1)" 'page-faults'
	stop
fi

# ---- socket activation, and notices to the service manager ----
if command -v systemd-socket-activate >/dev/null; then
	systemd-socket-activate -l "$VPMU_SOCKET" "$vpmud" -c "$conf" >"$dir/server.log" 2>&1 &
	server=$!
	listens() { [ -S "$VPMU_SOCKET" ]; }
	wait_for "$server" listens
	check_match "activated by a client" "$("$vpmu" list)" 'acme +tenant'
	kill_server
	check "the service manager's file stays" "$(stat -c %F "$VPMU_SOCKET")" socket
	rm -f "$VPMU_SOCKET"
	server=
else
	echo "# SKIP socket activation: no systemd-socket-activate"
fi

if command -v python3 >/dev/null; then
	python3 - "$vpmud" "$conf" "$dir/notify" >"$dir/said" 2>"$dir/server.log" <<'END'
import os, signal, socket, subprocess, sys
vpmud, conf, path = sys.argv[1:]
s = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
s.bind(path)
p = subprocess.Popen([vpmud, "-c", conf], env=dict(os.environ, NOTIFY_SOCKET=path, WATCHDOG_USEC="1000000"))
def until(word):
    while True:
        said = s.recv(4096).decode().split("\n")[0]
        if said == word or said.startswith(word):
            print(word)
            return
until("WATCHDOG=1")
until("READY=1")
p.send_signal(signal.SIGHUP)
until("RELOADING=1")
until("READY=1")
p.terminate()
until("STOPPING=1")
print(p.wait())
END
	check "what the service manager is told" "$(tr '\n' ' ' <"$dir/said")" \
		"WATCHDOG=1 READY=1 RELOADING=1 READY=1 STOPPING=1 0 "
else
	echo "# SKIP what the service manager is told: no python3"
fi

# ---- killed, or ended: the next one goes on ----
start
if [ "$pin_dir" = none ]; then
	check_match "a second one" "$("$vpmud" -c "$conf" 2>&1)" '^vpmud: '
	kill_server KILL
	start
	check_match "after kill -9" "$("$vpmu" list)" 'acme +tenant'
	stop
	finish
fi
# One that was killed may still be ending, so the next one waits for its pins, until a signal ends it.
sed "s|^socket.*|&2|" "$conf" >"$conf.2"
second() {
	"$vpmud" -c "$1" >"$dir/second.log" 2>&1 &
	second=$!
	jobs="$jobs $second"
	waits() { grep -q '^vpmud: another process uses the pins' "$dir/second.log" || ! kill -0 "$second" 2>/dev/null; }
	wait_for "$server" waits
}
second "$conf.2"
kill "$second"
wait "$second"
check "exit status of one that waits" $? 1
check_match "pins of another one" "$(cat "$dir/second.log")" 'vpmud: BPF backend: .*another process uses these pins$'
"$vpmu" attach kept -e page-faults --for-each tenant || exit 1
"$vpmu" attach other -e context-switches -t /acme || exit 1
# Events that the host can count, and reasons of others.
"$vpmu" attach other2 -e cycles,page-faults -M ghz -t /acme 2>/dev/null || exit 1
counted() { "$vpmu" stat --session other2 -j | jq -c '[.event, ."counter-value" == "<not supported>", .why]'; }
can=$(counted)
in_use() { "$vpmu" check -j | jq -r 'select(.what == "hardware events in use") | .why'; }
use=$(in_use)
# With no more rights than the service manager gives it.
bounding=$(sed -n 's/^CapabilityBoundingSet=//p' "$(dirname "$0")/../../vpmud/vpmud.service.in" |
	tr 'A-Z' 'a-z' | sed 's/cap_/+/g; s/ /,/g')
check_match "the unit's rights" "$bounding" 'bpf,.perfmon'
unit=
setpriv --bounding-set="-all,$bounding" true 2>/dev/null && unit="setpriv --bounding-set=-all,$bounding"
[ -n "$unit" ] || echo "# SKIP restarts with the unit's rights: setpriv cannot give them"
n=0
for how in KILL TERM KILL KILL TERM; do
	programs acme1 10
	n=$((n + 200))
	kill -$how "$server"
	wait "$server" 2>/dev/null
	ended=$?
	[ $how = KILL ] || check "exit status" $ended 0
	# Nobody is there, and the kernel counts on.
	programs acme1 10
	n=$((n + 200))
	start $unit
	at_least "after SIG$how" "$(value kept page-faults /acme)" $n
done
second "$conf"
kill_server KILL
server=$second
wait_for "$server" "$vpmu" sessions
at_least "after one that waited" "$(value kept page-faults /acme)" $n
check_match "events of the session" "$can" '"cycles",(true,"|false,null)'
check "what the host can count, after restarts" "$(counted)" "$can"
check "the events in use" "$(in_use)" "$use"
check "metrics of the session, after restarts" "$("$vpmu" sessions -j | jq -r 'select(.session == "other2") | .metrics')" ghz
check_match "detach shows them" "$("$vpmu" detach other2)" 'ghz|GHz'
check "both sessions" "$("$vpmu" sessions -j | jq -r .session | sort | tr '\n' ' ')" "kept other "
a=$(value kept page-faults /acme)
g=$(value kept page-faults /globex)
kill_server KILL
# With the capabilities of its unit only.
unit=-all,+bpf,+perfmon,+sys_ptrace,+dac_read_search,+setpcap,+chown
if setpriv --bounding-set "$unit" true 2>/dev/null; then
	start setpriv --bounding-set "$unit"
else
	echo "# SKIP a restart with the unit's capabilities: setpriv cannot drop others"
	start
fi
check "an idle tenant's value is the same" "$(value kept page-faults /acme)" "$a"
check "and that of one that never ran" "$(value kept page-faults /globex)" "$g"
"$vpmu" conservation >"$dir/out" || check "conservation after restarts" "$(cat "$dir/out")" "equal everywhere"

# A cgroup that matches no rule of the next one.
kill_server KILL
sed -i "s|^cgroup = $top/acme\*|cgroup = $top/none|" "$conf"
start
forgotten() { programs acme1 1; [ "$(value kept page-faults /acme)" = "$a" ]; }
settled() { a=$(value kept page-faults /acme); forgotten; }
wait_for "$server" settled
check "it is not the tenant's any more" "$(value kept page-faults /acme)" "$a"

# A state file that is none ends the sessions, and nothing else.
kill_server KILL
echo '{"schema":1,' >"$VPMU_SOCKET.state"
start
check_match "a broken state file" "$(cat "$dir/server.log")" "^vpmud: state file $VPMU_SOCKET.state: no state of vpmud"
check "no sessions" "$("$vpmu" sessions -j)" ""
check_match "it counts" "$("$vpmu" stat -e page-faults -d 0.1 2>&1)" 'page-faults'
stop
finish
