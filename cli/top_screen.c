// SPDX-License-Identifier: GPL-2.0-or-later
/* The full screen of vpmu top: ncurses, keys, scrolling; see top.h. Designed for 80x24 and
 * readable from 40x8 on. */
#include <curses.h>
#include <locale.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/error.h"
#include "cli/sharing.h"
#include "cli/top.h"
#include "cli/top_view.h"
#include "cli/wait.h"
#include "service/program/memory.h"

#define FIRST_S 0.3 /* seconds until a new session shows its first rates */

struct screen {
	struct top_source *src;
	struct top_opts *o;
	struct top_look look;
	size_t scroll, help_scroll;
	bool counted; /* there are rates to show */
	bool colours;
	bool help;
	bool asking;	 /* the filter is being typed */
	char filter[64]; /* "": none */
	char sharing[SHARING_BACKENDS_MAX * 96];
};

enum key_result { KEY_REDRAW, KEY_QUIT, KEY_SCOPE };

/* Update the second line: consumers and counters of each backend, and the idle time. Returns false
 * after an error. */
static bool ask_sharing(struct screen *s)
{
	struct sharing all[SHARING_BACKENDS_MAX];
	int nr = sharing_ask(s->src->c, all);
	size_t n = 0;

	s->sharing[0] = '\0';
	for (int i = 0; i < nr && n < sizeof(s->sharing); i++)
		n += (size_t)snprintf(s->sharing + n, sizeof(s->sharing) - n,
				      "%s%s%s%u consumers on %u counters", i ? ", " : "",
				      all[i].backend, *all[i].backend ? ": " : "", all[i].consumers,
				      all[i].counters);
	if (s->src->idle >= 0 && n < sizeof(s->sharing))
		snprintf(s->sharing + n, sizeof(s->sharing) - n, "  idle %.1f%%", s->src->idle);
	return nr >= 0;
}

static void top_screen_put(int y, int attrs, const char *text)
{
	char line[512];

	snprintf(line, sizeof(line), "%-*.*s", COLS, COLS, text);
	attron(attrs);
	mvaddnstr(y, 0, line, COLS);
	attroff(attrs);
}

/* Colours, and what takes their place on a terminal without. */
static const struct {
	short colour; /* -1: none */
	attr_t attrs;
} paints[PAINT_NR] = {
	[PAINT_PLAIN] = {-1, A_NORMAL},		 [PAINT_DIM] = {-1, A_DIM},
	[PAINT_GOOD] = {COLOR_GREEN, A_NORMAL},	 [PAINT_MODEL] = {COLOR_CYAN, A_NORMAL},
	[PAINT_WARN] = {COLOR_YELLOW, A_NORMAL}, [PAINT_BAD] = {COLOR_RED, A_BOLD},
};

/* NO_COLOR: see no-color.org. */
static void start_colours(struct screen *s)
{
	const char *no = getenv("NO_COLOR");

	s->colours =
		!(no && *no) && has_colors() && start_color() == OK && use_default_colors() == OK;
	for (short i = 0; s->colours && i < PAINT_NR; i++)
		if (paints[i].colour >= 0)
			init_pair((short)(i + 1), paints[i].colour, -1);
}

/* Print a line of which each byte has a paint. */
static void put_painted(const struct screen *s, int y, const char *line, const unsigned char *paint)
{
	size_t len = strlen(line), end;

	if (len > (size_t)COLS)
		len = (size_t)COLS;
	move(y, 0);
	for (size_t at = 0; at < len; at = end) {
		unsigned char how = paint[at];
		attr_t attrs = s->colours ? paints[how].attrs : A_NORMAL;

		if (s->colours && paints[how].colour >= 0)
			attrs |= (attr_t)COLOR_PAIR(how + 1);
		for (end = at + 1; end < len && paint[end] == how;)
			end++;
		attron(attrs);
		addnstr(line + at, (int)(end - at));
		attroff(attrs);
	}
}

