// SPDX-License-Identifier: GPL-2.0-or-later
/* What an archive for a bug report says of this host: see bundle_facts.h. Files of /proc and /sys
 * are read, and nothing is executed or opened for counting. */
#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <systemd/sd-journal.h>
#include <time.h>
#include <unistd.h>

#include "cli/bundle_facts.h"
#include "vpmu/util/utf8.h"

#define FILE_MAX      (64 << 10) /* bytes read of one file */
#define ROWS_MAX      5000
#define JOURNAL_LINES 300
#define LINE_BYTES    1000
#define STAT_WORDS    22 /* up to rss; what follows are addresses */

/* ---- files -------------------------------------------------------------------------------- */

/* The begin of a file, with '?' for what may not be shown. NULL: errno. The caller frees it. */
static char *contents(const char *path)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY), saved;
	char *text = fd < 0 ? NULL : malloc(FILE_MAX + 1);
	ssize_t n = 0;
	size_t len = 0;

	while (text && len < FILE_MAX && (n = read(fd, text + len, FILE_MAX - len)) > 0)
		len += (size_t)n;
	saved = errno;
	if (fd >= 0)
		close(fd);
	if (text && n < 0) {
		free(text);
		text = NULL;
	}
	if (!text) {
		errno = saved;
		return NULL;
	}
	text[len] = '\0';
	for (size_t i = 0, w; i < len; i += w ? w : 1) {
		w = text[i] == '\n' ? 1 : utf8_shown(text + i, len - i);
		if (!w)
			text[i] = '?';
	}
	return text;
}

/* "path: text" for a file of one line. */
static void one_line(const char *path, FILE *to)
{
	char *text = contents(path);

	if (text)
		text[strcspn(text, "\n")] = '\0';
	fprintf(to, "%s: %s%s\n", path, text ? text : "not known: ", text ? "" : strerror(errno));
	free(text);
}

/* The lines of a file that begin with one of @keys. */
static void some_lines(const char *path, const char *const *keys, FILE *to)
{
	char *text = contents(path), *rest = text, *line;

	if (!text) {
		fprintf(to, "%s: not known: %s\n", path, strerror(errno));
		return;
	}
	while ((line = strsep(&rest, "\n")))
		for (const char *const *k = keys; *k; k++)
			if (strncmp(line, *k, strlen(*k)) == 0)
				fprintf(to, "%s\n", line);
	free(text);
}

static void each_of(const char *pattern, FILE *to)
{
	glob_t g = {0};

	if (glob(pattern, 0, NULL, &g) == 0)
		for (size_t i = 0; i < g.gl_pathc; i++)
			one_line(g.gl_pathv[i], to);
	globfree(&g);
}

/* ---- host --------------------------------------------------------------------------------- */

/* Of the kernel's command line only what concerns counting: others name disks, hosts and keys. */
static void command_line(FILE *to)
{
	static const char *const keys[] = {
		"isolcpus",    "nohz_full",    "nmi_watchdog",
		"nowatchdog",  "mitigations",  "kvm",
		"lockdown",    "lsm=",	       "systemd.unified_cgroup_hierarchy",
		"cgroup",      "intel_pstate", "nosmt",
		"clocksource", "tsc",	       "perf",
		"quiet"};
	char *text = contents("/proc/cmdline"), *rest = text, *word;
	unsigned int others = 0;

	fputs("kernel command line:", to);
	while (text && (word = strsep(&rest, " \n"))) {
		size_t i = 0, n = sizeof(keys) / sizeof(keys[0]);

		while (i < n && strncmp(word, keys[i], strlen(keys[i])) != 0)
			i++;
		if (i < n)
			fprintf(to, " %s", word);
		else
			others += *word != '\0';
	}
	fprintf(to, " (%u others left out)\n", others);
	free(text);
}

