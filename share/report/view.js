// SPDX-License-Identifier: GPL-2.0-or-later
// The page: fills the sections of report.html from the data and from what rule.js says about them.
"use strict";

const PAGE_ROWS = 20;
const View = { kind: null, sort: null, search: "", rows: PAGE_ROWS, data: null, verdict: null, dt: null, at: null };

function spansOf(data) {
	return data.times.map((t, k) => Math.max((t - (k ? data.times[k - 1] : data.start_ns)) / 1, 1));
}

const placeOf = (row) => (row.vm === null ? "" : row.tenant);
const rowHead = (row) => el("th", { scope: "row" }, bdi(nameOf(row)), row.vm === null ? null : el("span", { class: "sub" }, bdi(row.tenant)));
const several = (data) => new Set(data.series.map((s) => s.backend ?? "")).size > 1;

// ---- suspects ----

function evidenceText(e) {
	const p = el("p", {}), v = e.victim, bad = `${v.pain.bad} of ${v.pain.nr} intervals`;
	p.append(bdi(nameOf(v.row)), v.by === "cpi"
		? ` suffers: its CPI is ${RULE.cpi}\u00d7 its usual ${v.pain.usual.toPrecision(3)} or more in ${bad}, up to ${v.pain.worst.toPrecision(3)}. `
		: ` suffers: ${v.pain.kind} takes ${part(v.pain.mean)} of the time in which it could run. `);
	p.append("This one " + (e.holds ? "holds " : "uses ") + `${approx(part(e.share), e.estimated)} of all `, bdi(e.event),
		(e.local ?? null) === null ? "" : ` and ${approx(part(e.local), e.estimated)} of the CPUs that the other ran on`, e.holds
		? `, ${times(e.holds)} as much as the one that waits.`
		: `, ${times(e.contrast)} as much in ${e.worse ? "the intervals that are worse than the mean" : "those intervals"} as in the others; correlation ${e.r.toFixed(2)} (needed: ${e.need.toFixed(2)}, for ${Math.round(e.n)} independent intervals).`);
	const taken = v.by === "wait" ? firstOf(v.row, TAKEN) : null, cpu = cpuOf(v.row);
	if (taken && sum(cpu.delta) > 0)
		p.append(` Other tenants took a CPU from tasks of `, bdi(nameOf(v.row)), ` that could go on ${count(sum(taken.delta) * 1e9 / sum(cpu.delta))} times for each second that it ran.`);
	if (e.estimated)
		p.append(" ", el("span", { class: "est" }, "From multiplexed counts, which are estimates."));
	return p;
}

function evidenceCharts(suspect, e) {
	const v = e.victim;
	return el("div", { class: "pair" },
		el("figure", {}, el("figcaption", {}, bdi(nameOf(suspect.row)), ": ", bdi(e.event), " per second"), spark(e.use, `${plain(nameOf(suspect.row))}: ${plain(e.event)} over time`, View.at, View.verdict.gaps)),
		el("figure", {}, el("figcaption", {}, bdi(nameOf(v.row)), `: ${v.pain.kind}, dashed: where suffering begins`),
			spark(v.pain.series, `${plain(nameOf(v.row))}: ${v.pain.kind} over time`, View.at, View.verdict.gaps, v.pain.limit)));
}

function verdictText(j) {
	const missing = [];
	if (!j.can.cpi)
		missing.push("CPI (cycles and instructions are not both counted)");
	if (!j.can.wait)
		missing.push("run-queue wait");
	const without = missing.length ? ` Not seen here: ${missing.join(", ")}.` : "";
	if (j.can.intervals < RULE.intervals)
		return `None: ${j.can.intervals} intervals are too few for a statement; ${RULE.intervals} are needed.`;
	if (j.suspects.length)
		return null;
	if (!j.ran)
		return "None: no VM or tenant ran.";
	if (!j.can.cpi && !j.can.wait)
		return "None: this host has no count that shows suffering." + without;
	if (!j.victims.length)
		return "None: no evidence that a VM or tenant suffers." + without;
	return `None: ${new Set(j.victims.map((v) => v.row)).size} suffer, but no neighbour's use moves with it beyond chance.` + without;
}

