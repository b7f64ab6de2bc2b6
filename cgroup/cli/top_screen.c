// SPDX-License-Identifier: GPL-2.0-or-later
/* The full screen of vpmu top: ncurses, keys, scrolling. It is made for 80x24 and readable from
 * 40x8 on. */
#include <curses.h>
#include <locale.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cgroup/cli/error.h"
#include "cgroup/cli/sharing.h"
#include "cgroup/cli/top_screen.h"
#include "cgroup/cli/top_view.h"
#include "cgroup/cli/wait.h"

#define FIRST_S 0.3 /* seconds until a new session shows its first rates */

struct screen {
	struct top_source *src;
	struct top_opts *o;
	const struct reading *diff;
	size_t sort, scroll;
	bool reverse;
	bool counted; /* there are rates to show */
	char sharing[SHARING_PLANES_MAX * 96];
};

enum key_result { KEY_REDRAW, KEY_QUIT, KEY_SCOPE };

/* The second line: how many consumers share how many counters, of each plane. false after an error.
 */
static bool ask_sharing(struct screen *s)
{
	struct sharing all[SHARING_PLANES_MAX];
	int nr = sharing_ask(s->src->c, all);
	size_t n = 0;

	s->sharing[0] = '\0';
	for (int i = 0; i < nr && n < sizeof(s->sharing); i++)
		n += (size_t)snprintf(s->sharing + n, sizeof(s->sharing) - n,
				      "%s%s%s%u consumers on %u counters", i ? ", " : "",
				      all[i].plane, *all[i].plane ? ": " : "", all[i].consumers,
				      all[i].counters);
	return nr >= 0;
}

static void put(int y, int attrs, const char *text)
{
	char line[512];

	snprintf(line, sizeof(line), "%-*.*s", COLS, COLS, text);
	attron(attrs);
	mvaddnstr(y, 0, line, COLS);
	attroff(attrs);
}

static void draw_heading(const struct screen *s, const struct top_view *v)
{
	const char *plane = reading_plane(s->diff);
	char sort[VIEW_CELL] = "name", text[512];

	if (s->sort < v->nr_cols)
		view_heading(v, s->sort, sort);
	snprintf(text, sizeof(text), "vpmu top  %s of %s  every %g s  by %s%s%s%s",
		 s->o->what.scope, s->o->what.target, s->o->delay_s, sort,
		 s->reverse ? " (reversed)" : "", plane ? "  plane: " : "", plane ? plane : "");
	put(0, A_BOLD, text);
	put(1, A_NORMAL, s->sharing);
}

static void draw_footer(const struct top_view *v)
{
	char text[VIEW_MARKS + 16], marks[VIEW_MARKS];

	view_marks(v, marks);
	snprintf(text, sizeof(text), "events/s%s", marks);
	put(LINES - 2, A_NORMAL, text);
	put(LINES - 1, A_REVERSE,
	    COLS >= 76 ? "q quit  t tenants  v VMs  c vCPUs  </> sort  n name  r reverse  +/- delay"
		       : "q quit  t v c rows  </> n r sort  +/- delay");
}

static void draw(struct screen *s)
{
	struct top_view v;
	char line[512];
	size_t room;

	if (!view_init(&v, s->diff, s->src->seconds, s->sort, s->reverse)) {
		view_fini(&v);
		return;
	}
	erase();
	draw_heading(s, &v);
	view_line(&v, -1, line, sizeof(line), (unsigned int)COLS);
	put(2, A_REVERSE, line);
	room = LINES > 5 ? (size_t)LINES - 5 : 0;
	if (s->scroll + room > v.nr_rows)
		s->scroll = v.nr_rows > room ? v.nr_rows - room : 0;
	if (!s->counted)
		put(3, A_NORMAL, "counting ...");
	for (size_t i = 0; s->counted && i < room && i + s->scroll < v.nr_rows; i++) {
		view_line(&v, (long)v.order[i + s->scroll], line, sizeof(line), (unsigned int)COLS);
		put((int)i + 3, A_NORMAL, line);
	}
	draw_footer(&v);
	refresh();
	view_fini(&v);
}

static size_t nr_columns(const struct screen *s)
{
	size_t n = s->diff->nr_events;

	for (size_t e = 0; e < s->diff->nr_events; e++)
		if (reading_ipc_pair(s->diff, e) >= 0)
			return n + 1;
	return n;
}

