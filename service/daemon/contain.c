// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The steps of containment except the filter of system calls (contain_syscalls.c); see contain.h.
 * Each step records its result for `check`. Must run before any other thread exists: landlock and
 * capabilities are per thread and inherited.
 */
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <linux/capability.h>
#include <pwd.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "service/daemon/contain.h"
#include "vpmu/util/fail.h"

enum step { STEP_USER, STEP_CAPABILITIES, STEP_PRIVILEGES, STEP_FILES, STEP_SYSCALLS, STEPS };

static struct {
	const char *what;
	bool ok;
	char why[160];
} steps[STEPS] = {
	[STEP_USER] = {.what = "contain: user"},
	[STEP_CAPABILITIES] = {.what = "contain: capabilities"},
	[STEP_PRIVILEGES] = {.what = "contain: no new privileges"},
	[STEP_FILES] = {.what = "contain: files"},
	[STEP_SYSCALLS] = {.what = "contain: system calls"},
};

static void contain_note(enum step s, bool ok, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));
static void contain_note(enum step s, bool ok, const char *fmt, ...)
{
	va_list ap;

	steps[s].ok = ok;
	va_start(ap, fmt);
	vsnprintf(steps[s].why, sizeof(steps[s].why), fmt, ap);
	va_end(ap);
}

void contain_describe(void (*fn)(const char *what, bool ok, const char *why, void *arg), void *arg)
{
	for (size_t i = 0; i < STEPS; i++)
		fn(steps[i].what, steps[i].ok, *steps[i].why ? steps[i].why : "not taken", arg);
}

/* ---- user and capabilities ---- */

/* Become user @name, with its groups. The socket changes its owner, too, so that it can be removed
 * at exit. Capabilities stay permitted. */
static int become(const char *name, const char *socket, char *err, size_t errlen)
{
	const struct passwd *pw;

	errno = 0;
	pw = getpwnam(name);
	if (!pw)
		return fail(errno ? -errno : -ENOENT, err, errlen,
			    "--user: no user \"%.80s\"; expected a name of getent passwd", name);
	if (geteuid())
		return pw->pw_uid == geteuid() ? 0
					       : fail(-EPERM, err, errlen,
						      "--user: only root can become \"%.80s\"; "
						      "start as root, or leave --user out",
						      name);
	if ((socket && lchown(socket, pw->pw_uid, (gid_t)-1)) ||
	    prctl(PR_SET_KEEPCAPS, 1, 0, 0, 0) || initgroups(name, pw->pw_gid) ||
	    setresgid(pw->pw_gid, pw->pw_gid, pw->pw_gid) ||
	    setresuid(pw->pw_uid, pw->pw_uid, pw->pw_uid))
		return fail(-errno, err, errlen, "--user: cannot become \"%.80s\": %s", name,
			    strerror(errno));
	return 0;
}

static int step_user(const struct contain_opts *o, char *err, size_t errlen)
{
	int ret = o->user ? become(o->user, o->socket, err, errlen) : 0;

	if (ret)
		return ret;
	contain_note(STEP_USER, geteuid() != 0, "user %u%s%s", geteuid(),
		     geteuid() || !o->how ? "" : "; ", geteuid() || !o->how ? "" : o->how);
	return 0;
}

static bool is_kept(const struct contain_opts *o, unsigned int cap)
{
	for (size_t i = 0; i < o->nr_caps; i++)
		if (o->caps[i].cap == cap)
			return true;
	return false;
}

/* Keep only those of @o->caps that the process has. */
static void step_capabilities(const struct contain_opts *o)
{
	struct __user_cap_header_struct head = {.version = _LINUX_CAPABILITY_VERSION_3};
	struct __user_cap_data_struct now[2], keep[2] = {{.effective = 0}};
	char names[120] = "";
	size_t len = 0;

	if (syscall(SYS_capget, &head, now)) {
		contain_note(STEP_CAPABILITIES, false, "cannot be read: %s", strerror(errno));
		return;
	}
	/* The bounding set: nothing can be regained by executing a file. Needs CAP_SETPCAP. */
	for (unsigned int i = 0; i < 64; i++)
		if (!is_kept(o, i))
			prctl(PR_CAPBSET_DROP, i, 0, 0, 0);
	for (size_t i = 0; i < o->nr_caps; i++) {
		unsigned int word = o->caps[i].cap / 32;
		uint32_t bit = 1u << o->caps[i].cap % 32;

		if (!(now[word].permitted & bit))
			continue;
		keep[word].permitted |= bit;
		keep[word].effective |= bit;
		if (len < sizeof(names))
			len += (size_t)snprintf(names + len, sizeof(names) - len, "%s%s",
						len ? " and " : "", o->caps[i].name);
	}
	if (syscall(SYS_capset, &head, keep))
		contain_note(STEP_CAPABILITIES, false, "cannot be dropped: %s", strerror(errno));
	else
		contain_note(STEP_CAPABILITIES, true, "%s%s", len ? names : "none",
			     len ? " only" : "");
}

