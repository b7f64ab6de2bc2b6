// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The VM of bed_guest.h on x86: 64-bit code under KVM. AMD's counters count each VMRUN as an
 * instruction of the guest (vmm/emu/svm/world.c), so that much is added to the loop.
 */
#include "tests/beds/bed_guest_kvm.h"

#define TABLES_AT 0x1000ULL /* offset in RAM of three page tables: one page of 2 MiB at the RAM */
#define PORT	  0x10

static const uint8_t code[] = {
	0xeb, 0x00,	  /* jmp the next line */
	0x48, 0xff, 0xc8, /* dec %rax */
	0x75, 0xfb,	  /* jnz the line above */
	0xe6, PORT,	  /* out: ends KVM_RUN, and KVM carries it out, so it never retires */
	0xeb, 0xf7,	  /* jmp dec */
};

_Static_assert(sizeof(code) == BED_GUEST_CODE_BYTES, "as the header says");

static void tables(uint64_t *t)
{
	const uint64_t at = BED_GUEST_CODE + TABLES_AT;

	t[0] = (at + 0x1000) | 3;
	t[512 + BED_GUEST_CODE / (1 << 30)] = (at + 0x2000) | 3;
	t[1024 + BED_GUEST_CODE % (1 << 30) / (1 << 21)] = BED_GUEST_CODE | 0x83;
}

/* CPUID shows long mode: newer kernels have it only then. */
static void long_mode(const struct bed_guest *g)
{
	struct kvm_regs regs = {.rip = BED_GUEST_CODE, .rflags = 2};
	struct {
		struct kvm_cpuid2 h;
		struct kvm_cpuid_entry2 e[2];
	} cpuid = {{.nent = 2},
		   {{.function = 0x80000000, .eax = 0x80000001},
		    {.function = 0x80000001, .edx = 1u << 29}}};
	struct kvm_sregs s;

	cr_assert(!ioctl(g->vcpu, KVM_SET_CPUID2, &cpuid));
	cr_assert(!ioctl(g->vcpu, KVM_GET_SREGS, &s));
	s.cr0 = 0x80000011;
	s.cr3 = BED_GUEST_CODE + TABLES_AT;
	s.cr4 = 0x20;
	s.efer = 0x500;
	s.cs = (struct kvm_segment){
		.limit = ~0u, .selector = 8, .type = 11, .present = 1, .s = 1, .l = 1, .g = 1};
	s.ss = s.ds = s.es = (struct kvm_segment){
		.limit = ~0u, .selector = 16, .type = 3, .present = 1, .s = 1, .db = 1, .g = 1};
	cr_assert(!ioctl(g->vcpu, KVM_SET_SREGS, &s), "KVM_SET_SREGS: %s", strerror(errno));
	cr_assert(!ioctl(g->vcpu, KVM_SET_REGS, &regs));
}

void bed_guest_make(struct bed_guest *g)
{
	guest_open(g, code, sizeof(code));
	tables((uint64_t *)((uint8_t *)g->ram + TABLES_AT));
	long_mode(g);
}

void bed_guest_start(struct bed_guest *g, uint64_t n)
{
	struct kvm_regs regs;

	cr_assert(!ioctl(g->vcpu, KVM_GET_REGS, &regs));
	regs.rax = n;
	cr_assert(!ioctl(g->vcpu, KVM_SET_REGS, &regs));
}

int bed_guest_run(struct bed_guest *g)
{
	int ret = guest_run(g, KVM_EXIT_IO);

	cr_assert(ret || (g->run->io.direction == KVM_EXIT_IO_OUT && g->run->io.port == PORT));
	return ret;
}

/* The vCPU's "exits" of KVM's statistics: kvm-amd adds one for each VMRUN. */
uint64_t bed_guest_entries(const struct bed_guest *g)
{
	struct {
		struct kvm_stats_desc d;
		char name[256];
	} one;
	struct kvm_stats_header h;
	uint64_t v = 0;
	int fd = ioctl(g->vcpu, KVM_GET_STATS_FD, NULL);

	cr_assert(fd >= 0 && pread(fd, &h, sizeof(h), 0) == sizeof(h), "KVM_GET_STATS_FD: %s",
		  strerror(errno));
	cr_assert(h.name_size <= sizeof(one.name));
	for (uint32_t i = 0; i < h.num_desc; i++) {
		size_t bytes = sizeof(one.d) + h.name_size;

		cr_assert_eq(pread(fd, &one, bytes, (off_t)(h.desc_offset + i * bytes)),
			     (ssize_t)bytes);
		if (strcmp(one.name, "exits"))
			continue;
		cr_assert_eq(pread(fd, &v, sizeof(v), (off_t)(h.data_offset + one.d.offset)),
			     (ssize_t)sizeof(v));
		close(fd);
		return v;
	}
	cr_assert_fail("KVM has no statistic 'exits'");
	return 0;
}
