// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * vmm/emu: VMs with interrupt controllers. Guests of several vCPUs program local APICs in both
 * modes and the I/O APIC, send IPIs and start each other. Everything that is compared repeats
 * exactly, whatever the budgets of run() are. test_emu_chip_time.c has timers and clocks.
 */
#include "chip_bed.h"

TestSuite(emu_chip, .fini = stop_last);

/* ---- registers in memory ---- */

BED_GUEST(
	g_xapic,
	XR(0x20) XR(0x30) XR(0xf0) XR(0xe0) XR(0xd0) XENABLE XW(0xd0, 0x02345678) XR(0xd0)
		XW(0xe0, 0x0fffffff) XR(0xe0)
			XW(0x80, 0x35) "mov %cr8,%rax\nmov %eax,(%rdi)\nadd $4,%rdi\n" XR(0xa0)
				XW(0x80, 0) XW(0x300, 0x40041) XR(0x220)
					XR(0x300) "sti\nnop\n" L(0xa) XR(0x220) XR(0x120)
	/* no such register */ XR(0x40) XW(0x280, 0) XR(0x280)
	/* other sizes: bytes are read, nothing is written */
	"movzbl 0x32(%rbx),%eax\nmov %eax,(%rdi)\nadd $4,%rdi\n"
	"movb $0x77,0x80(%rbx)\nmovl $0x77,0x84(%rbx)\n" XR(0x80)
	/* read-modify-write */
	"orl $0x30,0x80(%rbx)\n" XR(
		0x80) "xchg %eax,0x80(%rbx)\nmovl $0,0x80(%rbx)\n"
		      /* nothing there */
		      "mov 0x2000(%rbx),%eax\nmov %eax,(%rdi)\nadd $4,%rdi\nmovl $1,0x2000(%rbx)\n"
		      "hlt\n");

Test(emu_chip, xapic)
{
	for (uint64_t budget = 1; budget < 100; budget = budget * 3 + 1) {
		RUN(&c, g_xapic, budget);
		EXPECT(&c, 0, 0, 0x60014, 0xff, 0xffffffff, 0, 0x02000000, 0x0fffffff, 3, 0x35, 2,
		       0x40041, 0x41, 0xa, 0, 0, 0, 0x80, 6, 0, 0x30, 0xffffffff);
	}
}

/* String instructions on device memory; errors that name the address. */
BED_GUEST(g_strings,
	  XENABLE "lea 0x30(%rbx),%rsi\nmov $1,%ecx\nrep movsl\n"
		  "mov $0x55,%eax\npush %rdi\nlea 0x80(%rbx),%rdi\nmov $1,%ecx\nrep stosl\n"
		  "pop %rdi\n" XR(0x80) "hlt\n");
BED_GUEST(g_stack, "lea 0x100(%rbx),%rsp\nint $0x50\n");
BED_GUEST(g_fetch, "jmp *%rbx\n");
BED_GUEST(g_cmpxchg16, "lea 0x100(%rbx),%rsi\nlock cmpxchg16b (%rsi)\n");

Test(emu_chip, odd_accesses)
{
	static const uint8_t *const bad[][2] = {
		{g_stack, g_stack_end}, {g_fetch, g_fetch_end}, {g_cmpxchg16, g_cmpxchg16_end}};

	RUN(&c, g_strings, 0);
	EXPECT(&c, 0, 0x60014, 0x55);
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		put(&c, 0, bad[i][0], bad[i][1]);
		cr_assert_eq(o->run(c.v[0], &c.run[0]), 0);
		cr_assert_eq(c.run[0].exit, VMM_EXIT_ERROR, "case %zu: exit %d", i, c.run[0].exit);
		cr_assert(strstr(c.run[0].u.error.msg, "no RAM"), "%s", c.run[0].u.error.msg);
	}
}

/* ---- IPIs ---- */

/* vCPUs 1 to 3 wait in HLT; what comes to them is in their logs. */
BED_GUEST(g_idle, XENABLE "sti\n1: hlt\njmp 1b\n");
BED_GUEST(g_idle_x2, W(0x1b, 0xfee00c00) ENABLE "sti\n1: hlt\njmp 1b\n");

