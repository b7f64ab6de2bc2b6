#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
# What vpmu stat --since makes of answers: sums and marks of multiplexed, partial and missing intervals, and wrong answers.
. "$(dirname "$0")/cli_lib.inc"
. "$(dirname "$0")/answers.inc"

now=$(date +%s)
at() { # SECONDS AGO: ns since 1970
	echo $(((now - $1) * 1000000000))
}
history() { # INTERVAL TIMES SERIES
	printf 'history {"interval_ns":%s,"start_ns":0,"times":[%s],"series":[%s],"dropped":0,"ok":true}\n' "$1" "$2" "$3"
}
series() { # TENANT EVENT DELTAS MORE
	printf '{"tenant":"%s","vm":null,"backend":"bpf","event":"%s","unit":"","delta":[%s]%s}' "$1" "$2" "$3" "${4-}"
}
# The answers to one command: the interval, the whole time, what is in the range, and the intervals. $all: those in one.
ask_history() { # TIMES SERIES
	{
		history 10000000000 "" ""
		history 100000000000 "$(at 10)" ""
		history 60000000000 "$(at 10)" "$all"
		history 10000000000 "$1" "$2"
	} >"$dir/lines"
	answers <"$dir/lines"
}
# --until: the answers are of a fixed time, however long this takes.
ago() { # SECONDS
	date -d "@$((now - $1))" "+%F %T"
}
until=$(ago 0)
range() { # stat|report ARG...
	of=$1
	shift
	"$vpmu" "$of" --since "$(ago 67)" --until "$until" "$@"
}
since() { # ARG...
	range stat "$@" >"$dir/out" 2>"$dir/err"
}
values() {
	jq -r '"\(.tenant) \(.event) \(."counter-value") \(.count) \(."pcnt-running" + 0) \(.quality)"' "$dir/out"
}

# ---- marks ----
times="$(at 60),$(at 50),$(at 40),$(at 30),$(at 20),$(at 10)"
all="$(series /acme page-faults 180),$(series /acme context-switches 6),$(series /acme/web page-faults 9),$(series /bob cycles null)"
marks="$(series /acme page-faults 10,20,null,40,50,60 ',"running":[100,50,100,100,100,100]'),$(
	series /acme context-switches 1,1,1,1,1,1),$(
	series /acme/web page-faults 1,1,2,2,2,1 ',"quality":["ok","exact aged","ok","ok","ok","ok"]')"
ask_history "$times" "$marks"
since -t /acme -j
check "sums" "$(values)" "/acme page-faults 200 180 90 partial scaled
/acme context-switches 6 6 100 exact"
check "begin and end" "$(jq -r '[."start-ns", ."end-ns"] | map(. / 1e9) | join(" ")' "$dir/out" | sort -u)" "$((now - 70)) $((now - 10))"
check "no gap: something was counted in each interval" "$(cat "$dir/err")" ""
ask_history "$times" "$marks"
since --for-each tenant -j
check "rows" "$(values)" "/acme page-faults 200 180 90 partial scaled
/acme context-switches 6 6 100 exact
/acme/web page-faults 9 9 100 aged
/acme/web context-switches <not counted> 0 0 null"
ask_history "$times" "$marks"
since -t /acme -I 30000 -j
check "intervals of 30 s" "$(values)" "/acme page-faults 50 30 60 partial scaled
/acme context-switches 3 3 100 exact
/acme page-faults 150 150 100 exact
/acme context-switches 3 3 100 exact"
ask_history "$times" "$marks"
since -t /acme
check_match "text: scaled and partial" "$(cat "$dir/out")" '^ +200 +page-faults +\(partial\) +\(90.00%\)$'
check_match "text: exact" "$(cat "$dir/out")" '^ +6 +context-switches$'

# 0 events in a part of the time: the count is the sum, and an estimate.
ask_history "$times" "$(series /acme page-faults 10,20,0,0,30,0 ',"running":[100,100,40,100,100,60]')"
since -t /acme -j
check "multiplexed intervals of 0" "$(values | head -1)" "/acme page-faults 60 60 83.33 scaled"

