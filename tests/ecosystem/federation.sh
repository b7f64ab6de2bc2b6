#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
# More than one Prometheus, with the shipped configurations except for addresses and intervals: one scrapes simulated
# hosts, one above takes the tenants' totals of it by federation, and one is sent its tenants' series by remote write.
# Every sample that these have is one of the first Prometheus, with its time and value, and nothing of VMs is there.
. "$(dirname "$0")/../integration/vpmud_lib.inc"
. "$(dirname "$0")/prom_lib.inc"
need prometheus curl jq
hosts=3 vms=4
cp "$share/prometheus/vpmu.rules.yml" "$dir/vpmu.rules.yml"
serve_fleet $hosts $vms 8
fleet_port=$port

# ---- the store that is written to ----
printf 'global: {scrape_interval: 1m}\n' >"$dir/store.yml"
tsdb=$dir/tsdb.store
start_prometheus "$dir/store.yml" --web.enable-remote-write-receiver
store=$prom store_pid=$prom_pid

# ---- the one that scrapes, and writes as in remote_write.yml ----
"$fleet" config "$fleet_port" $hosts 2 >"$dir/lower.yml"
sed -n '/^remote_write:/,$p' "$share/prometheus/scrape/remote_write.yml" | sed "s|https://metrics.example/api/v1/push|$store/api/v1/write|" \
	>>"$dir/lower.yml"
sed -i 's/^global: {/&external_labels: {region: north}, /' "$dir/lower.yml"
check "remote_write.yml is used" "$(grep -c "$store/api/v1/write" "$dir/lower.yml")" 1
tsdb=$dir/tsdb.lower
start_prometheus "$dir/lower.yml"
lower=$prom lower_pid=$prom_pid

# ---- the one above, as in federate.yml ----
sed "s/prometheus.north.example:9090/${lower#http://}/; /prometheus.south.example/,\$d; s/scrape_interval: 1m/scrape_interval: 2s/" \
	"$share/prometheus/scrape/federate.yml" | sed '$ { /- targets/d }' >"$dir/upper.yml"
check "federate.yml is used" "$(grep -c "${lower#http://}" "$dir/upper.yml")" 1
tsdb=$dir/tsdb.upper
start_prometheus "$dir/upper.yml"
upper=$prom upper_pid=$prom_pid

# samples PROMETHEUS SELECTOR: a line "LABELS TIME VALUE" for each sample of the last ten minutes
samples() {
	curl -sf --data-urlencode "query=$2[10m]" "$1/api/v1/query" | jq -r '.data.result[] |
		"\(.metric.__name__) \(.metric.tenant) \(.metric.backend) \(.metric.event) \(.metric.instance // "-")" as $l |
		.values[] | "\($l) \(.[0]) \(.[1])"' | sort
}
same() { # PROMETHEUS SELECTOR NAME: what it has is what the one below has
	samples "$1" "$2" >"$dir/$3.above"
	samples "$lower" "$2" >"$dir/$3.below"
	comm -23 "$dir/$3.above" "$dir/$3.below" >"$dir/$3.made_up"
	check "$3: samples that are not of the Prometheus below" "$(head -3 "$dir/$3.made_up")" ""
	echo "# $3: $(wc -l <"$dir/$3.above") samples of $(cut -d' ' -f1-5 "$dir/$3.above" | sort -u | wc -l) series"
}
tenants='{__name__=~"vpmu:fleet_tenant_events:estimate_2m|vpmu:fleet_tenant_run_seconds:rate_2m"}'
# Ten tenants with a rate and eight events; with five samples of each.
has() { [ "$(curl -sf --data-urlencode "query=count(count_over_time($2[10m]) >= $3)" "$1/api/v1/query" | jq -r '.data.result[0].value[1]')" = "$4" ]; }
wait_for "$upper_pid" has "$upper" "$tenants" 5 90
wait_for "$store_pid" has "$store" "$tenants" 5 90
same "$upper" "$tenants" federation
same "$store" "$tenants" remote-write
# The counters themselves are sent, of each host and tenant.
counters='vpmu_tenant_events_total'
wait_for "$store_pid" has "$store" "$counters" 5 $((hosts * 10 * 8))
same "$store" "$counters" counters
# By remote write all come in the end that are there now.
samples "$lower" "$counters" >"$dir/now"
all_came() { samples "$store" "$counters" | comm -23 "$dir/now" - >"$dir/missing" && [ ! -s "$dir/missing" ]; }
wait_for "$store_pid" all_came
check "samples that did not come" "$(head -3 "$dir/missing")" ""
# Nothing of VMs goes up.
for p in "$upper" "$store"; do
	check "series of VMs above" "$(curl -sf --data-urlencode 'query=count({__name__=~"vpmu_domain.*"}) or vector(0)' \
		"$p/api/v1/query" | jq -r '.data.result[0].value[1]')" 0
done
check "series of VMs below" "$(curl -sf --data-urlencode 'query=count(vpmu_domain_info)' "$lower/api/v1/query" |
	jq -r '.data.result[0].value[1]')" $((hosts * vms))
check "which region it was" "$(curl -sf --data-urlencode 'query=count(vpmu:fleet_tenant_run_seconds:rate_2m{region="north"})' \
	"$upper/api/v1/query" | jq -r '.data.result[0].value[1]')" 10
finish