struct ipi_row {
	int line;
	uint32_t high, low; /* of the ICR */
	unsigned int fixed; /* bit per vCPU that gets vector 0x60 */
	unsigned int nmi;
};

/* vCPU 0 sends; its code is made for each IPI. */
static void send_ipi(struct chip_bed *c, uint32_t high, uint32_t low)
{
	uint8_t code[] = {0xc7, 0x83, 0x10, 0x03, 0, 0, 0, 0, 0, 0, /* movl $,0x310(%rbx) */
			  0xc7, 0x83, 0x00, 0x03, 0, 0, 0, 0, 0, 0, /* movl $,0x300(%rbx) */
			  0x90, 0xf4};

	memcpy(code + 6, &high, 4);
	memcpy(code + 16, &low, 4);
	put(c, 0, code, code + sizeof(code));
	to_hlt(c, 0, 0);
}

/* The last entry in the log of vCPU @i, and begin a new log. 0: nothing came. */
static uint32_t logged(struct chip_bed *c, unsigned int i)
{
	struct kvm_regs r;
	uint32_t got = 0;

	o->get_regs(c->v[i], &r);
	if (r.rdi > LOG(i))
		memcpy(&got, c->b.ram + LOG(i), 4);
	cr_assert_leq(r.rdi, LOG(i) + 4);
	memset(c->b.ram + LOG(i), 0, 8);
	return got;
}

/* Let vCPU @i run with an empty log, as if it had been so all the time. */
static uint32_t comes(struct chip_bed *c, unsigned int i)
{
	struct kvm_regs r;
	uint32_t got;

	to_hlt(c, i, 0);
	got = logged(c, i);
	o->get_regs(c->v[i], &r);
	if (got) {
		put(c, i, g_idle, g_idle_end);
		to_hlt(c, i, 0);
	}
	return got;
}

Test(emu_chip, ipis)
{
	static const struct ipi_row rows[] = {
		{__LINE__, 2u << 24, 0x60, 1u << 2, 0},
		{__LINE__, 7u << 24, 0x60, 0, 0},
		{__LINE__, 0, 0xc0060, 0xe, 0}, /* all but self */
		{__LINE__, 0xffu << 24, 0xc0060, 0xe, 0},
		{__LINE__, 3u << 24, 0x460, 0, 1u << 3}, /* NMI */
		{__LINE__, 0, 0xc0460, 0, 0xe},
		{__LINE__, 0xau << 24, 0x860, 0xa, 0}, /* logical, flat: LDR is 1 << ID */
		{__LINE__, 0x6u << 24, 0x860, 0x6, 0},
		{__LINE__, 0xau << 24, 0xc60, 0, 0xa},
		{__LINE__, 0, 0x860, 0, 0},
		{__LINE__, 0xeu << 24, 0x960, 1u << 1, 0}, /* lowest priority: one, by the vector */
		{__LINE__, 0xcu << 24, 0x961, 1u << 3, 0},
		{__LINE__, 2u << 24, 0x260, 0, 0},  /* SMI */
		{__LINE__, 2u << 24, 0x760, 0, 0},  /* ExtINT */
		{__LINE__, 2u << 24, 0x8560, 0, 0}, /* INIT, de-assert */
		{__LINE__, 2u << 24, 0x640, 0, 0},  /* SIPI to one that does not wait for it */
	};

	start_with(&c, 4, true);
	for (unsigned int i = 1; i < 4; i++) {
		uint32_t ldr = 1u << (24 + i);

		PUT(&c, i, g_idle);
		to_hlt(&c, i, 0);
		((struct emu_vcpu *)c.v[i])->lapic.ldr = ldr;
		emu_chip_address((struct emu_vcpu *)c.v[i]);
	}
	for (size_t k = 0; k < sizeof(rows) / sizeof(rows[0]); k++) {
		memset(c.woken, 0, sizeof(c.woken));
		send_ipi(&c, rows[k].high, rows[k].low);
		for (unsigned int i = 1; i < 4; i++) {
			uint32_t want = rows[k].fixed >> i & 1 ? rows[k].low & 0xff
					: rows[k].nmi >> i & 1 ? 2
							       : 0;

			/* One that does not wait for a start-up IPI looks at it and drops it. */
			if ((rows[k].low >> 8 & 7) == 6)
				c.woken[i] = 0;
			cr_assert_eq(c.woken[i], want != 0, "line %d: vCPU %u woken %u times",
				     rows[k].line, i, c.woken[i]);
			cr_assert_eq(comes(&c, i), want, "line %d: vCPU %u", rows[k].line, i);
		}
	}
}

