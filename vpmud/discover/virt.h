/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Queries libvirt about domains, with one thread per URI because any call may block on a hung
 * daemon. The threads put messages into a queue, which domains.c reads. Connections are read-only.
 * It must never start a daemon or a domain.
 */
#pragma once

#include <stdbool.h>
#include <sys/types.h>

#include "vpmud/discover/domxml.h"

enum virt_what {
	VIRT_BEGIN, /* a list of all domains of the URI follows */
	VIRT_DOMAIN,
	VIRT_END,  /* of the list */
	VIRT_GONE, /* the domain @xml.uuid no longer exists */
	VIRT_NOTE, /* about a domain */
	VIRT_LINK, /* connection state: lost, or a list follows */
};

struct virt_message {
	struct virt_message *next;
	enum virt_what what;
	size_t uri; /* index of the URI */
	struct domxml xml;
	bool active;
	pid_t pid;	/* of an active domain, from libvirt's pid file; 0: unknown */
	char text[320]; /* VIRT_NOTE, VIRT_LINK, or a note about a VIRT_DOMAIN; may be empty */
};

struct virt;

/* virt_open - prepare for @nr URIs, without starting threads. Returns 0, an error of eventfd(),
 * or -ENOSYS: the build is without libvirt. */
int virt_open(const char *const *uris, size_t nr, struct virt **out);

/* virt_start - start the threads; they inherit the caller's privileges. Call it once. Returns 0, or
 * -errno if not all were started. */
int virt_start(struct virt *v);

/* virt_fd - a descriptor that is readable when there are messages. */
int virt_fd(const struct virt *v);

/* virt_take - take all messages, oldest first; the caller frees each with free(). */
struct virt_message *virt_take(struct virt *v);

/* virt_close - stop the threads. A thread that blocks in libvirt for more than two seconds is left
 * behind, and does not touch the caller's data. NULL is allowed. */
void virt_close(struct virt *v);

/* virt_pid_dir - the directory with the NAME.pid files that libvirt's QEMU driver writes for the
 * domains of @uri, malloc()ed; NULL: unknown. */
char *virt_pid_dir(const char *uri);
