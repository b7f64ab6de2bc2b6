/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What a VM's PMU is to be: keys as vpmu-vmm has them in [vm NAME]. vpmu-qemu collects them from
 * its file and the environment, and passes them to the library as lines KEY=VALUE in the variable
 * VPMU_PRELOAD.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "vpmu/guest/model.h"
#include "vpmu/guest/policy.h"

#define CONF_VARIABLE "VPMU_PRELOAD"

enum conf_key {
	CONF_PMU,
	CONF_GP,
	CONF_POLICY,
	CONF_ALLOW,
	CONF_DENY,
	CONF_VPMUD,
	CONF_OWN, /* so many may be given by the VM's owner; the others are vpmud's */
	CONF_LIMIT_POLICY = CONF_OWN,
	CONF_LIMIT_ALLOW,
	CONF_LIMIT_DENY,
	CONF_UNFIT, /* vpmu-qemu's: conf_vendor */
	CONF_KEYS
};

struct conf {
	char *value[CONF_KEYS]; /* as given, or NULL */
};

/* conf_key_name - as the file has it. conf_variable - the environment's name of it; for keys below
 * CONF_OWN. */
const char *conf_key_name(enum conf_key k);
const char *conf_variable(enum conf_key k);

/* conf_set - give @name a copy of @value; a later one replaces it. 0; -ENOENT: no such key;
 * -EINVAL, with one line in @err that begins with @where: an invalid value; -ENOMEM. */
int conf_set(struct conf *c, const char *where, const char *name, const char *value, char *err,
	     size_t errlen);
/* conf_over - the keys of @over replace those of @c. -ENOMEM. */
int conf_over(struct conf *c, const struct conf *over);
void conf_fini(struct conf *c);

/* conf_is_off - returns true for pmu = none and policy = off: the VM gets no PMU of ours. */
bool conf_is_off(const struct conf *c);

/* conf_text - all keys as the value of CONF_VARIABLE, malloc'd; NULL: no memory.
 * conf_parse - the inverse: 0 or -errno, with one line in @err. */
char *conf_text(const struct conf *c);
int conf_parse(struct conf *c, const char *text, char *err, size_t errlen);

/* conf_host_is_intel - the vendor of this host's CPU. */
bool conf_host_is_intel(void);

/*
 * conf_host_counters - the general counters that this host's CPU shows; 0: none.
 * conf_fits - 0, or -EINVAL with one line in @err: the model's number of counters is fixed, and
 * more than @host less those left to others, and the configuration does not give gp.
 * conf_default_gp - unless gp is given, let the model have no more counters than @host less those
 * that are left to others, so that it is the guest that multiplexes and scales. The model's own
 * default is kept without a PMU (@host 0); it is never below the least that the model can have. 0
 * or -ENOMEM.
 */
unsigned int conf_host_counters(void);
int conf_fits(const struct conf *c, bool intel, unsigned int host, char *err, size_t errlen);
int conf_default_gp(struct conf *c, bool intel, unsigned int host);

/*
 * conf_vendor - note in *@c if a CPU of @vendor, as QEMU's -cpu has it, cannot use the PMU; "": of
 * this host's. 0 or -ENOMEM. conf_is_unfit - returns true if so: the VM must keep KVM's own PMU,
 * which the library can switch off only before it sees the CPU.
 */
int conf_vendor(struct conf *c, bool intel, const char *vendor);
bool conf_is_unfit(const struct conf *c);

/* conf_vpmud - the path of vpmud's socket for VMMs; "": none is to be used. */
const char *conf_vpmud(const struct conf *c);

/*
 * conf_limit - narrow *@c to what vpmud allows, @limit: the model must be the same, or one of them
 * none, the smaller gp counts, and an event must be permitted by both. 0; -EACCES with one line in
 * @err: another model; -ENOMEM.
 */
int conf_limit(struct conf *c, const struct conf *limit, char *err, size_t errlen);

/*
 * conf_apply - the register model's configuration. pmu = auto is what fits a CPU of Intel's, or of
 * AMD's: @intel. cfg->policy is @policy, the VM's own and vpmud's, or NULL if nothing is limited. 0
 * or -EINVAL, with one line in @err: keys that do not fit each other.
 */
int conf_apply(const struct conf *c, bool intel, struct vpmu_guest_cfg *cfg,
	       struct vpmu_policy policy[2], char *err, size_t errlen);

/* ask.c: vpmu-qemu asks vpmud what its VM may have, before QEMU runs: the process is the one that
 * becomes QEMU. */

/* ask_vpmud - set the keys pmu, gp, policy, allow and deny of *@c as vpmud at the socket @path
 * gives them. 0; -ENOENT: @path is "", or no vpmud is there; -ETIMEDOUT with one line in @err: it
 * did not answer within a few seconds; -EPROTO, likewise: its answer is invalid; -ENOMEM. */
int ask_vpmud(const char *path, struct conf *c, char *err, size_t errlen);

/* arguments.c: what vpmu-qemu must know of QEMU's command line. QEMU checks it; here only what is
 * found counts. */
struct arguments {
	bool probe; /* no VM: -machine none, -help, -version, -device help and the like */
	bool kvm;
	bool pmu;	 /* -cpu has a PMU: host or max without pmu=off, or pmu=on */
	char vendor[16]; /* -cpu's, or "": the host's */
	char name[128];	 /* guest name, or "" */
};

/* arguments_read - @argv is QEMU's, the program's name included, and ends with NULL. */
void arguments_read(struct arguments *a, char *const argv[]);