/* To itself, in both modes and all ways; ESR. */
BED_GUEST(g_self, XENABLE "sti\n" XW(0x300, 0x40061) "nop\n" L(1) XW(0x300, 0x80062) "nop\n" L(2)
			  XW(0x310, 0) XW(0x300, 0x63) "nop\n" L(3) XW(0x310, 0xff000000)
				  XW(0x300, 0x64) "nop\n" L(4) XW(0x300, 0x80460) "nop\n" L(5)
					  XW(0x300, 0x40003) XW(0x280, 0) XR(0x280)
	  /* x2APIC mode: the page goes, the MSRs come */
	  W(0x1b, 0xfee00d00) R(0x80f)
		  R(0x80d) "mov 0x20(%rbx),%eax\nmov %eax,(%rdi)\nadd $4,%rdi\n" R(0x802)
			  W(0x83f, 0x65) "nop\n" L(6) W(0x80b, 0) "cli\nhlt\n");

Test(emu_chip, self)
{
	RUN(&c, g_self, 0);
	EXPECT(&c, 0, 0x61, 1, 0x62, 2, 0x63, 3, 0x64, 4, 2, 5, 0x60, 0x1ff, 1, 0xffffffff, 0, 0x65,
	       6);
}

/* While an NMI is handled one more is kept and others are lost. One that ends in between is not. */
#define NMI XW(0x300, 0x400)
BED_GUEST(g_nmis, XENABLE XW(0x310, 0) "xor %esi,%esi\n" NMI L(1) NMI L(3) "hlt\n");
BED_GUEST(g_nmi, L(2) "inc %esi\ncmp $1,%esi\njne 1f\n" NMI NMI NMI NMI L(7) "1: iretq\n");

Test(emu_chip, nmis)
{
	for (uint64_t budget = 1; budget < 100; budget = budget * 3 + 1) {
		start(&c, 1);
		PUT(&c, 0, g_nmis);
		BED_PUT(&c.b, HANDLERS + 0x8000, g_nmi);
		bed_gate(&c.b, 2, HANDLERS + 0x8000, 0, 0xe);
		to_hlt(&c, 0, budget);
		EXPECT(&c, 0, 2, 7, 2, 1, 2, 3);
	}
}

/* A snapshot of a version that kept two can be loaded. */
Test(emu_chip, nmis_of_a_former_version)
{
	uint8_t state[4096];
	struct emu_vcpu *v;
	size_t n = sizeof(state);

	start(&c, 1);
	PUT(&c, 0, g_nmis);
	v = (struct emu_vcpu *)c.v[0];
	v->nmi_masked = v->nmi_pending = v->lapic.nmi = true;
	cr_assert_eq(o->get_state(c.v[0], state, &n), 0);
	cr_assert_eq(o->set_state(c.v[0], state, n), 0);
	to_hlt(&c, 0, 0);
	EXPECT(&c, 0, 1, 3);
	cr_assert(v->nmi_masked && v->nmi_pending && !v->lapic.nmi);
}

/* x2APIC: 32-bit destinations, clusters, to vCPUs in either mode. */
BED_GUEST(g_x2_send, W(0x1b, 0xfee00d00) ENABLE
	  "mov $0x830,%ecx\nmov $0x60,%eax\nmov $1,%edx\nwrmsr\n" /* physical, 1 */
	  "mov $0x860,%eax\nmov $6,%edx\nwrmsr\n"		  /* cluster 0, members 1 and 2 */
	  "mov $0x861,%eax\nmov $0x10006,%edx\nwrmsr\n"		  /* cluster 1: no vCPU */
	  "mov $0x62,%eax\nmov $0xff,%edx\nwrmsr\n"		  /* ID 255: no vCPU */
	  "mov $0x463,%eax\nmov $-1,%edx\nwrmsr\n"		  /* NMI to everybody */
	  "hlt\n");

