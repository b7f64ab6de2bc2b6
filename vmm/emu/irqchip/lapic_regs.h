/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Numbers and bits of the local APIC's registers (SDM vol. 3, 11.4 to 11.12), and the functions
 * that lapic.c shares with lapic_mmio.c. No other file includes this header. */
#pragma once

#include "vmm/emu/irqchip/lapic.h"

enum { LVT_CMCI, LVT_TIMER, LVT_THERMAL, LVT_PERF, LVT_LINT0, LVT_LINT1, LVT_ERROR, LVTS };

/* MSRs, as offsets from LAPIC_MSR_BASE. */
enum {
	REG_ID = 0x02,
	REG_VERSION = 0x03,
	REG_TPR = 0x08,
	REG_PPR = 0x0a,
	REG_EOI = 0x0b,
	REG_LDR = 0x0d,
	REG_DFR = 0x0e, /* xAPIC mode only */
	REG_SVR = 0x0f,
	REG_ISR = 0x10, /* 8 each */
	REG_TMR = 0x18,
	REG_IRR = 0x20,
	REG_ESR = 0x28,
	REG_CMCI = 0x2f,
	REG_ICR = 0x30,
	REG_ICR_HIGH = 0x31, /* xAPIC mode only */
	REG_LVT = 0x32,	     /* timer, thermal, performance, LINT0, LINT1, error */
	REG_INITIAL = 0x38,
	REG_CURRENT = 0x39,
	REG_DIVIDE = 0x3e,
	REG_SELF_IPI = 0x3f
};

/* An integrated APIC (10H..15H) with LVTS entries, 11.4.8. */
#define VERSION (0x14u | (LVTS - 1) << 16)

#define SVR_ENABLE   (1u << 8)
#define SVR_WRITABLE 0x1ffu /* no focus checking, no EOI-broadcast suppression: 11.9 */

#define LVT_MASK     (1u << 16)
#define LVT_STATUS   (1u << 12) /* delivery status: read-only 0, delivery is immediate */
#define LVT_IRR	     (1u << 14) /* LINT: likewise read-only */
#define LVT_VECTOR   0xffu
#define LVT_MODE     (7u << 8)
#define MODE_FIXED   (0u << 8)
#define MODE_LOWEST  (1u << 8)
#define MODE_NMI     (4u << 8)
#define LVT_POLARITY (1u << 13)
#define LVT_TRIGGER  (1u << 15)
#define LVT_PERIODIC (1u << 17)
#define LVT_DEADLINE (1u << 18)

#define ESR_REDIRECTIBLE (1u << 4)
#define ESR_SEND	 (1u << 5)
#define ESR_RECEIVE	 (1u << 6)
#define ESR_REGISTER	 (1u << 7) /* no such register; in xAPIC mode only */
#define ESR_ALL		 (ESR_REDIRECTIBLE | ESR_SEND | ESR_RECEIVE)

#define ICR_WRITABLE	 0xffffffff000ccfffULL
#define ICR_STATUS	 (1ULL << 12) /* gone in x2APIC mode (11.12.9); processors ignore it */
#define ICR_LOGICAL	 (1u << 11)
#define ICR_SHORTHAND	 (3u << 18)
#define SHORTHAND_NONE	 (0u << 18)
#define SHORTHAND_SELF	 (1u << 18)
#define SHORTHAND_ALL	 (2u << 18)
#define SHORTHAND_OTHERS (3u << 18)
#define ICR_TRIGGER	 (1u << 15)
#define ICR_LEVEL	 (1u << 14)
#define ICR_BROADCAST	 0xffffffffu
#define MODE_INIT	 (5u << 8)
#define MODE_SIPI	 (6u << 8)
#define DFR_FLAT	 0xffffffffu
#define DIVIDE_WRITABLE	 0xbu

#define FIRST_VECTOR 16 /* 11.5.2: those below are illegal */

static inline bool lapic_enabled(const struct lapic *l)
{
	return l->svr & SVR_ENABLE;
}

/* lapic.c */
void lapic_error(struct lapic *l, uint32_t bits);
/* lapic_writable - the bits of @reg that can
 * be written in x2APIC mode without #GP, or -1; lapic_lvt_writable - those of LVT entry @i.
 * lapic_write - write @val, of these bits only, to a writable @reg. */
int64_t lapic_writable(const struct lapic *l, uint32_t reg);
uint32_t lapic_lvt_writable(const struct lapic *l, int i);
void lapic_write(struct lapic *l, uint32_t reg, uint32_t val);
void lapic_send(struct lapic *l, uint64_t icr);
