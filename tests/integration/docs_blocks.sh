#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
# Runs every command of README.md, docs/operator-guide.md, guest-guide.md and lab.md, in order, as a reader
# would: each page in a shell of its own, in a folder that looks like the source tree after a build.
#
# A page shows commands in fenced blocks with the info string "console":
#
#     ```console
#     $ command          a command; a line that ends in \ goes on in the next
#     output             its output, see below
#     ```
#
# Words behind "console" are options. Readers do not see them:
#     fails              each command of the block must fail; otherwise each must succeed
#     needs PROGRAM      the block is skipped where there is no PROGRAM
#     skip REASON...     the block is not run
#
# A command without output on the page must print nothing. Each line of output on the page must be a line
# that the command prints, in any order; a line "..." stands for any lines, and ... in a line for any text.
# Any number but 0 stands for any number but 0, and blanks are one blank. (So a count of 0 where the page
# shows one is an error.) "[NAME] " in front of a guest's line may be left out on the page.
# A command that ends in & must become a server that answers. What looks at VMs that run (stat, top, profile,
# lbr) may look ten times: at one instant a VM may be elsewhere than the page shows.
#
# By hand: VPMU_BIN=build/bin VPMU_GUEST=build/guest/guest.elf sh tests/integration/docs_blocks.sh [PAGE]
# PAGE is a page's path; without it all pages are run.
src=$(cd "$(dirname "$0")/../.." && pwd) || exit 1
here=$src/tests/integration
VPMU_BIN=$(cd "${VPMU_BIN:?}" && pwd) || exit 1
. "$here/cli_lib.inc"
unset XDG_RUNTIME_DIR

# ---- a folder like the source tree ----
# The server gets a socket of the test's own, unless the page names one, and is otherwise the real one.
tree=$dir/tree
mkdir -p "$tree/build/bin" "$dir/home" || exit 1
for f in "$src"/*; do
	[ "${f##*/}" = build ] || ln -s "$f" "$tree/"
done
for f in "$VPMU_BIN"/../*; do
	[ "${f##*/}" = bin ] || ln -s "$(realpath "$f")" "$tree/build/"
done
ln -s "$VPMU_BIN/vpmu" "$tree/build/bin/vpmu"
cat >"$tree/build/bin/vpmu-vmm" <<END
#!/bin/sh
for arg; do
	case \$arg in --socket | --socket=* | --no-socket) exec "$VPMU_BIN/vpmu-vmm" "\$@" ;; esac
done
exec "$VPMU_BIN/vpmu-vmm" --socket "$VPMU_SOCKET" "\$@"
END
chmod +x "$tree/build/bin/vpmu-vmm"
export HOME="$dir/home" LC_ALL=C.UTF-8

# ---- pages ----
# split PAGE FOLDER: N.cmd, N.want and N.where of each command; N.what has the words behind "console".
split() {
	mkdir -p "$2"
	awk -v to="$2" -v page="$1" '
	function end_of_command() { if (n) { close(base ".cmd"); close(base ".want") } }
	/^ *```/ {
		if (fence) { fence = 0; console = 0; end_of_command(); next }
		fence = 1
		what = $0; sub(/^ *``` */, "", what)
		block++
		console = what ~ /^console( |$)/
		sub(/^console */, "", what)
		more = 0
		next
	}
	console && (more || /^\$ /) {
		line = $0
		if (!more) {
			end_of_command()
			base = sprintf("%s/%03d", to, ++n)
			printf "" >(base ".want")
			print page ":" NR >(base ".where"); close(base ".where")
			print (block == seen ? "again" : "first"), what >(base ".what"); close(base ".what")
			seen = block
			line = substr(line, 3)
		}
		print line >(base ".cmd")
		more = line ~ /\\$/
		next
	}
	console {
		if (!n) print page ":" NR ": output without a command"
		else print >(base ".want")
		next
	}
	/^ *\$ / || (!fence && /^(    |\t)(build\/bin\/|bin\/|vpmu |vpmu-vmm |cmake |tools\/deps)/) {
		print page ":" NR ": a command that is in no console block, so that this test cannot run it: " $0
	}
	END { if (fence) print page ": the last block has no end" }' "$1"
}

# shape: the compared part of a line. A number is "0" or "#".
shape() {
	awk '{
		sub(/\r$/, ""); out = ""
		while (match($0, /0x[0-9a-f]+|[0-9][0-9,]*(\.[0-9]+)?[KMGT]?/)) {
			number = substr($0, RSTART, RLENGTH)
			out = out substr($0, 1, RSTART - 1) (number ~ /^0x|[1-9]/ ? "#" : "0")
			$0 = substr($0, RSTART + RLENGTH)
		}
		out = out $0
		gsub(/[ \t]+/, " ", out); sub(/^ /, "", out); sub(/ $/, "", out)
		print out
	}'
}