Test(emu_chip, x2apic)
{
	struct emu_vcpu *v;

	start(&c, 3);
	PUT(&c, 1, g_idle_x2);
	PUT(&c, 2, g_idle_x2);
	to_hlt(&c, 1, 0);
	to_hlt(&c, 2, 0);
	PUT(&c, 0, g_x2_send);
	to_hlt(&c, 0, 0);
	for (unsigned int i = 1; i < 3; i++) {
		v = (struct emu_vcpu *)c.v[i];
		cr_assert(c.woken[i]);
		cr_assert_eq(v->plat.posted[3], 1, "vCPU %u: %#x", i, v->plat.posted[3]);
		cr_assert_eq(v->plat.posted[2], 0);
		cr_assert_eq(v->plat.signals, EMU_POST_NMI);
	}
	EXPECT(&c, 0, 2);
}

/* A message that comes when the vCPU has decided to sleep and does not sleep yet. */
BED_GUEST(g_late, XENABLE IO(0x1a, 0x62) IO(0x1b, 0) "sti\nmovl $1,0x300800\n1: hlt\njmp 1b\n");

static void *late_thread(void *arg)
{
	to_hlt(arg, 0, 0);
	return NULL;
}

Test(emu_chip, message_while_falling_asleep)
{
	struct timespec nap = {.tv_nsec = 20000000};
	struct emu_chip *chip;
	_Atomic uint32_t *there;
	pthread_t thread;

	start(&c, 1);
	PUT(&c, 0, g_late);
	chip = ((struct emu_vm *)c.b.vm)->chip;
	there = (_Atomic uint32_t *)(c.b.ram + 0x300800);
	/* It must take the lock to fall asleep. */
	pthread_mutex_lock(&chip->lock);
	cr_assert_eq(pthread_create(&thread, NULL, late_thread, &c), 0);
	while (!atomic_load(there))
		;
	nanosleep(&nap, NULL);
	cr_assert_eq(o->irq_line(c.b.vm, 5, true), 0);
	pthread_mutex_unlock(&chip->lock);
	pthread_join(thread, NULL);
	cr_assert_eq(c.woken[0], 0, "it did not sleep");
	EXPECT(&c, 0, 0x62);
}

/* INIT and start-up IPIs. */
Test(emu_chip, start_up)
{
	struct kvm_sregs s;
	struct kvm_regs r;

	start(&c, 2);
	/* It waits; an NMI and an interrupt do not start it. */
	cr_assert_eq(run(&c, 1, 0), VMM_EXIT_HLT);
	cr_assert(c.run[1].u.hlt.waits);
	send_ipi(&c, 1u << 24, 0x460);
	while (run(&c, 1, 0) == VMM_EXIT_INTR)
		;
	cr_assert_eq(c.run[1].exit, VMM_EXIT_HLT);
	memset(c.woken, 0, sizeof(c.woken));
	send_ipi(&c, 1u << 24, 0x4500);
	send_ipi(&c, 1u << 24, 0x4612);
	send_ipi(&c, 1u << 24, 0x4634); /* the second is lost */
	cr_assert_geq(c.woken[1], 1);
	/* Table 9-1; vector 12H begins at 12000H, in real mode, which this engine does not run. */
	cr_assert_eq(o->run(c.v[1], &c.run[1]), 0);
	o->get_sregs(c.v[1], &s);
	o->get_regs(c.v[1], &r);
	cr_assert_eq(s.cs.base, 0x12000);
	cr_assert_eq(s.cs.selector, 0x1200);
	cr_assert_eq(s.cs.limit, 0xffff);
	cr_assert_eq(r.rdx, 0x50654);
	cr_assert_eq(r.rax | r.rsp | r.rdi, 0);
	cr_assert_eq(r.rflags, 2);
	cr_assert_eq(s.cr0, 0x60000010);
	cr_assert_eq(s.cr3 | s.cr4 | s.efer, 0);
	/* A running one: INIT stops it, registers go, MSRs and the APIC's mode stay. */
	PUT(&c, 1, g_idle_x2);
	to_hlt(&c, 1, 0);
	send_ipi(&c, 1u << 24, 0x4500);
	while (run(&c, 1, 0) == VMM_EXIT_INTR)
		;
	cr_assert_eq(c.run[1].exit, VMM_EXIT_HLT);
	o->get_sregs(c.v[1], &s);
	cr_assert_eq(s.apic_base, 0xfee00c00);
	cr_assert_eq(s.cr0 & 0x80000001, 0);
	cr_assert_eq(((struct emu_vcpu *)c.v[1])->lapic.svr, 0xff);
	cr_assert(((struct emu_vcpu *)c.v[1])->plat.wait_sipi);
}

