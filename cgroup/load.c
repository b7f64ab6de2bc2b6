// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The BPF backend as a whole: loading the BPF program, attaching it while a session counts, opening
 * and closing. The daemon's control thread calls this. A program must never stay attached without a
 * use.
 */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include <bpf/bpf.h>
#include <bpf/libbpf.h>

#include "cgroup/slot.h"
#include "service/program/memory.h"
#include "vpmu/util/fail.h"

#include <account.skel.h> /* it needs maps.h */

/* Interval of the checks for hardware events that have lost their counters to others. */
#define GAPS_EVERY_NS 1000000000ULL
#define FOLD_EVERY_NS 500000000ULL

/* ---- the program -------------------------------------------------------------------------- */

/* Updating an array of maps waits for the kernel's grace period. */
void backend_sync(struct bpf_backend *k)
{
	const uint32_t last = KP_ACCOUNT_PAGES - 1;

	k->sys->pages(k->accounts.fd, &last, &k->sync_page, 1);
	for (unsigned int i = 0; i < VPMU_MAX_SLOTS; i++)
		if (!k->slot[i].key)
			k->slot[i].used = false;
}

void backend_changed(struct bpf_backend *k)
{
	uint32_t gen = __atomic_add_fetch(&k->cfg->gen, 1, __ATOMIC_SEQ_CST);

	for (unsigned int cpu = 0; cpu < k->nr_cpus; cpu++) {
		__atomic_store_n(&cpu_state(k, cpu)->want, gen, __ATOMIC_RELEASE);
		/* The program sets until_ns, then reads the generation: either it reads the new
		 * one, or its next switch sees this 0. Pairs with the barrier in clock_now(). */
		__atomic_store_n(&cpu_state(k, cpu)->until_ns, 0, __ATOMIC_SEQ_CST);
	}
}

/* Reset the CPUs' state, which is out of date since the program last ran. */
static void load_forget(struct bpf_backend *k)
{
	for (unsigned int cpu = 0; cpu < k->nr_cpus; cpu++) {
		struct kp_cpu *st = cpu_state(k, cpu);

		st->cset = 0;
		st->mask = 0;
		st->place = 0;
		st->gen = k->cfg->gen - 1;
		st->want = k->cfg->gen;
		st->until_ns = 0;
		st->usual = 1;
		st->other_cset = 0;
		st->nr = 0;
		st->held = 0;
		st->whole = 0;
		st->skew = KP_SKEW_NONE;
	}
}

int backend_attach(struct bpf_backend *k)
{
	struct bpf_link *link;
	int ret;

	if (k->link)
		return 0;
	/* A former process's program may be attached. Two at a time do no harm: each detects by the
	 * number of switches which ones the other has handled. */
	if (!k->running)
		load_forget(k);
	link = k->sys->attach(k->on_switch);
	if (!link)
		return -errno;
	ret = pin_link(k, link, PIN_LINK);
	if (ret) {
		bpf_link__destroy(link);
		return ret;
	}
	k->link = link;
	moves_attach(k);
	totals_attach(k); /* without it the pages are only current after switches */
	return 0;
}

void backend_detach(struct bpf_backend *k)
{
	if (k->link && !k->taken_over) {
		moves_detach(k);
		totals_detach(k);
		pin_unlink(k, PIN_LINK);
		bpf_link__destroy(k->link);
		k->link = NULL;
	}
}

int backend_flush(struct bpf_backend *k, unsigned int cpu)
{
	return k->link ? k->sys->run(bpf_program__fd(k->flush_cpu), cpu) : 0;
}

void backend_flush_all(struct bpf_backend *k)
{
	for (unsigned int cpu = 0; cpu < k->nr_cpus; cpu++)
		if (k->online[cpu] && !k->quiet[cpu])
			backend_flush(k, cpu);
}

uint32_t backend_blind(const struct bpf_backend *k)
{
	uint32_t n = 0;

	for (unsigned int cpu = 0; cpu < k->nr_cpus; cpu++)
		n += VPMU_LOAD(&cpu_state(k, cpu)->blind);
	return n;
}

/* ---- loading ------------------------------------------------------------------------------ */

/* libbpf's first warning, which names the cause. */
static char first_line[256];