# missing WANT GOT: the lines of WANT that GOT has not.
missing() {
	shape <"$2" >"$2.shape"
	sed 's/^\[[A-Za-z0-9_.:@-]*\] //' "$2" | shape >>"$2.shape"
	shape <"$1" | awk -v got="$2.shape" -v want="$1" '
	# parts[] of the wanted line, in this order, in line; "..." stands between them
	function fits(line, n,    i, at) {
		if (index(line, parts[1]) != 1) return 0
		line = substr(line, length(parts[1]) + 1)
		for (i = 2; i <= n; i++) {
			if (i == n) {
				at = length(line) - length(parts[i]) + 1
				return at >= 1 && substr(line, at) == parts[i]
			}
			at = index(line, parts[i])
			if (!at) return 0
			line = substr(line, at + length(parts[i]))
		}
		return line == ""
	}
	BEGIN {
		while ((getline line <got) > 0) have[++count] = line
		while ((getline line <want) > 0) shown[++lines] = line
	}
	$0 != "" && $0 != "..." {
		n = split($0, parts, /\.\.\./)
		for (i = 1; i <= count; i++) if (fits(have[i], n)) next
		print shown[NR]
	}'
}

failed_command() { # what is wrong
	failures=$((failures + 1))
	printf 'FAILED %s: %s\n    %s\n' "$(cat "$n.where")" "$(head -n 1 "$n.cmd")" "$1"
	[ ! -s "$n.missing" ] || sed 's/^/        /' "$n.missing"
	if [ -s "$n.out" ]; then
		echo "    it printed:"
		head -n 40 "$n.out" | sed 's/^/        /'
	else
		echo "    it printed nothing"
	fi
}

answers() { "$vpmu" -S "$1" sharing; }

# started PID: a command that ends in &; until it answers at the command's address.
started() {
	socket=$(sed -n 's/.*--socket[ =]\([^ ]*\).*/\1/p' "$n.cmd")
	socket=$(eval "printf %s \"$socket\"")
	servers="$servers $1"
	wait_for "$1" answers "${socket:-$VPMU_SOCKET}" || failed_command "the server does not answer"
}

one_command() {
	read -r nth what <"$n.what"
	why=
	case $what in
	skip\ *) why=${what#skip } ;;
	needs\ *) command -v "${what#needs }" >/dev/null || why="no ${what#needs }" ;;
	esac
	if [ -n "$why" ]; then # said once for a block
		[ $nth = again ] || echo "# SKIP $(cat "$n.where"): $why"
		return
	fi
	total=$((total + 1))
	tries=1
	case $(cat "$n.cmd") in
	*vpmu\ stat\ * | *vpmu\ top\ * | *vpmu\ profile\ * | *vpmu\ lbr\ *) tries=10 ;;
	esac
	while :; do
		eval "$(cat "$n.cmd")" >"$n.out" 2>&1 </dev/null
		status=$?
		missing "$n.want" "$n.out" >"$n.missing"
		tries=$((tries - 1))
		[ -s "$n.missing" ] && [ $status = 0 ] && [ $tries != 0 ] || break
	done
	case $(sed 's/[[:blank:]]*# .*//' "$n.cmd") in
	*\&) started $!; return ;;
	esac
	if [ "$what" = fails ]; then
		[ $status != 0 ] || { failed_command "exit status 0, but the page says that it fails"; return; }
	elif [ $status != 0 ]; then
		failed_command "exit status $status"
		return
	fi
	if [ -s "$n.missing" ]; then
		failed_command "it did not print:"
	elif [ -s "$n.want" ] && [ ! -s "$n.out" ]; then
		failed_command "the page shows output"
	elif [ ! -s "$n.want" ] && [ -s "$n.out" ]; then
		failed_command "the page shows no output"
	fi
}

end_of_page() {
	for pid in $servers; do
		kill "$pid" 2>/dev/null
		wait "$pid"
	done
}

page() {
	blocks=$dir/$(basename "$1")
	split "$1" "$blocks" >"$dir/outside"
	if [ -s "$dir/outside" ]; then
		sed 's/^/FAILED /' "$dir/outside"
		failures=$(($(grep -c . "$dir/outside") + failures))
	fi
	servers= total=0
	cd "$tree" || return 1
	trap end_of_page EXIT
	trap 'exit 143' INT TERM
	for n in "$blocks"/*.cmd; do
		[ -e "$n" ] || continue
		n=${n%.cmd}
		one_command
	done
	echo "$1: $total commands, $failures failures"
	[ $total != 0 ] || echo "FAILED $1: no command was run"
	[ $failures = 0 ] && [ $total != 0 ]
}

cd "$src" || exit 1
bad=0
for p in "${@:-}"; do
	for p in ${p:-README.md docs/operator-guide.md docs/guest-guide.md docs/lab.md}; do
		(page "$p") || bad=1
	done
done
exit $bad
