// SPDX-License-Identifier: GPL-2.0-or-later
// The flame graph of one VM or tenant, the outermost function on top, and the same as a table of functions. A frame of the
// data is [name, samples, children].
"use strict";

const FLAME_ROW = 1.5; // rem, as in report.css
const FLAME_DEPTH = 64, FLAME_NARROW = 0.003; // deeper and narrower frames are not drawn

function hue(name) {
	let h = 0;
	for (let i = 0; i < name.length; i++)
		h = (h * 31 + name.charCodeAt(i)) >>> 0;
	return 18 + (h % 38);
}

function flameOf(profile, row) {
	if (!profile?.root)
		return null;
	return profile.root[2].find((f) => f[0] === (row.vm ?? row.tenant)) ?? null;
}

// Self and total samples of each function. A recursive function counts once in its total.
function functionsOf(frame) {
	const all = new Map();
	(function walk(f, above) {
		const own = f[1] - f[2].reduce((s, c) => s + c[1], 0), first = !above.has(f[0]);
		const e = all.get(f[0]) ?? { name: f[0], self: 0, total: 0 };
		e.self += own;
		e.total += first ? f[1] : 0;
		all.set(f[0], e);
		if (first)
			above.add(f[0]);
		f[2].forEach((c) => walk(c, above));
		if (first)
			above.delete(f[0]);
	})(frame, new Set());
	return [...all.values()].sort((a, b) => b.self - a.self);
}

function drawFlame(root, from, zoom) {
	const box = $("flame"), all = root[1];
	let deepest = 0;
	box.replaceChildren();
	(function draw(f, left, width, depth) {
		if (width < FLAME_NARROW || depth >= FLAME_DEPTH)
			return;
		deepest = Math.max(deepest, depth);
		const share = f[1] / all, text = `${plain(f[0])}: ${f[1]} samples, ${part(share)}`;
		const b = el("button", { type: "button", title: text, "aria-label": text }, plain(f[0]));
		b.style.left = 100 * left + "%";
		b.style.width = 100 * width + "%";
		b.style.top = depth * FLAME_ROW + "rem";
		b.style.background = `hsl(${hue(f[0])} 85% ${f[0].startsWith("[") ? 78 : 66}%)`;
		b.addEventListener("click", () => zoom(f));
		box.append(b);
		let at = left;
		for (const c of f[2]) {
			const w = (width * c[1]) / f[1];
			draw(c, at, w, depth + 1);
			at += w;
		}
	})(from, 0, 1, 0);
	box.style.height = (deepest + 1) * FLAME_ROW + "rem";
	const rows = functionsOf(root).filter((f) => f.self).slice(0, 15).map((f) => el("tr", {}, el("th", { scope: "row" }, bdi(f.name)),
		cell(part(f.self / all), null, bar(f.self / all)), cell(part(f.total / all)), cell(count(f.self))));
	fill($("functions"), [{ title: "Function" }, { title: "Itself" }, { title: "With what it calls" }, { title: "Samples" }], rows);
	$("functions-box").hidden = false;
}

const Flame = { chosen: null, root: null };

function showFlame(profile, verdict) {
	const doc = $("flame-doc"), who = $("flame-who");
	if (!profile || profile.error || !profile.root) {
		doc.textContent = "No profile: " + plain(profile?.error ?? "this page has none; vpmu report takes one.");
		$("flame-controls").hidden = $("functions-box").hidden = true;
		$("flame").replaceChildren();
		$("flame").style.height = 0;
		return;
	}
	const have = profile.root[2].slice().sort((a, b) => b[1] - a[1]);
	doc.textContent = `${plain(profile.event)}, one sample every ${count(profile.period)}: ${count(profile.samples)} samples, ${count(profile.lost)} lost` +
		((profile.running ?? 1) < 1 ? `, with a counter in ${part(profile.running)} of the time` : "") + (profile.nobodys ? `, ${count(profile.nobodys)} of unknown tenants` : "") +
		(profile.backend ? `, backend ${plain(profile.backend)}` : "") + (profile.note ? `. ${plain(profile.note)}` : "") +
		(profile.throttled ? `. The kernel stopped sampling ${profile.throttled} times for a while` : "") +
		(profile.pruned ? ". Functions below one sample in 2000 are summed up as [other]" : "") + ". Select a function to see it alone.";
	if (!have.length) {
		doc.textContent += " Nothing ran that could be sampled.";
		return;
	}
	const suspect = verdict.suspects.find((s) => flameOf(profile, s.row));
	const first = suspect ? nameOf(suspect.row) : have[0][0];
	who.replaceChildren(...have.slice(0, 200).map((f) => {
		const s = verdict.suspects.some((x) => nameOf(x.row) === f[0]);
		return el("option", { value: f[0] }, shortName(f[0]) + ` (${part(f[1] / profile.root[1])})` + (s ? ", suspect" : ""));
	}));
	if (![...who.options].some((o) => o.value === first))
		who.append(el("option", { value: first }, shortName(first)));
	who.value = first;
	const zoom = (f) => {
		drawFlame(Flame.root, f, zoom);
		$("flame-up").disabled = f === Flame.root;
		$("flame-state").textContent = f === Flame.root ? "" : `${plain(f[0])}: ${part(f[1] / Flame.root[1])} of the samples`;
		$("flame").querySelector("button")?.focus({ preventScroll: true });
	};
	const show = () => {
		Flame.root = have.find((f) => f[0] === who.value) ?? have[0];
		drawFlame(Flame.root, Flame.root, zoom);
		$("flame-up").disabled = true;
		$("flame-state").textContent = "";
	};
	who.addEventListener("change", show);
	$("flame-up").addEventListener("click", () => zoom(Flame.root));
	$("flame-controls").hidden = false;
	show();
}