/* ---- the I/O APIC ---- */

BED_GUEST(g_ioapic, XENABLE IOR(1) IO(0x18, 0x8061) IO(0x19, 0) /* pin 4: level, to APIC 0 */
	  IO(0x1a, 0x62) IO(0x1b, 0)				/* pin 5: edge */
	  IO(0x1c, 0x10063)					/* pin 6: edge, masked */
	  "sti\n1: hlt\n" IOR(0x18) XR(0x1b0) "jmp 1b\n");

Test(emu_chip, ioapic)
{
	RUN(&c, g_ioapic, 0);
	cr_assert(c.run[0].u.hlt.waits, "a device can wake it");
	cr_assert_eq(o->irq_line(c.b.vm, 24, true), -ENXIO);
	/* Masked: nothing. Edge: once. */
	cr_assert_eq(o->irq_line(c.b.vm, 6, true), 0);
	cr_assert_eq(c.woken[0], 0);
	cr_assert_eq(o->irq_line(c.b.vm, 5, true), 0);
	cr_assert_eq(o->irq_line(c.b.vm, 5, true), 0);
	cr_assert_eq(c.woken[0], 1);
	to_hlt(&c, 0, 0);
	EXPECT(&c, 0, 0x170011, 0x62, 0x8061, 0);
	/* Level: again and again while it is asserted. */
	cr_assert_eq(o->irq_line(c.b.vm, 4, true), 0);
	cr_assert_eq(c.woken[0], 2);
	cr_assert_eq(run(&c, 0, 40), VMM_EXIT_BUDGET);
	cr_assert_eq(o->irq_line(c.b.vm, 4, false), 0);
	to_hlt(&c, 0, 0);
	{
		uint32_t log[64];
		struct kvm_regs r;
		size_t n;

		o->get_regs(c.v[0], &r);
		n = (r.rdi - LOG(0)) / 4;
		memcpy(log, c.b.ram + LOG(0), sizeof(log));
		for (size_t i = 4; i < n && log[i] != 0x8061 && log[i] != 0xc061; i++)
			cr_assert_eq(log[i], 0x61);
		cr_assert_gt(n, 8, "%zu entries", n);
		cr_assert_eq(log[n - 2], 0x8061, "remote IRR is clear at the end: %#x", log[n - 2]);
	}
}

/* ---- state ---- */

static void move_vm(struct chip_bed *from, struct chip_bed *to)
{
	static uint8_t buf[4096];
	size_t n = sizeof(buf);

	start(to, from->nr);
	memcpy(to->b.ram, from->b.ram, BED_RAM);
	cr_assert_eq(o->get_vm_state(from->b.vm, buf, &n), 0);
	cr_assert_eq(o->set_vm_state(to->b.vm, buf, n), 0);
	for (unsigned int i = 0; i < from->nr; i++) {
		struct bed a = vcpu_bed(from, i), b = vcpu_bed(to, i);

		bed_copy(&a, &b);
		to->t[i] = from->t[i];
	}
	memcpy(to->run, from->run, sizeof(to->run));
}

/* Moved to another VM at every few instructions: the same log. */
static void moved(const uint8_t *code, const uint8_t *end, uint64_t step)
{
	struct chip_bed a, b;

	start(&a, 1);
	put(&a, 0, code, end);
	to_hlt(&a, 0, 0);
	start(&b, 1);
	put(&b, 0, code, end);
	while (run(&b, 0, step) == VMM_EXIT_BUDGET) {
		struct chip_bed next;

		move_vm(&b, &next);
		stop(&b);
		b = next;
		o->set_tally(b.v[0], &b.t[0]);
		b.time = 1000;
		set_waker(&b);
	}
	cr_assert_eq(memcmp(a.b.ram + LOG(0), b.b.ram + LOG(0), 256), 0);
	cr_assert_eq(memcmp(a.t[0].ev, b.t[0].ev, sizeof(a.t[0].ev)), 0);
	stop(&a);
	stop(&b);
}

