// SPDX-License-Identifier: GPL-2.0-or-later
/* Functions of a Linux kernel; see kallsyms.h. A line is "ADDRESS TYPE NAME", optionally with a
 * module's name. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli/kallsyms.h"
#include "vpmu/util/fail.h"

/* A kernel with all its modules has some 200,000 symbols, in 12 MB. */
#define SYMBOLS_MAX (4u << 20)
#define NAMES_MAX   (256u << 20) /* bytes */
#define LINE_MAX_   1024	 /* longer lines are invalid */

/* Size assumed for the last function: some distance after it there is data. */
#define LAST_BYTES (1u << 20)

struct symbol {
	uint64_t start;
	size_t name; /* offset in names */
};

struct kallsyms {
	struct symbol *sym;
	size_t nr, cap;
	char *names;
	size_t used, room;
};

static int kallsyms_add_name(struct kallsyms *k, const char *name)
{
	size_t len = strlen(name) + 1;

	if (k->used + len > k->room) {
		size_t room = k->room ? k->room * 2 : 65536;
		char *more = room <= NAMES_MAX ? realloc(k->names, room) : NULL;

		if (!more)
			return room <= NAMES_MAX ? -ENOMEM : -E2BIG;
		k->names = more;
		k->room = room;
	}
	memcpy(k->names + k->used, name, len);
	k->used += len;
	return 0;
}

static int kallsyms_add(struct kallsyms *k, uint64_t start, const char *name)
{
	size_t at = k->used;
	int ret;

	if (k->nr == SYMBOLS_MAX)
		return -E2BIG;
	if (k->nr == k->cap) {
		size_t cap = k->cap ? k->cap * 2 : 4096;
		struct symbol *more = reallocarray(k->sym, cap, sizeof(*more));

		if (!more)
			return -ENOMEM;
		k->sym = more;
		k->cap = cap;
	}
	ret = kallsyms_add_name(k, name);
	if (!ret)
		k->sym[k->nr++] = (struct symbol){.start = start, .name = at};
	return ret;
}

/* Parse one line. *@hidden: its address is 0, as are all if the user may not see them. */
static int kallsyms_take_line(struct kallsyms *k, const char *line, bool *hidden)
{
	char name[LINE_MAX_];
	uint64_t start;
	char type;

	/* The width of %s is that of the array. */
	if (sscanf(line, "%" SCNx64 " %c %1023s", &start, &type, name) != 3)
		return -EINVAL;
	if (!strchr("tTwW", type))
		return 0;
	*hidden = !start;
	return start ? kallsyms_add(k, start, name) : 0;
}

static int kallsyms_by_start(const void *a, const void *b)
{
	const struct symbol *x = a, *y = b;

	if (x->start != y->start)
		return x->start < y->start ? -1 : 1;
	return x->name < y->name ? -1 : 1; /* the first one of the file */
}

static int read_lines(struct kallsyms *k, FILE *f, const char *path, char *err, size_t errlen)
{
	bool hidden = false;
	char line[LINE_MAX_];
	size_t nr = 0;
	int ret = 0;

	while (!ret && fgets(line, sizeof(line), f)) {
		nr++;
		if (!strchr(line, '\n') && !feof(f))
			ret = -EINVAL;
		else
			ret = kallsyms_take_line(k, line, &hidden);
	}
	if (ret == -EINVAL)
		return fail(ret, err, errlen,
			    "%s:%zu: not a line of kallsyms, which are ADDRESS TYPE NAME", path,
			    nr);
	if (ret)
		return fail(ret, err, errlen, "%s: %s", path,
			    ret == -E2BIG ? "too many symbols" : strerror(-ret));
	if (ferror(f))
		return fail(-EIO, err, errlen, "%s: it cannot be read", path);
	if (!k->nr && hidden)
		return fail(-EACCES, err, errlen,
			    "%s: the addresses are hidden (copy it as root, with "
			    "kernel.kptr_restrict 0 or 1)",
			    path);
	return k->nr ? 0 : fail(-ENODATA, err, errlen, "%s: no functions", path);
}

int kallsyms_load(const char *path, struct kallsyms **out, char *err, size_t errlen)
{
	struct kallsyms *k = calloc(1, sizeof(*k));
	int fd, ret;
	FILE *f;

	if (!k)
		return fail(-ENOMEM, err, errlen, "%s: out of memory", path);
	fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
	f = fd < 0 ? NULL : fdopen(fd, "r");
	if (!f) {
		ret = fail(-errno, err, errlen, "%s: %s", path, strerror(errno));
		if (fd >= 0)
			close(fd);
	} else {
		ret = read_lines(k, f, path, err, errlen);
		fclose(f);
	}
	if (ret) {
		kallsyms_free(k);
		return ret;
	}
	qsort(k->sym, k->nr, sizeof(*k->sym), kallsyms_by_start);
	*out = k;
	return 0;
}

void kallsyms_free(struct kallsyms *k)
{
	if (!k)
		return;
	free(k->sym);
	free(k->names);
	free(k);
}

const char *kallsyms_find(const struct kallsyms *k, uint64_t address, uint64_t *offset)
{
	size_t low = 0, high = k->nr;
	uint64_t start;

	while (low < high) { /* find the first symbol that starts after @address */
		size_t mid = (low + high) / 2;

		if (k->sym[mid].start <= address)
			low = mid + 1;
		else
			high = mid;
	}
	if (!low)
		return NULL;
	start = k->sym[low - 1].start;
	if (low == k->nr && address - start >= LAST_BYTES)
		return NULL;
	/* Of several at one address, the first one of the file. */
	while (low > 1 && k->sym[low - 2].start == start)
		low--;
	*offset = address - start;
	return k->names + k->sym[low - 1].name;
}
