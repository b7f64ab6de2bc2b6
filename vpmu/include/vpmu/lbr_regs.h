/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The state of a CPU's branch record facility: its control bits and the records.
 *
 * Host PMUs save and restore it (hostpmu.h), the emulator makes records in it, lbr.c keeps one
 * per vCPU task that uses branch records, and register models and the CLI read it. Plain data; the
 * users of the records are in lbr.h.
 */
#ifndef VPMU_LBR_REGS_H
#define VPMU_LBR_REGS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define VPMU_LBR_DEPTH_MAX 32

/*
 * Bits of vpmu_lbr_regs.ctl: the layout of IA32_LBR_CTL (SDM vol. 3, 19.1.1; vol. 4, 14CEH). The
 * register models of other vendors translate to it.
 */
#define VPMU_LBR_EN	    (1u << 0)
#define VPMU_LBR_OS	    (1u << 1)
#define VPMU_LBR_USR	    (1u << 2)
#define VPMU_LBR_CALL_STACK (1u << 3)
#define VPMU_LBR_JCC	    (1u << 16)
#define VPMU_LBR_REL_JMP    (1u << 17)
#define VPMU_LBR_IND_JMP    (1u << 18)
#define VPMU_LBR_REL_CALL   (1u << 19)
#define VPMU_LBR_IND_CALL   (1u << 20)
#define VPMU_LBR_RET	    (1u << 21)
#define VPMU_LBR_OTHER	    (1u << 22) /* far transfers, SYSCALL, SYSRET, interrupts, faults */
#define VPMU_LBR_TYPES	    (0x7fu << 16)
#define VPMU_LBR_CALLS	    (VPMU_LBR_REL_CALL | VPMU_LBR_IND_CALL | VPMU_LBR_RET)

/*
 * Bits of vpmu_lbr_entry.info: the layout of IA32_LBR_x_INFO (vol. 4, 1200H).
 *   CYC        cycles since the previous record; saturates at 0FFFFH
 *   CYC_VALID  CYC is valid
 *   TYPE       the branch type: JCC 0, near indirect JMP 1, near relative JMP 2, near indirect
 *              CALL 3, near relative CALL 4, near RET 5, other 8
 */
#define VPMU_LBR_INFO_CYC	 0xffffULL
#define VPMU_LBR_INFO_TYPE_SHIFT 56
#define VPMU_LBR_INFO_TYPE	 (0xfULL << VPMU_LBR_INFO_TYPE_SHIFT)
#define VPMU_LBR_INFO_CYC_VALID	 (1ULL << 60)

/* vpmu_lbr_type_name - the branch type in a record's @info, as all outputs spell it. Pure. */
static inline const char *vpmu_lbr_type_name(uint64_t info)
{
	switch ((info & VPMU_LBR_INFO_TYPE) >> VPMU_LBR_INFO_TYPE_SHIFT) {
	case 0:
		return "jcc";
	case 1:
		return "ind-jmp";
	case 2:
		return "rel-jmp";
	case 3:
		return "ind-call";
	case 4:
		return "rel-call";
	case 5:
		return "ret";
	default:
		return "other";
	}
}

/* The @from of a record whose branch came from a privilege level that is not recorded
 * (vol. 3, 19.1.2.3). */
#define VPMU_LBR_FROM_FILTERED (~0ULL)

struct vpmu_lbr_entry {
	uint64_t from, to, info;
};

/*
 * The whole state of a branch record facility. The records are a ring: the newest is e[head], the
 * one before it is e[head - 1] modulo VPMU_LBR_DEPTH_MAX, and so on. @count of them are valid, and
 * @count <= @depth.
 */
struct vpmu_lbr_regs {
	uint32_t ctl;
	uint8_t depth; /* 8, 16, 24, 32 */
	uint8_t head;
	uint8_t count;
	uint8_t pad;
	uint64_t cycles; /* from the newest record to the save of this state */
	uint64_t total;	 /* records made since the reset, popped and overwritten ones included */
	struct vpmu_lbr_entry e[VPMU_LBR_DEPTH_MAX];
};

/* vpmu_lbr_nth - record @n of @r, where 0 is the newest; NULL if there is none. Pure. */
static inline const struct vpmu_lbr_entry *vpmu_lbr_nth(const struct vpmu_lbr_regs *r,
							unsigned int n)
{
	return n < r->count && n < r->depth
		       ? &r->e[(r->head + VPMU_LBR_DEPTH_MAX - n) % VPMU_LBR_DEPTH_MAX]
		       : NULL;
}

/* vpmu_lbr_ctl_ok - returns true if @ctl has only defined bits, and with CALL_STACK exactly the
 * types of VPMU_LBR_CALLS. Pure. */
static inline bool vpmu_lbr_ctl_ok(uint32_t ctl)
{
	return !(ctl & ~(VPMU_LBR_EN | VPMU_LBR_OS | VPMU_LBR_USR | VPMU_LBR_CALL_STACK |
			 VPMU_LBR_TYPES)) &&
	       (!(ctl & VPMU_LBR_CALL_STACK) || (ctl & VPMU_LBR_TYPES) == VPMU_LBR_CALLS);
}

/*
 * The user of a set of records. A vCPU task can have two sets: the guest's own, enabled through its
 * registers, and the set of the operators that capture it.
 */
enum vpmu_lbr_user { VPMU_LBR_GUEST, VPMU_LBR_HOST, VPMU_LBR_USERS };

#endif
