/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Talks to libvirt and keeps asking it about domains: one thread for each URI, because any call can
 * wait for a daemon that hangs. What the threads learn is a queue of messages, which domains.c
 * reads. Connections are read-only. Nothing is started: not a daemon, not a domain.
 */
#ifndef VPMUD_DISCOVER_VIRT_H
#define VPMUD_DISCOVER_VIRT_H

#include <stdbool.h>
#include <sys/types.h>

#include "vpmud/discover/domxml.h"

enum virt_what {
	VIRT_BEGIN, /* a list of all domains of the URI follows */
	VIRT_DOMAIN,
	VIRT_END,  /* of the list */
	VIRT_GONE, /* libvirt does not know @xml.uuid any more */
	VIRT_NOTE, /* about a domain */
	VIRT_LINK, /* a note about the connection: there is none, or a list follows */
};

struct virt_message {
	struct virt_message *next;
	enum virt_what what;
	size_t uri; /* index of the URI */
	struct domxml xml;
	bool active;
	pid_t pid;	/* of an active domain, as libvirt's file says; 0: not known */
	char text[320]; /* VIRT_NOTE, VIRT_LINK, or a note about a VIRT_DOMAIN; may be empty */
};

struct virt;

/* virt_open - prepare for @nr URIs. No thread is started yet. -ENOMEM, or what eventfd() says. */
int virt_open(const char *const *uris, size_t nr, struct virt **out);

/* virt_start - start the threads; they inherit the rights of the calling thread. Once. Returns
 * -errno if not all could be started. */
int virt_start(struct virt *v);

/* virt_fd - it can be read when there are messages. */
int virt_fd(const struct virt *v);

/* virt_take - all messages so far, oldest first; the caller frees each with free(). */
struct virt_message *virt_take(struct virt *v);

/* virt_close - end the threads. One that waits for libvirt for more than two seconds is left
 * behind, and touches nothing of the caller's. NULL is accepted. */
void virt_close(struct virt *v);

/* virt_pid_dir - the directory in which libvirt's QEMU driver has the files NAME.pid of @uri's
 * domains, malloc()ed; NULL: not known (or out of memory). */
char *virt_pid_dir(const char *uri);

#endif
