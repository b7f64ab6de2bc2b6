#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
# tests/licences.sh must catch its defects: each defect is planted in a small tree.
set -u
src=$(cd "$(dirname "$0")/.." && pwd) || exit 2
tmp=$(mktemp -d) || exit 2
trap 'rm -rf "$tmp"' EXIT
bad=0
fresh() {
	rm -rf "$tmp/tree"
	mkdir -p "$tmp/tree/vpmu/core" "$tmp/tree/cgroup/bpf" "$tmp/tree/cli" "$tmp/tree/debian"
	cp -r "$src/LICENSES" "$tmp/tree/"
	cp "$src/debian/copyright" "$tmp/tree/debian/"
	cp "$src"/vpmu/libvpmu.* "$src/vpmu/CMakeLists.txt" "$tmp/tree/vpmu/"
	cp "$src"/vpmu/core/*.[ch] "$tmp/tree/vpmu/core/"
	cp "$src"/cgroup/bpf/* "$tmp/tree/cgroup/bpf/"
	cp "$src"/cli/*.c "$tmp/tree/cli/"
	cp "$src/demo" "$tmp/tree/"
	mkdir -p "$tmp/tree/.git/hooks"
	echo '#!/bin/sh' >"$tmp/tree/.git/hooks/update.sample"
}
expect() { # pattern that the output must have, what was planted
	out=$(sh "$src/tests/licences.sh" "$tmp/tree" 2>&1) && { echo "not ok: $2: not seen"; bad=1; return; }
	printf '%s\n' "$out" | grep -qE "$1" && [ "$(printf '%s\n' "$out" | wc -l)" = 1 ] && { echo "ok: $2"; return; }
	printf 'not ok: %s: the output is another one:\n%s\n' "$2" "$out"
	bad=1
}
fresh
sh "$src/tests/licences.sh" "$tmp/tree" || { echo "not ok: the tree as it is"; exit 1; }
sed -i '1s/LGPL-2.1/GPL-2.0/' "$tmp/tree/vpmu/core/slot.c"
expect 'vpmu/core/slot.c: "GPL-2.0-or-later" is invalid; expected LGPL-2.1-or-later' "a file of libvpmu that stays GPL"
fresh
sed -i '1s/GPL-2.0/LGPL-2.1/' "$tmp/tree/cli/main.c"
expect 'cli/main.c: "LGPL-2.1-or-later" is invalid' "a file of the command that is LGPL"
fresh
sed -i '1s/ OR .*//' "$tmp/tree/cgroup/bpf/account.bpf.c"
expect 'account.bpf.c: .* expected GPL-2.0-or-later OR BSD-2-Clause' "a BPF program that is not dual"
fresh
sed -i 1d "$tmp/tree/vpmu/core/slot.c"
expect 'slot.c: no SPDX' "a file without a line"
fresh
sed -i 2d "$tmp/tree/demo"
expect 'demo: no SPDX' "a script without a line"
fresh
echo '#include "service/server.h"' >>"$tmp/tree/vpmu/core/slot.c"
expect 'slot.c:[0-9]+:.*libvpmu includes what is not below vpmu/' "a header of others in libvpmu"
fresh
rm "$tmp/tree/LICENSES/LGPL-2.1-or-later.txt"
expect 'LGPL-2.1-or-later.txt: missing' "a text that is missing"
fresh
sed -i 's/^License: LGPL.*/License: GPL-2.0-or-later/' "$tmp/tree/vpmu/libvpmu.pc.in"
expect 'libvpmu.pc.in: License' "a libvpmu.pc that says GPL"
exit $bad
