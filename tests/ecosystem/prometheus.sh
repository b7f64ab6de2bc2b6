#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
# Two vpmuds as two hosts, simulated hosts with hardware counters (vpmu-fleet), and one Prometheus: every query
# of the dashboard is answered, with the rules in force; what moves from one host to the other is counted once.
. "$(dirname "$0")/../integration/vpmud_lib.inc"
. "$(dirname "$0")/prom_lib.inc"
need prometheus promtool curl jq
if [ "$(id -u)" != 0 ]; then
	echo "# SKIP not root: vpmud cannot count"
	exit 77
fi
need_run
need_cgroups
events=context-switches,page-faults,task-clock

host() { # NAME: a vpmud whose tenants are the cgroups of $ground/NAME, and its exporter
	mkdir -p "$ground/$1/acme" "$ground/$1/mover"
	printf '[vpmud]\nsocket = %s\npin_dir = none\nlibvirt = none\n' "$run/$1.sock" >"$dir/$1.conf"
	printf '[tenant /acme]\ncgroup = %s/acme\n[tenant /mover]\ncgroup = %s/mover\n' "$top/$1" "$top/$1" >>"$dir/$1.conf"
	"$vpmud" -c "$dir/$1.conf" >"$dir/$1.log" 2>&1 &
	server_of=$!
	jobs="$jobs $server_of"
	if ! wait_for "$server_of" "$vpmu" -S "$run/$1.sock" sessions; then
		if grep -Eq 'does not permit|no BTF' "$dir/$1.log"; then
			echo "# SKIP counting: $(tail -1 "$dir/$1.log")"
			exit 77
		fi
		check "vpmud starts" "$(cat "$dir/$1.log")" "it answers"
		finish
	fi
	exporter "$run/$1.sock" -- "events = $events" 'listen = :PORT'
}
host h1
port1=$port
host h2
port2=$port
serve_fleet 2 3 8
cat >"$dir/prometheus.yml" <<END
global: {scrape_interval: 2s, evaluation_interval: 2s}
rule_files: ["$dir/*.rules.yml"]
scrape_configs:
  - job_name: vpmu
    static_configs:
      - {targets: ["127.0.0.1:$port1"], labels: {instance: h1}}
      - {targets: ["127.0.0.1:$port2"], labels: {instance: h2}}
      - {targets: ["127.0.0.1:$port"], labels: {instance: f0, __metrics_path__: /0/metrics}}
      - {targets: ["127.0.0.1:$port"], labels: {instance: f1, __metrics_path__: /1/metrics}}
END
# As shipped, but the rules for neighbours are evaluated every two seconds, and ask for no CPU of their own.
sed 's/interval: 1m/interval: 2s/; s/ offset 10m//; s/>= 0.25/>= 0/' "$share/prometheus/vpmu.rules.yml" >"$dir/vpmu.rules.yml"
cp "$share/prometheus/vpmu.alerts.yml" "$dir/alerts.rules.yml"

# ---- each host has a VM of the tenant, which is a process in its cgroup ----
in_group() { # HOST/TENANT COMMAND...: in the background, as $of_group
	cg=$ground/$1
	shift
	sh -c 'echo $$ >"$0/cgroup.procs" && exec "$@"' "$cg" "$@" >/dev/null 2>&1 &
	of_group=$!
	jobs="$jobs $of_group"
}
for h in h1 h2; do
	in_group $h/acme "$vmm" --no-socket --vm "name=$h,image=$image,engine=emulator,args=spin"
	"$vpmu" -S "$run/$h.sock" attach -e page-faults --target /mover bill >/dev/null || exit 1
done
start_prometheus "$dir/prometheus.yml"
jobs_up() { [ "$(number 'count(up{job="vpmu"} == 1)')" = 4 ]; }
wait_for "$prom_pid" jobs_up
seen() { [ "$(number 'count(vpmu:tenant_ipc:cycles_2m) > bool 0')" = 1 ]; }
wait_for "$prom_pid" seen
neighbours() { [ -n "$(number 'count(vpmu:tenant_cpi:outlier)')" ]; }
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
# All of these events are counted: none is missing. Without a hardware PMU it is not known how many counters are
# left.
left=$(printf '%s\n' "$empty" | grep -Ev '^$|events_missing|vpmu_cpu_counters_left|tenant_neighbours')
check "queries of the dashboard without an answer here" "$left" ""
[ $n -ge 20 ] || check "queries of the dashboard" $n "20 or more"
echo "# $n queries of the dashboard were answered"
for v in $(jq -r '.templating.list[] | select(.type == "query") | .query.query' "$share/grafana/vpmu.json" |
	sed -n 's/label_values(\([a-z_]*\).*, \([a-z]*\))$/\1:\2/p'); do
	at_least "values of \$${v#*:}" "$(query "group by (${v#*:}) (${v%:*})" | jq '.data.result | length')" 1
done
check "rules without a fault" "$(curl -sf "$prom/api/v1/rules" | jq -r '.data.groups[].rules[] | select(.health != "ok") | .name')" ""
becomes 2 'vpmu:fleet_tenant_domains:count{tenant="/acme"}' # one of each host

# Prometheus 2.42 stores when a counter began as one more series: tenants' counters have it, VMs' do not.
some=$(number 'count({__name__=~"vpmu_tenant_.*_created"})')
none=$(number 'count({__name__=~"vpmu_domain_.*_created"}) or vector(0)')
at_least "series of when tenants' counters began" "$some" 1
check "series of when VMs' counters began" "$none" 0

# ---- what moves is counted where it runs ----
counted='vpmu_tenant_events_total{tenant="/mover",event="page-faults"}'
becomes 2 "count($counted == 0)" # both hosts count the tenant, in which nothing has run
in_group h1/mover sh -c 'while :; do /bin/true; done'
mover=$of_group
counts_on() { [ "$(number "$(printf '%s' "$counted" | sed "s/}/,instance=\"$1\"}/") > bool 0")" = 1 ]; }
on_h1() { counts_on h1; }
on_h2() { counts_on h2; }
wait_for "$prom_pid" on_h1
echo "$mover" >"$ground/h2/mover/cgroup.procs" || check "it moves" failed done
wait_for "$prom_pid" on_h2
kill "$mover"
wait "$mover" 2>/dev/null
nobody() { ! grep -q . "$ground/h1/mover/cgroup.procs" "$ground/h2/mover/cgroup.procs"; } # its last child, too
wait_for "$prom_pid" nobody
sum=0
for s in h1 h2; do
	c=$("$vpmu" -S "$run/$s.sock" detach bill -j | jq -r 'select(.event == "page-faults") | ."counter-value"')
	sum=$((sum + c))
	echo "# $s: $c page faults of what moved"
	[ "${c:-0}" -gt 0 ] || check "it ran on $s" "$c" "more than 0"
done
# The counts of both vpmuds are, in Prometheus, its work.
becomes "$sum" "sum($counted)"
finish