static enum key_result handle(struct screen *s, int key)
{
	static const double delays[] = {0.2, 0.5, 1, 2, 5, 10, 30, 60};
	size_t cols = nr_columns(s), d = 0, page = LINES > 6 ? (size_t)LINES - 6 : 1;
	const char *scope = NULL;

	switch (key) {
	case 'q':
	case 'Q':
	case 3: /* Ctrl-C in raw mode */
		return KEY_QUIT;
	case 't':
		scope = "tenant";
		break;
	case 'v':
		scope = "vm";
		break;
	case 'c':
		scope = "vcpu";
		break;
	case KEY_RIGHT:
	case '>':
		s->sort = s->sort >= cols ? 0 : (s->sort + 1) % cols;
		break;
	case KEY_LEFT:
	case '<':
		s->sort = s->sort == 0 || s->sort >= cols ? cols - 1 : s->sort - 1;
		break;
	case 'n':
		s->sort = SIZE_MAX;
		break;
	case 'r':
		s->reverse = !s->reverse;
		break;
	case KEY_DOWN:
		s->scroll++;
		break;
	case KEY_UP:
		s->scroll -= s->scroll > 0;
		break;
	case KEY_NPAGE:
		s->scroll += page;
		break;
	case KEY_PPAGE:
		s->scroll -= s->scroll > page ? page : s->scroll;
		break;
	case '+':
	case '-':
		while (d < 7 && delays[d] < s->o->delay_s)
			d++;
		s->o->delay_s = delays[key == '+' ? (d < 7 ? d + 1 : 7) : (d ? d - 1 : 0)];
		break;
	default:
		break;
	}
	if (!scope || strcmp(scope, s->o->what.scope) == 0)
		return KEY_REDRAW;
	s->o->what.scope = scope;
	return KEY_SCOPE;
}

/* Rows of another kind need another session. */
static bool reopen(struct screen *s)
{
	struct client *c = s->src->c;

	top_close(s->src);
	if (!top_open(s->src, c, s->o))
		return false;
	s->diff = s->src->diff;
	s->scroll = 0;
	s->counted = false;
	return true;
}

static int loop(struct screen *s)
{
	double last = cli_now() - s->o->delay_s + FIRST_S;
	long updates = 0;

	for (;;) {
		double left = last + s->o->delay_s - cli_now();
		int key;

		draw(s);
		timeout(left > 0 ? (int)(left * 1000) + 1 : 0);
		key = getch();
		if (key != ERR) {
			enum key_result r = handle(s, key);

			if (r == KEY_QUIT)
				return 0;
			if (r == KEY_SCOPE && !reopen(s))
				return 1;
			if (r == KEY_SCOPE)
				last = cli_now() - s->o->delay_s + FIRST_S;
			continue;
		}
		if (cli_now() < last + s->o->delay_s)
			continue;
		last = cli_now();
		s->diff = top_take(s->src);
		if (!s->diff)
			return 1;
		s->counted = true;
		if (!ask_sharing(s))
			return 1;
		if (s->o->iterations && ++updates >= s->o->iterations) {
			draw(s);
			return 0;
		}
	}
}

int top_screen(struct top_source *src, struct top_opts *o)
{
	struct screen s = {.src = src, .o = o, .diff = src->diff};
	char message[1024] = "";
	FILE *err;
	SCREEN *scr;
	int ret;

	setlocale(LC_ALL, "");
	scr = newterm(NULL, stdout, stdin);
	if (!scr) {
		cli_error("top: the terminal \"%s\" is not known; -b needs no terminal",
			  getenv("TERM") ? getenv("TERM") : "");
		return 1;
	}
	/* An error that is printed while the screen is up would be lost in it: show it afterwards.
	 */
	err = fmemopen(message, sizeof(message) - 1, "w");
	if (err) {
		FILE *real = stderr;

		setbuf(err, NULL);
		stderr = err;
		raw();
		noecho();
		keypad(stdscr, TRUE);
		curs_set(0);
		ret = ask_sharing(&s) ? loop(&s) : 1;
		stderr = real;
		fclose(err);
	} else {
		ret = 1;
	}
	endwin();
	delscreen(scr);
	fputs(message, stderr);
	return ret;
}
