// SPDX-License-Identifier: GPL-2.0-or-later
/* Names of addresses; see images.h. */
#include <inttypes.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/error.h"
#include "cli/field.h"
#include "cli/images.h"
#include "cli/symbols.h"
#include "service/program/memory.h"

struct image {
	struct image *next;
	char *path;
	struct symbols *symbols; /* NULL: unreadable */
};

/* A guest kernel's functions. */
struct kernel {
	struct kernel *next;
	char *vm; /* "": all VMs without a file of their own */
	struct symbols *symbols;
};

struct images {
	json_t *vms;	  /* name of a VM -> path of its image */
	json_t *tenants;  /* name of a VM -> path of its tenant */
	json_t *pids;	  /* name of a VM -> its process */
	json_t *backends; /* name of a VM -> its backend */
	unsigned int pid; /* of the server */
	struct image *first;
	struct kernel *guests;
	struct processes *processes;
	struct symbols *host; /* NULL: not needed so far, or unreadable */
	bool host_looked;
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
		if (vm && json_object_get(node, "path"))
			json_object_set(im->tenants, vm, json_object_get(node, "path"));
		if (vm && json_object_get(node, "pid"))
			json_object_set(im->pids, vm, json_object_get(node, "pid"));
		if (vm && json_object_get(node, "backend"))
			json_object_set(im->backends, vm, json_object_get(node, "backend"));
	}
	ok = fields_ok(&f); /* before the answer with the names is freed */
	json_decref(list);
	return ok ? 0 : -1;
}

struct images *images_load(struct client *c)
{
	json_t *hello = client_simple(c, "hello");
	struct fields f = {0};
	struct images *im;

	if (!hello)
		return NULL;
	im = xcalloc(1, sizeof(*im));
	im->pid = field_int(&f, hello, "pid", INT32_MAX);
	json_decref(hello);
	im->processes = processes_new();
	im->vms = json_object();
	im->tenants = json_object();
	im->pids = json_object();
	im->backends = json_object();
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
	while (im->guests) {
		struct kernel *k = im->guests;

		im->guests = k->next;
		symbols_free(k->symbols);
		free(k->vm);
		free(k);
	}
	symbols_free(im->host);
	processes_free(im->processes);
	json_decref(im->vms);
	json_decref(im->tenants);
	json_decref(im->pids);
	json_decref(im->backends);
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
	const char *path = images_path(im, vm);
	struct image *i = im->first;

	if (!path)
		return NULL;
	while (i && strcmp(i->path, path))
		i = i->next;
	if (!i) {
		i = xcalloc(1, sizeof(*i));
		i->path = xstrdup(path);
		i->next = im->first;
		im->first = i;
		read_symbols(im, i);
	}
	return i->symbols;
}

const char *images_image(struct images *im, const char *vm, uint64_t address, uint64_t *offset)
{
	const struct symbols *s = symbols_of(im, vm);

	return s ? symbols_find(s, address, offset) : NULL;
}

const char *images_tenant(const struct images *im, const char *vm)
{
	return vm ? json_string_value(json_object_get(im->tenants, vm)) : NULL;
}

bool images_segment(struct images *im, const char *vm, size_t i, struct segment *out)
{
	const struct symbols *s = symbols_of(im, vm);

	return s && symbols_segment(s, i, out);
}

/* ---- kernels ------------------------------------------------------------------------------ */

int images_guest_file(struct images *im, const char *arg)
{
	const char *equals = strchr(arg, '='), *slash = strchr(arg, '/');
	bool named = equals && (!slash || equals < slash);
	char vm[256] = "", err[PATH_MAX + 200];
	struct kernel *k = xcalloc(1, sizeof(*k));
	int ret;

	if (named)
		snprintf(vm, sizeof(vm), "%.*s", (int)(equals - arg), arg);
	k->vm = xstrdup(vm);
	ret = kallsyms_load(named ? equals + 1 : arg, &k->symbols, err, sizeof(err));
	k->next = im->guests;
	im->guests = k;
	if (!ret)
		return 0;
	cli_error("--guestkallsyms: %s", err);
	return -1;
}

const char *images_guest_kernel(struct images *im, const char *vm, uint64_t address,
				uint64_t *offset)
{
	const struct kernel *all = NULL;

	for (const struct kernel *k = im->guests; k; k = k->next) {
		if (vm && *k->vm && !strcmp(k->vm, vm))
			return symbols_find(k->symbols, address, offset);
		if (!*k->vm)
			all = k;
	}
	if (all)
		return symbols_find(all->symbols, address, offset);
	return images_image(im, vm, address, offset);
}

const char *images_host_kernel(struct images *im, uint64_t address, uint64_t *offset)
{
	char err[PATH_MAX + 200];

	if (!im->host_looked && kallsyms_load("/proc/kallsyms", &im->host, err, sizeof(err)))
		cli_error("no names of the host kernel's functions: %s; addresses are shown "
			  "instead",
			  err);
	im->host_looked = true;
	return im->host ? symbols_find(im->host, address, offset) : NULL;
}

const char *images_path(const struct images *im, const char *vm)
{
	return vm ? json_string_value(json_object_get(im->vms, vm)) : NULL;
}

bool images_is_thread(const struct images *im, const char *vm)
{
	const char *backend = vm ? json_string_value(json_object_get(im->backends, vm)) : NULL;

	return backend && !strcmp(backend, "bpf");
}

unsigned int images_pid(const struct images *im, const char *vm)
{
	return vm ? (unsigned int)json_integer_value(json_object_get(im->pids, vm)) : 0;
}

struct processes *images_processes(const struct images *im)
{
	return im->processes;
}

void images_look(struct images *im)
{
	processes_look(im->processes, im->pid);
}

/* ---- formatting --------------------------------------------------------------------------- */

/* Make @buf printable: names come from untrusted files and go to a terminal or into a folded
 * stack. */
static const char *images_printable(char *buf)
{
	for (char *p = buf; *p; p++)
		if ((unsigned char)*p <= 0x20 || (unsigned char)*p >= 0x7f)
			*p = '?';
	return buf;
}

const char *images_spell(const char *name, const uint64_t *offset, uint64_t address,
			 char buf[ADDRESS_LEN])
{
	if (name && offset)
		snprintf(buf, ADDRESS_LEN, "%.200s+0x%" PRIx64, name, *offset);
	else if (name)
		snprintf(buf, ADDRESS_LEN, "%.*s", ADDRESS_LEN - 1, name);
	else
		snprintf(buf, ADDRESS_LEN, "0x%" PRIx64, address);
	return images_printable(buf);
}
