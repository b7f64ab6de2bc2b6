// SPDX-License-Identifier: GPL-2.0-or-later
/* Users of this host's counters; see check.h. Unreadable facts are reported as unknown. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/check.h"
#include "service/program/memory.h"
#include "vpmu/util/proctext.h"
#include "vpmu/util/utf8.h"

#define NAMES_MAX 16 /* maximum of lines for process names */
#define NAME_LEN  64
#define TEXT_LEN  256
#define PERF_LINK "anon_inode:[perf_event]"

/* linux/capability.h */
#define CAP_BIT_SYS_ADMIN 21
#define CAP_BIT_PERFMON	  38
#define CAP_BIT_BPF	  39

struct holders {
	const char *root;
	int (*fn)(const char *what, bool ok, const char *why, void *arg);
	void *arg;
};

/* ---- files -------------------------------------------------------------------------------- */

/* Read the first line of a file, truncated to TEXT_LEN - 1 bytes, with "?" for unprintable
 * characters. Returns 0 or -errno. */
static int holders_read_line(const struct holders *h, const char *path, char line[TEXT_LEN])
{
	char name[PATH_MAX];
	ssize_t n;
	int fd;

	line[0] = '\0';
	if ((size_t)snprintf(name, sizeof(name), "%s%s", h->root, path) >= sizeof(name))
		return -ENAMETOOLONG;
	fd = open(name, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	if (fd < 0)
		return -errno;
	do
		n = read(fd, line, TEXT_LEN - 1);
	while (n < 0 && errno == EINTR);
	if (n < 0)
		n = -errno;
	close(fd);
	line[n > 0 ? n : 0] = '\0';
	line[strcspn(line, "\n")] = '\0';
	for (char *p = line; *p;) {
		size_t len = utf8_shown(p, strlen(p));

		if (!len)
			*p = '?';
		p += len ? len : 1;
	}
	return n < 0 ? (int)n : 0;
}

/* Read a small number from a file. Returns false if there is none. */
static bool read_number(const struct holders *h, const char *path, long *number)
{
	char line[TEXT_LEN], *end;

	if (holders_read_line(h, path, line))
		return false;
	errno = 0;
	*number = strtol(line, &end, 10);
	return end != line && !*end && !errno;
}

/* ---- the kernel --------------------------------------------------------------------------- */

static int check_watchdog(const struct holders *h)
{
	static const char path[] = "/proc/sys/kernel/nmi_watchdog";
	char line[TEXT_LEN];
	long on;

	if (holders_read_line(h, path, line) == -ENOENT)
		return h->fn("NMI watchdog", true, "this kernel has none", h->arg);
	if (!read_number(h, path, &on))
		return h->fn("NMI watchdog", false,
			     "not known: /proc/sys/kernel/nmi_watchdog has no "
			     "number that can be read",
			     h->arg);
	if (!on)
		return h->fn("NMI watchdog", true, "off", h->arg);
	return h->fn(
		"NMI watchdog", false,
		"on: it can hold a counter of each CPU; `sysctl kernel.nmi_watchdog=0` ends it",
		h->arg);
}

/* Read a boolean parameter that several modules may have, up to the first in which it is on.
 * *@module: the last one that has it, or "". Returns false if its value is unknown. */
static bool read_switch(const struct holders *h, const char *const *modules, const char *name,
			const char **module, bool *on)
{
	char path[100], line[TEXT_LEN];

	*module = "";
	*on = false;
	for (; *modules; modules++) {
		snprintf(path, sizeof(path), "/sys/module/%s/parameters/%s", *modules, name);
		if (holders_read_line(h, path, line) == -ENOENT)
			continue;
		*module = *modules;
		*on = strcmp(line, "Y") == 0 || strcmp(line, "1") == 0;
		if (!*on && strcmp(line, "N") && strcmp(line, "0"))
			return false;
		if (*on)
			return true;
	}
	return true;
}

static int check_kvm(const struct holders *h)
{
	static const char *const modules[] = {"kvm_intel", "kvm_amd", "kvm", NULL};
	const char *module, *state;
	char why[TEXT_LEN];
	bool on, known;
	int ret;

	known = read_switch(h, modules, "enable_mediated_pmu", &module, &on);
	if (!known)
		snprintf(why, sizeof(why), "not known: %s/enable_mediated_pmu cannot be read",
			 module);
	else if (on)
		snprintf(why, sizeof(why),
			 "on (%s): a guest with a vPMU has all counters while it runs, and events "
			 "that count in guests are refused",
			 module);
	else
		snprintf(why, sizeof(why), "%s", *module ? "off" : "this kernel has none");
	ret = h->fn("mediated vPMU", known && !on, why, h->arg);
	if (ret)
		return ret;

	known = read_switch(h, modules, "enable_pmu", &module, &on);
	state = !known	  ? "not known: kvm/enable_pmu cannot be read"
		: on	  ? "on: guests with a vPMU of their own count on this host's counters"
		: *module ? "off: no guest has one"
			  : "the module kvm is not loaded, or has no such switch";
	return h->fn("KVM vPMU", known, state, h->arg);
}

static int check_cpus(const struct holders *h)
{
	static const char *const files[] = {"isolated", "nohz_full"};
	char why[2 * TEXT_LEN + 40] = "", line[TEXT_LEN], path[80];
	size_t n = 0;

	for (size_t i = 0; i < 2; i++) {
		snprintf(path, sizeof(path), "/sys/devices/system/cpu/%s", files[i]);
		/* nohz_full reads "(null)" if there are none. */
		if (holders_read_line(h, path, line) || !*line || strcmp(line, "(null)") == 0)
			continue;
		n += (size_t)snprintf(why + n, sizeof(why) - n, "%s%s: %s", n ? "; " : "", files[i],
				      line);
	}
	return h->fn("isolated CPUs", true, n ? why : "none", h->arg);
}

/* ---- processes ---------------------------------------------------------------------------- */

struct holder {
	char name[NAME_LEN];
	long pid; /* of one of them */
	uint64_t processes, events;
};

struct found {
	struct holder *holder;
	size_t nr, capacity;
	uint64_t processes, closed; /* all, and those without permission */
};

/* Return the number of perf events the process has open; below 0: no permission. */
static long count_events(const struct holders *h, long pid)
{
	char path[PATH_MAX], link[sizeof(PERF_LINK) + 1];
	struct dirent *d;
	long events = 0;
	ssize_t n;
	DIR *dir;

	if ((size_t)snprintf(path, sizeof(path), "%s/proc/%ld/fd", h->root, pid) >= sizeof(path))
		return -1;
	dir = opendir(path);
	if (!dir)
		return errno == ENOENT || errno == ESRCH ? 0 : -1; /* the process has ended */
	while ((d = readdir(dir))) {
		n = readlinkat(dirfd(dir), d->d_name, link, sizeof(link));
		events +=
			n == (ssize_t)strlen(PERF_LINK) && memcmp(link, PERF_LINK, (size_t)n) == 0;
	}
	closedir(dir);
	return events;
}

static void holders_note(const struct holders *h, struct found *f, long pid, long events)
{
	char path[64], name[TEXT_LEN];
	struct holder *holder;
	size_t i = 0;

	snprintf(path, sizeof(path), "/proc/%ld/comm", pid);
	if (holders_read_line(h, path, name) || !*name)
		strcpy(name, "?");
	name[NAME_LEN - 1] = '\0';
	if (!utf8_text(name)) /* truncated in a character; the kernel's names are shorter */
		strcpy(name, "?");
	while (i < f->nr && strcmp(f->holder[i].name, name) != 0)
		i++;
	if (i == f->nr) {
		if (f->nr == f->capacity) {
			f->capacity = f->capacity ? 2 * f->capacity : 16;
			f->holder = xreallocarray(f->holder, f->capacity, sizeof(*f->holder));
		}
		f->holder[f->nr] = (struct holder){.pid = pid};
		memcpy(f->holder[f->nr++].name, name, NAME_LEN);
	}
	holder = &f->holder[i];
	holder->processes++;
	holder->events += (uint64_t)events;
	if (pid < holder->pid)
		holder->pid = pid;
}

/* Parse the pid of a directory of /proc; 0: it is none. */
static long holders_pid_of(const char *name)
{
	size_t n = strspn(name, "0123456789");

	return n && n < 10 && !name[n] ? strtol(name, NULL, 10) : 0;
}

static int holders_scan(const struct holders *h, struct found *f)
{
	char path[PATH_MAX];
	struct dirent *d;
	DIR *dir;

	if ((size_t)snprintf(path, sizeof(path), "%s/proc", h->root) >= sizeof(path))
		return -ENAMETOOLONG;
	dir = opendir(path);
	if (!dir)
		return -errno;
	while ((d = readdir(dir))) {
		long pid = holders_pid_of(d->d_name), events = pid ? count_events(h, pid) : 0;

		f->processes += pid != 0;
		f->closed += events < 0;
		if (events > 0)
			holders_note(h, f, pid, events);
	}
	closedir(dir);
	return 0;
}

/* Most events first. */
static int by_events(const void *a, const void *b)
{
	const struct holder *x = a, *y = b;

	if (x->events != y->events)
		return x->events > y->events ? -1 : 1;
	return strcmp(x->name, y->name);
}

static int tell_others(const struct holders *h, const struct found *f)
{
	uint64_t processes = 0, events = 0;
	char why[TEXT_LEN];
	size_t n = 0;

	for (size_t i = NAMES_MAX; i < f->nr; i++) {
		processes += f->holder[i].processes;
		events += f->holder[i].events;
	}
	if (processes)
		n = (size_t)snprintf(why, sizeof(why), "%llu in %llu processes of %zu more names",
				     (unsigned long long)events, (unsigned long long)processes,
				     f->nr - NAMES_MAX);
	if (f->closed)
		snprintf(why + n, sizeof(why) - n,
			 "%snot known: %llu of %llu processes are closed to this user; root sees "
			 "all",
			 n ? "; " : "", (unsigned long long)f->closed,
			 (unsigned long long)f->processes);
	else if (!n && f->nr)
		return 0;
	else if (!n)
		snprintf(why, sizeof(why), "none: no process has perf events open");
	return h->fn(f->nr ? "perf events of others" : "perf events", !f->closed && !processes, why,
		     h->arg);
}

static int check_processes(const struct holders *h)
{
	struct found f = {0};
	char what[NAME_LEN + 32], why[TEXT_LEN];
	int ret = holders_scan(h, &f);

	if (ret) {
		snprintf(why, sizeof(why), "not known: /proc: %s", strerror(-ret));
		free(f.holder);
		return h->fn("perf events", false, why, h->arg);
	}
	if (f.nr)
		qsort(f.holder, f.nr, sizeof(*f.holder), by_events);
	for (size_t i = 0; i < f.nr && i < NAMES_MAX && !ret; i++) {
		const struct holder *o = &f.holder[i];
		int n = snprintf(why, sizeof(why), "%llu in ", (unsigned long long)o->events);

		if (o->processes == 1)
			snprintf(why + n, sizeof(why) - (size_t)n, "process %ld", o->pid);
		else
			snprintf(why + n, sizeof(why) - (size_t)n, "%llu processes, %ld and others",
				 (unsigned long long)o->processes, o->pid);
		snprintf(what, sizeof(what), "perf events of %s", o->name);
		ret = h->fn(what, false, why, h->arg);
	}
	if (!ret)
		ret = tell_others(h, &f);
	free(f.holder);
	return ret;
}

/* ---- privileges --------------------------------------------------------------------------- */

/* Read the effective capabilities of this process. */
static bool read_capabilities(const struct holders *h, uint64_t *capabilities)
{
	char status[65536], *field; /* the user's groups come first, and can be thousands */

	proctext_read(status, sizeof(status), "%s/proc/self/status", h->root);
	field = proctext_field(status, "CapEff:");
	*capabilities = field ? strtoull(field, NULL, 16) : 0;
	return field;
}

/* Return true if a bpffs is mounted anywhere. */
static bool has_bpffs(const struct holders *h)
{
	char path[PATH_MAX], type[16];
	char *line = NULL;
	bool found = false;
	size_t len = 0;
	FILE *f;

	snprintf(path, sizeof(path), "%s/proc/self/mounts", h->root);
	f = fopen(path, "re");
	/* Blanks in names are written as \040, so the third word is the type. */
	while (f && !found && getline(&line, &len, f) >= 0)
		found = sscanf(line, "%*s %*s %15s", type) == 1 && strcmp(type, "bpf") == 0;
	free(line);
	if (f)
		fclose(f);
	return found;
}

static int check_rights(const struct holders *h)
{
	bool known, admin, perfmon, bpf, btf, bpffs, enough;
	char why[TEXT_LEN], path[PATH_MAX];
	uint64_t caps;
	long paranoid;
	int ret;

	known = read_capabilities(h, &caps);
	admin = caps >> CAP_BIT_SYS_ADMIN & 1;
	perfmon = admin || (caps >> CAP_BIT_PERFMON & 1);
	bpf = admin || (caps >> CAP_BIT_BPF & 1);
	if (!read_number(h, "/proc/sys/kernel/perf_event_paranoid", &paranoid)) {
		ret = h->fn("right to count", false,
			    "not known: /proc/sys/kernel/perf_event_paranoid cannot be read; a "
			    "kernel without perf events has no such file",
			    h->arg);
	} else {
		/* Debian's kernels have levels above the 2 of kernel/events/core.c. */
		enough = paranoid > 2 ? admin : perfmon || paranoid <= 0;
		snprintf(why, sizeof(why), "perf_event_paranoid is %ld; this user %s CAP_PERFMON%s",
			 paranoid,
			 !known	   ? "may have"
			 : perfmon ? "has"
				   : "does not have",
			 enough		? ""
			 : paranoid > 2 ? "; above 2, counting CPUs needs CAP_SYS_ADMIN"
					: ", which counting CPUs needs");
		ret = h->fn("right to count", enough, why, h->arg);
	}
	if (ret)
		return ret;
	snprintf(path, sizeof(path), "%s/sys/kernel/btf/vmlinux", h->root);
	btf = access(path, F_OK) == 0;
	bpffs = has_bpffs(h);
	snprintf(why, sizeof(why), "this user %s CAP_BPF and CAP_PERFMON%s%s",
		 !known		  ? "may have"
		 : bpf && perfmon ? "has"
				  : "does not have both of",
		 btf ? "" : "; the kernel has no type information (/sys/kernel/btf/vmlinux)",
		 bpffs ? "" : "; no bpffs is mounted, where counts survive a restart");
	return h->fn("right to BPF", bpf && perfmon && btf && bpffs, why, h->arg);
}

int holders_check(const char *root,
		  int (*fn)(const char *what, bool ok, const char *why, void *arg), void *arg)
{
	static int (*const checks[])(const struct holders *h) = {
		check_watchdog, check_processes, check_kvm, check_cpus, check_rights};
	const struct holders h = {.root = root, .fn = fn, .arg = arg};
	int ret = 0;

	for (size_t i = 0; i < sizeof(checks) / sizeof(checks[0]) && !ret; i++)
		ret = checks[i](&h);
	return ret;
}
