/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The configuration of vpmu-vmm: the modelled host and its VMs. An ini file, the command line,
 * vm-add requests and snapshots all use the same table of keys, so a key means and accepts the same
 * everywhere.
 *
 * A value is checked when it is set. Functions that take @err return 0, or -errno and write one
 * line to @err: place (file:line, option), section and key, the value given, and the values
 * expected. One thread at a time may use an object.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "service/daemon/inifile.h" /* CONFIG_FILE_MAX */
#include "service/program/complete.h"
#include "vpmu/guest/model.h"
#include "vpmu/guest/policy.h"

#define VM_NAME_MAX	  40 /* so that "[vm NAME]" fits libinih's section buffer */
#define VM_VCPUS_MAX	  64
#define VM_MAX_EVENTS	  24 /* default of max_events: two VMs leave room for other guests */
#define TENANT_MAX_EVENTS 32 /* of a tenant with all of its VMs: leaves 24 to a VM of another */
#define MAX_EVENTS_MAX	  56 /* upper limit of both: the slots of guests */
#define VM_TENANT_MAX	  255
#define CONFIG_VMS_MAX	  100000
#define RUNNER_PCPUS_MAX  64
#define RUNNER_SLICE_MAX  10000000u
#define VM_WEIGHT_DEFAULT 100u
#define VM_WEIGHT_MAX	  10000u

enum vm_engine { VM_ENGINE_AUTO = 0, VM_ENGINE_EMU, VM_ENGINE_KVM };

enum vm_lbr { VM_LBR_DEFAULT = 0, VM_LBR_ON, VM_LBR_OFF };

/* Where lines of a console go, besides the ring in memory. */
enum vm_console {
	VM_CONSOLE_DEFAULT = 0, /* of a VM: as for the host; of the host: not given */
	VM_CONSOLE_RING,	/* to the ring only */
	VM_CONSOLE_STDOUT,
	VM_CONSOLE_FILE
};

/* The configuration of one VM. */
struct vm_config {
	char name[VM_NAME_MAX + 1];
	char tenant[VM_TENANT_MAX + 1]; /* "": the VM is in no tenant */
	unsigned int vcpus;		/* 1 .. VM_VCPUS_MAX */
	uint64_t memory_bytes;
	char *image;		   /* NULL: not given; then there is a kernel */
	char *args;		   /* never NULL */
	char *kernel;		   /* a stock kernel instead of an image; NULL: none */
	char *initrd, *cmdline;	   /* with a kernel; NULL: none, the default */
	struct vpmu_guest_cfg pmu; /* without its policy: vm_config_policy */
	enum vm_engine engine;
	/* With a kernel on an engine that must rewrite its RDPMC: show the guest no PMU instead. */
	bool rdpmc_off;
	bool svm; /* the guest of a kernel can run guests itself: AMD's models on the emulator */
	enum vpmu_policy_tier policy;
	char *allow, *deny; /* lists of events; NULL: not given. They exclude each other */
	/* Weights for CPU time on the emulator (vmm/vm/share.h), 1 .. 10000: of the VM among the
	 * VMs and tenants of its tenant (default 100); of its tenant among its siblings, 0:
	 * unchanged. */
	unsigned int weight, tenant_weight;
	unsigned int max_events;	/* distinct events that its vCPUs may count at a time */
	unsigned int tenant_max_events; /* all VMs of its tenant; 0: unchanged */
	enum vm_lbr lbr; /* VM_LBR_DEFAULT: on if the model and the policy have branch records */
	enum vm_console console;
	char *console_file; /* VM_CONSOLE_FILE: its path; else NULL */
	uint32_t given;	    /* keys that were set: bit n = row n of the table of keys */
	char *where;	    /* where the VM was defined, for later messages */
};

enum runner_migrate {
	RUNNER_MIGRATE_BALANCE = 0, /* to a pCPU that has less to do */
	RUNNER_MIGRATE_RANDOM,	    /* as balance, and also to any pCPU at random */
	RUNNER_MIGRATE_NONE	    /* a vCPU stays where it was first put */
};

/* Branches of every vCPU that are captured for the operator, from the VM's start. */
enum host_lbr { HOST_LBR_OFF = 0, HOST_LBR_BRANCHES, HOST_LBR_CALL_STACK };