function showSuspects() {
	const j = View.verdict, line = $("verdict-line"), text = verdictText(j), top = j.suspects[0];
	line.classList.toggle("found", text === null);
	if (text !== null)
		line.textContent = text;
	else
		line.replaceChildren("Suspect: ", el("strong", {}, bdi(nameOf(top.row))), top.row.vm === null ? "" : " of ", top.row.vm === null ? "" : bdi(top.row.tenant),
			j.suspects.length > 1 ? `, and ${j.suspects.length - 1} more` : "", ". Evidence, not proof:");
	$("suspects").replaceChildren(...j.suspects.slice(0, 5).map((s) => el("li", {},
		el("h3", {}, bdi(nameOf(s.row)), s.row.vm === null ? null : " of ", s.row.vm === null ? null : bdi(s.row.tenant)),
		...s.evidence.slice(0, 3).flatMap((e) => [evidenceText(e), evidenceCharts(s, e)]),
		s.evidence.length > 3 ? el("p", { class: "dim" }, `And ${s.evidence.length - 3} more of this kind.`) : null)));
	$("unproven").replaceChildren();
	if (j.unproven.length) {
		const u = j.unproven[0];
		$("unproven").append("Not enough to name: ", bdi(nameOf(u.row)), "'s ", bdi(u.event), " moves with ", bdi(nameOf(u.victim.row)),
			`'s ${u.victim.pain.kind} (correlation ${u.r.toFixed(2)}), but ${u.n < 4 ? "changes too seldom" : `${u.need.toFixed(2)} is needed`}. A longer report may tell.`);
	}
}

// ---- who runs ----

function usedEvents(data) {
	const names = [];
	for (const s of data.series)
		if (!s.why && !names.includes(s.event) && ![...CPU, ...WAIT, ...TAKEN, IDLE].includes(s.event))
			names.push(s.event);
	return names.slice(0, 12);
}

// What a row used of an event, and its share of the whole host on that backend; null: not counted.
function useOf(row, s, totals) {
	if (!s || s.why || !known(s.delta).length)
		return null;
	const used = sum(s.delta), all = totals.get(row.backend + " " + s.event);
	return { used, share: all > 0 ? used / all : null, estimated: (s.running ?? 1) < 1 };
}

// Of / where it is counted; else of all rows that are no parents of others.
function totalsOf(j) {
	const totals = new Map(), roots = new Set();
	for (const row of j.rows)
		for (const [event, s] of row.events)
			if (row.vm === null && row.tenant === "/" && !s.why && known(s.delta).length) {
				totals.set(row.backend + " " + event, sum(s.delta));
				roots.add(row.backend + " " + event);
			}
	for (const row of j.actors)
		for (const [event, s] of row.events) {
			const id = row.backend + " " + event;
			if (!roots.has(id))
				totals.set(id, (totals.get(id) ?? 0) + sum(s.delta));
		}
	return totals;
}

// The words of a count that lacks something, or has what others lack.
const LACKING = ["partial", "late", "aged"];
const lacking = (s) => LACKING.filter((w) => (s.quality ?? "").split(" ").includes(w)).join(", ");

function useCell(u, s) {
	if (!u)
		return cell(NONE, "dim", el("span", { class: "sub" }, s?.why ? "not supported" : "not counted"));
	const used = s.unit === "ns" || CPU.includes(s.event) ? span(u.used) : count(u.used), lacks = lacking(s), cls = u.estimated || lacks ? "est" : null;
	if (u.share === null)
		return cell(approx(used, u.estimated), cls, lacks ? el("span", { class: "sub" }, lacks) : null);
	return cell(approx(part(u.share), u.estimated), cls, bar(u.share), el("span", { class: "sub" }, [approx(used, u.estimated), lacks].filter(Boolean).join(", ")));
}

