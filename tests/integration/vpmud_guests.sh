# SPDX-License-Identifier: GPL-2.0-or-later
# Counters of guests: VMMs bind events of their vCPUs at vpmud's socket and read their totals from a page. They
# read what perf counts for the thread, through kills of vpmud, and get nothing of each other, whatever they ask for.
. "$(dirname "$0")/vpmud_lib.inc"

. "$(dirname "$0")/vpmud_counter.inc"
switches=0x043c00000003 # context-switches, which the list does not have

begin_conf
sed 's/^pin_dir.*/pin_dir = none/' "$conf" >"$conf.none"
for events in "no-such-event" "page-faults run-delay" ""; do
	{ cat "$conf"; echo "guest_events = $events"; } >"$conf.bad"
	"$vpmud" -c "$conf.bad" -C >"$dir/bad.out" 2>&1
	check "guest_events = $events" "$? $(wc -l <"$dir/bad.out")" "2 1"
done
echo "guest_events = page-faults" >>"$conf.none"
echo "guest_events = page-faults" >>"$conf"

start
vmm_start 1
exec 3>"$dir/in1" 4<"$dir/out1"
read -r answer <&4
vmm_start 2
exec 5>"$dir/in2" 6<"$dir/out2"
read -r answer <&6

bind_soon one
says one "bind $faults" "17 0"
says one "bind $switches" "13 0"
says one "write" 1
exact one 0 1 10 200
bind_soon two
exact two 5 100

# What is not its own, or not permitted.
says one "tid $vmm2" 0
says one "bind $faults" "3 0"
says one "unbind $faults" 3
says one "tid 1" 0
says one "bind $faults" "3 0"
says one "tid 0" 0
says one "unbind $switches" 2
says two reused 3
says one second closed
says one "flood 250" 250
exact one 3

# Events that it keeps: as many as it may, whatever its connection; those that are closed count no more, also for others.
# At a limit vpmud looks for closed ones once a second.
look_again() { sleep 1.1; }
says one "events 1025" "1024 28"
says two "events 3" "3 0"
says one "close 2" 1022
look_again
says one "events 3" "2 28"
says one connect 0
bind_soon one
says one "events 1" "0 28"
says one "close 1024" 0
look_again
says one "events 5" "5 0"
says one "close 5" 0
says two "close 3" 0
exact one 3

# What is shown.
check "list" "$("$vpmu" list -j | grep -c '"guest-counters": *1')" 2
check "check" "$("$vpmu" check | grep -c '2 of 2 VMs; 1 of 24 distinct events')" 1
"$vpmu" check | grep -q '25[1-9] times; the newest: ' || check "check" "$("$vpmu" check | grep denied)" "251 times"
# vpmud is killed: the pages go on. The next one takes them over.
for _ in 1 2 3; do
	kill_server KILL
	exact one 7 50
	start
	exact one 9
	bind_soon one
	bind_soon two
	page_is one "0 1"
	exact one 11
	exact two 13
	"$vpmu" stat -e page-faults -a -- true >/dev/null 2>&1
done
# It ends in order: the same.
kill_server
exact one 7 50
start
bind_soon one
exact one 10
# The second one does not bind again: its page ends, and the first one's does not.
for _ in $(seq 100); do
	two page
	[ "${answer%% *}" = 1 ] && break
	sleep 0.1
done
check "a page that nobody binds ends" "${answer%% *}" 1
page_is one "0 1"
exact one 12

# Rules of tenants: who may bind what, and how many events.
tenants() { # KEYS-OF-ONE KEYS-OF-TWO, with ; between keys
	{
		cat "$conf.plain"
		printf '[tenant /one]\nvm = *-%s\nvm_owner = 0\n%s\n' "$vmm1" "$(echo "$1" | tr ';' '\n')"
		printf '[tenant /two]\nvm = *-%s\nvm_owner = 0\n%s\n' "$vmm2" "$(echo "$2" | tr ';' '\n')"
	} >"$conf"
	"$vpmu" reload >/dev/null || check "reload" failed done
}
has_ended() { # VMM: its page, soon
	for _ in $(seq 100); do
		$1 page
		[ "${answer%% *}" = 1 ] && return
		sleep 0.1
	done
	check "$1: the page ends" "$answer" "1 ..."
}
cp "$conf" "$conf.plain"
bind_soon two
tenants "allow = page-faults, context-switches;max_events = 1" "deny = page-faults"
# They have moved to these tenants.
has_ended one
has_ended two
bind_soon one
says one "bind $switches" "28 0"
two connect
two bind $faults
check "a denied event" "$answer" "13 0"
says two "bind $switches" "13 0"
"$vpmu" list -j | tr -d ' ' | grep -q '"refused":"1"' || check "list" "$("$vpmu" list -j)" "1 refused"
check "check, quota" "$("$vpmu" check | grep -c "1 refused; the newest: context-switches, of VM .*-$vmm1")" 1
exact one 4
# A greater quota is for the next bind, and ends none.
tenants "allow = page-faults, context-switches;max_events = 2" "allow = page-faults;tenant_max_events = 1"
page_is one "0 1"
one bind $switches
check "a greater quota" "${answer%% *}" 0
says one "unbind $switches" 0
two connect
two bind $faults
check "an allowed event" "${answer%% *}" 0
exact one 5
exact two 6
# The quota of a tenant counts an event of several VMs once.
says two "bind $switches" "13 0"
check "sharing" "$("$vpmu" sharing | grep -c "page-faults: 2 vCPUs of guests")" 1
"$vpmu" stat -e page-faults -a -- "$vpmu" sharing -j >"$dir/sharing.out" 2>/dev/null
tr -d ' ' <"$dir/sharing.out" | grep -q '"event":"page-faults","guests":2,"operators":[1-9]' ||
	check "sharing, with an operator" "$(cat "$dir/sharing.out")" "2 guests, operators"