/* The modelled host. */
struct host_config {
	unsigned int pcpus;	       /* 1 .. RUNNER_PCPUS_MAX */
	unsigned int gp, fixed, width; /* counters per pCPU and their bits: vpmu/emupmu.h */
	uint64_t slice_insns;	       /* 1 .. RUNNER_SLICE_MAX */
	bool random_slices;	       /* slice lengths are uniform in 1 .. 2 * slice_insns - 1 */
	uint64_t seed;
	bool skip_idle; /* time jumps to the next timer when no vCPU can run; with one pCPU */
	enum runner_migrate migrate;
	unsigned int migrate_every; /* random: once in this many slices, on average */
	unsigned int tick_us;	    /* modelled time between two rotations of counters */
	unsigned int stalled_after; /* ms that control calls wait for a pCPU's safe point */
	bool nominal_cycles; /* KVM without a hardware PMU: count cycles by the nominal clock */
	unsigned int leave_counters; /* general hardware counters that perf events do not use */
	bool pinned_counters;	     /* perf events are pinned: vpmu/hostpmu_perf.h */
	enum host_lbr lbr;
	enum vm_console console; /* default of VMs; never VM_CONSOLE_FILE */
	uint64_t console_rate;	 /* bytes per second that a guest may print; 0: no limit */
	bool no_jit;		 /* no executable memory: the emulator only interprets */
	char *socket;		 /* path of the control socket; NULL: not given */
	char *user;		 /* root switches to this user; NULL: it stays */
	uint64_t ram_limit;	 /* bytes of RAM of all VMs; 0: the machine's RAM */
	char *snapshot_dir;	 /* where clients may save and restore VMs; NULL: nowhere */
	char *cgroup_root;	 /* NULL: tenants are plain paths */
	char *admin_group, *reader_group;	/* groups with access: service/access.h; or NULL */
	char *at_admin_group, *at_reader_group; /* where they are given; or NULL */
	uint32_t given;				/* as in struct vm_config */
};

struct config {
	struct host_config host;
	struct vm_config *vms;
	size_t nr_vms;
};

/* config_init - set *c to the defaults, without any VM. config_fini - free what *c holds. */
void config_init(struct config *c);
void config_fini(struct config *c);

/* config_file - read the ini file @path (up to CONFIG_FILE_MAX bytes) into *c. -EINVAL: its
 * contents are invalid. */
int config_file(struct config *c, const char *path, char *err, size_t errlen);
/* config_text - the same for the @len bytes at @text; messages call them @name. */
int config_text(struct config *c, const char *name, const char *text, size_t len, char *err,
		size_t errlen);

/* config_host_option - set @key of [host], and override the file. @where is the name of the option,
 * such as "--pcpus", for messages. */
int config_host_option(struct config *c, const char *where, const char *key, const char *value,
		       char *err, size_t errlen);
/* config_vm_option - add the VM of a --vm option. @option has keys and values, separated by commas:
 * "name=web,vcpus=2". A comma in a value is written ",,". */
int config_vm_option(struct config *c, const char *option, char *err, size_t errlen);

/* config_check - the checks that need the whole configuration: VM names are unique, pCPUs have
 * counters, and skip_idle has one pCPU. */
int config_check(const struct config *c, char *err, size_t errlen);

/* vm_config_init - set *vm to the defaults; @where is for messages. -ENOMEM.
 * vm_config_set - set one key. vm_config_check - check that *vm is complete and consistent. */
int vm_config_init(struct vm_config *vm, const char *where);
void vm_config_fini(struct vm_config *vm);
int vm_config_set(struct vm_config *vm, const char *key, const char *value, char *err,
		  size_t errlen);
int vm_config_check(const struct vm_config *vm, char *err, size_t errlen);

/*
 * vm_config_policy - set *out to the policy of @vm, for its register models; NULL: everything is
 * allowed. A policy with a list needs memory: *mem, which the caller frees after the VM; otherwise
 * *mem is NULL. -EINVAL: the list is invalid; -ENOMEM.
 */
int vm_config_policy(const struct vm_config *vm, const struct vpmu_policy **out,
		     struct vpmu_policy **mem, char *err, size_t errlen);

/* config_complete_host - complete a value of @key of [host]. config_complete_vm - complete the --vm
 * option. */
void config_complete_host(struct complete *c, const char *key);
void config_complete_vm(struct complete *c);

/* vm_name_ok - returns true if @name has 1 to VM_NAME_MAX of the characters [A-Za-z0-9_.:@-], the
 * first of them a letter, digit or "_". Any thread. */
bool vm_name_ok(const char *name);

/* The name of a value, as the key of that name accepts it; a static string. Any thread. */
const char *vm_engine_name(enum vm_engine e); /* "auto", "emulator", "kvm" */
const char *host_lbr_name(enum host_lbr m);   /* "off", "branches", "call-stack" */
