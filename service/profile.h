/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Profiles: the addresses at which the vCPUs of a tenant or VM are at every period-th event,
 * without the guests' help. A backend takes the samples on its CPUs; they go through rings
 * (sample_ring.h) to the control thread, which adds them up (traces.h) every PROFILE_DRAIN_MS or
 * sooner, so that a profile may run for days. A profile is of one backend. All functions except the
 * backend's callback: control thread.
 *
 * No sample is lost silently: samples + lost equals floor(count / period) on each CPU. On real
 * hosts it is slightly less for work that runs all the time, since counting begins earlier and ends
 * later than sampling; of cpu-clock also because the kernel's timer skips samples when it is late.
 *
 * Samples carry the serial of the vCPU's node, which is never reused. The control thread maps
 * serials to names (struct whos): a serial is known from before its first sample until its node's
 * removal. Nothing runs in a vCPU that is being removed, so all of its samples are in the rings by
 * then, and the rings are drained before the serial is forgotten.
 */
#pragma once

#include <systemd/sd-event.h>

#include "service/clock.h"
#include "service/registry.h"
#include "service/sample_ring.h"
#include "service/traces.h"

#define PROFILES_MAX 256
/* A backend has 32 samplers (VPMU_SAMPLERS_MAX); 8 are reserved for administrators. */
#define PROFILES_MAX_USER    8
#define PROFILES_MAX_TENANT  12
#define PROFILES_MAX_READERS 24
#define PROFILE_PERIOD	     100000	  /* default: events between two samples */
#define PROFILE_PERIOD_MAX   (1ULL << 47) /* limit of backends */
#define PROFILE_DRAIN_MS     100	  /* sooner while the rings fill fast */
#define PROFILE_ROWS_MAX     65536  /* distinct addresses of one profile; the rest is "other" */
#define PROFILE_CHAINS_MAX   32768  /* distinct call chains */
#define PROFILE_TIMES_MAX    262144 /* samples of one profile with their times */

struct profiles;

/* One profile. Read-only for users of this header. */
struct profile {
	struct registered reg; /* first: name, target, owner */
	const char *backend;   /* name of the backend that samples */
	char *event;	       /* as given */
	uint64_t period;
	bool lbr;	/* with call chains */
	bool times;	/* with the times of the chains' samples */
	char *cpu_list; /* the CPUs that are sampled, as given; NULL: all */
	bool gone;	/* the target was removed: all is final */
	/* as of the last profile_read */
	uint64_t samples;   /* in rows and rows.other */
	uint64_t lost;	    /* taken, but a ring was full */
	uint64_t unchained; /* of samples: without call records, the chain is the address */
	uint64_t throttled; /* how often the kernel stopped sampling for a while */
	uint64_t nobodys;   /* samples with an unknown node */
	const char *note;   /* a limitation of the samples; NULL. Constant. */
	uint64_t late_max;  /* maximum number of events by which a sample was late */
	struct as_of read;  /* the last reading, or the start */
	uint64_t opened_ns;
	struct vpmu_value value;
	struct traces rows;   /* one address each */
	struct traces chains; /* with @lbr: sum equal to that of rows */
	struct node *node;    /* the target; NULL when gone */
	/* private */
	struct profiles *ps;
	struct vpmu_backend_node *in; /* the target on the backend; NULL when gone */
	struct vpmu_sampling *sampling;
	struct sample_rings *rings;
	bool *cpus; /* of cpu_list, one per CPU of the backend */
	uint64_t source_lost;
	bool captures; /* branch records, for the chains */
};

/* profiles_create - watches @ts. @ev NULL: only profile_read drains the rings.
 * profiles_destroy - stops every profile. */
int profiles_create(struct tenants *ts, sd_event *ev, struct profiles **out);
void profiles_destroy(struct profiles *ps);

/* profiles_registry - of struct profile.
 * profiles_lost - samples lost by all profiles so far, ended ones included; of a running one as of
 * its last drain. */
struct registry *profiles_registry(struct profiles *ps);
uint64_t profiles_lost(const struct profiles *ps);

struct profile_spec {
	struct opening open; /* backend NULL: the only possible one (backend_choose) */
	const char *event;   /* as the operator spelled it; copied */
	vpmu_key_t key;
	uint64_t period; /* 1..PROFILE_PERIOD_MAX */
	bool lbr;   /* with call chains: the backend's own, else from captured call-stack records */
	bool times; /* with @lbr: with the time of each sample */
	const char *cpus; /* a list of CPUs to sample; NULL: all */
};

/*
 * profile_start - sample from now on. -EEXIST: name taken; -EOPNOTSUPP: the event cannot be sampled
 * here, or with @lbr there are no branch records; -EBUSY: with @lbr, branches are captured in
 * another mode; -ENOSPC, -E2BIG: no slot or sampling left; others: backend_choose. One line to
 * @err. The profile ends with its target.
 */
int profile_start(struct profiles *ps, const struct profile_spec *spec, struct profile **out,
		  char *err, size_t errlen);

/* profile_read - bring counts and everything in @p up to date. Samples are drained before the count
 * is read, so while VMs run value.count >= (samples + lost) * period. */
void profile_read(struct profile *p);

/* profile_stop - stop and free @p. Read it first for its final values. */
void profile_stop(struct profile *p);

/* profile_sample - the backend's callback; @arg is the profile. Public for tests. */
void profile_sample(void *arg, const struct vpmu_backend_sample *s);
