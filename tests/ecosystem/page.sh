#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
# The page of `vpmu report` and of vpmu-exporter in headless Chromium, started once: whom it names on hosts with a known
# culprit and without one (page_cases.js), what it says of data that are not complete, hostile names, the keyboard, 1,000
# VMs, a narrow window, the live page. With VPMU_SHOTS=FOLDER the screenshots of all cases are kept there.
. "$(dirname "$0")/../integration/cli_lib.inc"
. "$(dirname "$0")/../integration/answers.inc"
. "$(dirname "$0")/prom_lib.inc"
for tool in chromium chromedriver curl jq base64; do
	command -v $tool >/dev/null || { echo "# SKIP no $tool (tools/deps browser)"; exit 77; }
done
here=$(cd "$(dirname "$0")" && pwd)
shots=${VPMU_SHOTS:-$dir/shots}
mkdir -p "$shots"
jobs=
on_exit=end_jobs
end_jobs() {
	[ -z "${session-}" ] || curl -s -X DELETE "$driver/session/$session" >/dev/null
	for j in $jobs; do kill "$j" 2>/dev/null; wait "$j" 2>/dev/null; done
}

# ---- the browser, by WebDriver ----
chromedriver --port=0 >"$dir/driver.log" 2>&1 &
driver_pid=$!
jobs="$jobs $driver_pid"
wait_for "$driver_pid" grep -q 'on port [1-9]' "$dir/driver.log"
driver=http://127.0.0.1:$(sed -n 's/.*successfully on port \([0-9]*\).*/\1/p' "$dir/driver.log")
wd() { # METHOD PATH [JSON]
	curl -s -X "$1" -H 'Content-Type: application/json' --data "${3-{\}}" "$driver/session${session:+/$session}$2"
}
post() { # PATH FILE
	curl -s -H 'Content-Type: application/json' --data-binary "@$2" "$driver/session/$session$1"
}
flags=$(printf '"%s",' --headless --no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking \
	--disable-component-update --disable-sync --hide-scrollbars "--user-data-dir=$dir/profile")
session=
curl -s -H 'Content-Type: application/json' "$driver/session" --data '{"capabilities":{"alwaysMatch":{"goog:loggingPrefs":{"browser":"ALL"},
	"goog:chromeOptions":{"args":['"${flags%,}"']}}}}' >"$dir/session"
session=$(jq -r '.value.sessionId // empty' "$dir/session")
[ -n "$session" ] || { echo "# SKIP Chromium does not start: $(jq -r '.value.message' "$dir/session" | head -1)"; session=; exit 77; }

