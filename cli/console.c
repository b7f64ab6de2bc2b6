// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * vpmu console: prints the lines of a VM's guest from the server's ring, and new ones as they come.
 * With -i, lines of standard input go to the guest, if it boots a kernel. Otherwise the keyboard is
 * read only for the escape key.
 */
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <termios.h>
#include <unistd.h>

#include "cli/client.h"
#include "cli/commands.h"
#include "cli/error.h"
#include "cli/field.h"
#include "cli/names.h"
#include "cli/terminal.h"
#include "cli/wait.h"
#include "vpmu/util/utf8.h"

#define ESCAPE	0x1d /* Ctrl-], as of telnet, virsh and xl */
#define POLL_MS 100

struct console_opts {
	const char *name;
	bool once;  /* do not follow */
	bool input; /* send standard input */
};

static error_t console_parse(int key, char *arg, struct argp_state *state)
{
	struct console_opts *o = state->input;

	switch (key) {
	case 'n':
		o->once = true;
		return 0;
	case 'i':
		o->input = true;
		return 0;
	case ARGP_KEY_ARG:
		cli_one_arg(&o->name, arg, "NAME", state);
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

/* ---- the keyboard ------------------------------------------------------------------------- */

static struct termios before;
static bool keys; /* standard input is a terminal in single-key mode */

static void keys_restore(void)
{
	if (keys)
		tcsetattr(STDIN_FILENO, TCSANOW, &before);
}

static void keys_start(const char *name)
{
	struct termios t;

	if (!isatty(STDIN_FILENO) || !isatty(STDOUT_FILENO) || tcgetattr(STDIN_FILENO, &before))
		return;
	fprintf(stderr, "Console of %s, read-only. Ctrl-] leaves.\n", name);
	t = before;
	t.c_lflag &= ~(tcflag_t)(ICANON | ECHO);
	keys = tcsetattr(STDIN_FILENO, TCSANOW, &t) == 0;
	if (keys)
		atexit(keys_restore);
}

/* Read pending keys. Returns true if the escape key was among them. */
static bool escape_typed(void)
{
	struct pollfd p = {.fd = STDIN_FILENO, .events = POLLIN};
	char typed[64];
	ssize_t n;

	if (!keys || poll(&p, 1, 0) <= 0)
		return false;
	n = read(STDIN_FILENO, typed, sizeof(typed));
	if (n <= 0)
		keys = false; /* the terminal is gone */
	return n > 0 && memchr(typed, ESCAPE, (size_t)n);
}

/* ---- input -------------------------------------------------------------------------------- */

/* Standard input that was read and not sent yet. */
struct input {
	char text[1024]; /* the limit of one request */
	size_t len;
	bool end; /* end of file */
};

/* Read available input into free space. A NUL byte cannot be sent, and is left out. */
static void read_input(struct input *in)
{
	struct pollfd p = {.fd = STDIN_FILENO, .events = POLLIN};
	size_t room = sizeof(in->text) - 1 - in->len, kept = 0;
	char *to = in->text + in->len;
	ssize_t n;

	if (in->end || !room || poll(&p, 1, 0) <= 0)
		return;
	n = read(STDIN_FILENO, to, room);
	if (n <= 0) {
		in->end = true;
		return;
	}
	for (ssize_t i = 0; i < n; i++)
		if (to[i])
			to[kept++] = to[i];
	in->len += kept;
}

/* Return the number of leading bytes of @in that can be sent: whole UTF-8 characters and control
 * characters. *@drop: the first byte is neither. */
static size_t sendable(const struct input *in, bool *drop)
{
	size_t at = 0;

	while (at < in->len) {
		unsigned char c = (unsigned char)in->text[at];
		size_t n = c < 0x80 ? 1 : utf8_shown(in->text + at, in->len - at);

		if (!n)
			break;
		at += n;
	}
	/* Up to three bytes may be an incomplete character. */
	*drop = !at && (in->len > 3 || (in->len && in->end));
	return at;
}

/* Send the input. Returns false after an error was printed. */
static bool send_input(struct client *c, const char *name, struct input *in)
{
	struct fields f = {0};
	json_t *resp;
	size_t n, written;
	bool drop;

	read_input(in);
	n = sendable(in, &drop);
	if (n) {
		resp = client_ask(c, json_pack("{s:s, s:s, s:s%}", "cmd", "console-write", "name",
					       name, "text", in->text, n));
		if (!resp)
			return false;
		written = field_u64(&f, resp, "written");
		json_decref(resp);
		if (!fields_ok(&f))
			return false;
		n = written < n ? written : n;
	}
	n += drop;
	memmove(in->text, in->text + n, in->len - n);
	in->len -= n;
	return true;
}

/* ---- the lines ---------------------------------------------------------------------------- */

enum state {
	STATE_FAILED,
	STATE_MORE, /* there may be more already */
	STATE_WAIT, /* nothing more for now */
	STATE_END   /* nothing more will come */
};

/* Print the lines from @next on in one answer, and set @next (24 bytes) for the following call. */
static enum state print_some(struct client *c, const char *name, char next[24])
{
	json_t *resp = names_ask(
		c, json_pack("{s:s, s:s, s:s}", "cmd", "console-read", "name", name, "from", next),
		"name");
	const json_t *lines, *line;
	struct fields f = {0};
	uint64_t missed;
	enum state state;
	bool end;
	size_t i;

	if (!resp)
		return STATE_FAILED;
	lines = field_array(&f, resp, "lines");
	missed = field_u64(&f, resp, "missed");
	end = field_bool(&f, resp, "end");
	snprintf(next, 24, "%llu", (unsigned long long)field_u64(&f, resp, "next"));
	json_array_foreach (lines, i, line)
		if (!json_is_string(line))
			field_wrong(&f, "lines");
	if (!fields_ok(&f)) {
		json_decref(resp);
		return STATE_FAILED;
	}
	if (missed)
		printf("(%llu bytes before this are no longer kept)\n", (unsigned long long)missed);
	json_array_foreach (lines, i, line)
		puts(json_string_value(line));
	state = end ? STATE_END : json_array_size(lines) ? STATE_MORE : STATE_WAIT;
	json_decref(resp);
	terminal_flush();
	return ferror(stdout) ? STATE_FAILED : state;
}

int cmd_console(struct cli *cli, int argc, char **argv)
{
	static const struct argp_option options[] = {
		{"no-follow", 'n', NULL, 0, "End after the lines that are there now", 0},
		{"input", 'i', NULL, 0, "Send lines of standard input to the guest", 0},
		{0}};
	static const struct argp argp = {
		.options = options,
		.parser = console_parse,
		.args_doc = "NAME",
		.doc = "Show the last output of the guest of the VM NAME, and its output from now "
		       "on, until the VM has ended, or until Ctrl-] or Ctrl-C. With -i, standard "
		       "input goes to the guest, which must have booted a kernel.",
	};
	enum cli_wait woken = CLI_WAIT_TIME;
	enum state state = STATE_MORE;
	struct console_opts o = {0};
	struct input in = {.len = 0};
	char next[24] = "0";
	struct client *c;

	cli_parse(cli, &argp, argc, argv, NULL, &o);
	if (!o.name)
		cli_usage("console: give the NAME of a VM; `vpmu list` shows them");
	c = client_open(cli, false);
	if (!c || cli_wait_init()) {
		client_close(c);
		return 1;
	}
	if (!o.input)
		keys_start(o.name);
	while (woken == CLI_WAIT_TIME && (state == STATE_MORE || state == STATE_WAIT)) {
		state = print_some(c, o.name, next);
		if (o.input && (state == STATE_MORE || state == STATE_WAIT) &&
		    !send_input(c, o.name, &in))
			state = STATE_FAILED;
		/* With -n and -i all of the input is sent first. */
		if (state == STATE_WAIT && o.once && (!o.input || (in.end && !in.len)))
			break;
		if (state == STATE_MORE || state == STATE_WAIT)
			woken = cli_wait(cli_now() + (state == STATE_WAIT ? POLL_MS / 1e3 : 0),
					 client_fd(c));
		if (escape_typed())
			break;
	}
	client_close(c);
	if (woken == CLI_WAIT_SERVER_GONE)
		cli_error("the server has ended");
	return state == STATE_FAILED || woken == CLI_WAIT_SERVER_GONE ? 1 : 0;
}