function showRows() {
	const j = View.verdict, data = View.data, events = usedEvents(data), totals = totalsOf(j), mixed = several(data);
	const needle = View.search.toLowerCase();
	const all = j.rows.filter((r) => (View.kind === "vm" ? r.vm !== null : r.vm === null && r.tenant !== "/"));
	const rows = all.filter((r) => !needle || nameOf(r).toLowerCase().includes(needle) || placeOf(r).toLowerCase().includes(needle)).map((row) => ({
		row, cpu: useOf(row, cpuOf(row), totals), uses: new Map(events.map((e) => [e, useOf(row, row.events.get(e), totals)])) }));
	const value = (r) => (View.sort === "cpu" ? r.cpu?.used : r.uses.get(View.sort)?.used) ?? -1;
	rows.sort((a, b) => value(b) - value(a) || (nameOf(a.row) < nameOf(b.row) ? -1 : 1));
	const columns = [{ title: View.kind === "vm" ? "VM" : "Tenant" }, ...(mixed ? [{ title: "Backend", left: true }] : []), { title: "CPU time", key: "cpu", sort: true },
		...events.map((e) => ({ title: e, key: e, sort: true }))];
	fill($("runs"), columns, rows.slice(0, View.rows).map((r) => el("tr", {}, rowHead(r.row), mixed ? cell(plain(r.row.backend), "left") : null,
		useCell(r.cpu, cpuOf(r.row)), ...events.map((e) => useCell(r.uses.get(e), r.row.events.get(e))))), View.sort, (key) => { View.sort = key; showRows(); });
	$("rows-state").textContent = `${Math.min(View.rows, rows.length)} of ${rows.length} rows` + (needle ? `, ${all.length} without the search` : "");
	$("more").hidden = rows.length <= View.rows;
	showChart(j, rows, totals);
}

function showChart(j, rows, totals) {
	rows = rows.filter((r) => !r.row.idle);
	const top = rows.filter((r) => r.cpu?.used > 0 && r.row.backend === rows[0].row.backend).sort((a, b) => b.cpu.used - a.cpu.used).slice(0, COLOURS.length);
	const doc = $("chart-doc"), box = $("chart");
	box.replaceChildren();
	doc.textContent = "";
	if (View.dt.length < 2 || !top.length)
		return;
	const layers = top.map((r, k) => ({ row: r.row, values: cpuOf(r.row).delta.map((v, i) => (v === null ? null : v / View.dt[i])), colour: COLOURS[k] }));
	const named = new Set(top.map((r) => r.row)), rest = Array(View.dt.length).fill(0);
	for (const r of rows)
		if (!named.has(r.row) && r.cpu && r.row.backend === rows[0].row.backend)
			cpuOf(r.row).delta.forEach((v, i) => { rest[i] += (v ?? 0) / View.dt[i]; });
	if (sum(rest) > 0)
		layers.push({ row: null, values: rest, colour: OTHERS });
	const heights = View.dt.map((_, i) => sum(layers.map((l) => l.values[i]))), max = Math.max(...heights, 1); // an idle host looks idle
	doc.textContent = `CPUs in use over time, from ${clock(View.data.start_ns)} to ${clock(View.data.times.at(-1))} UTC; the full height is ${max.toPrecision(2)} CPUs${j.gaps.length ? "; grey: nothing was counted" : ""}. The table has the sums.`;
	box.append(stacked(layers, max, `CPUs in use over time by ${layers.map((l) => (l.row ? plain(nameOf(l.row)) : "others")).join(", ")}`, View.at, j.gaps),
		el("ul", { class: "key" }, ...layers.map((l) => el("li", {}, svg("svg", { width: 12, height: 12, "aria-hidden": "true" }, svg("rect", { width: 12, height: 12, fill: l.colour })), l.row ? bdi(nameOf(l.row)) : "others"))));
}

