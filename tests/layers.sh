#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
# Holds the source tree against the floors of docs/internals/architecture.md: tests/layers.sh [ROOT [BUILD]]
#
# Fails when a file includes a header of a folder on the same or a higher floor, when a folder is on
# no floor, when a folder includes a header that its "never" line names, and when folders form a
# circle. With BUILD (a build folder) the same is asked of the symbols that the object files use,
# since a declaration can be repeated without an include; there the files of folders on an
# "acyclic" line must form no circle either. Nor may two of the static libraries there define a
# global function or variable of one name: the linker would silently take the first one.
set -u
root=${1:-$(dirname "$0")/..}
build=${2-}
cd "$root" || exit 2
tmp=$(mktemp -d) || exit 2
trap 'rm -rf "$tmp"' EXIT

# "floor N folder", "only folder header...", "never folder header...", "acyclic folder", and "rooms folder": the
# folders in it are one for all of this. A public header is included without its folder, vpmu/include.
awk '/^```floors/ { on = 1; next } /^```/ { on = 0 }
	on && $1 ~ /^(only|never|acyclic|rooms)$/ { print; next }
	on && NF { n++; for (i = 1; i <= NF; i++) print "floor", n, $i }' \
	docs/internals/architecture.md >"$tmp/rules"
if ! grep -q '^floor' "$tmp/rules"; then
	echo "layers: docs/internals/architecture.md: no block of floors (\`\`\`floors)"
	exit 1
fi

# One line per use: from-file, line, to-file, and how.
find vpmu cgroup selftest service exporter vpmud cli vmm preload guest-tools -name '*.[chS]' | sort >"$tmp/files"
xargs grep -nE '^[[:space:]]*#[[:space:]]*include[[:space:]]*["<]' /dev/null <"$tmp/files" |
	sed -E 's/^([^:]+):([0-9]+):[^"<]*(["<])([^">]+).*/\1 \2 \4 \3/' >"$tmp/uses"

if [ -n "$build" ]; then
	# .../CMakeFiles/TARGET.dir/path.c.o of folder F is F/path.c. interpose.c defines functions of libc.
	find "$build/vpmu" "$build/cgroup" "$build/selftest" "$build/service" "$build/exporter" "$build/vpmud" "$build/cli" "$build/vmm" "$build/preload" -name '*.c.o' ! -name interpose.c.o | sort | while read -r obj; do
		src=$(printf '%s\n' "$obj" | sed -E "s|^$build/||; s|CMakeFiles/[^/]+\.dir/||; s|/\./|/|g; s|\.o$||")
		[ -f "$src" ] || continue
		nm "$obj" | awk -v f="$src" '
			$(NF - 1) == "U" { print "U", $NF, f }
			$(NF - 1) ~ /^[TDBRC]$/ { print "D", $NF, f }'
	done | sort -u >"$tmp/symbols" # libvpmu is compiled twice: static and shared
	if ! grep -q '^D' "$tmp/symbols"; then
		echo "layers: $build: no object files; build first"
		exit 1
	fi
	# A symbol with two definitions (main, argp_program_version) shows nothing about its users.
	awk '$1 == "D" { def[$2] = $3; if (n[$2]++) twice[$2] = 1 }
		$1 == "U" { use[NR] = $2 " " $3 }
		END { for (i in use) { split(use[i], u); if (u[1] in def && !(u[1] in twice) && def[u[1]] != u[2])
			print u[2], u[1], def[u[1]], "symbol" } }' "$tmp/symbols" >>"$tmp/uses"
fi

