#compdef vpmu vpmu-vmm vpmud vpmu-exporter
# SPDX-License-Identifier: GPL-2.0-or-later
# zsh completion of all programs: the program answers (service/program/complete.h).
local answer word files=no
local -a list more
for answer in "${(@f)$(${~words[1]} --complete "${(@Q)words[2,CURRENT-1]}" "${(Q)PREFIX}" 2>/dev/null </dev/null)}"; do
	case $answer in
	$'\tmore') more=(-S '') ;;
	$'\tfiles\t'*) files=${answer#$'\tfiles\t'} ;;
	?*)
		word=${answer%%$'\t'*}
		list+=("${word//:/\\:}${${answer#"$word"}/$'\t'/:}")
		;;
	esac
done
(( $#list )) && _describe "${words[1]:t}" list "${more[@]}"
[[ $files == no ]] && return
IPREFIX+=$files PREFIX=${PREFIX#"$files"}
_files
