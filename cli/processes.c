// SPDX-License-Identifier: GPL-2.0-or-later
/* Processes of the host: their names, and what they have mapped; see processes.h. */
#include <errno.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli/error.h"
#include "cli/processes.h"
#include "service/clock.h"
#include "service/program/memory.h"
#include "vpmu/util/proctext.h"

#define DEBUG_DIR "/usr/lib/debug"

/* All files together, so that a thousand hostile ones cost no more than one; and each. The first
 * wanted come first. */
#define LOOK_NS	  20000000000ULL
#define OBJECT_NS 5000000000ULL

#define COMM_MAX    64
#define OBJECTS_MAX 1024 /* code in further files is unknown */

/* A mapped file. */
struct object {
	struct object *next;
	char *path;			/* as in /proc/PID/maps */
	char place[64];			/* device and inode */
	char mapped[64], *rooted;	/* where to open it */
	uint64_t inode;			/* 0: no file */
	size_t first;			/* order of the first address in it */
	struct object_place *addresses; /* while it is read */
	size_t nr;
};

struct code {
	unsigned int pid;
	uint64_t first_ns; /* CLOCK_MONOTONIC; UINT64_MAX: unknown */
	uint64_t address;
	size_t order;
	struct object *object; /* NULL: unknown */
	uint64_t in_file;
	char *function;
	uint64_t offset;
};

struct process {
	unsigned int pid;
	int error; /* of reading its maps: 0 or errno */
	char comm[COMM_MAX];
};

struct processes {
	struct code *code; /* after processes_look: by pid and address, none twice */
	size_t nr, cap, orders, looked;
	struct process *process; /* by pid */
	size_t nr_processes;
	struct object *objects;
	size_t nr_objects;
	char unknown[24]; /* of processes_comm */
};

struct processes *processes_new(void)
{
	return xcalloc(1, sizeof(struct processes));
}

static void processes_forget(struct processes *ps)
{
	while (ps->objects) {
		struct object *o = ps->objects;

		ps->objects = o->next;
		free(o->path);
		free(o->rooted);
		free(o);
	}
	ps->nr_objects = 0;
	free(ps->process);
	ps->process = NULL;
	ps->nr_processes = 0;
}

void processes_free(struct processes *ps)
{
	if (!ps)
		return;
	processes_forget(ps);
	for (size_t i = 0; i < ps->nr; i++)
		free(ps->code[i].function);
	free(ps->code);
	free(ps);
}

/* ---- what is wanted ----------------------------------------------------------------------- */

static int code_compare(const void *a, const void *b)
{
	const struct code *x = a, *y = b;

	if (x->pid != y->pid)
		return x->pid < y->pid ? -1 : 1;
	if (x->address != y->address)
		return x->address < y->address ? -1 : 1;
	return (x->order > y->order) - (x->order < y->order);
}

/* Sort, and keep the first of equals. */
static void processes_sort(struct processes *ps)
{
	size_t to = 0;

	if (ps->nr)
		qsort(ps->code, ps->nr, sizeof(*ps->code), code_compare);
	for (size_t i = 0; i < ps->nr; i++) {
		if (to && ps->code[to - 1].pid == ps->code[i].pid &&
		    ps->code[to - 1].address == ps->code[i].address) {
			if (ps->code[i].first_ns < ps->code[to - 1].first_ns)
				ps->code[to - 1].first_ns = ps->code[i].first_ns;
			free(ps->code[i].function);
		} else {
			ps->code[to++] = ps->code[i];
		}
	}
	ps->nr = to;
}

void processes_want(struct processes *ps, unsigned int pid, uint64_t first_ns, uint64_t address)
{
	if (ps->nr == ps->cap) {
		processes_sort(ps);
		if (ps->nr > ps->cap / 2) {
			ps->cap *= 2;
			ps->code = xreallocarray(ps->code, ps->cap, sizeof(*ps->code));
		} else if (!ps->cap) {
			ps->cap = 256;
			ps->code = xreallocarray(NULL, ps->cap, sizeof(*ps->code));
		}
	}
	ps->code[ps->nr++] = (struct code){.pid = pid,
					   .first_ns = first_ns ? first_ns : UINT64_MAX,
					   .address = address,
					   .order = ps->orders++};
}

