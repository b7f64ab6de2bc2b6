# SPDX-License-Identifier: GPL-2.0-or-later
# bash completion of vpmu: asks the server for tenants, VMs, sessions and events as they are now.

_vpmu_ask() { # arguments of vpmu; output for the shell, never an error
	timeout 2 vpmu "$@" 2>/dev/null
}

_vpmu_field() { # JSON field of each line: values, one per line
	sed -n "s/.*\"$1\":\"\([^\"]*\)\".*/\1/p"
}

_vpmu_targets() {
	_vpmu_ask "${server[@]}" list -j | sed -n \
		-e '/"kind":"vm"/s/.*"vm":"\([^"]*\)".*/\1/p' \
		-e '/"kind":"vm"/!s/.*"path":"\([^"]*\)".*/\1/p'
}

_vpmu_vms() {
	_vpmu_ask "${server[@]}" list -j | _vpmu_field vm
}

# An element of a comma separated list.
_vpmu_events() {
	local head= names
	[[ $cur == *,* ]] && head=${cur%,*},
	names=$(_vpmu_ask "${server[@]}" events -j | _vpmu_field event)
	COMPREPLY=($(compgen -P "$head" -W "$names" -- "${cur##*,}"))
	compopt -o nospace
}

_vpmu() {
	local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD - 1]} cmd= i
	local -a server=()
	local commands='list stat top profile lbr events check attach detach sessions sharing conservation
		tenant vm pause resume quit'

	for ((i = 1; i < COMP_CWORD; i++)); do
		case ${COMP_WORDS[i]} in
		-S | --socket) server=(-S "${COMP_WORDS[++i]}") ;;
		-*) ;;
		*)
			cmd=${COMP_WORDS[i]}
			break
			;;
		esac
	done
	COMPREPLY=()
	case $prev in
	-S | --socket)
		COMPREPLY=($(compgen -f -- "$cur"))
		return
		;;
	-e | --event)
		_vpmu_events
		return
		;;
	-t | --target)
		COMPREPLY=($(compgen -W "$(_vpmu_targets)" -- "$cur"))
		return
		;;
	--mode)
		COMPREPLY=($(compgen -W 'call-stack branches calls' -- "$cur"))
		return
		;;
	--for-each)
		COMPREPLY=($(compgen -W 'tenant vm vcpu' -- "$cur"))
		return
		;;
	--session)
		COMPREPLY=($(compgen -W "$(_vpmu_ask "${server[@]}" sessions -j | _vpmu_field session)" -- "$cur"))
		return
		;;
	esac
	case $cmd in
	'') COMPREPLY=($(compgen -W "$commands -S --socket --help --version" -- "$cur")) ;;
	stat) COMPREPLY=($(compgen -W '-e --for-each -t -I -d -x -j --session --help' -- "$cur")) ;;
	top) COMPREPLY=($(compgen -W '-e --for-each -t -d -b -n --help' -- "$cur")) ;;
	profile)
		COMPREPLY=($(compgen -W "-e -c -d -g --vcpu --folded -j --help $(_vpmu_targets)" -- "$cur"))
		;;
	lbr)
		COMPREPLY=($(compgen -W "--mode -d -n --folded -j --help $(_vpmu_targets)" -- "$cur"))
		;;
	attach) COMPREPLY=($(compgen -W '-e --for-each -t --help' -- "$cur")) ;;
	detach)
		COMPREPLY=($(compgen -W "$(_vpmu_ask "${server[@]}" sessions -j | _vpmu_field session) -x -j" -- "$cur"))
		;;
	list | events | check | sessions | sharing | conservation)
		COMPREPLY=($(compgen -W '-j --help' -- "$cur"))
		;;
	tenant)
		if [[ $prev == tenant ]]; then
			COMPREPLY=($(compgen -W 'add rm' -- "$cur"))
		else
			COMPREPLY=($(compgen -W "$(_vpmu_ask "${server[@]}" list -j | grep '"kind":"tenant"' | _vpmu_field path)" -- "$cur"))
		fi
		;;
	vm)
		if [[ $prev == vm ]]; then
			COMPREPLY=($(compgen -W 'add rm save restore' -- "$cur"))
		elif [[ $prev == restore || ${COMP_WORDS[COMP_CWORD - 2]} == save ]]; then
			COMPREPLY=($(compgen -f -- "$cur"))
		elif [[ $prev == rm || $prev == save ]]; then
			COMPREPLY=($(compgen -W "$(_vpmu_vms)" -- "$cur"))
		else
			COMPREPLY=($(compgen -W 'name= tenant= vcpus= memory= image= args= pmu= gp= fixed= engine= policy= allow= deny=' -- "$cur"))
			compopt -o nospace
		fi
		;;
	pause | resume) COMPREPLY=($(compgen -W "$(_vpmu_vms)" -- "$cur")) ;;
	esac
}

complete -F _vpmu vpmu