// ---- who suffers ----

const painOrder = (p) => Math.max(p.cpi?.suffers ? p.cpi.worst / p.cpi.usual : 0, p.wait?.suffers ? 10 * p.wait.mean : 0);

function painCell(p, text, sub) {
	if (!p || p.mean === null)
		return cell(NONE, "dim");
	return cell(approx(text(p), p.estimated), p.suffers ? "bad" : p.estimated ? "est" : null, el("span", { class: "sub" }, sub(p)));
}

const takenCell = (s) => (s ? cell(count(sum(s.delta)), lacking(s) ? "est" : null) : cell(NONE, "dim"));

function showSuffering() {
	const j = View.verdict, data = View.data;
	const rows = j.actors.map((row) => ({ row, p: j.pains.get(row.key) })).filter((r) => r.p.cpi || r.p.wait);
	rows.sort((a, b) => painOrder(b.p) - painOrder(a.p) || (b.p.cpi?.worst ?? 0) / (b.p.cpi?.usual ?? 1) - (a.p.cpi?.worst ?? 0) / (a.p.cpi?.usual ?? 1));
	const remembered = rows.some((r) => r.p.cpi?.remembered);
	const nr = new Set(j.victims.map((v) => v.row)).size;
	$("suffers-doc").textContent = !rows.length
		? j.can.cpi ? "No row ran long enough for a CPI: 1 % of an interval." : "Nothing here shows suffering: it takes cycles and instructions, or the run-queue wait."
		: `${nr || "None"} of ${rows.length} ${nr === 1 ? "suffers" : "suffer"} by the rule below.` +
			(j.can.cpi ? ` The usual CPI is the row's own: the lower quarter of its intervals${remembered ? " of all that vpmud remembers" : ""}.` : " No CPI: cycles and instructions are not both counted.") +
			(j.can.wait ? " Run-queue wait is that of the vCPU threads: what KVM tells a guest as steal." : " The run-queue wait is not counted.");
	const part1 = (p) => part(p.mean), bad = (p) => `${p.bad} of ${p.nr} intervals`;
	const none = cell(NONE, "dim"), columns = [
		[j.can.cpi, { title: "CPI" }, (p) => painCell(p.cpi, (c) => c.mean.toPrecision(3), bad)],
		[j.can.cpi, { title: "Usual CPI" }, (p) => (p.cpi ? cell(approx(p.cpi.usual.toPrecision(3), p.cpi.estimated)) : none.cloneNode(true))],
		[j.can.cpi, { title: "Worst" }, (p) => (p.cpi ? cell(approx(p.cpi.worst.toPrecision(3), p.cpi.estimated)) : none.cloneNode(true))],
		[j.can.wait, { title: "Run-queue wait (steal)" }, (p) => painCell(p.wait, part1, bad)],
		[rows.some(({ row }) => firstOf(row, TAKEN)), { title: "Preempted by others" }, (p, row) => takenCell(firstOf(row, TAKEN))]].filter(([can]) => can);
	fill($("suffers"), rows.length ? [{ title: "VM or tenant" }, ...columns.map((c) => c[1])] : [],
		rows.slice(0, PAGE_ROWS).map(({ row, p }) => el("tr", {}, rowHead(row), ...columns.map((c) => c[2](p, row)))));
	if (rows.length > PAGE_ROWS)
		$("suffers-doc").textContent += ` The first ${PAGE_ROWS} are shown.`;
}

// ---- quality ----

