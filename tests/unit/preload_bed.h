/* SPDX-License-Identifier: GPL-2.0-or-later */
/* A VM with one vCPU and a PMU of the preloaded library, over the kernel of preload_fake.h. */
#ifndef TESTS_UNIT_PRELOAD_BED_H
#define TESTS_UNIT_PRELOAD_BED_H

#include <criterion/criterion.h>

#include "preload/fds.h"
#include "preload/words.h"
#include "tests/unit/preload_fake.h"
#include "vpmu/host.h"

enum { LEAVES = 40, WORDS = 2 * WORDS_GP + WORDS_FIXED + 4 };

#define FILTER	KVM_MSR_EXIT_REASON_FILTER
#define UNKNOWN KVM_MSR_EXIT_REASON_UNKNOWN

#define RAM_BYTES (1u << 20)

static uint8_t ram[RAM_BYTES] __attribute__((aligned(4096), unused));

/* What the VMM of the test that runs has open. */
static struct bed {
	int dev, vm, vcpu;
	struct {
		struct kvm_cpuid2 head;
		struct kvm_cpuid_entry2 e[LEAVES];
	} cpuid;
} b;

/* A VMM's calls: to the library, or straight to the kernel. */
typedef int call_fn(int fd, unsigned long request, void *arg);

static inline int call_plain(int fd, unsigned long request, void *arg)
{
	int rc = sys_ioctl(fd, request, arg);

	if (rc < 0)
		errno = -rc;
	return rc < 0 ? -1 : rc;
}

static inline void bed_process(const char *text)
{
	char err[200] = "";

	fake_reset();
	fake.amd = strstr(text, "amd");
	cr_assert(!process_init(text, !fake.amd, err, sizeof(err)) && process.on, "%s", err);
}

static inline void bed_vm(call_fn *call)
{
	b = (struct bed){.vcpu = -1};
	b.dev = fake_new(FAKE_DEV, NULL);
	b.vm = call(b.dev, KVM_CREATE_VM, NULL);
	cr_assert(b.dev >= 0 && b.vm >= 0);
	call(b.vm, KVM_CHECK_EXTENSION, (void *)KVM_CAP_IMMEDIATE_EXIT);
}

static inline int bed_cpuid(call_fn *call)
{
	b.cpuid.head.nent = LEAVES;
	return call(b.dev, KVM_GET_SUPPORTED_CPUID, &b.cpuid);
}

static inline struct kvm_cpuid_entry2 *bed_leaf(uint32_t function)
{
	for (uint32_t i = 0; i < b.cpuid.head.nent; i++)
		if (b.cpuid.e[i].function == function)
			return &b.cpuid.e[i];
	cr_assert_fail("no leaf 0x%x", function);
	return NULL;
}

static inline void bed_vcpu(call_fn *call)
{
	b.vcpu = call(b.vm, KVM_CREATE_VCPU, (void *)0);
	cr_assert(b.vcpu >= 0, "%s", strerror(errno));
}

/* A VM with one vCPU, after bed_process(). It is refused without interrupt controllers. */
static inline void bed_vm_and_vcpu(bool irqchip)
{
	bed_vm(call_ioctl);
	if (irqchip)
		cr_assert(!call_ioctl(b.vm, KVM_CREATE_IRQCHIP, NULL));
	cr_assert(!bed_cpuid(call_ioctl));
	bed_vcpu(call_ioctl);
}

/* A VM with one vCPU and the PMU of @text. */
static inline void bed_on(const char *text)
{
	bed_process(text);
	bed_vm_and_vcpu(true);
	cr_assert(!call_ioctl(b.vcpu, KVM_SET_CPUID2, &b.cpuid), "%s", strerror(errno));
	cr_assert(fake.fd[b.vm]->s.vpmu_off, "no PMU of ours");
}

