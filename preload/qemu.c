// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * vpmu-qemu: starts QEMU with vpmu-preload.so, so that its VM has the virtual PMU of libvpmu. It is
 * used like QEMU, also as libvirt's <emulator>; vpmu-qemu(1).
 *
 * An error of its own is one line and exit status 1 or 2. What cannot have the PMU is started as it
 * would be without vpmu-qemu, with one line that says so; QEMU that is only asked what it can do,
 * without any.
 */
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "preload/conf.h"
#include "service/daemon/inifile.h"
#include "service/program/memory.h"
#include "vpmu/util/fail.h"

#define CONF_FILE    "/etc/vpmu/qemu.conf"
#define QEMU_DEFAULT "qemu-system-x86_64"
#define LIBRARY	     "vpmu-preload.so"

static const char usage[] =
	"Usage: vpmu-qemu [--qemu PATH] [--config FILE] QEMU-OPTION...\n"
	"Starts QEMU with a virtual PMU for its VM; see vpmu-qemu(1). QEMU's own "
	"options:\n\n";

static void qemu_say(const char *text)
{
	fprintf(stderr, "vpmu-qemu: %s\n", text);
}

static int qemu_error(const char *text)
{
	qemu_say(text);
	return 1;
}

/* ---- the file: [default], and [vm NAME] ---- */

struct qemu_file {
	const char *vm;	   /* the guest's name */
	struct conf *conf; /* that of the current section, or NULL: another VM's */
	struct conf common, own, other;
	char *qemu, *qemu_at; /* its place in the file */
};

static int file_begin(void *arg, const struct config_at *at)
{
	struct qemu_file *f = arg;

	if (!strcmp(at->section, "default"))
		f->conf = &f->common;
	else if (strncmp(at->section, "vm ", 3) || !at->section[3])
		return CONFIG_NO_SECTION;
	else
		f->conf = *f->vm && !strcmp(at->section + 3, f->vm) ? &f->own : &f->other;
	return 0;
}

static int file_set(void *arg, const struct config_at *at, const char *key, const char *value)
{
	struct qemu_file *f = arg;
	int ret;

	if (!strcmp(key, "qemu") && f->conf == &f->common) {
		free(f->qemu);
		free(f->qemu_at);
		f->qemu = xstrdup(value);
		f->qemu_at = xasprintf("%s: qemu", at->where);
		return 0;
	}
	ret = conf_set(f->conf, at->where, key, value, at->err, at->errlen);
	return ret == -ENOENT ? fail(-EINVAL, at->err, at->errlen,
				     "%s: %s/%.80s is no key; expected pmu, gp, policy, allow, "
				     "deny or vpmud, and qemu in [default]",
				     at->where, at->section, key)
			      : ret;
}

static int file_end(void *arg, const struct config_at *at)
{
	return 0;
}

static const struct config_sections sections = {"[default] or [vm NAME]", file_begin, file_set,
						file_end};

/* ---- paths ---- */

static bool qemu_is_program(const char *path)
{
	struct stat s;

	return !stat(path, &s) && S_ISREG(s.st_mode) && !access(path, X_OK);
}

/* Returns the path of the program @name, malloc'd; NULL: not found. */
static char *qemu_search(const char *name)
{
	const char *path = getenv("PATH");
	char *copy, *save = NULL, *found = NULL;

	if (strchr(name, '/'))
		return qemu_is_program(name) ? xstrdup(name) : NULL;
	copy = xstrdup(path && *path ? path : "/usr/bin:/bin");
	for (char *dir = strtok_r(copy, ":", &save); dir && !found;
	     dir = strtok_r(NULL, ":", &save)) {
		found = xasprintf("%s/%s", dir, name);
		if (qemu_is_program(found))
			break;
		free(found);
		found = NULL;
	}
	free(copy);
	return found;
}

static bool same_file(const char *a, const char *b)
{
	struct stat x, y;

	return !stat(a, &x) && !stat(b, &y) && x.st_dev == y.st_dev && x.st_ino == y.st_ino;
}

/* Beside the program, as in a build folder, or where it is installed. NULL: nowhere. */
static char *qemu_library(void)
{
	char self[PATH_MAX], *slash, *path;
	ssize_t n = readlink("/proc/self/exe", self, sizeof(self) - 1);

	if (n > 0) {
		self[n] = 0;
		slash = strrchr(self, '/');
		path = xasprintf("%.*s/" LIBRARY, (int)(slash - self), self);
		if (!access(path, R_OK))
			return path;
		free(path);
	}
	path = xstrdup(VPMU_PRELOAD_DIR "/" LIBRARY);
	if (!access(path, R_OK))
		return path;
	free(path);
	return NULL;
}

/* ---- start ---- */

static int qemu_exec(const char *path, char **argv)
{
	char err[400];

	argv[0] = (char *)path;
	execv(path, argv);
	fail(0, err, sizeof(err), "%s: %s", path, strerror(errno));
	return qemu_error(err);
}

/* The keys of the file, then of the environment. */
static int qemu_configure(struct qemu_file *f, const char *file, char *err, size_t errlen)
{
	int ret = 0;

	if (file || !access(CONF_FILE, F_OK))
		ret = config_read_file(&sections, f, file ? file : CONF_FILE, err, errlen);
	if (!ret)
		ret = conf_over(&f->common, &f->own);
	conf_fini(&f->own);
	for (unsigned int k = 0; !ret && k < CONF_OWN; k++) {
		const char *name = conf_variable((enum conf_key)k), *value = getenv(name);

		if (value)
			ret = conf_set(&f->own, name, conf_key_name((enum conf_key)k), value, err,
				       errlen);
	}
	if (!ret)
		ret = conf_over(&f->common, &f->own);
	conf_fini(&f->own);
	conf_fini(&f->other);
	return ret;
}

