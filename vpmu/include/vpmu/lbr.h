/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Who uses the branch records of vCPU tasks: guests and operators.
 *
 * Register models (vpmu/guest/lbr.c) make the guest calls, captures (service/capture.c) the
 * operator calls.
 *
 * A CPU has one branch record facility. While a task that uses branch records runs, the records are
 * in the CPU. Otherwise they are in the task's data, which exist only while somebody uses them:
 *
 *   VPMU_LBR_GUEST  the guest itself
 *   VPMU_LBR_HOST   operators who capture; all of them share one set
 *
 * The CPU records by the guest's choice while the guest has its records enabled, and by the
 * operators' choice otherwise. So a capture never changes the guest's own records, and a capture of
 * a guest that records shows what the guest records.
 *
 * Where this is done: taskdata.c (the memory), lbr.c (what a CPU records), lbr_attach.c (who
 * captures).
 */
#ifndef VPMU_LBR_H
#define VPMU_LBR_H

#include <stddef.h>
#include <stdint.h>

#include "vpmu/lbr_regs.h"

struct vpmu_account;
struct vpmu_context;
struct vpmu_host;
struct vpmu_pcpu;

/* ---- the guest's own use: the owner of the pCPU on which the vCPU is placed. @pcpu is NULL while
 * the vCPU is placed nowhere --------------------------------------------------------------- */

/*
 * vpmu_lbr_guest_open - the guest begins to use its records: from now on they exist, all zero,
 * @depth deep (8, 16, 24 or 32). Does nothing when they are open. -EINVAL: @depth; -ENOMEM.
 *
 * vpmu_lbr_guest_close - the guest's records are lost at once. Their memory is freed after a grace
 * period. A guest that opens and closes again and again gets the same memory back, so it never
 * holds more than one piece. vpmu_context_fini closes too.
 */
int vpmu_lbr_guest_open(struct vpmu_context *ctx, struct vpmu_pcpu *pcpu, unsigned int depth);
void vpmu_lbr_guest_close(struct vpmu_context *ctx, struct vpmu_pcpu *pcpu);

/*
 * vpmu_lbr_guest_get - copy the guest's state to *@r, exact to the instruction. -ENOENT: not open.
 * vpmu_lbr_guest_set - replace the guest's state, ctl included. The CPU then records what r->ctl
 * enables; without VPMU_LBR_EN it records nothing for the guest and the records stay as they are.
 * -ENOENT: not open; -EINVAL: ctl, depth, head or count cannot be like this.
 */
int vpmu_lbr_guest_get(struct vpmu_context *ctx, struct vpmu_pcpu *pcpu, struct vpmu_lbr_regs *r);
int vpmu_lbr_guest_set(struct vpmu_context *ctx, struct vpmu_pcpu *pcpu,
		       const struct vpmu_lbr_regs *r);

/* ---- operators: control ------------------------------------------------------------------- */

/*
 * vpmu_lbr_attach - capture every context of @account and of the accounts below it, those that
 * exist and those to come. With the host's root that is every vCPU of the host (global mode).
 * Captures are 32 records deep. @ctl says what is recorded; VPMU_LBR_EN is implied. On return, the
 * recording has begun everywhere. Each attach needs a vpmu_lbr_detach. Until then the account
 * cannot be deleted. Nothing changes on an error:
 *
 *   -EBUSY       the account, one above it or one below it is captured with another @ctl
 *   -EINVAL      @ctl
 *   -EOPNOTSUPP  no pCPU has branch records; or @account is vpmu_host_other, which has no vCPU
 *   -ENOMEM
 *   -ETIMEDOUT   a pCPU on which the account has been placed does not answer (vpmu_host_late)
 *
 * vpmu_lbr_detach - undo one attach; without an attach it does nothing. After the last detach that
 * concerns a task, its captured records are freed after a grace period, and not before a pCPU that
 * is late has answered.
 */
int vpmu_lbr_attach(struct vpmu_account *account, uint32_t ctl);
void vpmu_lbr_detach(struct vpmu_account *account);

/*
 * vpmu_lbr_read - copy the newest state of the context whose own account is @vcpu, as of its last
 * switch; vpmu_host_sync before makes that now. Never waits for the vCPU. The first of these that
 * exists is copied, and *@user says whose it is:
 *
 *   1. the guest's own records, while the guest has them enabled
 *   2. the operators' capture
 *   3. what the guest kept when it disabled its records
 *
 * -ENOENT: there is none of these. -EAGAIN: a writer was at work at each of several tries; try
 * again later. Any thread, and signal handlers too (-EAGAIN if the handler interrupted the writer).
 * The caller makes sure that the account is not deleted meanwhile.
 */
int vpmu_lbr_read(const struct vpmu_account *vcpu, struct vpmu_lbr_regs *r,
		  enum vpmu_lbr_user *user);

/*
 * vpmu_lbr_live - copy the state of @ctx, which runs on @pcpu, exact to the instruction: for
 * samples and post-mortem dumps. Chosen as vpmu_lbr_read does. -ENOENT. Owner.
 */
int vpmu_lbr_live(struct vpmu_context *ctx, struct vpmu_pcpu *pcpu, struct vpmu_lbr_regs *r,
		  enum vpmu_lbr_user *user);

/* vpmu_lbr_usage - the memory that @host holds for records of tasks. Any thread. */
struct vpmu_lbr_usage {
	size_t tasks; /* sets of records in use */
	size_t bytes; /* all memory for them, the unused part of the pool included */
};
void vpmu_lbr_usage(const struct vpmu_host *host, struct vpmu_lbr_usage *out);

#endif
