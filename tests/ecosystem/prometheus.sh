#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
# Two vpmuds, each with a vpmu-vmm, and one Prometheus: every query of the dashboard is answered, with the
# rules in force; a VM that moves from one host to the other is counted once.
. "$(dirname "$0")/vpmud_lib.inc"
. "$(dirname "$0")/prom_lib.inc"
need prometheus promtool curl jq
if [ "$(id -u)" != 0 ]; then
	echo "# SKIP not root: vpmud cannot count"
	exit 77
fi
need_run
events=instructions,cycles,ref-cycles,context-switches,page-faults,task-clock,cache-misses

host() { # NAME: a vpmud with its place for vpmu-vmm's sockets
	mkdir -p "$run/$1"
	while :; do
		free_port
		printf '[vpmud]\nsocket = %s\npin_dir = none\nlibvirt = none\nvmm_sockets = %s\n[metrics]\nevents = %s\nlisten = :%s\n' \
			"$run/$1.sock" "$run/$1/*" "$events" "$port" >"$dir/$1.conf"
		"$vpmud" -c "$dir/$1.conf" >"$dir/$1.log" 2>&1 &
		server_of=$!
		jobs="$jobs $server_of"
		wait_for "$server_of" "$vpmu" -S "$run/$1.sock" sessions && return 0
		grep -q 'Address already in use' "$dir/$1.log" && continue
		if grep -Eq 'does not permit|no BTF' "$dir/$1.log"; then
			echo "# SKIP counting: $(tail -1 "$dir/$1.log")"
			exit 77
		fi
		check "vpmud starts" "$(cat "$dir/$1.log")" "it answers"
		finish
	done
}
host h1
port1=$port
host h2
port2=$port
cat >"$dir/prometheus.yml" <<END
global: {scrape_interval: 2s, evaluation_interval: 2s}
rule_files: ["$dir/*.rules.yml"]
scrape_configs:
  - job_name: vpmu
    static_configs:
      - {targets: ["127.0.0.1:$port1"], labels: {instance: h1}}
      - {targets: ["127.0.0.1:$port2"], labels: {instance: h2}}
END
# As shipped, but the rules for neighbours are evaluated every two seconds, and ask for no CPU of their own.
sed 's/interval: 1m/interval: 2s/; s/ offset 10m//; s/>= 0.25/>= 0/' "$share/prometheus/vpmu.rules.yml" >"$dir/vpmu.rules.yml"
cp "$share/prometheus/vpmu.alerts.yml" "$dir/alerts.rules.yml"

# ---- two hosts with VMs of two tenants ----
run_vmm() { # HOST ARG...
	h=$1
	shift
	"$vmm" --socket "$run/$h/vmm" --hold --console stdout --snapshot-dir "$run" "$@" >"$dir/$h.vmm" 2>&1 &
	vmm_of=$!
	jobs="$jobs $vmm_of"
	wait_for "$vmm_of" "$vpmu" -S "$run/$h/vmm" sharing || check "vpmu-vmm" "$(cat "$dir/$h.vmm")" "it answers"
}
vm_of() { printf 'name=%s,image=%s,engine=emulator,tenant=%s,args=%s' "$1" "$image" "$2" "$3"; }
run_vmm h1 --paused --vm "$(vm_of one /acme spin)" --vm "$(vm_of two /globex spin)" \
	--vm "$(vm_of mover /mover spin)"
# The holder never runs: by it the tenant is there before the VM comes.
run_vmm h2 --paused --vm "$(vm_of three /acme spin)" --vm "$(vm_of holder /mover/holder spin)"
vmm2=$vmm_of
for s in "$run/h1/vmm" "$run/h2/vmm"; do
	"$vpmu" -S "$s" attach -e instructions --target /mover bill >/dev/null || exit 1
done
"$vpmu" -S "$run/h1/vmm" resume one && "$vpmu" -S "$run/h1/vmm" resume two && "$vpmu" -S "$run/h2/vmm" resume three ||
	check "vpmu resume" failed done
start_prometheus "$dir/prometheus.yml"
jobs_up() { [ "$(number 'count(up{job="vpmu"} == 1)')" = 2 ]; }
wait_for "$prom_pid" jobs_up
seen() { [ "$(number 'count(vpmu:tenant_ipc:cycles_2m{backend="emulator",tenant=~"/acme|/globex"})')" = 3 ]; }
wait_for "$prom_pid" seen
neighbours() { [ -n "$(number 'count(vpmu:tenant_cpi:outlier{backend="emulator"})')" ]; }
wait_for "$prom_pid" neighbours

