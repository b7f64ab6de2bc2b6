// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The archive of `vpmu check --bundle`: see bundle.h. It is made in memory and written to a file
 * that has no name until it is whole (O_TMPFILE), so that nothing is left of one that fails or is
 * killed.
 */
#include <archive.h>
#include <archive_entry.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "cli/bundle.h"
#include "cli/bundle_facts.h"
#include "cli/client.h"
#include "cli/error.h"
#include "cli/redact.h"
#include "cli/remedy.h"
#include "cli/rows.h"
#include "vpmu/event/event.h"

#define VPMUD_CONF "/etc/vpmu/vpmud.conf"
#define VPMUD	   "/usr/bin/vpmud"

struct bundle {
	struct archive *a;
	struct redact *r;
	bool names;
	const struct bundle_rows *rows;
	json_t *hello, *list, *sessions, *sharing; /* answers of the server; NULL: none */
	unsigned int files;
};

/* ---- the texts ---------------------------------------------------------------------------- */

static void put_readme(const struct bundle *b, FILE *to)
{
	fprintf(to,
		"This archive was made by `vpmu check --bundle` for a bug report.\n\n"
		"It has no guest data: no memory, no registers, no samples, no console "
		"output.\n%s\n"
		"versions.txt   vpmu, its server, kernel, CPU, settings of the kernel\n"
		"check.txt      what the host can count, and why not; who else uses its counters\n"
		"processes.txt  capabilities, limits and state of this command and of the servers\n"
		"tree.txt       tenants and VMs: kinds and numbers\n"
		"sessions.txt   what is counted, and how much is shared\n"
		"vpmud.conf     the configuration without its comments\n"
		"journal.txt    the newest lines of vpmud's journal\n",
		b->names ? "Names of tenants and VMs are in it (--names).\n"
			 : "Names of tenants, VMs, sessions, groups and cgroups are replaced by n- "
			   "and 8 "
			   "digits: the\nsame name by the same ones in all archives of this host. "
			   "Words that "
			   "are not vpmu's own are\ntaken for names.\n");
}

static void put_versions(const struct bundle *b, FILE *to)
{
	const char *server = json_string_value(json_object_get(b->hello, "server"));
	const char *version = json_string_value(json_object_get(b->hello, "version"));
	char when[40];
	time_t now = time(NULL);
	struct tm tm;

	strftime(when, sizeof(when), "%FT%TZ", gmtime_r(&now, &tm));
	fprintf(to, "made: %s\nvpmu %s\n", when, VPMU_VERSION);
	fputs("server: ", to);
	redact_text(b->r, server ? server : "none", to);
	putc(' ', to);
	redact_text(b->r, version ? version : "", to);
	fputs("\nlibarchive: ", to);
	fprintf(to, "%s, jansson: %s\n", archive_version_string(), JANSSON_VERSION);
	facts_host(to);
}

static void put_check_rows(const struct bundle *b, const json_t *rows, FILE *to)
{
	const json_t *row;
	size_t i;

	json_array_foreach (rows, i, row) {
		const char *backend = json_string_value(json_object_get(row, "backend"));
		const char *what = json_string_value(json_object_get(row, "what"));
		const char *why = json_string_value(json_object_get(row, "why"));
		bool ok = json_is_true(json_object_get(row, "ok"));
		const char *remedy = ok || !what || !why ? NULL : remedy_for(what, why);

		fprintf(to, "%-3s ", ok ? "yes" : "no");
		redact_text(b->r, backend ? backend : "-", to);
		putc(' ', to);
		redact_text(b->r, what ? what : "?", to);
		fputs(": ", to);
		redact_text(b->r, why ? why : "", to);
		fprintf(to, "%s%s\n", remedy && *remedy ? "\n    remedy: " : "",
			remedy && *remedy ? remedy : "");
	}
}

static void put_check(const struct bundle *b, FILE *to)
{
	put_check_rows(b, b->rows->server, to);
	fputs("\n# who uses the counters of this host\n", to);
	put_check_rows(b, b->rows->holders, to);
}

static void put_processes(const struct bundle *b, FILE *to)
{
	fputs("vpmu: ", to);
	facts_process(b->r, getpid(), to);
	facts_servers(b->r, to);
}

static void put_tree(const struct bundle *b, FILE *to)
{
	static const char *const plain[] = {"kind",  "depth",  "backend", "vcpus",
					    "state", "found",  "counted", "engine",
					    "pmu",   "policy", NULL};
	static const char *const named[] = {"path", "vm", "cgroup", NULL};

	facts_rows(b->r, json_object_get(b->list, "nodes"), plain, named, to);
	if (!b->list)
		fputs("not known: no server answered\n", to);
}

