/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Shared by guests.c, which owns all of it, guests_bind.c, guests_tenant.c, and guests_view.c,
 * which shows it. */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "service/socket_file.h"
#include "vpmu/totals.h"
#include "vpmud/guest_kept.h"
#include "vpmud/guest_quota.h"
#include "vpmud/guests.h"

/* guest_peer.c: the process that has connected to the socket for VMMs, as the kernel identifies it:
 * not its pid alone, which another process may have by the time that it is looked up. guests.c
 * calls it, on the event loop's thread. */
struct guest_peer {
	pid_t pid;
	uid_t uid;
	uint64_t start_time; /* as in struct disc_vm */
	/* Readable once the process has ended; -1: this kernel has none for sockets (SO_PEERPIDFD,
	 * Linux 6.5). Then a process that took the pid between connect() and guest_peer_read() is
	 * taken for the one that connected. */
	int pidfd;
};

/* guest_peer_read - the peer of socket @fd. -ESRCH: it has ended; other -errno of the kernel.
 * guest_peer_close - close the pidfd. guest_peer_ended - returns true if the process has ended, by
 * the pidfd. */
int guest_peer_read(int fd, struct guest_peer *p);
void guest_peer_close(struct guest_peer *p);
bool guest_peer_ended(const struct guest_peer *p);

struct bind {
	struct bind *next;
	struct node *vcpu;
	pid_t tid;
	vpmu_key_t key;
	unsigned int slot;
	struct vpmu_value value;
	struct vpmu_counting *counting;
};

/* Requests that were not granted. */
struct guest_denials {
	uint64_t denied, full; /* by the policy; by a quota, or no counter was left */
	vpmu_key_t denied_last, full_last;
};

struct vmm {
	struct vmm *next;
	struct guests *g;
	int fd;
	sd_event_source *io, *ended;
	struct guest_peer peer;
	unsigned int waited; /* guests_tend calls, of a process that is no VM */
	uint64_t vm;	     /* serial of the VM's node as of the last bind; 0: no VM so far */
	struct bind *binds;
	unsigned int nr_binds, requests; /* requests: in this second */
	uint64_t busy_ns;		 /* in this second */
	/* By the VM's tenant as of the first bind; the VM cannot change it while events are
	 * bound. The quota's parent is the tenant's. */
	const struct guest_policy *policy;
	struct guest_quota quota;
	struct guest_denials denials;
	size_t have; /* bytes of a request that has not arrived whole */
	unsigned char in[sizeof(struct vpmu_totals_request)];
};

struct guests {
	struct guests_opts o;
	struct socket_file file;
	char path[128];
	sd_event_source *io;
	struct tenants_watch watch;
	struct vmm *vmms;
	unsigned int nr_vmms, nr_strangers, nr_binds; /* strangers: those that are no VM */
	const struct rules *rules;
	struct guest_events events;
	struct guest_quotas quotas;
	struct guest_kept kept;
	uint64_t accept_ns; /* in this second: of connecting, and of connections that have ended */
	struct guest_denials denials;
	char full_by[TENANT_VM_NAME_MAX + 1]; /* the newest VM beyond a quota */
	char denied_by[TENANT_VM_NAME_MAX + 1];
	uint64_t dropped, invalid, ended;
};

/* ---- guests_bind.c ---- */

/* guests_find - the place of the bind of @key, or of any (0), of thread @tid; *place NULL: none. */
struct bind **guests_find(struct vmm *v, pid_t tid, vpmu_key_t key);
/* guests_bind - bind @key for @vcpu, which thread @tid of @v runs. 0, with the slot in *@slot and,
 * if it is the thread's first, the page in *@fd; or -errno, as struct vpmu_totals_reply.
 * guests_unbind - take *@link out and free it; without @detach its count goes on.
 * guests_event - open a sampling event of thread @tid, which started at @start, for @key, which is
 * bound, as *@fd. -ESRCH: the thread has ended.
 * guests_deny - note that @key of @vm was refused with @ret, -EACCES or -ENOSPC. */
int guests_bind(struct vmm *v, struct node *vcpu, pid_t tid, vpmu_key_t key, unsigned int *slot,
		int *fd);
void guests_unbind(struct vmm *v, struct bind **link, bool detach);
int guests_event(struct vmm *v, pid_t tid, uint64_t start, vpmu_key_t key, int *fd);
void guests_deny(struct vmm *v, const struct node *vm, vpmu_key_t key, int ret);
/* guests_removing - for struct tenants_watch; @arg: struct guests. */
void guests_removing(struct node *n, void *arg);

/* ---- guests_tenant.c ---- */

/* guests_limit - the quota of the tenant at @path, for guest_quota_enter; @arg: struct guests. */
unsigned int guests_limit(const void *arg, const char *path);
/* guests_enter_tenant - set what the tenant at @path may have. @v has nothing bound.
 * guests_leave_tenant - the opposite. */
void guests_enter_tenant(struct vmm *v, const char *path);
void guests_leave_tenant(struct vmm *v);
/* guests_config - the answer to VPMU_TOTALS_CONFIG, malloc'd; NULL: the process has ended. */
char *guests_config(struct vmm *v);
/* guests_still_permitted - @v, which has something bound, follows the present rules from now on:
 * false if they do not permit all that is bound. */
bool guests_still_permitted(struct vmm *v);