/* ---- maps --------------------------------------------------------------------------------- */

/* Undo the escapes of /proc/PID/maps: \012 for a newline. */
static char *maps_path(const char *text)
{
	char *path = xstrdup(text), *to = path;

	for (const char *at = path; *at;) {
		if (!strncmp(at, "\\012", 4)) {
			*to++ = '\n';
			at += 4;
		} else {
			*to++ = *at++;
		}
	}
	*to = 0;
	return path;
}

/* A line of /proc/PID/maps. */
struct mapping {
	uint64_t start, end, offset, inode;
	char place[64];
	const char *path; /* "": none */
};

/* Parse @line, which loses its newline. Returns false if it is not executable. */
static bool maps_parse(char *line, struct mapping *m)
{
	char perms[8], dev[32];
	int at = 0;

	line[strcspn(line, "\n")] = 0;
	if (sscanf(line, "%" SCNx64 "-%" SCNx64 " %7s %" SCNx64 " %31s %" SCNu64 " %n", &m->start,
		   &m->end, perms, &m->offset, dev, &m->inode, &at) < 6 ||
	    !at || !strchr(perms, 'x'))
		return false;
	snprintf(m->place, sizeof(m->place), "%s %" PRIu64, dev, m->inode);
	m->path = line + at;
	return true;
}

static struct object *object_of_mapping(struct processes *ps, unsigned int pid,
					const struct mapping *m, size_t order)
{
	const char *path = *m->path ? m->path : "[anon]";
	struct object *o;

	for (o = ps->objects; o; o = o->next)
		if (!strcmp(o->place, m->place) && !strcmp(o->path, path))
			break;
	if (!o && ps->nr_objects == OBJECTS_MAX)
		return NULL;
	if (!o) {
		o = xcalloc(1, sizeof(*o));
		o->path = maps_path(path);
		strcpy(o->place, m->place);
		o->inode = m->inode;
		o->first = order;
		snprintf(o->mapped, sizeof(o->mapped), "/proc/%u/map_files/%" PRIx64 "-%" PRIx64,
			 pid, m->start, m->end);
		o->rooted = *path == '/' ? xasprintf("/proc/%u/root%s", pid, o->path) : NULL;
		o->next = ps->objects;
		ps->objects = o;
		ps->nr_objects++;
	}
	if (order < o->first)
		o->first = order;
	return o;
}

/* Find the mappings of the addresses @code[0..n) of one process, sorted. Returns 0 or an errno. */
static int maps_read(struct processes *ps, struct code *code, size_t n)
{
	char file[40], *line = NULL;
	struct mapping m;
	size_t cap = 0, i = 0;
	int ret = 0;
	FILE *f;

	snprintf(file, sizeof(file), "/proc/%u/maps", code->pid);
	f = fopen(file, "re");
	if (!f)
		return errno;
	while (i < n && getline(&line, &cap, f) > 0) {
		if (!maps_parse(line, &m))
			continue;
		while (i < n && code[i].address < m.start)
			i++;
		for (; i < n && code[i].address < m.end; i++) {
			code[i].object = object_of_mapping(ps, code->pid, &m, code[i].order);
			code[i].in_file = code[i].address - m.start + m.offset;
		}
	}
	if (ferror(f))
		ret = errno ? errno : EIO;
	fclose(f);
	free(line);
	return ret;
}

static void process_comm(struct process *p)
{
	proctext_read(p->comm, sizeof(p->comm), "/proc/%u/comm", p->pid);
	p->comm[strcspn(p->comm, "\n")] = 0;
}

/* Return true if process @pid began after @first_ns of CLOCK_MONOTONIC: it is another one than the
 * process of that number that ran then. */
