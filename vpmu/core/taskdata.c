// SPDX-License-Identifier: LGPL-2.1-or-later
/*
 * The pool of task data, and updates of an object with concurrent readers; see taskdata.h. Called
 * by lbr.c, lbr_attach.c and the BPF backend. Reading takes no lock; allocating and freeing take
 * the pool's.
 */
#include <string.h>
#include <sys/mman.h>

#include "vpmu/core/internal.h"

#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/asan_interface.h>
#define POISON(p, n)   ASAN_POISON_MEMORY_REGION(p, n)
#define UNPOISON(p, n) ASAN_UNPOISON_MEMORY_REGION(p, n)
#else
#define POISON(p, n)   ((void)(p))
#define UNPOISON(p, n) ((void)(p))
#endif

#define CHUNK_BYTES 65536
#define CHUNK_HEAD  256 /* at most */
#define CHUNK_TASKS ((CHUNK_BYTES - CHUNK_HEAD) / sizeof(struct vpmu_taskdata))
#define MAP_WORDS   2

struct vpmu_lbr_chunk {
	struct cds_list_head node; /* in pool->partial, or in pool->full if nr_free is 0 */
	struct vpmu_lbr_pool *pool;
	unsigned int nr_free;
	uint64_t free[MAP_WORDS];
	struct vpmu_taskdata task[CHUNK_TASKS];
};

_Static_assert(sizeof(struct vpmu_lbr_chunk) <= CHUNK_BYTES, "chunk");
_Static_assert(CHUNK_TASKS <= 64 * MAP_WORDS, "bitmap");

void taskdata_pool_init(struct vpmu_lbr_pool *pool)
{
	*pool = (struct vpmu_lbr_pool){.next_id = 1};
	pthread_mutex_init(&pool->lock, NULL);
	CDS_INIT_LIST_HEAD(&pool->partial);
	CDS_INIT_LIST_HEAD(&pool->full);
}

static void chunk_unmap(struct vpmu_lbr_chunk *c)
{
	UNPOISON(c, CHUNK_BYTES);
	munmap(c, CHUNK_BYTES);
}

void taskdata_pool_fini(struct vpmu_lbr_pool *pool)
{
	struct vpmu_lbr_chunk *c, *tmp;

	cds_list_for_each_entry_safe (c, tmp, &pool->partial, node)
		chunk_unmap(c);
	cds_list_for_each_entry_safe (c, tmp, &pool->full, node)
		chunk_unmap(c);
	pthread_mutex_destroy(&pool->lock);
}

static struct vpmu_lbr_chunk *chunk_of(struct vpmu_taskdata *d)
{
	return caa_container_of(d - d->index, struct vpmu_lbr_chunk, task[0]);
}

static struct vpmu_lbr_chunk *chunk_map(struct vpmu_lbr_pool *pool)
{
	struct vpmu_lbr_chunk *c;

	c = mmap(NULL, CHUNK_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (c == MAP_FAILED)
		return NULL;
	c->pool = pool;
	c->nr_free = CHUNK_TASKS;
	for (unsigned int i = 0; i < CHUNK_TASKS; i++)
		c->free[i / 64] |= VPMU_BIT(i % 64);
	POISON(c->task, sizeof(c->task));
	cds_list_add(&c->node, &pool->partial);
	store_relaxed(&pool->nr_chunks, pool->nr_chunks + 1);
	return c;
}

struct vpmu_taskdata *taskdata_alloc(struct vpmu_lbr_pool *pool)
{
	struct vpmu_taskdata *d = NULL;
	struct vpmu_lbr_chunk *c;
	unsigned int word = 0, index;
	uint64_t id;

	pthread_mutex_lock(&pool->lock);
	c = cds_list_empty(&pool->partial)
		    ? chunk_map(pool)
		    : cds_list_first_entry(&pool->partial, struct vpmu_lbr_chunk, node);
	if (!c)
		goto out;
	while (!c->free[word])
		word++;
	index = word * 64 + (unsigned int)__builtin_ctzll(c->free[word]);
	d = &c->task[index];
	c->free[word] &= c->free[word] - 1;
	if (--c->nr_free == 0)
		cds_list_move(&c->node, &pool->full);
	id = pool->next_id++;
	store_relaxed(&pool->nr_tasks, pool->nr_tasks + 1);
out:
	pthread_mutex_unlock(&pool->lock);
	if (!d)
		return NULL;
	/* I5: no data of the memory's previous task may remain. */
	UNPOISON(d, sizeof(*d));
	memset(d, 0, sizeof(*d));
	d->id = id;
	d->index = (uint8_t)index;
	return d;
}

/* Under the lock. Returns true if the chunk is empty and has left the pool; the caller unmaps it.
 */
static bool task_free(struct vpmu_lbr_pool *pool, struct vpmu_taskdata *d)
{
	struct vpmu_lbr_chunk *c = chunk_of(d);

	c->free[d->index / 64] |= VPMU_BIT(d->index % 64);
	POISON(d, sizeof(*d));
	if (c->nr_free++ == 0)
		cds_list_move(&c->node, &pool->partial);
	if (c->nr_free < CHUNK_TASKS)
		return false;
	cds_list_del(&c->node);
	store_relaxed(&pool->nr_chunks, pool->nr_chunks - 1);
	return true;
}

/* After a grace period. If the object was given back again during it, another one must follow. */
static void task_waited(struct rcu_head *head)
{
	struct vpmu_taskdata *d = caa_container_of(head, struct vpmu_taskdata, rcu);
	struct vpmu_lbr_chunk *c = chunk_of(d);
	struct vpmu_lbr_pool *pool = c->pool;
	bool again = false, gone = false;

	pthread_mutex_lock(&pool->lock);
	if (d->state == TASKDATA_USED) {
		d->waiting = d->again = false;
	} else if (d->again) {
		d->again = false;
		again = true;
	} else {
		if (d->state == TASKDATA_PARKED)
			*d->slot = NULL;
		gone = task_free(pool, d);
	}
	pthread_mutex_unlock(&pool->lock);
	if (again)
		urcu_memb_call_rcu(&d->rcu, task_waited);
	if (gone)
		chunk_unmap(c);
}

/* Under the lock. Returns true if the caller must queue task_waited. */
static bool give_back(struct vpmu_lbr_pool *pool, struct vpmu_taskdata *d,
		      enum taskdata_state state)
{
	bool waiting = d->waiting;

