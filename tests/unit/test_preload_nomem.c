// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * A stock VMM with the preloaded library when memory runs out: each allocation that its calls cause
 * fails in turn, alone and with all that follow. A call fails with ENOMEM and works when it is made
 * again, or it works; a VM without the PMU is one that the library has refused. What VMMs do not
 * expect to fail never does.
 */
#include "tests/nomem.h"
/* The fake kernel always has memory. */
#define calloc __real_calloc
#include "tests/unit/preload_bed.h"
#undef calloc

static int lines; /* standard error: a file */
static unsigned long nth;
static bool all;
static unsigned long failed;

static void arm(void)
{
	nomem_arm(nth, all);
}

/* Returns @rc of a call. The allocations that it made count towards the one that fails. */
static int disarm(int rc)
{
	int error = errno;

	nth = nomem.left;
	failed += nomem_disarm();
	if (failed && !all)
		nth = ~0ul;
	errno = error;
	return rc;
}

/* A call in want of memory; with memory it must work. */
static int calling(int fd, unsigned long request, void *arg)
{
	int rc;

	arm();
	rc = disarm(call_ioctl(fd, request, arg));
	if (rc >= 0)
		return rc;
	cr_assert(errno == ENOMEM && failed, "request 0x%lx: %s", request, strerror(errno));
	rc = call_ioctl(fd, request, arg);
	cr_assert(rc >= 0, "request 0x%lx, again: %s", request, strerror(errno));
	return rc;
}

/* For calls that a VMM ends for. */
static int sure(int fd, unsigned long request, void *arg)
{
	int rc;

	arm();
	rc = disarm(call_ioctl(fd, request, arg));
	cr_assert(rc >= 0, "request 0x%lx: %s", request, strerror(errno));
	return rc;
}

/* How many VMs have been told to get no PMU since the last call. */
static unsigned int told(void)
{
	char text[4000];
	ssize_t len = pread(lines, text, sizeof(text) - 1, 0);
	unsigned int told = 0;

	cr_assert(len >= 0 && !ftruncate(lines, 0) && !lseek(lines, 0, SEEK_SET));
	text[len] = '\0';
	for (const char *s = text; (s = strstr(s, "gets no PMU")); s++)
		told++;
	return told;
}

/* The life of a VM, from its creation. */
static void life(void)
{
	struct kvm_userspace_memory_region m = {.guest_phys_addr = 0x100000,
						.memory_size = RAM_BYTES,
						.userspace_addr = (uintptr_t)ram};
	struct msr_list l;
	bool on;
	int n;

	bed_process("pmu=intel-v2\ngp=4");
	bed_vm(calling);
	calling(b.vm, KVM_CREATE_IRQCHIP, NULL);
	cr_assert(!bed_cpuid(calling));
	calling(b.vm, KVM_SET_USER_MEMORY_REGION, &m);
	bed_vcpu(calling);
	calling(b.vcpu, KVM_SET_CPUID2, &b.cpuid);
	on = fake.fd[b.vm]->s.vpmu_off;
	cr_expect(on || failed, "no PMU of ours");
	list_words(&l);
	list_at(&l, 0x174)->data = 2;
	list_at(&l, 0xc1)->data = 1000;
	if (on)
		list_at(&l, WORDS_TAG)->data = words_tag(VPMU_GUEST_INTEL_V2, 4, WORDS_TAG, 0);
	n = sure(b.vcpu, KVM_SET_MSRS, &l);
	cr_assert(n == WORDS + 2 || !on, "%d of %d words; %u lines", n, WORDS + 2, told());
	for (uint32_t i = 0; i < l.head.nmsrs; i++)
		l.e[i].data = 0xabab;
	n = sure(b.vcpu, KVM_GET_MSRS, &l);
	cr_assert(n == WORDS + 2 || !on, "%d of %d words; %u lines", n, WORDS + 2, told());
	cr_expect(!on || (list_at(&l, 0x174)->data == 2 && list_at(&l, 0xc1)->data == 1000));
	EXITS(WRMSR(0xc1, 1));
	sure(b.vcpu, KVM_RUN, NULL);
	/* Only once is told why. */
	cr_expect_eq(told(), !on);
	bed_end();
}

Test(preload_nomem, life_of_a_vm)
{
	int err = dup(STDERR_FILENO);

	lines = memfd_create("lines", MFD_CLOEXEC);
	cr_assert(lines >= 0 && dup2(lines, STDERR_FILENO) >= 0);
	for (int more = 0; more < 2; more++)
		for (unsigned long n = 0;; n++) {
			nth = n;
			all = more;
			failed = 0;
			life();
			if (!failed) {
				cr_assert_gt(n, 0, "no call has allocated anything");
				break;
			}
			cr_assert_lt(n, 1000);
		}
	dup2(err, STDERR_FILENO);
}
