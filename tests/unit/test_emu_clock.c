// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The clock of an emulator VM with vCPUs that run at the same time on threads of their own: what a
 * stock kernel takes for the time of all its CPUs. Each vCPU loads the last time that anybody has
 * seen, then reads its own, and stores it. So each load comes after the reading that it shows, and
 * a time that is less has gone back.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>

#include "emu_bed.h"

#define VCPUS 2
/* The vCPUs run until each has seen the other's time so often. On a host with one CPU that happens
 * only when the host's kernel takes the CPU from one of them, so after many runs once is enough. */
#define SEEN_MANY 20000u
#define RUNS_MANY 1000000u
#define CLOCK	  0x301000 /* a page for each vCPU's KVM clock */

/*
 * 300800H: the last TSC; 300808H: the last time of KVM's clock. RDI: this vCPU's KVM clock. Each
 * round writes the clock's address once more, as a CPU does that is started. Ends with HLT, and RSI
 * has the error: 1: TSC, 2: KVM's clock, 3: the two of its fields that must agree while nobody
 * has written to the TSC.
 */
BED_GUEST(g_time, "1: mov 0x300800,%r8\nmov 0x300808,%r9\n"
		  "mov $0x4b564d01,%ecx\nmov %edi,%eax\nor $1,%eax\nxor %edx,%edx\nwrmsr\n"
		  "cmp %r8,0x48(%rdi)\nje 3f\nincq 0x40(%rdi)\n3: "
		  "mov $3,%esi\nmov 8(%rdi),%rax\ncmp 16(%rdi),%rax\njne 2f\n"
		  "rdtsc\nshl $32,%rdx\nor %rdx,%rax\n"
		  "mov $1,%esi\ncmp %r8,%rax\njb 2f\nmov %rax,0x300800\nmov %rax,0x48(%rdi)\n"
		  "sub 8(%rdi),%rax\nadd 16(%rdi),%rax\n"
		  "mov $2,%esi\ncmp %r9,%rax\njb 2f\nmov %rax,0x300808\n"
		  "jmp 1b\n"
		  "2: cli\nhlt\n");

struct one {
	struct vmm_engine_vcpu *v;
	struct vpmu_emu_tally t;
	struct vmm_run run;
	const _Atomic uint64_t *seen[VCPUS]; /* how often each vCPU has seen the other's time */
	_Atomic bool *over;
	const char *wrong;
};

/* Budgets of 1 to 97 instructions, so that a vCPU begins to run at every instruction. */
static void *time_thread(void *arg)
{
	static const char *const what[] = {"nothing", "TSC", "KVM's clock",
					   "KVM's clock as it was told"};
	struct one *o = arg;
	struct kvm_regs r;

	for (unsigned int n = 0; !atomic_load(o->over); n++) {
		uint64_t a = atomic_load(o->seen[0]), b = atomic_load(o->seen[1]);

		if ((a < b ? a : b) >= (n < RUNS_MANY ? SEEN_MANY : 1))
			break;
		o->run.budget = 1 + n % 97;
		if (vmm_emu_ops.run(o->v, &o->run) || o->run.exit != VMM_EXIT_BUDGET) {
			vmm_emu_ops.get_regs(o->v, &r);
			o->wrong = what[r.rsi & 3];
			break;
		}
	}
	atomic_store(o->over, true); /* no vCPU goes on alone */
	return NULL;
}

/* vCPU @i executes @code. A whole CPU has KVM's clock, at RDI; RSI turns it on. */
static void put_vcpu(struct bed *b, struct one *one, unsigned int i, const uint8_t *code,
		     const uint8_t *end)
{
	struct kvm_regs r = {.rip = BED_CODE + i * 0x1000,
			     .rsp = BED_STACK,
			     .rbx = BED_WIN,
			     .rsi = CLOCK + i * 0x1000 + 1,
			     .rdi = CLOCK + i * 0x1000,
			     .rflags = 2};

	bed_put(b, r.rip, code, end);
	cr_assert_eq(o->vcpu_create(b->vm, i, &one->v), 0);
	o->set_tally(one->v, &one->t);
	bed_whole(one->v, false);
	bed_set_mode(b, one->v, false);
	o->set_regs(one->v, &r);
}

Test(emu_clock, time_never_goes_back)
{
	struct one o[VCPUS] = {0};
	_Atomic bool over = false;
	pthread_t thread[VCPUS];
	struct bed b;

	bed_init(&b);
	cr_assert_eq(vmm_emu_ops.irqchip_create(b.vm), 0);
	for (unsigned int i = 0; i < VCPUS; i++) {
		o[i].over = &over;
		for (unsigned int k = 0; k < VCPUS; k++)
			o[i].seen[k] = (_Atomic uint64_t *)(b.ram + CLOCK + k * 0x1000 + 0x40);
		put_vcpu(&b, &o[i], i, g_time, g_time_end);
	}
	for (unsigned int i = 0; i < VCPUS; i++)
		cr_assert_eq(pthread_create(&thread[i], NULL, time_thread, &o[i]), 0);
	for (unsigned int i = 0; i < VCPUS; i++)
		pthread_join(thread[i], NULL);
	for (unsigned int i = 0; i < VCPUS; i++) {
		cr_expect_null(o[i].wrong, "vCPU %u: %s went back", i, o[i].wrong);
		printf("vCPU %u has seen the other's time %llu times\n", i,
		       (unsigned long long)*o[i].seen[i]);
		vmm_emu_ops.vcpu_destroy(o[i].v);
	}
	bed_stop_vm(&b);
}

