#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
# What "container.sh libvirt" runs inside of a Debian with libvirt's system daemon (qemu:///system), as root, under
# systemd: vpmud from its package finds domains by itself, their metadata or their scopes name the tenant as
# docs/operator-guide.md has it, and vpmu's counts agree with libvirt's. Prometheus joins both exporters' metrics.
# vpmud sees no vCPUs here, since the container has a PID namespace of its own: VMs are counted by their cgroups.
. /root/test/inside.inc
export LIBVIRT_DEFAULT_URI=qemu:///system

# Or else the host waits for its guests when it powers off.
trap 'for d in $(virsh list --name); do virsh destroy "$d"; done >/dev/null 2>&1' EXIT
domain() { # NAME: a guest without an operating system, whose vCPU loops with interrupts off (cli; jmp .)
	{
		printf '\372\353\376'
		head -c 507 /dev/zero
		printf '\125\252'
		head -c 65024 /dev/zero
	} >"/var/lib/libvirt/images/$1.img"
	cat >"$1.xml" <<-END
		<domain type='qemu'><name>$1</name><memory unit='MiB'>32</memory><vcpu>1</vcpu>
		<os><type arch='x86_64' machine='pc'>hvm</type><boot dev='hd'/></os><devices>
		<disk type='file' device='disk'><driver name='qemu' type='raw'/>
		<source file='/var/lib/libvirt/images/$1.img'/><target dev='hda' bus='ide'/></disk>
		<video><model type='none'/></video><memballoon model='none'/></devices></domain>
	END
	need virsh define "$1.xml"
	need virsh start "$1"
}
row() { vpmu list -j | jq -r --arg v "$1" 'select(.vm == $v) | "\(.path) \(.found) \(.counted) \(.uuid)"'; }
scope() { vpmu list -j | jq -r --arg v "$1" 'select(.vm == $v) | .cgroup'; }
counted() { # SESSION TENANT VM VCPU: its CPU time in ns (it is printed in msec)
	vpmu stat --session "$1" -x, | awk -F, -v t="$2" -v m="$3" -v c="$4" \
		'$3 == "task-clock" && $4 == t && $5 == m && $6 == c { printf "%.0f", $1 * 1000000 }'
}
web() { counted vms /acme/web web-1 ""; }
libvirt_says() { # the same, by the domain's cgroup
	virsh domstats --cpu-total web-1 | sed -n 's/^ *cpu.time=//p'
}
grown() { # COUNT: "yes" when web-1 has run 3 s more
	[ $(($(web) - $1)) -ge 3000000000 ] && echo yes
}

# ---- the host as Debian's packages make it; ours beside it ----
# The exporter asks for the right to manage domains, and does not get it without this.
need usermod -a -G libvirt prometheus
need systemctl restart libvirtd prometheus-libvirt-exporter
need virsh version
need apt-get install -y --no-install-recommends ./new/vpmud_*.deb ./new/vpmu_*.deb ./new/vpmu-exporter_*.deb
journalctl -u vpmud -o cat >log
if grep -Eq 'does not permit|no BTF' log; then
	echo "# SKIP $(grep -Em1 'does not permit|no BTF' log)"
	echo 'inside: all done'
	exit 0
fi
check "vpmud.service" "$(systemctl is-active vpmud.service)" active

# ---- a domain is found; the command of operator-guide.md names its tenant while it runs ----
domain web-1
uuid=$(virsh domuuid web-1 | head -1)
becomes "web-1" "/host libvirt cgroup $uuid" row web-1
command=$(sed -n 's/^\$ \(virsh metadata web-1 .*\)/\1/p' operator-guide.md)
check "commands of operator-guide.md" "$(echo "$command" | wc -l)" 1
need sh -c "$command"
becomes "web-1 with metadata" "/acme/web libvirt cgroup $uuid" row web-1

# ---- another one by its scope, with the section of operator-guide.md; metrics ----
{
	block operator-guide.md libvirt-metadata
	block operator-guide.md libvirt-scope
} >>/etc/vpmu/vpmud.conf
need vpmud --check-config
printf '[vpmu-exporter]\nevents = task-clock,context-switches\n' >/etc/vpmu/vpmu-exporter.conf
need systemctl restart vpmud
need systemctl enable --now vpmu-exporter.socket
domain acme-db
db=$(virsh domuuid acme-db | head -1)
becomes "acme-db" "/acme libvirt cgroup $db" row acme-db
becomes "web-1 after a restart" "/acme/web libvirt cgroup $uuid" row web-1
case $(scope acme-db) in
/machine.slice/machine-qemu\\x2d*\\x2dacme\\x2ddb.scope*) ;;
*) check "the cgroup of acme-db" "$(scope acme-db)" "a scope in machine.slice" ;;
esac
echo "ok: two domains of qemu:///system found by themselves, in the tenants of operator-guide.md"

# ---- vpmu's count lies between libvirt's before and after ----
need vpmu attach vms -e task-clock --for-each vm
need vpmu attach tenants -e task-clock --for-each tenant
outer0=$(libvirt_says)
v0=$(web)
inner0=$(libvirt_says)
becomes "web-1 runs" yes grown "$v0"
inner1=$(libvirt_says)
v1=$(web)
outer1=$(libvirt_says)
outer=$((outer1 - outer0)) vpmu=$((v1 - v0)) inner=$((inner1 - inner0))
# The kernel's time of a cgroup lags by a tick.
[ $inner -gt 1000000000 ] && [ $vpmu -ge $((inner - 20000000)) ] && [ $vpmu -le $((outer + 20000000)) ] ||
	check "CPU time of web-1" "$vpmu" "$inner to $outer, as libvirt says"
echo "ok: CPU time of web-1: $vpmu ns; libvirt says $inner to $outer"

# ---- Debian's exporter of libvirt and vpmud, joined by Prometheus ----
cat >/etc/prometheus/prometheus.yml <<-'END'
	global: {scrape_interval: 1s}
	scrape_configs:
	  - job_name: all
	    static_configs: [targets: ['127.0.0.1:9797', '127.0.0.1:9177']]
END
need systemctl restart prometheus
joined() {
	curl -sS -G http://127.0.0.1:9090/api/v1/query --data-urlencode \
		'query=libvirt_domain_info_cpu_time_seconds_total * on (uuid) group_left (tenant) vpmu_domain_info' |
		jq -r '.data.result | sort_by(.metric.domain)[] | "\(.metric.domain) \(.metric.tenant) \(.metric.uuid)"'
}
becomes "libvirt's metrics with vpmu's tenants" "$(printf '%s\n' "acme-db /acme $db" "web-1 /acme/web $uuid")" joined
echo "ok: Prometheus has libvirt's metrics of each domain with vpmu's tenant, by uuid"

# ---- libvirt ends and comes again: the domain runs on, and is counted on ----
need systemctl restart libvirtd
becomes "web-1 runs on" yes grown "$(web)"
becomes "web-1 after libvirt" "/acme/web libvirt cgroup $uuid" row web-1
need virsh destroy acme-db
becomes "acme-db has ended" "" row acme-db
a=$(counted tenants /acme/web "" "")
need virsh destroy web-1
becomes "web-1 has ended" "" row web-1
b=$(counted tenants /acme/web "" "")
[ "$b" -ge "$a" ] 2>/dev/null || check "the tenant's count when its VM has ended" "$b" "at least $a"
need vpmu conservation
echo "ok: counted over a restart of libvirtd, and kept by the tenant when the domain has ended"
echo 'inside: all done'