static bool process_is_later(unsigned int pid, uint64_t first_ns)
{
	const uint64_t tick_ns = 1000000000 / (uint64_t)sysconf(_SC_CLK_TCK);
	char text[1024];
	uint64_t start;

	if (first_ns == UINT64_MAX)
		return false;
	proctext_read(text, sizeof(text), "/proc/%u/stat", pid);
	if (proctext_start(text, &start))
		return true;
	first_ns += clock_ns(CLOCK_BOOTTIME) - now_ns();
	return start > first_ns / tick_ns; /* ticks are rounded down */
}

/* Forget what was read of a process that has the number of another one. */
static void process_forget(struct process *p, struct code *code, size_t n)
{
	p->comm[0] = 0;
	p->error = ESRCH;
	for (size_t i = 0; i < n; i++)
		code[i].object = NULL;
}

static void processes_read(struct processes *ps)
{
	size_t cap = 0;

	for (size_t i = 0, n; i < ps->nr; i += n) {
		struct code *c = &ps->code[i];
		uint64_t first_ns = c->first_ns;
		struct process *p;

		for (n = 1; i + n < ps->nr && c[n].pid == c->pid; n++)
			first_ns = c[n].first_ns < first_ns ? c[n].first_ns : first_ns;
		if (ps->nr_processes == cap) {
			cap = cap ? cap * 2 : 16;
			ps->process = xreallocarray(ps->process, cap, sizeof(*p));
		}
		p = &ps->process[ps->nr_processes++];
		*p = (struct process){.pid = c->pid};
		process_comm(p);
		p->error = maps_read(ps, c, n);
		/* Last: the number can get another process at any time. */
		if (process_is_later(p->pid, first_ns))
			process_forget(p, c, n);
	}
}

/* ---- functions ---------------------------------------------------------------------------- */

static int object_by_order(const void *a, const void *b)
{
	const struct object *const *x = a, *const *y = b;

	return ((*x)->first > (*y)->first) - ((*x)->first < (*y)->first);
}

/* Files with code that could not be named. */
struct unread {
	size_t files, late, failed; /* all; too slow; others */
	int error;		    /* of one that failed */
};

static void object_read(struct object *o, uint64_t deadline_ns, struct unread *un)
{
	const char *const path[2] = {o->mapped, o->rooted};
	uint64_t now = now_ns();
	int ret = -ETIMEDOUT;

	if (now < deadline_ns)
		ret = object_names(path, o->inode, DEBUG_DIR, o->addresses, o->nr,
				   deadline_ns - now > OBJECT_NS ? now + OBJECT_NS : deadline_ns);
	un->files++;
	if (ret == -ETIMEDOUT) {
		un->late++;
	} else if (ret && ret != -ENOEXEC) { /* no ELF file has functions */
		un->failed++;
		un->error = -ret;
	}
}

/* Name the addresses in all files, those with the first wanted addresses first. */
static struct unread processes_name(struct processes *ps)
{
	struct object **all = xcalloc(ps->nr_objects + 1, sizeof(*all));
	struct object_place *places = xcalloc(ps->nr + 1, sizeof(*places)), *next = places;
	uint64_t deadline_ns = now_ns() + LOOK_NS;
	struct unread un = {0};
	size_t n = 0;

	for (struct object *o = ps->objects; o; o = o->next)
		all[n++] = o;
	qsort(all, n, sizeof(struct object *), object_by_order);
	for (size_t i = 0; i < ps->nr; i++)
		if (ps->code[i].object)
			ps->code[i].object->nr++;
	for (size_t i = 0; i < n; i++) {
		all[i]->addresses = next;
		next += all[i]->nr;
		all[i]->nr = 0;
	}
	for (size_t i = 0; i < ps->nr; i++) {
		struct object *o = ps->code[i].object;

		if (o)
			o->addresses[o->nr++].at = ps->code[i].in_file;
	}
	for (size_t i = 0; i < n; i++) {
		if (all[i]->inode && all[i]->nr)
			object_read(all[i], deadline_ns, &un);
		all[i]->nr = 0;
	}
	for (size_t i = 0; i < ps->nr; i++) {
		struct object *o = ps->code[i].object;
		const struct object_place *p = o ? &o->addresses[o->nr++] : NULL;

		free(ps->code[i].function);
		ps->code[i].function = p ? p->name : NULL;
		ps->code[i].offset = p ? p->offset : 0;
	}
	free(places);
	free(all);
	return un;
}