static int keep_line(enum libbpf_print_level level, const char *fmt, va_list ap)
{
	if (level == LIBBPF_WARN && !first_line[0])
		vsnprintf(first_line, sizeof(first_line), fmt, ap);
	return 0;
}

static int load_why_not(const struct bpf_backend *k, int ret, char *why, size_t whylen)
{
	char btf[256];

	snprintf(btf, sizeof(btf), "%s/sys/kernel/btf/vmlinux", k->sys->files);
	if (ret == -EPERM) /* not EACCES: that is mostly the verifier's */
		return fail(-EPERM, why, whylen,
			    "the kernel does not permit the BPF program: needs CAP_BPF and "
			    "CAP_PERFMON");
	if (access(btf, R_OK))
		return fail(-EOPNOTSUPP, why, whylen,
			    "the kernel has no BTF (%s): needs Linux 6.1 or later with "
			    "CONFIG_DEBUG_INFO_BTF",
			    btf);
	if (ret == -ENOMEM)
		return fail(ret, why, whylen, "no memory for the BPF maps");
	first_line[strcspn(first_line, "\n")] = '\0';
	if (k->opts.pin_dir && strstr(first_line, "pinned map"))
		return fail(-EBUSY, why, whylen,
			    "%s; remove the directory to give up its counts, or name another one",
			    first_line);
	return fail(ret == -EINVAL ? ret : -EOPNOTSUPP, why, whylen,
		    "the kernel refuses the BPF program: %s (%s); needs Linux 6.1 or later",
		    strerror(-ret), *first_line ? first_line : "no message");
}

static int load_prepare(struct bpf_backend *k, enum move_means from)
{
	struct account_bpf *skel;
	uint32_t n = k->nr_cpus;
	int ret = fit_init();

	if (ret)
		return ret;
	skel = account_bpf__open();
	if (!skel)
		return -errno;
	k->skel = skel;
	ret = fit_program(k, from);
	if (!ret)
		ret = bpf_map__set_max_entries(skel->maps.events, n * VPMU_MAX_SLOTS);
	if (!ret)
		ret = bpf_map__set_max_entries(skel->maps.cell_index,
					       kp_index_page(n, KP_CHUNKS, 0, 0));
	if (!ret)
		ret = bpf_map__set_max_entries(skel->maps.cells, (n + 1) * KP_CELL_PAGES);
	skel->data->cfg.nr_cpus = n;
	skel->data->cfg.epoch = clock_ns(CLOCK_REALTIME);
	return ret;
}

/* On refusal retries with the next means for moves, and finally without any. A retry costs start-up
 * time, but not if a symbol is missing, which the kernel finds out first. */
static int cgroup_load(struct bpf_backend *k, enum move_means from, char *why, size_t whylen)
{
	bool retry;
	int ret;

	first_line[0] = '\0';
	ret = load_prepare(k, from);
	if (!ret && k->opts.pin_dir) {
		ret = pin_prepare(k, why, whylen);
		if (ret)
			return ret;
	}
	if (!ret)
		ret = k->sys->load(k->skel->skeleton);
	retry = ret == -ENOENT && fit_without_symbol(k);
	if (retry || (ret && ret != -ENOMEM && k->on_move)) {
		account_bpf__destroy(k->skel);
		k->skel = NULL;
		return cgroup_load(k, retry ? from : k->move_by + 1, why, whylen);
	}
	return ret ? load_why_not(k, ret, why, whylen) : 0;
}

static void *map_memory(struct bpf_map *m, size_t bytes)
{
	void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, bpf_map__fd(m), 0);

	return p == MAP_FAILED ? NULL : p;
}

/* Set where pages are pinned, and remove leftovers of a process that ended while it made its maps.
 */
static void pin_pages(struct bpf_backend *k)
{
	struct pages *const all[] = {&k->accounts, &k->index, &k->cells, &k->totals};
	const char *const names[] = {"accounts", "index", "cells", "totals"};

	for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
		all[i]->pin_dir = k->opts.pin_dir;
		all[i]->name = names[i];
		if (!k->taken_over)
			pages_unpin(all[i]);
	}
}

