// SPDX-License-Identifier: GPL-2.0-or-later
// Hosts for page.sh, run in the report page by its browser: data of the form of docs/report.md, made up with a known
// culprit or without one. cases.NAME(seed) returns the data.
"use strict";

function random(seed) { // mulberry32
	return () => {
		let t = (seed += 0x6d2b79f5);
		t = Math.imul(t ^ (t >>> 15), t | 1);
		t ^= t + Math.imul(t ^ (t >>> 7), t | 61);
		return ((t ^ (t >>> 14)) >>> 0) / 4294967296;
	};
}

const STEP = 1e9, START = 1.8e18;

function host(n, vms, more) {
	const times = Array.from({ length: n }, (_, k) => START + (k + 1) * STEP), series = [];
	const add = (tenant, vm, event, delta, extra) => series.push({ backend: "bpf", tenant, vm, event, unit: /clock|delay|idle/.test(event) ? "ns" : "", delta, ...extra });
	const tenants = new Map([["/", new Map()]]);
	for (const v of vms)
		for (const [event, f] of Object.entries(v.events)) {
			const delta = typeof f === "string" ? Array(n).fill(null) : times.map((_, k) => { const x = f(k); return x === null ? null : Math.round(x); });
			add(v.tenant, v.vm, event, delta, typeof f === "string" ? { why: f } : v.extra?.[event]);
			for (const t of ["/", v.tenant]) {
				const to = tenants.get(t) ?? tenants.set(t, new Map()).get(t), before = to.get(event);
				to.set(event, typeof f === "string" ? f : delta.map((d, k) => (d ?? 0) + (before?.[k] ?? 0)));
			}
		}
	for (const [t, events] of tenants)
		for (const [event, d] of events)
			add(t, null, event, typeof d === "string" ? Array(n).fill(null) : d, typeof d === "string" ? { why: d } : {});
	return { format: 1, made_by: "Made by page_cases.js.", host: { name: "test-host", kernel: "6.1.0", cpus: 8, server: "vpmud", version: "0" },
		start_ns: START, times, series, notes: [], ...more };
}

// A VM that runs the part @cpu of a CPU, a number or of each interval, with CPI @cpi(k) and @misses(k) per second.
function busy(r, tenant, vm, cpu, cpi, misses, wait) {
	const ran = [], cycles = [];
	const once = (list, k, f) => (list[k] ??= f());
	const c = (k) => once(ran, k, () => (typeof cpu === "function" ? cpu(k) : cpu) * STEP * (0.9 + 0.2 * r()));
	return { tenant, vm, events: {
		"task-clock": c, cycles: (k) => once(cycles, k, () => 2.5 * c(k)), instructions: (k) => once(cycles, k, () => 2.5 * c(k)) / (cpi(k) * (0.97 + 0.06 * r())),
		"cache-misses": (k) => misses(k) * (0.9 + 0.2 * r()), "context-switches": () => 100 * r(), ...(wait ? { "run-delay": (k) => wait(k) * (0.9 + 0.2 * r()) } : {}) } };
}

const one = () => 1, few = () => 2e5;
const bursts = (k) => k % 12 < 4;

function neighbours(r, culprit) {
	const hurt = (k) => (culprit && bursts(k) ? 1.9 : 1);
	return [busy(r, "/globex", "gx-1", 1, one, (k) => (culprit && bursts(k) ? 5e7 : 1e6)),
		busy(r, "/acme/db", "db-1", 0.7, (k) => 0.8 * hurt(k), few), busy(r, "/acme/web", "web-1", 0.5, (k) => 0.6 * hurt(k), few),
		busy(r, "/acme/web", "web-2", 0.3, one, few), busy(r, "/initech", "ini-1", 1.4, (k) => 1.1, () => 8e5), busy(r, "/initech", "ini-2", 0.02, one, () => 1e3)];
}

const tree = (who) => ["", 1000, [[who, 640, [["vcpu0", 640, [["[guest.k]", 140, [["do_syscall_64", 140, [["copy_page", 90, []]]]]], ["main", 500, [["stream_triad", 400, []], ["fill", 60, []]]]]]]],
	["db-1", 360, [["vcpu0", 360, [["exec_query", 360, [["btree_find", 200, []], ["hash_join", 120, []]]]]]]]]];
const profile = (who, event = "cycles") => ({ event, samples: 1000, lost: 0, period: event === "cycles" ? 10000000 : 5000000, throttled: 0, backend: "bpf", note: "", pruned: false, root: tree(who) });