static void first_cpu(FILE *to)
{
	static const char *const keys[] = {"vendor_id", "cpu family", "model", "stepping",
					   "microcode", "flags",      "bugs",  "CPU impl",
					   "CPU part",	NULL};
	char *text = contents("/proc/cpuinfo"), *end;

	if (text && (end = strstr(text, "\n\n")))
		*end = '\0';
	for (char *rest = text, *line; text && (line = strsep(&rest, "\n"));)
		for (const char *const *k = keys; *k; k++)
			if (strncmp(line, *k, strlen(*k)) == 0) {
				fprintf(to, "%s\n", line);
				break;
			}
	fprintf(to, "CPUs: %ld\n", sysconf(_SC_NPROCESSORS_ONLN));
	free(text);
}

void facts_host(FILE *to)
{
	static const char *const files[] = {"/proc/sys/kernel/perf_event_paranoid",
					    "/proc/sys/kernel/perf_event_mlock_kb",
					    "/proc/sys/kernel/perf_event_max_sample_rate",
					    "/proc/sys/kernel/perf_cpu_time_max_percent",
					    "/proc/sys/kernel/nmi_watchdog",
					    "/proc/sys/kernel/kptr_restrict",
					    "/proc/sys/kernel/unprivileged_bpf_disabled",
					    "/proc/sys/net/core/bpf_jit_enable",
					    "/sys/kernel/security/lockdown",
					    "/sys/devices/system/cpu/online",
					    "/sys/devices/system/cpu/isolated",
					    "/sys/devices/system/cpu/nohz_full",
					    "/sys/devices/system/cpu/smt/active",
					    ("/sys/devices/system/clocksource/clocksource0/"
					     "current_clocksource"),
					    "/sys/fs/cgroup/cgroup.controllers"};
	static const char *const release[] = {"PRETTY_NAME=", "VERSION_ID=", NULL};
	struct utsname u;

	if (uname(&u) == 0) /* not the name of the host */
		fprintf(to, "%s %s %s %s\n", u.sysname, u.release, u.version, u.machine);
	some_lines("/etc/os-release", release, to);
	command_line(to);
	first_cpu(to);
	for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++)
		one_line(files[i], to);
	fprintf(to, "/sys/kernel/btf/vmlinux: %s\n",
		access("/sys/kernel/btf/vmlinux", F_OK) == 0 ? "there" : "not there");
	each_of("/sys/bus/event_source/devices/*/type", to);
	each_of("/sys/bus/event_source/devices/cpu*/caps/*", to);
	each_of("/sys/module/kvm*/parameters/*pmu*", to);
	each_of("/sys/module/kvm*/parameters/nested", to);
}

/* ---- processes ---------------------------------------------------------------------------- */

void facts_process(const struct redact *r, pid_t pid, FILE *to)
{
	static const char *const keys[] = {
		"State:",      "Uid:",	   "Threads:",	 "VmRSS:",	  "VmLck:",
		"FDSize:",     "CapPrm:",  "CapEff:",	 "CapBnd:",	  "CapAmb:",
		"NoNewPrivs:", "Seccomp:", "voluntary_", "nonvoluntary_", NULL};
	static const char *const limits[] = {"Max open files", "Max locked memory", "Max processes",
					     NULL};
	char path[64];
	char *cgroup;

	fprintf(to, "process %d\n", (int)pid);
	snprintf(path, sizeof(path), "/proc/%d/status", (int)pid);
	some_lines(path, keys, to);
	snprintf(path, sizeof(path), "/proc/%d/limits", (int)pid);
	some_lines(path, limits, to);
	snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
	cgroup = contents(path); /* the name is in (), and everything behind it is numbers */
	if (cgroup && strrchr(cgroup, ')')) {
		char *rest = strrchr(cgroup, ')') + 1, *word;

		fputs("stat:", to);
		for (int i = 0; i < STAT_WORDS && (word = strsep(&rest, " \n"));)
			if (*word)
				i += fprintf(to, " %s", word) > 0;
		putc('\n', to);
	}
	free(cgroup);
	snprintf(path, sizeof(path), "/proc/%d/cgroup", (int)pid);
	cgroup = contents(path);
	if (cgroup && strstr(cgroup, "0::")) {
		char *p = strstr(cgroup, "0::") + 3;

		p[strcspn(p, "\n")] = '\0';
		fputs("cgroup: ", to);
		redact_name(r, p, to);
		putc('\n', to);
	}
	free(cgroup);
}

