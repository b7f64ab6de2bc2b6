#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
# tests/mutate on a tree of one program: what it says of each kind of defect, that --log continues a replay, and which objects
# of the build folder it uses.
set -u
unset VPMU_BUILD
here=$(cd "$(dirname "$0")" && pwd)
dir=$(mktemp -d) || exit 1
trap 'rm -rf "$dir"' EXIT
bad=0

# like WHAT EXPECTED PRINTED
like() {
	[ "$2" = "$3" ] && return
	printf '%s: expected\n%s\nprinted\n%s\n' "$1" "$2" "$3"
	bad=1
}

# told: a line for each result: its kind, the name, what runs on
told() { sed -n 's/^\(caught\|SURVIVED\|broken\|does not [a-z]*\|skipped\)  *\([^:]*\).*/\1 \2/p'; }

mkdir -p "$dir/tests" && cp "$here/mutate" "$dir/tests/" || exit 1
cat >"$dir/CMakeLists.txt" <<'E2'
cmake_minimum_required(VERSION 3.25)
project(tree LANGUAGES C)
add_compile_options(-Wall -Werror)
set(CMAKE_RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
add_executable(sum sum.c part.c)
add_executable(no no.c)
add_custom_target(first COMMAND sh -c "eval \"$FIRST\"" VERBATIM) # what the test does before the compiler runs
add_dependencies(sum first)
E2
echo 'int main(void) { return 1; }' >"$dir/no.c"
echo '#define PART 0' >"$dir/part.h"
printf '#include "part.h"\nint part(void);\nint part(void) { return PART; }\n' >"$dir/part.c"
cat >"$dir/sum.c" <<'E2'
int part(void);

int main(int argc, char **argv)
{
	int sum = argc + argc;
	int spare = 1;

	(void)argv;
	if (part())
		return 1;
	return sum * spare != 2;
}
E2
# entry NAME TEST OLD NEW
entry() { printf 'name: %s\nfile: sum.c\ntest: %s\nwhy: A reason.\n-%s\n+%s\n\n' "$@"; }
{
	entry wrong sum '	int sum = argc + argc;' '	int sum = argc;'
	entry harmless sum '	int spare = 1;' '	int spare = 1 + 0;'
	entry leaves-a-variable sum '	return sum * spare != 2;' '	return 1;'
	entry leaves-the-test-out sum '	return sum * spare != 2;' '	return 77;'
	entry syntax sum '	int spare = 1;' '	int spare 1;'
	entry gone sum '	int other;' ''
	entry never no '	int spare = 1;' '	int spare = 2;'
} >"$dir/tests/mutations.txt"

out=$("$dir/tests/mutate")
like "exit status" 1 $?
like "all" "caught wrong
SURVIVED harmless
caught leaves-a-variable
SURVIVED leaves-the-test-out
does not build syntax
does not apply gone
broken never" "$(told <<<"$out")"
like "sums" "mutate: 2 caught, 2 survived, 3 do not apply, 0 skipped" "${out##*$'\n'}"
like "the tree" "" "$(cmp "$dir/sum.c" "$dir/build-mutate/tree/sum.c" 2>&1)"

out=$(cd "$dir" && tests/mutate --log log --copy other leaves-a-variable wrong)
like "exit status of caught ones" 0 $?
like "in the order of the names" "caught leaves-a-variable
caught wrong" "$(told <<<"$out")"
like "log" "$(grep -v ^mutate: <<<"$out")" "$(cat "$dir/log")"
[ -e "$dir/other/tree/sum.c" ] || like "--copy" "other/tree/sum.c" ""
[ -e "$dir/log.out/wrong" ] || like "output" "log.out/wrong" ""

out=$(cd "$dir" && tests/mutate --log log wrong harmless)
like "exit status with a log" 1 $?
like "continued" "SURVIVED harmless" "$(told <<<"$out")"
like "sums of the log" "mutate: 2 caught, 1 survived, 0 do not apply, 0 skipped" "${out##*$'\n'}"
sed -i /harmless/d "$dir/log"
out=$(cd "$dir" && tests/mutate --log log wrong)
like "exit status of a log of caught ones" 0 $?
like "nothing is left" "" "$(told <<<"$out")"

out=$(cd "$dir" && tests/mutate --trust never leaves-the-test-out)
like "exit status of trusted tests" 0 $?
like "trusted tests" "caught never
skipped leaves-the-test-out" "$(told <<<"$out")"

# A tree without git is chosen from by its list: always the same, and all there are if N is more.
out=$("$dir/tests/mutate" --some 3 1000)
like "how many of some" 3 "$(told <<<"$out" | wc -l)"
like "some, again" "$(told <<<"$out")" "$("$dir/tests/mutate" --some 3 1000 | told)"
out=$("$dir/tests/mutate" --some 9 1000)
like "exit status of some" 1 $?
like "some of a few" 7 "$(told <<<"$out" | wc -l)"

# ---- with a build folder ----
like "compiled without one" "mutate: 7 defects, 1 do not apply, none compiled: no $dir/build/build.ninja" \
	"$("$dir/tests/mutate" --applies | tail -n 1)"
build_there() { cmake -S "$dir" -B "$dir/build" -G Ninja && cmake --build "$dir/build"; }
build_there >"$dir/log" 2>&1 || like "the build" "" "$(cat "$dir/log")"
entry script sum '#!/bin/bash' '#!/bin/sh' | sed 's/^file: .*/file: tests\/mutate/' >>"$dir/tests/mutations.txt"
printf 'name: header\nfile: part.h\ntest: sum\nwhy: A reason.\n-#define PART 0\n+#define PART 1\n\n' >>"$dir/tests/mutations.txt"
printf 'name: no-header\nfile: part.h\ntest: sum\nwhy: A reason.\n-#define PART 0\n+#define PAR 1\n\n' >>"$dir/tests/mutations.txt"
out=$("$dir/tests/mutate" --applies)
like "exit status of what does not compile" 1 $?
like "what does not compile" "syntax: does not compile
gone: its lines are in sum.c 0 times
script: nothing in $dir/build is compiled from tests/mutate
no-header: does not compile
mutate: 10 defects, 4 do not apply" "$(grep -E '^([a-z-]+: (does|its|nothing)|mutate)' <<<"$out")"
like "the compiler's line" 1 "$(grep -c '^sum.c:[0-9]*:[0-9]*: error' <<<"$out")"
rm -rf "$dir/build-mutate"
like "what a defect in a header changes" "caught header" "$("$dir/tests/mutate" --trust header | told)"
like "files of the build folder" "CMakeFiles/sum.dir/part.c.o.d
CMakeFiles/sum.dir/sum.c.o.d" "$(cd "$dir/build-mutate/have" && find CMakeFiles/sum.dir -type f | sort)"
# An object that tells where it is from.
object=$dir/build/CMakeFiles/sum.dir/part.c.o
echo 'int part(void) { return 1; }' >"$dir/build/part.c" && cp -p "$object" "$dir/build/old.o"
mark() { cc -c "$dir/build/part.c" -o "$object" && touch -r "$dir/build/old.o" "$object"; }
# harmless WHAT EXPECTED
harmless() {
	rm -rf "$dir/build-mutate"
	like "$1" "$2 harmless" "$("$dir/tests/mutate" --trust harmless | told)"
}
mark && harmless "an object of the build folder" caught
touch "$dir/part.h"
harmless "an object that is older than a header" SURVIVED
touch -r "$dir/no.c" "$dir/part.h" && harmless "an object that is newer again" caught
cp "$object" "$dir/build/marked.o" && cp -p "$dir/build/old.o" "$object"
FIRST="cp $dir/build/marked.o $object" harmless "an object that the build folder gets in the meantime" SURVIVED
build_there >/dev/null && sed -i 's/-Wall/-Wall -O1/' "$dir/CMakeLists.txt"
mark && harmless "an object with other flags" SURVIVED
cmake "$dir/build" >/dev/null && mark && harmless "an object that does not have the flags of build.ninja yet" SURVIVED
sed -i 's/ -O1//' "$dir/CMakeLists.txt"
mkdir "$dir/a tree" && cp -r "$dir/CMakeLists.txt" "$dir"/*.[ch] "$dir/tests" "$dir/a tree/"
like "a path with a blank" "caught wrong" "$("$dir/a tree/tests/mutate" wrong | told)"
rm -rf "$dir/build" "$dir/a tree"

sed -i '/^name: leaves-the-test-out/,/^$/!d' "$dir/tests/mutations.txt"
out=$("$dir/tests/mutate" --some 4 1000)
like "exit status of some that cannot run" 77 $?
like "some that cannot run" "# SKIP leaves-the-test-out: sum cannot run here" "$(grep '^#' <<<"$out")"
sed -i 's/return 77/return 1/' "$dir/tests/mutations.txt"
like "some that are caught" "caught leaves-the-test-out" "$("$dir/tests/mutate" --some 4 1000 | told)"

# Another commit, other defects.
for i in $(seq 40); do entry "n$i" sum '	int spare = 1;' "	int spare = $i + 1;"; done >>"$dir/tests/mutations.txt"
printf '%s\n' build-mutate other >"$dir/.gitignore"
(cd "$dir" && git init -q && git add CMakeLists.txt sum.c no.c tests) 2>/dev/null && {
	commit() {
		git -C "$dir" -c user.name=n -c user.email=e -c commit.gpgsign=false commit -q --allow-empty -m "$1"
		"$dir/tests/mutate" --some 4 1000 | told
	}
	first=$(commit one)
	like "how many of a commit" 4 "$(wc -l <<<"$first")"
	[ "$first" != "$(commit two)" ] || like "another commit" "other defects" "$first"
}

"$dir/tests/mutate" --some 3 2>/dev/null
like "exit status without seconds" 2 $?
"$dir/tests/mutate" nobody 2>/dev/null
like "exit status of a wrong name" 2 $?
exit $bad
