// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Fits the BPF program to the running kernel. account.bpf.c has several variants of the switch
 * program; the best one that this kernel supports is loaded, so that it needs no instruction to
 * test for features. load.c calls this before it loads the program.
 *
 * If possible the map of CPUs is a single element, so that its address is a constant in the
 * instructions and no lookup is needed. libbpf 1.1 does this only for maps of a size known at
 * compile time. So the instructions are changed here, between libbpf's relocation and the load.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <bpf/bpf.h>
#include <bpf/btf.h>
#include <bpf/libbpf.h>
#include <linux/bpf.h>

#include "cgroup/priv.h"
#include "service/program/memory.h"

#include <account.skel.h> /* it needs maps.h */

/* Maximum bytes of an array map's element on every supported kernel. Newer ones permit more. */
#define ELEMENT_MAX (4u << 20)

/* Constants that libbpf's callback puts into the program being loaded. The control thread loads one
 * at a time. */
static struct {
	const struct bpf_map *cpus; /* the map of CPUs, if it is one element; else NULL */
	uint32_t cpu_mask;	    /* covers all CPU numbers */
	int hook;		    /* BTF id of sched_switch's tracepoint */
	int move;		    /* BTF id of KP_MOVE_HOOK; <= 0: none */
	int attach;		    /* BTF id of the tracepoint of moves; <= 0: none */
	bool symbol;		    /* BTF has runqueues */
	bool no_symbol;		    /* but the kernel does not find it: fit_without_symbol() */
} fit;

static bool has_member(const struct btf *btf, const char *type, const char *member)
{
	int id = btf__find_by_name_kind(btf, type, BTF_KIND_STRUCT);
	const struct btf_type *t = id > 0 ? btf__type_by_id(btf, (__u32)id) : NULL;
	const struct btf_member *m = t ? btf_members(t) : NULL;
	const char *name;

	for (unsigned int i = 0; t && i < btf_vlen(t); i++) {
		name = btf__name_by_offset(btf, m[i].name_off);
		if (name && !strcmp(name, member))
			return true;
	}
	return false;
}

/* ---- when libbpf loads a program ---------------------------------------------------------- */

/* Compares names, because from libbpf 1.4 on bpf_map__fd() is not valid until all maps are loaded.
 */
static bool is_cpus(const struct bpf_insn *insn)
{
	struct bpf_map_info info = {0};
	__u32 len = sizeof(info);

	return insn->code == (BPF_LD | BPF_IMM | BPF_DW) && insn->src_reg == BPF_PSEUDO_MAP_FD &&
	       !bpf_obj_get_info_by_fd(insn->imm, &info, &len) &&
	       !strcmp(info.name, bpf_map__name(fit.cpus));
}

static bool is_mask(const struct bpf_insn *insn)
{
	return insn->code == (BPF_ALU64 | BPF_AND | BPF_K) && insn->imm == KP_FIT_CPUS;
}

static int change(struct bpf_program *prog, struct bpf_prog_load_opts *opts, long cookie)
{
	const char *section = bpf_program__section_name(prog);
	const size_t n = bpf_program__insn_cnt(prog);
	struct bpf_insn *insns = xmalloc(n * sizeof(*insns));
	int ret;

	memcpy(insns, bpf_program__insns(prog), n * sizeof(*insns));
	for (size_t i = 0; fit.cpus && i < n; i++) {
		if (is_mask(&insns[i]))
			insns[i].imm = (__s32)fit.cpu_mask;
		if (!is_cpus(&insns[i]))
			continue;
		insns[i].src_reg = BPF_PSEUDO_MAP_VALUE;
		insns[++i].imm = 0; /* offset in the element */
	}
	ret = bpf_program__set_insns(prog, insns, n);
	free(insns);
	if (bpf_program__type(prog) == BPF_PROG_TYPE_TRACING)
		opts->attach_btf_id = (__u32)(!strcmp(section, KP_SEC_MOVE)	? fit.move
					      : !strcmp(section, KP_SEC_ATTACH) ? fit.attach
										: fit.hook);
	return ret;
}