# js SCRIPT: what it returns, as text
js() {
	jq -n --arg s "$1" '{script: $s, args: []}' >"$dir/script"
	post /execute/sync "$dir/script" | jq -r '.value | if type == "object" and .error then "error: " + .message else . end'
}
size() { wd POST /window/rect '{"width":'"$1"',"height":'"$2"'}' >/dev/null; }
shot() { # NAME: the whole page, at both widths; it fits the narrow one
	for w in 1280 390; do
		size $w 800
		check "$1: nothing stands out at a width of $w" "$(js 'return Math.max(0, document.documentElement.scrollWidth - innerWidth)')" 0
		case $1${VPMU_SHOTS-} in
		noisy | many | hostile | live | *?/*) ;;
		*) continue ;; # a second each
		esac
		h=$(js 'return document.documentElement.scrollHeight')
		size $w $((h > 6000 ? 6000 : h))
		wd GET /screenshot | jq -r .value | base64 -d >"$shots/$1-$w.png"
		[ "$(wc -c <"$shots/$1-$w.png")" -gt 20000 ] || check "$1: a picture" "$(wc -c <"$shots/$1-$w.png") bytes" "more than 20000"
	done
	size 1280 900
}
go() { # URL: opens it, with page_cases.js in the page
	jq -n --arg u "$1" '{url: $u}' >"$dir/url"
	post /url "$dir/url" >"$dir/went"
	jq -n --rawfile c "$here/page_cases.js" '{script: ($c + "\nwindow.cases = cases;"), args: []}' >"$dir/script"
	post /execute/sync "$dir/script" >/dev/null
}
case_of() { js "const d = JSON.parse(JSON.stringify(cases.$1)); show(d); showFlame(d.profile, View.verdict)"; }
text() { js "return document.getElementById('$1').innerText"; }
quiet() { # WHAT: no script failed, and the policy was not broken
	wd POST /se/log '{"type":"browser"}' >"$dir/log"
	check "$1: the browser's log" "$(jq -r '.value[]? | .message' "$dir/log")" ""
}

# ---- a real report ----
start_server --vm "$(vm web-1 tenant=/acme/web,vcpus=2 'stat fib 60')" --vm "$(vm db-1 tenant=/acme/db 'stat chase 2000000000')"
wait_state web-1 running
wait_state db-1 running
"$vpmu" report -d 3 -o "$dir/real.html" || check "vpmu report" failed done
check "the file is the user's own" "$(stat -c %a "$dir/real.html")" 600
check "nothing from elsewhere" "$(grep -Eo '(src|href)="[^"]*"' "$dir/real.html" | sort -u)" 'href="#main"
href="data:,"'
go "file://$dir/real.html"
check_match "both VMs, with shares" "$(text runs | tr '\n\t' '  ')" 'web-1 /acme/web .*db-1 /acme/db |db-1 /acme/db .*web-1 /acme/web '
check "the counts are those of the CPUs" "$(js 'const v = View.verdict.rows.filter((r) => r.vm !== null), i = (r, e) => sum(r.events.get(e).delta);
	return v.length === 2 && v.every((r) => i(r, "instructions") > 1e6 && i(r, "cycles") > i(r, "instructions") && i(r, "cpu-time") > 0)')" true
check "a tenant has what its VM has" "$(js 'const i = (f) => sum(View.verdict.rows.find(f).events.get("instructions").delta);
	const vm = i((r) => r.vm === "web-1"), t = i((r) => r.vm === null && r.tenant === "/acme/web");
	return Math.abs(vm - t) < 0.2 * t')" true
check "nobody suffers from anybody there" "$(text verdict-line | cut -c1-4)" "None"
check_match "modelled cycles are called so" "$(text quality | tr '\n\t' '  ')" 'cycles emulator .*modelled'
js 'document.getElementById("flame-who").value = "web-1"; document.getElementById("flame-who").dispatchEvent(new Event("change"))' >/dev/null
check_match "the flame graph has the guest's function" "$(js 'return [...document.querySelectorAll("#flame button")].map((b) => b.textContent).join(" ")')" 'web-1 vcpu[01] .*fib'
shot real
quiet real

# ---- whom it names ----
named() { js "const j = (show($(printf %s "$1" | sed 's/^[a-z]/cases.&/')), View.verdict); return j.suspects.map((s) => nameOf(s.row)).join(' ') || 'nobody'"; }
victims() { js "return [...new Set(View.verdict.victims.map((v) => nameOf(v.row)))].sort().join(' ') || 'nobody'"; }
check "bursts of cache misses and CPI" "$(named 'noisy()')" gx-1
check "who suffers from them" "$(victims)" "db-1 web-1"
check "a hog, and others wait for a CPU" "$(named 'waits()')" hog
check "one of 8 CPUs, and two that always wait" "$(named 'slices()'): $(victims)" "batch-7: batch-7 db-1 web-1"
check "CPUs that idle make nobody wait" "$(named 'idleHost()'): $(victims)" "nobody: web-1 web-2 web-3 web-4"
check "idle time is known: a hog" "$(named 'idleKnown()')" hog
check "and that is a row of its own, in no other" "$(js 'const d = cases.idleKnown(); show(d); const rows = View.verdict.rows.filter((r) => r.vm === null), ns = (r) => sum(cpuOf(r).delta), of = (t) => ns(rows.find((r) => r.tenant === t));
	const clock = sum(d.series.find((s) => s.tenant === "/host" && s.event === "task-clock").delta); return of("/host") + of("/idle") === clock && of("/idle") > 0.8 * clock && of("/") === sum(d.series.filter((s) => s.vm !== null && s.event === "task-clock").flatMap((s) => s.delta)) + clock')" true
check "the host's own work makes them wait" "$(named 'idleKnown(1, 1e8)')" /host
check "who has the CPU on which two wait" "$(named 'apart()')" hog
check "and nobody, if those that run are elsewhere" "$(named 'apart(1, 0)'): $(victims)" "nobody: web-1 web-2"
check "the same where the CPUs are not known" "$(named '{ ...cases.apart(1, 0), cpus: undefined }')" gx-1
check "all wait, all alike" "$(named 'equal()'): $(victims)" "nobody: web-1 web-2 web-3 web-4"
check "no culprit" "$(named 'quiet()')" nobody
check "one that suffers from itself" "$(named 'phases()'): $(victims)" "nobody: db-1"
check "one change of both is a coincidence" "$(named 'step()')" nobody
check_match "and is called so" "$(text unproven)" "Not enough to name: gx-1's cache-misses"
check "6 intervals" "$(named 'short()')" nobody
check "no counters" "$(named 'nocounts()')" nobody
check "no PMU: a hog, and others wait for a CPU" "$(named 'nopmu()')" hog
check "the past, with a gap" "$(named 'past()')" gx-1
check "all of the range is bad: vpmud remembers better times" "$(named 'remembered()'): $(victims)" "nobody: db-1"
check "and nobody knows without that" "$(named '{ ...cases.remembered(), baseline: null }'): $(victims)" "nobody: nobody"
check "an idle host" "$(named 'idle()')" nobody
check "no intervals" "$(named 'empty()')" nobody
check "a culprit among 1,000 VMs" "$(named 'many()')" gx-1
check "1,000 VMs, of which most suffer from themselves" "$(named 'many(1, false)') $(js 'return View.verdict.victims.length > 900')" "nobody true"
# The rule's own words: chance names somebody on 1 of 100 hosts.
check_match "chance" "$(js 'let n = 0; for (let s = 1; s <= 40; s++) { const d = cases.phases(s); n += judge(d, spansOf(d)).suspects.length > 0 } return n')" '^[0-2]$'
check_match "chance, while all wait" "$(js 'let n = 0; for (let s = 1; s <= 40; s++) { const d = cases.slices(s, false); n += judge(d, spansOf(d)).suspects.length > 0 } return n')" '^[0-2]$'
check "the culprit is found, of those that wait" "$(js 'let n = 0; for (let s = 1; s <= 10; s++) { const d = cases.slices(s), j = judge(d, spansOf(d)); n += j.suspects.length === 1 && nameOf(j.suspects[0].row) === "batch-7" } return n')" 10
check "the culprit is found" "$(js 'let n = 0; for (let s = 1; s <= 10; s++) { const d = cases.noisy(s), j = judge(d, spansOf(d)); n += j.suspects.length === 1 && nameOf(j.suspects[0].row) === "gx-1" } return n')" 10
quiet "the cases"

# ---- what it says, and how it looks ----
for c in idle noisy waits nopmu multiplexed many past nocounts; do
	case_of "$c()" >/dev/null
	shot $c
done
case_of 'idle()' >/dev/null
check "idle: what is not counted" "$(text verdict-line)" "None: no evidence that a VM or tenant suffers. Not seen here: run-queue wait."
check "idle: why there is no CPI" "$(text suffers-doc)" "No row ran long enough for a CPI: 1 % of an interval."
case_of 'noisy()' >/dev/null
check_match "the verdict" "$(text verdict-line)" '^Suspect: gx-1 of /globex'
check_match "the evidence" "$(text suspects)" 'db-1 suffers: its CPI is 1.3× its usual'
check "the flame graph is the suspect's" "$(js 'return document.querySelector("#flame button").textContent')" gx-1
case_of 'multiplexed()' >/dev/null
check_match "multiplexed: in the table of who runs" "$(text runs)" '≈ [0-9.]+ %'
check_match "multiplexed: in that of who suffers" "$(text suffers)" '≈ [0-9.]+'
check_match "multiplexed: with the evidence" "$(text suspects)" 'From multiplexed counts, which are estimates'
check_match "multiplexed: the running share, and what is missing" "$(text quality | tr '\n\t' '  ')" 'cache-misses bpf [0-9]+ of [0-9]+ from 41.0 % .*values of intervals are missing; estimated, partial'
check_match "partial: in the table of who runs" "$(text runs | tr '\n\t' '  ')" 'partial'
for word in late aged; do
	case_of "late('$word')" >/dev/null
	check_match "$word: it is not called complete" "$(text notes)" "^Some counts are $word: "
	check "$word: in the table of who runs, of that row only" "$(js 'return [...document.querySelectorAll("#runs tbody tr")].filter((r) => r.innerText.includes("'$word'")).map((r) => r.querySelector("bdi").textContent).join()')" db-1
done
case_of 'past()' >/dev/null
check_match "the past: that it is" "$(text where)" 'as vpmud remembers it, counted every 10 s'
check "the past: the gap, once" "$(text gaps)" "Nothing was counted from 08:05:00 to 08:10:00 UTC (5.0 min): the server did not run, or no session counted."
check_match "the past: no flame graph, in one line" "$(text flame-doc)" '^No profile: vpmud keeps counts of the past, but no samples.$'
check "the past: the chart has the gap, and nothing is drawn across it" "$(js 'const r = document.querySelector("#chart svg rect"), from = +r.getAttribute("x"), to = from + +r.getAttribute("width"), d = document.querySelector("#chart path").getAttribute("d");
	const x = d.split("Z").filter(Boolean).map((p) => p.match(/[\d.]+ [\d.]+/g).map((q) => +q.split(" ")[0]));
	return x.length === 2 && x[0].every((v) => v <= from + 0.1) && x[1].every((v) => v >= to - 0.1)')" true
check "the past: the gap is no missing value" "$(js 'return document.getElementById("quality").innerText.includes("40 values of intervals are missing")')" true
check "the past: it is not called complete" "$(text notes)" "Some rows were not counted in all intervals."
case_of 'remembered()' >/dev/null
check_match "remembered: it is said" "$(text suffers-doc)" 'of all that vpmud remembers'
case_of 'nocounts()' >/dev/null
check_match "no PMU: why" "$(text quality)" 'not supported: no hardware PMU'
check "no profile: no graph is left of it" "$(js 'return document.querySelectorAll("#flame button").length')" 0
check_match "no PMU: the verdict says what it does not see" "$(text verdict-line)" 'None: this host has no count that shows suffering\. Not seen here: CPI .*, run-queue wait\.$'
check "no PMU: no column for what is not counted" "$(js 'return [...document.querySelectorAll("#runs th[scope=col]")].map((t) => t.innerText.trim()).join()')" "VM,CPU time,context-switches"
check_match "no PMU: and the page says so" "$(text runs-doc)" 'Not supported on this host: cycles, instructions, cache-misses'
check_match "no profile: why" "$(text flame-doc)" 'No profile: event cycles: not supported'

# ---- 1,000 VMs: a part is drawn, the rest is found ----
case_of 'many()' >/dev/null
check "rows drawn" "$(js 'return document.querySelectorAll("#runs tbody tr").length')" 20
check_match "rows counted" "$(text rows-state)" '^20 of 1000 rows'
key() { # ELEMENT TEXT: keys of the keyboard for it
	e=$(jq -n --arg s "return document.querySelector('$1')" '{script: $s, args: []}' >"$dir/script"; post /execute/sync "$dir/script" | jq -r '.value | to_entries[0].value')
	jq -n --arg t "$2" '{text: $t}' >"$dir/keys"
	post "/element/$e/value" "$dir/keys" >/dev/null
}
key '#search' vm-0777
check_match "the search" "$(text rows-state) $(text runs | tr '\n' ' ')" '^1 of 1 rows, 1000 without the search .*vm-0777'
js 'document.getElementById("search").value = ""; document.getElementById("search").dispatchEvent(new Event("input"))' >/dev/null
key '#runs thead button[data-key="cache-misses"]' "$(printf '\356\200\207')" # Enter
check "a heading sorts by Enter, and keeps the focus" "$(js 'return document.querySelector("#runs th[aria-sort]").innerText.trim() + " " + document.querySelector("#runs tbody bdi").textContent + " " + document.activeElement.dataset.key')" "cache-misses gx-1 cache-misses"
key '#more' "$(printf '\356\200\207')"
check "more rows" "$(js 'return document.querySelectorAll("#runs tbody tr").length')" 120

# ---- the keyboard and screen readers ----
case_of 'noisy()' >/dev/null
key '#flame button:nth-of-type(3)' "$(printf '\356\200\207')"
check "a function alone, by Enter" "$(js 'return document.querySelector("#flame button").textContent + " " + document.getElementById("flame-up").disabled')" "[guest.k] false"
key '#flame-up' "$(printf '\356\200\207')"
check "and back" "$(js 'return document.querySelector("#flame button").textContent + " " + document.getElementById("flame-up").disabled')" "gx-1 true"
check "all that can be used has a name" "$(js 'return [...document.querySelectorAll("button, input, select, [role=img], [role=region], [role=group]")].filter((e) => !(e.textContent.trim() || e.ariaLabel || e.labels?.length || e.getAttribute("aria-labelledby"))).map((e) => e.outerHTML).join("\n")')" ""
check "tables have headings of rows and columns" "$(js 'return [...document.querySelectorAll("table")].filter((t) => t.rows.length && (!t.querySelector("th[scope=col]") || [...t.tBodies[0].rows].some((r) => !r.querySelector("th[scope=row]")))).map((t) => t.id).join()')" ""
# Contrast of text, as WCAG 2 computes it, in both colour schemes.
contrast='const lum = (c) => { const [r, g, b] = c.map((v) => { v /= 255; return v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4 }); return 0.2126 * r + 0.7152 * g + 0.0722 * b };
	const rgb = (s) => { const m = s.match(/[\d.]+/g).map(Number); return m.length === 4 && m[3] === 0 ? null : m.slice(0, 3) };
	const back = (e) => { for (; e; e = e.parentElement) { const c = rgb(getComputedStyle(e).backgroundColor); if (c) return c } return [255, 255, 255] };
	const bad = new Set();
	for (const e of document.querySelectorAll("p, th, td, li, button:not(:disabled), select, input, h1, h2, h3, span, label, figcaption")) { if (!e.innerText?.trim()) continue;
		const [a, b] = [lum(rgb(getComputedStyle(e).color)), lum(back(e))].sort((x, y) => y - x); if ((a + 0.05) / (b + 0.05) < 4.5) bad.add(e.tagName + "." + e.className + " " + ((a + 0.05) / (b + 0.05)).toFixed(2)) }
	return [...bad].join("; ")'
case_of 'multiplexed()' >/dev/null
check "contrast, light" "$(js "$contrast")" ""
wd POST /goog/cdp/execute '{"cmd":"Emulation.setEmulatedMedia","params":{"features":[{"name":"prefers-color-scheme","value":"dark"}]}}' >/dev/null
check "dark is dark" "$(js 'return getComputedStyle(document.body).backgroundColor')" "rgb(15, 19, 24)"
check "contrast, dark" "$(js "$contrast")" ""
shot dark
wd POST /goog/cdp/execute '{"cmd":"Emulation.setEmulatedMedia","params":{"features":[]}}' >/dev/null
quiet "what it says"

# ---- hostile names: in the page's own data, and by a server's answers ----
harmless() { # WHAT
	check "$1: no script of theirs" "$(js 'return String(window.hacked)')" undefined
	check "$1: no element of theirs" "$(js 'return document.querySelectorAll("img, iframe, object, #main script, [onload], [onerror]").length')" 0
	check "$1: no character that hides or turns" "$(js 'return /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u200b-\u200f\u202a-\u202e\u2066-\u2069]/.test(document.body.innerText)')" false
	quiet "$1"
}
case_of 'hostile()' >/dev/null
harmless "hostile data"
shot hostile
check_match "their names are shown as they are" "$(js 'return document.body.innerText')" '</script><script>window.hacked=1</script>'
stop_server
bad='</script><script>window.hacked=1</script><!--<script>'
answers <<END
hello {"server":"<b>vpmud","version":"&lt;1","protocol":1,"pid":1,"ok":true}
events {"events":[{"event":"cycles","desc":"","backends":[{"backend":"emulator","supported":true}]}],"ok":true}
attach {"session":"s","ok":true}
list {"nodes":[],"ok":true}
profile-start {"profile":"p","ok":true}
profile-stop {"event":"$bad","samples":"2","lost":"0","period":"1","count":"9","enabled-ns":"100","running-ns":"41","quality":"partial","nobodys":"3","chains":[{"tenant":"/$bad","side":"$bad","chain":["0x1"],"samples":"2"}],"other-chains":"0","ok":true}
read $(read_answer vm "$(row 1 vm 1 "/$bad" "$emulator\"vm\":\"$bad\"," 1 exact)")
read $(read_answer vm "$(row 1 vm 1 "/$bad" "$emulator\"vm\":\"$bad\"," 1 exact)")
read $(read_answer vm "$(row 1 vm 1 "/$bad" "$emulator\"vm\":\"$bad\"," 5000 "partial")")
detach $(read_answer vm "$(row 1 vm 1 "/$bad" "$emulator\"vm\":\"$bad\"," 5000 "partial")")
END
"$vpmu" report -d 0.5 -o "$dir/bad.html" || check "a report with hostile names" failed done
check "a server that cannot count one CPU: no CPUs" "$(grep -c '"cpus":\[' "$dir/real.html")" 0
check "one script of data, one of the page" "$(grep -o '</script>' "$dir/bad.html" | wc -l)" 2
go "file://$dir/bad.html"
harmless "a hostile server"
check "the VM's name is text" "$(js 'return View.verdict.rows.some((r) => r.vm === "</script><script>window.hacked=1</script><!--<script>") && document.querySelector("#runs tbody bdi").textContent.startsWith("</script>")')" true
check_match "its profile: of a part of the time" "$(text flame-doc)" '2 samples, 0 lost.*, with a counter in 41\.0 % of the time, 3 of unknown tenants'
check_match "its function" "$(js 'return document.getElementById("flame").innerText')" '</script>'
check "an inline script does not run" "$(js 'const s = document.createElement("script"); s.textContent = "window.hacked = 2"; document.body.append(s); return String(window.hacked)')" undefined
wd POST /se/log '{"type":"browser"}' >/dev/null
kill_server

# ---- live: vpmu-exporter ----
rm -f "$VPMU_SOCKET"
start_server --vm "$(vm web-1 tenant=/acme/web,vcpus=2 'stat fib 60')"
exporter "$VPMU_SOCKET" -- 'listen = 127.0.0.1:PORT' 'events = instructions,cycles,page-faults'
at=http://127.0.0.1:$port
curl -s -D "$dir/head" -o "$dir/live.html" "$at/"
check_match "its type" "$(tr -d '\r' <"$dir/head")" '^Content-Type: text/html; charset=utf-8$'
curl -s -D "$dir/head" -o "$dir/sums" "$at/report.json"
check_match "the sums' type" "$(tr -d '\r' <"$dir/head")" '^Content-Type: application/json$'
check "the sums: VM, tenant and host" "$(jq -r '[.series[] | select(.event == "instructions" and .count != null) | .vm // .tenant] | sort | unique | join(" ")' "$dir/sums")" "/ /acme /acme/web /host web-1"
check "an event that is not counted has none" "$(jq -r '[.series[] | select(.event == "page-faults") | .count] | unique | tostring' "$dir/sums")" "[null]"
go "$at/"
size 1280 900
tries=0
until [ "$(js 'return (Live.data?.times.length ?? 0) > 1')" = true ] || [ $tries = 600 ]; do tries=$((tries + 1)); sleep 0.5; done
check_match "live: the VM" "$(text runs | tr '\n\t' '  ')" 'web-1 /acme/web +[0-9.]+ %'
check "live: as much as the sums say" "$(js 'const s = View.verdict.rows.find((r) => r.vm === "web-1").events.get("instructions"), last = Live.before.series.find((x) => x.vm === "web-1" && x.event === "instructions"); return sum(s.delta) > 1e6 && sum(s.delta) < last.count')" true
check_match "live: it says so" "$(text livestate)" '^Live: [0-9]+ intervals'
shot live
quiet live
js 'document.getElementById("pause").click()' >/dev/null
check "live: a pause" "$(js 'return document.getElementById("pause").innerText + " " + document.getElementById("pause").ariaPressed + " " + Live.paused')" "Continue true true"
stop_server
js 'window.before = Live.data.times.length; document.getElementById("pause").click()' >/dev/null
tries=0
until js 'return document.getElementById("livestate").textContent' | grep -q '^No data' || [ $tries = 600 ]; do tries=$((tries + 1)); sleep 0.5; done
check_match "live: without a server" "$(text livestate)" '^No data: 503 no counts now'
check "live: and nothing is made up" "$(js 'return Live.data.times.length === window.before')" true
finish
