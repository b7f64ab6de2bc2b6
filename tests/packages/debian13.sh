#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
# The source tree on a fresh Debian 13: ./demo, then the build with its tests, all unit tests and those of the other quick
# tests that depend on the compiler and on libbpf, and that vpmud counts there. fresh.sh makes the Debian and enters it.
# Installed packages and what ./demo fetches stay in build/packages/debian13 for the next time; the tree is built anew.
#   VPMU_BUILD=build sh tests/packages/debian13.sh
. "$(dirname "$0")/lib.inc"
need debootstrap unshare
[ "$(id -u)" = 0 ] || skip "not root: a clean Debian cannot be made and entered"
unshare -m -f -C -u -i true 2>/dev/null || skip "no namespaces for this user"
top=$work/debian13
tree=$top/root/upper/root/vpmu
integration='it_cgroup_errors|it_cgroup_pins|it_cgroup_tasks|it_sampling|vpmud_schema|install'

inside() { # LOG COMMAND...
	log=$top/$1.log
	shift
	FRESH_RELEASE=trixie FRESH_CCACHE= sh "$src/tests/packages/fresh.sh" "$top" root "$@" >"$log" 2>&1
}

must() { # WHAT LOG COMMAND...
	what=$1
	shift
	inside "$@" && return 0
	echo "FAILED: $what on Debian 13"
	show "$log"
	exit 1
}

# ---- the tree, as it is here ----
mkdir -p "$top" || exit 1
[ ! -d "$tree/build/linux" ] || { rm -rf "$top/linux" && mv "$tree/build/linux" "$top/linux"; } || exit 1
rm -rf "$tree"
mkdir -p "$tree/build" && (cd "$src" && tar -c --exclude='./build*' --exclude=./.git .) | tar -C "$tree" -x || exit 1
[ ! -d "$top/linux" ] || mv "$top/linux" "$tree/build/linux"

# ---- the Debian, with the packages that are wanted: what cannot be had is no failure, a name that is not there is one ----
if ! inside deps sh tools/deps check; then
	[ -d "$top/debian" ] || skip "debootstrap: $(tail -1 "$log") $(tail -1 "$top/debootstrap.log" 2>/dev/null)"
	cp "$log" "$top/missing.log"
	inside update apt-get update -q -o APT::Update::Error-Mode=any || skip "no packages of Debian 13: $(grep '^E:' "$log" | head -1)"
	echo "FAILED: tools/deps check on Debian 13"
	show "$top/missing.log"
	exit 1
fi

# ---- the README's commands, and the tests ----
# As the preset has it, so that the build below goes on with what ./demo has compiled. What this compiler's optimizer makes
# is of interest in the product, not in its tests; how often they repeat themselves, and code that the emulator translates,
# depend on neither. Debug information is a fifth of a compilation, and no test that
# runs here reads it: the product has none, either.
must "the configuration" configure cmake -B build -G Ninja -DVPMU_WERROR=ON -DCMAKE_BUILD_TYPE=None -DCMAKE_C_FLAGS=-O2 \
	'-DVPMU_TEST_OPTIONS=-O0;-g0;-DVPMU_FEWER'
must "./demo, and vpmud counting" demo sh -c './demo && { examples/host.sh || [ $? = 77 ]; }'
if grep 'refuses the BPF program' "$log"; then
	check "vpmud counts on Debian 13" no yes
fi
must "the build" build sh -c 'cmake --preset default && cmake --build --preset default'
must "a test" tests sh -c "ctest --test-dir build --output-on-failure -LE long -E '[.]translated\$' -j \$(nproc) -L unit &&
	ctest --test-dir build --output-on-failure -LE long -R '^integration[.]($integration)\$'"
echo "Debian 13: ./demo and $(grep -c ' Passed ' "$log") test programs"
grep -E 'Skipped\)' "$log" | sed 's/.*- \([^ ]*\) .*/# SKIP in Debian 13: \1/'
[ $failures = 0 ]