static int features_attach(const struct bpf_program *prog, long cookie, struct bpf_link **link)
{
	*link = bpf_program__attach_trace(prog);
	return *link ? 0 : -errno;
}

static int attach_probe(const struct bpf_program *prog, long cookie, struct bpf_link **link)
{
	*link = bpf_program__attach_kprobe(prog, false, KP_MOVE_HOOK);
	return *link ? 0 : -errno;
}

static int attach_exit(const struct bpf_program *prog, long cookie, struct bpf_link **link)
{
	*link = bpf_program__attach_raw_tracepoint(prog, KP_EXIT_HOOK);
	return *link ? 0 : -errno;
}

int fit_init(void)
{
	LIBBPF_OPTS(libbpf_prog_handler_opts, trace, .prog_prepare_load_fn = change,
		    .prog_attach_fn = features_attach);
	LIBBPF_OPTS(libbpf_prog_handler_opts, flush, .prog_prepare_load_fn = change,
		    .prog_attach_fn = attach_exit);
	LIBBPF_OPTS(libbpf_prog_handler_opts, probe, .prog_prepare_load_fn = change,
		    .prog_attach_fn = attach_probe);
	const struct {
		const char *section;
		enum bpf_prog_type type;
		enum bpf_attach_type attach;
		const struct libbpf_prog_handler_opts *o;
	} all[] = {
		{KP_SEC_SWITCH, BPF_PROG_TYPE_TRACING, BPF_TRACE_RAW_TP, &trace},
		{KP_SEC_FLUSH, BPF_PROG_TYPE_RAW_TRACEPOINT, 0, &flush},
		{KP_SEC_MOVE, BPF_PROG_TYPE_TRACING, BPF_TRACE_FENTRY, &trace},
		{KP_SEC_PROBE, BPF_PROG_TYPE_KPROBE, 0, &probe},
		{KP_SEC_ATTACH, BPF_PROG_TYPE_TRACING, BPF_TRACE_RAW_TP, &trace},
	};
	static bool done;
	int ret;

	for (size_t i = 0; !done && i < sizeof(all) / sizeof(all[0]); i++) {
		ret = libbpf_register_prog_handler(all[i].section, all[i].type, all[i].attach,
						   all[i].o);
		if (ret < 0)
			return ret;
	}
	done = true;
	return 0;
}

/* ---- choosing ----------------------------------------------------------------------------- */

/* Returns true if the kernel supports a map with one element of @bytes. ENOMEM counts as support.
 */
static bool fits_element(uint64_t bytes)
{
	LIBBPF_OPTS(bpf_map_create_opts, o, .map_flags = BPF_F_MMAPABLE);
	int fd;

	if (bytes <= ELEMENT_MAX)
		return true;
	if (bytes > INT32_MAX / 2)
		return false;
	fd = bpf_map_create(BPF_MAP_TYPE_ARRAY, "vpmu_size", sizeof(uint32_t), (__u32)bytes, 1, &o);
	if (fd >= 0)
		close(fd);
	return fd >= 0 || errno == ENOMEM;
}

static uint32_t features_mask_of(unsigned int nr)
{
	uint32_t mask = 0;

	while (mask < nr - 1)
		mask = mask << 1 | 1;
	return mask;
}

/* Set the size of the map of CPUs: one element for all CPUs and the daemon's if @one, else one
 * each. */
static int size_cpus(struct bpf_backend *k, bool one)
{
	struct bpf_map *m = k->skel->maps.cpus;
	int ret = bpf_map__set_max_entries(m, one ? 1 : k->nr_cpus + 1);

	return ret || !one ? ret : bpf_map__set_value_size(m, (__u32)k->cpus_size);
}

/* The best means for moves that this kernel permits, from @from on. Some locked-down kernels permit
 * neither of the first two. */
