// SPDX-License-Identifier: GPL-2.0-or-later
/* Names are taken out of text: see redact.h. The text may be anything. */
#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <search.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <systemd/sd-id128.h>
#include <unistd.h>

#include "cli/redact.h"

#define BETWEEN	    " \t\r\n=,;:()[]{}\"'`<>|" /* what is between words */
#define PROGRAM_MAX (64 << 20)
#define MESSAGE_MAX 1000

struct redact {
	bool keep;
	void *words, *known; /* tsearch(3) trees of strings */
};

/* Components of paths that name nobody. */
static const char *const plain[] = {"host",
				    "machine",
				    "machine.slice",
				    "system.slice",
				    "user.slice",
				    "kubepods",
				    "kubepods.slice",
				    "kubepods-burstable.slice",
				    "kubepods-besteffort.slice",
				    "vpmud.service"};
/* Paths that name nobody, with all that is below them. */
static const char *const places[] = {"/proc/sys/",	    "/sys/kernel/",
				     "/sys/module/",	    "/sys/fs/bpf/vpmu",
				     "/usr/bin/",	    "/sys/devices/system/cpu/",
				     "/etc/vpmu/vpmud.conf"};

static int redact_compare(const void *a, const void *b)
{
	return strcmp(a, b);
}

static int redact_add(void **tree, const char *word, size_t len)
{
	char *copy = strndup(word, len), **at;

	if (!copy)
		return -ENOMEM;
	at = tsearch(copy, tree, redact_compare);
	if (!at || *at != copy)
		free(copy);
	return at ? 0 : -ENOMEM;
}

struct redact *redact_new(bool keep_names)
{
	struct redact *r = calloc(1, sizeof(*r));

	if (!r)
		return NULL;
	r->keep = keep_names;
	for (int i = 0; i < 134; i++) {
		if (redact_words(r, strerror(i))) {
			redact_free(r);
			return NULL;
		}
	}
	return r;
}

void redact_free(struct redact *r)
{
	if (!r)
		return;
	tdestroy(r->words, free);
	tdestroy(r->known, free);
	free(r);
}

/* ---- which words pass --------------------------------------------------------------------- */

/* A full stop, or several, ends a sentence. */
static size_t without_stop(const char *word, size_t len)
{
	while (len > 1 && (word[len - 1] == '.' || word[len - 1] == '?' || word[len - 1] == '!'))
		len--;
	return len;
}

int redact_words(struct redact *r, const char *text)
{
	int ret = 0;

	while (*text && !ret) {
		size_t len = strcspn(text, BETWEEN);

		if (len)
			ret = redact_add(&r->words, text, without_stop(text, len));
		text += len;
		text += strspn(text, BETWEEN);
	}
	return ret;
}

int redact_program(struct redact *r, const char *path)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK), ret = 0;
	char message[MESSAGE_MAX + 1];
	const char *file = MAP_FAILED;
	bool blank = false;
	size_t n = 0;
	struct stat st;

	if (fd < 0)
		return -errno;
	if (fstat(fd, &st) || !S_ISREG(st.st_mode) || st.st_size <= 0 || st.st_size > PROGRAM_MAX)
		ret = -EINVAL;
	if (!ret)
		file = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
	close(fd);
	if (file == MAP_FAILED)
		return ret ? ret : -ENOMEM;
	/* A message is a C string of printable characters with a blank in it. */
	for (off_t i = 0; i < st.st_size && !ret; i++) {
		unsigned char c = (unsigned char)file[i];

		if ((isprint(c) || c == '\n' || c == '\t') && n < MESSAGE_MAX) {
			blank |= c == ' ';
			message[n++] = (char)c;
			continue;
		}
		message[n] = '\0';
		if (c == '\0' && blank && n >= 6)
			ret = redact_words(r, message);
		n = 0;
		blank = false;
	}
	munmap((void *)file, (size_t)st.st_size);
	return ret;
}

