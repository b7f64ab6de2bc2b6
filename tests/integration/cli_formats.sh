#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
# Data for other tools, read by readers that are not ours: `go tool pprof` (profiles), llvm-profgen
# (branches, for optimizers). Their results equal vpmu's other output. Files appear whole or not at all.
. "$(dirname "$0")/cli_lib.inc"
missing=
command -v go >/dev/null && go tool -n pprof >/dev/null 2>&1 || missing="go tool pprof (package golang-go)"
profgen=$(ls /usr/lib/llvm-*/bin/llvm-profgen 2>/dev/null | tail -1)
[ -n "$profgen" ] || missing="${missing:+$missing, }llvm-profgen (package llvm)"
export HOME="$dir" # pprof keeps files there

has_sessions() { # KIND N
	[ "$("$vpmu" sessions -j | grep -c "\"$1\":")" = "$2" ]
}

# ---- profiles of known work, sampled from the first instruction to the last ----
start_server --paused \
	--vm "$(vm fib-1 tenant=/acme/web,vcpus=2 'run fib 22')" \
	--vm "$(vm loop-1 tenant=/acme/db 'run loop 3000000')"
"$vpmu" attach all -e instructions -t /acme || exit 1
began=$(date +%s)
"$vpmu" profile --format=pprof -o "$dir/p.pb.gz" -c 20011 /acme 2>"$dir/p.err" &
one=$!
"$vpmu" profile --format=perf-script -o "$dir/p.txt" -c 20011 /acme 2>"$dir/s.err" &
two=$!
"$vpmu" profile --format=pprof -c 20011 /acme >"$dir/out.pb.gz" &
three=$!
wait_for $three has_sessions profile 3 || exit 1
"$vpmu" resume || exit 1
wait_state fib-1 "done"
wait_state loop-1 "done"
check "the file is not there before it is whole" "$(ls "$dir/p.pb.gz" "$dir/p.txt" 2>/dev/null)" ""
for p in $one $two $three; do
	kill -INT $p
	wait $p
	check "profile ends with 0 on Ctrl-C" $? 0
done
check "no notes" "$(cat "$dir/p.err" "$dir/s.err")" ""
check "for the user alone" "$(stat -c %a "$dir/p.pb.gz")" 600
check "nothing else remains" "$(ls "$dir" | grep -c 'p.pb.gz.')" 0
work=$("$vpmu" detach all -x, | cut -d, -f1)
samples=$(grep -c ' instructions:$' "$dir/p.txt")
# Two pCPUs, so up to one less in all.
check "samples are what was counted" "$((work / 20011 - samples <= 1 && work / 20011 >= samples))" 1

# Each sample has its time, none is out of order, and they are no longer apart than the profile ran.
grep ' instructions:$' "$dir/p.txt" | awk '{ print $3 }' >"$dir/times"
check "times" "$(grep -cvE '^[0-9]+\.[0-9]{9}:$' "$dir/times")" 0
check "times in order" "$(sort -c -t . -k 1,1n -k 2,2 "$dir/times" 2>&1)" ""
check "times within the run" "$(awk -v t="$(($(date +%s) - began + 1))" 'NR == 1 { a = $1 + 0 } { b = $1 + 0 } END { print (b > a && b - a <= t) }' "$dir/times")" 1

if command -v go >/dev/null && go tool -n pprof >/dev/null 2>&1; then
	total() { # INDEX FOCUS: the sum of a value
		go tool pprof -top -sample_index="$1" ${2:+-tagfocus="$2"} "$dir/p.pb.gz" 2>"$dir/go.err" |
			sed -n 's/.*Total samples = \([0-9.]*\).*/\1/p'
	}
	raw() {
		go tool pprof -raw "$dir/$1" 2>"$dir/go.err"
	}
	# -raw has all digits: "samples instructions: places" for each
	sums() {
		raw "$1" | awk '/^Samples:/ { on = 1; next } /^Locations/ { on = 0 }
			on && /^ +[0-9]+ +[0-9]+: / { s += $1; e += $2 } END { printf "%d %d", s, e }'
	}
	check "samples and events" "$(sums p.pb.gz)" "$samples $((samples * 20011))"
	check "a pipe gets the same" "$(sums out.pb.gz)" "$samples $((samples * 20011))"
	raw p.pb.gz >"$dir/raw"
	check_match "what it is of" "$(cat "$dir/raw")" '^PeriodType: instructions count$'
	check_match "the period" "$(cat "$dir/raw")" '^Period: 20011$'
	check_match "how good it is" "$(cat "$dir/raw")" \
		"vpmu profile of /acme: a sample each 20011 instructions; $work counted \(exact\), 0 samples lost"
	go tool pprof -tags -sample_index=samples "$dir/p.pb.gz" >"$dir/tags" 2>"$dir/go.err"
	for tag in vm:fib-1 vm:loop-1 tenant:/acme/web tenant:/acme/db vcpu:1; do
		n=$(awk -v key="${tag%%:*}:" -v want="${tag#*:}" '
			$2 == "Total" { k = $1 } k == key && $NF == want { print $1 + 0 }' "$dir/tags")
		case $tag in
		*loop-1 | */db) who='^loop-1/' ;;
		vcpu:1) who='^fib-1/vcpu1 ' ;;
		*) who='^fib-1/' ;;
		esac
		check "samples with label $tag" "$n" "$(grep -c "$who" "$dir/p.txt")"
	done
	go tool pprof -top -sample_index=samples -tagfocus=vm=loop-1 "$dir/p.pb.gz" >"$dir/top" 2>"$dir/go.err"
	check_match "the loop ran in itself" "$(cat "$dir/top")" ' workload_loop$'
	# Callers and callees: the callee's own samples are its caller's sum, never the other way round.
	check "the caller has no more samples of its own than perf script says" \
		"$(awk '$NF == "tools_main" { print $1 }' "$dir/top")" \
		"$(awk '/^loop-1/ { getline; n += /tools_main/ } END { print n + 0 }' "$dir/p.txt")"
