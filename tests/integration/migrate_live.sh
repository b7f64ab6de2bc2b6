# SPDX-License-Identifier: GPL-2.0-or-later
# A VM that runs moves between two vpmu-vmm processes by the operator's commands. What its guest
# prints at the end equals the output of a VM that stayed, and the counts of the two servers' operators for
# its tenant is together what one server's operator counts.
set -u
. "$(dirname "$0")/cli_lib.inc"

here=$VPMU_SOCKET there=$dir/t.sock
other=
on_exit=stop_other
stop_other() {
	[ -z "$other" ] || { kill "$other" 2>/dev/null; wait "$other" 2>/dev/null; }
}

start_other() {
	"$vmm" --socket "$there" --hold --console stdout "$@" >"$dir/other.log" 2>&1 &
	other=$!
	wait_for "$other" "$vpmu" -S "$there" sharing && return 0
	echo "the second server does not answer:"
	cat "$dir/other.log"
	exit 1
}

events=instructions,branches,loads:u
count() { # SOCKET: counts of /acme's session, which ends
	"$vpmu" -S "$1" detach -x, bill | awk -F, '{ print $1 }' | tr '\n' ' '
}
sum() { # COUNTS COUNTS
	echo "$1" "$2" | awk '{ for (i = 1; i <= NF / 2; i++) printf "%s ", $i + $(i + NF / 2) }'
}
said() { grep '^\[' "$1"; }
has_ended() { # LOG...
	cat "$@" | grep -Eq '^vm web: (done|failed)'
}

attach() { # SOCKET
	"$vpmu" -S "$1" tenant add /acme || exit 1
	"$vpmu" -S "$1" attach -e $events --target /acme bill >/dev/null || exit 1
}

# Two programs: one counts, one samples and keeps branch records. Long enough to be met running: sanitizers' emulator takes
# longer for less.
fib=${MIGRATE_FIB:-33}
for args in "stat -e instructions,branches,cycles,stores fib $fib" \
	"record -g -c 1000000 fib $fib" "lbr -c 200000 chain ${MIGRATE_CHAIN:-4000000}"; do
	# It stays
	start_server --paused --vm "$(vm web vcpus=2,tenant=/acme "$args")"
	attach "$here"
	"$vpmu" resume
	wait_for "$server" has_ended "$dir/server.log"
	stayed=$(count "$here")
	said "$dir/server.log" | sort >"$dir/stayed"
	stop_server

	# It moves, there and back; once more if it had ended before the first move
	moves=0
	while [ $moves = 0 ] && [ $failures = 0 ]; do
		start_server --paused --snapshot-dir "$dir" --vm "$(vm web vcpus=2,tenant=/acme "$args")"
		start_other --snapshot-dir "$dir"
		attach "$here"
		attach "$there"
		"$vpmu" resume
		from=$here to=$there
		while [ $moves -lt 4 ]; do
			sleep 0.03
			out=$("$vpmu" -S "$from" vm save web "$dir/web.snap" 2>&1) || {
				check_match "vm save" "$out" "has ended"
				break
			}
			check "mode of the file" "$(stat -c %a "$dir/web.snap")" 600
			check_match "paused after saving" "$("$vpmu" -S "$from" list -j)" \
				'"vm":"web".*"state":"paused"'
			"$vpmu" -S "$from" vm rm web || exit 1
			"$vpmu" -S "$to" vm restore web.snap policy=full tenant=/acme || exit 1
			moves=$((moves + 1))
			if [ "$to" = "$there" ]; then from=$there to=$here; else from=$here to=$there; fi
		done
		wait_for "$server" has_ended "$dir/server.log" "$dir/other.log"
		cat "$dir/server.log" "$dir/other.log" | grep '^\[' | sort >"$dir/moved"
		check "what the guest says: $args" "$(cat "$dir/moved")" "$(cat "$dir/stayed")"
		check "what operators counted: $args" "$(sum "$(count "$here")" "$(count "$there")")" "$stayed"
		check "no temporary files" "$(find "$dir" -name '*.tmp')" ""
		for s in "$here" "$there"; do
			check "conservation" "$("$vpmu" -S "$s" conservation >/dev/null && echo holds)" holds
		done
		echo "# $args: $moves moves"
		"$vpmu" -S "$there" quit || kill "$other"
		wait "$other"
		other=
		stop_server
	done
done

finish
