#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
# vpmu stat --since and vpmu report --since: what a session counted, per interval and in sum, before and after vpmud was
# killed, and the gap between. Sums are those of the session itself.
. "$(dirname "$0")/vpmud_lib.inc"
need_cgroups
need_run
mount_bpf || { echo "# SKIP no BPF file system can be mounted"; exit 77; }

begin_conf
printf 'history_interval = 1\nhistory = 600\n' >>"$conf"
tenant /acme acme /bob bob
mkdir "$ground/acme" "$ground/bob"

# The count of page faults of tenant $1 in JSON lines; nothing for a gap.
faults() { # TENANT
	jq -r --arg t "$1" 'select(.tenant == $t and .event == "page-faults" and ."counter-value" != "<not counted>") | .count'
}
total() { # TENANT
	faults "$1" | awk '{ n += $1 } END { print n + 0 }'
}
session_faults() { # TENANT
	"$vpmu" stat --session kept -j | total "$1"
}
fails() { # STATUS PATTERN ARG...
	s=$1 p=$2
	shift 2
	refuses "$s" "$p" "$vpmu" stat "$@"
}
# An interval has ended after everything until now.
settle() {
	until=$(($(date +%s) + 2))
	while [ "$(date +%s)" -le $until ]; do sleep 0.2; done
}

start
fails 1 "vpmud has kept no counts yet" --since -5m
# Not always exact: a task that moves while it runs is not charged exactly on every kernel.
quality() { # TENANT
	jq -r --arg t "$1" 'select(.tenant == $t) | .event + " " + .quality' | sort
}
session_quality() { # TENANT
	"$vpmu" stat --session kept -j | quality "$1"
}
# The range has the session's quality only if the session lost nothing before it. A row that never ran has none to show.
for try in 1 2 3 4 5 6 7 8; do
	"$vpmu" attach kept -e page-faults,task-clock --for-each tenant || exit 1
	programs acme 1
	settle
	quality_before=$(session_quality /acme)
	case $try,$quality_before in
	8,*partial*) echo "# a loss before the range each time: its quality is not compared" ;;
	*partial*) "$vpmu" detach kept >"$dir/out" ;;
	*) break ;;
	esac
done
acme_before=$(session_faults /acme)
at_least "page faults of /acme before the range" "$acme_before" 1
begin=$(date +%s)
programs acme 40
programs bob 10
quality_after=$(session_quality /acme)
settle
acme=$(($(session_faults /acme) - acme_before))
at_least "page faults of /acme" "$acme" 40
since="$(date -d "@$begin" '+%Y-%m-%d %H:%M:%S')"
"$vpmu" stat --since "$since" --for-each tenant -j >"$dir/json" 2>"$dir/err" || check "stat --since" "$(cat "$dir/err")" "status 0"
check "the sum is the session's: /acme" "$(total /acme <"$dir/json")" "$acme"
check "the sum is the session's: /bob" "$(total /bob <"$dir/json")" "$(session_faults /bob)"
check "nothing on standard error" "$(cat "$dir/err")" ""
# What the session lost after the range is not in it.
quality=$(session_quality /acme)
case $quality_before in
*partial*) ;;
*) [ "$quality" != "$quality_after" ] || check "the quality is the session's" "$(quality /acme <"$dir/json")" "$quality" ;;
esac
# To half an interval: the first one may have been longer than the others.
check "it begins with the range" "$(jq -r --argjson b "$begin" 'select(."start-ns" / 1e9 > $b + 0.5 or ."start-ns" / 1e9 < $b - 1.5)' "$dir/json")" ""
check "no time of a counter" "$(jq -r 'select(has("event-runtime")) | .event' "$dir/json")" ""
check "one target" "$("$vpmu" stat --since "$since" -t acme -e page-faults -j | jq -r .tenant)" /acme
check "one target: its sum" "$("$vpmu" stat --since "$since" -t acme -e page-faults -j | total /acme)" "$acme"
# An event that nobody counted has no number.
check "an event without a session" "$("$vpmu" stat --since "$since" -t /acme -e page-faults,minor-faults -j |
	jq -r '.event + " " + ."counter-value"')" "page-faults $acme
minor-faults <not counted>"
# Intervals: their sum, one row of each, each as long as asked and joined to the last.
"$vpmu" stat --since "$since" -I 2000 -t /acme -j >"$dir/json"
check "the sum of intervals" "$(total /acme <"$dir/json")" "$acme"
check "intervals are joined" "$(jq -s '[.[] | select(.event == "page-faults")] | [range(1; length) as $i | .[$i]."start-ns" == .[$i - 1]."end-ns"] | all' "$dir/json")" true
at_least "intervals" "$(grep -c page-faults "$dir/json")" 2