int redact_known(struct redact *r, const char *name)
{
	int ret = 0;

	while (*name && !ret) {
		size_t len = strcspn(name, "/");

		if (len)
			ret = redact_add(&r->known, name, len);
		name += len;
		name += strspn(name, "/");
	}
	return ret;
}

static bool in(const void *tree, const char *word)
{
	return tfind(word, (void *const *)&tree, redact_compare) != NULL;
}

/* A number, with a unit or a sign at most: 52%, 0x1f, 4.2, -1. */
static bool is_number(const char *word)
{
	static const char *const units[] = {"",	 "%",	"ms",  "ns",  "s",
					    "B", "KiB", "MiB", "GiB", "x"};
	const char *p = word + strspn(word, "+-");
	size_t digits = strspn(p, "0123456789.");

	if (strncmp(p, "0x", 2) == 0 && strlen(p) <= 18 && p[2] &&
	    !p[2 + strspn(p + 2, "0123456789abcdefABCDEF")])
		return true;
	if (!isdigit((unsigned char)*p) || digits > 20)
		return false;
	for (size_t i = 0; i < sizeof(units) / sizeof(units[0]); i++)
		if (strcmp(p + digits, units[i]) == 0)
			return true;
	return false;
}

static bool passes(const struct redact *r, const char *word)
{
	if (in(r->known, word))
		return false;
	if (is_number(word) || in(r->words, word))
		return true;
	for (size_t i = 0; *word == '/' && i < sizeof(places) / sizeof(places[0]); i++)
		if (strncmp(word, places[i], strlen(places[i])) == 0)
			return true;
	return !word[strspn(word, "-*./?&+~#%_")]; /* nothing but signs */
}

/* ---- writing ------------------------------------------------------------------------------ */

/* A CBC-MAC over the name and its length, whose block function is systemd's keyed hash. */
static void pseudonym(const char *name, size_t len, FILE *to)
{
	sd_id128_t state = {.qwords = {len, 0}};

	for (size_t at = 0;; at += sizeof(state)) {
		if (sd_id128_get_machine_app_specific(state, &state) < 0) {
			fputs("hidden", to);
			return;
		}
		if (at >= len)
			break;
		for (size_t i = 0; i < sizeof(state) && at + i < len; i++)
			state.bytes[i] ^= (uint8_t)name[at + i];
	}
	fprintf(to, "n-%02x%02x%02x%02x", state.bytes[0], state.bytes[1], state.bytes[2],
		state.bytes[3]);
}

static bool redact_is_plain(const char *name, size_t len)
{
	for (size_t i = 0; i < sizeof(plain) / sizeof(plain[0]); i++)
		if (strlen(plain[i]) == len && memcmp(name, plain[i], len) == 0)
			return true;
	return false;
}

void redact_name(const struct redact *r, const char *name, FILE *to)
{
	if (r->keep) {
		fputs(name, to);
		return;
	}
	while (*name) {
		size_t len = strcspn(name, "/");

		if (redact_is_plain(name, len))
			fwrite(name, 1, len, to);
		else if (len)
			pseudonym(name, len, to);
		name += len;
		while (*name == '/')
			putc(*name++, to);
	}
}

void redact_text(const struct redact *r, const char *text, FILE *to)
{
	if (r->keep) {
		fputs(text, to);
		return;
	}
	while (*text) {
		size_t len = strcspn(text, BETWEEN), word = without_stop(text, len);
		char *copy;

		if (len) {
			copy = strndup(text, word);
			if (!copy)
				fputs("hidden", to);
			else if (passes(r, copy))
				fputs(copy, to);
			else
				redact_name(r, copy, to);
			free(copy);
			fwrite(text + word, 1, len - word, to);
			text += len;
		}
		len = strspn(text, BETWEEN);
		fwrite(text, 1, len, to);
		text += len;
	}
}
