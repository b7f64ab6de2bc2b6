# SPDX-License-Identifier: GPL-2.0-or-later
# fish completion of vpmu and vpmu-vmm. As in bash: commands and options are asked of the programs, so they
# are those of the installed version. Tenants, VMs, sessions and events are those of the server now.

# What is typed: the program, its server, the command, its arguments.
function __vpmu_parse
	set -g __vpmu_tokens (commandline -opc)
	set -g __vpmu_cur (commandline -ct)
	set -g __vpmu_program (string replace -r '^~' $HOME -- $__vpmu_tokens[1])
	set -g __vpmu_server
	set -g __vpmu_cmd ''
	set -g __vpmu_args
	set -l i 2
	while test $i -le (count $__vpmu_tokens)
		set -l word $__vpmu_tokens[$i]
		switch $word
			case -S --socket
				set i (math $i + 1)
				test $i -le (count $__vpmu_tokens); and set __vpmu_server -S $__vpmu_tokens[$i]
			case '--socket=*'
				set __vpmu_server -S (string replace -- --socket= '' $word)
			case '-*'
			case '*'
				if test -n "$__vpmu_cmd"
					set -a __vpmu_args $word
				else
					set __vpmu_cmd $word
				end
		end
		set i (math $i + 1)
	end
end

function __vpmu_timeout # a program that may not answer
	set -l seconds 2
	set -q VPMU_COMPLETE_SECONDS; and set seconds $VPMU_COMPLETE_SECONDS
	timeout $seconds $argv
end

function __vpmu_ask # arguments of vpmu; its output, never an error
	__vpmu_timeout (string replace -r -- '-vmm$' '' $__vpmu_program) $__vpmu_server $argv 2>/dev/null </dev/null
end

function __vpmu_field # JSON field of each line: values, one per line
	sed -n "s/.*\"$argv[1]\":\"\([^\"]*\)\".*/\1/p"
end

function __vpmu_vms
	__vpmu_ask list -j | __vpmu_field vm
end

function __vpmu_tenants
	__vpmu_ask list -j | string match -r '.*"kind":"tenant".*' | __vpmu_field path
end

function __vpmu_sessions
	__vpmu_ask sessions -j | __vpmu_field session
end

function __vpmu_targets
	for line in (__vpmu_ask list -j)
		if string match -q '*"kind":"vm"*' -- $line
			echo $line | __vpmu_field vm
		else
			echo $line | __vpmu_field path
		end
	end
end

function __vpmu_commands
	__vpmu_ask help | sed -n '/^Commands:/,$s/^  \([a-z]*\)  *\(.*\)/\1\t\2/p'
end

# The options in the help of a program: PROGRAM ARG...
function __vpmu_options
	for line in (__vpmu_timeout $argv 2>/dev/null </dev/null)
		set -l m (string match -r '^ +(-\S.*?)(?:  +(.*))?$' -- $line); or continue
		for name in (string split ', ' -- $m[2])
			printf '%s\t%s\n' (string replace -r '[\[=].*' '' -- $name) "$m[3]"
		end
	end
end

# The keys of a VM, from the help of the server's program, which is beside vpmu.
function __vpmu_vm_keys
	__vpmu_timeout (string replace -r -- 'vpmu(-vmm)?$' vpmu-vmm $__vpmu_program) --help 2>/dev/null </dev/null |
		tr -s ' \n' '  ' | sed -n 's/.*its keys: \([a-z_, -]*[a-z]\) --.*/\1/p' |
		string replace -a ' ' '' | string split , | string replace -r '$' =
end

function __vpmu_key_value # PREFIX KEY TYPED: values of a key of a VM, each behind PREFIX
	set -l values
	switch $argv[2]
		case engine
			set values auto emulator kvm
		case pmu
			set values none intel-v2 intel-v3 intel-v4 intel-v5 amd-k7 amd-core amd-v2
		case policy
			set values full standard architectural off
		case lbr
			set values on off
		case tenant
			set values (__vpmu_tenants)
		case name
			set values (__vpmu_vms)
		case image kernel initrd
			set values (__fish_complete_path $argv[3] | string replace -r '\t.*' '')
	end
	for v in $values
		echo $argv[1]$v
	end
end