void facts_servers(const struct redact *r, FILE *to)
{
	DIR *dir = opendir("/proc");
	struct dirent *d;
	unsigned int found = 0;
	char path[300];

	while (dir && found < 64 && (d = readdir(dir))) {
		char *comm = NULL;

		if (!isdigit((unsigned char)*d->d_name))
			continue;
		snprintf(path, sizeof(path), "/proc/%s/comm", d->d_name);
		comm = contents(path);
		if (comm && (strcmp(comm, "vpmud\n") == 0 || strcmp(comm, "vpmu-vmm\n") == 0)) {
			fprintf(to, "\n%s: ", strtok(comm, "\n"));
			facts_process(r, (pid_t)atoi(d->d_name), to);
			found++;
		}
		free(comm);
	}
	if (dir)
		closedir(dir);
	if (!found)
		fputs("\nno process vpmud or vpmu-vmm\n", to);
}

/* ---- configuration and journal ------------------------------------------------------------ */

/* Words of a value are names; patterns keep their *. */
static void value_names(const struct redact *r, char *value, FILE *to)
{
	char *rest = value, *word;

	while ((word = strsep(&rest, " \t,=")))
		if (*word) {
			putc(' ', to);
			redact_name(r, word, to);
		}
}

void facts_config(const struct redact *r, const char *path, FILE *to)
{
	/* Keys; their values are names, but for the first ones. */
	static const char *const keys[] = {
		"isolated",    "leave_counters", "counters",  "events",	      "textfile_interval",
		"max_domains", "max_tenants",	 "keep_gone", "created",      "socket",
		"pin_dir",     "cgroup_root",	 "libvirt",   "admin_group",  "listen",
		"tls_cert",    "tls_key",	 "users",     "reader_group", "textfile",
		"cgroup",      "metadata",	 "vm",	      NULL,
	};
	const char *const *names = keys + 9;
	char *text = contents(path), *rest = text, *line;

	if (!text) {
		fprintf(to, "not known: %s\n", strerror(errno));
		return;
	}
	while ((line = strsep(&rest, "\n"))) {
		char *value = strchr(line, '=');
		const char *const *k = keys;

		line += strspn(line, " \t");
		if (!*line || *line == ';' || *line == '#')
			continue;
		if (strncmp(line, "[tenant ", 8) == 0) {
			line[strcspn(line, "]")] = '\0';
			fputs("[tenant ", to);
			redact_name(r, line + 8, to);
			fputs("]\n", to);
		} else if (!value) {
			redact_text(r, line, to);
			putc('\n', to);
		} else {
			*value++ = '\0';
			line[strcspn(line, " \t")] = '\0';
			while (*k && strcmp(*k, line) != 0)
				k++;
			fprintf(to, "%s =", *k ? *k : "?"); /* what is no key may be a name */
			if (k < names)
				redact_text(r, value, to);
			else
				value_names(r, value, to);
			putc('\n', to);
		}
	}
	free(text);
}

static bool field(sd_journal *j, const char *name, char *buf, size_t len)
{
	size_t n, skip = strlen(name) + 1;
	const void *data;

	if (sd_journal_get_data(j, name, &data, &n) < 0 || n < skip)
		return false;
	n = n - skip < len - 1 ? n - skip : len - 1;
	memcpy(buf, (const char *)data + skip, n);
	buf[n] = '\0';
	for (size_t i = 0, w; i < n; i += w ? w : 1) {
		w = utf8_shown(buf + i, n - i);
		if (!w)
			buf[i] = '?';
	}
	return true;
}

