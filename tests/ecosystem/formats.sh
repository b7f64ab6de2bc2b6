#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
# Profiles and branches, read by tools that draw and optimize: speedscope's own importer (from npm, kept in
# build/npm), BOLT's perf2bolt. integration.cli_formats has `go tool pprof` and llvm-profgen.
. "$(dirname "$0")/cli_lib.inc"
here=$(cd "$(dirname "$0")" && pwd)
skipped=
start_server --vm "$(vm fib tenant=/acme 'run fib 40')"
wait_state fib running

# ---- speedscope ----
"$vpmu" profile --format=pprof -c 100003 -d 1 -o "$dir/p.pb.gz" fib || check "profile" failed done
"$vpmu" profile --format=perf-script -c 100003 -d 1 -o "$dir/p.txt" fib || check "profile" failed done
"$vpmu" profile --folded -c 100003 -d 1 -o "$dir/p.folded" fib || check "profile" failed done
version=1.20.0
npm=$(cd "$VPMU_BIN/.." && pwd)/npm
release=$npm/node_modules/speedscope/dist/release
if ! command -v node >/dev/null || ! command -v npm >/dev/null; then
	skipped="$skipped speedscope (no node or npm)"
elif [ ! -d "$release" ] && ! (mkdir -p "$npm" && cd "$npm" && npm install --prefix "$npm" --ignore-scripts --no-audit --no-fund \
	--fetch-retries 1 "speedscope@$version" >"$dir/npm.log" 2>&1); then
	skipped="$skipped speedscope (npm: $(grep -m 1 -i 'err' "$dir/npm.log"))"
else
	node "$here/speedscope.js" "$release" "$dir/p.pb.gz" "$dir/p.folded" "$dir/p.txt" >"$dir/read" 2>"$dir/err" ||
		check "speedscope" "$(cat "$dir/err")" "it reads them"
	# Folded stacks end in the number of their samples. A profile of pprof has events: each sample stands for 100,003.
	samples=$(awk '{ s += $NF } END { print s }' "$dir/p.folded")
	leaf=$(awk '{ n = $NF; sub(/ [0-9]+$/, ""); k = split($0, f, ";"); s[f[k]] += n }
		END { for (i in s) if (s[i] > m) { m = s[i]; w = i }; print w, m }' "$dir/p.folded")
	check "speedscope: folded stacks" "$(grep '^p.folded ' "$dir/read")" "p.folded $samples $leaf"
	set -- $(grep '^p.pb.gz ' "$dir/read")
	check "speedscope: a profile of pprof has whole samples" "$((${2:-1} % 100003)) $((${2:-0} > 0))" "0 1"
	check "speedscope: its function" "${3:-}" workload_fib
	# Of perf-script text it makes a profile of each thread, in which the time between two samples is the weight.
	set -- $(grep '^p.txt ' "$dir/read")
	check "speedscope: perf-script text" "${3:-} $(awk -v s="${2:-0}" 'BEGIN { print (s > 0 && s < 100) }')" "workload_fib 1"
	echo "# speedscope: $(tr '\n' ';' <"$dir/read")"
fi

# ---- branches for BOLT, in its pre-aggregated form: how often each branch was taken (B), and how often each stretch
# between two of them was run (F) ----
"$vpmu" lbr --format=brstack -n 20 -d 1 -o "$dir/b.txt" fib || check "lbr" failed done
# As docs/operator-guide.md has it.
sed -n '/^grep -v PERF_RECORD branches.txt/,/>branches.bolt$/p' "$here/../../docs/operator-guide.md" >"$dir/convert"
cp "$dir/b.txt" "$dir/branches.txt"
(cd "$dir" && sh ./convert) || check "the converter" failed done
mv "$dir/branches.bolt" "$dir/branches"
taken=$(awk '$1 == "B" { s += $4 } END { print s + 0 }' "$dir/branches")
at=$(nm "$image" | awk '$3 == "workload_fib" { print $1 }')
perf2bolt=$(ls /usr/lib/llvm-*/bin/perf2bolt 2>/dev/null | tail -1)
if [ -z "$perf2bolt" ]; then
	skipped="$skipped perf2bolt (package bolt-16)"
else
	# BOLT wants code in a section of this name.
	objcopy --rename-section .utext=.text "$image" "$dir/guest"
	"$perf2bolt" -pa -p "$dir/branches" -o "$dir/fdata" "$dir/guest" >"$dir/bolt" 2>&1 || check "perf2bolt" "$(cat "$dir/bolt")" "it reads them"
	check_match "perf2bolt has all" "$(cat "$dir/bolt")" "read $(wc -l <"$dir/branches") aggregated LBR entries"
	check_match "stretches are what the code says" "$(cat "$dir/bolt")" 'traces mismatching disassembled function contents: 0 '
	check_match "and in known functions" "$(cat "$dir/bolt")" 'Out of range traces involving unknown regions: 0 '
	# Its lines: 1 FUNCTION OFFSET 1 FUNCTION OFFSET MISPREDICTED COUNT, also for stretches. Each branch inside of the
	# function is there with its count.
	awk -v at="$at" 'BEGIN { base = at; sub(/^0+/, "", base) } $1 == "B" { print $2, $3, $4 }' "$dir/branches" |
		while read -r from to n; do
			printf '1 workload_fib %x 1 workload_fib %x 0 %s\n' $((0x$from - 0x$at)) $((0x$to - 0x$at)) "$n"
		done | grep -v ffffffff | sort >"$dir/want"
	check "branches that are not in BOLT's profile" "$(sort "$dir/fdata" | comm -23 "$dir/want" - | head -3)" ""
	[ "$(wc -l <"$dir/want")" -ge 3 ] || check "branches of the function" "$(cat "$dir/want")" "3 or more"
	echo "# perf2bolt: $taken branches, $(wc -l <"$dir/fdata") lines in its profile"
fi
stop_server
[ "$failures" = 0 ] || finish
[ -z "$skipped" ] || { echo "# SKIP$skipped (tools/deps ecosystem)"; exit 77; }
finish