fi

# ---- captures: VMs that run on ----
"$vpmu" vm add name=spin tenant=/acme image="$image" engine=emulator args="spin 100000000" || exit 1
"$vpmu" vm add name=deep tenant=/acme vcpus=2 image="$image" engine=emulator args="run fib 40" || exit 1
wait_state deep running
again '[ $(grep -c "^deep/vcpu[01] [0-9]* 1 readings:$" "$dir/out") = 40 ]' \
	"$vpmu" lbr --format=perf-script -n 20 -d 0.5 deep
check_match "call chains" "$(cat "$dir/out")" '^	 +[0-9a-f]+ workload_fib\+0x[0-9a-f]+ \(\[unknown\]\)$'
if command -v go >/dev/null && go tool -n pprof >/dev/null 2>&1; then
	"$vpmu" lbr --format=pprof -o "$dir/l.pb.gz" -n 20 -d 0.5 deep || exit 1
	check "readings" "$(go tool pprof -raw "$dir/l.pb.gz" 2>/dev/null |
		awk '/^Samples:/ { on = 1; next } /^Locations/ { on = 0 }
			on && /^ +[0-9]+: / { s += $1 } END { print s + 0 }')" 40
fi

# A paused VM makes no branches: printed branches are not printed again.
"$vpmu" lbr --format=brstack -n 20 -d 1 -o "$dir/b.txt" spin || exit 1
lines=$(grep -vc PERF_RECORD "$dir/b.txt")
check_match "branches" "$(cat "$dir/b.txt")" '^ +[0-9a-f]+( 0x[0-9a-f]+/0x[0-9a-f]+/-/-/-/0){1,32}$'
check_match "where the image is" "$(head -n 1 "$dir/b.txt")" \
	"^PERF_RECORD_MMAP2 [0-9]+/[0-9]+: \[0x[0-9a-f]+\(0x[0-9a-f]+\) @ 0x[0-9a-f]+ 00:00 0 0\]: r-xp $image\$"
"$vpmu" lbr --format=brstack -n 5 -d 0.1 /acme >/dev/null 2>"$dir/err" || cat "$dir/err"
"$vpmu" lbr --mode branches -d 30 -n 3000 deep >/dev/null & # keeps it recording
keep=$!
wait_for $keep has_sessions capture 1 || exit 1
again 'grep -q 0x "$dir/out"' "$vpmu" lbr --format=brstack -n 3 -d 0.2 deep
"$vpmu" pause || exit 1
"$vpmu" lbr --format=brstack -n 20 -d 0.2 deep >"$dir/paused" 2>/dev/null
check "a paused VM's branches are there once for each vCPU" \
	"$(($(grep -vc PERF_RECORD "$dir/paused") <= 2))" 1
"$vpmu" resume
kill $keep
if [ -n "$profgen" ]; then
	check "llvm-profgen reads them" "$("$profgen" --perfscript="$dir/b.txt" --binary="$image" \
		--output="$dir/prof" --skip-symbolization 2>&1 | grep -i error)" ""
	# A line "from->to:COUNT" for each branch; the loop of spin is one branch to itself.
	most=$(awk -F'[:]' '/->/ { s += $2; if ($2 > m) m = $2 } END { print (m > 0.9 * s), s }' "$dir/prof")
	check "nearly all are the loop's, and none is lost" "$most" \
		"1 $(grep -v PERF_RECORD "$dir/b.txt" | grep -o '/-/-/-/' | wc -l)"
	check "every reading has branches" "$((lines > 0))" 1
fi

# ---- refusals, and files that stay as they were ----
echo before >"$dir/keep"
"$vpmu" lbr --format=pprof -o "$dir/keep" -d 0.1 nobody 2>/dev/null
check "a failed command leaves the file" "$(cat "$dir/keep")" before
check "and nothing beside it" "$(ls "$dir" | grep -c '^keep\.')" 0
mkfifo "$dir/fifo"
cat "$dir/fifo" >"$dir/through" &
reader=$!
"$vpmu" profile --format=perf-script -o "$dir/fifo" -d 0.3 spin 2>/dev/null
wait $reader
check_match "a named pipe is written to" "$(head -n 1 "$dir/through")" '^spin/vcpu0 '
check "and stays" "$(test -p "$dir/fifo" && echo yes)" yes
for row in \
	"profile --format=x|profile: --format \"x\" is invalid; expected perf-script or pprof" \
	"lbr --format=x|lbr: --format \"x\" is invalid; expected perf-script, pprof or brstack" \
	"lbr --format=brstack --mode calls|lbr: --format=brstack needs --mode branches" \
	"lbr --format=pprof --mode branches|lbr: this --format needs --mode call-stack" \
	"profile --format=pprof -j|profile: give only one of --format, --folded and -j" \
	"profile -o $dir/x|profile: -o needs --format or --folded" \
	"profile --folded -d 0.1 -o $dir/none/x|$dir/none/x: No such file or directory"; do
	# shellcheck disable=SC2086
	check "${row%%|*}" "$("$vpmu" ${row%%|*} 2>&1 | head -n 1)" "vpmu: ${row#*|}"
done
check_match "no binary data on a terminal" \
	"$(script -qec "$vpmu profile --format=pprof -d 0.1" /dev/null </dev/null | tr -d '\r')" \
	'--format=pprof is not text: give a file with -o'
stop_server
[ "$failures" = 0 ] || finish
if [ -n "$missing" ]; then
	echo "# SKIP what other readers find: no $missing"
	exit 77
fi
finish
