// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Pages of totals (vpmu/totals.h): the charges of one vCPU, for the process that runs it. While
 * there is one, the flush program is attached to the exit of KVM_RUN as well. Control thread.
 *
 * A page is a map of its own, so that its file descriptor shows no other vCPU. The map is frozen:
 * only programs write to it. (A read-only descriptor cannot be mapped as shared.) Opening another
 * descriptor takes the page's pin, since opening a map by its id takes CAP_SYS_ADMIN. A page that
 * was handed out is never used for another node.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <linux/bpf.h>

#include "cgroup/priv.h"

#include <account.skel.h> /* it needs maps.h */

static struct vpmu_totals *totals_page(const struct bpf_backend *k, uint32_t totals)
{
	return totals && totals <= KP_MAX_TOTALS ? k->totals.page[totals - 1] : NULL;
}

/* Have the program note KP_END or KP_GAP, @what, in page @i, on any CPU. */
static void totals_note(const struct bpf_backend *k, uint32_t i, uint64_t what)
{
	uint32_t answer;

	for (unsigned int cpu = 0; cpu < k->nr_cpus; cpu++)
		if (k->online[cpu] && !k->quiet[cpu] &&
		    !k->sys->ask(bpf_program__fd(k->flush_cpu), cpu, what | i, &answer))
			return;
}

/* End the page of account @a. The process that has mapped it keeps what it holds now. */
static void totals_end(struct bpf_backend *k, struct kp_account *a)
{
	struct vpmu_totals *t = totals_page(k, a->totals);
	uint32_t i = a->totals - 1;

	__atomic_store_n(&a->totals, 0, __ATOMIC_SEQ_CST);
	if (!t)
		return;
	backend_changed(k);
	backend_flush_all(k);
	totals_note(k, i, KP_END);
	k->sys->map_del(k->totals.fd, &i);
	pages_remove(&k->totals, i);
	k->nr_totals--;
}

/* ---- the program at the exit of KVM_RUN ----------------------------------------------------- */

int totals_attach(struct bpf_backend *k)
{
	struct bpf_link *link;
	int ret;

	if (!k->link || !k->nr_totals || k->exit_link)
		return 0;
	link = k->sys->attach(k->flush_cpu);
	if (!link)
		return -errno;
	ret = pin_link(k, link, PIN_EXITS);
	if (ret) {
		bpf_link__destroy(link);
		return ret;
	}
	k->exit_link = link;
	return 0;
}

void totals_detach(struct bpf_backend *k)
{
	pin_unlink(k, PIN_EXITS); /* a former process's, too */
	bpf_link__destroy(k->exit_link);
	k->exit_link = NULL;
}

/* ---- pages ---------------------------------------------------------------------------------- */

/* A page has one writer at a time if one task is charged to the account, and nothing else. */
static bool is_one_task(const struct knode *n)
{
	return n->bound && n->bound->task && !n->bound->next && !n->child;
}

void totals_drop(struct bpf_backend *k, struct knode *n)
{
	struct kp_account *a = k->nr_totals ? account_at(k, n->account) : NULL;

	if (!a || !a->totals)
		return;
	totals_end(k, a);
	if (!k->nr_totals)
		totals_detach(k);
}

void totals_bound(struct bpf_backend *k, struct knode *n)
{
	if (k->nr_totals && n->bound && !is_one_task(n))
		totals_drop(k, n);
}

/* Losses that may have hit any account. */
static uint32_t totals_blind(const struct bpf_backend *k)
{
	uint32_t n = backend_blind(k);

	for (unsigned int i = 0; i < VPMU_MAX_SLOTS; i++)
		n += k->cfg->gaps[i];
	return n;
}

/* A new descriptor of page @i. */
static int totals_fd(const struct bpf_backend *k, uint32_t i)
{
	char path[PIN_PATH + 24];
	int fd;

	snprintf(path, sizeof(path), "%s/%s-%u", k->totals.pin_dir, k->totals.name, i);
	fd = bpf_obj_get(path);
	return fd < 0 ? -errno : fd;
}

static int totals_new(struct bpf_backend *k, struct kp_account *a)
{
	uint32_t i = 0;
	int ret;

	while (i < KP_MAX_TOTALS && k->totals.page[i])
		i++;
	if (i == KP_MAX_TOTALS)
		return -ENOSPC;
	ret = pages_add(&k->totals, &i, 1);
	if (ret)
		return ret;
	if (!k->nr_totals++)
		k->cfg->told = totals_blind(k);
	ret = totals_attach(k);
	if (ret) {
		k->nr_totals--;
		k->sys->map_del(k->totals.fd, &i);
		pages_remove(&k->totals, i);
		return ret;
	}
	__atomic_store_n(&a->shown, 0, __ATOMIC_RELAXED);
	__atomic_store_n(&a->totals, i + 1, __ATOMIC_SEQ_CST);
	backend_changed(k);
	backend_flush_all(k);
	return 0;
}

int bpf_backend_totals_open(struct vpmu_backend_node *node)
{
	struct bpf_backend *k = backend_of(node->source);
	struct knode *n = knode_of(node);
	struct kp_account *a = account_at(k, n->account);
	char rt[256];
	int ret;

	snprintf(rt, sizeof(rt), "%s/sys/kernel/realtime", k->sys->files);
	/* With PREEMPT_RT a switch can interrupt the program at KVM's exit. */
	if (!k->totals.pin_dir || !access(rt, F_OK))
		return -EOPNOTSUPP;
	if (!a || n->removed || !is_one_task(n))
		return -EINVAL;
	if (!a->totals) {
		ret = totals_new(k, a);
		if (ret)
			return ret;
	}
	return totals_fd(k, a->totals - 1);
}

void bpf_backend_totals_close(struct vpmu_backend_node *node)
{
	totals_drop(backend_of(node->source), knode_of(node));
}

void bpf_backend_totals_show(struct vpmu_backend_node *node, uint64_t slots)
{
	struct bpf_backend *k = backend_of(node->source);
	struct kp_account *a = account_at(k, knode_of(node)->account);

	if (a && a->totals)
		__atomic_store_n(&a->shown, slots, __ATOMIC_RELAXED);
}

bool bpf_backend_has_totals(const struct vpmu_backend_node *node)
{
	const struct bpf_backend *k = backend_of(node->source);
	const struct kp_account *a = account_at(k, knode_of(node)->account);

	return a && a->totals;
}

void totals_tend(struct bpf_backend *k)
{
	uint32_t blind = totals_blind(k);

	if (blind != k->cfg->told)
		for (uint32_t i = 0; i < KP_MAX_TOTALS; i++)
			if (k->totals.page[i])
				totals_note(k, i, KP_GAP);
	k->cfg->told = blind;
}

void totals_take(struct bpf_backend *k)
{
	bool used[KP_MAX_TOTALS] = {false};
	struct kp_account *a;

	for (uint32_t i = KP_OTHER + 1; i < k->nr_accounts; i++) {
		a = account_at(k, i);
		if (!a || !a->totals)
			continue;
		if (!totals_page(k, a->totals) || used[a->totals - 1]) {
			a->totals = 0; /* the former process ended before it had pinned the page */
			continue;
		}
		used[a->totals - 1] = true;
		k->nr_totals++;
	}
	/* Pages that were made or ended at that moment. */
	for (uint32_t i = 0; i < KP_MAX_TOTALS; i++) {
		if (!k->totals.page[i] || used[i])
			continue;
		k->sys->map_del(k->totals.fd, &i);
		pages_remove(&k->totals, i);
	}
	if (!k->nr_totals)
		pin_unlink(k, PIN_EXITS);
}
