// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * See contest_l2.h. The accesses to the PMU and their order are those of Linux's driver for AMD
 * (arch/x86/events/amd/core.c): of a context switch, of a change of multiplexed events, and of a
 * PMI. Everything is in the section l2, and nothing refers to anything outside of it.
 */
#include "tests/nested/contest_l2.h"

#define L2_TEXT __attribute__((section("l2"), used))
#define L2	static inline __attribute__((always_inline))

/* APM vol. 2, 13.2; x2APIC's registers by MSR. */
#define CTL(i)	   (0xc0010200u + 2 * (i))
#define CTR(i)	   (0xc0010201u + 2 * (i))
#define STATUS	   0xc0000300u
#define GLOBAL_CTL 0xc0000301u
#define STATUS_CLR 0xc0000302u
#define EN	   (1ULL << 22)
#define WIDTH	   ((1ULL << 48) - 1)
#define HALF	   (1ULL << 47)
#define APIC_BASE  0x1bu
#define APIC_SVR   0x80fu
#define APIC_LVTPC 0x834u
#define LVT_NMI	   0x400u

__asm__(".pushsection l2,\"ax\",@progbits\n"
	".globl l2_start, l2_nmi\n"
	"l2_start:\n"
	"	mov $0x7000, %edi\n"
	"	call l2_main\n"
	"l2_nmi:\n"
	"	push %rax\n push %rcx\n push %rdx\n push %rsi\n push %rdi\n push %r8\n"
	"	push %r9\n push %r10\n push %r11\n"
	"	mov $0x7000, %edi\n"
	"	cld\n call l2_pmi\n"
	"	pop %r11\n pop %r10\n pop %r9\n pop %r8\n pop %rdi\n pop %rsi\n"
	"	pop %rdx\n pop %rcx\n pop %rax\n"
	"	iretq\n"
	".popsection\n");

L2 uint64_t l2_rd(uint32_t msr)
{
	uint32_t lo, hi;

	__asm__ volatile("rdmsr" : "=a"(lo), "=d"(hi) : "c"(msr) : "memory");
	return lo | (uint64_t)hi << 32;
}

L2 void l2_wr(uint32_t msr, uint64_t x)
{
	__asm__ volatile("wrmsr"
			 :
			 : "c"(msr), "a"((uint32_t)x), "d"((uint32_t)(x >> 32))
			 : "memory");
}

/* As native_read_pmc(). Not inline: a kernel's code around it is not data. */
L2_TEXT __attribute__((noinline)) static uint64_t l2_rdpmc(uint32_t i)
{
	uint64_t lo, hi;

	__asm__ volatile("rdpmc\n shl $32, %%rdx\n" : "=a"(lo), "=d"(hi) : "c"(i) : "memory");
	return lo | hi;
}

L2 void l2_out(uint16_t port)
{
	__asm__ volatile("outb %%al, %%dx" : : "a"(0), "d"(port) : "memory");
}

L2 void l2_loop(uint64_t n)
{
	__asm__ volatile("1: dec %0\n jnz 1b" : "+r"(n) : : "cc", "memory");
}

/* Stops all counters, and looks for an overflow of each of the @n that are on. Without global
 * registers each is stopped. */
L2 void l2_disable(const volatile struct l2_job *j, uint32_t n)
{
	if (j->v2)
		l2_wr(GLOBAL_CTL, 0);
	for (uint32_t i = 0; !j->v2 && i < n; i++) {
		uint64_t x = l2_rd(CTL(i));

		if (x & EN)
			l2_wr(CTL(i), x & ~EN);
	}
	for (uint32_t i = 0; i < n; i++)
		l2_rd(j->v2 ? STATUS : CTR(i));
}

L2 void l2_enable(const volatile struct l2_job *j, uint32_t from, uint32_t n)
{
	for (uint32_t i = 0; !j->v2 && i < n; i++)
		l2_wr(CTL(i), j->select[(from + i) % j->events] | EN);
	if (j->v2)
		l2_wr(GLOBAL_CTL, (1u << L2_COUNTERS) - 1);
}

