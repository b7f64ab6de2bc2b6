/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Captures: branch records of the vCPUs of a tenant or VM, taken while the guests run. libvpmu
 * counts the users of a node's records (vpmu/lbr.h); a capture is one of them with a name, an owner
 * and an end: its target's removal at the latest. All functions: control thread.
 */
#ifndef CGROUP_SERVICE_CAPTURE_H
#define CGROUP_SERVICE_CAPTURE_H

#include "cgroup/service/session.h"
#include "vpmu/lbr.h"

#define CAPTURES_MAX 256

/* What is recorded, at all privilege levels. */
enum capture_mode {
	CAPTURE_CALL_STACK, /* calls that have not returned yet: the call chain */
	CAPTURE_BRANCHES,   /* every branch taken */
	CAPTURE_CALLS,	    /* calls, returned from or not */
};

/* capture_mode_parse - "call-stack", "branches", "calls"; -EINVAL otherwise. */
int capture_mode_parse(const char *name, enum capture_mode *mode);
const char *capture_mode_name(enum capture_mode mode);
/* capture_ctl - the vpmu_lbr_attach bits of @mode. capture_ctl_mode - the name of what @ctl
 * records, as far as branch types go: a mode's, or "custom". */
uint32_t capture_ctl(enum capture_mode mode);
const char *capture_ctl_mode(uint32_t ctl);

struct captures;

/* One capture. Read-only for users of this header. */
struct capture {
	char name[SESSION_NAME_MAX + 1];
	char *target; /* path or VM name */
	enum capture_mode mode;
	const void *owner; /* NULL: stays */
	bool gone;	   /* the target was removed; nothing is captured */
	/* private */
	struct captures *cs;
	struct capture *next;
	struct node *node;
};

/* captures_create - watches @ts. captures_destroy ends every capture. */
int captures_create(struct tenants *ts, struct captures **out);
void captures_destroy(struct captures *cs);

struct capture_spec {
	const char *name; /* NULL: "@1", "@2", ... */
	enum capture_mode mode;
	struct node *target;
	const void *owner;
};

/* capture_open - record from now on, for every vCPU of the target and those to come. -EEXIST: name
 * taken; -EBUSY: recorded in another mode by another capture; -EOPNOTSUPP: no branch records here;
 * -E2BIG: CAPTURES_MAX. One line to @err. */
int capture_open(struct captures *cs, const struct capture_spec *spec, struct capture **out,
		 char *err, size_t errlen);
void capture_close(struct capture *cap);
void captures_close_owner(struct captures *cs, const void *owner);
bool captures_owned(const struct captures *cs, const void *owner);

struct capture *capture_find(const struct captures *cs, const char *name);
struct capture *captures_first(const struct captures *cs);

/* capture_attach - vpmu_lbr_attach with one line about field @field to @err. */
int capture_attach(struct vpmu_account *account, uint32_t ctl, const char *field, char *err,
		   size_t errlen);

/*
 * capture_read - make the host's state current once, then the records of every vCPU at or below @n,
 * captured or the guest's own: @fn with ret 0 and @r, or ret -EAGAIN and @r NULL for one that could
 * not be copied whole. vCPUs without records are left out. Stops when @fn returns non-zero and
 * returns that.
 */
struct capture_reading {
	const struct node *vcpu;
	const struct vpmu_lbr_regs *r;
	enum vpmu_lbr_user user;
	int ret;
};
int capture_read(struct tenants *ts, const struct node *n,
		 int (*fn)(const struct capture_reading *cr, void *arg), void *arg);

#endif
