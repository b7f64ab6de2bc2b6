/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The machine as freestanding guests of tests/preload see it: ports, MSRs, the serial port; in
 * 64-bit code the table of interrupts, too. */
#ifndef PRELOAD_MACHINE_H
#define PRELOAD_MACHINE_H

#include <stdint.h>

#define COM1	  0x3f8
#define DEBUGEXIT 0xf4 /* isa-debug-exit: QEMU's status is 2 * value + 1 */

static void outb(uint16_t port, uint8_t v)
{
	__asm__ volatile("outb %0, %1" ::"a"(v), "Nd"(port));
}

static uint8_t inb(uint16_t port)
{
	uint8_t v;

	__asm__ volatile("inb %1, %0" : "=a"(v) : "Nd"(port));
	return v;
}

static uint64_t rdmsr(uint32_t msr)
{
	uint32_t lo, hi;

	__asm__ volatile("rdmsr" : "=a"(lo), "=d"(hi) : "c"(msr));
	return (uint64_t)hi << 32 | lo;
}

static void wrmsr(uint32_t msr, uint64_t v)
{
	__asm__ volatile("wrmsr" ::"c"(msr), "a"((uint32_t)v), "d"((uint32_t)(v >> 32)) : "memory");
}

static uint64_t rdtsc(void)
{
	uint32_t lo, hi;

	__asm__ volatile("rdtsc" : "=a"(lo), "=d"(hi));
	return (uint64_t)hi << 32 | lo;
}

static void put(const char *s)
{
	for (; *s; s++) {
		while (!(inb(COM1 + 5) & 0x20))
			;
		outb(COM1, (uint8_t)*s);
	}
}

#ifdef __x86_64__
static struct {
	uint16_t off_low, selector, type, off_mid;
	uint32_t off_high, zero;
} idt[256];

static void gate(unsigned int vector, void (*handler)(void))
{
	uint64_t at = (uintptr_t)handler;

	idt[vector].off_low = (uint16_t)at;
	idt[vector].selector = 8;
	idt[vector].type = 0x8e00;
	idt[vector].off_mid = (uint16_t)(at >> 16);
}
#endif

#endif