if [ -n "$build" ]; then
	# vpmu_cgroup_other is vpmu_cgroup again, for a test; libvpmu-kvm.a is libvpmu and vpmu_kvmpmu again, to be installed.
	find "$build/vpmu" "$build/cgroup" "$build/selftest" "$build/service" "$build/exporter" "$build/vpmud" "$build/cli" "$build/vmm" "$build/preload" -name '*.a' ! -name libvpmu_cgroup_other.a ! -name libvpmu-kvm.a | sort | while read -r lib; do
		nm -g --defined-only "$lib" 2>/dev/null |
			awk -v lib="${lib##*/}" 'NF == 3 && $2 ~ /^[TDBRCVW]$/ { print $3, lib }'
	done | sort -u | awk '$1 == name { print "layers: " name "() is in " lib " and in " $2 }
		{ name = $1; lib = $2 }' >"$tmp/twice"
fi

awk '
function folder(path,   r) {
	sub(/\/[^\/]*$/, "", path)
	for (r in rooms)
		if (index(path "/", r "/") == 1) return r
	return path
}
function bad(text) { print "layers: " text; errors++ }
function at(how, where) { return how == "symbol" ? "" : ":" where }
function what(how, where, to) { return how == "symbol" ? "uses " where "() of " to : "includes " to }

FILENAME ~ /rules$/ {
	if ($1 == "floor") floor[$3] = $2
	else if ($1 == "acyclic") acyclic[$2] = 1
	else if ($1 == "rooms") rooms[$2] = 1
	else for (i = 3; i <= NF; i++) rule[$1, $2] = rule[$1, $2] " " $i
	next
}
FILENAME ~ /files$/ {
	d = folder($1)
	if (!(d in floor) && !(d in told)) { bad(d ": the folder is on no floor"); told[d] = 1 }
	here[$1] = 1
	next
}
$4 != "symbol" {
	n = split(rule["never", folder($1)], w, " ")
	for (i = 1; i <= n; i++)
		if (index($3, w[i]) == 1)
			bad($1 ":" $2 ": includes " $3 ", which " folder($1) " never does")
}
$4 == "<" { next }
{
	if (!($3 in here) && ("vpmu/include/" $3) in here) $3 = "vpmu/include/" $3
	from = folder($1); to = folder($3)
	if (!($3 in here)) { bad($1 at($4, $2) ": includes \"" $3 "\": no such file under the root"); next }
	if ($4 == "symbol" && (from in acyclic) && from == to) unit[$1, $3] = 1
	if (from == to) next
	edge[from, to] = $1 at($4, $2) " " what($4, $2, $3)
	if (("only", from) in rule) {
		if (index(rule["only", from] " ", " " $3 " ") == 0)
			bad($1 at($4, $2) ": " what($4, $2, $3) "; " from " may use only" rule["only", from])
	} else if ((to in floor) && (from in floor) && floor[to] <= floor[from])
		bad($1 at($4, $2) ": " what($4, $2, $3) ": " from " is on floor " floor[from] \
		    ", and " to " is not below it (floor " floor[to] ")")
}

# Take away what uses nothing that is left, then what nothing left uses: circles remain.
function circles(e, kind, detail,   k, p, more, uses, used, node, n) {
	do {
		more = 0
		split("", uses); split("", used)
		for (k in e) { split(k, p, SUBSEP); uses[p[1]]++; used[p[2]]++ }
		for (k in e) {
			split(k, p, SUBSEP)
			if (!(p[2] in uses) || !(p[1] in used)) { delete e[k]; more = 1 }
		}
	} while (more)
	for (k in e) {
		split(k, p, SUBSEP)
		bad("circle of " kind ": " p[1] " -> " p[2] (detail ? " (" e[k] ")" : ""))
	}
}
END {
	circles(edge, "folders", 1)
	circles(unit, "files", 0)
	exit errors != 0
}' "$tmp/rules" "$tmp/files" "$tmp/uses" >"$tmp/out"
status=$?
if [ -s "$tmp/twice" ]; then
	cat "$tmp/twice" >>"$tmp/out"
	status=1
fi
sort -u "$tmp/out"
[ "$status" = 0 ] && echo "layers: $(wc -l <"$tmp/files") files keep to the floors"
exit "$status"
