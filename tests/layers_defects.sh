#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
# tests/layers.sh must catch its defects: each defect is planted in a copy of the tree.
set -u
src=$(cd "$(dirname "$0")/.." && pwd) || exit 2
tmp=$(mktemp -d) || exit 2
trap 'rm -rf "$tmp"' EXIT
bad=0

fresh() {
	rm -rf "$tmp/tree"
	mkdir -p "$tmp/tree/docs/internals" "$tmp/tree/tests"
	cp "$src/docs/internals/architecture.md" "$tmp/tree/docs/internals/"
	tar cf - -C "$src" vpmu cgroup selftest service exporter vpmud cli vmm preload guest-tools | tar xf - -C "$tmp/tree"
}
expect() { # pattern that the output must have, what was planted, and the build folder if it is in there
	out=$(sh "$src/tests/layers.sh" "$tmp/tree" ${3-} 2>&1) && {
		echo "not ok: $2: not seen"
		bad=1
		return
	}
	if printf '%s\n' "$out" | grep -qE "$1"; then
		echo "ok: $2"
	else
		echo "not ok: $2: the output is another one:"
		printf '%s\n' "$out"
		bad=1
	fi
}

fresh
sh "$src/tests/layers.sh" "$tmp/tree" || { echo "not ok: the tree as it is"; exit 1; }
echo '#include "vmm/vm/vm.h"' >>"$tmp/tree/vpmu/core/slot.c"
expect 'vpmu/core/slot.c:[0-9]+: includes vmm/vm/vm.h: vpmu/core is on floor' "an include upwards"
fresh
echo '#include "vmm/emu/emu.h"' >>"$tmp/tree/vmm/kvm/vm.c"
expect 'vmm/kvm/vm.c:[0-9]+: includes .*not below' "an include of the neighbour on the same floor"
fresh
echo '#include "vmm/machine/machine.h"' >>"$tmp/tree/vmm/vm/vm.h"
expect 'circle of folders: .*vmm/vm' "a circle of folders"
fresh
echo '#include <sys/socket.h>' >>"$tmp/tree/vpmu/core/host.c"
expect 'vpmu/core/host.c:[0-9]+: includes sys/socket.h, which vpmu/core never does' "a socket in libvpmu"
fresh
echo '#include "vpmu/account.h"' >>"$tmp/tree/service/session.c"
expect 'session.c:[0-9]+: includes vpmu/account.h, which service never does' "a session that goes past its source"
fresh
echo '#include "vpmu/core/internal.h"' >>"$tmp/tree/guest-tools/stat.c"
expect 'guest-tools may use only vpmu/guest/abi.h' "a guest tool that looks into libvpmu"
fresh
mkdir "$tmp/tree/vmm/attic"
echo 'int attic;' >"$tmp/tree/vmm/attic/a.c"
expect 'vmm/attic: the folder is on no floor' "a folder nobody has placed"
fresh
# A build with two libraries; each has an object file of the same name, as CMake makes them.
build=$tmp/build
for f in vpmu cgroup; do
	mkdir -p "$build/$f/CMakeFiles/x.dir"
	echo 'int in_both(void); int in_both(void) { return 1; } static int f(void) { return 2; } int (*in_'$f')(void) = f;' >"$tmp/x.c"
	cc -c -o "$build/$f/CMakeFiles/x.dir/slot.c.o" "$tmp/x.c" && ar cr "$build/$f/lib$f.a" "$build/$f/CMakeFiles/x.dir/slot.c.o"
done
mkdir "$build/selftest" "$build/service" "$build/exporter" "$build/vpmud" "$build/cli" "$build/vmm" "$build/preload"
expect '^layers: in_both\(\) is in libcgroup.a and in libvpmu.a$' "a function in two libraries" "$build"
case $out in
*in_vpmu* | *in_cgroup* | *" f()"*)
	echo "not ok: what is in one library only, or static: $out"
	bad=1
	;;
esac
exit "$bad"
