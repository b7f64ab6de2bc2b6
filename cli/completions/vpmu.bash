# SPDX-License-Identifier: GPL-2.0-or-later
# bash completion of all programs: the program answers (service/program/complete.h).
_vpmu() {
	local line=${COMP_LINE:0:COMP_POINT} words kept='' answer files
	read -a words <<<"$line"
	[[ -z $line || $line == *[[:blank:]] ]] && words+=('')
	COMPREPLY=()
	# The shell has split the last word at : and =, and inserts only what is behind the last of these.
	[[ ${words[-1]} == *[:=]* ]] && kept=${words[-1]%"${words[-1]##*[:=]}"}
	while IFS= read -r answer; do
		case $answer in
		$'\tmore') compopt -o nospace 2>/dev/null ;;
		$'\tfiles\t'*)
			answer=${answer#$'\tfiles\t'}
			compopt -o filenames 2>/dev/null
			mapfile -t files < <(compgen -f -- "${words[-1]#"$answer"}")
			files=("${files[@]/#/"$answer"}")
			COMPREPLY+=("${files[@]#"$kept"}")
			;;
		*) answer=${answer%%$'\t'*} && COMPREPLY+=("${answer#"$kept"}") ;;
		esac
	done < <("${words[0]/#\~/$HOME}" --complete "${words[@]:1}" 2>/dev/null </dev/null)
}
complete -F _vpmu vpmu vpmu-vmm vpmud vpmu-exporter