function showQuality() {
	const data = View.data, events = new Map(), notes = [...(data.notes ?? [])], lost = sum(View.verdict.gaps.map((g) => g.n));
	for (const s of data.series) {
		if (s.event === IDLE && !s.why && !known(s.delta).length) // of a tenant
			continue;
		const id = (s.backend ?? "") + " " + s.event;
		let e = events.get(id);
		if (!e)
			events.set(id, e = { event: s.event, backend: s.backend ?? NONE, rows: 0, counted: 0, missing: 0, inexact: 0, lowest: 1, words: new Set(), why: new Set(), empty: 0 });
		e.rows++;
		if (s.why)
			e.why.add(s.why);
		const n = known(s.delta).length;
		e.counted += n > 0 && !s.why;
		if (n && !s.why)
			e.missing += s.delta.length - n - lost;
		else if (!s.why)
			e.empty++;
		e.inexact += s.inexact ?? 0;
		e.lowest = Math.min(e.lowest, s.running ?? 1);
		(s.quality ?? "").split(" ").forEach((w) => w && e.words.add(w));
	}
	const list = [...events.values()], bad = (e) => e.lowest < 1 || [...LACKING, "estimated"].some((w) => e.words.has(w));
	if (list.some((e) => e.lowest < 1))
		notes.push("There were more events than counters: counts with \u2248 were taken in a part of the time and are scaled up.");
	if (list.some((e) => e.words.has("partial")))
		notes.push("Some counts are partial: events are missing in them.");
	if (list.some((e) => e.words.has("late")))
		notes.push("Some counts are late: cgroups or vCPUs were found after their start, and their first time is counted in the row above or in /host.");
	if (list.some((e) => e.words.has("aged")))
		notes.push("Some counts are aged: what isolated CPUs have done since their last context switch is missing.");
	if (list.some((e) => e.words.has("modelled")))
		notes.push("Modelled counts are of modelled CPUs, not of this host's.");
	if (list.some((e) => e.missing))
		notes.push("Some rows were not counted in all intervals.");
	if (!list.some((e) => e.counted))
		notes.push("Nothing was counted.");
	$("notes").replaceChildren(...(notes.length ? notes : ["All counts shown are complete."]).map((n) => el("li", {}, plain(n))));
	fill($("quality"), [{ title: "Event" }, { title: "Backend", left: true }, { title: "Rows counted" }, { title: "Running share" }, { title: "Remarks", left: true }], list.map((e) => el("tr", {},
		el("th", { scope: "row" }, bdi(e.event)), cell(plain(e.backend), "left"), cell(`${e.counted} of ${e.rows}`), cell(e.counted ? (e.lowest < 1 ? "from " : "") + part(e.lowest) : NONE, bad(e) ? "est" : null),
		cell(plain([e.counted < e.rows && e.why.size ? "not supported: " + [...e.why].join("; ") : "", e.empty ? `not counted in ${e.empty} rows` : "",
			e.missing ? `${e.missing} values of intervals are missing` : "", e.inexact ? `${e.inexact} values of intervals are not exact` : "", [...e.words].join(", ")].filter(Boolean).join("; ")), "wrap"))));
}

function showRule() {
	const p = (text) => el("li", {}, text);
	$("rule").replaceChildren(el("ul", {},
		p(`Rows are VMs, and tenants without known VMs. Nothing is said with fewer than ${RULE.intervals} intervals.`),
		p(`A row suffers if its CPI is at least ${RULE.cpi} times its usual one (the lower quarter of its own intervals, of all that vpmud remembers if it remembers ${RULE.intervals} or more) in ${100 * RULE.cpiPart} % of the intervals in which it ran, and in ${RULE.cpiMin} or more; or if the run-queue wait takes ${100 * RULE.wait} % of the time in which it could run.`),
		p(`A suspect uses at least ${100 * RULE.share} % of what all rows use of a resource: CPU time, and for a raised CPI also events of caches and memory; or it runs for at least ${100 * RULE.ofWait} % of the time that the other one waits. It uses ${RULE.contrast} times more of it while the other suffers than otherwise (if it always suffers: than in its better intervals). Both series correlate by ${RULE.r} or more, and by so much that chance names a suspect on ${100 * RULE.alpha} % of the hosts that have none (Fisher's z for all pairs compared; intervals that resemble their neighbours count less).`),
		p(`Where it is known who ran on which CPU, the CPU time of a suspect for run-queue wait is that on the CPUs that the other ran on, of all time of these.`),
		p(`Without a change over time: a row that has ${100 * RULE.holds} % of the CPU time of all rows, or of these CPUs, and ${RULE.timesMore} times as much as a row that waits in the run queue, is a suspect, too. The CPU time of /host makes none where idle-time is not counted, as idle CPUs are in it.`),
		p("Suspects are ranked by correlation times share, summed up over the rows that suffer. If no pair passes, no row is named. Counts of different backends are never compared.")));
}

