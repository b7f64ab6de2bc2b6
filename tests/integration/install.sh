#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
# cmake --install, with DESTDIR and with a prefix: the installed files are those of install.files, and they run
# from where it is, with the guest image by its name.
. "$(dirname "$0")/cli_lib.inc"
here=$(cd "$(dirname "$0")" && pwd) || exit 1
src=$(cd "$(dirname "$0")/../.." && pwd) || exit 1
build=$(cd "$VPMU_BIN/.." && pwd) || exit 1
guest='name=g,engine=emulator,image=guest,args=run fib 20'

LC_ALL=C; export LC_ALL
sort "$here/install.files" >"$dir/listed"
# The libraries for other programs are not built with a sanitizer.
grep -q '^VPMU_SANITIZE:[A-Z]*=.' "$build/CMakeCache.txt" && sed -i '\|^include/|d; \|^lib/libvpmu|d; \|^lib/pkgconfig/|d; \|/vpmu-preload|d' "$dir/listed"
command -v scdoc >/dev/null || sed -i '\|^share/man/|d' "$dir/listed"

# ---- DESTDIR, as for a package ----
if ! DESTDIR=$dir/dest cmake --install "$build" --prefix /opt/vpmu >"$dir/log" 2>&1; then
	cat "$dir/log"
	exit 1
fi
(cd "$dir/dest/opt/vpmu" && find . ! -type d | sed 's|^\./||' | sort) >"$dir/installed"
# A row with a * stands for the files that it matches: at least one.
while read -r row; do
	case $row in
	*\**) (cd "$dir/dest/opt/vpmu" && find . ! -type d -path "./$row" | sed 's|^\./||' | grep . || echo "$row") ;;
	*) echo "$row" ;;
	esac
done <"$dir/listed" | sort >"$dir/rows"
mv "$dir/rows" "$dir/listed"
check "files that are installed, against install.files" "$(cat "$dir/installed")" "$(cat "$dir/listed")"
check "outside of the prefix" "$(cd "$dir/dest" && find . ! -type d ! -path './opt/vpmu/*')" ""
check "files that everybody may read" \
	"$(cd "$dir/dest" && find . -type f ! -perm -444)" ""

# ---- a prefix, and another folder ----
cmake --install "$build" --prefix "$dir/prefix" >"$dir/log" 2>&1 || { cat "$dir/log"; exit 1; }
cd / || exit 1
for at in "$dir/dest/opt/vpmu" "$dir/prefix"; do
	check "$at: image=guest" "$("$at/bin/vpmu-vmm" --no-socket --vm "$guest" 2>&1)" \
		"$(printf '[g] vcpu 0: fib 20 = 6765\nvm g: done, status 0')"
	check "$at: the metrics that come with it" \
		"$(HOME=/nonexistent XDG_CONFIG_HOME= "$at/bin/vpmu" metrics -j |
			sed -n 's/.*"metric":"ipc".*"file":"\([^"]*\)".*/\1/p')" \
		"$(realpath "$at")/share/vpmu/metrics/core.metrics"
	# the build's image must not be the one that was found
	mv "$at/lib/vpmu/guest.elf" "$dir/away.elf"
	"$at/bin/vpmu-vmm" --no-socket --vm "$guest" >"$dir/out" 2>&1 && check "$at: no image" started refused
	check_match "$at: no image" "$(cat "$dir/out")" "guest: No such file"
	mv "$dir/away.elf" "$at/lib/vpmu/guest.elf"
done

# The path that the server shows is one that clients can read, whatever their folder is.
VPMU_BIN=$dir/prefix/bin
vpmu=$VPMU_BIN/vpmu vmm=$VPMU_BIN/vpmu-vmm
start_server --vm "name=web-1,tenant=/acme,engine=emulator,image=guest,args=run -r 0 fib 15"
check_match "the image's path" "$("$vpmu" list -j)" "\"image\":\"$dir/prefix/lib/vpmu/guest.elf\""
again 'grep -q workload_fib "$dir/out"' "$vpmu" profile -d 0.2 web-1
stop_server
"$vmm" --no-socket -c "$dir/prefix/share/vpmu/examples/nothing.ini" >/dev/null 2>&1 &&
	check "a configuration that is not there" accepted refused
start_server -c "$dir/prefix/share/vpmu/examples/tenants.ini"
check "VMs of an installed example" "$("$vpmu" list -j | grep -c '"state":"running"')" 5
stop_server

[ $failures = 0 ] || exit 1