static void put_sessions(const struct bundle *b, FILE *to)
{
	static const char *const plain[] = {"for_each", "nr_rows", "age_ns", "period",
					    "samples",	"lost",	   NULL};
	static const char *const named[] = {"session", "target", NULL};
	static const char *const figures[] = {"backend",	 "consumers", "keys",
					      "distinct_events", "counters",  "host_counters",
					      "refused",	 NULL};
	static const char *const none[] = {NULL};

	facts_rows(b->r, json_object_get(b->sessions, "sessions"), plain, named, to);
	facts_rows(b->r, json_object_get(b->sharing, "backends"), figures, none, to);
	if (!b->sessions)
		fputs("not known: no server answered\n", to);
}

static void put_config(const struct bundle *b, FILE *to)
{
	facts_config(b->r, VPMUD_CONF, to);
}

static void put_journal(const struct bundle *b, FILE *to)
{
	facts_journal(b->r, to);
}

/* ---- what passes as it is ----------------------------------------------------------------- */

static int learn_event(const struct vpmu_event_info *info, void *r)
{
	int ret = redact_words(r, info->name);

	return ret || !info->alias ? ret : redact_words(r, info->alias);
}

static int learn(struct bundle *b)
{
	pid_t pid = (pid_t)json_integer_value(json_object_get(b->hello, "pid"));
	const json_t *node;
	char path[64];
	size_t i;
	int ret;

	snprintf(path, sizeof(path), "/proc/%d/exe", (int)pid);
	redact_program(b->r, "/proc/self/exe");
	/* A server of another user is not readable; then that of this package speaks for it. */
	if (redact_program(b->r, path))
		redact_program(b->r, VPMUD);
	ret = redact_words(b->r,
			   "vpmu vpmud vpmu-vmm perf qemu-system-x86 qemu-system-aarch64 qemu-kvm "
			   "libvirtd virtqemud bpftrace turbostat systemd emulator kvm kernel none "
			   "isolated nohz_full yes no KVM/pmu " VPMU_VERSION);
	if (!ret) /* what the service manager says of a service */
		ret = redact_words(
			b->r,
			"Starting Started Stopping Stopped Reloading Reloaded Failed to start "
			"stop reload Main process exited, code=exited code=killed code=dumped "
			"status= Control with result 'exit-code' 'signal' 'core-dump' 'timeout' "
			"'oom-kill' 'watchdog' 'resources' 'start-limit-hit' 'protocol' Scheduled "
			"restart job, counter is at Deactivated successfully. Consumed CPU time. "
			"Start request repeated too quickly. State timed out. Killing Watchdog "
			"timeout (limit A of this unit has been killed by the OOM killer. Unit "
			"SIGKILL SIGTERM SIGABRT signal 0/SUCCESS 1/FAILURE 2/INVALIDARGUMENT "
			"6/ABRT 7/BUS 9/KILL 11/SEGV 15/TERM 31/SYS 200/CHDIR 203/EXEC "
			"218/CAPABILITIES 226/NAMESPACE 228/SECCOMP virtual PMU");
	if (!ret)
		ret = vpmu_event_list(learn_event, b->r);
	json_array_foreach (json_object_get(b->list, "nodes"), i, node) {
		const char *name = json_string_value(json_object_get(node, "vm"));
		const char *kind = json_string_value(json_object_get(node, "kind"));

		if (!ret && name)
			ret = redact_known(b->r, name);
		name = json_string_value(json_object_get(node, "path"));
		if (!ret && name && kind && strcmp(kind, "host"))
			ret = redact_known(b->r, name);
	}
	return ret;
}

/* ---- the archive -------------------------------------------------------------------------- */

/* Add the file @name, whose text @put writes. 0 or -errno. */
static int add_file(struct bundle *b, const char *name,
		    void (*put)(const struct bundle *b, FILE *to))
{
	struct archive_entry *e = NULL;
	char *text = NULL, path[100];
	size_t len = 0;
	int ret = -ENOMEM;
	FILE *f = open_memstream(&text, &len);

	if (!f)
		return ret;
	put(b, f);
	ret = ferror(f) ? -ENOMEM : 0;
	if (fclose(f) || !text)
		ret = -ENOMEM;
	e = archive_entry_new();
	if (!e)
		ret = -ENOMEM;
	if (ret)
		goto out;
	snprintf(path, sizeof(path), "vpmu-report/%s", name);
	archive_entry_set_pathname(e, path);
	archive_entry_set_size(e, (la_int64_t)len);
	archive_entry_set_filetype(e, AE_IFREG);
	archive_entry_set_perm(e, 0600);
	archive_entry_set_mtime(e, time(NULL), 0);
	if (archive_write_header(b->a, e) != ARCHIVE_OK ||
	    archive_write_data(b->a, text, len) != (la_ssize_t)len)
		ret = archive_errno(b->a) > 0 ? -archive_errno(b->a) : -EIO;
	b->files++;
out:
	archive_entry_free(e);
	free(text);
	return ret;
}

