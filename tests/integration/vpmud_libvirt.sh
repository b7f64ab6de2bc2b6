#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
# Domains of libvirt through vpmud: found before and after it starts, by vCPU, over kill -9, hotplug,
# restart and end. Two owners of domains: a program
# that has libvirt's embedded driver (which one process may use, so vpmud finds its domains in /proc), and a
# libvirtd of a user's session, with the tenant in the metadata.
. "$(dirname "$0")/vpmud_lib.inc"
user=65534 # libvirt's drivers as root want a user that only libvirt-daemon-system makes
# The user's libvirt and QEMU read their files as any other user does.
for p in virsh qemu-system-x86_64; do
	command -v $p >/dev/null || {
		echo "# SKIP no $p (packages libvirt-daemon-driver-qemu, libvirt-clients, qemu-system-x86)"
		exit 77
	}
done
[ "$(id -u)" = 0 ] || { echo "# SKIP not root: vpmud cannot count"; exit 77; }
need_run
mount_bpf || { echo "# SKIP no BPF file system can be mounted"; exit 77; }
emb=emb-$$ ses=ses-$$ # domains
pid_dir=
end_domains() { # they outlive whoever started them
	for f in "$run"/u/r/run/qemu/*.pid "$run"/u/run/libvirt/qemu/run/*.pid "$run"/u/run/libvirt/*.pid; do
		[ ! -s "$f" ] || kill -KILL "$(cat "$f")" 2>/dev/null
	done
	end_places
}
on_exit=end_domains

# ---- owners of domains ----
home=$run/u
mkdir -m 700 "$home" "$home/run" "$home/r" "$home/r/etc"
cat >"$home/r/etc/qemu.conf" <<END
security_driver = "none"
cgroup_controllers = []
namespaces = []
stdio_handler = "file"
remember_owner = 0
END
# Its first vCPU loops with interrupts off: cli; jmp .
{
	printf '\372\353\376'
	head -c 507 /dev/zero
	printf '\125\252'
	head -c 65024 /dev/zero
} >"$home/busy.img"
domain() { # NAME TENANT: its XML, in a file
	cat >"$home/$1.xml" <<END
<domain type='qemu'><name>$1</name><memory unit='MiB'>32</memory><vcpu current='1'>2</vcpu>
<metadata><vpmu:tenant xmlns:vpmu='urn:vpmu:1'>$2</vpmu:tenant></metadata>
<os><type arch='x86_64' machine='pc'>hvm</type><boot dev='hd'/></os><devices>
<disk type='file' device='disk'><driver name='qemu' type='raw'/><source file='$home/busy.img'/>
<target dev='hda' bus='ide'/></disk>
<video><model type='none'/></video><memballoon model='none'/></devices></domain>
END
}
domain "$emb" "/not-seen-$$"
domain "$ses" "/meta-$$"
chown -R $user:$user "$home"
as_user="env HOME=$home XDG_RUNTIME_DIR=$home/run setpriv --reuid $user --regid $user --clear-groups"
export LIBVIRT_LOG_OUTPUTS=4:file:/dev/null
unset XDG_CONFIG_HOME XDG_CACHE_HOME

# virsh has the embedded driver as long as it runs.
mkfifo "$dir/say"
$as_user virsh -q -c "qemu:///embed?root=$home/r" <"$dir/say" >"$dir/said" 2>&1 &
owner=$!
jobs="$jobs $owner"
exec 9>"$dir/say"
echo "echo I am here" >&9
answers() { grep -q '^I am here' "$dir/said"; }
if ! wait_for "$owner" answers; then
	echo "# SKIP libvirt's embedded driver: $(tail -n 1 "$dir/said")"
	exit 77
fi

embedded() { echo "$*" >&9; } # a command of virsh; it runs later
# The process of a domain, from libvirt's file.
pid_of() { cat "$pid_dir/$1.pid" 2>/dev/null; }
has_pid() { [ -n "$(pid_of "$1")" ] && kill -0 "$(pid_of "$1")" 2>/dev/null; }
has_none() { ! has_pid "$1"; }

# ---- vpmud ----
begin_conf
cat >>"$conf" <<END
[tenant /named-$$]
vm = $emb
vm_owner = $user
END
row() { "$vpmu" list -j | jq -r --arg v "$1" 'select(.vm == $v) | "\(.path) \(.vcpus) \(.pid)"'; }
is() { [ "$(row "$1")" = "$2" ]; }
gone() { [ -z "$(row "$1")" ]; }
tenant_of() { # SESSION TENANT: its CPU time
	"$vpmu" stat --session "$1" -j | jq -r --arg t "$2" \
		'select(.tenant == $t and .event == "task-clock") | .count'
}
vcpu() { # TENANT VM INDEX
	"$vpmu" stat --session each -x, >"$dir/read" && cell "$dir/read" task-clock "$1" "$2" "$3"
}
above() { [ "$(vcpu "$1" "$2" "$3")" -gt "$4" ] 2>/dev/null; }
# life TENANT VM COMMAND START: a domain that runs already, to its end. COMMAND runs virsh for it.
life() {
	tenant=$1 vm=$2 do=$3 again=$4
	pid=$(pid_of "$vm")
	had=$(tenant_of sum "$tenant") # of those before this one
	[ "${had:-null}" != null ] || had=0
	gone "$vm" || had=0 # this one's, too
	wait_for "$server" is "$vm" "$tenant 1 $pid"
	wait_for "$server $pid" above "$tenant" "$vm" 0 0
	# The loop is on vCPU 0. It is counted while no client is there.
	before=$(vcpu "$tenant" "$vm" 0)
	kill_server KILL
	sleep 1
	$again
	wait_for "$server" is "$vm" "$tenant 1 $pid"
	at_least "$vm: vCPU 0 over kill -9" "$(vcpu "$tenant" "$vm" 0)" "$before"
	# Another vCPU. It waits for an interrupt that never comes.
	$do setvcpus "$vm" 2
	wait_for "$server" is "$vm" "$tenant 2 $pid"
	at=$(vcpu "$tenant" "$vm" 0)
	wait_for "$server $pid" above "$tenant" "$vm" 0 $((at + 300000000))
	v1=$(vcpu "$tenant" "$vm" 1)
	case $v1 in
	"<not counted>") ;; # it never ran
	"" | *[!0-9]*) check "$vm: vCPU 1" "$v1" "a count" ;;
	*) [ "$v1" -lt 100000000 ] || check "$vm: vCPU 1, which is idle" "$v1 ns" "little" ;;
	esac
	# An event that is enabled late has what happens from then on.
	"$vpmu" attach late -e task-clock,context-switches -t "$tenant" >/dev/null || exit 1
	at=$(vcpu "$tenant" "$vm" 0)
	wait_for "$server $pid" above "$tenant" "$vm" 0 $((at + 300000000))
	at_least "$vm: late, all of it" "$(tenant_of late "$tenant")" 300000000
	v0=$(vcpu "$tenant" "$vm" 0)
	at_least "$vm: the tenant has what its vCPU has" "$(tenant_of sum "$tenant")" $((v0 + had))
	t1=$(tenant_of sum "$tenant")
	"$vpmu" detach late >/dev/null
	$do destroy "$vm"
	wait_for "$server" has_none "$vm"
	wait_for "$server" gone "$vm"
	at_least "$vm: the tenant keeps it" "$(tenant_of sum "$tenant")" "$t1"
}

# The first one runs before vpmud does.
pid_dir=$home/r/run/qemu
embedded create "$home/$emb.xml"
failed() { grep -q '^error' "$dir/said"; }
there() { has_pid "$emb" || failed; }
wait_for "$owner" there
if failed; then
	echo "# SKIP libvirt's embedded driver: $(grep '^error' "$dir/said" | tr '\n' ' ')"
	exit 77
fi
start
"$vpmu" attach sum -e task-clock --for-each tenant >/dev/null || exit 1
"$vpmu" attach each -e task-clock --for-each vcpu >/dev/null || exit 1
life "/named-$$" "$emb" embedded start
# The next one of the name is another process, and comes while vpmud is there.
embedded create "$home/$emb.xml"
wait_for "$owner" has_pid "$emb"
life "/named-$$" "$emb" embedded start
"$vpmu" conservation >"$dir/out" || check "conservation" "$(cat "$dir/out")" "equal everywhere"
check "what virsh said" "$(grep '^error' "$dir/said")" ""
calls=$("$vpmu" check -j | jq -r 'select(.what == "contain: system calls") | .why')
stop

# ---- a session's libvirtd, with the tenant in the metadata; vpmud as a user of its own ----
if ! command -v libvirtd >/dev/null; then
	echo "# SKIP metadata: no libvirtd (package libvirt-daemon)"
	finish
fi
# AddressSanitizer's xdrmem_create() calls a function that libvirt brings only later.
case $calls in
*sanitizer*) echo "# SKIP metadata: a build with a sanitizer"; finish ;;
esac
$as_user libvirtd >"$dir/libvirtd.log" 2>&1 &
owner=$!
jobs="$jobs $owner"
uri="qemu:///session?socket=$home/run/libvirt/libvirt-sock"
session() { # a command of virsh
	$as_user virsh -q -c "$uri" "$@" >"$dir/out" 2>&1 || check "virsh $*" "$(cat "$dir/out")" "no error"
}
answers() { $as_user virsh -q -c "$uri" list; }
if ! wait_for "$owner" answers; then
	echo "# SKIP metadata: libvirtd does not start: $(tail -n 1 "$dir/libvirtd.log")"
	finish
fi
# Pins of another user are refused, so this is another directory.
$as_user mkdir -m 711 "$home/d"
chmod 711 "$home" "$dir"
sed -i "s|^socket.*|socket = $home/d/s|; s|^libvirt.*|libvirt = $uri|; s|^pin_dir.*|&-user|; /^\[tenant/,\$d" "$conf"
chmod 644 "$conf"
VPMU_SOCKET=$home/d/s
unit=+bpf,+perfmon,+sys_ptrace,+dac_read_search
user_vpmud() { # as vpmud's unit does with User= and AmbientCapabilities=
	start $as_user --inh-caps "-all,$unit" --ambient-caps "$unit" --bounding-set "-all,$unit"
}
user_vpmud
facts() { sed -n "s/^$1:[[:space:]]*//p" "/proc/$server/status"; }
check "its user" "$(facts Uid | tr '\t' ' ')" "$user $user $user $user"
check "its rights" "$((0x$(facts CapEff)))" $((0xc000080004))
"$vpmu" attach sum -e task-clock --for-each tenant >/dev/null || exit 1
"$vpmu" attach each -e task-clock --for-each vcpu >/dev/null || exit 1
pid_dir=$home/run/libvirt/qemu/run
session create "$home/$ses.xml"
life "/meta-$$" "$ses" session user_vpmud

# What Nova writes: the project is the tenant, without a rule.
nova=nova-$$ project=$(printf '8c1a1a2f1e3b4bb0a7b3%012x' $$)
domain "$nova" unused
sed -i "s|<metadata>.*</metadata>|<metadata><nova:instance \
xmlns:nova='http://openstack.org/xmlns/libvirt/nova/1.1'><nova:name>web</nova:name><nova:owner>\
<nova:user uuid='$project'>u</nova:user><nova:project uuid='$project'>acme</nova:project></nova:owner>\
</nova:instance></metadata>|" "$home/$nova.xml"
session create "$home/$nova.xml"
wait_for "$server" is "$nova" "/$project 1 $(pid_of "$nova")"
check "Nova's project" "$(row "$nova")" "/$project 1 $(pid_of "$nova")"
session destroy "$nova"
wait_for "$server" gone "$nova"

# A name from libvirt needs no vm_owner.
name=name-$$
printf '[tenant /by-name]\nvm = %s\n' $name >>"$conf"
"$vpmu" reload >"$dir/out" 2>&1 || check "reload" "$(cat "$dir/out")" "no error"
domain "$name" unused
sed -i 's|<metadata>.*</metadata>||' "$home/$name.xml"
session create "$home/$name.xml"
wait_for "$server" is "$name" "/by-name 1 $(pid_of "$name")"
check "a name of libvirt" "$(row "$name")" "/by-name 1 $(pid_of "$name")"
session destroy "$name"
wait_for "$server" gone "$name"
"$vpmu" conservation >"$dir/out" || check "conservation as a user" "$(cat "$dir/out")" "equal everywhere"
stop
finish