static void read_journal(const struct redact *r, FILE *to)
{
	char message[LINE_BYTES], pid[32], when[40];
	sd_journal *j = NULL;
	unsigned int lines = 0;
	uint64_t us;
	time_t s;
	struct tm tm;
	int ret = sd_journal_open(&j, SD_JOURNAL_LOCAL_ONLY | SD_JOURNAL_SYSTEM);

	if (ret >= 0)
		ret = sd_journal_add_match(j, "_SYSTEMD_UNIT=vpmud.service", 0);
	if (ret >= 0)
		ret = sd_journal_add_disjunction(j);
	if (ret >= 0) /* what the service manager says of it */
		ret = sd_journal_add_match(j, "UNIT=vpmud.service", 0);
	if (ret >= 0)
		ret = sd_journal_seek_tail(j);
	if (ret >= 0)
		ret = sd_journal_previous_skip(j, JOURNAL_LINES);
	while (ret > 0 && lines < JOURNAL_LINES) {
		if (field(j, "MESSAGE", message, sizeof(message)) &&
		    sd_journal_get_realtime_usec(j, &us) >= 0) {
			s = (time_t)(us / 1000000);
			strftime(when, sizeof(when), "%FT%TZ", gmtime_r(&s, &tm));
			if (!field(j, "_PID", pid, sizeof(pid)))
				strcpy(pid, "?");
			fprintf(to, "%s [%s] ", when, pid);
			/* The service manager's, too: it names files, and anybody's command lines.
			 */
			redact_text(r, message, to);
			putc('\n', to);
			lines++;
		}
		ret = sd_journal_next(j);
	}
	if (ret < 0)
		fprintf(to, "not known: %s\n", strerror(-ret));
	else if (!lines)
		fputs("no lines of vpmud.service that this user may read\n", to);
	sd_journal_close(j);
}

static _Noreturn void journal_child(const struct redact *r, int out)
{
	FILE *to = fdopen(out, "w");
	int null = open("/dev/null", O_WRONLY | O_CLOEXEC);

	prctl(PR_SET_DUMPABLE, 0); /* no core file of an end that is reported */
	if (!to || null < 0 || dup2(null, STDERR_FILENO) < 0)
		_exit(1);
	read_journal(r, to);
	_exit(fclose(to) ? 1 : 0);
}

/* libsystemd 252 may end a program when memory runs out: by an assertion, or because it frees
 * twice. So a child calls it. */
void facts_journal(const struct redact *r, FILE *to)
{
	int ends[2], status = 0;
	char buf[4096];
	ssize_t n;
	pid_t pid;

	if (pipe2(ends, O_CLOEXEC)) {
		fprintf(to, "not known: %s\n", strerror(errno));
		return;
	}
	pid = fork();
	if (pid == 0)
		journal_child(r, ends[1]);
	close(ends[1]);
	while ((n = read(ends[0], buf, sizeof(buf))) > 0 || (n < 0 && errno == EINTR))
		if (n > 0)
			fwrite(buf, 1, (size_t)n, to);
	close(ends[0]);
	while (pid > 0 && waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	if (WIFSIGNALED(status))
		fprintf(to, "not known: signal %d ended the process that read the journal\n",
			WTERMSIG(status));
	else if (pid < 0 || WEXITSTATUS(status))
		fputs("not known: too few resources for a process that reads the journal\n", to);
}

/* ---- answers of the server ---------------------------------------------------------------- */

static void put_value(const json_t *v, FILE *to)
{
	char *text = json_dumps(v, JSON_ENCODE_ANY | JSON_COMPACT);

	fputs(text ? text : "null", to);
	free(text);
}

void facts_rows(const struct redact *r, const json_t *rows, const char *const *plain,
		const char *const *named, FILE *to)
{
	const json_t *row;
	size_t i;

	json_array_foreach (rows, i, row) {
		const char *between = "{";

		if (i == ROWS_MAX) {
			fprintf(to, "%zu more left out\n", json_array_size(rows) - i);
			return;
		}
		for (const char *const *k = plain; *k; k++) {
			const json_t *v = json_object_get(row, *k);

			if (!v || json_is_array(v) || json_is_object(v))
				continue;
			fprintf(to, "%s\"%s\":", between, *k);
			put_value(v, to);
			between = ",";
		}
		for (const char *const *k = named; *k; k++) {
			const char *s = json_string_value(json_object_get(row, *k));

			if (!s)
				continue;
			fprintf(to, "%s\"%s\":\"", between, *k);
			redact_name(r, s, to);
			putc('"', to);
			between = ",";
		}
		fputs(*between == '{' ? "{}\n" : "}\n", to);
	}
}
