// SPDX-License-Identifier: GPL-2.0-or-later
// Elements, numbers and small charts. Text from the data only ever becomes text: no function here parses markup.
"use strict";

const $ = (id) => document.getElementById(id);

function el(tag, attributes, ...children) {
	const e = document.createElement(tag);
	for (const [k, v] of Object.entries(attributes ?? {}))
		v !== null && v !== undefined && v !== false && e.setAttribute(k, v === true ? "" : v);
	e.append(...children.filter((c) => c !== null && c !== undefined));
	return e;
}

function svg(tag, attributes, ...children) {
	const e = document.createElementNS("http://www.w3.org/2000/svg", tag);
	for (const [k, v] of Object.entries(attributes ?? {}))
		e.setAttribute(k, v);
	e.append(...children);
	return e;
}

// Characters that would hide or reorder what stands beside them are spelled out.
const HIDDEN = /[\u0000-\u001f\u007f-\u009f\u00ad\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb]|[\ud800-\udbff](?![\udc00-\udfff])|(?<![\ud800-\udbff])[\udc00-\udfff]/g;
const plain = (text) => String(text).replace(HIDDEN, (c) => "\\u" + c.charCodeAt(0).toString(16).padStart(4, "0"));
const NAME_MAX = 80;
const shortName = (text) => { const t = plain(text); return t.length > NAME_MAX ? t.slice(0, NAME_MAX - 1) + "\u2026" : t; };
const bdi = (text) => el("bdi", { dir: "ltr", title: shortName(text) === plain(text) ? null : plain(text) }, shortName(text));

const NONE = "\u2013";

function count(v) {
	if (v === null || v === undefined || !isFinite(v))
		return NONE;
	const units = [[1e15, "P"], [1e12, "T"], [1e9, "G"], [1e6, "M"], [1e3, "k"]];
	for (const [n, u] of units)
		if (Math.abs(v) >= n)
			return (v / n).toPrecision(3) + " " + u;
	return v >= 100 || Number.isInteger(v) ? v.toFixed(0) : v.toPrecision(2);
}

const part = (v) => (v === null || v === undefined || !isFinite(v) ? NONE : v > 0 && v < 0.0005 ? "<0.1 %" : (100 * v).toFixed(1) + " %");
const times = (v) => (v === null || !isFinite(v) ? NONE : v >= 1000 ? "over 1000\u00d7" : v.toPrecision(v < 10 ? 2 : 3) + "\u00d7");
const approx = (text, estimated) => (estimated && text !== NONE ? "\u2248 " + text : text);

function span(ns) {
	const s = ns / 1e9;
	return s < 120 ? +s.toPrecision(3) + " s" : s < 7200 ? (s / 60).toFixed(1) + " min" : (s / 3600).toFixed(1) + " h";
}

const when = (ns) => new Date(ns / 1e6).toISOString().replace("T", " ").replace(/\.\d+Z/, " UTC");
const clock = (ns) => new Date(ns / 1e6).toISOString().slice(11, 19);

// A bar for a part of the whole; the number stands beside it as text.
function bar(v) {
	const w = Math.max(0, Math.min(1, v ?? 0)) * 100;
	return svg("svg", { viewBox: "0 0 100 4", preserveAspectRatio: "none", "aria-hidden": "true" },
		svg("rect", { width: 100, height: 4, fill: "var(--line)" }), svg("rect", { width: w, height: 4, fill: "var(--bar)" }));
}

// Where each interval is in a chart: { from, to, mid }, parts of its width.
function placesOf(start_ns, times) {
	const all = Math.max((times.at(-1) ?? start_ns) - start_ns, 1);
	return times.map((t, k) => {
		const from = ((k ? times[k - 1] : start_ns) - start_ns) / all, to = (t - start_ns) / all;
		return { from, to, mid: (from + to) / 2 };
	});
}

const greyed = (gaps, at, W, H) => gaps.map((g) => svg("rect", { x: (at[g.from].from * W).toFixed(1), y: 0,
	width: Math.max((at[g.from + g.n - 1].to - at[g.from].from) * W, 1).toFixed(1), height: H, fill: "var(--gap)" }));