static int map_all(struct bpf_backend *k)
{
	struct account_bpf *skel = k->skel;
	LIBBPF_OPTS(bpf_map_create_opts, o, .map_flags = BPF_F_MMAPABLE);

	k->cpus = map_memory(skel->maps.cpus, k->cpus_size);
	k->task_bits = map_memory(skel->maps.data_bits, KP_TASK_BITS / 8);
	/* Not skel->data: libbpf 1.5 does not update it for a pinned map. */
	k->cfg = map_memory(skel->maps.data, sizeof(*k->cfg));
	if (!k->cpus || !k->task_bits || !k->cfg)
		return -ENOMEM;
	k->sync_page = bpf_map_create(BPF_MAP_TYPE_ARRAY, "vpmu_page", sizeof(uint32_t),
				      sizeof(struct kp_account), KP_PAGE_ACCOUNTS, &o);
	if (k->sync_page < 0)
		return -errno;
	pages_init(&k->accounts, k->sys, bpf_map__fd(skel->maps.accounts), KP_ACCOUNT_PAGES,
		   KP_PAGE_ACCOUNTS, sizeof(struct kp_account));
	pages_init(&k->index, k->sys, bpf_map__fd(skel->maps.cell_index),
		   bpf_map__max_entries(skel->maps.cell_index), KP_PAGE_ACCOUNTS / 2,
		   2 * sizeof(uint32_t));
	pages_init(&k->cells, k->sys, bpf_map__fd(skel->maps.cells),
		   bpf_map__max_entries(skel->maps.cells), KP_PAGE_CELLS, sizeof(struct kp_cell));
	pages_init(&k->totals, k->sys, bpf_map__fd(skel->maps.totals), KP_MAX_TOTALS, 1,
		   sizeof(struct vpmu_totals));
	k->totals.frozen = true;
	pin_pages(k);
	return 0;
}

/* ---- life --------------------------------------------------------------------------------- */

static void init_cpus(struct bpf_backend *k)
{
	bool more[k->nr_cpus];

	k->online = xcalloc(k->nr_cpus, sizeof(*k->online));
	k->quiet = xcalloc(k->nr_cpus, sizeof(*k->quiet));
	hotplug_init(k);
	if (k->opts.isolated)
		return;
	bpf_backend_cpus(k->sys, "/sys/devices/system/cpu/isolated", k->quiet, k->nr_cpus);
	if (bpf_backend_cpus(k->sys, "/sys/devices/system/cpu/nohz_full", more, k->nr_cpus))
		for (unsigned int cpu = 0; cpu < k->nr_cpus; cpu++)
			k->quiet[cpu] |= more[cpu];
}

/* Take over a former process's pages, and derive the number of chunks from them. */
static int find_pages(struct bpf_backend *k)
{
	int ret;

	if (!k->taken_over)
		return 0;
	ret = pages_find(&k->accounts);
	if (!ret)
		ret = pages_find(&k->index);
	if (!ret)
		ret = pages_find(&k->cells);
	if (!ret)
		ret = pages_find(&k->totals);
	for (unsigned int chunk = 0; chunk < KP_CHUNKS; chunk++)
		if (k->index.page[kp_index_page(k->nr_cpus, chunk, 0, 0)])
			k->chunks = chunk + 1;
	return ret;
}

static bool slots_used(const struct bpf_backend *k)
{
	bool used = false;

	for (unsigned int i = 0; i < VPMU_MAX_SLOTS; i++)
		used |= k->slot[i].key != 0;
	return used;
}

