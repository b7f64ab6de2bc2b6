/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Accounts hold counts. They form a tree: host root > tenants > VMs > vCPUs.
 *
 * An event of a vCPU is charged to its account and to all ancestors that have the key in use.
 * service/tenant makes an account per tenant, VM and vCPU. The delta rule is in charge.h, the sums
 * are in account.c, the memory of counts is in cell.c.
 */
#ifndef VPMU_ACCOUNT_H
#define VPMU_ACCOUNT_H

#ifdef __cplusplus
extern "C" {
#endif

struct vpmu_account;

/*
 * vpmu_account_create - create an account below @parent, which must not be NULL. @owner is an
 * opaque pointer for vpmu_account_owner. The cost does not depend on the number of accounts.
 * Returns 0 or -ENOMEM. Control.
 */
int vpmu_account_create(struct vpmu_account *parent, void *owner, struct vpmu_account **out);

/*
 * vpmu_account_del - remove @account. Its ancestors keep its counts, which were charged to them as
 * well. Allocates nothing; the memory is freed after a grace period. Control. Returns 0. -EBUSY,
 * and nothing changes: the account has children, consumers or contexts; its branch records are
 * captured (vpmu_lbr_attach without vpmu_lbr_detach); or it is one of the host's two fixed
 * accounts.
 */
int vpmu_account_del(struct vpmu_account *account);

/* vpmu_account_owner - the @owner given to vpmu_account_create. Any thread. */
void *vpmu_account_owner(const struct vpmu_account *account);

#ifdef __cplusplus
}
#endif

#endif
