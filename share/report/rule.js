// SPDX-License-Identifier: GPL-2.0-or-later
// The rule that names a suspect, from the counts of each interval: no drawing, no state. view.js shows its result. The
// thresholds are those of the page's last section and of vpmu-report's manual; a change here is a change there.
"use strict";

const RULE = {
	intervals: 10, // fewer: no statement
	ran: 0.01, // a CPI is taken where the row ran this part of the interval
	cpi: 1.3, // an interval suffers from this multiple of the usual CPI on
	cpiPart: 0.1, // a row suffers if this part of its intervals does,
	cpiMin: 3, // and at least so many
	wait: 0.1, // or if it waits in the run queue this part of the time in which it could run
	share: 0.1, // a suspect uses this part of what all rows use of a resource,
	ofWait: 0.25, // or runs for this part of the time that another one waits,
	contrast: 1.5, // this many times more while the other suffers,
	r: 0.5, // and the two correlate, beyond chance:
	holds: 0.5, // or: it holds this part of the CPU time of all rows, and
	timesMore: 3, // this many times as much as one that waits in the run queue
	alpha: 0.01, // chance of naming a suspect on a host that has none
};

const CPU = ["task-clock", "cpu-time"];
const IDLE = "idle-time"; // a part of the clocks of / and /host
const WAIT = ["run-delay", "steal"]; // one figure of the kernel by two names
const TAKEN = ["preempted-by-others"]; // how often another tenant took a CPU from tasks that could go on
const SHARED = /cache|llc|l3|mem|bus|dram|offcore/; // what neighbours of a CPU share

const sum = (a) => a.reduce((s, v) => s + (v ?? 0), 0);
const known = (a) => a.filter((v) => v !== null);
const mean = (a) => (a.length ? sum(a) / a.length : null);

function quantile(values, q) {
	const s = [...values].sort((a, b) => a - b);
	return s.length ? s[Math.floor(q * (s.length - 1))] : null;
}

// The rows of an answer: { key, backend, tenant, vm, events: Map(event -> series) }.
function subjectsOf(data) {
	const map = new Map();
	for (const s of data.series) {
		const key = JSON.stringify([s.backend ?? "", s.tenant, s.vm ?? null]);
		let row = map.get(key);
		if (!row)
			map.set(key, row = { key, backend: s.backend ?? "", tenant: s.tenant, vm: s.vm ?? null, events: new Map() });
		row.events.set(s.event, s);
	}
	return [...map.values()].flatMap(splitIdle);
}

// Where idle time is known it is a row of its own, and no longer in the clock of /host.
function splitIdle(row) {
	const idle = row.events.get(IDLE), name = CPU.find((n) => row.events.has(n)), cpu = row.events.get(name);
	row.events.delete(IDLE);
	if (!isHost(row) || !idle || idle.why || !cpu || cpu.why)
		return [row];
	const part = cpu.delta.map((v, k) => (v === null || (idle.delta[k] ?? null) === null ? null : Math.min(v, idle.delta[k])));
	row.events.set(name, { ...cpu, delta: cpu.delta.map((v, k) => (part[k] === null ? null : v - part[k])) });
	row.split = true;
	return [row, { key: row.key + IDLE, backend: row.backend, tenant: "/idle", vm: null, idle: true, events: new Map([[name, { ...cpu, tenant: "/idle", delta: part }]]) }];
}

function firstOf(row, names) {
	for (const n of names) {
		const s = row.events.get(n);
		if (s && !s.why && known(s.delta).length)
			return s;
	}
	return null;
}

const counts = (row, names) => names.some((n) => row.events.has(n) && !row.events.get(n).why);
const cpuOf = (row) => firstOf(row, CPU);
const isHost = (row) => row.vm === null && row.tenant === "/host";
// The clock of /host also counts the time in which CPUs are idle, unless it is split: it does not tell who has a CPU.
const idles = (row) => isHost(row) && !row.split;
const nameOf = (row) => row.vm ?? row.tenant;

