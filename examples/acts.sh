# SPDX-License-Identifier: GPL-2.0-or-later
# Shared by the acts of ./demo; bash reads it. An act is a script in this folder that also runs alone:
#   examples/ACT.sh [--json]
# It builds what is missing, and prints a story or one JSON object per line. Exit status 77, with a line of
# the reason: it cannot run here. VPMU_BUILD is a build that is there, to be used as it is.
set -u
act_name=${0##*/}
act_text=$(sed -n '3,/^[^#]/s/^# //p' "$0")
cd "$(dirname "${BASH_SOURCE[0]}")/.." || exit 1

json=0
case "${1-}" in
"") ;;
--json) json=1 ;;
-h | --help)
	printf '%s\n' "$act_text"
	exit 0
	;;
*)
	echo "$act_name: unknown argument '$1'; expected --json or nothing" >&2
	exit 2
	;;
esac
if [ $# -gt 1 ]; then
	echo "$act_name: expected one argument or none: --json" >&2
	exit 2
fi

die() {
	echo "$act_name: $*" >&2
	exit 1
}
cannot() {
	echo "$act_name: cannot run here: $*" >&2
	exit 77
}
note() { [ "$json" = 1 ] || printf '%s\n' "$*"; }

# ---- build ----
build=${VPMU_BUILD:-build}
sh tools/deps || exit 1
if [ -z "${VPMU_BUILD-}" ]; then
	[ -x build/bin/vpmu-vmm ] || echo "building (a minute or two the first time) ..." >&2
	log=$(mktemp)
	# Not a preset: a build with tests stays one, a new one has none and needs no packages for them.
	if ! { cmake -B build -G Ninja && cmake --build build --target vpmu_cli vpmu-vmm vpmud guest-image; } >"$log" 2>&1; then
		tail -n 30 "$log" >&2
		rm -f "$log"
		die "the build failed"
	fi
	rm -f "$log"
fi
vmm=$build/bin/vpmu-vmm vpmu=$build/bin/vpmu vpmud=$build/bin/vpmud


work=$(mktemp -d) || exit 1
vmm_pid= # the server: vpmu-vmm, or vpmud
look_pids=
act_cleanup() { :; } # an act may have its own
cleanup() {
	[ -n "$look_pids" ] && kill $look_pids 2>/dev/null
	[ -n "$vmm_pid" ] && kill "$vmm_pid" 2>/dev/null && wait "$vmm_pid" 2>/dev/null
	act_cleanup
	rm -rf "$work"
}
trap cleanup EXIT
trap 'exit 130' INT TERM
export VPMU_SOCKET=$work/vmm.sock

# ---- VMs of an ini file, counted by the guests and by the operator at once ----
# Leaves in $work: vmm.log (JSON lines), sharing, and the operator's counts. With a command as third
# argument: that is run before the VMs are.
act() { # ini-file events [command]
	local n ended best=0 now
	if [ "$json" = 1 ]; then
		sed 's/^args = \(stat\|record\)/args = \1 -j/' "$1" >"$work/vms.ini"
	else
		cp "$1" "$work/vms.ini"
	fi
	n=$(grep -c '^\[vm ' "$work/vms.ini")
	rm -f "$VPMU_SOCKET"
	: >"$work/vmm.log" # before the background does: the first act's must not be taken for it
	"$vmm" -c "$work/vms.ini" --json --paused --hold --console stdout --socket "$VPMU_SOCKET" >"$work/vmm.log" 2>"$work/vmm.err" &
	vmm_pid=$!
	until grep -q '"kind":"ready"' "$work/vmm.log"; do
		kill -0 "$vmm_pid" 2>/dev/null || { cat "$work/vmm.err" >&2; return 1; }
		sleep 0.05
	done
	"$vpmu" attach -e "$2" --for-each tenant demo >/dev/null || return 1
	[ -z "${3-}" ] || $3 || return 1
	"$vpmu" resume >/dev/null || return 1
	while :; do
		now=$("$vpmu" sharing -j) || return 1
		now=$(jq -sc 'max_by(.consumers) // {consumers: 0}' <<<"$now") # one line for each backend
		# Sharing changes while VMs run: keep the moment with the most consumers.
		if [ "$(jq .consumers <<<"$now")" -ge "$best" ]; then
			best=$(jq .consumers <<<"$now")
			printf '%s\n' "$now" >"$work/sharing"
		fi
		ended=$(grep -c '"kind":"vm-end"' "$work/vmm.log")
		[ "$ended" -ge "$n" ] && break
		kill -0 "$vmm_pid" 2>/dev/null || { cat "$work/vmm.err" >&2; return 1; }
		sleep 0.05
	done
	if grep '"kind":"vm-end"' "$work/vmm.log" | jq -e 'select(.state != "done" or .status != 0)' >&2; then
		echo "$act_name: a VM did not end well" >&2
		return 1
	fi
}

act_end() {
	"$vpmu" quit >/dev/null
	wait "$vmm_pid"
	vmm_pid=
}

number='def num: if test("^[0-9]+$") then tonumber else . end;'
print_json() {
	jq -c "$number"' select(.kind == "console") | . as $c | (.text | fromjson?)
		| select(.event and ."counter-value")
		| {kind: "guest", vm: $c.vm, vcpu: $c.vcpu, event, value: (."counter-value" | num),
		   running: ."pcnt-running", quality}' "$work/vmm.log"
	jq -c '{kind: "sharing", consumers, host_counters: ."host-counters"}' "$work/sharing"
	print_json_tenants
}

print_json_tenants() {
	"$vpmu" stat --session demo -j | jq -c "$number"' {kind: "tenant", tenant, event,
		value: (."counter-value" | num), running: ."pcnt-running", quality}'
	"$vpmu" conservation -j | jq -c "$number"' {kind: "conservation", pcpu, event,
		hardware: (.hardware | tostring | num), charged: (.charged | tostring | num)}'
}

guest_table() { # vm vcpu
	jq -r --arg vm "$1" --argjson vcpu "$2" \
		'select(.kind == "console" and .vm == $vm and .vcpu == $vcpu) | .text' "$work/vmm.log" |
		sed 's/^/    /'
}

# Counts and charges must be equal, or the act ends.
conserved() { # where
	[ "$("$vpmu" conservation -j | jq -s 'length > 0 and all(.hardware == .charged)')" = true ] ||
		die "conservation does not hold $1"
}