# Keys of a word KEY=VALUE, or the values of the key that is typed: PREFIX WORD KEY...
function __vpmu_keys
	set -l m (string match -r '^([a-z_]+)=(.*)$' -- $argv[2])
	if set -q m[1]
		__vpmu_key_value $argv[1]$m[2]= $m[2] $m[3]
	else
		for key in $argv[3..]
			echo $argv[1]$key
		end
	end
end

# What is before the last comma of a list, with the comma.
function __vpmu_before
	string match -rq '^(?<__vpmu_b>.*,)' -- $argv[1]; and echo $__vpmu_b
end

# The values of an option, each behind PREFIX. Fails if it has none that is known. OPTION TYPED PREFIX
function __vpmu_value
	set -l values
	set -l before $argv[3]
	switch $argv[1]
		case -S --socket -o --output --config --cgroup-root --bundle
			set values (__fish_complete_path $argv[2] | string replace -r '\t.*' '')
		case -c
			string match -q '*vpmu-vmm' -- $__vpmu_program
			and set values (__fish_complete_path $argv[2] | string replace -r '\t.*' '')
		case -e --event
			set before $before(__vpmu_before $argv[2]; or echo)
			set values (__vpmu_ask events -j | __vpmu_field event)
		case -M --metrics
			set before $before(__vpmu_before $argv[2]; or echo)
			set values (__vpmu_ask metrics -j | __vpmu_field metric) (__vpmu_ask metrics -j | __vpmu_field group | sort -u)
		case -t --target
			set values (__vpmu_targets)
		case --mode
			set values call-stack branches calls
		case --for-each
			set values tenant vm vcpu
		case --session
			set values (__vpmu_sessions)
		case --lbr
			set values off branches call-stack
		case --migrate
			set values none balance random
		case --vm
			set before $before(__vpmu_before $argv[2]; or echo)
			__vpmu_keys $before (string replace -r '^.*,' '' -- $argv[2]) (__vpmu_vm_keys)
			return 0
		case -d --duration --delay -I --interval-print --timeout -r --repeat -n --times --iterations -x \
				--field-separator --count -f --filter
		case '*'
			return 1
	end
	for v in $values
		echo $before$v
	end
	return 0
end

function __vpmu_option_value
	set -l m (string match -r '^(--[a-z-]+)=(.*)$' -- $__vpmu_cur)
	if set -q m[1]
		__vpmu_value $m[2] $m[3] $m[2]=
	else
		__vpmu_value $__vpmu_tokens[-1] $__vpmu_cur ''
	end
end

function __vpmu_complete_vmm
	__vpmu_parse
	__vpmu_option_value; or __vpmu_options $__vpmu_program --help
end

function __vpmu_complete
	__vpmu_parse
	__vpmu_option_value; and return
	if string match -q -- '-*' $__vpmu_cur
		if test -n "$__vpmu_cmd"
			__vpmu_options $__vpmu_program help $__vpmu_cmd
		else
			__vpmu_options $__vpmu_program --help
		end
		return
	end
	set -l n (count $__vpmu_args)
	set -l first ''
	test $n -gt 0; and set first $__vpmu_args[1]
	switch $__vpmu_cmd
		case '' help
			__vpmu_commands
		case profile lbr
			__vpmu_targets
		case detach
			__vpmu_sessions
		case pause resume console
			__vpmu_vms
		case tenant
			if test -z "$first"
				printf '%s\n' add rm set
			else if test "$first" = set -a $n -gt 1
				__vpmu_keys '' $__vpmu_cur weight= max_events=
			else
				__vpmu_tenants
			end
		case vm
			switch $first,$n
				case ',*'
					printf '%s\n' add rm set save restore
				case rm,1 save,1 set,1
					__vpmu_vms
				case save,2 restore,1
					__fish_complete_path $__vpmu_cur
				case 'add,*'
					__vpmu_keys '' $__vpmu_cur (__vpmu_vm_keys)
				case 'restore,*'
					__vpmu_keys '' $__vpmu_cur name= tenant= policy= memory= allow= deny= trust= weight= \
						tenant_weight= max_events= tenant_max_events=
				case 'set,*'
					__vpmu_keys '' $__vpmu_cur weight= max_events=
			end
	end
end

complete -c vpmu -e
complete -c vpmu -f -a '(__vpmu_complete)'
