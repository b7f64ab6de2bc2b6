/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Shared by the tests of the KVM engine: a VM with a small 64-bit guest at CPL 0. */
#ifndef TESTS_UNIT_KVM_BED_H
#define TESTS_UNIT_KVM_BED_H

#include <criterion/criterion.h>

#include <fcntl.h>
#include <linux/kvm.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "vmm/kvm/kvm.h"

#define RAM_BYTES (4u << 20)
#define IDT	  0x5000
#define GDT	  0x6000
#define PAGES	  0x10000 /* PML4, PDPT; 1 GiB pages are not everywhere: then one PD */
#define BUFFER	  0x80000
#define CODE	  0x100000
#define STACK	  0x200000

#define CODE64 0x08
#define DATA   0x10

/*
 * Guest code: assembled here, position independent, copied to CODE. Handlers that tests install
 * start at a symbol of the same text.
 */
#define GUEST(name, text)                                                                          \
	extern const char guest_##name[], guest_##name##_end[];                                    \
	asm(".pushsection .rodata\n"                                                               \
	    "guest_" #name ":\n" text "\nguest_" #name "_end:\n"                                   \
	    ".popsection\n")

struct guest {
	struct vmm_engine *engine;
	struct vmm_engine_vm *vm;
	struct vmm_engine_vcpu *vcpu;
	struct vmm_run run;
	uint8_t *ram;
};

static const struct vmm_engine_ops *const ops = &vmm_kvm_ops;

static inline void put64(struct guest *g, uint64_t at, uint64_t value)
{
	memcpy(g->ram + at, &value, sizeof(value));
}

/* 1:1 map of the first GiB in 2 MiB pages, RAM or not. */
static inline void build_tables(struct guest *g)
{
	put64(g, PAGES, (PAGES + 0x1000) | 3);
	put64(g, PAGES + 0x1000, (PAGES + 0x2000) | 3);
	for (uint64_t i = 0; i < 512; i++)
		put64(g, PAGES + 0x2000 + 8 * i, i << 21 | 0x83);
	put64(g, GDT + CODE64, 0x00af9b000000ffffULL);
	put64(g, GDT + DATA, 0x00cf93000000ffffULL);
}

static inline void set_gate(struct guest *g, unsigned int vector, uint64_t handler)
{
	put64(g, IDT + 16 * vector,
	      (handler & 0xffff) | CODE64 << 16 | 0x8e00ULL << 32 | (handler >> 16 & 0xffff) << 48);
	put64(g, IDT + 16 * vector + 8, handler >> 32);
}

static inline struct kvm_segment segment(uint16_t selector, uint8_t type, bool code)
{
	return (struct kvm_segment){.selector = selector,
				    .limit = 0xffffffff,
				    .type = type,
				    .present = 1,
				    .db = !code,
				    .s = 1,
				    .l = code,
				    .g = 1};
}

static inline void boot(struct guest *g)
{
	struct kvm_regs regs = {.rip = CODE, .rsp = STACK, .rflags = 2};
	struct kvm_sregs s;

	cr_assert(!ops->get_sregs(g->vcpu, &s));
	s.cs = segment(CODE64, 11, true);
	s.ds = s.es = s.fs = s.gs = s.ss = segment(DATA, 3, false);
	s.gdt.base = GDT;
	s.gdt.limit = 0x17;
	s.idt.base = IDT;
	s.idt.limit = 0xfff;
	s.cr3 = PAGES;
	s.cr4 = 1 << 5;		   /* PAE */
	s.cr0 = 1u << 31 | 1 | 16; /* PG, PE, ET */
	s.efer = 1 << 8 | 1 << 10; /* LME, LMA */
	cr_assert(!ops->set_sregs(g->vcpu, &s));
	cr_assert(!ops->set_regs(g->vcpu, &regs));
}

static const struct vpmu_msr_range trapped[] = {{0x186, 8}, {0xc1, 8}, {0x38f, 2}, {0, 0}};

/* Show the guest everything that KVM can show it. @vendor: "GenuineIntel" or such; NULL: as KVM
 * says. */
static inline void set_cpuid(struct guest *g, const char *vendor)
{
	enum { ENTRIES = 256 }; /* KVM_MAX_CPUID_ENTRIES of the kernel */
	struct kvm_cpuid2 *table =
		calloc(1, sizeof(*table) + ENTRIES * sizeof(struct kvm_cpuid_entry2));
	int fd = open("/dev/kvm", O_RDWR | O_CLOEXEC);

	cr_assert(table && fd >= 0);
	table->nent = ENTRIES;
	cr_assert(!ioctl(fd, KVM_GET_SUPPORTED_CPUID, table));
	for (uint32_t i = 0; vendor && i < table->nent; i++) {
		if (table->entries[i].function)
			continue;
		memcpy(&table->entries[i].ebx, vendor, 4);
		memcpy(&table->entries[i].edx, vendor + 4, 4);
		memcpy(&table->entries[i].ecx, vendor + 8, 4);
	}
	cr_assert(!ops->set_cpuid(g->vcpu, table->entries, table->nent));
	close(fd);
	free(table);
}