/* The library must have nothing to complain about, nor the guest fewer counters than it is shown.
 */
static int qemu_check(const struct conf *c, char *err, size_t errlen)
{
	static struct vpmu_policy policy[2];
	struct vpmu_guest_cfg cfg;
	bool intel = conf_host_is_intel();
	int ret = conf_apply(c, intel, &cfg, policy, err, errlen);

	return ret ? ret : conf_fits(c, intel, conf_host_counters(), err, errlen);
}

/* What vpmud lets this VM have, if it runs. */
static int qemu_limit(struct conf *c, char *err, size_t errlen)
{
	struct conf limit = {0};
	int ret = ask_vpmud(conf_vpmud(c), &limit, err, errlen);

	if (!ret) {
		ret = conf_limit(c, &limit, err, errlen);
	} else if (ret == -ENOENT) {
		ret = 0; /* there is none */
	} else if (ret == -ETIMEDOUT) {
		qemu_say(err);
		ret = 0;
	}
	conf_fini(&limit);
	return ret;
}

static void qemu_preload(const char *library, const struct conf *c)
{
	const char *others = getenv("LD_PRELOAD");
	char *list = others && *others ? xasprintf("%s:%s", library, others) : xstrdup(library);
	char *text = conf_text(c);

	if (!text || setenv("LD_PRELOAD", list, 1) || setenv(CONF_VARIABLE, text, 1))
		memory_out();
	free(text);
	free(list);
}

/* NULL: the VM can have a PMU. */
static const char *qemu_unfit(const struct arguments *a)
{
	if (!a->kvm)
		return "this VM gets no PMU from vpmu: expected -accel kvm";
	if (!a->pmu)
		return "this VM gets no PMU from vpmu: expected -cpu host, max, or a model with "
		       "pmu=on";
	return NULL;
}

int main(int argc, char **argv)
{
	const char *config = getenv("VPMU_QEMU_CONFIG"), *qemu = getenv("VPMU_QEMU"), *unfit;
	const char *config_at = "VPMU_QEMU_CONFIG", *qemu_at = "VPMU_QEMU";
	struct qemu_file f = {0};
	struct arguments a;
	char err[800] = "", *path, *library;

	/* Its own options come first, and are none of QEMU's. */
	while (argc > 1 && (!strcmp(argv[1], "--qemu") || !strcmp(argv[1], "--config"))) {
		bool is_qemu = !strcmp(argv[1], "--qemu");

		if (argc < 3) {
			fail(0, err, sizeof(err), "%s: no value; expected %s", argv[1],
			     is_qemu ? "--qemu PATH" : "--config FILE");
			qemu_say(err);
			return 2;
		}
		*(is_qemu ? &qemu : &config) = argv[2];
		*(is_qemu ? &qemu_at : &config_at) = argv[1];
		argv += 2;
		argc -= 2;
	}
	if (argc > 1 && !strcmp(argv[1], "--help")) {
		fputs(usage, stdout);
		fflush(stdout);
	}
	arguments_read(&a, argv);
	f.vm = a.name;
	if (config && !*config) {
		fail(0, err, sizeof(err), "%s: \"\" is invalid; expected a file", config_at);
		return qemu_error(err);
	}
	if (qemu_configure(&f, config, err, sizeof(err)))
		return qemu_error(*err ? err : "out of memory");
	if (!qemu) {
		qemu = f.qemu ? f.qemu : QEMU_DEFAULT;
		qemu_at = f.qemu ? f.qemu_at : "--qemu (not given)";
	}
	path = qemu_search(qemu);
	if (!path || same_file(path, "/proc/self/exe")) {
		fail(0, err, sizeof(err),
		     "%s: \"%.200s\" is %s; expected QEMU's path, or its name in PATH", qemu_at,
		     qemu, path ? "vpmu-qemu itself" : "invalid");
		return qemu_error(err);
	}
	if (a.probe || conf_is_off(&f.common))
		return qemu_exec(path, argv);
	if (qemu_check(&f.common, err, sizeof(err)))
		return qemu_error(err);
	unfit = qemu_unfit(&a);
	if (unfit) {
		qemu_say(unfit);
		return qemu_exec(path, argv);
	}
	/* The VM's owner cannot correct vpmud.conf: QEMU starts in any case. */
	if (qemu_limit(&f.common, err, sizeof(err)) || conf_is_off(&f.common) ||
	    qemu_check(&f.common, err, sizeof(err))) {
		char why[900];

		snprintf(why, sizeof(why), "this VM gets no PMU from vpmu: %s",
			 conf_is_off(&f.common) ? "vpmud allows its tenant no counters" : err);
		qemu_say(why);
		return qemu_exec(path, argv);
	}
	if (conf_vendor(&f.common, conf_host_is_intel(), a.vendor) ||
	    conf_default_gp(&f.common, conf_host_is_intel(), conf_host_counters()))
		memory_out();
	library = qemu_library();
	if (!library)
		return qemu_error(VPMU_PRELOAD_DIR "/" LIBRARY ": not found");
	qemu_preload(library, &f.common);
	return qemu_exec(path, argv);
}