# A bind that is no longer permitted ends, and others go on.
tenants "allow = context-switches;pmu = amd-v2;gp = 6" "allow = page-faults;policy = full"
page_is one "1 1"
page_is two "0 1"
exact two 7
one connect
says one "bind $faults" "13 0"
one bind $switches
check "what is permitted now" "${answer%% *}" 0
says one config "0 pmu=amd-v2 gp=6 policy=off"
tenants "allow = context-switches, instructions,!r00c4" "policy = standard;deny = branch-misses,page-faults"
says one config "0 allow=instructions,!r00c4"
page_is two "1 1"
two connect
says two config "0 policy=standard deny=branch-misses"
# A process that is no VM may only ask, and gets what its own place gives it.
check "no VM: config" "$("$vmm" "$run/vcpus.sock" config)" "0 policy=off "
check "no VM: bind" "$("$vmm" "$run/vcpus.sock" bind)" closed
cp "$conf.plain" "$conf"
echo "guest_events = instructions cycles page-faults" >"$conf.list"
sed -i -e "/^guest_events/{r $conf.list" -e 'd}' "$conf"
"$vpmu" reload >/dev/null
check "no VM: config of the host's list" "$("$vmm" "$run/vcpus.sock" config)" "0 allow=instructions,cycles "
cp "$conf.plain" "$conf"
"$vpmu" reload >/dev/null
bind_soon one
bind_soon two

# vpmu-qemu asks before QEMU runs: its process has the name and the user of the VM that it will be.
if [ -e "$VPMU_BIN/vpmu-preload.so" ]; then
	# The library takes its variable out of the environment: this is how the process began.
	cat >"$dir/qemu" <<-'EOF'
		#!/bin/sh
		tr '\n\0' ' \n' </proc/$$/environ | sed -n 's/^VPMU_PRELOAD=//p'
	EOF
	chmod +x "$dir/qemu"
	qemu() { # VPMUD KEYS: what the library would get
		VPMU_QEMU_CONFIG=$dir/qemu.conf VPMU_VPMUD=$1 VPMU_ALLOW=$2 "$VPMU_BIN/vpmu-qemu" \
			--qemu "$dir/qemu" -accel kvm -cpu host -name guest=q-1 2>"$dir/qemu.err" |
			sed 's/vpmud=[^ ]* //; s/ *$//'
	}
	printf '[default]\npmu = amd-v2\n[vm q-1]\ngp = 8\n' >"$dir/qemu.conf"
	{
		cat "$conf.plain"
		printf '[tenant /q]\nvm = q-*\nvm_owner = 0\npmu = amd-v2\ngp = 6\npolicy = standard\n'
	} >"$conf"
	"$vpmu" reload >/dev/null
	check "vpmu-qemu, vpmud" "$(qemu "$run/vcpus.sock" cycles)" \
		"pmu=amd-v2 gp=6 allow=cycles limit_policy=standard"
	check "vpmu-qemu, no vpmud" "$(qemu "$run/none.sock" cycles)" "pmu=amd-v2 gp=8 allow=cycles"
	check "vpmu-qemu, vpmud = none" "$(qemu none cycles)" "pmu=amd-v2 gp=8 allow=cycles"
	sed -i 's/^pmu = .*/pmu = intel-v2/' "$conf"
	"$vpmu" reload >/dev/null
	check "vpmu-qemu, another model" "$(qemu "$run/vcpus.sock" cycles)" ""
	check "its line" "$(grep -c 'gets no PMU.*expected intel-v2' "$dir/qemu.err")" 1
	sed -i 's/^policy = .*/policy = off/' "$conf"
	"$vpmu" reload >/dev/null
	VPMU_PMU=intel-v2 qemu "$run/vcpus.sock" cycles >"$dir/qemu.out"
	check "vpmu-qemu, no counters" "$(cat "$dir/qemu.out"; wc -l <"$dir/qemu.err")" 1
	cp "$conf.plain" "$conf"
	"$vpmu" reload >/dev/null
