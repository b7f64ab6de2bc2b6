/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Branch records of vCPU tasks, for guests and for operators.
 *
 * Register models (vpmu/guest/lbr.c) make the guest calls; captures (service/capture.c) make the
 * operator calls.
 *
 * A CPU has one branch record facility. While a task that uses branch records runs, its records are
 * in the CPU; otherwise they are in the task's data. A task has up to two sets, which exist only
 * while in use:
 *
 *   VPMU_LBR_GUEST  the guest itself
 *   VPMU_LBR_HOST   operators that capture; all of them share one set
 *
 * The CPU records with the guest's filter while the guest has recording enabled, and with the
 * operators' filter otherwise. So a capture never changes the guest's own records, and a capture of
 * a guest that records shows the guest's records.
 *
 * Implemented in taskdata.c (memory), lbr.c (the CPU's recording) and lbr_attach.c (captures).
 */
#ifndef VPMU_LBR_H
#define VPMU_LBR_H

#include <stddef.h>
#include <stdint.h>

#include "vpmu/lbr_regs.h"

#ifdef __cplusplus
extern "C" {
#endif

struct vpmu_account;
struct vpmu_context;
struct vpmu_host;
struct vpmu_pcpu;

/* ---- the guest's own use: the owner of the pCPU on which the vCPU is placed. @pcpu is NULL while
 * the vCPU is placed nowhere --------------------------------------------------------------- */

/*
 * vpmu_lbr_guest_open - create the guest's records, all zero, @depth deep (8, 16, 24 or 32). Does
 * nothing if they are open. Returns 0; -EINVAL: @depth is invalid; -ENOMEM.
 *
 * vpmu_lbr_guest_close - discard the guest's records. Their memory is freed after a grace period;
 * an open before that reuses it, so a guest that opens and closes in a loop never holds more than
 * one set. vpmu_context_fini closes, too.
 */
int vpmu_lbr_guest_open(struct vpmu_context *ctx, struct vpmu_pcpu *pcpu, unsigned int depth);
void vpmu_lbr_guest_close(struct vpmu_context *ctx, struct vpmu_pcpu *pcpu);

/*
 * vpmu_lbr_guest_get - copy the guest's state to *@r, exact to the instruction. -ENOENT: not open.
 * vpmu_lbr_guest_set - replace the guest's state, ctl included. The CPU then records what r->ctl
 * enables; without VPMU_LBR_EN it records nothing for the guest and the records stay as they are.
 * -ENOENT: not open; -EINVAL: invalid ctl, depth, head or count.
 */
int vpmu_lbr_guest_get(struct vpmu_context *ctx, struct vpmu_pcpu *pcpu, struct vpmu_lbr_regs *r);
int vpmu_lbr_guest_set(struct vpmu_context *ctx, struct vpmu_pcpu *pcpu,
		       const struct vpmu_lbr_regs *r);

/* ---- operators: control ------------------------------------------------------------------- */

/*
 * vpmu_lbr_attach - capture every present and future context of @account and of the accounts below
 * it; with the host's root, every vCPU of the host (global mode). Captures are 32 records deep.
 * @ctl is the filter (VPMU_LBR_OS ...); VPMU_LBR_EN is implied. On return, recording has begun on
 * all pCPUs. Each attach needs a vpmu_lbr_detach; until then the account cannot be deleted. Errors,
 * all without effect:
 *
 *   -EBUSY       the account, an ancestor or a descendant is captured with another @ctl
 *   -EINVAL      @ctl is invalid (vpmu_lbr_ctl_ok)
 *   -EOPNOTSUPP  no pCPU has branch records; or @account is vpmu_host_other, which has no vCPU
 *   -ENOMEM
 *   -ETIMEDOUT   a pCPU on which the account has been placed is stalled (vpmu_host_stalled)
 *
 * vpmu_lbr_detach - undo one attach; without one, do nothing. After the last detach that covers a
 * task, its captured records are freed, a grace period later and not before stalled pCPUs have
 * answered.
 */
int vpmu_lbr_attach(struct vpmu_account *account, uint32_t ctl);
void vpmu_lbr_detach(struct vpmu_account *account);

/*
 * vpmu_lbr_read - copy the state of the context whose own account is @vcpu, as of its last switch;
 * for a current one, call vpmu_host_sync first. Never waits for the vCPU. Copies the first of these
 * that exists and stores its user in *@user:
 *
 *   1. the guest's own records, while the guest has them enabled
 *   2. the operators' capture
 *   3. the guest's own records from before it disabled them
 *
 * Returns 0; -ENOENT: none exists; -EAGAIN: a writer was active at each of several tries. Any
 * thread, and signal handlers (-EAGAIN if the handler interrupted the writer). The caller must keep
 * the account and its context from being deleted.
 */
int vpmu_lbr_read(const struct vpmu_account *vcpu, struct vpmu_lbr_regs *r,
		  enum vpmu_lbr_user *user);

/*
 * vpmu_lbr_live - copy the state of @ctx, which runs on @pcpu, exact to the instruction: for
 * samples and post-mortem dumps. Same choice as vpmu_lbr_read; returns 0, -ENOENT or -EAGAIN.
 * Owner.
 */
int vpmu_lbr_live(struct vpmu_context *ctx, struct vpmu_pcpu *pcpu, struct vpmu_lbr_regs *r,
		  enum vpmu_lbr_user *user);

/* vpmu_lbr_usage - store the memory that @host uses for branch records of tasks. Any thread. */
struct vpmu_lbr_usage {
	size_t tasks; /* sets of records in use */
	size_t bytes; /* all memory for them, including the unused part of the pool */
};
void vpmu_lbr_usage(const struct vpmu_host *host, struct vpmu_lbr_usage *out);

#ifdef __cplusplus
}
#endif

#endif
