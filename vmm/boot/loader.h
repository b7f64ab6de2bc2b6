/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Loads a freestanding image by the boot protocol of vpmu/guest/abi.h: checks a static ELF64
 * executable, copies it into guest RAM, writes the boot area (GDT, boot info, arguments, page
 * tables) and gives the registers that a vCPU starts with.
 *
 * The image is hostile: every field that is used is checked before anything is written, and an
 * image that is refused leaves guest RAM as it was. Errors are one line naming file, field, what
 * it holds and what is accepted.
 */
#ifndef VMM_BOOT_LOADER_H
#define VMM_BOOT_LOADER_H

#include <linux/kvm.h>
#include <stddef.h>
#include <stdint.h>

/* Guest RAM the boot protocol can map: multiples of 2 MiB. The page tables have room for the
 * upper bound. */
#define LOADER_RAM_ALIGN (2ULL << 20)
#define LOADER_RAM_MIN	 (4ULL << 20)
#define LOADER_RAM_MAX	 (64ULL << 30)

#define LOADER_FILE_MAX	 (256ULL << 20)
#define LOADER_MAX_PHDRS 64

/* A file in memory. */
struct image {
	char *name; /* as given, for messages */
	uint8_t *data;
	size_t bytes;
};

/*
 * image_read - read regular file @path whole into *img (owned by the caller: image_free).
 * -errno and one line in @err: missing, not a regular file, larger than LOADER_FILE_MAX. Does not
 * look at the contents. Any thread.
 */
int image_read(const char *path, struct image *img, char *err, size_t errlen);
void image_free(struct image *img);

/*
 * loader_check - whether @img is an image that loads into @ram_bytes of RAM. 0 and the entry point
 * in *entry (may be NULL), or -ENOEXEC and one line in @err. Pure, any thread.
 */
int loader_check(const struct image *img, uint64_t ram_bytes, uint64_t *entry, char *err,
		 size_t errlen);

struct loader_boot {
	const char *args; /* guest arguments, at most VPMU_BOOT_ARGS_MAX bytes; NULL = "" */
	unsigned int nr_vcpus;
};

/*
 * loader_load - loader_check, then write image and boot area to @ram (zeroed, @ram_bytes, a
 * multiple of LOADER_RAM_ALIGN between LOADER_RAM_MIN and LOADER_RAM_MAX). Returns like
 * loader_check; -EINVAL when RAM size or arguments are out of range. Any thread, nobody else uses
 * @ram.
 */
int loader_load(const struct image *img, void *ram, uint64_t ram_bytes,
		const struct loader_boot *boot, uint64_t *entry, char *err, size_t errlen);

/* loader_regs - general registers at the start of @vcpu. Pure. */
void loader_regs(uint64_t entry, unsigned int vcpu, struct kvm_regs *regs);

/*
 * loader_sregs - overwrite in *sregs what the boot protocol fixes: segments, GDT, control
 * registers, EFER; the rest (APIC base, pending interrupts) keeps the engine's values. Pure.
 */
void loader_sregs(struct kvm_sregs *sregs);

#endif
