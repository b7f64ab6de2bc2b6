#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
# Profiles and branches, read by tools that draw and optimize: speedscope's own importer (from npm, kept in
# build/npm), BOLT's perf2bolt, AutoFDO's create_llvm_prof and clang. integration.cli_formats has `go tool pprof` and
# llvm-profgen.
. "$(dirname "$0")/../integration/cli_lib.inc"
here=$(cd "$(dirname "$0")" && pwd)
left_out=0
skip() { # WHAT AND WHY
	echo "# SKIP $1"
	left_out=$((left_out + 1))
}
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
	skip "speedscope's importer: no node or npm (packages nodejs and npm)"
elif [ ! -d "$release" ] && ! (mkdir -p "$npm" && cd "$npm" && npm install --prefix "$npm" --ignore-scripts --no-audit --no-fund \
	--fetch-retries 1 "speedscope@$version" >"$dir/npm.log" 2>&1); then
	skip "speedscope's importer: npm: $(grep -m 1 -i 'err' "$dir/npm.log")"
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
cp "$dir/branches.bolt" "$dir/branches"
taken=$(awk '$1 == "B" { s += $4 } END { print s + 0 }' "$dir/branches")
at=$(nm "$image" | awk '$3 == "workload_fib" { print $1 }')
perf2bolt=$(ls /usr/lib/llvm-*/bin/perf2bolt 2>/dev/null | tail -1)
if [ -z "$perf2bolt" ]; then
	skip "BOLT: no perf2bolt (tools/deps ecosystem)"
else
	# BOLT wants code in a section of this name.
	objcopy --rename-section .utext=.text "$image" "$dir/guest"
	"$perf2bolt" -pa -p "$dir/branches" -o "$dir/fdata" "$dir/guest" >"$dir/bolt" 2>&1 || check "perf2bolt" "$(cat "$dir/bolt")" "it reads them"
	check_match "perf2bolt has all" "$(cat "$dir/bolt")" "read $(wc -l <"$dir/branches") aggregated LBR entries"
	check_match "stretches are what the code says" "$(cat "$dir/bolt")" 'traces mismatching disassembled function contents: 0 '
	check_match "and in known functions" "$(cat "$dir/bolt")" 'Out of range traces involving unknown regions: 0 '
	# Its lines: 1 FUNCTION OFFSET 1 FUNCTION OFFSET MISPREDICTED COUNT, also for stretches. Each branch inside of the
	# function is there with its count, except for returns, which BOLT 19 leaves out.
	objdump -d --no-show-raw-insn "$image" | sed -n 's/^ *\([0-9a-f]*\):[[:space:]]*ret.*/\1/p' >"$dir/returns"
	awk -v at="$at" 'BEGIN { base = at; sub(/^0+/, "", base) } $1 == "B" { print $2, $3, $4 }' "$dir/branches" |
		while read -r from to n; do
			grep -qx "$(printf %x "0x$from")" "$dir/returns" && continue
			printf '1 workload_fib %x 1 workload_fib %x 0 %s\n' $((0x$from - 0x$at)) $((0x$to - 0x$at)) "$n"
		done | grep -v ffffffff | sort >"$dir/want"
	check "branches that are not in BOLT's profile" "$(sort "$dir/fdata" | comm -23 "$dir/want" - | head -3)" ""
	[ "$(wc -l <"$dir/want")" -ge 3 ] || check "branches of the function" "$(cat "$dir/want")" "3 or more"
	echo "# perf2bolt: $taken branches, $(wc -l <"$dir/fdata") lines in its profile"
fi
stop_server

# ---- branches for AutoFDO: of a guest whose workloads clang has compiled, with DWARF 4. Its profile and that of LLVM's
# own reader agree on each line, and clang weighs branches by it ----
tools=$VPMU_BIN/../guest-tools src=$here/../..
profgen=$(ls /usr/lib/llvm-*/bin/llvm-profgen 2>/dev/null | tail -1)
opt="-std=gnu17 -O2 -ffreestanding -mno-red-zone -mgeneral-regs-only -fno-stack-protector -fPIE -I$src"
if ! command -v clang >/dev/null || ! command -v create_llvm_prof >/dev/null || [ -z "$profgen" ]; then
	skip "AutoFDO: no create_llvm_prof, clang or llvm-profgen (packages autofdo, clang and llvm; tools/deps ecosystem)"
