#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
# vpmu's files for Prometheus and Grafana, without a vpmud: rules, their results of series of known
# values, scrape configurations, and that the dashboard and the documents name what there is.
. "$(dirname "$0")/../integration/vpmud_lib.inc"
. "$(dirname "$0")/prom_lib.inc"
need promtool jq
here=$(cd "$(dirname "$0")" && pwd)

out=$(promtool check rules "$share/prometheus/vpmu.rules.yml" "$share/prometheus/vpmu.alerts.yml" 2>&1) ||
	check "promtool check rules" "$out" "no fault"
out=$(promtool test rules "$here/rules_test.yml" 2>&1) || check "promtool test rules" "$out" "no fault"
# Each alert has a case in which it is raised.
for alert in $(sed -n 's/^ *- alert: //p' "$share/prometheus/vpmu.alerts.yml"); do
	grep -A3 "alertname: $alert\$" "$here/rules_test.yml" | grep -q 'exp_labels' ||
		check "a case for alert $alert" none "one in rules_test.yml"
done
for config in "$share"/prometheus/scrape/*.yml; do
	# Debian's Prometheus is built without Kubernetes: the rest of that file is checked then.
	out=$(promtool check config --syntax-only "$config" 2>&1) && continue
	case $out in
	*"field kubernetes_sd_configs not found"*)
		echo "# SKIP $(basename "$config"): kubernetes_sd_configs, which this promtool does not know"
		sed '/kubernetes_sd_configs:/,/role:/d' "$config" >"$dir/rest.yml"
		out=$(promtool check config --syntax-only "$dir/rest.yml" 2>&1) && continue
		;;
	esac
	check "promtool check config $(basename "$config")" "$out" "no fault"
done
# Names that the dashboard and the alerts use are recorded or exported.
jq -r '.. | .expr? // empty, (.templating?.list[]?.query?.query? // empty)' "$share/grafana/vpmu.json" >"$dir/queries"
[ -s "$dir/queries" ] || check "queries of the dashboard" none some
cat "$share"/prometheus/*.yml "$dir/queries" | grep -o 'vpmu:[a-z0-9_:]*' | sort -u >"$dir/used"
sed -n 's/^ *- record: //p' "$share/prometheus/vpmu.rules.yml" | sort >"$dir/recorded"
check "recorded series that are used but not recorded" "$(comm -23 "$dir/used" "$dir/recorded")" ""
finish
