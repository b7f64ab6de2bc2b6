// SPDX-License-Identifier: GPL-2.0-or-later
/* A flame graph as SVG: rectangles with hover titles, no scripts, nothing from elsewhere. */
#include <string.h>

#include "cgroup/cli/flame.h"

#define WIDTH	  1200
#define MARGIN	  10
#define HEAD	  48 /* title and note */
#define ROW	  17
#define CHAR_PX	  6.7 /* of the 11 px monospace font */
#define MIN_PX	  0.1
#define DRAW_PX	  (WIDTH - 2 * MARGIN)
#define VM_LEVELS 2 /* frames of VM and vCPU above "all" */

static void escaped(const char *text, size_t max, FILE *f)
{
	size_t n = strlen(text), shown = n <= max ? n : max > 2 ? max - 2 : 0;

	for (size_t i = 0; i < shown; i++) {
		switch (text[i]) {
		case '&':
			fputs("&amp;", f);
			break;
		case '<':
			fputs("&lt;", f);
			break;
		case '>':
			fputs("&gt;", f);
			break;
		case '"':
			fputs("&quot;", f);
			break;
		case '\'':
			fputs("&#39;", f);
			break;
		default:
			/* Any byte may be in a symbol's name, not any is UTF-8, or XML's. */
			fputc(text[i] < 0x20 || text[i] > 0x7e ? '?' : text[i], f);
		}
	}
	if (shown < n && shown)
		fputs("..", f);
}

/* The same name has the same colour everywhere: warm for functions, blue for VMs and vCPUs, grey
 * for what has no name. */
static void colour(const char *name, unsigned int level, FILE *f)
{
	uint32_t h = 2166136261u; /* FNV-1a */

	for (const char *c = name; *c; c++)
		h = (h ^ (unsigned char)*c) * 16777619u;
	h ^= h >> 15;
	if (level == 0 || name[0] == '[' || strncmp(name, "0x", 2) == 0)
		fprintf(f, "hsl(0,0%%,%u%%)", 78 + h % 8);
	else if (level <= VM_LEVELS)
		fprintf(f, "hsl(%u,55%%,%u%%)", 200 + h % 20, 76 + h / 64 % 6);
	else
		fprintf(f, "hsl(%u,85%%,%u%%)", 10 + h % 45, 64 + h / 64 % 8);
}

static unsigned int depth(const struct frame *fr, double px_per_sample)
{
	unsigned int most = 0;

	for (size_t i = 0; i < fr->nr; i++) {
		unsigned int d;

		if ((double)fr->child[i]->total * px_per_sample < MIN_PX)
			continue;
		d = 1 + depth(fr->child[i], px_per_sample);
		if (d > most)
			most = d;
	}
	return most;
}

struct drawing {
	FILE *f;
	double px_per_sample;
	uint64_t all;
	unsigned int bottom; /* y of level 0 */
};

static void draw(const struct drawing *d, const struct frame *fr, const char *name,
		 unsigned int level, uint64_t start)
{
	double x = MARGIN + (double)start * d->px_per_sample;
	double w = (double)fr->total * d->px_per_sample;
	unsigned int y = d->bottom - level * ROW;
	size_t room = w > 8 ? (size_t)((w - 4) / CHAR_PX) : 0;

	if (w < MIN_PX)
		return;
	fputs("<g><title>", d->f);
	escaped(name, 1000, d->f);
	fprintf(d->f,
		" (%llu samples, %.2f%%)</title><rect x=\"%.2f\" y=\"%u\" width=\"%.2f\" "
		"height=\"%u\" fill=\"",
		(unsigned long long)fr->total, 100.0 * (double)fr->total / (double)d->all, x, y, w,
		ROW - 1);
	colour(name, level, d->f);
	fputs("\"/>", d->f);
	if (room >= 3) {
		fprintf(d->f, "<text x=\"%.2f\" y=\"%u\">", x + 2, y + ROW - 5);
		escaped(name, room, d->f);
		fputs("</text>", d->f);
	}
	fputs("</g>\n", d->f);
	for (size_t i = 0; i < fr->nr; i++) {
		draw(d, fr->child[i], fr->child[i]->name, level + 1, start);
		start += fr->child[i]->total;
	}
}

void flame_svg(const struct frame *root, const char *title, const char *note, FILE *f)
{
	struct drawing d = {.f = f, .all = root->total};
	unsigned int levels, height;

	d.px_per_sample = root->total ? (double)DRAW_PX / (double)root->total : 0;
	levels = 1 + depth(root, d.px_per_sample);
	height = HEAD + levels * ROW + MARGIN;
	d.bottom = HEAD + (levels - 1) * ROW;
	fprintf(f,
		"<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n"
		"<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%u\" "
		"viewBox=\"0 0 %d %u\" font-family=\"monospace\" font-size=\"11\">\n"
		"<style>g:hover rect { stroke: black; }</style>\n"
		"<rect width=\"%d\" height=\"%u\" fill=\"white\"/>\n"
		"<text x=\"%d\" y=\"20\" text-anchor=\"middle\" font-size=\"16\">",
		WIDTH, height, WIDTH, height, WIDTH, height, WIDTH / 2);
	escaped(title, 120, f);
	fprintf(f, "</text>\n<text x=\"%d\" y=\"38\" text-anchor=\"middle\" fill=\"#555\">",
		WIDTH / 2);
	escaped(root->total ? note : "no samples", 170, f);
	fputs("</text>\n", f);
	if (root->total)
		draw(&d, root, "all", 0, 0);
	fputs("</svg>\n", f);
}
