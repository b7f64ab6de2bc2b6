/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What vpmu-vmm is told to run: an ini file, the command line and vm-add requests, all through the
 * same table of keys, so that a key means and accepts the same everywhere.
 *
 * Everything is checked when it is set. An error is one line: where (file:line, option), section
 * and key, what was given, what would be accepted. All functions: one thread at a time; those that
 * take @err return 0 or -errno and then wrote that line.
 */
#ifndef VMM_CONFIG_CONFIG_H
#define VMM_CONFIG_CONFIG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "vpmu/guest/model.h"
#include "vpmu/guest/policy.h"

#define VM_NAME_MAX	 40 /* so that "[vm NAME]" fits libinih's section buffer */
#define VM_VCPUS_MAX	 64
#define VM_TENANT_MAX	 255
#define CONFIG_FILE_MAX	 (1u << 20)
#define CONFIG_VMS_MAX	 100000
#define RUNNER_PCPUS_MAX 64
#define RUNNER_SLICE_MAX 10000000u

enum vm_engine { VM_ENGINE_AUTO = 0, VM_ENGINE_SOFT, VM_ENGINE_KVM };

enum vm_lbr { VM_LBR_DEFAULT = 0, VM_LBR_ON, VM_LBR_OFF };

/* One VM as asked for. */
struct vm_config {
	char name[VM_NAME_MAX + 1];
	char tenant[VM_TENANT_MAX + 1]; /* "": in no tenant */
	unsigned int vcpus;		/* 1 .. VM_VCPUS_MAX */
	uint64_t memory_bytes;
	char *image;
	char *args;		   /* never NULL */
	struct vpmu_guest_cfg pmu; /* its policy: vm_config_policy */
	enum vm_engine engine;
	enum vpmu_policy_tier policy;
	char *allow, *deny; /* lists of events; NULL: not given, and at most one is */
	enum vm_lbr lbr;    /* default: on where the model has branch records */
	uint32_t given;	    /* keys that were set, by table index */
	char *where;	    /* where it was defined, for later messages */
};

enum runner_migrate {
	RUNNER_MIGRATE_BALANCE = 0, /* to a pCPU that has less to do */
	RUNNER_MIGRATE_RANDOM,	    /* also anywhere, at random */
	RUNNER_MIGRATE_NONE	    /* a vCPU stays where it was first put */
};

/* What every vCPU's branch records capture for the operator, from the start. */
enum host_lbr { HOST_LBR_OFF = 0, HOST_LBR_BRANCHES, HOST_LBR_CALL_STACK };

/* The modelled host. */
struct host_config {
	unsigned int pcpus;	       /* 1 .. RUNNER_PCPUS_MAX */
	unsigned int gp, fixed, width; /* counters per pCPU and their bits: vpmu/softpmu.h */
	uint64_t slice_insns;	       /* 1 .. RUNNER_SLICE_MAX */
	bool random_slices;	       /* lengths uniform in 1 .. 2 * slice - 1 */
	uint64_t seed;
	enum runner_migrate migrate;
	unsigned int migrate_every; /* random: once in so many slices, on average */
	unsigned int tick_us;	    /* rotation, in modelled time */
	bool nominal_cycles;	    /* KVM without a hardware PMU: cycles of the nominal clock */
	enum host_lbr lbr;
	char *socket;	   /* control socket; NULL: not given */
	char *cgroup_root; /* NULL: tenants are plain paths */
	uint32_t given;
};

struct config {
	struct host_config host;
	struct vm_config *vms;
	size_t nr_vms;
};

void config_init(struct config *c); /* defaults, no VM */
void config_fini(struct config *c);

/* config_file - read ini file @path (at most CONFIG_FILE_MAX bytes) into *c. -EINVAL: contents. */
int config_file(struct config *c, const char *path, char *err, size_t errlen);
/* config_text - the same for @len bytes at @text that came from @name. */
int config_text(struct config *c, const char *name, const char *text, size_t len, char *err,
		size_t errlen);

/* config_host_option - set @key of [host]; overrides a file. @where: "--pcpus" for messages. */
int config_host_option(struct config *c, const char *where, const char *key, const char *value,
		       char *err, size_t errlen);
/* config_vm_option - add the VM of a --vm option: "name=web,vcpus=2,...": comma separated keys,
 * ",," is a comma in a value. */
int config_vm_option(struct config *c, const char *option, char *err, size_t errlen);

/* config_check - what can be said only about all of it: VM names are unique, pCPUs have
 * counters. */
int config_check(const struct config *c, char *err, size_t errlen);

/* One VM, for requests. init: defaults; set: one key; check: complete and consistent. */
int vm_config_init(struct vm_config *vm, const char *where);
void vm_config_fini(struct vm_config *vm);
int vm_config_set(struct vm_config *vm, const char *key, const char *value, char *err,
		  size_t errlen);
int vm_config_check(const struct vm_config *vm, char *err, size_t errlen);

/*
 * vm_config_policy - the policy @vm asks for, for its register models: *out is NULL (everything is
 * allowed), or one that lives for ever, or - lists need memory - *mem, which the caller frees after
 * the VM; else *mem is NULL. -EINVAL: a list; -ENOMEM.
 */
int vm_config_policy(const struct vm_config *vm, const struct vpmu_policy **out,
		     struct vpmu_policy **mem, char *err, size_t errlen);

/* vm_name_ok - 1 to VM_NAME_MAX of [A-Za-z0-9_.:@-], the first a letter, digit or "_". Pure. */
bool vm_name_ok(const char *name);

const char *vm_engine_name(enum vm_engine e); /* "auto", "soft", "kvm" */
const char *host_lbr_name(enum host_lbr m);   /* "off", "branches", "call-stack" */

#endif
