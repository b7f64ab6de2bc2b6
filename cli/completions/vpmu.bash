# SPDX-License-Identifier: GPL-2.0-or-later
# bash completion of vpmu and vpmu-vmm. Commands and options are asked of the programs, so they are those of
# the installed version. Tenants, VMs, sessions and events are those of the server as they are now.

_vpmu_ask() { # arguments of vpmu; output for the shell, never an error
	timeout "${VPMU_COMPLETE_SECONDS:-2}" "$program" "${server[@]}" "$@" 2>/dev/null </dev/null
}

_vpmu_field() { # JSON field of each line: values, one per line
	sed -n "s/.*\"$1\":\"\([^\"]*\)\".*/\1/p"
}

_vpmu_targets() {
	_vpmu_ask list -j | sed -n \
		-e '/"kind":"vm"/s/.*"vm":"\([^"]*\)".*/\1/p' \
		-e '/"kind":"vm"/!s/.*"path":"\([^"]*\)".*/\1/p'
}

_vpmu_tenants() {
	_vpmu_ask list -j | grep '"kind":"tenant"' | _vpmu_field path
}

_vpmu_vms() {
	_vpmu_ask list -j | _vpmu_field vm
}

_vpmu_sessions() {
	_vpmu_ask sessions -j | _vpmu_field session
}

_vpmu_commands() {
	_vpmu_ask help | sed -n '/^Commands:/,$s/^  \([a-z]*\) .*/\1/p'
}

_vpmu_options() { # PROGRAM ARG...: its options, from its help
	timeout "${VPMU_COMPLETE_SECONDS:-2}" "$@" 2>/dev/null </dev/null | sed -n 's/^  *-?, --/      --/; s/^  *\(-[A-Za-z]\)\{0,1\},\{0,1\} *\(--[a-z-]*\)\{0,1\}.*/\1 \2/p'
}

# _vpmu_reply PREFIX WORD...: what begins with the value that is typed, behind PREFIX. The shell has
# split the word at : and =, so only what is behind the last of these may be answered.
_vpmu_reply() {
	local prefix=$1 typed=${cur#"$1"} done= word
	shift
	[[ $cur == *[:=]* ]] && done=${cur%"${cur##*[:=]}"}
	for word; do
		[[ $word == "$typed"* ]] || continue
		word=$prefix$word
		COMPREPLY+=("${word#"$done"}")
	done
}

_vpmu_files() { # PREFIX
	local IFS=$'\n'
	compopt -o filenames 2>/dev/null
	_vpmu_reply "$1" $(compgen -f -- "${cur#"$1"}")
}

# The values of the keys of a VM. KEY PREFIX
_vpmu_key_value() {
	case $1 in
	engine) _vpmu_reply "$2" auto emulator kvm ;;
	pmu) _vpmu_reply "$2" none intel-v2 intel-v3 intel-v4 intel-v5 amd-k7 amd-core amd-v2 ;;
	policy) _vpmu_reply "$2" full standard architectural off ;;
	lbr) _vpmu_reply "$2" on off ;;
	tenant) _vpmu_reply "$2" $(_vpmu_tenants) ;;
	name) _vpmu_reply "$2" $(_vpmu_vms) ;;
	image | kernel | initrd) _vpmu_files "$2" ;;
	esac
}

# The keys of a VM, from the help of the server's program, which is beside vpmu.
_vpmu_vm_keys() {
	timeout "${VPMU_COMPLETE_SECONDS:-2}" "${program%"${program##*/}"}vpmu-vmm" --help 2>/dev/null </dev/null | tr -s ' \n' '  ' |
		sed -n 's/.*its keys: \([a-z_, -]*[a-z]\) --.*/\1/p' | sed 's/,* *$/=/; s/, */= /g'
}

# The value of an option, behind PREFIX. Fails if the option has none that is known. OPTION PREFIX
_vpmu_value() {
	local list item
	case $1 in
	-S | --socket | -o | --output | --config | --cgroup-root | --bundle) _vpmu_files "$2" ;;
	-e | --event)
		list=$2
		[[ ${cur#"$2"} == *,* ]] && list=${cur%,*},
		_vpmu_reply "$list" $(_vpmu_ask events -j | _vpmu_field event)
		compopt -o nospace 2>/dev/null
		;;
	-M | --metrics)
		list=$2
		[[ ${cur#"$2"} == *,* ]] && list=${cur%,*},
		_vpmu_reply "$list" $(_vpmu_ask metrics -j | _vpmu_field metric) \
			$(_vpmu_ask metrics -j | _vpmu_field group | sort -u)
		compopt -o nospace 2>/dev/null
		;;
	-t | --target) _vpmu_reply "$2" $(_vpmu_targets) ;;
	--mode) _vpmu_reply "$2" call-stack branches calls ;;
	--for-each) _vpmu_reply "$2" tenant vm vcpu ;;
	--session) _vpmu_reply "$2" $(_vpmu_sessions) ;;
	--lbr) _vpmu_reply "$2" off branches call-stack ;;
	--migrate) _vpmu_reply "$2" none balance random ;;
	--vm)
		list=$2 item=${cur#"$2"}
		if [[ $item == *,* ]]; then
			list+=${item%,*},
			item=${item##*,}
		fi
		if [[ $item == *=* ]]; then
			_vpmu_key_value "${item%%=*}" "$list${item%%=*}="
		else
			_vpmu_reply "$list" $(_vpmu_vm_keys)
		fi
		compopt -o nospace 2>/dev/null
		;;
	-d | --duration | --delay | -I | --interval-print | --timeout | -r | --repeat | -n | --times | \
		--iterations | -x | --field-separator | -c | --count | -f | --filter) ;;
	*) return 1 ;;
	esac
	return 0 # compopt fails where nothing is being completed
}

