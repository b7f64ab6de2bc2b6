// SPDX-License-Identifier: GPL-2.0-or-later
// The live page of vpmu-exporter: reads sums of counts and keeps their differences, as long as it is open.
"use strict";

const LIVE_POINTS = 360, LIVE_MS = 5000;
const Live = { before: null, data: null, series: new Map(), paused: false };

const idOf = (s) => JSON.stringify([s.backend, s.tenant, s.vm ?? null, s.event]);

// Add the sums @now: { time_ns, host, series: [{ ..., count, running_ns, enabled_ns, since_us }] }.
function liveAdd(now) {
	const before = Live.before, old = new Map((before?.series ?? []).map((s) => [idOf(s), s]));
	Live.before = now;
	if (!before || now.time_ns <= before.time_ns)
		return;
	const d = Live.data ??= { start_ns: before.time_ns, times: [], series: [] };
	d.host = now.host;
	d.made_by = now.made_by;
	d.notes = now.notes;
	d.times.push(now.time_ns);
	const n = d.times.length;
	for (const s of now.series) {
		const was = old.get(idOf(s));
		let t = Live.series.get(idOf(s));
		if (!t) {
			Live.series.set(idOf(s), t = { ...s, delta: Array(n - 1).fill(null) });
			d.series.push(t);
		}
		const same = was && was.since_us === s.since_us && s.count !== null && was.count !== null && s.count >= was.count;
		const enabled = same ? s.enabled_ns - was.enabled_ns : 0, running = same ? s.running_ns - was.running_ns : 0;
		const shared = running < enabled;
		t.quality = s.quality;
		t.why = s.why;
		if (shared && running > 0)
			t.running = Math.min(t.running ?? 1, running / enabled);
		t.delta.push(!same || (shared && running <= 0) ? null : (s.count - was.count) * (shared ? enabled / running : 1));
	}
	for (const [id, t] of Live.series) {
		while (t.delta.length < n)
			t.delta.push(null);
		if (n > LIVE_POINTS)
			t.delta.shift();
		if (!known(t.delta).length && !old.has(id) && !t.why)
			Live.series.delete(id);
	}
	d.series = [...Live.series.values()];
	if (n > LIVE_POINTS)
		d.start_ns = d.times.shift();
}

async function livePoll() {
	let text;
	try {
		const r = await fetch("report.json", { cache: "no-store" });
		if (!r.ok)
			throw new Error(`${r.status} ${await r.text()}`);
		liveAdd(await r.json());
		const n = Live.data?.times.length ?? 0;
		text = n ? `Live: ${n} intervals of about ${LIVE_MS / 1000} s, in this page only.` : "Live: the first interval ends in a moment.";
		if (n)
			show(Live.data);
	} catch (e) {
		text = "No data: " + plain(e.message);
	}
	if ($("livestate").textContent !== text)
		$("livestate").textContent = text;
}

function startLive(data) {
	const again = async () => {
		if (!Live.paused)
			await livePoll();
		setTimeout(again, Live.data ? LIVE_MS : LIVE_MS / 5);
	};
	$("live").hidden = false;
	$("livestate").setAttribute("aria-live", "off"); // it changes with every interval
	$("pause").addEventListener("click", (e) => {
		Live.paused = !Live.paused;
		e.target.setAttribute("aria-pressed", Live.paused);
		e.target.textContent = Live.paused ? "Continue" : "Pause";
	});
	showWhere({ ...data, times: [], series: [] });
	showFlame({ error: "the live page takes none; vpmu report does." }, { suspects: [] });
	again();
}
