// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * A bare emulator VM for tests, see bare.h. Descriptor and page table formats: SDM vol. 3,
 * 3.4.5 (segments), 8.2.3 (64-bit TSS descriptor), 8.7 (64-bit TSS), 6.14.1 (64-bit IDT), 4.5.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

#include "tests/emu/bare.h"
#include "tests/emu/flat.h"

#define PAGE	  0x1000ull
#define GUARD	  (64ull << 20)
#define PT_BITS	  0x7ull /* present, writable, user: the leaf restricts */
#define KERNEL_CS 0x10u
#define USER_SS	  0x2bu
#define USER_CS	  0x33u
#define TSS_SEL	  0x40u
#define TSS_LIMIT 0x67u

static void put64(struct bare *s, uint64_t pa, uint64_t v)
{
	memcpy(s->ram + pa, &v, sizeof(v));
}

static uint64_t get64(const struct bare *s, uint64_t pa)
{
	uint64_t v;

	memcpy(&v, s->ram + pa, sizeof(v));
	return v;
}

uint64_t bare_alloc(struct bare *s, size_t bytes)
{
	uint64_t pa = s->next_free;

	bytes = (bytes + PAGE - 1) & ~(PAGE - 1);
	if (bytes > s->ram_bytes - pa)
		return 0;
	s->next_free += bytes;
	return pa;
}

/* Page tables come from the kernel's area while it lasts, so that small VMs stay small. */
static uint64_t alloc_table(struct bare *s)
{
	if (s->next_table < BARE_CPU) {
		s->next_table += PAGE;
		return s->next_table - PAGE;
	}
	return bare_alloc(s, PAGE);
}

static int map_page(struct bare *s, uint64_t va, uint64_t pa, uint64_t bits)
{
	uint64_t table = BARE_CR3;

	for (int shift = 39; shift > 12; shift -= 9) {
		uint64_t at = table + ((va >> shift) & 511) * 8, entry = get64(s, at);

		if (!entry) {
			uint64_t next = alloc_table(s);

			if (!next)
				return -ENOMEM;
			entry = next | PT_BITS;
			put64(s, at, entry);
		}
		table = entry & 0x000ffffffffff000ull;
	}
	put64(s, table + ((va >> 12) & 511) * 8, pa | bits | 1);
	return 0;
}

int bare_map(struct bare *s, uint64_t va, uint64_t pa, size_t bytes, uint64_t bits)
{
	for (uint64_t off = 0; off < bytes; off += PAGE) {
		int rc = map_page(s, va + off, pa + off, bits);

		if (rc)
			return rc;
	}
	return 0;
}

static uint64_t cpu_page(unsigned int i)
{
	return BARE_CPU + i * PAGE;
}

static void init_tables(struct bare *s)
{
	static const uint64_t gdt[] = {
		0,
		0,
		0x00af9b000000ffffull, /* 10h kernel code */
		0x00cf93000000ffffull, /* 18h kernel data */
		0x00cffb000000ffffull, /* 20h user code, 32 bit */
		0x00cff3000000ffffull, /* 28h user data */
		0x00affb000000ffffull, /* 30h user code */
	};

	memcpy(s->ram + BARE_GDT, gdt, sizeof(gdt));
	memset(s->ram + BARE_HANDLERS, 0xf4 /* HLT */, 32 * 16);
	for (unsigned int v = 0; v < 32; v++) {
		uint64_t at = BARE_KERNEL + BARE_HANDLERS + v * 16;
		/* Interrupt gate; DPL 3 for INT3 (and INTO's vector), as Linux has it. */
		uint64_t type = v == 3 || v == 4 ? 0xee : 0x8e;

		put64(s, BARE_IDT + v * 16,
		      (at & 0xffff) | (uint64_t)KERNEL_CS << 16 | type << 40 |
			      ((at >> 16) & 0xffff) << 48);
		put64(s, BARE_IDT + v * 16 + 8, at >> 32);
	}
	for (unsigned int i = 0; i < s->nr_vcpus; i++) {
		put64(s, cpu_page(i) + 4, BARE_KERNEL + cpu_page(i) + PAGE); /* RSP0 */
		s->ram[cpu_page(i) + 0x66] = TSS_LIMIT + 1; /* no I/O permission bitmap */
	}
}

