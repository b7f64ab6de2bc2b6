/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Interface between snapshot.c (save, restore), conf.c (the VM's configuration), platform.c (the
 * shared devices of a VM with a stock kernel), vcpu.c (the state of a vCPU), file.c (files of
 * sections with a CRC), place.c (paths) and ram.c (pages that are not zero). Besides them only
 * fuzzers include this file.
 */
#pragma once

#include "vmm/snapshot/snapshot.h"
#include "vpmu/core/blob.h"

#define SNAP_MAGIC   "VPMUSNAP"
#define SNAP_VERSION 5
#define SNAP_HEAD    16 /* magic, version u32, reserved u32 */
#define SNAP_PAGE    4096

/* Tags of the sections of a file, in their order: "CONF", "PLAT" of a VM with a stock kernel,
 * "VCPU", "RAMP", "END.". */
#define SNAP_CONF 0x464e4f43u
#define SNAP_PLAT 0x54414c50u
#define SNAP_VCPU 0x55504356u
#define SNAP_RAMP 0x504d4152u
#define SNAP_END  0x2e444e45u

/* In PLAT and VCPU: the engine's own state, "ENGN". */
#define SNAP_ENGINE 0x4e474e45u

#define SNAP_SECTION_HEAD 12	       /* tag u32, version u16, reserved u16, bytes u32 */
#define SNAP_SECTION_MAX  (256u << 10) /* bytes of a CONF, PLAT or VCPU section */
#define SNAP_RUN_PAGES	  256	       /* largest number of pages in a RAMP section */

/* ---- file.c: writing ---- */

struct snap_out {
	int fd;
	uint32_t crc;
	int error; /* -errno of the first error */
	size_t used;
	uint8_t buf[64 << 10];
};

/* snap_write - append @n bytes. The first error is kept in o->error. */
void snap_write(struct snap_out *o, const void *p, size_t n);
/* snap_finish - append the CRC of everything before, and sync the file. 0 or -errno. */
int snap_finish(struct snap_out *o);

/* snap_save_vm (snapshot.c) - write all of @vm, which is placed nowhere, to o->fd. */
int snap_save_vm(struct machine_vm *vm, struct snap_out *o, char *err, size_t errlen);

/* ---- file.c: reading ---- */

struct snap_in {
	const char *name; /* for messages */
	int fd;
	struct vmm_ram layout; /* of the VM, without its base; set by conf() of snap_check */
	unsigned int vcpus;    /* set by conf() */
	bool platform;	       /* set by conf(): there is a PLAT section */
	uint32_t crc;	       /* of the file as read by snap_check */
	uint8_t *conf;
	size_t conf_bytes;
	uint8_t *plat; /* NULL: none */
	size_t plat_bytes;
	uint64_t plat_at;
	uint8_t *vcpu[VM_VCPUS_MAX];
	size_t vcpu_bytes[VM_VCPUS_MAX];
	uint64_t vcpu_at[VM_VCPUS_MAX]; /* offset in the file */
};

/*
 * snap_check - read the whole file in->fd and check its structure, lengths and CRC. Keeps the
 * contents of the CONF, PLAT and VCPU sections. Calls @conf after the CONF section was read; @conf
 * must set in->vcpus, in->platform and in->layout. snap_load_ram - read the file again and copy its
 * RAM to @ram, which is zeroed. Checks everything again; -EINVAL if the file has changed since.
 * snap_in_fini - free what *in holds. Errors: -errno and one line in @err.
 */
int snap_check(struct snap_in *in,
	       int (*conf)(struct snap_in *in, void *arg, char *err, size_t len), void *arg,
	       char *err, size_t errlen);
int snap_load_ram(struct snap_in *in, const struct vmm_ram *ram, char *err, size_t errlen);
void snap_in_fini(struct snap_in *in);

/* ---- place.c ---- */

/* snap_parent - open the parent directory of @file, a path below @dir without symbolic links.
 * *@base: the last name, inside @file. Returns a descriptor, or -errno. */
int snap_parent(int dir, const char *file, const char **base, char *err, size_t errlen);

/* ---- conf.c ---- */

struct restore {
	struct vm_config cfg;
	const struct snapshot_said *said;
	struct snap_in in;
};

/* snap_save_conf - append the contents of the CONF section to @b. */
void snap_save_conf(const struct machine_vm *vm, struct vpmu_blob *b);
/* snap_load_conf - the conf function of snap_check; @arg is the struct restore. Sets its cfg.
 * -EPERM: the file requests more than the operator allowed. */
int snap_load_conf(struct snap_in *in, void *arg, char *err, size_t errlen);

/* ---- ram.c ---- */

/* snap_save_ram - write RAMP sections with all pages of @ram that are not zero. Returns the number
 * of these pages. */
uint64_t snap_save_ram(struct snap_out *o, const struct vmm_ram *ram);

/* ---- platform.c ---- */

/* snap_save_engine - append an ENGN section with the state of @of by @get: get_state or
 * get_vm_state of the engine. -errno of @get. */
int snap_save_engine(int (*get)(void *of, void *buf, size_t *bytes), void *of, struct vpmu_blob *b);
/* snap_save_platform - append the contents of the PLAT section of @vm, which has vm->devices and
 * does not run. snap_load_platform - the reverse, into a VM that was just created; errors as for
 * snap_load_vcpu. */
int snap_save_platform(struct vm *vm, struct vpmu_blob *b, char *err, size_t errlen);
int snap_load_platform(struct vm *vm, struct vpmu_blob_reader *r, char *err, size_t errlen);

/* ---- vcpu.c ---- */

/* snap_save_vcpu - append the contents of a VCPU section to @b. @v must be placed nowhere. */
int snap_save_vcpu(struct vcpu *v, struct vpmu_blob *b, char *err, size_t errlen);
/* snap_load_vcpu - read these contents into @v, which was just created. After an error @v is
 * unusable and must be destroyed. -EINVAL: the contents are invalid. */
int snap_load_vcpu(struct vcpu *v, struct vpmu_blob_reader *r, char *err, size_t errlen);
