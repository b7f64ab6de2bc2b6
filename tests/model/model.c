// SPDX-License-Identifier: GPL-2.0-or-later
/* See model.h. Written to be obviously right, not fast. */
#include "tests/model/model.h"

#include <stdlib.h>
#include <string.h>

struct m_key m_keys[M_KEYS];
int m_nr_keys;

struct entry {
	int pcpu;
	int account;
	struct m_exec x;
	m_keyset bound, can;
};

struct consumer {
	int account;
	int key;
	bool enabled;
	bool forgotten;
	size_t pos; /* log entries before this are in @truth or do not concern it */
	struct m_truth truth;
};

struct watch {
	bool used;
	int account, key, pcpu;
	size_t pos;
	uint64_t counted;
};

struct model {
	struct entry *log;
	size_t nr_log, room_log;
	int *parent, *enabled; /* by account */
	int nr_accounts;
	struct consumer *consumers;
	int nr_consumers;
	struct watch *watches;
	int nr_watches;
	int runs[M_PCPUS];
	m_keyset bound[M_PCPUS], can[M_PCPUS];
};

static void add_key(vpmu_key_t key, int event, bool os, bool usr, bool host)
{
	m_keys[m_nr_keys++] = (struct m_key){
		.key = key,
		.event = os || usr || host ? event : M_NONE,
		.modes = {os, usr, host},
		.modelled = event == 0 || event == 2,
	};
}

/* Every event of the emulator in every mix of modes, and some that no emulator PMU counts. */
void m_keys_init(void)
{
	static const uint16_t event_id[M_EVENTS] = {0, 1, 2, 3, 4, 5, 6}; /* enum vpmu_generic */
	static const uint16_t foreign[] = {7, 8, 9, 10, 11};

	m_nr_keys = 0;
	for (int where = 3; where >= 1; where--) {
		for (int priv = 3; priv >= 1; priv--) {
			bool usr = priv & 1, os = priv & 2, guest = where & 1, host = where & 2;
			uint64_t flags = (usr ? 1ULL << 34 : 0) | (os ? 1ULL << 35 : 0) |
					 (guest ? 1ULL << 36 : 0) | (host ? 1ULL << 37 : 0);

			for (int e = 0; e < M_EVENTS; e++)
				add_key(1ULL << 40 | flags | event_id[e], e, guest && os,
					guest && usr, host && os);
			for (int e = 0; e < 5; e++)
				add_key(1ULL << 40 | flags | foreign[e], M_NONE, false, false,
					false);
		}
	}
}

struct model *model_new(void)
{
	struct model *m = calloc(1, sizeof(*m));

	for (int p = 0; p < M_PCPUS; p++)
		m->runs[p] = M_NONE;
	model_account(m, M_NONE);
	return m;
}

void model_free(struct model *m)
{
	free(m->log);
	free(m->parent);
	free(m->enabled);
	free(m->consumers);
	free(m->watches);
	free(m);
}

int model_account(struct model *m, int parent)
{
	m->parent = realloc(m->parent, (size_t)(m->nr_accounts + 1) * sizeof(*m->parent));
	m->enabled = realloc(m->enabled, (size_t)(m->nr_accounts + 1) * sizeof(*m->enabled));
	m->parent[m->nr_accounts] = parent;
	m->enabled[m->nr_accounts] = 0;
	return m->nr_accounts++;
}

bool model_below(const struct model *m, int account, int above)
{
	for (; account != M_NONE; account = m->parent[account]) {
		if (account == above)
			return true;
	}
	return false;
}

void model_switch(struct model *m, int pcpu, int account)
{
	m->runs[pcpu] = account;
}

void model_counter(struct model *m, int pcpu, int key, bool bound)
{
	m->bound[pcpu].has[key] = bound;
}

void model_can(struct model *m, int pcpu, int key, bool can)
{
	m->can[pcpu].has[key] = can;
}

void model_execute(struct model *m, int pcpu, const struct m_exec *x)
{
	if (m->nr_log == m->room_log) {
		m->room_log = m->room_log ? 2 * m->room_log : 64;
		m->log = realloc(m->log, m->room_log * sizeof(*m->log));
	}
	m->log[m->nr_log++] = (struct entry){
		.pcpu = pcpu,
		.account = m->runs[pcpu],
		.x = *x,
		.bound = m->bound[pcpu],
		.can = m->can[pcpu],
	};
}

