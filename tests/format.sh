#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
# Each C file is as clang-format writes it with .clang-format: tests/format.sh
# To format all files: git ls-files '*.c' '*.h' | xargs clang-format -i
# Versions of clang-format disagree; Debian 12's decides. Exit status 77: it is not here.
set -u
cd "$(dirname "$0")/.." || exit 2
version=14
format=$(command -v clang-format-$version || command -v clang-format) || {
	echo "# SKIP no clang-format (tools/deps check installs it)"
	exit 77
}
case $("$format" --version) in
*" version $version."*) ;;
*)
	echo "# SKIP clang-format $version says how files are formatted, and this is $("$format" --version)"
	exit 77
	;;
esac
tmp=$(mktemp -d) || exit 2
trap 'rm -rf "$tmp"' EXIT
# A file that is wrong is seen.
cp .clang-format "$tmp/" && printf 'int f( void )\n{\n        return 1;\n}\n' >"$tmp/wrong.c"
"$format" --dry-run -Werror --style=file "$tmp/wrong.c" 2>/dev/null && { echo "format: clang-format takes everything"; exit 1; }

{ git ls-files -co --exclude-standard '*.c' '*.h' 2>/dev/null ||
	find . \( -name '*.c' -o -name '*.h' \) -not -path './build*' | sed 's,^\./,,'; } | sort >"$tmp/files"
[ -s "$tmp/files" ] || { echo "format: no files"; exit 1; }
xargs -d '\n' -n 40 -P "$(nproc)" "$format" --dry-run -Werror --style=file <"$tmp/files" >"$tmp/out" 2>&1 && {
	echo "format: $(wc -l <"$tmp/files") files"
	exit 0
}
grep -aE '^[^ ]*:[0-9]+:[0-9]+: error:' "$tmp/out" | sed 's/: code should be.*/: not as clang-format writes it/' >"$tmp/places"
[ -s "$tmp/places" ] || cat "$tmp/out"
head -n 40 "$tmp/places"
echo "format: $(wc -l <"$tmp/places") places in $(cut -d: -f1 "$tmp/places" | sort -u | wc -l) of $(wc -l <"$tmp/files") files"
exit 1
