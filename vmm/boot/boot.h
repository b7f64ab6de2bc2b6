/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Boot protocols: how an image gets into guest RAM, and with which registers its vCPUs start. Each
 * kind of image has one struct boot_protocol; vmm/vm/vm.c finds it with boot_find().
 *
 * Images are hostile. A protocol checks every field that it uses before it writes anything, and an
 * image that it refuses leaves guest RAM as it was. Errors are one line: file, field, value, and
 * the values expected.
 */
#pragma once

#include <linux/kvm.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "vmm/engine/ram.h"

#define BOOT_FILE_MAX	    (256ULL << 20)
#define BOOT_RNG_SEED_BYTES 32 /* the least that Linux takes for enough */

/* A file in memory. */
struct image {
	char *name; /* as given, for messages */
	uint8_t *data;
	size_t bytes;
	/* Setup header of a bzImage unpacked by linux_unpack. NULL and 0: none. */
	uint8_t *setup;
	size_t setup_bytes;
};

/*
 * image_read - read the whole regular file @path into *img, which the caller owns (image_free).
 * -errno and one line in @err: it is missing, not a regular file, or larger than BOOT_FILE_MAX. The
 * contents are not checked. Any thread.
 */
int image_read(const char *path, struct image *img, char *err, size_t errlen);

/*
 * image_find - the file for the key image=@image of a configuration. A plain name (letters, digits,
 * - and _) is that of an image that comes with vpmu-vmm: NAME.elf in ../lib/vpmu or ../guest, seen
 * from the folder of the running program. A name that is not there, and anything else, is a path.
 * The caller frees the result. NULL: no memory. Any thread.
 */
char *image_find(const char *image);
void image_free(struct image *img);

/* Properties of the VM that its image gets to know. */
struct boot_params {
	const char *args;	    /* arguments for the guest, or its command line; NULL: none */
	const struct image *initrd; /* NULL: none */
	/* BOOT_RNG_SEED_BYTES that a Linux kernel begins its random numbers with; NULL: none */
	const uint8_t *rng_seed;
	unsigned int nr_vcpus;
	bool lapic; /* vCPUs have local APICs (VMM_CAN_LAPIC) */
};

struct boot_protocol {
	const char *name;
	/* The VM has the hardware of vmm/engine/platform.h. vCPU 0 starts the others, and
	 * registers() is not called for them. Without: all start at once. */
	bool platform;
	/* With platform: writing to PLATFORM_DEBUG_EXIT ends the VM with the value as its status.
	 */
	bool exit_port;

	/* probe - returns true if @img is of this kind, even if damaged. Pure. */
	bool (*probe)(const struct image *img);

	/* check - check that @img loads into a VM with the slots of @ram; ram->base is not used. 0,
	 * or -ENOEXEC (the image) or -EINVAL (@p, @ram) and one line in @err. Pure. */
	int (*check)(const struct image *img, const struct vmm_ram *ram,
		     const struct boot_params *p, char *err, size_t errlen);

	/* load - check, then write to guest RAM, which is zero and not in use. *entry: for
	 * registers. */
	int (*load)(const struct image *img, const struct vmm_ram *ram, const struct boot_params *p,
		    uint64_t *entry, char *err, size_t errlen);

	/* registers - the initial registers of @vcpu. *regs is filled in. *sregs holds the engine's
	 * values; those that the protocol defines are overwritten. Pure. */
	void (*registers)(uint64_t entry, unsigned int vcpu, const struct boot_params *p,
			  struct kvm_regs *regs, struct kvm_sregs *sregs);
};

/* boot_find - the protocol of @img. -ENOEXEC and one line in @err: unknown kind. Pure. */
int boot_find(const struct image *img, const struct boot_protocol **out, char *err, size_t errlen);

/* Static ELF64 executables that start as in vpmu/guest/abi.h: all vCPUs at the entry point. */
extern const struct boot_protocol boot_freestanding;
/* Linux: an ELF vmlinux, or a bzImage that linux_unpack (linux.h) has unpacked. boot_find does not
 * return it: set vm_opts.protocol. */
extern const struct boot_protocol boot_linux;
/* A "kernel" with a multiboot header (multiboot.c). boot_find does not return it either. */
extern const struct boot_protocol boot_multiboot;