/* ---- a VM that was stopped ---- */

#define HANDLER (BED_DATA + 0x8000)
#define PVCLOCK "mov $0x4b564d01,%ecx\nmov %esi,%eax\nxor %edx,%edx\nwrmsr\n"
#define FLAGS	29 /* in struct pvclock_vcpu_time_info */

/* KVM's clock is at RSI. The timer of the local APIC, which is mapped at RBX, is due in 1 ms. */
BED_GUEST(g_timer,
	  PVCLOCK "movl $0x1ff,0xf0(%rbx)\nmovl $0x43,0x320(%rbx)\nmovl $0xb,0x3e0(%rbx)\nsti\n"
		  "1: movl $1000000,0x380(%rbx)\nhlt\njmp 1b\n");
BED_GUEST(g_asleep, PVCLOCK "cli\nhlt\n");
BED_GUEST(g_eoi, "movl $0,0xb0(%rbx)\niretq\n");

static uint64_t waker_now;

static uint64_t on_time(void *arg)
{
	return waker_now;
}

static void on_wake(void *arg, unsigned int id)
{
}

static uint64_t to_hlt(struct one *o)
{
	do {
		o->run.budget = 10000;
		cr_assert_eq(vmm_emu_ops.run(o->v, &o->run), 0);
		cr_assert(o->run.exit == VMM_EXIT_INTR || o->run.exit == VMM_EXIT_HLT, "exit %d",
			  o->run.exit);
	} while (o->run.exit != VMM_EXIT_HLT);
	return o->run.u.hlt.deadline;
}

/* KVM's clock notifies all vCPUs if none was let run for a second after a timer was due, by
 * whatever way the VM goes on. */
Test(emu_clock, a_stopped_vm_is_told)
{
	static const struct vmm_waker waker = {.wake = on_wake, .time = on_time};
	static const struct {
		uint64_t late;
		enum { EXPIRE, ENTER, EXPIRE_EARLY, PAUSE } how;
		bool told;
	} rows[] = {
		{0, EXPIRE, false},	    {999000000, EXPIRE, false},
		{1001000000, EXPIRE, true}, {999000000, ENTER, false},
		{1001000000, ENTER, true},  {1001000000, EXPIRE_EARLY, true},
		{60000000000, PAUSE, true}, {900000000, PAUSE, false},
	};
	struct one o[2] = {0};
	struct bed b;

	waker_now = 1000;
	bed_init(&b);
	*bed_u64(&b, BED_PT) = 0xfee00000 | 3;
	cr_assert_eq(vmm_emu_ops.irqchip_create(b.vm), 0);
	cr_assert_eq(vmm_emu_ops.set_waker(b.vm, &waker), 0);
	BED_PUT(&b, HANDLER, g_eoi);
	bed_gate(&b, 0x43, HANDLER, 0, 0xe);
	put_vcpu(&b, &o[0], 0, g_timer, g_timer_end);
	put_vcpu(&b, &o[1], 1, g_asleep, g_asleep_end);
	to_hlt(&o[1]);
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		uint64_t due = to_hlt(&o[0]), next;

		cr_assert_gt(due, waker_now, "row %zu: due at %llu", i, (unsigned long long)due);
		cr_assert_eq(b.ram[CLOCK + FLAGS], 1, "row %zu: before", i);
		if (rows[i].how == EXPIRE_EARLY) {
			waker_now = due; /* it is woken in time, and gets no pCPU */
			cr_assert_eq(vmm_emu_ops.expire(b.vm, &next), 0);
			cr_assert_eq(b.ram[CLOCK + FLAGS], 1, "row %zu: too early", i);
		}
		waker_now = due + rows[i].late;
		if (rows[i].how == EXPIRE) {
			cr_assert_eq(vmm_emu_ops.expire(b.vm, &next), 0);
		} else if (rows[i].how == PAUSE) {
			cr_assert_eq(vmm_emu_ops.set_waker(b.vm, NULL), 0);
			waker_now += 3600000000000; /* of which the guest's clock sees nothing */
			cr_assert_eq(vmm_emu_ops.set_waker(b.vm, &waker), 0);
		}
		o[0].run.budget = 1;
		cr_assert_eq(vmm_emu_ops.run(o[0].v, &o[0].run), 0);
		for (unsigned int k = 0; k < 2; k++) {
			uint8_t *flags = b.ram + CLOCK + k * 0x1000 + FLAGS;

			cr_assert_eq(*flags, rows[i].told ? 3 : 1, "row %zu, vCPU %u: %u", i, k,
				     *flags);
			*flags = 1; /* as Linux does */
		}
	}
	for (unsigned int i = 0; i < 2; i++)
		vmm_emu_ops.vcpu_destroy(o[i].v);
	bed_stop_vm(&b);
}
