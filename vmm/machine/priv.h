/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Shared by the files of this folder. No other file includes this. */
#pragma once

#include <sys/stat.h>

#include "vmm/machine/machine.h"
#include "vmm/sched/perfpmu.h"
#include "service/backend/core.h"
#include "vmm/sched/runner.h"
#include "vmm/sched/threads.h"

/*
 * An engine, the scheduler of its vCPUs, and their source of counts: one per backend, since counts
 * of modelled CPUs and of real ones are never added. All are made for the first VM that needs them;
 * before that the host has no such backend.
 */
struct backend {
	const struct vmm_engine_ops *ops;
	struct vmm_engine *engine;
	struct vm_sched *sched;
	struct vpmu_backend *source;
	char why[VM_REASON_MAX]; /* not empty: the reason why the engine cannot be opened */
};

/* The limits of a tenant that has, or had, VMs at or below it: its part of the CPU time, and
 * distinct events, counted separately for each backend. */
struct machine_share {
	const struct node *tenant;
	struct share share;
	struct vpmu_quota emulator, kvm;
	struct machine_share *next;
};

/* The kernel that was unpacked last, while VMs of the configuration are created: they often boot
 * the same one, and unpacking takes up to a second. Or the one unpacked by a thread. Zeroed:
 * empty. */
struct machine_kernel {
	struct image img;
	struct stat of; /* the file's, before it was read */
	bool next;	/* for the next VM of that path, even if the file has changed */
};

struct machine {
	struct machine_opts opts;
	struct host_config host_cfg;
	struct tenants *tenants;
	struct backend emulator, kvm;
	struct runner *runner;
	struct threads *threads;
	bool launched;
	uint64_t seeded;	      /* kernels that the emulator has given a seed */
	struct machine_kernel kernel; /* kept until launched */
	struct perfpmu_opts perf;     /* from host_cfg */
	bool capture;	    /* host_cfg.lbr: attached to the root of the emulator backend */
	uint64_t ram_bytes; /* of the VMs that have not ended */
	struct machine_vm *vms, **last;
	struct machine_share *shares;
	struct tenants_watch watch;
};

/* machine_open_engine - open @p's engine if it is not open. This does not start the backend. */
int machine_open_engine(struct backend *p, char *err, size_t errlen);

/* machine_choose_backend - set *out to the backend for a VM of @c, and start it if needed. @why
 * (VM_REASON_MAX bytes): with engine=auto, the reason for not using KVM. -errno and one line in
 * @err. */
int machine_choose_backend(struct machine *m, const struct vm_config *c, struct backend **out,
			   char *why, char *err, size_t errlen);

/* machine_kernel_get - the kernel of the file @path, unpacked. @k owns *out, valid until the next
 * call. -errno and one line in @err. machine_kernel_forget - free it. */
int machine_kernel_get(struct machine_kernel *k, const char *path, const struct image **out,
		       char *err, size_t errlen);
void machine_kernel_forget(struct machine_kernel *k);

/* machine_share - the share of tenant node @n, made if there is none. NULL: out of memory. */
struct machine_share *machine_share(struct machine *m, const struct node *n);
/* machine_shares_begin, machine_shares_end - watch the tenants; free all shares. */
void machine_shares_begin(struct machine *m);
void machine_shares_end(struct machine *m);

/* machine_emu_counts, machine_kvm_counts - can_count of the backends' sources; @arg: the machine.
 */
bool machine_emu_counts(vpmu_key_t key, enum vpmu_quality *q, char *why, size_t whylen, void *arg);
bool machine_kvm_counts(vpmu_key_t key, enum vpmu_quality *q, char *why, size_t whylen, void *arg);
