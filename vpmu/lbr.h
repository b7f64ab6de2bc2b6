/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Last branch records of vCPU tasks.
 *
 * A CPU has one branch record facility (struct vpmu_lbr_regs is its whole state). While a task
 * that uses it runs, the records are in the CPU; otherwise they are in the task's data, which
 * exist only while somebody uses them: the guest itself (VPMU_LBR_GUEST), or operators who capture
 * (VPMU_LBR_HOST: all of them share one). What the CPU records for the running task is the guest's
 * choice while the guest has it enabled, else the operators'. So a guest's own records are never
 * touched by a capture, and a capture made while the guest records shows what the guest records.
 *
 * The data of a task are one RCU pointer to {refcount, sequence, pool, regs}: published when the
 * first user comes, handed to call_rcu when the last one goes. The switch path saves and restores
 * under rcu_read_lock; readers copy under rcu_read_lock and a sequence check and never stop a
 * vCPU. See taskdata.h (memory), lbr.c (what a CPU records), lbr_attach.c (who captures).
 */
#ifndef VPMU_LBR_H
#define VPMU_LBR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct vpmu_host;
struct vpmu_pcpu;
struct vpmu_account;
struct vpmu_context;
struct vpmu_taskdata;

#define VPMU_LBR_DEPTH_MAX 32

/* ctl: bits of IA32_LBR_CTL (SDM vol. 3, 19.1.1; vol. 4, 14CEH), which register models of other
 * vendors translate to. */
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

/* info: bits of IA32_LBR_x_INFO (vol. 4, 1200H): cycles since the record before (0FFFFH: or more),
 * valid, and the branch type (JCC 0, near ind JMP 1, near rel JMP 2, near ind CALL 3, near rel
 * CALL 4, near RET 5, other 8). */
#define VPMU_LBR_INFO_CYC	 0xffffULL
#define VPMU_LBR_INFO_TYPE_SHIFT 56
#define VPMU_LBR_INFO_TYPE	 (0xfULL << VPMU_LBR_INFO_TYPE_SHIFT)
#define VPMU_LBR_INFO_CYC_VALID	 (1ULL << 60)

/* vpmu_lbr_type_name - of a record's info, as every output spells it. Pure. */
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

/* FROM of a record whose branch came from a privilege level that is not recorded (19.1.2.3). */
#define VPMU_LBR_FROM_FILTERED (~0ULL)

struct vpmu_lbr_entry {
	uint64_t from, to, info;
};

/* The whole state of a branch record facility. A ring: the newest record is e[head], the one
 * before it e[head - 1 modulo VPMU_LBR_DEPTH_MAX]; @count of them are valid, at most @depth. */
struct vpmu_lbr_regs {
	uint32_t ctl;
	uint8_t depth; /* 8, 16, 24, 32 */
	uint8_t head;
	uint8_t count;
	uint8_t pad;
	uint64_t cycles; /* since the newest record, as of the save */
	uint64_t total;	 /* records made since the reset, those popped or overwritten included */
	struct vpmu_lbr_entry e[VPMU_LBR_DEPTH_MAX];
};

/* vpmu_lbr_nth - record @n of @r, 0 = the newest; NULL: there is none. Pure. */
static inline const struct vpmu_lbr_entry *vpmu_lbr_nth(const struct vpmu_lbr_regs *r,
							unsigned int n)
{
	return n < r->count && n < r->depth
		       ? &r->e[(r->head + VPMU_LBR_DEPTH_MAX - n) % VPMU_LBR_DEPTH_MAX]
		       : NULL;
}

/* vpmu_lbr_ctl_ok - bits that exist, and with CALL_STACK calls and returns only. Pure. */
static inline bool vpmu_lbr_ctl_ok(uint32_t ctl)
{
	return !(ctl & ~(VPMU_LBR_EN | VPMU_LBR_OS | VPMU_LBR_USR | VPMU_LBR_CALL_STACK |
			 VPMU_LBR_TYPES)) &&
	       (!(ctl & VPMU_LBR_CALL_STACK) || (ctl & VPMU_LBR_TYPES) == VPMU_LBR_CALLS);
}

enum vpmu_lbr_user { VPMU_LBR_GUEST, VPMU_LBR_HOST, VPMU_LBR_USERS };

/* ---- the guest's own use: owner of the pCPU the vCPU is placed on; @pcpu NULL while it is placed
 * nowhere ---------------------------------------------------------------------------------- */