// Those that may suffer or make others suffer: VMs, and tenants of which no VM is known. Not / and not what contains them.
function actorsOf(rows) {
	const inside = (up, path) => path === up || path.startsWith(up === "/" ? "/" : up + "/");
	const seen = new Set(), parents = new Set();
	for (const row of rows)
		if (row.vm !== null)
			for (let p = row.tenant; p.length > 1; p = p.slice(0, Math.max(p.lastIndexOf("/"), 0)))
				seen.add(p);
	for (const row of rows)
		if (row.vm === null)
			for (let p = row.tenant.slice(0, row.tenant.lastIndexOf("/")); p.length > 1; p = p.slice(0, Math.max(p.lastIndexOf("/"), 0)))
				parents.add(p);
	return rows.filter((row) => row.vm !== null || (!row.idle && inside("/", row.tenant) && row.tenant !== "/" && !seen.has(row.tenant) && !parents.has(row.tenant)));
}

// CPI of each interval, null where it cannot be told.
function cpiSeries(row, dt) {
	const i = firstOf(row, ["instructions"]), c = firstOf(row, ["cycles", "cpu-cycles"]), cpu = cpuOf(row);
	if (!i || !c)
		return null;
	const series = i.delta.map((n, k) => {
		const ran = cpu ? (cpu.delta[k] ?? 0) / dt[k] : 1;
		return n > 0 && c.delta[k] !== null && ran >= RULE.ran ? c.delta[k] / n : null;
	});
	return { i, c, series };
}

// The CPI of the row and what is usual for it: of @baseline, the same row in what vpmud remembers, if that is long enough.
function cpiOf(row, dt, baseline) {
	const own = cpiSeries(row, dt), values = known(own?.series ?? []);
	if (!values.length)
		return null;
	const { i, c, series } = own, before = known(baseline ? cpiSeries(baseline.row, baseline.dt)?.series ?? [] : []);
	const remembered = before.length >= RULE.intervals ? before.length : 0;
	const usual = quantile(remembered ? before : values, 0.25), bad = values.filter((v) => v >= usual * RULE.cpi);
	return { kind: "CPI", series, usual, remembered, worst: quantile(values, 0.95), nr: values.length, bad: bad.length,
		mean: sum(c.delta) / sum(i.delta), estimated: (i.running ?? 1) < 1 || (c.running ?? 1) < 1,
		limit: usual * RULE.cpi,
		suffers: values.length >= RULE.intervals && bad.length >= RULE.cpiMin && bad.length >= RULE.cpiPart * values.length };
}

// Part of the time in which the row could run that went to @names.
function partOf(row, names, kind, limit) {
	const w = firstOf(row, names), cpu = cpuOf(row);
	if (!w || !cpu)
		return null;
	const series = w.delta.map((v, k) => (v === null || cpu.delta[k] === null || v + cpu.delta[k] <= 0 ? null : v / (v + cpu.delta[k])));
	const all = sum(w.delta) + sum(cpu.delta), values = known(series);
	const part = all > 0 ? sum(w.delta) / all : null;
	return { kind, series, sum: sum(w.delta), mean: part, nr: values.length, limit, bad: values.filter((v) => v >= limit).length, estimated: (w.running ?? 1) < 1,
		suffers: values.length >= RULE.intervals && part !== null && part >= limit };
}

// The quantile of the normal distribution; Abramowitz and Stegun 26.2.23.
function normalQuantile(p) {
	const t = Math.sqrt(-2 * Math.log(Math.min(p, 0.5)));
	return t - (2.515517 + 0.802853 * t + 0.010328 * t * t) / (1 + 1.432788 * t + 0.189269 * t * t + 0.001308 * t ** 3);
}