// A line over time, broken where there is no value; @at: placesOf(); @gaps: gapsOf(); @limit: a dashed line.
function spark(series, label, at, gaps, limit) {
	const W = 320, H = 56, values = known(series), max = Math.max(...values, limit ?? 0, 1e-12);
	let d = "", pen = false;
	series.forEach((v, k) => {
		if (v === null) {
			pen = false;
			return;
		}
		const x = (at[k].mid * W).toFixed(1), y = (H - 2 - (v / max) * (H - 4)).toFixed(1);
		d += (pen ? "L" : "M") + x + " " + y + (pen ? "" : "h.01");
		pen = true;
	});
	const g = svg("svg", { viewBox: `0 0 ${W} ${H}`, class: "spark", role: "img", "aria-label": label }, ...greyed(gaps, at, W, H),
		svg("path", { d: `M0 ${H - 1}H${W}`, stroke: "var(--line)", fill: "none" }));
	if (limit !== undefined && limit !== null) {
		const y = (H - 2 - (limit / max) * (H - 4)).toFixed(1);
		g.append(svg("path", { d: `M0 ${y}H${W}`, stroke: "var(--warn)", "stroke-dasharray": "4 4", fill: "none" }));
	}
	g.append(svg("path", { d, fill: "none", stroke: "var(--bar)", "stroke-width": 2, "stroke-linecap": "round", "stroke-linejoin": "round" }));
	return g;
}

// Colours that differ in lightness, too. The last is that of "others".
const COLOURS = ["#2f6fab", "#e09f3e", "#3a7d44", "#b5524e", "#8a6fb0", "#6aa6a6", "#c98bb9", "#7a6a53"];
const OTHERS = "#9aa3ad";

// Areas stacked over time, not across gaps: @layers: { name, values, colour }.
function stacked(layers, max, label, at, gaps) {
	const W = 960, H = 220, runs = [], base = Array(at.length).fill(0), gap = new Set();
	const x = (v) => (v * W).toFixed(1), y = (v) => (H - (Math.min(v, max) / max) * H).toFixed(1);
	const g = svg("svg", { viewBox: `0 0 ${W} ${H}`, role: "img", "aria-label": label, preserveAspectRatio: "none" }, ...greyed(gaps, at, W, H));
	gaps.forEach(({ from, n }) => { for (let k = from; k < from + n; k++) gap.add(k); });
	at.forEach((_, k) => gap.has(k) || (k && !gap.has(k - 1) ? runs.at(-1).push(k) : runs.push([k])));
	// From the begin of the first interval to the end of the last one.
	const edge = (run) => [[at[run[0]].from, base[run[0]]], ...run.map((k) => [at[k].mid, base[k]]), [at[run.at(-1)].to, base[run.at(-1)]]].map(([u, v]) => `${x(u)} ${y(v)}`);
	for (const l of layers) {
		const low = runs.map((run) => edge(run).reverse());
		l.values.forEach((v, k) => { base[k] += v ?? 0; });
		g.append(svg("path", { d: runs.map((run, i) => "M" + edge(run).join("L") + "L" + low[i].join("L") + "Z").join(""), fill: l.colour }));
	}
	return g;
}

// Replace the body of a table. @columns: { title, key, sort }, @cells(row): the cells' elements, the first one a name.
function fill(table, columns, rows, sorted, onSort) {
	const head = el("tr");
	for (const c of columns) {
		const th = el("th", { scope: "col", "aria-sort": c.sort && sorted === c.key ? "descending" : null, class: c.left ? "left" : null });
		if (c.sort) {
			const b = el("button", { type: "button", title: "Sort by " + plain(c.title) }, plain(c.title));
			b.addEventListener("click", () => onSort(c.key));
			b.dataset.key = c.key;
			th.append(b);
		} else {
			th.append(plain(c.title));
		}
		head.append(th);
	}
	const focus = document.activeElement?.closest("thead") && table.contains(document.activeElement) ? document.activeElement.dataset.key : null;
	table.tHead.replaceChildren(head);
	table.tBodies[0].replaceChildren(...rows);
	if (focus)
		[...table.tHead.querySelectorAll("button")].find((b) => b.dataset.key === focus)?.focus();
}

const cell = (text, cls, ...more) => el("td", { class: cls }, text, ...more);