// ---- gaps ----

const GAPS = 8; // lines

function showGaps(data, gaps) {
	const begin = (g) => (g.from ? data.times[g.from - 1] : data.start_ns), end = (g) => data.times[g.from + g.n - 1];
	const lines = gaps.slice(0, GAPS).map((g) => `Nothing was counted from ${clock(begin(g))} to ${clock(end(g))} UTC (${span(end(g) - begin(g))}): the server did not run, or no session counted.`);
	if (gaps.length > GAPS)
		lines.push(`And ${gaps.length - GAPS} more gaps.`);
	$("gaps").hidden = !lines.length;
	$("gaps").replaceChildren(...lines.map((l) => el("p", {}, l)));
}

// ---- the whole ----

function showWhere(data) {
	const h = data.host ?? {}, last = data.times.at(-1);
	$("title").replaceChildren("vpmu report", h.name ? " of " : "", h.name ? bdi(h.name) : "");
	document.title = "vpmu report" + (h.name ? " of " + shortName(h.name) : "");
	const facts = [last ? `${when(data.start_ns)} to ${when(last)} (${span(last - data.start_ns)}, ${data.times.length} intervals)` : "no intervals yet",
		data.kept_ns ? `as vpmud remembers it, counted every ${span(data.kept_ns)}` : "", h.cpus ? `${h.cpus} CPUs` : "", h.kernel ?? "", h.server ? `${h.server} ${h.version ?? ""}` : "", [...new Set(data.series.map((s) => s.backend).filter(Boolean))].map((b) => "backend " + b).join(", ")];
	$("where").textContent = plain(facts.filter(Boolean).join("; "));
	$("made").textContent = plain(data.made_by ?? "");
}

function show(data) {
	View.data = data;
	View.dt = spansOf(data);
	View.at = placesOf(data.start_ns, data.times);
	View.verdict = judge(data, View.dt);
	if (View.kind === null && data.series.length) {
		View.kind = View.verdict.rows.some((r) => r.vm !== null) ? "vm" : "tenant";
		$("rows-kind").value = View.kind;
	}
	View.sort ??= "cpu";
	showWhere(data);
	showGaps(data, View.verdict.gaps);
	showSuspects();
	const have = usedEvents(data), lacking = [...new Set(data.series.map((s) => s.event))].filter((e) => !have.includes(e) && !CPU.includes(e) && !WAIT.includes(e) && data.series.every((s) => s.event !== e || s.why));
	$("runs-doc").textContent = "Shares are of the whole host where that is counted. Time is that of all CPUs together." + (lacking.length ? ` Not supported on this host: ${lacking.map(plain).join(", ")}.` : "");
	showRows();
	showSuffering();
	showQuality();
}

function start() {
	$("rows-kind").addEventListener("change", (e) => { View.kind = e.target.value; View.rows = PAGE_ROWS; showRows(); });
	$("search").addEventListener("input", (e) => { View.search = e.target.value; View.rows = PAGE_ROWS; showRows(); });
	$("more").addEventListener("click", () => { View.rows += 100; showRows(); });
	showRule();
	const data = JSON.parse($("data").textContent);
	if (data.live)
		return startLive(data);
	show(data);
	showFlame(data.profile, View.verdict);
}
