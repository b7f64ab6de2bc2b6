// SPDX-License-Identifier: GPL-2.0-or-later
/* See fake.h. */
#include "tests/model/fake.h"

#include <errno.h>
#include <string.h>

static struct fake *fake(const struct vpmu_hostpmu *pmu)
{
	return (struct fake *)pmu; /* pmu is the first member */
}

/* m_keys_init's order: by where, privilege and event. Called between traps, so no search. */
static int key_index(vpmu_key_t key)
{
	int where = (int)(key >> 36 & 3), priv = (int)(key >> 34 & 3);
	int i = ((3 - where) * 3 + 3 - priv) * 12 + (int)(key & 0xffff);

	return i >= 0 && i < m_nr_keys && m_keys[i].key == key ? i : M_NONE;
}

bool fake_can(const struct fake *f, int key)
{
	return m_keys[key].event != M_NONE && !f->cannot[m_keys[key].event];
}

uint32_t fake_eligible(const struct fake *f, int key)
{
	if (!fake_can(f, key))
		return 0;
	return f->soft.pmu.ops->eligible(&f->soft.pmu, m_keys[key].key);
}

int fake_counter_of(const struct fake *f, int key)
{
	for (unsigned int i = 0; i < f->pmu.nr_ctrs; i++) {
		if (f->key[i] == key)
			return (int)i;
	}
	return M_NONE;
}

static uint32_t eligible(const struct vpmu_hostpmu *pmu, vpmu_key_t key)
{
	int k = key_index(key);

	fake(pmu)->calls++;
	return k == M_NONE ? 0 : fake_eligible(fake(pmu), k);
}

static enum vpmu_quality quality(const struct vpmu_hostpmu *pmu, vpmu_key_t key)
{
	fake(pmu)->calls++;
	return fake(pmu)->soft.pmu.ops->quality(&fake(pmu)->soft.pmu, key);
}

static int bind(struct vpmu_hostpmu *pmu, unsigned int ctr, vpmu_key_t key)
{
	struct fake *f = fake(pmu);
	int k = key_index(key), ret;

	f->calls++;
	if (f->refuse_percent && rnd64(&f->rng) % 100 < f->refuse_percent)
		return -EBUSY;
	ret = f->soft.pmu.ops->bind(&f->soft.pmu, ctr, key);
	if (ret)
		return ret;
	f->key[ctr] = k;
	f->offset[ctr] = f->memory ? 0 : rnd64(&f->rng);
	f->rebound[k] = true;
	if (f->model)
		model_counter(f->model, f->pcpu, k, true);
	return 0;
}

static void unbind(struct vpmu_hostpmu *pmu, unsigned int ctr)
{
	struct fake *f = fake(pmu);

	f->calls++;
	f->soft.pmu.ops->unbind(&f->soft.pmu, ctr);
	f->rebound[f->key[ctr]] = true;
	if (f->model)
		model_counter(f->model, f->pcpu, f->key[ctr], false);
	f->key[ctr] = M_NONE;
}

static uint64_t read(struct vpmu_hostpmu *pmu, unsigned int ctr)
{
	struct fake *f = fake(pmu);

	f->calls++;
	f->reads[f->key[ctr]]++;
	return (f->soft.pmu.ops->read(&f->soft.pmu, ctr) + f->offset[ctr]) & pmu->width_mask;
}

static uint64_t now(const struct vpmu_hostpmu *pmu)
{
	fake(pmu)->calls++;
	fake(pmu)->nows++;
	return fake(pmu)->soft.pmu.ops->now(&fake(pmu)->soft.pmu);
}

static uint64_t audit(const struct vpmu_hostpmu *pmu, unsigned int ctr)
{
	fake(pmu)->calls++;
	return fake(pmu)->soft.pmu.ops->audit(&fake(pmu)->soft.pmu, ctr);
}

static const struct vpmu_hostpmu_ops fake_ops = {
	.name = "fake",
	.eligible = eligible,
	.quality = quality,
	.bind = bind,
	.unbind = unbind,
	.read = read,
	.now = now,
	.audit = audit,
};

int fake_init(struct fake *f, const struct vpmu_softpmu_opts *opts, struct model *m, int pcpu,
	      uint64_t seed)
{
	memset(f, 0, sizeof(*f));
	f->rng = seed;
	if (vpmu_softpmu_init(&f->soft, opts))
		return -EINVAL;
	f->pmu = f->soft.pmu;
	/* Half of them are read as memory, the others by calls, which are counted. */
	f->memory = rnd64(&f->rng) & 1;
	if (!f->memory) {
		f->pmu.mem = NULL;
		f->pmu.clock_ns = NULL;
	}
	f->pmu.ops = &fake_ops;
	f->model = m;
	f->pcpu = pcpu;
	f->soft.own_clock_ns = rnd64(&f->rng) >> 20; /* any epoch */
	for (int i = 0; i < VPMU_MAX_CTRS; i++)
		f->key[i] = M_NONE;
	return 0;
}

void fake_reset_calls(struct fake *f)
{
	f->calls = f->nows = 0;
	memset(f->reads, 0, sizeof(f->reads));
	memset(f->rebound, 0, sizeof(f->rebound));
}

void fake_execute(struct fake *f, const struct m_exec *x)
{
	for (int mode = 0; mode < M_MODES; mode++) {
		for (int e = 0; e < M_EVENTS; e++)
			f->soft.own_tally.ev[mode][e] += x->ev[mode][e];
	}
	f->soft.own_clock_ns += x->ns;
	if (f->model)
		model_execute(f->model, f->pcpu, x);
}