elif create_llvm_prof --profiler=text --profile=/dev/null --binary="$image" --out="$dir/afdo.none" 2>&1 |
	grep -q 'support was not enabled'; then
	skip "AutoFDO: this create_llvm_prof was built without LLVM (Debian 13's)"
else
	mkdir "$dir/objects"
	for o in "$tools"/*.o; do
		source=${o##*/} source=${source%.o}
		case $source in
		workloads.c | test_*) continue ;;
		guest_symbols.S) ;;
		*) [ -e "$src/guest-tools/$source" ] || continue ;; # a source that is gone
		esac
		strip -g -o "$dir/objects/${o##*/}" "$o" || exit 1
	done
	# shellcheck disable=SC2086
	clang $opt -g -gdwarf-4 -fdebug-info-for-profiling -c "$src/guest-tools/workloads.c" -o "$dir/objects/workloads.c.o" &&
		gcc -nostdlib -static -no-pie -Wl,-T,"$src/guest-tools/guest.lds" -Wl,-z,max-page-size=4096 -Wl,--build-id=none \
			"$dir"/objects/*.o -o "$dir/guest" || exit 1
	image=$dir/guest
	start_server --vm "$(vm fib tenant=/acme 'run fib 40')"
	wait_state fib running
	"$vpmu" lbr --format=brstack -n 20 -d 1 -o "$dir/branches.txt" fib || check "lbr" failed done
	sed -n '/^base=\$(readelf/,/>branches.autofdo$/p' "$src/docs/operator-guide.md" | sed 's/PROGRAM/guest/' >>"$dir/convert"
	(cd "$dir" && sh ./convert) || check "the converter for AutoFDO" failed done
	for format in text binary; do
		create_llvm_prof --profiler=text --profile="$dir/branches.autofdo" --binary="$dir/guest" --format=$format \
			--out="$dir/afdo.$format" 2>"$dir/err" || check "create_llvm_prof" "$(cat "$dir/err")" "it reads them"
	done
	"$profgen" --perfscript="$dir/branches.txt" --binary="$dir/guest" --format=text --output="$dir/profgen" >/dev/null 2>&1 ||
		check "llvm-profgen" failed done
	# Totals are of instructions in one, and of lines in the other. The rest is the same.
	lines() { awk '/^[^ ]/ { on = /^workload_fib:/; sub(/:[0-9]+:/, " ") } on' "$1"; }
	check "AutoFDO's profile" "$(lines "$dir/afdo.text")" "$(lines "$dir/profgen")"
	[ "$(lines "$dir/afdo.text" | wc -l)" -ge 4 ] || check "lines of the function" "$(cat "$dir/afdo.text")" "4 or more"
	# shellcheck disable=SC2086
	clang $opt -g -fprofile-sample-use="$dir/afdo.binary" -S -emit-llvm "$src/guest-tools/workloads.c" -o "$dir/ll" ||
		check "clang" failed "it reads the profile"
	# One more than it read: how often the function was entered.
	entered=$(sed -n 's/^workload_fib:[0-9]*://p' "$dir/afdo.text")
	check "clang knows how often it is entered" "$(grep -c "\"function_entry_count\", i64 $((entered + 1))}" "$dir/ll")" 1
	check "clang weighs branches" "$(awk '/^define.*@workload_fib/ { on = 1 } on && /br i1.*!prof/ { print "yes"; exit } /^}/ { on = 0 }' "$dir/ll")" yes
	echo "# AutoFDO: $(lines "$dir/afdo.text" | tr '\n' ';')"
	stop_server
fi
[ "$failures" != 0 ] || [ $left_out != 3 ] || exit 77
finish