function pearson(x, y) {
	const mx = mean(x), my = mean(y);
	let xy = 0, xx = 0, yy = 0;
	for (let i = 0; i < x.length; i++) {
		xy += (x[i] - mx) * (y[i] - my);
		xx += (x[i] - mx) ** 2;
		yy += (y[i] - my) ** 2;
	}
	return xx > 0 && yy > 0 ? xy / Math.sqrt(xx * yy) : 0;
}

const lagged = (x) => Math.max(0, pearson(x.slice(0, -1), x.slice(1)));

// How far two series move together. Neighbouring intervals are alike, so that n of them are worth less: a single step of
// both is one coincidence, not n.
function correlate(use, pain, tests) {
	const x = [], y = [];
	use.forEach((v, k) => {
		if (v !== null && pain[k] !== null) {
			x.push(v);
			y.push(pain[k]);
		}
	});
	if (x.length < RULE.intervals)
		return null;
	const a = lagged(x) * lagged(y), n = x.length * (1 - a) / (1 + a);
	const need = n > 4 ? Math.max(RULE.r, Math.tanh(normalQuantile(RULE.alpha / Math.max(tests, 1)) / Math.sqrt(n - 3))) : 1;
	return { r: pearson(x, y), n, need };
}

// Use in the bad intervals against that in the others. If nearly all are bad, those above the mean are compared with the rest.
function contrastOf(use, pain, limit) {
	const bad = [], good = [], all = known(pain), worse = all.filter((v) => v < limit).length < RULE.cpiMin;
	const from = worse ? mean(all) : limit;
	use.forEach((v, k) => v !== null && pain[k] !== null && (pain[k] >= from ? bad : good).push(v));
	return { worse, contrast: bad.length && good.length ? mean(bad) / Math.max(mean(good), 1e-12) : null };
}

// Runs of intervals in which nothing was counted, while something was in others: { from, n }, numbers of intervals.
function gapsOf(data) {
	const gaps = [];
	data.times.forEach((_, k) => {
		if (data.series.some((s) => s.delta[k] !== null && s.delta[k] !== undefined))
			return;
		const last = gaps.at(-1);
		if (last && last.from + last.n === k)
			last.n++;
		else
			gaps.push({ from: k, n: 1 });
	});
	return gaps.length && gaps[0].n === data.times.length ? [] : gaps;
}

// How much of the CPUs' time that row @v ran on was row @u's, of the report as a whole: a function (u, v), or null where it is not known
// who ran on which CPU. A CPU counts as much as @v used it.
function localOf(data) {
	const on = new Map((data.cpus ?? []).map((c) => [JSON.stringify([c.backend ?? "", c.tenant, c.vm ?? null]), c.ns]));
	return !on.size ? null : (u, v) => {
		const all = on.get(JSON.stringify([v.backend, "/", null])), mine = on.get(v.key), other = on.get(u.key), ran = sum(mine ?? []);
		return all && other && ran > 0 ? sum(mine.map((ns, c) => (ns / ran) * (other[c] / Math.max(all[c], 1)))) : 0;
	};
}

