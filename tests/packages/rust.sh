#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
# The installed headers from Rust: bindgen reads all of them, its tests of each struct's layout pass, every function of
# libvpmu.map is among its bindings, and a program counts with the shared library.
#   VPMU_BUILD=build sh tests/packages/rust.sh
. "$(dirname "$0")/lib.inc"
need bindgen rustc pkg-config
dir=$(mktemp -d) || exit 1
trap 'rm -rf "$dir"' EXIT
export LC_ALL=C.UTF-8
cmake --install "$build" --prefix "$dir/usr" >"$dir/log" 2>&1 || { show "$dir/log"; exit 1; }
pc=$(find "$dir/usr" -name libvpmu.pc)
lib=${pc%/pkgconfig/*}
export PKG_CONFIG_PATH="${pc%/*}"

(cd "$dir/usr/include" && find vpmu -name '*.h' | sort | sed 's/.*/#include <&>/') >"$dir/all.h"
[ "$(wc -l <"$dir/all.h")" -gt 10 ] || check "headers" "$(cat "$dir/all.h")" "more than 10"
export VPMU_BINDINGS="$dir/bindings.rs"
# shellcheck disable=SC2046
bindgen "$dir/all.h" --allowlist-function 'vpmu_.*' --allowlist-type 'vpmu_.*' --allowlist-var 'VPMU_.*' \
	-o "$VPMU_BINDINGS" -- $(pkg-config --cflags libvpmu) >"$dir/log" 2>&1 || {
	echo "FAILED: bindgen"
	show "$dir/log"
	exit 1
}
grep -o 'pub fn vpmu_[a-z_0-9]*' "$VPMU_BINDINGS" | sed 's/pub fn //' | sort -u >"$dir/bound"
sed -n 's/^\t\([a-z_0-9]*\);$/\1/p' "$src/vpmu/libvpmu.map" | sort -u >"$dir/map"
[ "$(wc -l <"$dir/map")" -gt 50 ] || check "libvpmu.map" "$(cat "$dir/map")" "more than 50 functions"
check "functions without a binding" "$(comm -13 "$dir/bound" "$dir/map")" ""

for how in program layout; do
	[ $how = layout ] && test=--test || test=
	rustc $test --edition 2021 -L "$lib" -l vpmu -o "$dir/$how" "$src/tests/packages/program.rs" >"$dir/log" 2>&1 || {
		echo "FAILED: rustc $test"
		show "$dir/log"
		exit 1
	}
done
check "what the program counts" "$(LD_LIBRARY_PATH=$lib "$dir/program" 2>&1)" "vcpu 100, tenant 150"
LD_LIBRARY_PATH=$lib "$dir/layout" >"$dir/log" 2>&1 || check "layouts" "$(grep -v '^test .* ok$' "$dir/log")" "those of C"
# Older bindgens write a test for each struct, newer ones an expression that does not compile if the size is another.
layouts=$(($(grep -c '^test bindgen_test_layout.* ok$' "$dir/log") + $(grep -o '"Size of ' "$VPMU_BINDINGS" | wc -l)))
[ "$layouts" -gt 20 ] || check "layouts" "$layouts" "more than 20"
[ $failures = 0 ] && echo "rust: $(wc -l <"$dir/bound") functions, layouts of $layouts structs, a program that counts"
[ $failures = 0 ]
