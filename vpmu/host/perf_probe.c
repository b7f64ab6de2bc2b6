// SPDX-License-Identifier: LGPL-2.1-or-later
/*
 * Probing of the host: the number of hardware events at a time, and the keys that perf can count.
 * perf.c calls this when a key is first used, which can be during a switch or an exit of a guest,
 * and at ticks. So nothing here takes a lock: results are kept in latches, and threads that find
 * none at the same time probe at the same time. Nothing here may take a counter from another user:
 * the number is probed with events that never start, and a key is tried briefly, with an unpinned
 * event.
 */
#include <errno.h>
#include <string.h>

#include "vpmu/host/perf_priv.h"

/* Lifetime of results that can change. */
#define AGAIN_NS 1000000000ULL

static uint64_t wall_ns(void)
{
	uint64_t ns;

	return vpmu_perf_sys->clock(0, &ns) ? 0 : ns;
}

bool vpmu_perf_passes(int rc)
{
	return rc == -EMFILE || rc == -ENFILE || rc == -ENOMEM || rc == -EBUSY || rc == -EAGAIN ||
	       rc == -EINTR;
}

/* True for results that depend on hardware and kernel only, not on permissions or resources. */
static bool is_lasting(int rc)
{
	return rc >= 0 || rc == -ENOENT || rc == -EINVAL || rc == -ENOSYS;
}

/* ---- latches ------------------------------------------------------------------------------ */

#define LATCH_WORDS 4

/* A result of up to LATCH_WORDS words. @seq is 0 until the first store, and odd during a store. */
struct probe_latch {
	uint32_t seq;
	uint64_t word[LATCH_WORDS];
};

/*
 * Copy the result to *@out (@bytes, a multiple of 8). Returns false if there is none, or it is
 * being stored. The acquires of the words pair with the releases in probe_latch_store: a reader of
 * a newer word sees at its second load that the number has changed.
 */
static bool probe_latch_load(const struct probe_latch *l, void *out, size_t bytes)
{
	uint32_t seq = __atomic_load_n(&l->seq, __ATOMIC_ACQUIRE);
	uint64_t word[LATCH_WORDS];

	if (!seq || (seq & 1))
		return false;
	for (size_t i = 0; i < bytes / 8; i++)
		word[i] = __atomic_load_n(&l->word[i], __ATOMIC_ACQUIRE);
	if (__atomic_load_n(&l->seq, __ATOMIC_RELAXED) != seq)
		return false;
	memcpy(out, word, bytes);
	return true;
}

/* Does nothing while another thread stores: the result is probed again when it is next used. */
static void probe_latch_store(struct probe_latch *l, const void *from, size_t bytes)
{
	uint32_t seq = __atomic_load_n(&l->seq, __ATOMIC_RELAXED);
	uint64_t word[LATCH_WORDS];

	memcpy(word, from, bytes);
	if ((seq & 1) || !__atomic_compare_exchange_n(&l->seq, &seq, seq + 1, false,
						      __ATOMIC_ACQUIRE, __ATOMIC_RELAXED))
		return;
	for (size_t i = 0; i < bytes / 8; i++)
		__atomic_store_n(&l->word[i], word[i], __ATOMIC_RELEASE);
	__atomic_store_n(&l->seq, seq + 2, __ATOMIC_RELEASE);
}

/* The end of the lifetime of a result; 0: none. */
static uint64_t probe_until_ns(int rc)
{
	return is_lasting(rc) ? 0 : wall_ns() + AGAIN_NS;
}

static bool probe_expired(uint64_t until_ns)
{
	return until_ns && wall_ns() >= until_ns;
}

/* ---- one key ------------------------------------------------------------------------------ */

/*
 * Open an event and read it. A successful open is not enough: the event may never get a counter.
 * With several core types, the events of the other types do not run, so this cannot tell.
 */
static int try_key(vpmu_key_t key, int cpu)
{
	struct vpmu_perf_where where = {.tid = cpu >= 0 ? -1 : 0, .cpu = cpu};
	struct vpmu_perf_event e;
	int rc = vpmu_perf_event_open(&e, key, &where);

	if (rc)
		return rc;
	rc = vpmu_perf_event_enable(&e, true);
	if (!rc)
		rc = vpmu_perf_event_runs(&e);
	if (rc == -ENODATA || (rc == 0 && vpmu_perf_hardware(key)))
		rc = -EBUSY;
	vpmu_perf_event_close(&e);
	return rc < 0 ? rc : 0;
}

struct probe_key {
	vpmu_key_t key;
	uint64_t until_ns;
	int64_t of_cpu, rc;
};
_Static_assert(sizeof(struct probe_key) <= 8 * LATCH_WORDS, "fits a latch");

/*
 * Cached results by key. The size is fixed, because guests choose raw keys. An evicted key is
 * probed again.
 */
#define CACHE_SIZE 256
static struct probe_latch cache[CACHE_SIZE];

