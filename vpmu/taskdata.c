// SPDX-License-Identifier: GPL-2.0-or-later
#include <errno.h>

#include "vpmu/internal.h"

void lbr_switch(struct vpmu_pcpu *p, struct vpmu_context *next)
{
}

void lbr_flush(struct vpmu_pcpu *p)
{
}

int lbr_context_init(struct vpmu_context *ctx)
{
	return 0;
}

void lbr_context_fini(struct vpmu_context *ctx)
{
}

void lbr_host_fini(struct vpmu_host *host)
{
}

int vpmu_lbr_guest_open(struct vpmu_context *ctx, struct vpmu_pcpu *pcpu, unsigned int depth)
{
	return -ENOMEM;
}

void vpmu_lbr_guest_close(struct vpmu_context *ctx, struct vpmu_pcpu *pcpu)
{
}

int vpmu_lbr_guest_get(struct vpmu_context *ctx, struct vpmu_pcpu *pcpu, struct vpmu_lbr_regs *r)
{
	return -ENOENT;
}

int vpmu_lbr_guest_set(struct vpmu_context *ctx, struct vpmu_pcpu *pcpu,
		       const struct vpmu_lbr_regs *r)
{
	return -ENOENT;
}

int vpmu_lbr_attach(struct vpmu_account *account, uint32_t ctl)
{
	return -EOPNOTSUPP;
}

void vpmu_lbr_detach(struct vpmu_account *account)
{
}

int vpmu_lbr_read(const struct vpmu_account *vcpu, struct vpmu_lbr_regs *r,
		  enum vpmu_lbr_user *user)
{
	return -ENOENT;
}

int vpmu_lbr_live(struct vpmu_context *ctx, struct vpmu_pcpu *pcpu, struct vpmu_lbr_regs *r,
		  enum vpmu_lbr_user *user)
{
	return -ENOENT;
}

void vpmu_lbr_usage(const struct vpmu_host *host, struct vpmu_lbr_usage *out)
{
	*out = (struct vpmu_lbr_usage){0};
}