static enum move_means best_means(const struct bpf_backend *k, enum move_means from)
{
	if (from < MOVE_TRACEPOINT && !moves_in_cgroup2(k))
		from = MOVE_TRACEPOINT;
	for (; from < MOVE_TRACEPOINT; from++)
		if (fit.move > 0 && k->sys->may_hook(from, fit.move))
			return from;
	return from == MOVE_TRACEPOINT && fit.attach > 0 &&
			       k->sys->may_hook(MOVE_TRACEPOINT, fit.attach)
		       ? MOVE_TRACEPOINT
		       : MOVE_MEANS;
}

static void features_choose(struct bpf_backend *k, bool one, bool cast, enum move_means from)
{
	struct account_bpf *s = k->skel;
	struct bpf_program *const by[MOVE_MEANS + 1] = {
		[MOVE_FENTRY] = one ? s->progs.on_move : s->progs.on_move_any,
		[MOVE_KPROBE] = one ? s->progs.on_move_probe : s->progs.on_move_probe_any,
		[MOVE_TRACEPOINT] = one ? s->progs.on_attach : s->progs.on_attach_any,
	};
	struct bpf_program *p;

	k->on_switch = !one			      ? s->progs.on_switch_any
		       : cast			      ? s->progs.on_switch_cast
		       : fit.symbol && !fit.no_symbol ? s->progs.on_switch_symbol
						      : s->progs.on_switch;
	k->flush_cpu = one ? s->progs.flush_cpu : s->progs.flush_cpu_any;
	k->move_by = best_means(k, from);
	k->on_move = by[k->move_by];
	bpf_object__for_each_program(p, s->obj) bpf_program__set_autoload(
		p, p == k->on_switch || p == k->flush_cpu || p == k->on_move);
}

bool fit_without_symbol(const struct bpf_backend *k)
{
	bool used = k->skel && k->on_switch == k->skel->progs.on_switch_symbol;

	fit.no_symbol |= used;
	return used;
}

int fit_program(struct bpf_backend *k, enum move_means from)
{
	const uint32_t mask = features_mask_of(k->nr_cpus);
	const uint64_t nr = mask > k->nr_cpus ? mask + 1ULL : k->nr_cpus + 1ULL;
	bool one, cast;
	struct btf *btf;
	char path[256];

	snprintf(path, sizeof(path), "%s/sys/kernel/btf/vmlinux", k->sys->files);
	btf = btf__parse(path, NULL);
	k->sees_hidden =
		btf && has_member(btf, "cfs_rq", "rq") && has_member(btf, "rq", "nr_switches");
	one = k->sees_hidden && has_member(btf, "thread_info", "cpu") &&
	      fits_element(nr * KP_CPU_BYTES);
	cast = btf && btf__find_by_name_kind(btf, "bpf_rdonly_cast", BTF_KIND_FUNC) > 0;
	fit.symbol = btf && btf__find_by_name_kind(btf, "runqueues", BTF_KIND_VAR) > 0;
	fit.cpu_mask = mask;
	fit.hook = btf ? btf__find_by_name_kind(btf, "btf_trace_sched_switch", BTF_KIND_TYPEDEF)
		       : libbpf_find_vmlinux_btf_id("sched_switch", BPF_TRACE_RAW_TP);
	fit.move = btf ? btf__find_by_name_kind(btf, KP_MOVE_HOOK, BTF_KIND_FUNC)
		       : libbpf_find_vmlinux_btf_id(KP_MOVE_HOOK, BPF_TRACE_FENTRY);
	fit.attach =
		btf ? btf__find_by_name_kind(btf, "btf_trace_cgroup_attach_task", BTF_KIND_TYPEDEF)
		    : libbpf_find_vmlinux_btf_id("cgroup_attach_task", BPF_TRACE_RAW_TP);
	btf__free(btf);
	features_choose(k, one, cast, from);
	fit.cpus = one ? k->skel->maps.cpus : NULL;
	k->cpus_size = (one ? nr : k->nr_cpus + 1ULL) * KP_CPU_BYTES;
	return size_cpus(k, one);
}
