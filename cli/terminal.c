// SPDX-License-Identifier: GPL-2.0-or-later
/* Standard output of the vpmu command; see terminal.h. */
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "cli/error.h"
#include "cli/terminal.h"

unsigned int terminal_width(FILE *f)
{
	struct winsize ws;

	return isatty(fileno(f)) && ioctl(fileno(f), TIOCGWINSZ, &ws) == 0 ? ws.ws_col : 0;
}

static int error; /* errno of the first flush that failed */

void terminal_flush(void)
{
	if (fflush(stdout) && !error)
		error = errno;
}

/* Return true if the reader of standard output is gone. printf() may have failed earlier, with
 * errno lost. */
static bool reader_gone(void)
{
	struct pollfd p = {.fd = STDOUT_FILENO, .events = POLLOUT};

	return poll(&p, 1, 0) == 1 && (p.revents & POLLERR);
}

int terminal_done(int status)
{
	terminal_flush();
	if (!error && !ferror(stdout))
		return status;
	if (error != EPIPE && !reader_gone())
		cli_error("standard output: %s", error ? strerror(error) : "cannot be written");
	return 1;
}

/* Return the length of the character at @p if a terminal interprets it; 0: harmless. */
static size_t terminal_acts(const unsigned char *p)
{
	if (p[0] < 0x20 || p[0] == 0x7f)
		return 1;
	if (p[0] == 0xc2 && p[1] >= 0x80 && p[1] <= 0x9f) /* U+0080 to U+009F */
		return 2;
	if (p[0] == 0xe2 && p[1] == 0x80 &&
	    (p[2] == 0x8e || p[2] == 0x8f ||  /* U+200E, U+200F */
	     p[2] == 0xa8 || p[2] == 0xa9 ||  /* U+2028, U+2029: line ends */
	     (p[2] >= 0xaa && p[2] <= 0xae))) /* U+202A to U+202E */
		return 3;
	if (p[0] == 0xe2 && p[1] == 0x81 && p[2] >= 0xa6 && p[2] <= 0xa9) /* U+2066 to U+2069 */
		return 3;
	return p[0] == 0xd8 && p[1] == 0x9c ? 2 : 0; /* U+061C */
}

bool terminal_is_safe(const char *text)
{
	while (*text && !terminal_acts((const unsigned char *)text))
		text++;
	return !*text;
}

char *terminal_safe(char *text)
{
	char *to = text;

	for (const char *p = text; *p;) {
		size_t n = terminal_acts((const unsigned char *)p);

		*to++ = n ? '?' : *p;
		p += n ? n : 1;
	}
	*to = '\0';
	return text;
}
