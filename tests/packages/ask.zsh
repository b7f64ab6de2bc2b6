# SPDX-License-Identifier: GPL-2.0-or-later
# What zsh completes: zsh -f ask.zsh FOLDER LINE. A zsh at a terminal of its own (zpty) reads this file, too,
# with "inside" as its first argument; then LINE is typed to it, and a key that completes. The matches are
# what compadd, through which every completion goes, takes; they are printed one a line.
if [[ $1 == inside ]]; then
	PROMPT= RPROMPT= fpath=($2 $fpath)
	unset zle_bracketed_paste
	autoload -U compinit
	compinit -u -d $2.dump # made by the first question: without it each one takes a second more
	zstyle ':completion:*' completer _complete
	ask() {
		compadd() {
			local -a hits
			local hit
			if [[ ${argv[(I)-[OAD]]} -eq 0 ]]; then
				builtin compadd -O hits "$@"
				for hit in $hits; do print -r -- "MATCH<$hit>"; done
			fi
			builtin compadd "$@"
		}
		print
		_main_complete
		print -r -- "END""<>"
		compstate[insert]= compstate[list]=
		unfunction compadd
	}
	zle -C ask complete-word ask
	bindkey '^X' ask
	print -r -- "READY""<>"
	return
fi
zmodload zsh/zpty || exit 77
zpty shell zsh -f -i
# The marks are made of two parts where they are typed or written, so that an echo is none.
zpty -w shell "source ${(q)0:A} inside ${(q)1}"
zpty -r shell answer '*READY<>*'
zpty -n -w shell "$2"$'\x18'
zpty -r shell answer '*END<>*'
zpty -d shell
print -r -- "$answer" | tr -d '\r' | sed -n 's/.*MATCH<\(.*\)>$/\1/p'