static struct probe_latch *probe_cached(vpmu_key_t key)
{
	/* Fibonacci hashing: keys differ in low bits and in flags far above them. */
	return &cache[(key * 0x9e3779b97f4a7c15ULL >> 56) % CACHE_SIZE];
}

bool vpmu_perf_probed(vpmu_key_t key, int cpu, int *rc)
{
	struct probe_key k;

	if (!probe_latch_load(probe_cached(key), &k, sizeof(k)) || k.key != key ||
	    k.of_cpu != (cpu >= 0) || probe_expired(k.until_ns))
		return false;
	*rc = (int)k.rc;
	return true;
}

int vpmu_perf_probe(vpmu_key_t key, int cpu)
{
	struct probe_key k;
	int rc;

	if (!key)
		return -EINVAL;
	if (vpmu_perf_probed(key, cpu, &rc))
		return rc;
	rc = try_key(key, cpu);
	k = (struct probe_key){key, probe_until_ns(rc), cpu >= 0, rc};
	probe_latch_store(probe_cached(key), &k, sizeof(k));
	return rc;
}

/* ---- number of counters -------------------------------------------------------------------- */

/* User level needs the fewest permissions and is enough here. The member is opened enabled, because
 * Arm's driver admits any disabled event. The group still does not start, because its leader does
 * not. */
static int add_member(struct vpmu_perf_event *e, enum vpmu_generic ev, const int *leader)
{
	struct vpmu_perf_where where = {.tid = 0, .cpu = -1, .leader = leader, .enabled = true};

	return vpmu_perf_event_open(e, vpmu_key_generic(ev, VPMU_KEY_USR), &where);
}

/*
 * The kernel admits an event to a group only if the whole group can count on an otherwise unused
 * PMU. So a group with a leader that is never enabled shows the number of counters without using
 * any. No CPU has a fixed counter for branches: the number of branch events admitted is the number
 * of general counters. (If branches cannot be counted: cache misses, branch misses, or
 * instructions, for which Arm has no fixed counter.) An event that is admitted besides them has a
 * fixed counter.
 */
static void find_capacity(struct vpmu_perf_capacity *c, const int *leader)
{
	static const uint16_t general[] = {VPMU_EV_BRANCHES, VPMU_EV_CACHE_MISSES,
					   VPMU_EV_BRANCH_MISSES, VPMU_EV_INSTRUCTIONS};
	static const uint16_t fixed[] = {VPMU_EV_INSTRUCTIONS, VPMU_EV_CYCLES, VPMU_EV_REF_CYCLES};
	struct vpmu_perf_event e[VPMU_PERF_MAX_GP + 3];
	unsigned int n = 0;
	int rc = 0;

	for (unsigned int i = 0; !n && i < sizeof(general) / sizeof(general[0]); i++) {
		while (n < VPMU_PERF_MAX_GP &&
		       !(rc = add_member(&e[n], (enum vpmu_generic)general[i], leader)))
			n++;
	}
	c->gp = n;
	c->rc = n ? 0 : rc;
	for (unsigned int i = 0; c->gp && i < sizeof(fixed) / sizeof(fixed[0]); i++) {
		if (add_member(&e[n], (enum vpmu_generic)fixed[i], leader))
			continue;
		n++;
		c->fixed_event[c->fixed++] = fixed[i];
	}
	while (n)
		vpmu_perf_event_close(&e[--n]);
}

static void perf_probe_find(struct vpmu_perf_capacity *c)
{
	uint32_t types[VPMU_PERF_TYPES];
	int leader[VPMU_PERF_TYPES];
	unsigned int n;

	*c = (struct vpmu_perf_capacity){.kinds = vpmu_perf_types(types)};
	for (n = 0; n < c->kinds; n++) {
		leader[n] = vpmu_perf_open_leader(0, -1, false);
		if (leader[n] < 0) {
			c->rc = leader[n];
			break;
		}
	}
	if (n == c->kinds)
		find_capacity(c, leader);
	while (n)
		vpmu_perf_sys->close(leader[--n]);
}

struct vpmu_perf_capacity vpmu_perf_capacity(void)
{
	static struct probe_latch latch;
	struct {
		struct vpmu_perf_capacity c;
		uint64_t until_ns;
	} found;

	_Static_assert(sizeof(found) <= 8 * LATCH_WORDS, "fits a latch");
	if (probe_latch_load(&latch, &found, sizeof(found)) && !probe_expired(found.until_ns))
		return found.c;
	memset(&found, 0, sizeof(found));
	perf_probe_find(&found.c);
	found.until_ns = probe_until_ns(found.c.rc);
	probe_latch_store(&latch, &found, sizeof(found));
	return found.c;
}

unsigned int vpmu_perf_usable(const struct vpmu_perf_capacity *c, unsigned int leave)
{
	if (!c->gp)
		return 0;
	return c->gp > leave ? c->gp - leave : 1;
}
