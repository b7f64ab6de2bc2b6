#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
# vpmud beside a vpmu-vmm: its process is a VM as others are, in the tenant of its cgroup, whatever its
# own server says; its vCPUs on KVM are distinguished; emulated VMs are read at their own server.
. "$(dirname "$0")/vpmud_lib.inc"
if [ "$(id -u)" != 0 ]; then
	echo "# SKIP not root: vpmud cannot count"
	exit 77
fi
need_run
need_cgroups
begin_conf
tenant /acme acme
mkdir "$ground/acme"
start

info() { "$vpmu" list -j | jq -r --argjson p "$1" 'select(.pid == $p) | "\(.path) \(.vm) \(.backend) \(.vcpus) \(.server)"'; }
is() { [ "$(info "$1")" = "$2" ]; }
# serve ENGINE: a vpmu-vmm in the tenant's cgroup, with a VM that claims another tenant
serve() {
	sh -c 'echo $$ >"$0/cgroup.procs" && exec "$@"' "$ground/acme" \
		"$vmm" --socket "$run/v1" --hold --vm "name=e-$$,image=$image,engine=$1,vcpus=2,tenant=/other,args=spin" \
		>"$dir/vmm.log" 2>&1 &
	one=$!
	jobs="$jobs $one"
	wait_for "$one" "$vpmu" -S "$run/v1" list
}
end() {
	"$vpmu" -S "$run/v1" quit || kill "$one"
	wait "$one"
	gone() { [ -z "$(info "$one")" ]; }
	wait_for "$server" gone
}

serve emulator
# Its vCPUs are no threads.
wait_for "$server $one" is "$one" "/acme vpmu-vmm-$one bpf 0 $run/v1"
check "VMs that its server names" "$("$vpmu" list -j | jq -r --arg v "e-$$" 'select(.vm == $v)')" ""
check "its own server has them" "$("$vpmu" -S "$run/v1" list -j | jq -r --arg v "e-$$" 'select(.vm == $v) | .path')" /other
"$vpmu" pause "e-$$" >"$dir/out" 2>&1
check "a command of its server: status" $? 1
check_match "a command of its server" "$(cat "$dir/out")" "^vpmu: the server at $VPMU_SOCKET has no command \"pause\""
end

if [ -r /dev/kvm ] && [ -w /dev/kvm ]; then
	serve kvm
	if "$vpmu" check | grep -q '^PID namespace  *no'; then
		echo "# SKIP vCPUs of KVM: vpmud counts no threads in a PID namespace of its own"
	elif kill -0 "$one" 2>/dev/null; then
		wait_for "$server $one" is "$one" "/acme vpmu-vmm-$one bpf 2 $run/v1"
		"$vpmu" attach clock -e task-clock --for-each vcpu || exit 1
		vcpus() { "$vpmu" stat --session clock -j | jq -r --arg v "vpmu-vmm-$one" \
			'select(.vm == $v and .event == "task-clock" and (.count | tonumber) > 1000000) | .vcpu' | sort | tr '\n' ' '; }
		both() { [ "$(vcpus)" = "0 1 " ]; }
		wait_for "$server $one" both
		"$vpmu" detach clock >/dev/null
	else
		echo "# SKIP vCPUs of KVM: $(tail -n 1 "$dir/vmm.log")"
	fi
	end
else
	echo "# SKIP vCPUs of KVM: no right to use /dev/kvm"
fi
stop
finish