fi
bind_soon one
bind_soon two

# Nine VMs of a tenant keep all that they may: it gets half of what there is, and another tenant's VM what a VM may have.
{
	cat "$conf.plain"
	printf '[tenant /two]\nvm = *-%s\nvm_owner = 0\n[tenant /crowd]\nvm = *\nvm_owner = 0\n' "$vmm2"
} >"$conf"
"$vpmu" reload >/dev/null
has_ended two
crowd=
for n in 1 2 3 4 5 6 7 8 9; do
	mkfifo "$dir/crowd$n"
	"$vmm" "$run/vcpus.sock" <>"$dir/crowd$n" >"$dir/crowd$n.out" &
	crowd="$crowd $!"
	jobs="$jobs $!"
done
# crowd_until VMM COMMAND...: as long as it lives
crowd_until() {
	nth=$1
	shift
	wait_for "$(echo $crowd | cut -d " " -f "$nth")" "$@" || check "VM $nth of the tenant" ended "it lives"
}
crowd_has() { [ "$(wc -l <"$dir/crowd$1.out")" -gt "$2" ]; }
crowd_says() { # VMM COMMAND
	lines=$(wc -l <"$dir/crowd$1.out")
	echo "$2" >"$dir/crowd$1"
	crowd_until "$1" crowd_has "$1" "$lines"
	answer=$(tail -n 1 "$dir/crowd$1.out")
}
for n in 1 2 3 4 5 6 7 8 9; do
	crowd() { crowd_says $n "$*"; }
	crowd_until $n crowd_has $n 0
	bind_soon crowd
done
for n in 1 2 3 4 5 6 7 8; do echo "events 1024" >"$dir/crowd$n"; done
for n in 1 2 3 4 5 6 7 8; do
	crowd_until $n grep -q '^1024 \| 28$' "$dir/crowd$n.out"
	check "events of VM $n of the tenant" "$(tail -n 1 "$dir/crowd$n.out")" "1024 0"
done
n=9
crowd events 5
check "events of VM 9 of the tenant" "$answer" "0 28"
bind_soon two
says two "events 1025" "1024 28"
# Room that a VM of the tenant gives back is the tenant's.
crowd_says 1 "close 600"
look_again
crowd events 1024
check "events of VM 9 when VM 1 has closed some" "$answer" "88 28"
says two "close 1024" 0
kill $crowd
wait $crowd 2>/dev/null
cp "$conf.plain" "$conf"
"$vpmu" reload >/dev/null
bind_soon one
bind_soon two

# A hostile VMM: tens of thousands of forged requests, connections and garbage; others keep their counts, control
# calls are answered.
vmm_start 3
exec 7>"$dir/in3" 8<"$dir/out3"
read -r answer <&8
for _ in $(seq 50); do
	"$vpmu" list -j | grep -q -- "-$vmm3\"" && break
	sleep 0.1
done
echo "storm $vmm1" >&7
for n in 1 2 3 4 5; do
	exact one "$n"
	exact two "$n"
	"$vpmu" list >"$dir/list.out" || check "list in a storm" failed answered
done
read -r answer <&8
at_least "requests of a hostile VMM" "$answer" 10000
exact one 11
exact two 12
page_is one "0 1"
page_is two "0 1"
check "check, dropped" "$("$vpmu" check | grep -c "of them of VMs that sent invalid requests")" 1
# It ends, but its connection lives on in a child.
echo connect >&7
read -r answer <&8
echo leave >&7
read -r answer <&8
[ "$answer" = old ] || check "a connection whose process has ended" "$answer" closed
exec 7>&- 8<&-

# Garbage, and the end of a bind: the page ends with the last one.
bind_soon two
says two "garbage 24" closed
page_is two "1 1"
says one "unbind $faults" 0
page_is one "1 1"
bind_soon one
exact one 6
# A vpmud whose configuration has no list any more ends the pages that it finds.
kill_server KILL
sed '/^guest_events/d' "$conf" >"$conf.without"
with=$conf conf=$conf.without
start
for _ in $(seq 300); do
	one page
	[ "${answer%% *}" = 1 ] && break
	sleep 0.1
done
check "without guest_events a page ends" "${answer%% *}" 1
conf=$with
kill_server
start
bind_soon one
exact one 6
kill -KILL "$vmm1"
wait "$vmm1" 2>/dev/null
no_pages_left
check "programs that are left" "$(ls "$pin_dir" | grep -x exits)" ""
at_least "exact intervals" "$intervals" 30
stop
check "sockets that are left" "$(ls "$run")" "$(ls "$run" | grep -x s.state)"

# Without pins nothing would outlive vpmud.
"$vpmud" -c "$conf.none" >"$dir/none.out" 2>&1
check "guest_events without pins" "$? $(grep -c guest_events "$dir/none.out")" "1 1"
finish
