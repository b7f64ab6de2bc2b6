// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * One counter for many: shared-counter
 *
 * A CPU with the counters of a simulator (vpmu/emupmu.h) runs the vCPUs of two tenants in turn. The
 * operator and each tenant count instructions, from different moments on, and one host counter
 * serves all of them. With perf events as the host PMU (vpmu/hostpmu_perf.h) the calls are the
 * same.
 */
#include <stdio.h>
#include <urcu/urcu-memb.h>

#include <vpmu/account.h>
#include <vpmu/consumer.h>
#include <vpmu/context.h>
#include <vpmu/emupmu.h>
#include <vpmu/event/event.h>
#include <vpmu/host.h>
#include <vpmu/pcpu.h>

enum { TENANTS = 2 };

struct tenant {
	struct vpmu_account *account, *vcpu;
	struct vpmu_context ctx; /* the vCPU, as the scheduler sees it */
	struct vpmu_consumer instructions;
};

/* The simulator runs @t's vCPU for @n instructions. */
static void run(struct vpmu_pcpu *pcpu, struct vpmu_emupmu *pmu, struct tenant *t, uint64_t n)
{
	vpmu_pcpu_switch(pcpu, &t->ctx);
	vpmu_emu_add(pmu->tally, VPMU_EMU_USR, VPMU_EMU_INSTRUCTIONS, n);
	vpmu_pcpu_switch(pcpu, NULL);
}

static uint64_t value(const struct vpmu_consumer *c)
{
	struct vpmu_value v;

	vpmu_consumer_read(c, &v);
	return v.count;
}

static int setup(struct vpmu_host *host, struct vpmu_pcpu *pcpu, struct tenant *t)
{
	int rc = vpmu_account_create(vpmu_host_root(host), t, &t->account);

	if (!rc)
		rc = vpmu_account_create(t->account, t, &t->vcpu);
	if (!rc)
		rc = vpmu_context_init(&t->ctx, t->vcpu, t->account);
	return rc ? rc : vpmu_context_place(&t->ctx, pcpu);
}

int main(void)
{
	struct tenant t[TENANTS] = {{0}};
	struct vpmu_consumer all = {0};
	struct vpmu_sharing sharing;
	struct vpmu_emupmu pmu;
	struct vpmu_pcpu *pcpu;
	struct vpmu_host *host;
	vpmu_key_t key;
	char err[200];
	int rc;

	urcu_memb_register_thread();
	host = vpmu_host_create();
	if (!host || vpmu_emupmu_init(&pmu, NULL) || vpmu_pcpu_create(host, &pmu.pmu, 0, &pcpu))
		return 1;
	rc = vpmu_event_parse("instructions:u", vpmu_event_host_space(), &key, err, sizeof(err));
	for (int i = 0; i < TENANTS && !rc; i++)
		rc = setup(host, pcpu, &t[i]);
	/* The operator counts the whole host, the first tenant itself; the second begins later. */
	if (!rc)
		rc = vpmu_consumer_add(&all, vpmu_host_root(host), key, NULL);
	if (!rc)
		rc = vpmu_consumer_add(&t[0].instructions, t[0].account, key, NULL);
	if (rc)
		return 1;
	run(pcpu, &pmu, &t[0], 100);
	run(pcpu, &pmu, &t[1], 30);
	if (vpmu_consumer_add(&t[1].instructions, t[1].account, key, NULL))
		return 1;
	run(pcpu, &pmu, &t[0], 1);
	run(pcpu, &pmu, &t[1], 2);
	vpmu_host_sync(host);
	vpmu_host_sharing(host, &sharing);
	printf("host %llu, first tenant %llu, second tenant %llu: %u consumers, %u counter\n",
	       (unsigned long long)value(&all), (unsigned long long)value(&t[0].instructions),
	       (unsigned long long)value(&t[1].instructions), sharing.consumers,
	       sharing.host_counters);

	vpmu_consumer_del(&all, NULL, NULL);
	for (int i = 0; i < TENANTS; i++) {
		vpmu_consumer_del(&t[i].instructions, NULL, NULL);
		vpmu_context_fini(&t[i].ctx);
	}
	vpmu_pcpu_destroy(pcpu);
	vpmu_host_destroy(host);
	urcu_memb_unregister_thread();
	return 0;
}
