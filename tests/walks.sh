#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
# The walks of docs/internals/architecture.md name functions and their files, as `f()` in `path`. Each must be
# there: tests/walks.sh [ROOT].
set -u
cd "${1:-$(dirname "$0")/..}" || exit 2

tr '\n' ' ' <docs/internals/architecture.md | sed 's/  */ /g' |
	grep -oE '`[a-z_0-9]+\(\)` in `[a-z_/0-9]+\.[ch]`' | sort -u |
	sed -E 's/`([a-z_0-9]+)\(\)` in `([^`]+)`/\1 \2/' | {
	n=0 bad=0
	while read -r fn file; do
		n=$((n + 1))
		# A definition begins in the first column; a call does not.
		if ! grep -qE "^([A-Za-z_].*[ *])?$fn\(" "$file" 2>/dev/null; then
			echo "walks: docs/internals/architecture.md: $fn() is not defined in $file"
			bad=1
		fi
	done
	echo "walks: $n functions looked for"
	[ "$bad" = 0 ] && [ "$n" -gt 50 ]
}