struct guest_how {
	bool irqchip;
	const char *vendor;
};

static inline void start_how(struct guest *g, const char *code, const char *end,
			     struct guest_how how)
{
	char why[200] = "";

	memset(g, 0, sizeof(*g));
	if (ops->open(&g->engine, why, sizeof(why)))
		cr_skip_test("%s", why);
	g->ram = mmap(NULL, RAM_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	cr_assert(g->ram != MAP_FAILED);
	cr_assert(!ops->vm_create(
		g->engine, &(struct vmm_ram){.base = g->ram, .nr = 1, .slot[0].bytes = RAM_BYTES},
		&g->vm));
	cr_assert(!ops->vm_trap_msrs(g->vm, trapped));
	if (how.irqchip) {
		int rc = ops->irqchip_create(g->vm);

		if (rc)
			cr_skip_test("KVM_CREATE_IRQCHIP: %s", strerror(-rc));
	}
	cr_assert(!ops->vcpu_create(g->vm, 0, &g->vcpu));
	set_cpuid(g, how.vendor);
	build_tables(g);
	memcpy(g->ram + CODE, code, (size_t)(end - code));
	boot(g);
}

#define START(g, name) start_how(g, guest_##name, guest_##name##_end, (struct guest_how){0})
#define START_HOW(g, name, ...)                                                                    \
	start_how(g, guest_##name, guest_##name##_end, (struct guest_how){__VA_ARGS__})

static inline void stop(struct guest *g)
{
	ops->vcpu_destroy(g->vcpu);
	ops->vm_destroy(g->vm);
	ops->close(g->engine);
	munmap(g->ram, RAM_BYTES);
	g->vcpu = NULL;
}

/* The guest of the test that runs, and the .fini of suites that use it. */
static __attribute__((unused)) struct guest g;

static inline void guest_end(void)
{
	if (g.vcpu)
		stop(&g);
}

static inline enum vmm_exit run(struct guest *g)
{
	cr_assert(!ops->run(g->vcpu, &g->run));
	if (g->run.exit == VMM_EXIT_ERROR)
		cr_log_info("%s", g->run.u.error.msg);
	return g->run.exit;
}

#define EXPECT_OUT(g, port_, size_, data_)                                                         \
	do {                                                                                       \
		cr_assert(run(g) == VMM_EXIT_IO, "exit %d", (g)->run.exit);                        \
		cr_expect(!(g)->run.u.io.in && (g)->run.u.io.port == (port_) &&                    \
				  (g)->run.u.io.size == (size_) &&                                 \
				  (g)->run.u.io.data == (uint32_t)(data_),                         \
			  "port 0x%x size %u data 0x%x", (g)->run.u.io.port, (g)->run.u.io.size,   \
			  (g)->run.u.io.data);                                                     \
	} while (0)

static inline uint64_t rip(struct guest *g)
{
	struct kvm_regs regs;

	cr_assert(!ops->get_regs(g->vcpu, &regs));
	return regs.rip;
}

/* End a HLT, as a caller that sets registers. */
static inline void wake(struct guest *g)
{
	struct kvm_regs regs;

	cr_assert(!ops->get_regs(g->vcpu, &regs));
	cr_assert(!ops->set_regs(g->vcpu, &regs));
}

/* A thread that kicks @v, unless that is NULL, and sends an alarm to the thread @tid, unless that
 * is 0, whenever @go is posted. */
struct kicker {
	int tid;
	struct vmm_engine_vcpu *v;
	sem_t go;
	atomic_bool over;
};

static inline void *kicker(void *arg)
{
	struct kicker *k = arg;
	unsigned int delay = 1;

	for (;;) {
		sem_wait(&k->go);
		if (atomic_load(&k->over))
			return NULL;
		/* before, at and after the vCPU enters the guest */
		delay = delay * 1103515245 + 12345;
		for (volatile unsigned int i = delay >> 16 & 0x3fff; i; i--)
			;
		if (k->v && delay & 1 << 14)
			ops->kick(k->v);
		if (k->tid)
			syscall(SYS_tgkill, getpid(), k->tid, VMM_ALARM_SIGNAL);
		if (k->v && !(delay & 1 << 14))
			ops->kick(k->v);
	}
}

#endif
