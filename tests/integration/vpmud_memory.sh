#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
# vpmud without memory for one allocation, after its start: it goes on, or ends with one line and status 1, and the next
# one goes on with the counts and the session. Allocations are those of a VM's cgroup that comes, of a session, of answers.
. "$(dirname "$0")/vpmud_lib.inc"
preload=$VPMU_BIN/../tests/vpmu-fault.so
[ -e "$preload" ] || { echo "# SKIP no $preload: a build with sanitizers has allocators of its own"; exit 77; }
need_cgroups
need_run
mount_bpf || { echo "# SKIP no BPF file system can be mounted"; exit 77; }

begin_conf
tenant '/acme/*' 'acme*'
mkdir "$ground/acme"
start
"$vpmu" attach kept -e page-faults || exit 1
last=0 ended=0 went_on=0
for at in 1 2 3 4 6 8 11 15 20 30 50 80; do
	kill_server KILL
	rm -f "$dir/now"
	start env FAULT=memory FAULT_AT=$at FAULT_WHEN="$dir/now" LD_PRELOAD="$preload"
	: >"$dir/now"
	mkdir "$ground/acme-$at"
	"$vpmu" attach more -e context-switches --for-each tenant >/dev/null 2>&1
	"$vpmu" list >/dev/null 2>&1
	"$vpmu" detach more >/dev/null 2>&1
	rm -f "$dir/now"
	if "$vpmu" sessions >/dev/null 2>&1; then
		went_on=$((went_on + 1))
	else
		ended=$((ended + 1))
		wait "$server"
		check "allocation $at: exit status" $? 1
		check "allocation $at: what it says" "$(tail -n 1 "$dir/server.log")" "vpmud: out of memory"
		start
	fi
	check "allocation $at: sessions" "$("$vpmu" sessions -j | jq -r .session | grep -v more)" kept
	now=$("$vpmu" stat --session kept -j | jq -r '."counter-value"' | head -n 1)
	at_least "allocation $at: page faults" "$now" "$last"
	last=$now
	rmdir "$ground/acme-$at"
done
echo "# ended $ended times, went on $went_on times"
at_least "times that it ended" "$ended" 3
stop
finish
