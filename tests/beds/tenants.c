// SPDX-License-Identifier: GPL-2.0-or-later
/* The BPF backend of tenants.h, by the interface that sessions use (service/backend/backend.h). */
#include "tests/beds/tenants.h"

#include "tests/beds/bed.h"
#include "tests/beds/workload.h"

void tenants_open(struct tenants *p, unsigned int nr_tenants, const char *const events[])
{
	const struct bpf_backend_opts opts = {.pin_dir = NULL};

	tenants_open_as(p, nr_tenants, events, &opts);
}

void tenants_open_as(struct tenants *p, unsigned int nr_tenants, const char *const events[],
		     const struct bpf_backend_opts *opts)
{
	char name[24], why[512] = "";

	memset(p, 0, sizeof(*p));
	for (; events[p->nr_keys]; p->nr_keys++)
		cr_assert(!vpmu_event_parse(events[p->nr_keys], vpmu_event_host_space(),
					    &p->keys[p->nr_keys], why, sizeof(why)),
			  "%s", why);
	cr_assert(!bpf_backend_open(opts, &p->k, why, sizeof(why)), "%s", why);
	p->source = bpf_as_backend(p->k);
	p->nr_tenants = nr_tenants;
	p->node = calloc(nr_tenants + 2, sizeof(*p->node));
	p->counting = calloc(nr_tenants + 2, sizeof(struct vpmu_counting *));
	p->values = calloc((nr_tenants + 2) * TENANTS_MAX_KEYS, sizeof(*p->values));
	cr_assert(p->node && p->counting && p->values);
	for (unsigned int i = 0; i < nr_tenants; i++) {
		snprintf(name, sizeof(name), "t%u", i);
		cr_assert(!vpmu_backend_node_add(p->source->root, i + 100, &p->node[i]));
		cr_assert(!bpf_backend_bind_cgroup(p->node[i], cgroup_make(name)));
	}
	p->node[nr_tenants] = p->source->other;
	p->node[nr_tenants + 1] = p->source->root;
}

void tenants_close(struct tenants *p)
{
	char name[24];

	for (unsigned int i = 0; i < p->nr_tenants; i++) {
		snprintf(name, sizeof(name), "t%u", i);
		vpmu_backend_node_remove(p->node[i]);
		cgroup_remove(name);
	}
	bpf_backend_close(p->k);
	free(p->node);
	free(p->counting);
	free(p->values);
}

void tenants_attach(struct tenants *p, unsigned int nr, bool all)
{
	struct vpmu_counting *list = NULL, *c;
	char why[512];
	size_t failed;
	int rc;

	for (unsigned int i = 0; i < p->nr_tenants + (all ? 2 : 0); i++) {
		c = vpmu_counting_new(p->node[i], p->keys, nr, &p->values[i * TENANTS_MAX_KEYS]);
		cr_assert(c);
		c->next = list;
		p->counting[i] = list = c;
	}
	rc = vpmu_backend_attach(list, &failed);
	cr_assert(!rc, "attach: %s", vpmu_backend_error(p->source, rc, why, sizeof(why)));
}

void tenants_detach(struct tenants *p)
{
	unsigned int n = p->nr_tenants + (p->counting[p->nr_tenants] ? 2 : 0);

	vpmu_backend_detach(p->counting[n - 1]);
	for (unsigned int i = 0; i < n; i++) {
		vpmu_counting_free(p->counting[i]);
		p->counting[i] = NULL;
	}
}

static int compare(const struct vpmu_conservation *c, void *arg)
{
	unsigned int *n = arg;
	char name[VPMU_EVENT_NAME_MAX];

	(*n)++;
	cr_expect_eq(c->hardware, c->charged, "CPU %u, %s: %lu counted, %lu charged", c->pcpu,
		     vpmu_event_name(c->key, name), c->hardware, c->charged);
	return 0;
}

void tenants_conserved(const struct tenants *t, unsigned int cpus)
{
	unsigned int n = 0;

	cr_expect_eq(vpmu_backend_conservation(t->source, compare, &n), 0);
	cr_expect_eq(n, cpus * t->nr_keys, "%u comparisons", n);
}

void tenants_root_is_all(const struct tenants *t)
{
	for (unsigned int k = 0; k < t->nr_keys; k++) {
		uint64_t sum = 0, root = tenants_value(t, t->nr_tenants + 1, k)->count;

		for (unsigned int i = 0; i <= t->nr_tenants; i++)
			sum += tenants_value(t, i, k)->count;
		cr_expect_eq(sum, root, "key %u: tenants and other %lu, the root %lu", k, sum,
			     root);
	}
}