/* All goes: nothing that the library made is left. */
static inline void bed_end(void)
{
	if (b.vcpu >= 0)
		cr_assert(!vmm_close(b.vcpu));
	if (b.vm >= 0)
		cr_assert(!vmm_close(b.vm));
	sys_close(b.dev);
	cr_expect_eq(fake_open_fds(), 0);
	cr_expect_eq(atomic_load(&process.watched), 0);
	for (size_t i = 0; i < FAKE_FILES; i++)
		cr_expect_eq(fake.file[i].kind, FAKE_FREE, "file %zu, a %d", i, fake.file[i].kind);
	if (process.host)
		vpmu_host_destroy(process.host);
	process.host = NULL;
	b.dev = 0;
}

/* The .fini of suites. */
static inline __attribute__((unused)) void bed_fini(void)
{
	if (b.dev)
		bed_end();
}

static inline struct kvm_run *bed_run(void)
{
	return &fake.fd[b.vcpu]->run->run;
}

static inline const struct fake_state *bed_vm_state(void)
{
	return &fake.fd[b.vm]->s;
}

static inline unsigned int calls_of(unsigned long request, unsigned int from)
{
	unsigned int n = 0;

	for (unsigned int i = from; i < fake.calls; i++)
		n += fake.log[i] == request;
	return n;
}

static inline void exits(unsigned int n, const struct fake_exit *e)
{
	memcpy(fake.todo, e, n * sizeof(*e));
	fake.exits = n;
	fake.exit = fake.runs = 0;
}
#define EXITS(...)                                                                                 \
	exits(sizeof((struct fake_exit[]){__VA_ARGS__}) / sizeof(struct fake_exit),                \
	      (struct fake_exit[]){__VA_ARGS__})

/* The guest's accesses to MSRs that the library has filtered. */
#define WRMSR(msr_, data_)                                                                         \
	{                                                                                          \
		.reason = KVM_EXIT_X86_WRMSR, .msr = msr_, .data = data_, .why = FILTER            \
	}
#define RDMSR(msr_)                                                                                \
	{                                                                                          \
		.reason = KVM_EXIT_X86_RDMSR, .msr = msr_, .why = FILTER                           \
	}

/* A KVM_RUN with these exits. */
#define RUN(...)                                                                                   \
	do {                                                                                       \
		EXITS(__VA_ARGS__);                                                                \
		cr_assert_eq(call_ioctl(b.vcpu, KVM_RUN, NULL), 0);                                \
	} while (0)

#define CALL_FAILS(fd, request, arg, error)                                                        \
	do {                                                                                       \
		cr_assert_eq(call_ioctl(fd, request, arg), -1);                                    \
		cr_assert_eq(errno, error);                                                        \
	} while (0)

/* ---- MSR lists ---- */

struct msr_list {
	struct kvm_msrs head;
	struct kvm_msr_entry e[WORDS + 4];
};

static inline void list_add(struct msr_list *l, uint32_t msr, uint64_t data)
{
	l->e[l->head.nmsrs++] = (struct kvm_msr_entry){.index = msr, .data = data};
}

/* All words, as QEMU has them, and after the first two MSRs of KVM's. */
static inline void list_words(struct msr_list *l)
{
	memset(l, 0, sizeof(*l));
	list_add(l, 0x10, 0);
	for (uint32_t i = 0; i < WORDS_FIXED; i++)
		list_add(l, 0x309 + i, 0);
	for (uint32_t i = 0; i < 4; i++)
		list_add(l, 0x38d + i, 0);
	for (uint32_t i = 0; i < WORDS_GP; i++) {
		list_add(l, 0xc1 + i, 0);
		list_add(l, 0x186 + i, 0);
	}
	list_add(l, 0x174, 0);
}

static inline struct kvm_msr_entry *list_at(struct msr_list *l, uint32_t msr)
{
	for (uint32_t i = 0; i < l->head.nmsrs; i++)
		if (l->e[i].index == msr)
			return &l->e[i];
	cr_assert_fail("no MSR 0x%x", msr);
	return NULL;
}

static inline uint64_t get_msr(uint32_t msr)
{
	struct msr_list l = {0};

	list_add(&l, msr, ~0ull);
	cr_assert_eq(call_ioctl(b.vcpu, KVM_GET_MSRS, &l), 1);
	return l.e[0].data;
}

#endif
