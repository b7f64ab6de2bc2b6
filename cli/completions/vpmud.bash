# SPDX-License-Identifier: GPL-2.0-or-later
# bash completion of vpmud
_vpmud() {
	local cur=${COMP_WORDS[COMP_CWORD]} last=
	((COMP_CWORD)) && last=${COMP_WORDS[COMP_CWORD - 1]}
	# The shell splits --config=FILE at =.
	[[ $cur == = ]] && cur=
	[[ $last == = ]] && last=${COMP_WORDS[COMP_CWORD - 2]}
	if [[ $last == -c || $last == --config ]]; then
		compopt -o filenames 2>/dev/null
		mapfile -t COMPREPLY < <(compgen -f -- "$cur")
	else
		mapfile -t COMPREPLY < <(compgen -W '-c --config -C --check-config --help --usage --version' -- "$cur")
	fi
}
complete -F _vpmud vpmud
