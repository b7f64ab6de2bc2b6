#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
# vpmud beside two real vpmu-vmm servers: their VMs in its tree, counts on two backends, verbs that are
# passed on, and a server that is stopped, killed, started again or ends.
. "$(dirname "$0")/vpmud_lib.inc"
if [ "$(id -u)" != 0 ]; then
	echo "# SKIP not root: vpmud cannot count"
	exit 77
fi
need_run
a=a-$$ b=b-$$ # names of VMs: other tests have VMs too
cat >"$conf" <<END
[vpmud]
socket = $VPMU_SOCKET
pin_dir = none
libvirt = none
vmm_sockets = $run/v*
END
start

# serve NAME KEYS: a vpmu-vmm at $run/NAME with one VM that runs for ever; its process is $vmm_pid
serve() {
	"$vmm" --socket "$run/$1" --hold --vm "image=$image,engine=emulator,args=spin,$2" >"$dir/$1.log" 2>&1 &
	vmm_pid=$!
	jobs="$jobs $vmm_pid"
}
info() { "$vpmu" list -j | jq -r --arg v "$1" 'select(.vm == $v) | "\(.path) \(.backend) \(.vcpus) \(.state)"'; }
is() { [ "$(info "$1")" = "$2" ]; }
gone() { [ -z "$(info "$1")" ]; }
value() { # SESSION TENANT [VM]: its count on backend emulator
	"$vpmu" stat --session "$1" -j | jq -r --arg t "$2" --arg v "${3-}" \
		'select(.backend == "emulator" and .tenant == $t and (.vm // "") == $v and .event == "instructions") | ."counter-value"'
}
above() { v=$(value "$1" "$2" "${4-}") && [ "$v" -gt "$3" ] 2>/dev/null; }

# ---- they are found, before and after a session begins ----
"$vpmu" attach sum -e instructions,page-faults --for-each tenant || exit 1
serve v1 "name=$a,tenant=/peers-$$/web,vcpus=2"
one=$vmm_pid
wait_for "$server" is "$a" "/peers-$$/web emulator 2 running"
check_match "the server is named" "$("$vpmu" list)" "$a .* server=$run/v1( |$)"
"$vpmu" attach each -e instructions --for-each vm || exit 1
serve v2 "name=$b,tenant=/peers-$$/web"
two=$vmm_pid
wait_for "$server" is "$b" "/peers-$$/web emulator 1 running"
wait_for "$server" above sum "/peers-$$/web" 1000000
wait_for "$server" above each "/peers-$$/web" 1000000 "$a"
wait_for "$server" above each "/peers-$$/web" 1000000 "$b"
# Each backend has a row of its own, and the process is the BPF backend's.
backends() { "$vpmu" stat --session sum -j | jq -r 'select(.tenant == "/" and .event == "page-faults") | .backend' | sort | tr '\n' ' '; }
check "backends of /" "$(backends)" "kernel emulator "
found() { [ -n "$(info "vpmu-vmm-$one")" ]; }
wait_for "$server" found
check_match "its process" "$(info "vpmu-vmm-$one")" ' kernel '

# ---- a VM of KVM is counted once: in the row of its process, by vCPU, and never on backend emulator ----
if [ -r /dev/kvm ] && [ -w /dev/kvm ]; then
	"$vmm" --socket "$run/v3" --hold --vm "name=k-$$,image=$image,engine=kvm,vcpus=2,tenant=/peers-$$/kvm,args=spin" \
		>"$dir/v3.log" 2>&1 &
	three=$!
	jobs="$jobs $three"
	wait_for "$three" "$vpmu" -S "$run/v3" list
	if "$vpmu" check | grep -q '^PID namespace  *no'; then
		echo "# SKIP a VM of KVM: vpmud counts no threads in a PID namespace of its own"
		kill "$three"
		wait "$three"
	elif kill -0 "$three" 2>/dev/null; then
		"$vpmu" attach clock -e task-clock --for-each vcpu || exit 1
		is_kvm() { info "vpmu-vmm-$three" | grep -q ' kernel 2 '; }
		wait_for "$three" is_kvm
		vcpus() { "$vpmu" stat --session clock -j | jq -r --arg v "vpmu-vmm-$three" \
			'select(.vm == $v and .event == "task-clock" and (.count | tonumber) > 1000000) | .vcpu' | sort | tr '\n' ' '; }
		both() { [ "$(vcpus)" = "0 1 " ]; }
		wait_for "$three" both
		# It has been asked meanwhile: its own VM has no second row.
		asked() { "$vpmu" check | grep -Eq "^server at $run/v3 +yes"; }
		wait_for "$three" asked
		check "rows of its process" "$("$vpmu" list -j | jq -r --argjson p "$three" 'select(.pid == $p) | .vm')" "vpmu-vmm-$three"
		check "no second row" "$(info "k-$$")" ""
		check "no backend of its own" "$("$vpmu" list -j | jq -r 'select(.kind == "vm") | .backend' | grep -c kvm)" 0
		"$vpmu" detach clock >/dev/null
		# What its own server says of it is exact there.
		"$vpmu" -S "$run/v3" conservation >"$dir/out" || check "conservation of its server" "$(cat "$dir/out")" "equal"
		"$vpmu" -S "$run/v3" quit
		wait "$three"
		wait_for "$server" gone "vpmu-vmm-$three"
	else
		echo "# SKIP a VM of KVM: $(tail -n 1 "$dir/v3.log")"
	fi
