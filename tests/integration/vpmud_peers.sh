#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
# vpmud beside two real vpmu-vmm servers: their VMs in its tree, counts on two planes, verbs that are
# passed on, and a server that is stopped, killed, started again or ends.
. "$(dirname "$0")/cli_lib.inc"
vpmud=$VPMU_BIN/vpmud
conf=$dir/vpmud.conf
if [ "$(id -u)" != 0 ]; then
	echo "# SKIP not root: vpmud cannot count"
	exit 77
fi
# Not in /tmp, where `vpmu` trusts only directories of its own user.
run=/run/vpmu-peers-$$
mkdir -m 755 "$run" || { echo "# SKIP no directory $run"; exit 77; }
jobs=
clean() {
	for j in $jobs; do kill -CONT "$j" 2>/dev/null; kill "$j" 2>/dev/null; done
	for j in $jobs; do wait "$j" 2>/dev/null; done
	rm -rf "$run"
}
on_exit=clean
VPMU_SOCKET=$run/d
a=a-$$ b=b-$$ # names of VMs: other tests have VMs too
cat >"$conf" <<END
[vpmud]
socket = $VPMU_SOCKET
pin_dir = none
libvirt = none
vmm_sockets = $run/v*
END
"$vpmud" -c "$conf" >"$dir/server.log" 2>&1 &
server=$!
wait_for "$server" "$vpmu" list || {
	wait "$server"
	server=
	if grep -Eq 'does not permit|no BTF|refuses the BPF program' "$dir/server.log"; then
		echo "# SKIP counting: $(tail -1 "$dir/server.log")"
		exit 77
	fi
	check "vpmud starts" "$(cat "$dir/server.log")" "it answers"
	finish
}

# serve NAME KEYS: a vpmu-vmm at $run/NAME with one VM that runs for ever; its process is $vmm_pid
serve() {
	"$vmm" --socket "$run/$1" --hold --vm "image=$image,engine=soft,args=spin,$2" >"$dir/$1.log" 2>&1 &
	vmm_pid=$!
	jobs="$jobs $vmm_pid"
}
info() { "$vpmu" list -j | jq -r --arg v "$1" 'select(.vm == $v) | "\(.path) \(.plane) \(.vcpus) \(.state)"'; }
is() { [ "$(info "$1")" = "$2" ]; }
gone() { [ -z "$(info "$1")" ]; }
value() { # SESSION TENANT [VM]: its count on plane soft
	"$vpmu" stat --session "$1" -j | jq -r --arg t "$2" --arg v "${3-}" \
		'select(.plane == "soft" and .tenant == $t and (.vm // "") == $v and .event == "instructions") | ."counter-value"'
}
above() { v=$(value "$1" "$2" "${4-}") && [ "$v" -gt "$3" ] 2>/dev/null; }

# ---- they are found, before and after a session begins ----
"$vpmu" attach sum -e instructions,page-faults --for-each tenant || exit 1
serve v1 "name=$a,tenant=/peers-$$/web,vcpus=2"
one=$vmm_pid
wait_for "$server" is "$a" "/peers-$$/web soft 2 running"
check_match "the server is named" "$("$vpmu" list)" "$a .* server=$run/v1( |$)"
"$vpmu" attach each -e instructions --for-each vm || exit 1
serve v2 "name=$b,tenant=/peers-$$/web"
two=$vmm_pid
wait_for "$server" is "$b" "/peers-$$/web soft 1 running"
wait_for "$server" above sum "/peers-$$/web" 1000000
wait_for "$server" above each "/peers-$$/web" 1000000 "$a"
wait_for "$server" above each "/peers-$$/web" 1000000 "$b"
# Each plane has a row of its own, and the process is the kernel plane's.
planes() { "$vpmu" stat --session sum -j | jq -r 'select(.tenant == "/" and .event == "page-faults") | .plane' | sort | tr '\n' ' '; }
check "planes of /" "$(planes)" "kernel soft "
found() { [ -n "$(info "vpmu-vmm-$one")" ]; }
wait_for "$server" found
check_match "its process" "$(info "vpmu-vmm-$one")" ' kernel '

# ---- verbs ----
"$vpmu" pause "$a" || check "pause" failed done
check "paused" "$(info "$a")" "/peers-$$/web soft 2 paused"
x=$(value each "/peers-$$/web" "$a")
check "a paused VM counts nothing" "$(value each "/peers-$$/web" "$a")" "$x"
# What vpmud says is what its own server says.
check "the server says so, too" "$("$vpmu" -S "$run/v1" list -j | jq -r --arg v "$a" 'select(.vm == $v) | .state')" paused
"$vpmu" resume "$a" || check "resume" failed done
wait_for "$server" above each "/peers-$$/web" "$x" "$a"
check_match "a profile is its server's" "$("$vpmu" profile -e instructions -d 0.1 "$a" 2>&1)" "ask the server at $run/v1"
check_match "no such VM" "$("$vpmu" pause "none-$$" 2>&1)" "no VM \"none-$$\""

# ---- one is stopped: it does not answer, and the other one is as it was ----
kill -STOP "$one"
late() { is "$a" "/peers-$$/web soft 2 unknown"; }
wait_for "$server" late
check_match "why" "$("$vpmu" stat --session each 2>&1)" "$a: not counted: the server at $run/v1 does not answer"
x=$(value each "/peers-$$/web" "$b")
wait_for "$server" above each "/peers-$$/web" "$x" "$b"
check_match "check says so" "$("$vpmu" check)" "^server at $run/v1 +no +it does not answer"
kill -CONT "$one"
back() { is "$a" "/peers-$$/web soft 2 running"; }
wait_for "$server" back
wait_for "$server" above each "/peers-$$/web" 0 "$a"

# ---- one is killed, and started again ----
t=$(value sum "/peers-$$/web")
kill -KILL "$two"
wait "$two" 2>/dev/null
wait_for "$server" gone "$b"
wait_for "$server" above sum "/peers-$$/web" "$t"
quality() { "$vpmu" stat --session sum -j | jq -r --arg t "/peers-$$/web" 'select(.plane == "soft" and .tenant == $t and .event == "instructions") | .quality'; }
check_match "its last counts are missing" "$(quality)" partial
serve v2 "name=$b,tenant=/peers-$$/db"
two=$vmm_pid
wait_for "$server" is "$b" "/peers-$$/db soft 1 running"
wait_for "$server" above sum "/peers-$$/db" 0

# ---- one ends, and says its last counts ----
t=$(value sum "/peers-$$/db")
"$vpmu" -S "$run/v2" quit
wait "$two"
wait_for "$server" gone "$b"
at_end=$(value sum "/peers-$$/db")
[ "$at_end" -ge "$t" ] || check "its last counts" "$at_end" "$t or more"
check "nothing of it is missing" "$("$vpmu" stat --session sum -j | jq -r --arg t "/peers-$$/db" \
	'select(.plane == "soft" and .tenant == $t and .event == "instructions") | .quality')" exact
"$vpmu" vm rm "$a" || check "vm rm" failed done
check "it is gone" "$(info "$a")" ""

kill "$server"
wait "$server"
check "exit status" $? 0
server=
finish
