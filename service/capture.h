/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Captures: branch records of the vCPUs of a tenant or VM, taken while the guests run. A backend
 * with branch records counts the users of a node's records; a capture is one of them, with a name
 * and an owner, and ends with its target at the latest. A capture is of one backend. All functions:
 * control thread.
 */
#pragma once

#include "service/registry.h"
#include "service/traces.h"
#include "vpmu/lbr.h"

#define CAPTURES_MAX	   256
#define CAPTURE_CHAINS_MAX 32768 /* distinct call chains of one capture */

/* Recorded branches, at all privilege levels. */
enum capture_mode {
	CAPTURE_CALL_STACK, /* calls that have not returned: the call chain */
	CAPTURE_BRANCHES,   /* every branch taken */
	CAPTURE_CALLS,	    /* all calls */
};

/* capture_mode_parse - parse "call-stack", "branches", "calls"; -EINVAL otherwise. */
int capture_mode_parse(const char *name, enum capture_mode *mode);
const char *capture_mode_name(enum capture_mode mode);
/* capture_ctl - the control bits (vpmu/lbr.h) of @mode.
 * capture_ctl_mode - the name of the mode that records the branch types of @ctl, or "custom". */
uint32_t capture_ctl(enum capture_mode mode);
const char *capture_ctl_mode(uint32_t ctl);

struct captures;

/* One capture. Read-only for users of this header. */
struct capture {
	struct registered reg; /* first: name, target, owner */
	const char *backend;   /* name of the backend that records */
	enum capture_mode mode;
	bool gone;   /* the target was removed; nothing is captured */
	bool folded; /* capture_fold was called */
	struct traces chains;
	struct node *node; /* the target; NULL when gone */
	/* private */
	struct whos whos;
	struct captures *cs;
	struct vpmu_backend_node *in; /* the target on the backend; NULL when gone */
};

/* captures_create - watches @ts.
 * captures_destroy - ends every capture. */
struct captures *captures_create(struct tenants *ts);
void captures_destroy(struct captures *cs);

/* captures_registry - the registry of struct capture. */
struct registry *captures_registry(struct captures *cs);

struct capture_spec {
	struct opening open; /* backend NULL: the only possible one (backend_choose) */
	enum capture_mode mode;
};

/* capture_open - record from now on, for every vCPU of the target, including later ones. -EEXIST:
 * name taken; -EBUSY: recorded in another mode by another capture; -EOPNOTSUPP: no branch records
 * here; -E2BIG: CAPTURES_MAX; others: backend_choose. One line to @err. */
int capture_open(struct captures *cs, const struct capture_spec *spec, struct capture **out,
		 char *err, size_t errlen);
void capture_close(struct capture *cap);

/* capture_attach - vpmu_backend_branches_attach with one line about field @field to @err. */
int capture_attach(struct vpmu_backend_node *n, uint32_t ctl, const char *field, char *err,
		   size_t errlen);

/*
 * capture_read - flush each backend with branch records once, then call @fn for every vCPU at or
 * below @n that has records, captured or the guest's own: with ret 0 and @r, or with ret -EAGAIN
 * and @r NULL if they could not be copied whole. Stops when @fn returns non-zero and returns that.
 */
struct capture_reading {
	const struct node *vcpu;
	const struct vpmu_lbr_regs *r;
	enum vpmu_lbr_user user;
	int ret;
};
int capture_read(struct tenants *ts, const struct node *n,
		 int (*fn)(const struct capture_reading *cr, void *arg), void *arg);

/*
 * capture_fold - read the records of every vCPU of the capture's target once, and add each call
 * chain to cap->chains: frequent readings are cheap this way, as no records are sent. -ENOMEM, or 0
 * with the numbers of this reading in *out.
 */
struct capture_folded {
	unsigned int read;   /* vCPUs that have records */
	unsigned int total;  /* of these: with at least one branch recorded */
	unsigned int custom; /* of these: recorded in another mode */
	unsigned int unread; /* of these: could not be read whole */
};
int capture_fold(struct capture *cap, struct capture_folded *out);
