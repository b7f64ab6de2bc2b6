// SPDX-License-Identifier: GPL-2.0-or-later
/* Names of guest addresses from image files: see images.h. */
#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cgroup/cli/error.h"
#include "cgroup/cli/field.h"
#include "cgroup/cli/images.h"
#include "cgroup/cli/symbols.h"

struct image {
	struct image *next;
	char *path;
	struct symbols *symbols; /* NULL: the file could not be read */
};

struct images {
	json_t *vms;	  /* name of a VM -> path of its image */
	unsigned int pid; /* of the server */
	struct image *first;
};

int images_refresh(struct images *im, struct client *c)
{
	json_t *list = client_simple(c, "list");
	const json_t *nodes, *node;
	struct fields f = {0};
	bool ok;
	size_t i;

	if (!list)
		return -1;
	nodes = field_array(&f, list, "nodes");
	json_array_foreach (nodes, i, node) {
		const char *vm = field_string_or(&f, node, "vm", NULL);
		const char *image = field_string_or(&f, node, "image", NULL);

		if (vm && image)
			json_object_set_new(im->vms, vm, json_string(image));
	}
	ok = fields_ok(&f); /* while the answer still has the names */
	json_decref(list);
	return ok ? 0 : -1;
}

struct images *images_load(struct client *c)
{
	struct images *im = calloc(1, sizeof(*im));
	json_t *hello = im ? client_simple(c, "hello") : NULL;
	struct fields f = {0};

	if (!im)
		cli_error("out of memory");
	if (!hello) {
		free(im);
		return NULL;
	}
	im->pid = field_int(&f, hello, "pid", INT32_MAX);
	json_decref(hello);
	im->vms = json_object();
	if (fields_ok(&f) && images_refresh(im, c) == 0)
		return im;
	images_free(im);
	return NULL;
}

void images_free(struct images *im)
{
	struct image *next;

	if (!im)
		return;
	for (struct image *i = im->first; i; i = next) {
		next = i->next;
		symbols_free(i->symbols);
		free(i->path);
		free(i);
	}
	json_decref(im->vms);
	free(im);
}

/* A relative path is relative to the server's directory, not to ours. */
static void read_symbols(const struct images *im, struct image *i)
{
	char there[PATH_MAX], err[PATH_MAX + 100];
	const char *path = i->path;

	if (path[0] != '/') {
		snprintf(there, sizeof(there), "/proc/%u/cwd/%s", im->pid, path);
		if (access(there, R_OK) == 0)
			path = there;
	}
	if (symbols_load(path, &i->symbols, err, sizeof(err)))
		cli_error("no names of functions: %s; addresses are shown instead", err);
}

static struct symbols *symbols_of(struct images *im, const char *vm)
{
	const char *path = vm ? json_string_value(json_object_get(im->vms, vm)) : NULL;
	struct image *i = im->first;

	if (!path)
		return NULL;
	while (i && strcmp(i->path, path))
		i = i->next;
	if (!i) {
		i = calloc(1, sizeof(*i));
		if (!i)
			return NULL;
		i->path = strdup(path);
		if (!i->path) {
			free(i);
			return NULL;
		}
		i->next = im->first;
		im->first = i;
		read_symbols(im, i);
	}
	return i->symbols;
}

static const char *name(struct images *im, const char *vm, uint64_t address, uint64_t *offset)
{
	const struct symbols *s = symbols_of(im, vm);

	return s ? symbols_find(s, address, offset) : NULL;
}

/* A name comes from a file of whatever content and goes to a terminal, or into a folded stack. */
static const char *printable(char *buf)
{
	for (char *p = buf; *p; p++)
		if ((unsigned char)*p <= 0x20 || (unsigned char)*p >= 0x7f)
			*p = '?';
	return buf;
}

const char *images_function(struct images *im, const char *vm, uint64_t address,
			    char buf[ADDRESS_LEN])
{
	uint64_t offset;
	const char *n = name(im, vm, address, &offset);

	if (n)
		snprintf(buf, ADDRESS_LEN, "%.*s", ADDRESS_LEN - 1, n);
	else
		snprintf(buf, ADDRESS_LEN, "0x%" PRIx64, address);
	return printable(buf);
}

const char *images_place(struct images *im, const char *vm, uint64_t address, char buf[ADDRESS_LEN])
{
	uint64_t offset;
	const char *n = name(im, vm, address, &offset);

	if (n)
		snprintf(buf, ADDRESS_LEN, "%.200s+0x%" PRIx64, n, offset);
	else
		snprintf(buf, ADDRESS_LEN, "0x%" PRIx64, address);
	return printable(buf);
}