// Everything that the page says: { rows, actors, pains, victims, suspects, unproven, gaps, can, ran }.
function judge(data, dt) {
	const rows = subjectsOf(data), actors = actorsOf(rows), uses = [], victims = [];
	const pains = new Map(), gaps = gapsOf(data);
	const can = { cpi: false, wait: false, intervals: dt.length - sum(gaps.map((g) => g.n)) };
	const baseline = new Map((data.baseline ? subjectsOf(data.baseline) : []).map((row) => [row.key, { row, dt: data.baseline.times.map(() => data.baseline.interval_ns) }]));
	for (const row of actors) {
		const pain = { cpi: cpiOf(row, dt, baseline.get(row.key)), wait: partOf(row, WAIT, "run-queue wait", RULE.wait) };
		pains.set(row.key, pain);
		can.cpi ||= counts(row, ["instructions"]) && counts(row, ["cycles", "cpu-cycles"]);
		can.wait ||= counts(row, WAIT);
		for (const k of ["cpi", "wait"]) {
			if (pain[k]?.suffers)
				victims.push({ row, pain: pain[k], by: k });
		}
	}
	// Who uses how much of each resource, per backend: counts of two backends are different things.
	const totals = new Map();
	for (const row of actors) {
		const cpu = cpuOf(row);
		for (const [event, s] of row.events) {
			if (s.why || (s !== cpu && !SHARED.test(event)))
				continue;
			const id = row.backend + " " + event;
			totals.set(id, (totals.get(id) ?? 0) + sum(s.delta));
			if (s === cpu && idles(row))
				continue;
			uses.push({ row, event, s, id, sum: sum(s.delta), cpu: s === cpu });
		}
	}
	const local = localOf(data);
	for (const u of uses)
		u.share = totals.get(u.id) > 0 ? u.sum / totals.get(u.id) : 0;
	const pairs = [];
	for (const victim of victims)
		for (const u of uses)
			if (u.row !== victim.row && u.row.backend === victim.row.backend && (victim.by === "cpi" ? u.share >= RULE.share :
				u.cpu && (local ? local(u.row, victim.row) >= RULE.share : u.share >= RULE.share || u.sum >= RULE.ofWait * victim.pain.sum)))
				pairs.push({ victim, u });
	const suspects = new Map(), unproven = [];
	for (const p of pairs) {
		const rate = p.u.s.delta.map((v, k) => (v === null ? null : v / dt[k]));
		const c = correlate(rate, p.victim.pain.series, pairs.length);
		const { worse, contrast } = contrastOf(rate, p.victim.pain.series, p.victim.pain.limit);
		if (!c || c.r < RULE.r || !(contrast >= RULE.contrast))
			continue;
		const e = { victim: p.victim, event: p.u.event, share: p.u.share, contrast, worse, local: p.u.cpu && local ? local(p.u.row, p.victim.row) : null, ...c, use: rate, estimated: p.victim.pain.estimated || (p.u.s.running ?? 1) < 1 };
		if (c.r < c.need) {
			unproven.push({ row: p.u.row, ...e });
			continue;
		}
		const s = suspects.get(p.u.row.key) ?? { row: p.u.row, evidence: [], score: 0 };
		s.evidence.push(e);
		s.score += c.r * e.share;
		suspects.set(p.u.row.key, s);
	}
	// Who waits for a CPU waits for those that have it.
	for (const victim of victims) {
		if (victim.by !== "wait")
			continue;
		const own = uses.find((u) => u.cpu && u.row === victim.row);
		for (const u of uses) {
			if (!u.cpu || u.row === victim.row || u.row.backend !== victim.row.backend || u.share < RULE.timesMore * (own?.share ?? 1))
				continue;
			const held = local && !isHost(u.row) ? local(u.row, victim.row) : u.share;
			if (held < RULE.holds || (local && isHost(u.row)))
				continue;
			const s = suspects.get(u.row.key) ?? { row: u.row, evidence: [], score: 0 };
			if (s.evidence.some((e) => e.victim === victim && e.event === u.event))
				continue;
			s.evidence.push({ victim, event: u.event, share: u.share, r: 0, local: local ? held : null, holds: u.share / Math.max(own.share, 1e-9), use: u.s.delta.map((v, k) => (v === null ? null : v / dt[k])), estimated: victim.pain.estimated });
			s.score += u.share / 2;
			suspects.set(u.row.key, s);
		}
	}
	const ranked = [...suspects.values()].sort((a, b) => b.score - a.score);
	ranked.forEach((s) => s.evidence.sort((a, b) => b.r * b.share - a.r * a.share));
	unproven.sort((a, b) => b.r - a.r);
	return { rows, actors, pains, victims, suspects: ranked, unproven: unproven.filter((u) => !suspects.has(u.row.key)), gaps, can, ran: actors.some((row) => sum(cpuOf(row)?.delta ?? []) > 0) };
}
