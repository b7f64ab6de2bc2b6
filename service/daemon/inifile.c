// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Ini files. libinih parses them and reads lines with inifile_read_line() below, which counts the
 * lines and handles input that libinih would silently ignore. It rejects lines longer than
 * libinih's buffer (which truncates them), text after a section's bracket, and NUL bytes. It strips
 * indentation (libinih joins indented lines to the previous value). It also begins and ends
 * sections, because libinih does not report a section without keys. A line must never be read in
 * part.
 */
#include <errno.h>
#include <fcntl.h>
#include <ini.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "service/daemon/inifile.h"
#include "service/program/memory.h"
#include "vpmu/util/fail.h"

#define BLANKS	    " \t\r\n\v\f"
#define SECTION_MAX 49 /* libinih's section buffer without its NUL */

struct reader {
	const struct config_sections *sections;
	void *arg;
	const char *name;
	const char *text;
	size_t left;
	unsigned int line;
	bool in_section;
	int ret; /* the first error; its message is in at.err */
	char where[4200];
	char section_name[SECTION_MAX + 1];
	struct config_at at;
};

__attribute__((format(printf, 2, 3))) static int bad_line(struct reader *r, const char *fmt, ...)
{
	char text[200];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	r->ret = fail(-EINVAL, r->at.err, r->at.errlen, "%s: %s", r->where, text);
	return r->ret;
}

static int end_section(struct reader *r)
{
	if (r->in_section && !r->ret)
		r->ret = r->sections->end(r->arg, &r->at);
	return r->ret;
}

static int begin_section(struct reader *r, const char *line)
{
	const char *accepted = r->sections->accepted;
	const char *end = strchr(line, ']');
	const char *rest;
	size_t len;

	if (end_section(r))
		return r->ret;
	if (!end)
		return bad_line(r, "section without \"]\"; expected %s", accepted);
	rest = end + 1 + strspn(end + 1, BLANKS);
	if (*rest && *rest != ';' && *rest != '#')
		return bad_line(r, "text after \"]\"; expected %s", accepted);
	len = (size_t)(end - line) - 1;
	if (len > SECTION_MAX)
		return bad_line(r, "section name of %zu bytes; expected up to %d", len,
				SECTION_MAX);
	memcpy(r->section_name, line + 1, len);
	r->section_name[len] = 0;
	r->in_section = true;
	r->ret = r->sections->begin(r->arg, &r->at);
	if (r->ret == CONFIG_NO_SECTION)
		bad_line(r, "[%s] is invalid; expected %s", r->section_name, accepted);
	return r->ret;
}

/* libinih calls this like fgets: copy one line to @buf (@num bytes). Returns NULL at the end of the
 * file or on an error. */
static char *inifile_read_line(char *buf, int num, void *arg)
{
	struct reader *r = arg;
	const char *nl = memchr(r->text, '\n', r->left);
	size_t len = nl ? (size_t)(nl - r->text) + 1 : r->left;
	size_t bytes = len - (nl != NULL), indent;

	if (r->ret || !len)
		return NULL;
	r->line++;
	snprintf(r->where, sizeof(r->where), "%s:%u", r->name, r->line);
	/* @buf must also have room for the newline and a NUL. */
	if (bytes > (size_t)num - 2) {
		bad_line(r, "line of %zu bytes; expected up to %d", bytes, num - 2);
		return NULL;
	}
	if (memchr(r->text, 0, len)) {
		bad_line(r, "NUL byte in the line; expected text without NUL bytes");
		return NULL;
	}
	memcpy(buf, r->text, len);
	buf[len] = 0;
	r->text += len;
	r->left -= len;
	indent = strspn(buf, BLANKS);
	memmove(buf, buf + indent, len - indent + 1);
	if (*buf == '[' && begin_section(r, buf))
		return NULL;
	return buf;
}

static int inifile_handle(void *arg, const char *section, const char *key, const char *value)
{
	struct reader *r = arg;

	if (r->ret)
		return 0;
	if (r->in_section)
		r->ret = r->sections->set(r->arg, &r->at, key, value);
	else
		bad_line(r, "\"%.80s\" before any section; expected %s first", key,
			 r->sections->accepted);
	return r->ret == 0;
}

int config_read_text(const struct config_sections *s, void *arg, const char *name, const char *text,
		     size_t len, char *err, size_t errlen)
{
	struct reader *r = xcalloc(1, sizeof(*r));
	int rc, ret;

	*r = (struct reader){.sections = s, .arg = arg, .name = name, .text = text, .left = len};
	r->at = (struct config_at){r->where, r->section_name, err, errlen};
	if (len >= 3 && !memcmp(text, "\xef\xbb\xbf", 3)) { /* UTF-8 byte order mark */
		r->text += 3;
		r->left -= 3;
	}
	rc = ini_parse_stream(inifile_read_line, r, inifile_handle, r);
	if (!r->ret && rc > 0) {
		snprintf(r->where, sizeof(r->where), "%s:%d", name, rc);
		bad_line(r, "this line is not understood; expected [section], key = value or ; "
			    "comment");
	} else if (!r->ret && rc < 0) {
		memory_out();
	}
	end_section(r);
	ret = r->ret;
	free(r);
	return ret;
}

static bool is_fifo(int fd)
{
	struct stat st;

	return !fstat(fd, &st) && S_ISFIFO(st.st_mode);
}

int config_read_file(const struct config_sections *s, void *arg, const char *path, char *err,
		     size_t errlen)
{
	char *text = xmalloc(CONFIG_FILE_MAX + 1);
	size_t len = 0;
	ssize_t n = 0;
	int fd, ret;

	/* A pipe is read to its end. O_NONBLOCK, because opening a pipe without a writer would
	 * block forever. */
	fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	if (fd < 0)
		goto errno_out;
	while (len <= CONFIG_FILE_MAX) {
		n = read(fd, text + len, CONFIG_FILE_MAX + 1 - len);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0 && errno == EAGAIN) {
			struct pollfd p = {.fd = fd, .events = POLLIN};

			if (poll(&p, 1, -1) < 0 && errno != EINTR)
				break;
			continue;
		}
		if (n <= 0)
			break;
		len += (size_t)n;
	}
	if (n < 0)
		goto errno_out;
	if (!len && is_fifo(fd))
		ret = fail(-EINVAL, err, errlen,
			   "%s: empty pipe; expected a file, or a pipe that a program writes to",
			   path);
	else if (len > CONFIG_FILE_MAX)
		ret = fail(-EFBIG, err, errlen, "%s: longer than %u bytes", path, CONFIG_FILE_MAX);
	else
		ret = config_read_text(s, arg, path, text, len, err, errlen);
	goto out;
errno_out:
	ret = -errno;
	fail(ret, err, errlen, "%s: %s", path, strerror(-ret));
out:
	if (fd >= 0)
		close(fd);
	free(text);
	return ret;
}
