#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
# The man pages and the programs know the same options, commands and keys: nothing in a program is missing in its page,
# and nothing in a page is missing in the program.
#   VPMU_BIN=build/bin sh tests/packages/manual.sh
bin=$(cd "${VPMU_BIN:?}" && pwd) || exit 1
man=$(cd "$(dirname "$0")/../../docs/man" && pwd) || exit 1
dir=$(mktemp -d) || exit 1
trap 'rm -rf "$dir"' EXIT
failures=0 compared=0
export LC_ALL=C.UTF-8

# both WHAT PROGRAM PAGE: two files, a word a line. Neither has a word that the other one has not.
both() {
	LC_ALL=C sort -u "$2" -o "$2"
	LC_ALL=C sort -u "$3" -o "$3"
	[ -s "$2" ] || { echo "FAILED: $1: the program shows none"; failures=$((failures + 1)); }
	compared=$((compared + $(wc -l <"$2")))
	for word in $(LC_ALL=C comm -23 "$2" "$3"); do
		echo "FAILED: $1: $word is in the program and not in the man page"
		failures=$((failures + 1))
	done
	for word in $(LC_ALL=C comm -13 "$2" "$3"); do
		echo "FAILED: $1: $word is in the man page and not in the program"
		failures=$((failures + 1))
	done
}

# Options of a help: "  -e, --event=LIST  ..." gives -e and --event.
of_help() { sed -n 's/^ \{2,\}\(-[^ ].*\)/\1/p' | sed 's/   *.*//; s/, /\n/g' | sed 's/[= [].*//' | grep '^-'; }

# Options that a page explains, "*-e*, *--event*=_LIST_" at the begin of a line.
of_page() {
	grep '^\*-' | sed 's/, /\n/g' | sed -n 's/^\*\(-[-a-zA-Z?]*\)\*.*/\1/p'
}
# Options that a page has once for all commands, or for all programs by argp.
everywhere() { grep -vxE -- '-S|--socket|-\?|-h|--help|--usage|-V|--version'; }

# ---- vpmu(1): each command, under the heading that has its name ----
section() { # COMMAND: the text of all headings "## vpmu COMMAND"
	awk -v c="vpmu $1" '
		/^#/ { on = /^## / && (" " substr($0, 4) " ") ~ (" " c " ") } on' "$man/vpmu.1.scd"
}
"$bin/vpmu" help | sed -n '/^Commands:/,$s/^  \([a-z]*\) .*/\1/p' >"$dir/commands"
sed -n 's/^## //p' "$man/vpmu.1.scd" | grep -o 'vpmu [a-z]*' | sed 's/vpmu //' >"$dir/headings"
both "vpmu: commands" "$dir/commands" "$dir/headings"
while read -r c; do
	"$bin/vpmu" help "$c" >"$dir/help" 2>&1 || { echo "FAILED: vpmu help $c: $(cat "$dir/help")"; failures=$((failures + 1)); }
	of_help <"$dir/help" | everywhere >"$dir/program"
	[ -s "$dir/program" ] || continue
	section "$c" >"$dir/section"
	# Explained in lines of their own, or named in the heading. An option has one name in a heading: that is enough.
	of_page <"$dir/section" >"$dir/page"
	sed -n 's/^## //p' "$dir/section" | grep -oE -- '(^|[ [])-{1,2}[a-zA-Z][-a-z]*' | tr -d '[ ' >"$dir/named"
	for word in $(cat "$dir/named"); do
		grep -E -- "(^ *|, )$word([ ,=[]|\$)" "$dir/help" | of_help >>"$dir/page"
		grep -qx -- "$word" "$dir/program" || echo "$word" >>"$dir/page"
	done
	both "vpmu $c" "$dir/program" "$dir/page"
done <"$dir/commands"

# ---- vpmu-vmm(1), vpmud(8) ----
"$bin/vpmu-vmm" --help | of_help >"$dir/program"
of_page <"$man/vpmu-vmm.1.scd" >"$dir/page"
both vpmu-vmm "$dir/program" "$dir/page"
"$bin/vpmud" --help | of_help | everywhere >"$dir/program"
of_page <"$man/vpmud.8.scd" | everywhere >"$dir/page"
both vpmud "$dir/program" "$dir/page"

"$bin/vpmu-exporter" --help | of_help | everywhere >"$dir/program"
of_page <"$man/vpmu-exporter.8.scd" | everywhere >"$dir/page"
both vpmu-exporter "$dir/program" "$dir/page"

# ---- keys: those that a program names when it is given a wrong one ----
expected() { sed -n 's/.*expected //p' | sed 's/, /\n/g; s/ or /\n/g' | sed 's/ .*//'; }
keys_of_page() { # FILE HEADING: "*key*, *key*" at the begin of lines, up to the next heading
	awk -v h="$2" 'index($0, h) == 1 { on = 1; next } /^#/ { on = 0 } on' "$1" |
		grep -E '^\*[a-z_]+\*(, \*[a-z_]+\*)*$' | sed 's/, /\n/g' | tr -d '*'
}
for s in '[vpmud]' '[tenant /a]'; do
	printf '%s\nno_such_key = 1\n' "$s" >"$dir/conf"
	"$bin/vpmud" -C -c "$dir/conf" 2>&1 | expected >"$dir/program"
	keys_of_page "$man/vpmud.conf.5.scd" "# ${s%% *}" >"$dir/page"
	both "vpmud.conf, $s" "$dir/program" "$dir/page"
done
printf '[vpmu-exporter]\nno_such_key = 1\n' >"$dir/conf"
"$bin/vpmu-exporter" -C -c "$dir/conf" 2>&1 | expected >"$dir/program"
keys_of_page "$man/vpmu-exporter.8.scd" '# [vpmu-exporter]' >"$dir/page"
both vpmu-exporter.conf "$dir/program" "$dir/page"
printf '[vm a]\nno_such_key = 1\n' >"$dir/conf"
"$bin/vpmu-vmm" -c "$dir/conf" --no-socket 2>&1 | expected >"$dir/program"
keys_of_page "$man/vpmu-vmm.1.scd" "# CONFIGURATION FILE" >"$dir/page"
both "vpmu-vmm, [vm]" "$dir/program" "$dir/page"
words() { tr '\n' ' ' | sed "s/.*$1//; s/$2.*//; s/ and /, /g" | grep -oE '[a-z_]+'; } # between two texts
"$bin/vpmu-vmm" --help | words 'its keys:' ' --[a-z]' >"$dir/program"
both "vpmu-vmm --vm" "$dir/program" "$dir/page"
"$bin/vpmu" help vm | words 'another one; the keys are' '[.]' >"$dir/program"
section "vm save" | sed 's/, as in a .*(1), and/, and/' | words 'another one[.] The keys are' '[.]' >"$dir/page"
both "vpmu vm restore" "$dir/program" "$dir/page"
printf '[host]\nno_such_key = 1\n' >"$dir/conf"
"$bin/vpmu-vmm" -c "$dir/conf" --no-socket 2>&1 | expected >"$dir/program"
awk '/^Keys of \*\[host\]\*:/ { on = 1; sub(/^[^:]*:/, "") } on { print } on && /^$/ { exit }' "$man/vpmu-vmm.1.scd" |
	grep -o '\*[a-z_]*\*' | tr -d '*' >"$dir/page"
both "vpmu-vmm, [host]" "$dir/program" "$dir/page"

[ "$compared" -gt 150 ] || { echo "FAILED: only $compared options and keys were found"; failures=$((failures + 1)); }
[ $failures = 0 ] && echo "$compared options, commands and keys"