else
	echo "# SKIP a VM of KVM: no right to use /dev/kvm"
fi

# ---- verbs ----
"$vpmu" pause "$a" || check "pause" failed done
check "paused" "$(info "$a")" "/peers-$$/web emulator 2 paused"
x=$(value each "/peers-$$/web" "$a")
check "a paused VM counts nothing" "$(value each "/peers-$$/web" "$a")" "$x"
# What vpmud says is what its own server says.
check "the server says so, too" "$("$vpmu" -S "$run/v1" list -j | jq -r --arg v "$a" 'select(.vm == $v) | .state')" paused
"$vpmu" resume "$a" || check "resume" failed done
wait_for "$server" above each "/peers-$$/web" "$x" "$a"
check_match "a profile is its server's" "$("$vpmu" profile -e instructions -d 0.1 "$a" 2>&1)" "ask the server at $run/v1"
check_match "no such VM" "$("$vpmu" pause "none-$$" 2>&1)" "no VM \"none-$$\""

# ---- conservation of both servers, beside that of the BPF backend ----
"$vpmu" conservation -j >"$dir/out" 2>"$dir/err" || check "conservation" "$(cat "$dir/out" "$dir/err")" "equal everywhere"
cpus=$(getconf _NPROCESSORS_ONLN)
rows_of() { jq -r --arg s "$1" 'select((.server // "") == $s and (.event | startswith("instructions")) and .hardware == .charged and (.hardware | tonumber) > 0) | .backend' "$dir/out" | sort -u; }
check "rows of one server" "$(rows_of "$run/v1")" emulator
check "rows of the other one" "$(rows_of "$run/v2")" emulator
check "our own rows" "$(jq -r 'select(.server == null) | "\(.backend) \(.event)"' "$dir/out" | grep -c 'kernel page-faults')" "$cpus"
check_match "the table names servers" "$("$vpmu" conservation)" "emulator +[0-9]+ instructions[^ ]* +[0-9]+ +[0-9]+ yes +$run/v1"

# ---- one is stopped: it does not answer, and the other one is as it was ----
kill -STOP "$one"
late() { is "$a" "/peers-$$/web emulator 2 unknown"; }
wait_for "$server" late
check_match "why" "$("$vpmu" stat --session each 2>&1)" "$a: not counted: the server at $run/v1 does not answer"
x=$(value each "/peers-$$/web" "$b")
wait_for "$server" above each "/peers-$$/web" "$x" "$b"
check_match "check says so" "$("$vpmu" check)" "^server at $run/v1 +no +it does not answer"
"$vpmu" conservation >"$dir/out" 2>"$dir/err"
check "conservation without it fails" $? 1
check "and says why" "$(cat "$dir/err")" "vpmu: the server at $run/v1 is not compared: it does not answer"
check_match "and has the other one" "$(cat "$dir/out")" "$run/v2"
kill -CONT "$one"
back() { is "$a" "/peers-$$/web emulator 2 running"; }
wait_for "$server" back
wait_for "$server" above each "/peers-$$/web" 0 "$a"

# ---- one is killed, and started again ----
t=$(value sum "/peers-$$/web")
kill -KILL "$two"
wait "$two" 2>/dev/null
wait_for "$server" gone "$b"
wait_for "$server" above sum "/peers-$$/web" "$t"
quality() { "$vpmu" stat --session sum -j | jq -r --arg t "/peers-$$/web" 'select(.backend == "emulator" and .tenant == $t and .event == "instructions") | .quality'; }
check_match "its last counts are missing" "$(quality)" partial
serve v2 "name=$b,tenant=/peers-$$/db"
two=$vmm_pid
wait_for "$server" is "$b" "/peers-$$/db emulator 1 running"
wait_for "$server" above sum "/peers-$$/db" 0

# ---- one ends, and says its last counts ----
t=$(value sum "/peers-$$/db")
"$vpmu" -S "$run/v2" quit
wait "$two"
wait_for "$server" gone "$b"
at_end=$(value sum "/peers-$$/db")
[ "$at_end" -ge "$t" ] || check "its last counts" "$at_end" "$t or more"
check "nothing of it is missing" "$("$vpmu" stat --session sum -j | jq -r --arg t "/peers-$$/db" \
	'select(.backend == "emulator" and .tenant == $t and .event == "instructions") | .quality')" exact
"$vpmu" vm rm "$a" || check "vm rm" failed done
check "it is gone" "$(info "$a")" ""

stop
finish