# Killed, and away for some intervals.
kill_server KILL
settle
settle
start
settle
programs acme 30
settle
"$vpmu" stat --since "$since" -I 1000 -t /acme -j >"$dir/json" 2>"$dir/err"
check "status with a gap" $? 0
kill_at=$(jq -rs '[.[] | select(."counter-value" == "<not counted>" and .event == "page-faults")][0]."start-ns"' "$dir/json")
before=$(jq -c --argjson k "$kill_at" 'select(."start-ns" < $k)' "$dir/json" | total /acme)
check "counts from before the kill" "$before" "$acme"
at_least "intervals of the gap" "$(jq -r 'select(."counter-value" == "<not counted>") | .event' "$dir/json" | grep -c page-faults)" 2
at_least "page faults after the gap" "$(jq -c --argjson k "$kill_at" 'select(."start-ns" > $k)' "$dir/json" | total /acme)" 30
check "the gap is reported" "$(grep -c 'nothing was counted from' "$dir/err")" 1
"$vpmu" stat --since "$since" -t /acme >"$dir/text" 2>"$dir/err"
grep -q 'page-faults.*(partial)' "$dir/text" || check "the sum over a gap" "$(cat "$dir/text")" "marked partial"
check "the gap is reported with the sum" "$(grep -c 'nothing was counted from' "$dir/err")" 1
"$vpmu" stat --since "$since" -t /acme -I 1000 >"$dir/text" 2>/dev/null
grep -q '<not counted> .*page-faults .*/acme$' "$dir/text" || check "text of a gap" "$(cat "$dir/text")" "<not counted>"
# The page of the same time: its data, and what it compares with.
"$vpmu" report --since "$since" -o "$dir/page.html" 2>"$dir/err" || check "report --since" "$(cat "$dir/err")" "status 0"
sed -n 's,.*<script type="application/json" id="data">\(.*\)</script>$,\1,p' "$dir/page.html" >"$dir/data"
page() { # FILTER: of the series of page faults of /acme
	jq -c --argjson k "$kill_at" '. as $d | .series[] | select(.tenant == "/acme" and .event == "page-faults") |'"$1" "$dir/data"
}
check "the page's counts before the gap" "$(page '. as $s | [range($d.times | length) | select($d.times[.] <= $k) | $s.delta[.]] | add')" "$acme"
check "the page's gap is an interval without any count" "$(jq '. as $d | [range(.times | length) as $i | select(all($d.series[].delta[$i]; . == null)) | $d.times[$i] - (if $i > 0 then $d.times[$i - 1] else $d.start_ns end)] | length == 1 and .[0] >= 2e9' "$dir/data")" true
at_least "the page's counts after the gap" "$(page '. as $s | [range($d.times | length) | select($d.times[.] > $k) | $s.delta[.]] | add')" 30
check "all intervals: as many as values" "$(jq '(.times | length) as $n | all(.series[]; (.delta | length) == $n)' "$dir/data")" true
check "the page is of vpmud's memory" "$(jq -c '[.kept_ns, .profile.error, (.baseline.series | map(.event) | unique)]' "$dir/data")" '[1000000000,"vpmud keeps counts of the past, but no samples.",["task-clock"]]'
"$vpmu" report --since "$since" -e task-clock -o "$dir/page.html" && check "only the events asked for" "$(sed -n 's,.*id="data">\(.*\)</script>$,\1,p' "$dir/page.html" | jq -c '[.series[].event] | unique')" '["task-clock"]'
fails_report() { # STATUS PATTERN ARG...
	s=$1 p=$2
	shift 2
	refuses "$s" "$p" "$vpmu" report "$@" -o "$dir/none.html"
	check "report $*: no page" "$(ls "$dir/none.html" 2>/dev/null)" ""
}
fails_report 1 "report: nothing was kept of that time; vpmud has counts from" --since -9h --until -8h
fails_report 1 "report: nothing was kept of minor-faults" --since "$since" -e minor-faults
fails_report 2 "report: --until needs a begin" --until now
fails_report 2 "give it without -d" --since -5m -d 3
fails_report 2 'report: --since: "tomorrow" is invalid' --since tomorrow
# The gap alone: nothing was counted in it, and that is no 0.
gap=$(date -d "@$((kill_at / 1000000000 + 1))" '+%Y-%m-%d %H:%M:%S')
fails 1 "nothing was kept" --since "$gap" --until "$gap.5" -t /acme

fails 1 "nothing was kept of that time; vpmud has counts from" --since -9h --until -8h
fails 1 "nothing was kept of page-faults of /nobody" --since "$since" -t /nobody -e page-faults
fails 1 "-I: 1500 ms is invalid; expected a multiple of 1000 ms" --since "$since" -I 1500
"$vpmu" stat --since -9h -t /acme >/dev/null 2>"$dir/err"
check "a part is kept: status" $? 0
check "a part is kept" "$(grep -c 'nothing is kept from before' "$dir/err")" 1
fails 2 '--since: "tomorrow" is invalid; expected now, -90s' --since tomorrow
fails 2 '--until: "25:00" is invalid' --since -5m --until 25:00
fails 2 'expected a time up to now' --since -5m --until '2199-01-01 00:00'
fails 2 'expected a time before -10m' --since -5m --until -10m
fails 2 '--until needs a begin' --until now
fails 2 'vCPUs are not kept' --since -5m --for-each vcpu
fails 2 'give it without' --since -5m -d 3
fails 2 'give one target' --since -5m -t /acme -t /bob
stop
finish
