#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
# Many simulated hosts (vpmu-fleet) and one real Prometheus with the shipped rules: every host is scraped, the
# tenants' totals are the sums over the hosts, and the dashboard's queries are answered. What it took is
# printed: docs/fleet.md has a large one. By hand, with sizes and the seconds to run:
#   FLEET_HOSTS=1000 FLEET_VMS=100 FLEET_INTERVAL=15 FLEET_SECONDS=300 VPMU_BIN=build/bin \
#   VPMU_GUEST=build/guest/guest.elf sh tests/ecosystem/fleet.sh
. "$(dirname "$0")/../integration/vpmud_lib.inc"
. "$(dirname "$0")/prom_lib.inc"
need prometheus curl jq
hosts=${FLEET_HOSTS:-12} vms=${FLEET_VMS:-5} interval=${FLEET_INTERVAL:-2} seconds=${FLEET_SECONDS:-1}
cp "$share/prometheus/vpmu.rules.yml" "$dir/vpmu.rules.yml"
serve_fleet "$hosts" "$vms" 8
"$fleet" config "$port" "$hosts" "$interval" >"$dir/prometheus.yml"
start_prometheus "$dir/prometheus.yml"
printf '  - job_name: self\n    static_configs:\n      - {targets: ["127.0.0.1:%s"]}\n' "$port" >>"$dir/prometheus.yml"
kill -HUP "$prom_pid"

# ---- all hosts, and their sums ----
lines=$(grep -vc '^#' "$dir/one")
up() { [ "$(number 'sum(up{job="vpmu"})')" = "$hosts" ]; }
wait_for "$prom_pid" up
becomes "$((hosts * lines))" 'sum(scrape_samples_scraped{job="vpmu"})'
becomes "$((hosts * vms))" 'count(vpmu_domain_info)'
becomes 10 'count(vpmu:fleet_tenant_run_seconds:rate_2m > 0)'
# The rule's total is the sum of its hosts'.
becomes 0 'count(abs(vpmu:fleet_tenant_events:estimate_2m{event="cycles"} / ignoring (event) sum without (event, instance, job) (vpmu:tenant_events:estimate_2m{event="cycles"}) - 1) > 0.2) or vector(0)'

# ---- its cost ----
self() { [ -n "$(number 'sum(rate(prometheus_tsdb_head_samples_appended_total[1m]))')" ]; }
wait_for "$prom_pid" self
self || check "Prometheus about itself" "$(tail -3 "$dir/prometheus.log")" "its samples"
sleep "$seconds"
hz=$(getconf CLK_TCK)
cpu() { awk -v hz="$hz" '{ print ($14 + $15) / hz }' "/proc/$1/stat"; }
a=$(cpu "$prom_pid")
t=$(date +%s.%N)
sleep $((interval * 2))
b=$(cpu "$prom_pid")
t2=$(date +%s.%N)
echo "# $hosts hosts x $vms VMs x 8 events, every $interval s: $lines samples of a host, $(wc -c <"$dir/one") bytes"
echo "# series: $(number prometheus_tsdb_head_series); samples a second: $(number 'sum(rate(prometheus_tsdb_head_samples_appended_total[1m]))')"
echo "# Prometheus: $(echo "$a $b $t $t2" | awk '{ printf "%.2f", ($2 - $1) / ($4 - $3) }') CPUs," \
	"$(awk '$1 == "VmRSS:" { r = $2 } $1 == "VmHWM:" { h = $2 } END { printf "%d MiB resident, %d MiB at most", r / 1024, h / 1024 }' "/proc/$prom_pid/status")," \
	"$(du -sm "$dir/tsdb" | cut -f1) MiB on disk; a scrape takes $(number 'max(scrape_duration_seconds{job="vpmu"})') s at most," \
	"evaluating the rules $(number 'sum(prometheus_rule_group_last_duration_seconds)') s," \
	"skipped evaluations: $(number 'sum(prometheus_rule_group_iterations_missed_total)');" \
	"targets that answered in time: $(number 'sum(up{job="vpmu"})')"
curl -s "$prom/api/v1/rules" | jq -r '.data.groups[] | "#   every \(.interval) s: \(.name), \(.evaluationTime) s;",
	(.rules | sort_by(-.evaluationTime)[:3][] | "#     \(.evaluationTime) s: \(.name)")'
jq -r '.panels[].targets[].expr' "$share/grafana/vpmu.json" >"$dir/queries"
end=$(date +%s)
# Once for all hosts together, and once for one host of them, which is how somebody looks at VMs.
for show in .+ h0; do
	: >"$dir/asked"
	while IFS= read -r expr; do
		expr=$(printf '%s' "$expr" | sed 's/\$__rate_interval/1m/g; s/\$event/cycles/g; s/instance=~"\$instance"/instance=~"'"$show"'"/g; s/\$[a-z]*"/.+"/g')
		curl -s -o "$dir/answer" -w '%{time_total}' --data-urlencode "query=$expr" -d "start=$((end - 300))" -d "end=$end" -d step=15 \
			"$prom/api/v1/query_range" >"$dir/time"
		check "$expr" "$(jq -r .status "$dir/answer" 2>&1)" success >&2
		echo "$(cat "$dir/time") $expr" >>"$dir/asked"
	done <"$dir/queries"
	sort -rn "$dir/asked" >"$dir/times"
	awk -v show="$show" '{ s += $1; n++ } END { printf "# %d queries of the dashboard over 5 minutes, hosts %s: %.2f s in all; the slowest:\n", n, show, s }' "$dir/times"
	head -3 "$dir/times" | cut -c1-150 | sed 's/^/#   /'
done
finish