int bpf_backend_open(const struct bpf_backend_opts *o, struct bpf_backend **out, char *why,
		     size_t whylen)
{
	struct bpf_backend *k = xcalloc(1, sizeof(*k));
	libbpf_print_fn_t print;
	int ret, cpus = libbpf_num_possible_cpus();

	*out = NULL;
	k->opts = *o;
	k->sys = o->sys ? o->sys : &bpf_backend_sys_real;
	k->nr_cpus = cpus > 0 ? (unsigned int)cpus : 1;
	k->alive = k->sync_page = k->pin_lock = k->turn_timer = -1;
	k->source = (struct vpmu_backend){
		.ops = &bpf_backend_ops,
		.backend = "bpf",
		.can = VPMU_BACKEND_CONSERVES | VPMU_BACKEND_SAMPLES | VPMU_BACKEND_CHAINS |
		       VPMU_BACKEND_BRANCHES | VPMU_BACKEND_CPUS,
		.nr_cpus = k->nr_cpus,
		.root = &k->root.n,
		.other = &k->other.n,
	};
	print = libbpf_set_print(keep_line);
	ret = cgroup_load(k, MOVE_FENTRY, why, whylen);
	libbpf_set_print(print);
	if (ret)
		goto err;
	k->bit_users = xcalloc(KP_TASK_BITS, sizeof(*k->bit_users));
	slot_init(k);
	ret = map_all(k);
	if (!ret)
		ret = alive_init(k);
	if (!ret) {
		init_cpus(k);
		sampling_open(k);
		ret = budget_init(k);
	}
	if (!ret)
		ret = find_pages(k);
	if (!ret)
		ret = node_init(k);
	if (!ret)
		ret = pin_take(k);
	if (!ret && k->taken_over && slots_used(k)) {
		k->running = pin_is_there(k, PIN_LINK);
		ret = backend_attach(k);
		k->running = false;
		if (!ret) {
			hotplug_check(k);
			budget_change(k);
		}
	}
	k->cfg->ready |= !ret;
	if (ret) {
		fail(ret, why, whylen, "the maps of the BPF program: %s", strerror(-ret));
		goto err;
	}
	*out = k;
	return 0;
err:
	bpf_backend_close(k);
	return ret;
}

void bpf_backend_close(struct bpf_backend *k)
{
	if (!k)
		return;
	if (k->opts.pin_dir) { /* the pinned links stay */
		bpf_link__destroy(k->link);
		bpf_link__destroy(k->move_link);
		bpf_link__destroy(k->exit_link);
	} else {
		backend_detach(k);
	}
	pin_close(k);
	alive_exit(k);
	budget_exit(k);
	slot_exit(k);
	bind_exit(k);
	schedtask_close(k);
	sampling_close(k);
	node_exit(k);
	pages_free(&k->accounts);
	pages_free(&k->index);
	pages_free(&k->cells);
	pages_free(&k->totals);
	if (k->cpus)
		munmap(k->cpus, k->cpus_size);
	if (k->task_bits)
		munmap(k->task_bits, KP_TASK_BITS / 8);
	if (k->cfg)
		munmap(k->cfg, sizeof(*k->cfg));
	if (k->sync_page >= 0)
		close(k->sync_page);
	account_bpf__destroy(k->skel);
	free(k->bit_users);
	free(k->online);
	free(k->quiet);
	free(k);
}

struct vpmu_backend *bpf_as_backend(struct bpf_backend *k)
{
	return &k->source;
}

void bpf_backend_tend(struct bpf_backend *k)
{
	uint64_t now = clock_ns(CLOCK_MONOTONIC);
	bool thorough = k->link && now - k->gaps_ns > GAPS_EVERY_NS;

	hotplug_tend(k, thorough);
	sampling_tend(k);
	budget_tend(k, thorough);
	sched_tend(k, now);
	if (thorough) {
		k->gaps_ns = now;
		slot_gaps(k);
		moves_look(k);
		totals_tend(k);
	}
	if (k->link)
		node_grow(k);
	/* Folding waits for a grace period: batch the nodes. */
	if (now - k->folded_ns > FOLD_EVERY_NS || k->nr_removed >= KP_REMOVED_MAX)
		node_fold(k);
}

void bpf_backend_usage(struct bpf_backend *k, struct bpf_backend_usage *out)
{
	struct vpmu_sharing s;

	k->source.ops->sharing(&k->source, &s);
	*out = (struct bpf_backend_usage){
		.accounts = k->nr_accounts - k->nr_free,
		.events = s.host_counters,
		.sees_hidden = k->sees_hidden,
		.programs = (k->link != NULL) + (k->move_link != NULL) + (k->exit_link != NULL),
	};
	out->moves = moves_describe(k, out->moves_why, sizeof(out->moves_why));
	for (unsigned int cpu = 0; cpu <= k->nr_cpus; cpu++) {
		out->cells += VPMU_LOAD(&cpu_state(k, cpu)->cells);
		out->missed += VPMU_LOAD(&cpu_state(k, cpu)->missed);
		out->moved += VPMU_LOAD(&cpu_state(k, cpu)->moved);
	}
	out->map_bytes =
		k->accounts.bytes + k->index.bytes + k->cells.bytes + k->totals.bytes +
		k->cpus_size + KP_TASK_BITS / 8 +
		sizeof(void *) * (k->accounts.nr + k->index.nr + k->cells.nr + k->totals.nr);
}