Test(emu_chip, moved)
{
	moved(g_xapic, g_xapic_end, 1);
	moved(g_self, g_self_end, 1);
	moved(g_oneshot, g_oneshot_end, 701);
	moved(g_periodic, g_periodic_end, 977);
	moved(g_deadline, g_deadline_end, 499);
}

/* Saved while it waits in HLT for its timer: the other VM waits for the rest. */
Test(emu_chip, moved_in_hlt)
{
	struct chip_bed a, b;
	uint64_t next = 0, left;
	uint32_t log[3];

	RUN(&a, g_wait, 0);
	a.time += 400000;
	left = a.run[0].u.hlt.deadline - a.time;
	o->set_waker(a.b.vm, NULL);
	a.time += 1000000000; /* no time passes for a VM that is being saved */
	move_vm(&a, &b);
	stop(&a);
	b.time = 77;
	set_waker(&b);
	to_hlt(&b, 0, 0);
	cr_assert(b.run[0].u.hlt.waits);
	cr_assert_eq(b.run[0].u.hlt.deadline, 77 + left);
	b.time = b.run[0].u.hlt.deadline;
	cr_assert_eq(o->expire(b.b.vm, &next), 0);
	cr_assert_eq(b.woken[0], 1);
	to_hlt(&b, 0, 0);
	memcpy(log, b.b.ram + LOG(0), sizeof(log));
	cr_assert(log[0] == 0x43 && log[1] == 1, "%#x %u", log[0], log[1]);
	cr_assert(log[2] > 1000000 && log[2] < 1002000, "%u", log[2]);
	stop(&b);
}

/* For AddressSanitizer the size of a change matters less. */
#ifdef VPMU_FEWER
enum { MORE = 10 };
#else
enum { MORE = 0 };
#endif

/* The state of the VM (@which: 0) or of vCPU @which - 1. */
static size_t get_state(unsigned int which, uint8_t *buf)
{
	size_t n = BED_STATE;

	cr_assert_eq(which ? o->get_state(c.v[which - 1], buf, &n)
			   : o->get_vm_state(c.b.vm, buf, &n),
		     0);
	return n;
}

static int set_state(unsigned int which, const uint8_t *buf, size_t n)
{
	return which ? o->set_state(c.v[which - 1], buf, n) : o->set_vm_state(c.b.vm, buf, n);
}

/* Every byte of both states changed: refused, or saved again with the same bytes. */
Test(emu_chip, hostile_states)
{
	static uint8_t was[BED_STATE], buf[BED_STATE], again[BED_STATE];
	unsigned int refused = 0, loaded = 0;
	size_t n;

	start(&c, 2);
	PUT(&c, 0, g_periodic);
	cr_assert_eq(run(&c, 0, 20000), VMM_EXIT_BUDGET);
	send_ipi(&c, 1u << 24, 0x4612);
	for (unsigned int vm = 0; vm < 3; vm++) {
		n = get_state(vm, was);
		for (size_t i = 0; i < n; i++)
			for (unsigned int x = 0; x < 256; x += 1 + i % 3 + MORE) {
				int ret;

				memcpy(buf, was, n);
				buf[i] = (uint8_t)x;
				ret = set_state(vm, buf, n);
				cr_assert(ret == 0 || ret == -EINVAL);
				cr_assert(get_state(vm, again) == n &&
						  !memcmp(again, ret ? was : buf, n),
					  "state %u, byte %zu = %#x: %d", vm, i, x, ret);
				if (!ret)
					cr_assert_eq(set_state(vm, was, n), 0);
				refused += ret != 0;
				loaded += !ret;
			}
		for (size_t len = 0; len < n; len++)
			cr_assert_eq(set_state(vm, was, len), -EINVAL);
	}
	cr_assert_gt(refused, 1000);
	cr_assert_gt(loaded, 1000);
}