/*
 * vpmu_lbr_guest_open - the guest begins to use its records: data exist from now on, all zero,
 * @depth (8, 16, 24, 32; else -EINVAL) deep. Idempotent (then nothing changes). Takes memory from
 * the pool. -ENOMEM.
 * vpmu_lbr_guest_close - their records are gone, the memory too: after a grace period, or two if
 * they were opened again in the first. vpmu_context_fini closes.
 */
int vpmu_lbr_guest_open(struct vpmu_context *ctx, struct vpmu_pcpu *pcpu, unsigned int depth);
void vpmu_lbr_guest_close(struct vpmu_context *ctx, struct vpmu_pcpu *pcpu);

/*
 * vpmu_lbr_guest_get / set - the guest's state, to the instruction; replace it, ctl included.
 * -ENOENT before open; set: -EINVAL when it is no state there can be (ctl, depth, head, count).
 * What ctl enables is recorded from now on; without VPMU_LBR_EN nothing is, and the records stay.
 */
int vpmu_lbr_guest_get(struct vpmu_context *ctx, struct vpmu_pcpu *pcpu, struct vpmu_lbr_regs *r);
int vpmu_lbr_guest_set(struct vpmu_context *ctx, struct vpmu_pcpu *pcpu,
		       const struct vpmu_lbr_regs *r);

/* ---- operators: control ------------------------------------------------------------------- */

/*
 * vpmu_lbr_attach - capture with @ctl (EN is understood), 32 deep, for every context of @account
 * and of what is below it: those that exist and those to come (inheritance); of the host's root:
 * global mode. Counted per account: each attach needs a detach, and until then the account cannot
 * be deleted (vpmu_account_del: -EBUSY, as with consumers). Recording has begun everywhere on
 * return. -EBUSY: the account, one above it or one below it is captured with another ctl (nothing
 * changed); -EINVAL: ctl; -EOPNOTSUPP: no pCPU has a branch record facility, or the account is the
 * host's own (vpmu_host_other), whose work is no vCPU task; -ENOMEM (nothing changed).
 * vpmu_lbr_detach - when it was the last user, the data are gone after a grace period; until then
 * nothing changes. Without an attach: nothing.
 */
int vpmu_lbr_attach(struct vpmu_account *account, uint32_t ctl);
void vpmu_lbr_detach(struct vpmu_account *account);

/*
 * vpmu_lbr_read - copy the newest state of the context whose own account @vcpu is: of the guest's
 * own records if the guest has them enabled, else of the capture, else what the guest kept when it
 * disabled them; *user says whose. As of the last switch, or exact after vpmu_host_sync. Any thread
 * registered with liburcu, signal handlers at any point of any function here included (in the
 * middle of a write: -EAGAIN), as long as the context cannot go; never waits for the vCPU. -ENOENT:
 * nobody uses them. -EAGAIN: written over and over meanwhile (or the writer lost its CPU while it
 * wrote); try again.
 */
int vpmu_lbr_read(const struct vpmu_account *vcpu, struct vpmu_lbr_regs *r,
		  enum vpmu_lbr_user *user);

/* vpmu_lbr_live - the state to the instruction, of a context that is current on @pcpu: for
 * samples and post-mortem dumps; chosen as vpmu_lbr_read does. Owner. -ENOENT. */
int vpmu_lbr_live(struct vpmu_context *ctx, struct vpmu_pcpu *pcpu, struct vpmu_lbr_regs *r,
		  enum vpmu_lbr_user *user);

/* Memory held for task data of @host, any thread. */
struct vpmu_lbr_usage {
	size_t tasks; /* buffers in use */
	size_t bytes; /* all memory for them, the pool's own included */
};
void vpmu_lbr_usage(const struct vpmu_host *host, struct vpmu_lbr_usage *out);

/* ---- private part of struct vpmu_context -------------------------------------------------- */
struct vpmu_lbr_task {
	struct vpmu_taskdata *data[VPMU_LBR_USERS]; /* RCU. GUEST: owner; HOST: under ctl_lock */
	struct vpmu_taskdata *parked;  /* the guest's last, see taskdata_park; the pool's lock */
	struct vpmu_taskdata *pending; /* under ctl_lock: not published yet, or not any more */
	unsigned int host_users;       /* under ctl_lock: captured accounts among own's ancestors */
	bool guest_on;		       /* the guest's ctl has VPMU_LBR_EN; owner */
};

#endif
