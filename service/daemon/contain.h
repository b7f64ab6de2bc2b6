/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Containment of a server process: what it gives up when it has started, so that whoever takes it
 * over gets little (docs/security.md). vpmu-vmm and vpmud call contain() while there is only one
 * thread; later threads inherit everything. The steps cannot be taken back.
 */
#ifndef SERVICE_DAEMON_CONTAIN_H
#define SERVICE_DAEMON_CONTAIN_H

#include <linux/landlock.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Newer than Debian 12's headers; left out where the kernel does not know it. */
#ifndef LANDLOCK_ACCESS_FS_TRUNCATE
#define LANDLOCK_ACCESS_FS_TRUNCATE (1ull << 14)
#endif

#define CONTAIN_CALLS_MAX 64

/* A capability that the process keeps if it has it. */
struct contain_cap {
	unsigned int cap; /* CAP_... */
	const char *name;
};

/* What may be written at and below @path. */
struct contain_path {
	const char *path; /* NULL, or it does not exist: nothing */
	uint64_t access;  /* LANDLOCK_ACCESS_FS_... */
	const char *said; /* what `check` calls it; NULL: it is not named */
};

struct contain_opts {
	const char *user;   /* become this user; NULL: stay */
	const char *how;    /* how to become another user, for `check`; NULL: not offered */
	const char *socket; /* goes to @user with the process; NULL: there is none */
	const struct contain_cap *caps;
	size_t nr_caps;
	const struct contain_path *paths;
	size_t nr_paths;
	/* Not NULL: no landlock, and why, in the words of `check`; @paths is not used. */
	const char *no_landlock;
	/* System calls that are allowed beside those that every server needs; at most
	 * CONTAIN_CALLS_MAX. */
	const uint16_t *calls;
	size_t nr_calls;
	const char *purpose; /* what the system calls are for, in the words of `check` */
};

/*
 * contain - take all steps that this kernel offers and this user may take. 0, or -errno and one
 * line in @err if @o->user was given and the process cannot become that user. A step that is not
 * possible is no error; contain_describe says so.
 */
int contain(const struct contain_opts *o, char *err, size_t errlen);

/* contain_describe - for `check`: calls @fn for each step, with what was done, or why it was not.
 */
void contain_describe(void (*fn)(const char *what, bool ok, const char *why, void *arg), void *arg);

/* contain_syscalls - the last step of contain() alone: the filter of system calls. -errno;
 * -EOPNOTSUPP: this build has none, because it has a sanitizer, or is for a CPU whose list
 * of system calls is not here. */
int contain_syscalls(const uint16_t *calls, size_t nr_calls);

#endif