/* ---- the whole ---------------------------------------------------------------------------- */

/* Return true if the process numbers of process @server are ours. */
static bool same_namespace(unsigned int server)
{
	char file[40];
	struct stat ours, its;

	snprintf(file, sizeof(file), "/proc/%u/ns/pid", server);
	/* Without the right to read this, maps of others cannot be read either. */
	return stat(file, &its) || stat("/proc/self/ns/pid", &ours) || its.st_ino == ours.st_ino;
}

static void processes_report(const struct processes *ps, const struct unread *un)
{
	size_t gone = 0, refused = 0;
	int why = 0;

	for (size_t i = 0; i < ps->nr_processes; i++) {
		int error = ps->process[i].error;

		if (error == ENOENT || error == ESRCH)
			gone++;
		else if (error) {
			refused++;
			why = error;
		}
	}
	if (gone)
		cli_error("%zu of %zu processes have ended; their user code is [unknown]", gone,
			  ps->nr_processes);
	if (refused)
		cli_error("%zu of %zu processes cannot be read (%s); their user code is [unknown]",
			  refused, ps->nr_processes, strerror(why));
	if (un->late)
		cli_error("%zu of %zu files with code take too long to read; functions in them may "
			  "be shown by the file's name",
			  un->late, un->files);
	if (un->failed)
		cli_error("%zu of %zu files with code cannot be read (%s); functions in them are "
			  "shown by the file's name",
			  un->failed, un->files, strerror(un->error));
}

void processes_look(struct processes *ps, unsigned int server)
{
	struct unread un;

	processes_sort(ps);
	if (ps->nr == ps->looked) /* nothing is new */
		return;
	ps->looked = ps->nr;
	for (size_t i = 0; i < ps->nr; i++)
		ps->code[i].object = NULL;
	processes_forget(ps);
	if (!same_namespace(server)) {
		cli_error("user code has no names: the server has another PID namespace");
		return;
	}
	processes_read(ps);
	un = processes_name(ps);
	processes_report(ps, &un);
}

static int process_compare(const void *key, const void *p)
{
	unsigned int a = *(const unsigned int *)key, b = ((const struct process *)p)->pid;

	return (a > b) - (a < b);
}

const char *processes_comm(struct processes *ps, unsigned int pid)
{
	const struct process *p = ps->nr_processes ? bsearch(&pid, ps->process, ps->nr_processes,
							     sizeof(*ps->process), process_compare)
						   : NULL;

	if (p && p->comm[0])
		return p->comm;
	snprintf(ps->unknown, sizeof(ps->unknown), ":%u", pid);
	return ps->unknown;
}

static int code_find(const void *key, const void *code)
{
	const struct code *a = key, *b = code;

	if (a->pid != b->pid)
		return a->pid < b->pid ? -1 : 1;
	return (a->address > b->address) - (a->address < b->address);
}

void processes_find(const struct processes *ps, unsigned int pid, uint64_t address,
		    struct process_code *out)
{
	const struct code key = {.pid = pid, .address = address};
	const struct code *c =
		ps->nr ? bsearch(&key, ps->code, ps->nr, sizeof(*ps->code), code_find) : NULL;

	*out = (struct process_code){
		.object = c && c->object ? c->object->path : NULL,
		.function = c ? c->function : NULL,
		.offset = c ? c->offset : 0,
	};
}