/* While all are stopped: @n events from number @from on get counters from 0 on. */
L2 void l2_add(const volatile struct l2_job *j, uint32_t from, uint32_t n)
{
	for (uint32_t i = 0; i < n; i++) {
		uint32_t e = (from + i) % j->events;

		l2_wr(CTR(i), j->value[e]);
		if (j->v2)
			l2_wr(CTL(i), j->select[e] | EN);
	}
	l2_wr(APIC_LVTPC, LVT_NMI);
}

/* While all are stopped: those events give their counters up. */
L2 void l2_del(volatile struct l2_job *j, uint32_t from, uint32_t n)
{
	for (uint32_t i = 0; i < n; i++) {
		uint32_t e = (from + i) % j->events;
		uint64_t v;

		l2_wr(CTL(i), j->select[e]);
		l2_rd(j->v2 ? STATUS : CTR(i));
		v = l2_rdpmc(i);
		j->count[e] += (v - j->value[e]) & WIDTH;
		j->value[e] = v;
	}
}

/* A context switch to the task of the events, and from it. */
L2 void l2_in(const volatile struct l2_job *j, uint32_t from, uint32_t n)
{
	l2_disable(j, 0);
	l2_add(j, from, n);
	l2_enable(j, from, n);
}

L2 void l2_off(volatile struct l2_job *j, uint32_t from, uint32_t n)
{
	l2_disable(j, n);
	l2_del(j, from, n);
	l2_enable(j, from, 0);
}

/* The timer of multiplexing: all move by one. */
L2 uint32_t l2_rotate(volatile struct l2_job *j, uint32_t from, uint32_t n)
{
	uint32_t next = (from + 1) % j->events;

	l2_disable(j, n);
	l2_del(j, from, n);
	l2_add(j, next, n);
	l2_enable(j, next, n);
	return next;
}

L2_TEXT static void l2_pmi(volatile struct l2_job *j)
{
	uint64_t status = 0, v;

	j->pmis++;
	if (j->v2) {
		l2_wr(GLOBAL_CTL, 0);
		status = l2_rd(STATUS);
	} else {
		l2_wr(APIC_LVTPC, LVT_NMI);
	}
	v = l2_rdpmc(0);
	if (v & HALF) {
		j->none++;
	} else {
		j->count[0] += (v - j->value[0]) & WIDTH;
		l2_wr(CTR(0), j->value[0]);
	}
	if (!j->v2)
		return;
	if (status)
		l2_wr(STATUS_CLR, ~(status & ~1ULL));
	l2_wr(GLOBAL_CTL, (1u << L2_COUNTERS) - 1);
}

L2_TEXT static void l2_main(volatile struct l2_job *j)
{
	l2_wr(APIC_BASE, l2_rd(APIC_BASE) | 0xc00);
	l2_wr(APIC_SVR, 0x1ff);
	l2_wr(APIC_LVTPC, LVT_NMI);
	for (;;) {
		uint32_t n, from = 0;

		l2_out(L2_PORT_DONE);
		n = j->events < L2_COUNTERS ? j->events : L2_COUNTERS;
		for (uint32_t i = 0; i < j->events; i++)
			j->value[i] = j->row == L2_SAMPLE ? -j->period & WIDTH : HALF + 1;
		if (j->row == L2_ROTATE || j->row == L2_SAMPLE)
			l2_in(j, from, n);
		for (uint64_t u = 0; u < j->units; u++) {
			if (j->row == L2_COUNT)
				l2_in(j, from, n);
			l2_loop(j->loop);
			if (j->row == L2_COUNT)
				l2_off(j, from, n);
			if (j->row == L2_ROTATE)
				from = l2_rotate(j, from, n);
			l2_out(L2_PORT_UNIT);
		}
		if (j->row == L2_ROTATE || j->row == L2_SAMPLE)
			l2_off(j, from, n);
	}
}