# ---- no counter: what stat and report make of the same intervals ----
all=$(series /acme page-faults 60)
ask_history "$times" "$(series /acme page-faults 10,20,0,0,30,0 ',"running":[100,50,0,0,100,50]')"
since -t /acme -j
check "no counter in two intervals: not 0, but missing" "$(values)" "/acme page-faults 80 60 75 partial scaled"
check "no counter: a gap" "$(grep -c 'nothing was counted from .* to ' "$dir/err")" 1
ask_history "$times" "$(series /acme page-faults 10,20,0,0,30,0 ',"running":[100,50,0,0,100,50]')"
"$vpmu" report --since "$(ago 67)" --until "$until" -o "$dir/page" 2>"$dir/err"
check "the same of a page" "$(sed -n 's,.*id="data">\(.*\)</script>$,\1,p' "$dir/page" |
	jq -c '.series[] | select(.event == "page-faults") | [.delta, .running, .quality]')" '[[10,40,null,30,0],0.75,null]'
rm "$dir/page"

# ---- a gap: an interval without a value stands for two, and the range begins before the first one ----
all=$(series / page-faults 100)
ask_history "$(at 40),$(at 20),$(at 10)" "$(series / page-faults 40,null,60)"
since -I 10000 -j
check "a gap" "$(values)" "/ page-faults <not counted> 0 0 null
/ page-faults <not counted> 0 0 null
/ page-faults 40 40 100 exact
/ page-faults <not counted> 0 0 null
/ page-faults <not counted> 0 0 null
/ page-faults 60 60 100 exact"
check "gaps are reported" "$(grep -c 'vpmu: stat: nothing was counted from .* to ' "$dir/err")" 2
ask_history "$(at 40),$(at 20),$(at 10)" "$(series / page-faults 40,null,60)"
since -j
check "the sum over a gap" "$(values)" "/ page-faults 100 100 100 partial"
# Read 12 s late: nothing is missing.
ask_history "$(at 60),$(at 50),$(at 28),$(at 20),$(at 10)" "$(series / page-faults 10,20,30,40,50)"
since -I 10000 -j
check "a late interval" "$(values)" "$(printf '/ page-faults %s %s 100 exact\n' 10 10 20 20 30 30 40 40 50 50)"
check "a late interval: no gap" "$(cat "$dir/err")" ""
check "a late interval: joined" "$(jq -s '[range(1; length) as $i | .[$i]."start-ns" == .[$i - 1]."end-ns"] | all' "$dir/out")" true

# Late at the begin of the range, and at the begin of an answer: the interval before tells.
ask_history "$(at 110),$(at 100),$(at 40),$(at 30),$(at 20),$(at 10)" "$(series / page-faults 1,2,30,40,50,60)"
since -I 10000 -j
check "late at the begin" "$(values)" "$(printf '/ page-faults %s %s 100 exact\n' 30 30 40 40 50 50 60 60)"
check "late at the begin: no gap" "$(cat "$dir/err")" ""
check "late at the begin: where" "$(jq -s '.[0]."start-ns" / 1e9' "$dir/out")" $((now - 100))
{
	history 10000000000 "" ""
	history 60000000000000 "$(at 10)" ""
	history 60000000000000 "$(at 10)" "$all"
	history 10000000000 "$(at 59990),$(at 20000)" "$(series / page-faults 1,2)"
	history 10000000000 "$(at 20000),$(at 10)" "$(series / page-faults 2,3)"
} >"$dir/lines"
answers <"$dir/lines"
"$vpmu" stat --since "$(ago 60000)" --until "$until" -j >"$dir/out" 2>"$dir/err"
check "late at the begin of an answer" "$(values)" "/ page-faults 6 6 100 exact"
check "late at the begin of an answer: no gap" "$(cat "$dir/err")" ""

