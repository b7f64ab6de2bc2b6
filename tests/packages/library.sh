#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
# libvpmu as it is installed below PREFIX: each header compiles alone, the symbols of both libraries are those of
# libvpmu.map and the functions that the headers declare, and a program counts with either library.
#   sh tests/packages/library.sh PREFIX      without PREFIX: what `cmake --install` of VPMU_BUILD installs
src=$(cd "$(dirname "$0")/../.." && pwd) || exit 1
dir=$(mktemp -d) || exit 1
trap 'rm -rf "$dir"' EXIT
failures=0
check() { # WHAT GOT WANT
	[ "$2" = "$3" ] && return 0
	printf 'FAILED: %s\n  got:  %s\n  want: %s\n' "$1" "$2" "$3"
	failures=$((failures + 1))
}
prefix=${1-}
if [ -z "$prefix" ]; then
	prefix=$dir/usr
	cmake --install "${VPMU_BUILD:?}" --prefix "$prefix" >"$dir/log" 2>&1 || { cat "$dir/log"; exit 1; }
fi
pc=$(find "$prefix" -name libvpmu.pc)
export PKG_CONFIG_PATH="${pc%/*}"
lib=${pc%/pkgconfig/*}
flags="-std=gnu17 -Wall -Wextra -Werror -O2"
: "${CC:=cc}"

# ---- headers: those of vpmu/include, each alone ----
(cd "$src/vpmu/include/vpmu" && find . -name '*.h' | sed 's|^./||' | sort) >"$dir/public"
[ "$(wc -l <"$dir/public")" -gt 10 ] || check "vpmu/include" "$(cat "$dir/public")" "more than 10 headers"
(cd "$prefix/include/vpmu" && find . -name '*.h' | sed 's|^./||' | sort) >"$dir/headers"
check "headers" "$(cat "$dir/headers")" "$(cat "$dir/public")"
while read -r h; do
	printf '#include "vpmu/%s"\n#include <vpmu/%s>\nint main(void) { return 0; }\n' "$h" "$h" >"$dir/one.c"
	out=$($CC $flags $(pkg-config --cflags libvpmu) -fsyntax-only "$dir/one.c" 2>&1) ||
		check "$h alone" "$out" "it compiles"
done <"$dir/headers"

# ---- symbols ----
sed -n 's/^\t\([a-z_0-9]*\);$/\1/p' "$src/vpmu/libvpmu.map" | sort >"$dir/map"
[ "$(wc -l <"$dir/map")" -gt 50 ] || check "libvpmu.map" "$(cat "$dir/map")" "more than 50 functions"
so=$lib/libvpmu.so.0
nm -D --defined-only "$so" | awk '$2 == "T" { sub(/@.*/, "", $3); print $3 }' | sort >"$dir/so"
check "functions of $so" "$(diff "$dir/map" "$dir/so")" ""
check "their version" "$(nm -D --defined-only "$so" | awk '$2 == "T" { sub(/.*@@/, "", $3); print $3 }' |
	sort -u)" LIBVPMU_0.1
check "soname" "$(objdump -p "$so" | awk '$1 == "SONAME" { print $2 }')" libvpmu.so.0
nm -g --defined-only "$lib/libvpmu.a" | awk 'NF == 3 { print $3 }' | sort >"$dir/a"
check "functions of libvpmu.a" "$(diff "$dir/map" "$dir/a")" ""
# The headers' declarations, found by the compiler: a program that takes the address of each function.
{
	sed 's|.*|#include <vpmu/&>|' "$dir/headers"
	echo '#define F(f) (void (*)(void))f,'
	echo 'void (*const all[])(void) = {'
	sed 's/.*/F(&)/' "$dir/map"
	echo '}; int main(int n, char **v) { (void)v; return all[n - 1] == 0; }'
} >"$dir/all.c"
out=$($CC $flags -Wno-cast-function-type $(pkg-config --cflags libvpmu) "$dir/all.c" -o "$dir/all" \
	$(pkg-config --libs libvpmu) 2>&1) || check "every function of the map has a declaration" "$out" "it links"
# And the other way round, by gcc's list of declarations.
gcc -std=gnu17 $(pkg-config --cflags libvpmu) -aux-info "$dir/aux" -fsyntax-only "$dir/all.c" 2>/dev/null
sed -n '\|/include/vpmu/|s/.* extern .*[ *]\(vpmu_[a-z_0-9]*\) (.*/\1/p' "$dir/aux" | sort -u >"$dir/declared"
check "functions in the headers that are not in the map" "$(comm -23 "$dir/declared" "$dir/map" | grep -v '^vpmu_kvm_')" ""
[ "$(comm -12 "$dir/declared" "$dir/map" | wc -l)" -gt 50 ] || check "declarations found" "$(cat "$dir/declared")" \
	"more than 50 of the map"

# ---- without GNU C, and for C++, whose linker finds the functions by their plain names ----
while read -r h; do
	echo "#include <vpmu/$h>" >"$dir/one.c"
	for as in "-x c -std=c11 -D_POSIX_C_SOURCE=200809L" "-x c++ -std=c++14"; do
		out=$(${CC%% *} $as -pedantic-errors -Wall -Wextra -Werror $(pkg-config --cflags libvpmu) -fsyntax-only \
			"$dir/one.c" 2>&1) || check "$h with $as" "$out" "it compiles"
	done
done <"$dir/headers"
out=$(${CC%% *} -x c++ -std=c++14 -O2 $(pkg-config --cflags libvpmu) "$dir/all.c" -x none -o "$dir/all" \
	$(pkg-config --libs libvpmu) 2>&1) || check "every function from C++" "$out" "it links"

# ---- libvpmu-kvm: the functions of kvm.h and of the map ----
if [ -f "$lib/libvpmu-kvm.a" ]; then
	comm -23 "$dir/declared" "$dir/map" | sort - "$dir/map" >"$dir/kvm"
	nm -g --defined-only "$lib/libvpmu-kvm.a" | awk 'NF == 3 { print $3 }' | sort >"$dir/a"
	check "functions of libvpmu-kvm.a" "$(diff "$dir/kvm" "$dir/a")" ""
	out=$($CC $flags $(pkg-config --cflags libvpmu-kvm) "$src/examples/vmm.c" -o "$dir/vmm" \
		$(pkg-config --libs libvpmu-kvm) 2>&1) || check "examples/vmm.c" "$out" "it links"
	if [ -w /dev/kvm ]; then
		check "examples/vmm.c" "$("$dir/vmm" 2>&1 | sed 's/, and its.*//;2d')" "guest: 3 PMIs"
	else
		echo "SKIPPED: examples/vmm.c: there is no /dev/kvm"
	fi
fi

# ---- a program of somebody else ----
for how in shared static; do
	case $how in
	shared) libs=$(pkg-config --libs libvpmu) ;;
	static) libs="$lib/libvpmu.a $(pkg-config --static --libs libvpmu | sed 's/-lvpmu//')" ;;
	esac
	out=$($CC $flags $(pkg-config --cflags libvpmu) "$src/tests/packages/program.c" -o "$dir/$how" $libs 2>&1) ||
		check "$how: the program" "$out" "it links"
	check "$how: what it counts" "$(LD_LIBRARY_PATH=$lib "$dir/$how" 2>&1)" "vcpu 100, tenant 150, unclaimed 0"
	check "$how: libvpmu.so.0 is needed" "$(objdump -p "$dir/$how" | grep -c 'NEEDED.*libvpmu.so.0')" \
		"$([ $how = shared ] && echo 1 || echo 0)"
done
[ $failures = 0 ]