# ---- the dashboard: each query is answered, and with something where this host has it ----
jq -r '.panels[].targets[].expr' "$share/grafana/vpmu.json" >"$dir/queries"
n=0 empty=
while IFS= read -r expr; do
	expr=$(printf '%s' "$expr" | sed 's/\$__rate_interval/1m/g; s/\$event/instructions/g; s/\$[a-z]*"/.+"/g')
	answer=$(query "$expr") || { check "$expr" "no answer" "an answer"; continue; }
	check "$expr" "$(printf '%s' "$answer" | jq -r .status)" success
	[ "$(printf '%s' "$answer" | jq '.data.result | length')" -gt 0 ] || empty="$empty
$expr"
	n=$((n + 1))
done <"$dir/queries"
# The emulator has no cache: of misses there is nothing. Without a hardware PMU it is not known how many
# counters are left.
left=$(printf '%s\n' "$empty" | grep -Ev '^$|misses|vpmu_cpu_counters_left|tenant_neighbours')
check "queries of the dashboard without an answer here" "$left" ""
[ $n -ge 20 ] || check "queries of the dashboard" $n "20 or more"
echo "# $n queries of the dashboard were answered"
for v in $(jq -r '.templating.list[] | select(.type == "query") | .query.query' "$share/grafana/vpmu.json" |
	sed -n 's/label_values(\([a-z_]*\).*, \([a-z]*\))$/\1:\2/p'); do
	at_least "values of \$${v#*:}" "$(query "group by (${v#*:}) (${v%:*})" | jq '.data.result | length')" 1
done
becomes 2 'count(vpmu_tenant_events_quality{tenant="/acme",event="cycles",quality="modelled"})' # modelled cycles say so
check "rules without a fault" "$(curl -sf "$prom/api/v1/rules" | jq -r '.data.groups[].rules[] | select(.health != "ok") | .name')" ""
becomes 2 'vpmu:fleet_tenant_domains:count{tenant="/acme"}'

# Prometheus 2.42 stores when a counter began as one more series: tenants' counters have it, VMs' do not.
some=$(number 'count({__name__=~"vpmu_tenant_.*_created"})')
none=$(number 'count({__name__=~"vpmu_domain_.*_created"}) or vector(0)')
at_least "series of when tenants' counters began" "$some" 1
check "series of when VMs' counters began" "$none" 0

# ---- a VM that moves ----
counted='vpmu_tenant_events_total{tenant="/mover",backend="emulator",event="instructions"}'
becomes 2 "count($counted == 0)" # both hosts count the tenant, which has not run
on() { [ "$(query "vpmu_domain_info{domain=\"mover\"}" | jq -r '[.data.result[].metric.instance] | join(" ")')" = "$1" ]; }
wait_for "$prom_pid" on h1
"$vpmu" -S "$run/h1/vmm" resume mover
for vm in one two; do "$vpmu" -S "$run/h1/vmm" pause $vm; done
"$vpmu" -S "$run/h2/vmm" pause three
ran() { [ "$(number "max($counted)")" -gt 0 ]; }
wait_for "$prom_pid" ran
moved=yes
"$vpmu" -S "$run/h1/vmm" vm save mover "$run/m.snap" >"$dir/out" 2>&1 || moved=$(cat "$dir/out")
if [ "$moved" = yes ]; then
	"$vpmu" -S "$run/h1/vmm" vm rm mover
	"$vpmu" -S "$run/h2/vmm" vm restore m.snap policy=full tenant=/mover
	wait_for "$prom_pid" on h2
fi
check "it moved while it ran" "$moved" yes
"$vpmu" -S "$run/h2/vmm" resume mover >/dev/null 2>&1 # a server with --paused does not let it run
there() { [ "$(number "$(printf '%s' "$counted" | sed 's/}/,instance="h2"}/')")" -gt 0 ]; }
wait_for "$prom_pid" there
"$vpmu" -S "$run/h2/vmm" pause mover
sum=0
for s in h1 h2; do
	c=$("$vpmu" -S "$run/$s/vmm" detach bill -j | jq -r 'select(.event == "instructions") | ."counter-value"')
	sum=$((sum + c))
	echo "# $s: $c instructions of the VM that moved"
	[ "${c:-0}" -gt 0 ] || check "the VM ran on $s" "$c" "more than 0"
done
# What both vpmuds counted is, in Prometheus, what the VM did.
becomes "$sum" "sum($counted)"
becomes 1 'count(vpmu_domain_info{domain="mover"})'
finish