static uint64_t events_of(const struct m_exec *x, const struct m_key *k)
{
	uint64_t n = 0;

	for (int mode = 0; mode < M_MODES; mode++) {
		if (k->event != M_NONE && k->modes[mode])
			n += x->ev[mode][k->event];
	}
	return n;
}

int model_consumer(struct model *m, int account, int key)
{
	int i = 0;

	while (i < m->nr_consumers && !m->consumers[i].forgotten)
		i++;
	if (i == m->nr_consumers)
		m->consumers =
			realloc(m->consumers, (size_t)++m->nr_consumers * sizeof(*m->consumers));
	m->consumers[i] = (struct consumer){.account = account, .key = key};
	return i;
}

/* Add up the log from where the consumer stands. */
static void catch_up(struct model *m, struct consumer *c)
{
	for (; c->pos < m->nr_log; c->pos++) {
		const struct entry *e = &m->log[c->pos];
		uint64_t n = events_of(&e->x, &m_keys[c->key]);

		if (!model_below(m, e->account, c->account))
			continue;
		c->truth.executed += n;
		if (e->can.has[c->key])
			c->truth.enabled_ns += e->x.ns;
		else
			c->truth.uncountable_ns += e->x.ns;
		if (e->bound.has[c->key]) {
			c->truth.counted += n;
			c->truth.running_ns += e->x.ns;
		}
	}
}

void model_enable(struct model *m, int consumer)
{
	struct consumer *c = &m->consumers[consumer];

	if (c->enabled)
		return;
	c->pos = m->nr_log;
	c->enabled = true;
	m->enabled[c->account]++;
}

void model_disable(struct model *m, int consumer)
{
	struct consumer *c = &m->consumers[consumer];

	if (!c->enabled)
		return;
	catch_up(m, c);
	c->enabled = false;
	m->enabled[c->account]--;
}

void model_forget(struct model *m, int consumer)
{
	model_disable(m, consumer);
	m->consumers[consumer].forgotten = true;
}

struct m_truth model_truth(struct model *m, int consumer)
{
	struct consumer *c = &m->consumers[consumer];

	if (c->enabled)
		catch_up(m, c);
	return c->truth;
}

int model_enabled(const struct model *m, int account)
{
	return m->enabled[account];
}

int model_watch(struct model *m, int account, int key, int pcpu)
{
	int i = 0;

	while (i < m->nr_watches && m->watches[i].used)
		i++;
	if (i == m->nr_watches)
		m->watches = realloc(m->watches, (size_t)++m->nr_watches * sizeof(*m->watches));
	m->watches[i] = (struct watch){true, account, key, pcpu, m->nr_log, 0};
	return i;
}

uint64_t model_watched(struct model *m, int watch)
{
	struct watch *w = &m->watches[watch];

	for (; w->pos < m->nr_log; w->pos++) {
		const struct entry *e = &m->log[w->pos];

		if ((w->pcpu == M_NONE || w->pcpu == e->pcpu) && e->bound.has[w->key] &&
		    model_below(m, e->account, w->account))
			w->counted += events_of(&e->x, &m_keys[w->key]);
	}
	return w->counted;
}

void model_unwatch(struct model *m, int watch)
{
	m->watches[watch].used = false;
}

uint64_t model_hardware(const struct model *m, int pcpu, int key)
{
	uint64_t n = 0;

	for (size_t i = 0; i < m->nr_log; i++) {
		if (m->log[i].pcpu == pcpu && m->log[i].bound.has[key])
			n += events_of(&m->log[i].x, &m_keys[key]);
	}
	return n;
}

void model_keys_in_use(const struct model *m, int account, m_keyset *set)
{
	memset(set, 0, sizeof(*set));
	for (int i = 0; i < m->nr_consumers; i++) {
		const struct consumer *c = &m->consumers[i];

		if (c->enabled && model_below(m, account, c->account))
			set->has[c->key] = true;
	}
}

int model_distinct_keys(const struct model *m, int key, bool *among)
{
	m_keyset all = {0};
	int n = 0;

	for (int i = 0; i < m->nr_consumers; i++) {
		if (m->consumers[i].enabled)
			all.has[m->consumers[i].key] = true;
	}
	for (int k = 0; k < m_nr_keys; k++)
		n += all.has[k];
	*among = all.has[key];
	return n;
}