static int make_archive(struct bundle *b, int fd)
{
	static const struct {
		const char *name;
		void (*put)(const struct bundle *b, FILE *to);
	} files[] = {
		{"README", put_readme},	    {"versions.txt", put_versions},
		{"check.txt", put_check},   {"processes.txt", put_processes},
		{"tree.txt", put_tree},	    {"sessions.txt", put_sessions},
		{"vpmud.conf", put_config}, {"journal.txt", put_journal},
	};
	int ret = 0;

	b->a = archive_write_new();
	if (!b->a)
		return -ENOMEM;
	if (archive_write_add_filter_gzip(b->a) != ARCHIVE_OK ||
	    archive_write_set_format_ustar(b->a) != ARCHIVE_OK ||
	    archive_write_open_fd(b->a, fd) != ARCHIVE_OK)
		ret = -EIO;
	for (size_t i = 0; i < sizeof(files) / sizeof(files[0]) && !ret; i++)
		ret = add_file(b, files[i].name, files[i].put);
	if (!ret && archive_write_close(b->a) != ARCHIVE_OK)
		ret = archive_errno(b->a) > 0 ? -archive_errno(b->a) : -EIO;
	archive_write_free(b->a);
	return ret;
}

/* ---- the file ----------------------------------------------------------------------------- */

/* A new file in the folder of @path that has no name; *temp is NULL then. On a file system that has
 * no such files, *temp is a name beside @path. -errno. */
static int open_file(const char *path, char **temp)
{
	const char *slash = strrchr(path, '/');
	char dir[PATH_MAX];
	int fd;

	*temp = NULL;
	if (!*path || (slash && !slash[1]))
		return -EISDIR;
	if ((size_t)snprintf(dir, sizeof(dir), "%.*s", slash ? (int)(slash - path) + 1 : 1,
			     slash ? path : ".") >= sizeof(dir))
		return -ENAMETOOLONG;
	fd = open(dir, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
	if (fd >= 0)
		return fd;
	if (errno != EOPNOTSUPP && errno != EISDIR && errno != ENOENT)
		return -errno;
	if (asprintf(temp, "%s.XXXXXX", path) < 0) {
		*temp = NULL;
		return -ENOMEM;
	}
	fd = mkostemp(*temp, O_CLOEXEC);
	if (fd < 0) {
		fd = -errno;
		free(*temp);
		*temp = NULL;
	}
	return fd;
}

/* Give the file its name. A file of that name is never replaced. */
static int name_file(int fd, const char *temp, const char *path)
{
	char proc[40];

	if (fchmod(fd, 0600) || fsync(fd))
		return -errno;
	if (temp)
		return link(temp, path) ? -errno : 0;
	snprintf(proc, sizeof(proc), "/proc/self/fd/%d", fd);
	return linkat(AT_FDCWD, proc, AT_FDCWD, path, AT_SYMLINK_FOLLOW) ? -errno : 0;
}

/* The server's answers, if one answers. */
static void bundle_ask(struct cli *cli, struct bundle *b)
{
	struct client *c = client_open(cli, true);
	char *err = NULL;

	if (!c)
		return;
	b->hello = client_try(c, json_pack("{s:s}", "cmd", "hello"), &err);
	free(err);
	err = NULL;
	b->list = client_lost(c) ? NULL : client_try(c, json_pack("{s:s}", "cmd", "list"), &err);
	free(err);
	err = NULL;
	b->sessions =
		client_lost(c) ? NULL : client_try(c, json_pack("{s:s}", "cmd", "sessions"), &err);
	free(err);
	err = NULL;
	b->sharing =
		client_lost(c) ? NULL : client_try(c, json_pack("{s:s}", "cmd", "sharing"), &err);
	free(err);
	client_close(c);
}

int bundle_write(struct cli *cli, const char *path, bool names, const struct bundle_rows *rows)
{
	struct bundle b = {.names = names, .rows = rows, .r = redact_new(names)};
	char *temp = NULL;
	struct stat st;
	int ret, fd = -1;

	ret = b.r ? 0 : -ENOMEM;
	if (!ret) {
		bundle_ask(cli, &b);
		ret = learn(&b);
	}
	if (!ret && lstat(path, &st) == 0)
		ret = -EEXIST;
	if (!ret)
		ret = fd = open_file(path, &temp);
	if (ret >= 0)
		ret = make_archive(&b, fd);
	if (!ret && fstat(fd, &st))
		ret = -errno;
	if (!ret)
		ret = name_file(fd, temp, path);
	if (fd >= 0)
		close(fd);
	if (temp)
		unlink(temp);
	free(temp);
	if (ret == -EEXIST)
		cli_error("check: --bundle: \"%s\" exists; accepted: the name of a new file", path);
	else if (ret)
		cli_error("check: --bundle: %s: %s", path, strerror(-ret));
	else
		printf("%s: %u files, %lld bytes; %s. Look at it before you send it.\n", path,
		       b.files, (long long)st.st_size,
		       names ? "names of tenants and VMs are in it"
			     : "names of tenants and VMs are replaced");
	json_decref(b.hello);
	json_decref(b.list);
	json_decref(b.sessions);
	json_decref(b.sharing);
	redact_free(b.r);
	return ret ? 1 : 0;
}