static void step_privileges(void)
{
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))
		contain_note(STEP_PRIVILEGES, false, "%s", strerror(errno));
	else
		contain_note(STEP_PRIVILEGES, true, "executing a file gives no privileges");
}

/* ---- files: landlock(7) ---- */

#define FS_WRITE                                                                                   \
	(LANDLOCK_ACCESS_FS_WRITE_FILE | LANDLOCK_ACCESS_FS_REMOVE_DIR |                           \
	 LANDLOCK_ACCESS_FS_REMOVE_FILE | LANDLOCK_ACCESS_FS_MAKE_CHAR |                           \
	 LANDLOCK_ACCESS_FS_MAKE_DIR | LANDLOCK_ACCESS_FS_MAKE_REG |                               \
	 LANDLOCK_ACCESS_FS_MAKE_SOCK | LANDLOCK_ACCESS_FS_MAKE_FIFO |                             \
	 LANDLOCK_ACCESS_FS_MAKE_BLOCK | LANDLOCK_ACCESS_FS_MAKE_SYM)

/* Allow @access below @path. A path that does not exist needs no rule. */
static void allow(int rules, const char *path, uint64_t access)
{
	struct landlock_path_beneath_attr rule = {.allowed_access = access};

	rule.parent_fd = path ? open(path, O_PATH | O_CLOEXEC) : -1;
	if (rule.parent_fd < 0)
		return;
	syscall(SYS_landlock_add_rule, rules, LANDLOCK_RULE_PATH_BENEATH, &rule, 0);
	close(rule.parent_fd);
}

/* Lists the named paths of @o: ", except A, B and C". */
static const char *exceptions(const struct contain_opts *o, char *buf, size_t size)
{
	size_t len = 0, left = 0;

	*buf = '\0';
	for (size_t i = 0; i < o->nr_paths; i++)
		left += o->paths[i].path && o->paths[i].said;
	for (size_t i = 0; i < o->nr_paths && len < size; i++) {
		if (!o->paths[i].path || !o->paths[i].said)
			continue;
		left--;
		len += (size_t)snprintf(buf + len, size - len, "%s%s",
					!len   ? ", except "
					: left ? ", "
					       : " and ",
					o->paths[i].said);
	}
	return buf;
}

/* Without landlock only mounts can keep the process from writing. */
static void note_mounts(const char *why)
{
	struct statvfs fs;

	if (!statvfs("/usr", &fs) && fs.f_flag & ST_RDONLY)
		contain_note(STEP_FILES, true, "/usr is mounted read-only; no landlock: %s", why);
	else
		contain_note(STEP_FILES, false, "all that the user may write; no landlock: %s",
			     why);
}

static void step_files(const struct contain_opts *o)
{
	long abi = o->no_landlock ? 0
				  : syscall(SYS_landlock_create_ruleset, NULL, 0,
					    LANDLOCK_CREATE_RULESET_VERSION);
	struct landlock_ruleset_attr attr = {.handled_access_fs = FS_WRITE};
	char buf[120];
	int rules;

	if (o->no_landlock) {
		note_mounts(o->no_landlock);
		return;
	}
	if (abi < 0) {
		contain_note(STEP_FILES, false,
			     "all that the user may write: the kernel has no landlock (%s)",
			     strerror(errno));
		return;
	}
	attr.handled_access_fs |= abi >= 3 ? LANDLOCK_ACCESS_FS_TRUNCATE : 0;
	rules = (int)syscall(SYS_landlock_create_ruleset, &attr, sizeof(attr), 0);
	if (rules < 0)
		goto failed;
	for (size_t i = 0; i < o->nr_paths; i++)
		allow(rules, o->paths[i].path, o->paths[i].access & attr.handled_access_fs);
	if (syscall(SYS_landlock_restrict_self, rules, 0))
		goto failed;
	contain_note(STEP_FILES, true, "read-only%s", exceptions(o, buf, sizeof(buf)));
	goto out;
failed:
	contain_note(STEP_FILES, false, "all that the user may write: landlock: %s",
		     strerror(errno));
out:
	if (rules >= 0)
		close(rules);
}

static void step_syscalls(const struct contain_opts *o)
{
	int ret = contain_syscalls(o->calls, o->nr_calls);

	if (ret == -EOPNOTSUPP)
		contain_note(STEP_SYSCALLS, false,
			     "all: this build has a sanitizer, which needs them, or is for a "
			     "CPU without a list");
	else if (ret)
		contain_note(STEP_SYSCALLS, false, "all: seccomp: %s", strerror(-ret));
	else
		contain_note(STEP_SYSCALLS, true, "%s", o->purpose);
}

int contain(const struct contain_opts *o, char *err, size_t errlen)
{
	int ret = step_user(o, err, errlen);

	if (ret)
		return ret;
	step_capabilities(o);
	step_privileges();
	step_files(o);
	step_syscalls(o);
	return 0;
}
