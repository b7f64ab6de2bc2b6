#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
# Completions of all programs in real shells: sh shells.sh bash|zsh|fish
#
# Each shell completes by its own machinery: bash as bash-completion calls the function, zsh at a terminal
# (zpty) with compinit, fish by `complete -C`. tests/integration/cli_completion.sh has the fine points of
# bash; here all three must know the same things.
. "$(dirname "$0")/../integration/cli_lib.inc"
. "$(dirname "$0")/../integration/answers.inc"
shell=$1
command -v "$shell" >/dev/null || { echo "# SKIP no $shell"; exit 77; }
here=$(cd "$(dirname "$0")" && pwd) completions=$here/../../cli/completions
PATH=$VPMU_BIN:$PATH
# A slow machine answers as well.
export VPMU_COMPLETE_SECONDS=600
export PATH HOME="$dir" XDG_CONFIG_HOME="$dir" XDG_DATA_HOME="$dir" LC_ALL=C.UTF-8

start_server --paused --vm "$(vm web-1 tenant=/acme/web 'spin 1000000')" \
	--vm "$(vm web-2 tenant=/acme/web 'spin 1000000')" --vm "$(vm db-1 tenant=/bob 'spin 1000000')"
"$vpmu" attach bill-march -e cycles || exit 1
mkdir "$dir/work"
touch "$dir/work/image.elf" "$dir/work/file.ini"

# The words that the shell offers for a line that is typed up to its end, sorted, on one line.
ask_bash() {
	bash --norc -c '
		. "$1/vpmu.bash"
		COMP_LINE=$2 COMP_POINT=${#2}
		read -ra COMP_WORDS <<<"$2"
		[[ $2 == *" " ]] && COMP_WORDS+=("")
		COMP_CWORD=$((${#COMP_WORDS[@]} - 1))
		eval "$(complete -p "${COMP_WORDS[0]}" | sed "s/.*-F \([a-z_]*\).*/\1/")"
		printf "%s\n" "${COMPREPLY[@]}"' - "$completions" "$1"
}
ask_fish() {
	fish --no-config -c '
		source $argv[1]/vpmu.fish
		complete -C $argv[2]' "$completions" "$1" | cut -f1
}
mkdir "$dir/zsh" && cp "$completions/vpmu.zsh" "$dir/zsh/_vpmu"
ask_zsh() { timeout 1800 zsh -f "$here/ask.zsh" "$dir/zsh" "$1"; }

# bash answers what stands behind the last = of a word, as the shell splits there; zsh answers the part that
# is new; fish answers whole words. So the part before the last = or comma is removed.
ask() {
	(cd "$dir/work" && "ask_$shell" "$1" 2>"$dir/err") | sed 's/.*[=,]\(.\)/\1/; s/=$//; s/ *$//; /^$/d' |
		LC_ALL=C sort -u >"$dir/got"
	check "$shell: $1: words with blanks" "$(grep ' ' "$dir/got")" ""
	got=$(tr '\n' ' ' <"$dir/got")
	[ -s "$dir/err" ] && check "$1: standard error" "$(cat "$dir/err")" ""
}
completes() { # LINE WANT
	ask "$1"
	check "$shell: $1" "$got" "${2:+$2 }"
}
has() { # LINE WORD...
	ask "$1"
	line=$1
	shift
	for word; do
		case " $got " in
		*" $word "*) ;;
		*) check "$shell: $line: an answer" "$got" "$word" ;;
		esac
	done
}

# Every command of the program, and every option of every command.
commands=$("$vpmu" help | sed -n '/^Commands:/,$s/^  \([a-z]*\) .*/\1/p')
[ "$(echo "$commands" | wc -l)" -gt 15 ] || check "commands in the help" "$commands" "more than 15"
has "vpmu " $commands
for c in $commands; do
	has "vpmu $c --" $("$vpmu" help "$c" | sed -n 's/^  .\{4\}\(--[a-z-]*\).*/\1/p')
done
completes "vpmu st" "stat"
completes "vpmu help pro" "profile"
completes "vpmu --so" "--socket"
has "vpmu-vmm --" $("$vmm" --help | sed -n 's/^  .\{4\}\(--[a-z-]*\).*/\1/p')
has "vpmud --" $("$VPMU_BIN/vpmud" --help | sed -n 's/^  .\{4\}\(--[a-z-]*\).*/\1/p')
completes "vpmud --config fi" "file.ini"
if [ -x "$VPMU_BIN/vpmu-exporter" ]; then
	has "vpmu-exporter --" $("$VPMU_BIN/vpmu-exporter" --help | sed -n 's/^  .\{4\}\(--[a-z-]*\).*/\1/p')
	completes "vpmu-exporter --config fi" "file.ini"
fi

# Names of the server as it is now.
completes "vpmu stat -t w" "web-1 web-2"
completes "vpmu stat --target=/b" "/bob"
completes "vpmu detach b" "bill-march"
completes "vpmu stat --session=b" "bill-march"
completes "vpmu pause web-" "web-1 web-2"
completes "vpmu vm rm d" "db-1"
completes "vpmu vm save db-1 fi" "file.ini"
completes "vpmu tenant rm /acme/w" "/acme/web"
completes "vpmu -S $VPMU_SOCKET profile d" "db-1"
completes "vpmu -S /nowhere profile d" ""

# Values.
completes "vpmu stat --for-each v" "vcpu vm"
completes "vpmu lbr --mode=call" "call-stack calls"
completes "vpmu stat -e instr" "instructions"
completes "vpmu stat -e cycles,branches-t" "branches-taken"
completes "vpmu stat -M ipc,branch-m" "branch-miss-rate branch-mpki"
completes "vpmu stat -o fi" "file.ini"
completes "vpmu vm add e" "engine"
completes "vpmu vm add name=x pmu=amd-" "amd-core amd-k7 amd-v2"
completes "vpmu vm add tenant=/b" "/bob"
completes "vpmu vm set db-1 w" "weight"
completes "vpmu-vmm --lbr=b" "branches"
completes "vpmu-vmm --vm name=x,eng" "engine"
completes "vpmu-vmm --vm name=x,engine=e" "emulator"
completes "vpmu-vmm -c fi" "file.ini"

stop_server
completes "vpmu stat -t w" ""

# Names that a shell would expand are not offered (more of them: tests/integration/cli_completion.sh).
vm='{"kind":"vm","path":"/","depth":1,"vcpus":1,"backend":"emulator","vm":'
answers <<END
list {"nodes":[$vm"\$(touch $dir/ran)"},$vm"\`touch $dir/ran\`"},$vm"*"},$vm"~root"},$vm"-rf"},$vm"a;b"},$vm"fine"}],"ok":true}
END
completes "vpmu pause " "fine"
check "what a name runs" "$(ls "$dir" | grep ran)" ""
finish