	d->state = (uint8_t)state;
	d->waiting = true;
	d->again = waiting;
	store_relaxed(&pool->nr_tasks, pool->nr_tasks - 1);
	return !waiting;
}

void taskdata_retire(struct vpmu_lbr_pool *pool, struct vpmu_taskdata *d)
{
	bool wait;

	pthread_mutex_lock(&pool->lock);
	wait = give_back(pool, d, TASKDATA_RETIRED);
	pthread_mutex_unlock(&pool->lock);
	if (wait)
		urcu_memb_call_rcu(&d->rcu, task_waited);
}

void taskdata_park(struct vpmu_lbr_pool *pool, struct vpmu_taskdata *d, struct vpmu_taskdata **slot)
{
	bool wait;

	pthread_mutex_lock(&pool->lock);
	wait = give_back(pool, d, TASKDATA_PARKED);
	d->slot = slot;
	*slot = d;
	pthread_mutex_unlock(&pool->lock);
	if (wait)
		urcu_memb_call_rcu(&d->rcu, task_waited);
}

struct vpmu_taskdata *taskdata_unpark(struct vpmu_lbr_pool *pool, struct vpmu_taskdata **slot)
{
	struct vpmu_taskdata *d;

	pthread_mutex_lock(&pool->lock);
	d = *slot;
	*slot = NULL;
	if (d) {
		d->state = TASKDATA_USED;
		d->id = pool->next_id++;
		store_relaxed(&pool->nr_tasks, pool->nr_tasks + 1);
	}
	pthread_mutex_unlock(&pool->lock);
	return d;
}

void taskdata_retire_parked(struct vpmu_lbr_pool *pool, struct vpmu_taskdata **slot)
{
	pthread_mutex_lock(&pool->lock);
	if (*slot)
		(*slot)->state = TASKDATA_RETIRED;
	*slot = NULL;
	pthread_mutex_unlock(&pool->lock);
}

void taskdata_usage(const struct vpmu_lbr_pool *pool, struct vpmu_lbr_usage *out)
{
	out->tasks = load_relaxed(&pool->nr_tasks);
	out->bytes = load_relaxed(&pool->nr_chunks) * CHUNK_BYTES;
}

void vpmu_lbr_usage(const struct vpmu_host *host, struct vpmu_lbr_usage *out)
{
	taskdata_usage(&host->lbr_pool, out);
}

/* ---- one object ---- */

#define WORDS (sizeof(struct vpmu_lbr_regs) / sizeof(uint64_t))
_Static_assert(sizeof(struct vpmu_lbr_regs) % sizeof(uint64_t) == 0, "copied by words");

/*
 * A sequence lock: seq is odd while the words change. The release of each word pairs with its
 * acquire in taskdata_read: a reader that sees a new word also sees an odd or newer seq and
 * discards its copy. A fence after the first store of seq would do, too, but releases are free on
 * x86 and ThreadSanitizer models them.
 */
void taskdata_write(struct vpmu_taskdata *d, const struct vpmu_lbr_regs *r)
{
	uint64_t *to = (uint64_t *)&d->regs;
	const uint64_t *from = (const uint64_t *)r;
	uint32_t seq = load_relaxed(&d->seq);

	store_relaxed(&d->seq, seq + 1);
	for (size_t i = 0; i < WORDS; i++)
		store_release(&to[i], from[i]);
	/* The release pairs with the first load of seq in taskdata_read: a reader of this seq sees
	 * all words. */
	store_release(&d->seq, seq + 2);
}

#define READ_TRIES 100

bool taskdata_read(const struct vpmu_taskdata *d, struct vpmu_lbr_regs *r)
{
	const uint64_t *from = (const uint64_t *)&d->regs;
	uint64_t *to = (uint64_t *)r;

	for (int i = 0; i < READ_TRIES; i++) {
		uint32_t seq = load_acquire(&d->seq);

		if (seq & 1) {
			caa_cpu_relax();
			continue;
		}
		/* Acquire orders these loads before the second load of seq. Pairs with the releases
		 * of the words in taskdata_write. */
		for (size_t w = 0; w < WORDS; w++)
			to[w] = load_acquire(&from[w]);
		if (load_relaxed(&d->seq) == seq)
			return true;
	}
	return false;
}