const HOSTILE = ["</script><script>window.hacked=1</script>", "<img src=x onerror=window.hacked=1>", "\u202egnp.exe", "a\u0000b\u001b[31mred", "\u200b\u2066hidden",
	"\"'><svg onload=window.hacked=1>", "{{nonce}}", "__proto__", "constructor", "x".repeat(5000), "\ud800 alone", "javascript:window.hacked=1"];

const cases = {
	idle: (seed = 1) => { const r = random(seed); return host(60, [["/acme/web", "web-1"], ["/acme/db", "db-1"], ["/globex", "gx-1"]].map(([t, v]) => busy(r, t, v, 0.002, one, () => 100))); },
	noisy: (seed = 1) => host(60, neighbours(random(seed), true), { profile: profile("gx-1") }),
	quiet: (seed = 1) => host(60, neighbours(random(seed), false), { profile: profile("gx-1") }),
	// db-1 has phases of its own, ini-1 bursts at other times.
	phases: (seed = 1) => { const r = random(seed), at = Array.from({ length: 60 }, () => r() < 0.3), other = Array.from({ length: 60 }, () => r() < 0.3);
		return host(60, [busy(r, "/acme/db", "db-1", 1, (k) => (at[k] ? 2 : 1), few), busy(r, "/globex", "gx-1", 1, one, (k) => (other[k] ? 4e7 : 1e6)), busy(r, "/initech", "ini-1", 1, one, () => 3e6)]); },
	// Both change once.
	step: (seed = 1) => { const r = random(seed); return host(60, [busy(r, "/acme/db", "db-1", 1, (k) => (k < 40 ? 1 : 2), few), busy(r, "/globex", "gx-1", 1, one, (k) => (k < 40 ? 1e6 : 4e7))]); },
	waits: (seed = 1) => { const r = random(seed); return host(60, [busy(r, "/globex", "hog", 6, one, few, () => 1e7), ...[1, 2, 3, 4].map((i) => busy(r, "/acme/web", "web-" + i, 0.4, one, few, () => 4e8))]); },
	// Three VMs on one of 8 CPUs, of which two always wait, and more while the third one runs. Without a culprit each has phases of
	// its own.
	slices: (seed = 1, culprit = true) => { const r = random(seed), phases = () => Array.from({ length: 60 }, () => r() < 0.5), on = culprit ? Array.from({ length: 60 }, (_, k) => k % 7 < 4) : phases();
		const victim = (tenant, vm) => { const at = culprit ? on : phases(); return busy(r, tenant, vm, (k) => (at[k] ? 0.3 : 0.4), one, few, (k) => (at[k] ? 5e8 : 2.5e8)); };
		return host(60, [busy(r, "/host", null, 6, one, few), victim("/acme/web", "web-1"), victim("/acme/db", "db-1"), busy(r, "/globex", "batch-7", (k) => (on[k] ? 0.4 : 0.01), one, few, (k) => (on[k] ? 6e8 : 0))]); },
	idleHost: (seed = 1) => { const r = random(seed); return host(60, [busy(r, "/host", null, 6, one, few), ...[1, 2, 3, 4].map((i) => busy(r, "/acme/web", "web-" + i, 0.4, one, few, () => 4e8))]); },
	// A hog on one of 8 CPUs, and most of /host's clock is idle time; or of the host's own work.
	idleKnown: (seed = 1, idle = 6e9) => { const r = random(seed), h = busy(r, "/host", null, 6.4, one, few), clock = h.events["task-clock"];
		return host(60, [{ ...h, events: { ...h.events, "idle-time": (k) => Math.min(idle, clock(k)) } }, busy(r, "/globex", "hog", 0.85, one, few, () => 1e8), ...[1, 2].map((i) => busy(r, "/acme/web", "web-" + i, 0.05, one, few, () => 6e7))]); },
	// Two CPUs, who runs on which is known: gx-1 has CPU 0 alone, hog most of CPU 1, on which two wait. Or hog is on CPU 0, too.
	apart: (seed = 1, hogs = 1) => { const r = random(seed), on = (tenant, vm, ...ns) => ({ backend: "bpf", tenant, vm, ns });
		const d = host(60, [busy(r, "/globex", "gx-1", 1, one, few, () => 1e6), busy(r, "/initech", "hog", 0.6, one, few, () => 1e7), ...["web-1", "web-2"].map((v) => busy(r, "/acme/web", v, 0.13, one, few, () => 1e8))]);
		return { ...d, cpus: [on("/", null, 6e10, 6e10), on("/globex", "gx-1", 6e10, 0), on("/initech", "hog", hogs ? 0 : 3.6e10, hogs ? 3.6e10 : 0), on("/acme/web", "web-1", 0, 8e9), on("/acme/web", "web-2", 0, 8e9)] }; },
	equal: (seed = 1) => { const r = random(seed); return host(60, [1, 2, 3, 4].map((i) => busy(r, "/acme/web", "web-" + i, 2, one, few, () => 2e9))); },
	nopmu: (seed = 1) => { const d = cases.waits(seed), no = "no hardware PMU on this host"; d.series.forEach((s) => { if (/cycles|instr|cache/.test(s.event)) { s.delta.fill(null); s.why = no; } });
		return { ...d, profile: profile("hog", "cpu-clock") }; },
	// The range that vpmud remembers, with a gap of five minutes and a VM that began later; and an hour to compare with.
	past: (seed = 1) => { const d = cases.noisy(seed), gap = (a) => [...a.slice(0, 30), null, ...a.slice(30)];
		return { ...d, kept_ns: 1e10, times: Array.from({ length: 61 }, (_, k) => START + (k < 30 ? (k + 1) * 1e10 : k * 1e10 + 3e11)), profile: { error: "vpmud keeps counts of the past, but no samples." },
			series: d.series.map((s) => ({ ...s, delta: gap(s.vm === "ini-2" ? s.delta.map((v, k) => (k < 40 ? null : v)) : s.delta) })) }; },
	// All the range is bad, which only what is remembered can tell.
	remembered: (seed = 1) => { const r = random(seed), d = host(60, [busy(r, "/acme/db", "db-1", 1, () => 2, few), busy(r, "/globex", "gx-1", 1, one, few)]), b = host(60, [busy(r, "/acme/db", "db-1", 1, (k) => (k < 50 ? 1 : 2), few)]);
		return { ...d, baseline: { interval_ns: STEP, times: b.times, series: b.series } }; },
	nocounts: (seed = 1) => { const d = host(60, neighbours(random(seed), true).map((v) => ({ ...v, events: { ...v.events, cycles: "no hardware PMU", instructions: "no hardware PMU", "cache-misses": "no hardware PMU" } })));
		return { ...d, profile: { error: "event cycles: not supported by this host" } }; },
	multiplexed: (seed = 1) => { const d = cases.noisy(seed);
		d.series.forEach((s) => { if (/cycles|instr|cache/.test(s.event)) { s.running = 0.41; s.quality = "estimated partial"; } if (s.event === "cache-misses") s.delta[7] = null; }); return d; },
	late: (word = "late") => { const d = cases.noisy(); d.series.filter((s) => s.vm === "db-1").forEach((s) => { s.quality = word; }); return d; },
	short: (seed = 1) => host(6, neighbours(random(seed), true)),
	many: (seed = 1, culprit = true) => { const r = random(seed), vms = neighbours(r, culprit);
		for (let i = 0; i < 994; i++) {
			const at = Math.floor(r() * 12), cpi = 0.5 + r();
			vms.push(busy(r, "/t" + (i % 40), "vm-" + String(i).padStart(4, "0"), 0.01 + 0.02 * r(), (k) => cpi * ((k + at) % 12 < 2 ? 1.6 : 1), () => 1e4 * r()));
		}
		return host(60, vms, { profile: profile("gx-1") }); },
	hostile: (seed = 1) => { const r = random(seed), d = host(30, [...HOSTILE.map((h, i) => busy(r, "/" + HOSTILE[(i + 1) % HOSTILE.length], h, 0.3, (k) => (bursts(k) && i % 2 ? 2 : 1), (k) => (i === 0 && bursts(k) ? 5e7 : 1e4)))]);
		d.series.push({ backend: "bpf", tenant: "/", vm: "z", event: HOSTILE[1], unit: "", delta: Array(30).fill(1), quality: HOSTILE[0] });
		return { ...d, host: { name: HOSTILE[1], server: HOSTILE[0], kernel: HOSTILE[2] }, notes: [...HOSTILE], made_by: HOSTILE[0], profile: { ...profile(HOSTILE[0]), note: HOSTILE[5], event: HOSTILE[1] } }; },
	empty: () => ({ format: 1, host: {}, start_ns: START, times: [], series: [] }),
};