static void draw_heading(const struct screen *s, const struct top_view *v)
{
	const char *backend = reading_backend(s->src->diff);
	char sort[VIEW_CELL] = "name", text[512];

	if (v->look.sort != TOP_BY_NAME)
		view_heading(v, v->look.sort, sort);
	snprintf(text, sizeof(text), "vpmu top  by %s%s  %s%.60s%s%s of %s  every %g s%s%s", sort,
		 s->look.reverse ? " (reversed)" : "", *s->filter ? "\"" : "", s->filter,
		 *s->filter ? "\" " : "", s->o->what.scope, s->src->diff->target, s->o->delay_s,
		 backend ? "  backend: " : "", backend ? backend : "");
	top_screen_put(0, A_BOLD, text);
	top_screen_put(1, A_NORMAL, s->sharing);
}

static void draw_footer(const struct screen *s, const struct top_view *v)
{
	char text[MARKS_LEGEND + 96], marks[MARKS_LEGEND], more[64] = "";
	size_t n = 0;

	if (v->first)
		n = (size_t)snprintf(more, sizeof(more), "  < %zu more", v->first);
	if (v->last < v->nr_cols)
		snprintf(more + n, sizeof(more) - n, "  > %zu more", v->nr_cols - v->last);
	marks_legend(v->marks, marks);
	snprintf(text, sizeof(text), "events/s%s%s", more, marks);
	top_screen_put(LINES - 2, A_NORMAL, text);
	if (s->asking)
		snprintf(text, sizeof(text), "only names with: %.63s_", s->filter);
	else
		snprintf(
			text, sizeof(text), "%s",
			COLS >= 76
				? "q quit  h help  t tenants  v VMs  c vCPUs  </> columns  / filter"
				: "q quit  h help  t v c  </> /");
	top_screen_put(LINES - 1, A_REVERSE, text);
}

/* No line may exceed 40 columns. */
static const char *const help_lines[] = {
	"h  this help        q  quit",
	"t  tenants  v  VMs  c  vCPUs",
	"< >  sort by the column to the left or",
	"     right; others come into view",
	"n  sort by name     r  reverse",
	"/  show names with a text only; Enter",
	"     ends it, Escape removes it",
	"up down page  scroll",
	"+ -  change the delay",
	"",
	"VMS    running VMs / all VMs",
	"STATE  of the VM",
	"CPU%   share of the time of all pCPUs",
	"       of the backend",
	"RUN%   least share of the time in which",
	"       an event was counted, if not all",
	"IPC, others in capitals: metrics",
	"other  events per second; n.c. not",
	"       counted, n.s. not supported",
	"~ modelled  ? estimated or tsc",
	"! partial   @ aged   < late",
	"* scaled up",
};
#define HELP_LINES (sizeof(help_lines) / sizeof(help_lines[0]))

static void draw_help(struct screen *s)
{
	size_t room = LINES > 2 ? (size_t)LINES - 2 : 1;

	if (s->help_scroll + room > HELP_LINES)
		s->help_scroll = HELP_LINES > room ? HELP_LINES - room : 0;
	erase();
	top_screen_put(0, A_BOLD, "vpmu top: keys and columns");
	for (size_t i = 0; i < room && i + s->help_scroll < HELP_LINES; i++)
		top_screen_put((int)i + 1, A_NORMAL, help_lines[i + s->help_scroll]);
	top_screen_put(LINES - 1, A_REVERSE,
		       HELP_LINES > room ? "up down scroll; other keys go back"
					 : "any key goes back");
	refresh();
}

static void draw(struct screen *s)
{
	struct top_view v;
	char line[VIEW_LINE];
	unsigned char paint[VIEW_LINE];
	size_t room;

	if (s->help) {
		draw_help(s);
		return;
	}
	s->look.filter = *s->filter ? s->filter : NULL;
	view_init(&v, s->src, &s->look);
	s->look.first = view_fit(&v, (unsigned int)COLS);
	names_choose(&v);
	erase();
	draw_heading(s, &v);
	view_line(&v, -1, line, NULL);
	top_screen_put(2, A_REVERSE, line);
	room = LINES > 5 ? (size_t)LINES - 5 : 0;
	if (s->scroll + room > v.nr_rows)
		s->scroll = v.nr_rows > room ? v.nr_rows - room : 0;
	if (!s->counted)
		top_screen_put(3, A_NORMAL, "counting ...");
	else if (!v.nr_rows)
		top_screen_put(3, A_NORMAL,
			       s->look.filter ? "no name has this text" : "nothing is counted");
	for (size_t i = 0; s->counted && i < room && i + s->scroll < v.nr_rows; i++) {
		view_line(&v, (long)v.order[i + s->scroll], line, paint);
		put_painted(s, (int)i + 3, line, paint);
	}
	draw_footer(s, &v);
	refresh();
	view_fini(&v);
}

