/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Accounts: who is charged. A tree: host root > tenants > VMs > vCPUs.
 *
 * What a vCPU does is charged to its account and to all above it, where somebody counts it.
 * service/tenant makes an account per tenant, VM and vCPU. The delta rule itself is in charge.h,
 * the sums are in account.c, the memory of counts is in cell.c.
 */
#ifndef VPMU_ACCOUNT_H
#define VPMU_ACCOUNT_H

struct vpmu_account;

/*
 * vpmu_account_create - a new account below @parent, which must not be NULL. @owner is a pointer of
 * the caller's, returned by vpmu_account_owner. The cost does not depend on how many accounts there
 * are. -ENOMEM. Control.
 */
int vpmu_account_create(struct vpmu_account *parent, void *owner, struct vpmu_account **out);

/*
 * vpmu_account_del - remove @account. The accounts above it keep its counts, which they have had
 * from the beginning. It needs no memory. The memory is freed after a grace period. Control.
 * -EBUSY, and nothing changes: the account has children, consumers or contexts; or its branch
 * records are captured (vpmu_lbr_attach without vpmu_lbr_detach); or it is one of the host's own.
 */
int vpmu_account_del(struct vpmu_account *account);

/* vpmu_account_owner - the @owner given to vpmu_account_create. Any thread. */
void *vpmu_account_owner(const struct vpmu_account *account);

#endif
