// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * A program that uses libvpmu as its users do, with the installed headers: two vCPUs of one tenant
 * on one pCPU of the emulator PMU. It prints the counts of the first vCPU and of the tenant, and
 * the uncharged rest. The tests compile it.
 */
#include <stdio.h>
#include <urcu/urcu-memb.h>

#include <vpmu/account.h>
#include <vpmu/conservation.h>
#include <vpmu/consumer.h>
#include <vpmu/context.h>
#include <vpmu/event/event.h>
#include <vpmu/host.h>
#include <vpmu/pcpu.h>
#include <vpmu/emupmu.h>

static int unclaimed(const struct vpmu_conservation *c, void *arg)
{
	*(uint64_t *)arg += c->hardware - c->charged;
	return 0;
}

/* A name that libvpmu has inside: the static library must not meet it. */
int fail(int error);
int fail(int error)
{
	return error;
}

int main(void)
{
	struct vpmu_context ctx[2] = {0};
	struct vpmu_consumer of_vcpu = {0}, of_tenant = {0};
	struct vpmu_account *tenant, *vcpu[2];
	struct vpmu_value v, t;
	struct vpmu_emupmu pmu;
	struct vpmu_pcpu *pcpu;
	struct vpmu_host *host;
	uint64_t lost = 0;
	vpmu_key_t key;
	char err[200];

	urcu_memb_register_thread();
	host = vpmu_host_create();
	if (!host || vpmu_emupmu_init(&pmu, NULL) || vpmu_pcpu_create(host, &pmu.pmu, 0, &pcpu) ||
	    vpmu_account_create(vpmu_host_root(host), NULL, &tenant) ||
	    vpmu_event_parse("instructions", vpmu_event_host_space(), &key, err, sizeof(err)))
		return fail(1);
	for (int i = 0; i < 2; i++)
		if (vpmu_account_create(tenant, NULL, &vcpu[i]) ||
		    vpmu_context_init(&ctx[i], vcpu[i], tenant) ||
		    vpmu_context_place(&ctx[i], pcpu))
			return fail(1);
	if (vpmu_consumer_add(&of_vcpu, vcpu[0], key, NULL) ||
	    vpmu_consumer_add(&of_tenant, tenant, key, NULL))
		return fail(1);
	for (int i = 0; i < 2; i++) {
		vpmu_pcpu_switch(pcpu, &ctx[i]);
		vpmu_emu_add(pmu.tally, VPMU_EMU_USR, VPMU_EMU_INSTRUCTIONS, i ? 50 : 100);
	}
	vpmu_pcpu_switch(pcpu, NULL);
	if (vpmu_host_conservation(host, unclaimed, &lost))
		return fail(1);
	vpmu_consumer_del(&of_vcpu, NULL, &v);
	vpmu_consumer_del(&of_tenant, NULL, &t);
	printf("vcpu %llu, tenant %llu, unclaimed %llu\n", (unsigned long long)v.count,
	       (unsigned long long)t.count, (unsigned long long)lost);
	for (int i = 0; i < 2; i++)
		vpmu_context_fini(&ctx[i]);
	if (vpmu_pcpu_destroy(pcpu))
		return fail(1);
	vpmu_host_destroy(host);
	urcu_memb_unregister_thread();
	return 0;
}
