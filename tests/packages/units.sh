#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
# The units and the example configuration, without a service manager: systemd-analyze verify and security, and
# --check-config of vpmud and vpmu-exporter on the examples as they are and with every commented example taken in.
. "$(dirname "$0")/lib.inc"
dir=$(mktemp -d) || exit 1
trap 'rm -rf "$dir"' EXIT

DESTDIR=$dir/d cmake --install "$build" --prefix /usr >"$dir/log" 2>&1 || { show "$dir/log"; exit 1; }

# ---- the configuration ----
vpmud=$dir/d/usr/bin/vpmud
conf=$dir/d/usr/share/vpmu/examples/vpmud.conf
check "the example as it is" "$("$vpmud" -C -c "$conf" 2>&1)" ""
# A group that exists here takes the place of those of the example, and none that of the BPF file system.
sed 's/^;//; s/^pin_dir = .*/pin_dir = none/; s/^admin_group = .*/admin_group = root/; s/^reader_group = .*=/reader_group = root=/' "$conf" >"$dir/all.conf"
[ "$(grep -c '^\[tenant ' "$dir/all.conf")" -ge 8 ] ||
	check "sections in the example" "$(grep -c '^\[tenant ' "$dir/all.conf")" "8 or more"
check "each example in it" "$("$vpmud" -C -c "$dir/all.conf" 2>&1)" ""
check "it sets nothing" "$(grep -v '^[#;]' "$conf" | grep -v '^$')" "[vpmud]"

exporter=$dir/d/usr/bin/vpmu-exporter
if [ -x "$exporter" ]; then
	conf=$dir/d/usr/share/vpmu/examples/vpmu-exporter.conf
	check "vpmu-exporter's example as it is" "$("$exporter" -C -c "$conf" 2>&1)" ""
	sed 's/^;//' "$conf" >"$dir/exporter.conf"
	[ "$(grep -c '^[a-z_]* = ' "$dir/exporter.conf")" -ge 6 ] ||
		check "keys in vpmu-exporter's example" "$(grep -c '^[a-z_]* = ' "$dir/exporter.conf")" "6 or more"
	check "each example in it" "$("$exporter" -C -c "$dir/exporter.conf" 2>&1)" ""
	check "vpmu-exporter's example sets nothing" "$(grep -v '^[#;]' "$conf" | grep -v '^$')" "[vpmu-exporter]"
fi

# ---- units ----
need systemd-analyze
units=$(cd "$dir/d/usr/lib/systemd/system" && ls)
check "units" "$(echo "$units" | grep '^vpmud\.' | tr '\n' ' ')" "vpmud.service vpmud.socket "
mkdir "$dir/u"
for u in $units; do
	# The programs are where DESTDIR has put them; the man pages are not installed.
	sed "s|=[^ ]*/bin/vpmu|=$dir/d/usr/bin/vpmu|; /^Documentation=/d" "$dir/d/usr/lib/systemd/system/$u" >"$dir/u/$u"
done
for u in $units; do
	check "$u: verify" "$(cd "$dir/u" && SYSTEMD_UNIT_PATH=$dir/u: systemd-analyze verify "./$u" 2>&1 | grep -F "$u:")" ""
	case $u in *.service) ;; *) continue ;; esac
	level=$(systemd-analyze security --offline=true --no-pager "$dir/u/$u" |
		sed -n 's/.*exposure level for .*: \([0-9.]*\) .*/\1/p')
	echo "$u: exposure $level"
	awk -v l="$level" 'BEGIN { exit !(l != "" && l <= 3.0) }' || check "$u: exposure" "$level" "3.0 or less"
done
[ $failures = 0 ]
