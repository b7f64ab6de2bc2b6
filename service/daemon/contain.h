/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Containment of a server process: drops rights after start-up, so that an attacker who takes it
 * over gains little (docs/security.md). vpmu-vmm and vpmud call contain() while there is only one
 * thread; later threads inherit everything. The steps cannot be undone.
 */
#pragma once

#include <linux/landlock.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Newer than Debian 12's headers; ignored if the kernel does not support it. */
#ifndef LANDLOCK_ACCESS_FS_TRUNCATE
#define LANDLOCK_ACCESS_FS_TRUNCATE (1ull << 14)
#endif

#define CONTAIN_CALLS_MAX 64

/* A capability that the process keeps if it has it. */
struct contain_cap {
	unsigned int cap; /* CAP_... */
	const char *name;
};

/* Write access at and below @path. */
struct contain_path {
	const char *path; /* NULL or nonexistent: no access */
	uint64_t access;  /* LANDLOCK_ACCESS_FS_... */
	const char *said; /* its name in `check`; NULL: not listed */
};

struct contain_opts {
	const char *user;   /* become this user; NULL: stay */
	const char *how;    /* advice for `check` on becoming another user; NULL: none */
	const char *socket; /* its owner becomes @user; NULL: there is none */
	const struct contain_cap *caps;
	size_t nr_caps;
	const struct contain_path *paths;
	size_t nr_paths;
	/* Not NULL: do not use landlock or @paths; the reason, for `check`. */
	const char *no_landlock;
	/* Allowed system calls in addition to those of every server; not more than
	 * CONTAIN_CALLS_MAX. */
	const uint16_t *calls;
	size_t nr_calls;
	const char *purpose; /* purpose of the system calls, for `check` */
};

/*
 * contain - take all steps that this kernel supports and this user may take. Returns 0, or -errno
 * and one line in @err if the process cannot become @o->user. A step that is not possible is no
 * error: see contain_describe.
 */
int contain(const struct contain_opts *o, char *err, size_t errlen);

/* contain_describe - for `check`: call @fn for each step, with its result or the reason for its
 * failure. */
void contain_describe(void (*fn)(const char *what, bool ok, const char *why, void *arg), void *arg);

/* contain_syscalls - only the last step of contain(): the filter of system calls. -errno;
 * -EOPNOTSUPP: not in this build, because it has a sanitizer or there is no list for this CPU;
 * -E2BIG. */
int contain_syscalls(const uint16_t *calls, size_t nr_calls);