# What is kept is longer than its intervals if one was read late.
{
	history 10000000000 "" ""
	history 20000000000 "$(at 10)" "" | sed "s/\"start_ns\":0/\"start_ns\":$(at 70)/"
	history 60000000000 "$(at 10)" "$all"
	history 10000000000 "$(at 70),$(at 10)" "$(series / page-faults 1,2)"
} >"$dir/lines"
answers <"$dir/lines"
since -j
check "from the oldest that is kept" "$(values)" "/ page-faults 2 2 100 exact"
check "from the oldest that is kept: nothing is missing" "$(cat "$dir/err")" ""

# ---- without a target: all that a reader may see ----
ask_seen() { # ARG...: a reader of /acme and of the tenants $seen
	all=$(series /acme page-faults 60)
	ask_history "$times" "$(series /acme page-faults 10,10,10,10,10,10)"
	printf 'list {"nodes":[{"kind":"tenant","path":"/acme","depth":1}%s],"ok":true}\n' "$seen" >>"$dir/lines"
	answers <"$dir/lines"
	since -j "$@"
}
seen=',{"kind":"tenant","path":"/acme/web","depth":2}' ask_seen
check "a reader's tenant" "$(values)" "/acme page-faults 60 60 100 exact"
seen=',{"kind":"tenant","path":"/acme2","depth":1}'
ask_seen
check "a reader of two tenants" "$(cat "$dir/err")" "vpmu: stat: --since: you may see several tenants; give -t or --for-each"
ask_seen --for-each tenant
check "a reader of two tenants, each" "$(values)" "/acme page-faults 60 60 100 exact"
all=$(series / page-faults 100)

# ---- wrong answers: one line, status 1, nothing printed ----
wrong() { # WHAT TIMES SERIES
	ask_history "$2" "$3"
	refuses 1 "answer is invalid: field \"$1\"" range stat -j
}
wrong times "$(at 10),$(at 20)" ""
wrong times '"now"' ""
wrong times "$(at 10),9000000000000000000" ""
wrong times "$(at 200),$(at 10)" ""
wrong delta "$(at 10)" "$(series / page-faults 1,2)"
wrong delta "$(at 10)" "$(series / page-faults -1)"
wrong tenant "$(at 10)" "$(series acme page-faults 1)"
wrong running "$(at 10)" "$(series / page-faults 1 ',"running":[101]')"
wrong quality "$(at 10)" "$(series / page-faults 1 ',"quality":[1]')"
history 1 "" "" >"$dir/lines"
answers <"$dir/lines"
since
check_match "an interval of 1 ns" "$(cat "$dir/err")" 'field "interval_ns"'
{
	history 10000000000 "" ""
	history 9000000000000000000 "$(at 10)" ""
} >"$dir/lines"
answers <"$dir/lines"
since
check_match "290 years are kept" "$(cat "$dir/err")" 'field "interval_ns"'
# What was kept before the clock was set back is not asked for.
{
	history 10000000000 "" ""
	history 100000000000 "$(at -3600)" ""
} >"$dir/lines"
answers <"$dir/lines"
since
check_match "a newest time to come" "$(cat "$dir/err")" 'field "times"'
history 9000000000000000000 "" "" >"$dir/lines"
history 9000000000000000000 "$(at 10)" "" >>"$dir/lines"
answers <"$dir/lines"
since
check_match "an interval of 290 years" "$(cat "$dir/err")" 'field "interval_ns"'

# ---- vpmu report --since: one line, status 1, no page ----
no_page() { # WHAT MESSAGE
	refuses 1 "$2" range report -o "$dir/page"
	[ ! -e "$dir/page" ] || check "report, $1" "a page" "none"
}
ask_history "$(at 10),9000000000000000000" "$(series / page-faults 1,2)"
no_page "a time to come" 'field "times"'
all=
ask_history "$(at 10)" ""
no_page "no series" 'report: nothing was kept from .*: no session counted it'
history 10000000000 "" "" >"$dir/lines"
history 10000000000 "" "" >>"$dir/lines"
answers <"$dir/lines"
no_page "nothing kept" 'report: vpmud has kept no counts yet'
kill_server
finish
