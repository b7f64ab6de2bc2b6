// SPDX-License-Identifier: LGPL-2.1-or-later
/*
 * The control form of consumers, see consumer.h: many at once, for threads that run no vCPU. All of
 * it is under ctl_lock of the host.
 */
#include <errno.h>

#include "vpmu/core/consumer_local.h"
#include "vpmu/core/internal.h"

/* A host without pCPUs supports every key. */
static void ask_host(struct vpmu_consumer *c)
{
	struct vpmu_host *host = c->account->host;
	struct vpmu_pcpu *p;

	c->supported = cds_list_empty(&host->pcpus);
	cds_list_for_each_entry (p, &host->pcpus, node)
		consumer_ask_pmu(c, p->pmu);
}

/* Take a slot. To start counting, keys_ctl_add, a sync that charges all earlier
 * counts, and consumer_start must follow. */
static int ctl_take(struct vpmu_consumer *c)
{
	int slot = slot_get(c->account->host, c->key, NULL);

	if (slot < 0)
		return slot;
	c->slot = slot;
	return 0;
}

/* Sync the pCPUs on which the accounts of @n consumers were placed. */
static int ctl_sync(struct vpmu_host *host, struct vpmu_consumer *const *c, size_t n)
{
	const struct vpmu_account *last = NULL;

	sync_spare_all(host);
	for (size_t i = 0; i < n; i++) {
		if (c[i]->account != last)
			sync_concerns(c[i]->account);
		last = c[i]->account;
	}
	return host_sync_locked(host, NULL, NULL);
}

/* Free the cells of @n accounts, after the release of their consumers' slots. */
static void ctl_reap(struct vpmu_account *const *account, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		if (!i || account[i] != account[i - 1])
			cells_reap(account[i]);
	}
}

static int ctl_enable(struct vpmu_consumer *c)
{
	struct vpmu_host *host = c->account->host;
	int ret = ctl_take(c);

	if (ret)
		return ret;
	ret = keys_ctl_add(c->account, &c, 1);
	if (ret) {
		consumer_release(c);
		return ret;
	}
	ret = ctl_sync(host, &c, 1);
	if (ret) {
		keys_ctl_del(c);
		consumer_release(c);
		cells_reap(c->account);
	} else {
		consumer_start(c);
	}
	return ret;
}

int consumer_ctl_enable(struct vpmu_consumer *c)
{
	struct vpmu_host *host = c->account->host;
	int ret = 0;

	pthread_mutex_lock(&host->ctl_lock);
	if (c->slot < 0)
		ret = ctl_enable(c);
	pthread_mutex_unlock(&host->ctl_lock);
	return ret ? ret : c->supported ? 0 : -EOPNOTSUPP;
}

void consumer_ctl_disable(struct vpmu_consumer *c)
{
	struct vpmu_host *host = c->account->host;

	pthread_mutex_lock(&host->ctl_lock);
	if (c->slot >= 0) {
		keys_ctl_del(c);
		ctl_sync(host, &c, 1);
		consumer_stop(c);
		cells_reap(c->account);
	}
	pthread_mutex_unlock(&host->ctl_lock);
}

int vpmu_consumer_add_many(struct vpmu_consumer **c, struct vpmu_account *const *account,
			   const vpmu_key_t *key, size_t n, size_t *failed)
{
	struct vpmu_host *host;
	bool unsupported = false;
	size_t i, taken = 0, inited = 0, used = 0;
	int ret = 0;

	if (!n)
		return 0;
	host = account[0]->host;
	pthread_mutex_lock(&host->ctl_lock);
	for (i = 0; i < n; i++) {
		ret = consumer_init(c[i], account[i], key[i], false);
		if (ret)
			goto fail;
		inited++;
		ask_host(c[i]);
		unsupported |= !c[i]->supported;
		ret = ctl_take(c[i]);
		if (ret)
			goto fail;
		taken++;
	}
	for (i = 0; i < n; i = used) {
		size_t same = 1;

		while (i + same < n && account[i + same] == account[i])
			same++;
		ret = keys_ctl_add(account[i], &c[i], same);
		if (ret)
			goto fail;
		used += same;
	}
	i = 0;
	ret = ctl_sync(host, c, n);
	if (ret)
		goto fail;
	for (; i < n; i++)
		consumer_start(c[i]);
	pthread_mutex_unlock(&host->ctl_lock);
	return unsupported ? -EOPNOTSUPP : 0;
fail:
	if (failed)
		*failed = i;
	for (size_t k = 0; k < used; k++)
		keys_ctl_del(c[k]);
	ctl_sync(host, c, used);
	for (size_t k = 0; k < inited; k++) {
		if (k < taken)
			consumer_release(c[k]);
		consumer_fini(c[k]);
	}
	ctl_reap(account, inited);
	pthread_mutex_unlock(&host->ctl_lock);
	return ret;
}

void vpmu_consumer_del_many(struct vpmu_consumer **c, size_t n, struct vpmu_value *last)
{
	struct vpmu_account *before = NULL;
	struct vpmu_host *host;

	if (!n)
		return;
	host = c[0]->account->host;
	pthread_mutex_lock(&host->ctl_lock);
	for (size_t i = 0; i < n; i++) {
		if (c[i]->slot >= 0)
			keys_ctl_del(c[i]);
	}
	ctl_sync(host, c, n);
	for (size_t i = 0; i < n; i++)
		consumer_end(c[i], last ? &last[i] : NULL);
	for (size_t i = 0; i < n; i++) {
		if (c[i]->account != before)
			cells_reap(c[i]->account);
		before = c[i]->account;
		consumer_fini(c[i]);
	}
	pthread_mutex_unlock(&host->ctl_lock);
}
