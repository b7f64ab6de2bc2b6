// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * vpmu console: prints the lines of a VM's guest from the server's ring, and new ones as they come.
 * With -i, lines of standard input go to the guest, if it boots a kernel. On a terminal, such a
 * guest gets the keys as they are typed, and its output is shown as it comes; of other guests the
 * lines are shown, and the keyboard is read only for the escape key.
 */
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/client.h"
#include "cli/commands.h"
#include "cli/console.h"
#include "cli/error.h"
#include "cli/field.h"
#include "cli/names.h"
#include "cli/terminal.h"
#include "cli/wait.h"
#include "vpmu/util/utf8.h"

#define ESCAPE 0x1d /* Ctrl-], as of telnet, virsh and xl */
#define POLL_S 0.1  /* between requests while the guest prints nothing */
#define BUSY_S 0.01 /* the same, at first, after a key or output; then it doubles */
#define MANY   4096 /* bytes of an answer after which there may be more already */

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

/* ---- input -------------------------------------------------------------------------------- */

/* Standard input that was read and not sent yet. */
struct input {
	char text[1024]; /* the limit of one request */
	size_t len;
	bool end; /* end of file, or the escape key */
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

/* Read available keys. Those before the escape key are still sent. If the guest has read none for
 * so long that there is no room, keys are lost, as at a UART. */
static void read_keys(struct input *in)
{
	struct pollfd p = {.fd = STDIN_FILENO, .events = POLLIN};
	size_t before = in->len;
	char lost[256], *escape;
	ssize_t n;

	if (in->len < sizeof(in->text) - 1) {
		read_input(in);
		escape = memchr(in->text + before, ESCAPE, in->len - before);
		if (escape) {
			in->end = true;
			in->len = (size_t)(escape - in->text);
		}
		return;
	}
	if (poll(&p, 1, 0) <= 0)
		return;
	n = read(STDIN_FILENO, lost, sizeof(lost));
	in->end = n <= 0 || memchr(lost, ESCAPE, (size_t)n);
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

/* Send the input. @keys: it is typed at the guest's own prompt. Returns false after an error was
 * printed. */
static bool send_input(struct client *c, const char *name, struct input *in, bool keys)
{
	struct fields f = {0};
	json_t *resp;
	size_t n, written;
	bool drop;

	if (keys)
		read_keys(in);
	else
		read_input(in);
	n = sendable(in, &drop);
	if (n) {
		resp = client_ask(c, json_pack("{s:s, s:s, s:s%, s:b}", "cmd", "console-write",
					       "name", name, "text", in->text, n, "keys", keys));
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

/* ---- the output --------------------------------------------------------------------------- */

enum state {
	STATE_FAILED,
	STATE_MORE, /* there may be more already */
	STATE_SOME, /* there was output: more is probable */
	STATE_WAIT, /* nothing more for now */
	STATE_END   /* nothing more will come */
};

struct console {
	struct client *c;
	const char *name;
	char next[24]; /* of the last answer */
	bool terminal; /* no answer has said yet what the terminal is used for */
	bool read_keys;
	bool raw; /* bytes come instead of lines, and keys are sent */
};

/* Of a raw terminal; static for cli_error_before. */
static struct console_filter filter;

static void console_leave(void)
{
	fputs(console_filter_reset(&filter), stdout);
	filter = (struct console_filter){0};
	terminal_flush();
	console_terminal_restore();
}

/* The first answer has come: start to use the terminal. */
static void use_terminal(struct console *o, bool input)
{
	o->terminal = false;
	fprintf(stderr, "Console of %s%s. Ctrl-] leaves.\n", o->name, input ? "" : ", read-only");
	o->read_keys = console_terminal_start(o->raw);
	cli_error_before = console_leave;
}

/* Print @hex, bytes of the guest. Returns their number, or -1: it is invalid; nothing was
 * printed. */
static long print_bytes(const char *hex)
{
	static const char digits[] = "0123456789abcdef";
	size_t n = strlen(hex) / 2;
	uint8_t bytes[MANY];
	char out[CONSOLE_FILTERED_MAX(sizeof(bytes))];

	if (strlen(hex) % 2 || strspn(hex, digits) != 2 * n)
		return -1;
	for (size_t at = 0; at < n;) {
		size_t part = n - at < sizeof(bytes) ? n - at : sizeof(bytes);

		for (size_t i = 0; i < part; i++, hex += 2)
			bytes[i] = (uint8_t)((strchr(digits, hex[0]) - digits) << 4 |
					     (strchr(digits, hex[1]) - digits));
		fwrite(out, 1, console_filter(&filter, bytes, part, out), stdout);
		at += part;
	}
	return (long)n;
}

/* Print the lines of an answer. */
static long print_lines(const json_t *lines)
{
	const json_t *line;
	size_t i;

	json_array_foreach (lines, i, line)
		if (!json_is_string(line))
			return -1;
	json_array_foreach (lines, i, line)
		puts(json_string_value(line));
	return (long)json_array_size(lines);
}

/* Print what came since the last answer. */
static enum state print_some(struct console *o)
{
	bool asks_raw = o->terminal || o->raw, end, input;
	json_t *resp = names_ask(o->c,
				 json_pack("{s:s, s:s, s:s, s:b}", "cmd", "console-read", "name",
					   o->name, "from", o->next, "raw", asks_raw),
				 "name");
	struct fields f = {0};
	uint64_t missed, next;
	enum state state;
	long n = -1;

	if (!resp)
		return STATE_FAILED;
	missed = field_u64(&f, resp, "missed");
	next = field_u64(&f, resp, "next");
	end = field_bool(&f, resp, "end");
	input = field_bool(&f, resp, "input");
	o->raw = asks_raw && json_object_get(resp, "bytes");
	if (fields_ok(&f) && o->terminal && !end)
		use_terminal(o, input);
	if (!f.wrong && missed)
		printf("(%llu bytes before this are no longer kept)%s\n",
		       (unsigned long long)missed, o->raw ? "\r" : "");
	if (o->raw) {
		const char *hex = field_string(&f, resp, "bytes");

		if (!f.wrong && (n = print_bytes(hex)) < 0)
			field_wrong(&f, "bytes");
	} else {
		const json_t *lines = field_array(&f, resp, "lines");

		if (!f.wrong && (n = print_lines(lines)) < 0)
			field_wrong(&f, "lines");
	}
	snprintf(o->next, sizeof(o->next), "%llu", (unsigned long long)next);
	json_decref(resp);
	if (n < 0 && !fields_ok(&f))
		return STATE_FAILED;
	if (end)
		state = STATE_END;
	else if (o->raw)
		state = n >= MANY ? STATE_MORE : n ? STATE_SOME : STATE_WAIT;
	else
		state = n ? STATE_MORE : STATE_WAIT;
	terminal_flush();
	return ferror(stdout) ? STATE_FAILED : state;
}

static bool goes_on(enum state state)
{
	return state == STATE_MORE || state == STATE_SOME || state == STATE_WAIT;
}

/* Until the end, Ctrl-] or a signal. Returns what ended it. */
static enum cli_wait console_follow(struct console *o, const struct console_opts *opts,
				    enum state *state)
{
	enum cli_wait woken = CLI_WAIT_TIME;
	struct input in = {.len = 0};
	double wait = 0;

	while (woken == CLI_WAIT_TIME || woken == CLI_WAIT_INPUT) {
		*state = print_some(o);
		if (!goes_on(*state))
			break;
		if (o->raw || opts->input) {
			if (!send_input(o->c, o->name, &in, o->raw)) {
				*state = STATE_FAILED;
				break;
			}
		} else if (o->read_keys) {
			read_keys(&in);
			if (!in.end)
				in.len = 0;
		}
		if (o->read_keys && in.end)
			break;
		/* With -n and -i all of the input is sent first. */
		if (*state == STATE_WAIT && opts->once && (!opts->input || (in.end && !in.len)))
			break;
		if (*state == STATE_MORE)
			wait = 0;
		else
			wait = *state == STATE_SOME || woken == CLI_WAIT_INPUT ? BUSY_S : 2 * wait;
		if (*state == STATE_WAIT && (!o->raw || wait > POLL_S || wait <= 0))
			wait = POLL_S;
		woken = cli_wait_input(cli_now() + wait, client_fd(o->c),
				       o->read_keys ? STDIN_FILENO : -1);
	}
	return woken;
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
		       "on, until the VM has ended, or until Ctrl-]. On a terminal, keys go to the "
		       "guest as they are typed, if it has booted a kernel. With -i, lines of "
		       "standard input do.",
	};
	enum state state = STATE_MORE;
	struct console_opts opts = {0};
	struct console o = {.next = "0"};
	enum cli_wait woken;

	cli_parse(cli, &argp, argc, argv, NULL, &opts);
	if (!opts.name)
		cli_usage("console: give the NAME of a VM; `vpmu list` shows them");
	o.name = opts.name;
	o.terminal = !opts.input && !opts.once && console_terminal();
	o.c = client_open(cli, false);
	if (!o.c || cli_wait_init()) {
		client_close(o.c);
		return 1;
	}
	woken = console_follow(&o, &opts, &state);
	client_close(o.c);
	console_leave();
	if (woken == CLI_WAIT_SERVER_GONE)
		cli_error("the server has ended");
	return state == STATE_FAILED || woken == CLI_WAIT_SERVER_GONE ? 1 : 0;
}
