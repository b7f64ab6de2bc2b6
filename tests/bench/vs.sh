#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
# Tests vpmu-bench --vs with programs that print known results: vs.sh VPMU-BENCH
set -u
bench=$1
dir=$(mktemp -d) || exit 1
trap 'rm -rf "$dir"' EXIT
failed=0

fail() {
	echo "FAILED: $*"
	cat "$dir/out" "$dir/err"
	failed=1
}

other() { # exit status, lines
	status=$1
	shift
	{
		echo '#!/bin/sh'
		for line in "$@"; do echo "echo '$line'"; done
		echo "exit $status"
	} >"$dir/other"
	chmod +x "$dir/other"
}

vs() {
	"$bench" --vs "$dir/other" --runs 3 --rounds 5 "$@" >"$dir/out" 2>"$dir/err"
}

# A build from before the units, a thousand million times as slow.
other 0 '{"name":"switch_equal","value":1e9,"unit":"ns","goal":5.0,"ok":false,"keys":4}'
vs switch_equal || fail "exit status"
awk '$1 == "switch_equal" && $2 == 4 && $4 == 1e9 && $6 < 0.001 { n++ } END { exit n != 1 }' \
	"$dir/out" || fail "one row, with a ratio far below 1"

# Rates are better when they are higher; results are told apart by their parameters.
other 0 '{"machine":{"cpu":"x"}}' \
	'{"name":"emu_mips","value":0.001,"unit":"Minsn/s","workload":"loop","events":7}' \
	'{"name":"emu_mips","value":1e9,"unit":"Minsn/s","workload":"fib","events":7}' \
	'{"name":"emu_mips","value":1,"unit":"Minsn/s","workload":"unknown","events":7}'
vs emu_mips || fail "exit status"
awk '$2 == "loop" && $6 < 0.001 { n++ } $2 == "fib" && $6 > 1000 { n++ } /^emu_mips/ { all++ }
	END { exit n != 2 || all != 2 }' "$dir/out" || fail "two rows: loop faster, fib slower"

other 0 '{"name":"something","value":1,"unit":"ns"}'
vs switch_equal && fail "nothing in common is an error"
grep -q 'no result in common' "$dir/err" || fail "nothing in common: message"

other 3
vs switch_equal && fail "a program that fails is an error"
grep -q 'it failed' "$dir/err" || fail "a program that fails: message"

[ "$failed" = 0 ] && echo "ok"
exit "$failed"