int bare_create(struct bare *s, size_t ram_bytes, unsigned int nr_vcpus, char *why, size_t why_len)
{
	static const struct vpmu_msr_range no_msrs[1];
	int rc;

	memset(s, 0, sizeof(*s));
	if (nr_vcpus > BARE_MAX_VCPUS || ram_bytes < 2 * BARE_FREE) {
		snprintf(why, why_len, "bare_create: bad size");
		return -EINVAL;
	}
	/* Nothing is mapped around it, so that an access beyond guest memory is a crash. */
	s->ram = mmap(NULL, ram_bytes + 2 * GUARD, PROT_NONE,
		      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (s->ram == MAP_FAILED) {
		s->ram = NULL;
		snprintf(why, why_len, "mmap of guest memory: %s", strerror(errno));
		return -ENOMEM;
	}
	s->ram += GUARD;
	s->ram_bytes = ram_bytes;
	if (mprotect(s->ram, ram_bytes, PROT_READ | PROT_WRITE)) {
		snprintf(why, why_len, "mprotect of guest memory: %s", strerror(errno));
		return -ENOMEM;
	}
	s->next_free = BARE_FREE;
	s->next_table = BARE_CR3 + PAGE;
	s->nr_vcpus = nr_vcpus;
	init_tables(s);
	rc = bare_map(s, BARE_KERNEL, 0, BARE_CPU + BARE_MAX_VCPUS * PAGE, BARE_W);
	if (rc)
		return rc;
	rc = vmm_emu_ops.open(&s->e, why, why_len);
	if (rc)
		return rc;
	rc = vmm_emu_ops.vm_create(
		s->e, &(struct vmm_ram){.base = s->ram, .nr = 1, .slot[0].bytes = ram_bytes},
		&s->vm);
	if (!rc)
		rc = vmm_emu_ops.vm_trap_msrs(s->vm, no_msrs);
	for (unsigned int i = 0; !rc && i < nr_vcpus; i++)
		rc = vmm_emu_ops.vcpu_create(s->vm, i, &s->vcpu[i]);
	if (rc)
		snprintf(why, why_len, "emulator engine: %s", strerror(-rc));
	return rc;
}

void bare_destroy(struct bare *s)
{
	for (unsigned int i = 0; i < s->nr_vcpus; i++)
		if (s->vcpu[i])
			vmm_emu_ops.vcpu_destroy(s->vcpu[i]);
	if (s->vm)
		vmm_emu_ops.vm_destroy(s->vm);
	if (s->e)
		vmm_emu_ops.close(s->e);
	if (s->ram)
		munmap(s->ram - GUARD, s->ram_bytes + 2 * GUARD);
	memset(s, 0, sizeof(*s));
}

int bare_user(struct bare *s, unsigned int i, const struct kvm_regs *regs, uint64_t fs_base,
	      uint64_t gs_base)
{
	const struct kvm_segment null = {.unusable = 1};
	struct kvm_sregs sr;
	int rc = vmm_emu_ops.get_sregs(s->vcpu[i], &sr);

	if (rc)
		return rc;
	sr.cs = flat_segment(USER_CS, true);
	sr.ss = flat_segment(USER_SS, false);
	sr.ds = sr.es = sr.fs = sr.gs = sr.ldt = null;
	sr.fs.base = fs_base;
	sr.gs.base = gs_base;
	sr.tr = (struct kvm_segment){.base = BARE_KERNEL + cpu_page(i),
				     .limit = TSS_LIMIT,
				     .selector = TSS_SEL,
				     .type = 0xb,
				     .present = 1};
	sr.gdt.base = BARE_KERNEL + BARE_GDT;
	sr.gdt.limit = 7 * 8 - 1;
	sr.idt.base = BARE_KERNEL + BARE_IDT;
	sr.idt.limit = 32 * 16 - 1;
	sr.cr0 = 0x80050033; /* PG AM WP NE ET MP PE */
	sr.cr2 = 0;
	sr.cr3 = BARE_CR3;
	sr.cr4 = 0x50620; /* PAE OSFXSR OSXMMEXCPT FSGSBASE OSXSAVE */
	sr.efer = 0xd01;  /* NXE LMA LME SCE */
	rc = vmm_emu_ops.set_sregs(s->vcpu[i], &sr);
	return rc ? rc : vmm_emu_ops.set_regs(s->vcpu[i], regs);
}

int bare_stopped(struct bare *s, unsigned int i, enum vmm_exit exit, struct bare_stop *stop)
{
	/* Vectors that push an error code (SDM vol. 3, table 6-1). */
	const uint32_t with_error = 1u << 8 | 0x1fu << 10 | 1u << 17 | 1u << 21;
	const uint64_t handlers = BARE_KERNEL + BARE_HANDLERS;
	struct kvm_sregs sr;
	uint64_t frame;
	int rc = vmm_emu_ops.get_regs(s->vcpu[i], &stop->regs);

	if (!rc)
		rc = vmm_emu_ops.get_sregs(s->vcpu[i], &sr);
	if (rc)
		return rc;
	stop->vector = -1;
	stop->error = 0;
	stop->cr2 = sr.cr2;
	stop->rip = stop->regs.rip;
	stop->rflags = stop->regs.rflags;
	stop->cs = sr.cs.selector;
	stop->ss = sr.ss.selector;
	if (exit != VMM_EXIT_HLT || stop->rip - handlers >= 32 * 16)
		return 0;
	stop->vector = (int)((stop->rip - handlers) / 16);
	frame = stop->regs.rsp - BARE_KERNEL;
	if (frame < cpu_page(i) || frame > cpu_page(i) + PAGE - 40)
		return -EFAULT;
	if (with_error & 1u << stop->vector) {
		stop->error = (uint32_t)get64(s, frame);
		frame += 8;
	}
	stop->rip = stop->regs.rip = get64(s, frame);
	stop->cs = (uint16_t)get64(s, frame + 8);
	stop->rflags = stop->regs.rflags = get64(s, frame + 16);
	stop->regs.rsp = get64(s, frame + 24);
	stop->ss = (uint16_t)get64(s, frame + 32);
	return 0;
}