/* Sort by the next column in direction @by. */
static void sort_next(struct screen *s, int by)
{
	struct top_view v;

	view_init(&v, s->src, &s->look);
	s->look.sort = view_sort_next(&v, by);
	view_fini(&v);
}

/* A key while the filter is typed. */
static void type_filter(struct screen *s, int key)
{
	size_t n = strlen(s->filter);

	switch (key) {
	case '\r':
	case '\n':
	case KEY_ENTER:
		s->asking = false;
		break;
	case 27: /* Escape */
		s->filter[0] = '\0';
		s->asking = false;
		break;
	case KEY_BACKSPACE:
	case 127:
	case '\b':
		if (n)
			s->filter[n - 1] = '\0';
		break;
	default:
		if (key > ' ' && key < 127 && n + 1 < sizeof(s->filter)) {
			s->filter[n] = (char)key;
			s->filter[n + 1] = '\0';
		}
	}
	s->scroll = 0;
}

/* A key while the help is shown. */
static void leave_help(struct screen *s, int key)
{
	if (key == KEY_DOWN || key == KEY_NPAGE)
		s->help_scroll++;
	else if (key == KEY_UP || key == KEY_PPAGE)
		s->help_scroll -= s->help_scroll > 0;
	else if (key != KEY_RESIZE)
		s->help = false;
}

static enum key_result top_screen_handle(struct screen *s, int key)
{
	static const double delays[] = {0.2, 0.5, 1, 2, 5, 10, 30, 60};
	size_t d = 0, page = LINES > 6 ? (size_t)LINES - 6 : 1;
	const char *scope = NULL;

	if (key == 3) /* Ctrl-C in raw mode */
		return KEY_QUIT;
	if (s->asking || s->help) {
		if (s->asking)
			type_filter(s, key);
		else
			leave_help(s, key);
		return KEY_REDRAW;
	}
	switch (key) {
	case 'q':
	case 'Q':
		return KEY_QUIT;
	case 'h':
	case '?':
		s->help = true;
		s->help_scroll = 0;
		break;
	case '/':
		s->asking = true;
		break;
	case 27: /* Escape */
		s->filter[0] = '\0';
		break;
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
		sort_next(s, 1);
		break;
	case KEY_LEFT:
	case '<':
		sort_next(s, -1);
		break;
	case 'n':
		s->look.sort = TOP_BY_NAME;
		break;
	case 'r':
		s->look.reverse = !s->look.reverse;
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
			enum key_result r = top_screen_handle(s, key);

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
		if (!top_take(s->src))
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

/* Errors printed while the screen is up would be lost: they are kept, and shown afterwards, even if
 * the program exits in between (memory_out()). */
static char message[1024];
static FILE *real_stderr; /* NULL: the screen is not up */

static void screen_end(void)
{
	if (!real_stderr)
		return;
	fclose(stderr);
	stderr = real_stderr;
	real_stderr = NULL;
	endwin();
	fputs(message, stderr);
}

int top_screen(struct top_source *src, struct top_opts *o)
{
	struct screen s = {.src = src, .o = o};
	FILE *err;
	SCREEN *scr;
	int ret;

	snprintf(s.filter, sizeof(s.filter), "%s", o->filter ? o->filter : "");
	setlocale(LC_ALL, "");
	setenv("ESCDELAY", "50", 0); /* ms after which Escape is a key of its own */
	scr = newterm(NULL, stdout, stdin);
	if (!scr) {
		cli_error("top: the terminal \"%s\" is not known; -b needs no terminal",
			  getenv("TERM") ? getenv("TERM") : "");
		return 1;
	}
	err = fmemopen(message, sizeof(message) - 1, "w");
	if (!err) {
		endwin();
		memory_out();
	}
	setbuf(err, NULL);
	atexit(screen_end);
	real_stderr = stderr;
	stderr = err;
	raw();
	noecho();
	keypad(stdscr, TRUE);
	curs_set(0);
	start_colours(&s);
	ret = ask_sharing(&s) ? loop(&s) : 1;
	screen_end();
	delscreen(scr);
	return ret;
}
