/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What the files of this folder share: snapshot.c (a VM's configuration; save and restore), vcpu.c
 * (the contents of a vCPU), file.c (files of checked sections) and ram.c (which pages are not
 * zero). Only their fuzzer includes it besides.
 */
#ifndef VMM_SNAPSHOT_PRIV_H
#define VMM_SNAPSHOT_PRIV_H

#include "vmm/snapshot/snapshot.h"
#include "vpmu/blob.h"

#define SNAP_MAGIC   "VPMUSNAP"
#define SNAP_VERSION 2
#define SNAP_HEAD    16 /* magic, version u32, reserved u32 */
#define SNAP_PAGE    4096

/* Tags of the sections of a file, in their order. "CONF", "VCPU", "RAMP", "END." */
#define SNAP_CONF 0x464e4f43u
#define SNAP_VCPU 0x55504356u
#define SNAP_RAMP 0x504d4152u
#define SNAP_END  0x2e444e45u

#define SNAP_SECTION_HEAD 12	       /* tag u32, version u16, reserved u16, bytes u32 */
#define SNAP_SECTION_MAX  (256u << 10) /* bytes of a CONF or VCPU section */
#define SNAP_RUN_PAGES	  256	       /* most pages of a RAMP section */

/* ---- file.c: writing ---- */

struct snap_out {
	int fd;
	uint32_t crc;
	int error; /* the first, -errno */
	size_t used;
	uint8_t buf[64 << 10];
};

void snap_write(struct snap_out *o, const void *p, size_t n);
/* snap_finish - append the CRC of everything before, and write all of it to the disk. */
int snap_finish(struct snap_out *o);

/* snap_save_vm - in snapshot.c: write all of @vm, which is placed nowhere, to o->fd. */
int snap_save_vm(struct machine_vm *vm, struct snap_out *o, char *err, size_t errlen);

/* ---- file.c: reading ---- */

struct snap_in {
	const char *name; /* for messages */
	int fd;
	struct vmm_ram layout; /* of the VM, without its base; set by conf() */
	unsigned int vcpus;
	uint32_t crc; /* of the file */
	uint8_t *conf;
	size_t conf_bytes;
	uint8_t *vcpu[VM_VCPUS_MAX];
	size_t vcpu_bytes[VM_VCPUS_MAX];
	uint64_t vcpu_at[VM_VCPUS_MAX]; /* offset in the file */
};

/*
 * snap_check - read all of in->fd from its start, and check structure, lengths and CRC. It keeps
 * the contents of CONF and VCPU sections. It calls @conf for CONF, which sets vcpus and layout.
 * snap_load_ram - read the file again, and copy RAM sections to @ram, which is zero. The file may
 * have changed since snap_check: everything is checked again, also that it is the same file.
 * Errors: -errno and one line in @err.
 */
int snap_check(struct snap_in *in,
	       int (*conf)(struct snap_in *in, void *arg, char *err, size_t len), void *arg,
	       char *err, size_t errlen);
int snap_load_ram(struct snap_in *in, const struct vmm_ram *ram, char *err, size_t errlen);
void snap_in_fini(struct snap_in *in);

/* ---- ram.c ---- */

/* snap_save_ram - RAMP sections of all pages of @ram that are not zero. Returns how many. */
uint64_t snap_save_ram(struct snap_out *o, const struct vmm_ram *ram);

/* ---- vcpu.c ---- */

/* snap_save_vcpu - append the contents of a VCPU section. @v is placed nowhere. */
int snap_save_vcpu(struct vcpu *v, struct vpmu_blob *b, char *err, size_t errlen);
/* snap_load_vcpu - the reverse, for a vCPU just made. -EINVAL: the vCPU is useless then. */
int snap_load_vcpu(struct vcpu *v, struct vpmu_blob_reader *r, char *err, size_t errlen);

#endif
