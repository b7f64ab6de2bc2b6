#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
# Each file has the SPDX line that its room demands: tests/licences.sh [ROOT]
#   vpmu/                LGPL-2.1-or-later, so that VMMs of other licences may link libvpmu
#   cgroup/bpf/*.bpf.*   GPL-2.0-or-later OR BSD-2-Clause
#   all others           GPL-2.0-or-later
# libvpmu includes no header of the others. LICENSES/ has each text; debian/copyright and libvpmu.pc say the same.
# Texts for people, JSON, and the plain lists of debian/ need no line.
set -u
cd "${1:-$(dirname "$0")/..}" || exit 2
tmp=$(mktemp) || exit 2
trap 'rm -f "$tmp"' EXIT
# A clone may be looked at where there is no git.
{ [ -e .git ] && git ls-files -co --exclude-standard 2>/dev/null ||
	find . -type f -not -path './build*' -not -path './.git/*' | sed 's,^\./,,'; } |
	grep -v '^LICENSE' | sort >"$tmp"
[ -s "$tmp" ] || { echo "licences: no files"; exit 1; }

bad=$(xargs -d '\n' awk '
	function end_of_file() {
		if (file == "") return
		want = "GPL-2.0-or-later"
		if (file ~ /^vpmu\//) want = "LGPL-2.1-or-later"
		if (file ~ /^cgroup\/bpf\/[^\/]*\.bpf\./) want = want " OR BSD-2-Clause"
		code = script || file ~ /(\.(c|h|S|sh|inc|cmake|map|lds|ini|conf|proto|metrics|bash|fish|yml|in)|CMakeLists\.txt)$/
		if (line == "" && code && file !~ /\.pc\.in$/)
			print file ": no SPDX-License-Identifier in its first lines, expected " want
		else if (line != "" && line != want)
			print file ": \"" line "\" is invalid; expected " want
	}
	FNR == 1 { end_of_file(); file = FILENAME; line = ""; script = /^#!/ }
	FNR <= 5 && line == "" && /^( ?\*|\/\/|\/\*|#|;|[.]\\"|<!--) *SPDX-License-Identifier: / {
		line = $0
		sub(/.*SPDX-License-Identifier: /, "", line)
		sub(/ *(\*\/|-->)? *$/, "", line)
	}
	FNR > 5 { nextfile }
	END { end_of_file() }' <"$tmp" || echo "awk failed"
	grep '^vpmu/.*\.[chS]$' "$tmp" | xargs -d '\n' grep -nE '^[[:space:]]*#[[:space:]]*include[[:space:]]*"' |
		grep -vE 'include[[:space:]]*"vpmu/' | sed 's/$/: libvpmu includes what is not below vpmu\//'
	for id in GPL-2.0-or-later LGPL-2.1-or-later BSD-2-Clause; do
		[ -s LICENSES/$id.txt ] || echo "LICENSES/$id.txt: missing"
	done
	grep -q '^License: LGPL-2.1-or-later$' vpmu/libvpmu.pc.in || echo "vpmu/libvpmu.pc.in: License is not LGPL-2.1-or-later"
	awk '/^Files: vpmu\/\*$/ { on = 1 } on && /^License:/ { ok = $2 == "LGPL-2.1-or-later"; exit } END { exit !ok }' debian/copyright ||
		echo "debian/copyright: vpmu/* is not LGPL-2.1-or-later")
[ -z "$bad" ] || { printf '%s\n' "$bad" | sed 's/^/licences: /'; exit 1; }
echo "licences: $(wc -l <"$tmp") files"