# Set words, to what is typed up to the cursor, and cur, to its last word: whole words, not split at : and =.
_vpmu_split() {
	local line=${COMP_LINE:0:COMP_POINT}
	read -ra words <<<"$line"
	[[ -z $line || $line == *[[:blank:]] ]] && words+=('')
	cur=${words[-1]}
	program=${words[0]/#\~/$HOME}
}

# The value of the option that is typed as --OPTION=VALUE or as OPTION VALUE. Fails if none is.
_vpmu_option_value() {
	if [[ $cur == --*=* ]]; then
		_vpmu_value "${cur%%=*}" "${cur%%=*}="
	else
		_vpmu_value "${words[${#words[@]} - 2]}" ''
	fi
}

_vpmu() {
	local cur program cmd= i n=0 first=
	local -a words server=() args=()
	_vpmu_split
	COMPREPLY=()
	for ((i = 1; i < ${#words[@]} - 1; i++)); do
		case ${words[i]} in
		-S | --socket) server=(-S "${words[++i]}") ;;
		--socket=*) server=(-S "${words[i]#*=}") ;;
		-*) ;;
		*)
			if [[ $cmd ]]; then
				args+=("${words[i]}")
			else
				cmd=${words[i]}
			fi
			;;
		esac
	done
	((${#words[@]} > 1)) && _vpmu_option_value && return
	if [[ $cur == -* ]]; then
		if [[ $cmd ]]; then
			_vpmu_reply '' $(_vpmu_options "$program" help "$cmd")
		else
			_vpmu_reply '' $(_vpmu_options "$program" --help)
		fi
		return
	fi
	first=${args[0]-}
	case $cmd in
	'') _vpmu_reply '' $(_vpmu_commands) ;;
	help) _vpmu_reply '' $(_vpmu_commands) ;;
	profile | lbr) _vpmu_reply '' $(_vpmu_targets) ;;
	detach) _vpmu_reply '' $(_vpmu_sessions) ;;
	pause | resume | console) _vpmu_reply '' $(_vpmu_vms) ;;
	tenant)
		if [[ -z $first ]]; then
			_vpmu_reply '' add rm set
		elif [[ $first == set && ${#args[@]} -gt 1 ]]; then
			_vpmu_reply '' weight= max_events=
			compopt -o nospace 2>/dev/null
		else
			_vpmu_reply '' $(_vpmu_tenants)
		fi
		;;
	vm)
		case $first,${#args[@]} in
		,*) _vpmu_reply '' add rm set save restore ;;
		rm,1 | save,1 | set,1) _vpmu_reply '' $(_vpmu_vms) ;;
		save,2 | restore,1) _vpmu_files '' ;;
		*)
			if [[ $cur == *=* ]]; then
				_vpmu_key_value "${cur%%=*}" "${cur%%=*}="
			elif [[ $first == add ]]; then
				_vpmu_reply '' $(_vpmu_vm_keys)
			elif [[ $first == restore ]]; then
				_vpmu_reply '' name= tenant= policy= memory= allow= deny= trust= weight= \
					tenant_weight= max_events= tenant_max_events=
			elif [[ $first == set ]]; then
				_vpmu_reply '' weight= max_events=
			fi
			compopt -o nospace 2>/dev/null
			;;
		esac
		;;
	esac
}

_vpmu_vmm() {
	local cur program
	local -a words server=()
	_vpmu_split
	COMPREPLY=()
	case ${words[${#words[@]} - 2]-} in
	-c) _vpmu_files '' && return ;;
	esac
	local vmm=$program
	program=${program%-vmm} # who knows tenants and VMs
	_vpmu_option_value && return
	_vpmu_reply '' $(_vpmu_options "$vmm" --help)
}

complete -F _vpmu vpmu
complete -F _vpmu_vmm vpmu-vmm
