// SPDX-License-Identifier: GPL-2.0-or-later
/* Benchmarks of vCPUs' branch records: a switch, and memory. On the emulator's PMU. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/bench/bench.h"
#include "vpmu/account.h"
#include "vpmu/context.h"
#include "vpmu/host.h"
#include "vpmu/lbr.h"
#include "vpmu/pcpu.h"
#include "vpmu/core/rcu.h"
#include "vpmu/emupmu.h"

#define MANY 10000
#define MIB  (1024.0 * 1024)

#define CTL (VPMU_LBR_EN | VPMU_LBR_OS | VPMU_LBR_USR | VPMU_LBR_TYPES)

/* One pCPU, @n vCPUs of one VM on it. */
struct bed {
	struct vpmu_host *host;
	struct vpmu_emupmu pmu;
	struct vpmu_pcpu *p;
	struct vpmu_account *vm;
	struct vpmu_account **vcpu;
	struct vpmu_context *ctx;
	unsigned int n;
};

static void die(const char *what)
{
	fprintf(stderr, "vpmu-bench: %s\n", what);
	exit(1);
}

static void bed_open(struct bed *b, unsigned int n)
{
	*b = (struct bed){.host = vpmu_host_create(), .n = n};
	b->vcpu = calloc(n, sizeof(struct vpmu_account *));
	b->ctx = calloc(n, sizeof(*b->ctx));
	if (!b->host || !b->vcpu || !b->ctx || vpmu_emupmu_init(&b->pmu, NULL) ||
	    vpmu_pcpu_create(b->host, &b->pmu.pmu, 0, &b->p) ||
	    vpmu_account_create(vpmu_host_root(b->host), NULL, &b->vm))
		die("out of memory");
	for (unsigned int i = 0; i < n; i++) {
		if (vpmu_account_create(b->vm, NULL, &b->vcpu[i]) ||
		    vpmu_context_init(&b->ctx[i], b->vcpu[i], b->vm) ||
		    vpmu_context_place(&b->ctx[i], b->p))
			die("out of memory");
	}
}

static void bed_close(struct bed *b)
{
	vpmu_pcpu_switch(b->p, NULL);
	for (unsigned int i = 0; i < b->n; i++)
		vpmu_context_fini(&b->ctx[i]);
	vpmu_host_destroy(b->host);
	free(b->ctx);
	free(b->vcpu);
}

/* vCPU @i records, and has made 32. */
static void record(struct bed *b, unsigned int i)
{
	struct vpmu_lbr_regs r = {.ctl = CTL, .depth = 32, .count = 32, .head = 31, .total = 32};

	for (unsigned int e = 0; e < 32; e++)
		r.e[e] = (struct vpmu_lbr_entry){0x1000 + i, 0x2000 + e, VPMU_LBR_INFO_CYC_VALID};
	if (vpmu_lbr_guest_open(&b->ctx[i], NULL, 32) || vpmu_lbr_guest_set(&b->ctx[i], NULL, &r))
		die("branch records");
}

static void run_two(void *arg, uint64_t n)
{
	struct bed *b = arg;

	for (uint64_t i = 0; i < n; i++)
		vpmu_pcpu_switch(b->p, &b->ctx[i & 1]);
}

static void run_same(void *arg, uint64_t n)
{
	struct bed *b = arg;

	for (uint64_t i = 0; i < n; i++)
		vpmu_pcpu_switch(b->p, &b->ctx[0]);
}

/* Out and in again with the host in between: saved, zeroed, restored. */
static void run_host(void *arg, uint64_t n)
{
	struct bed *b = arg;

	for (uint64_t i = 0; i < n; i++) {
		vpmu_pcpu_switch(b->p, NULL);
		vpmu_pcpu_switch(b->p, &b->ctx[0]);
	}
}

/* lbr_switch: every switch saves 32 entries and restores 32 others. lbr_switch_same: the vCPU that
 * ran goes on. Without branch records the same two vCPUs are equal. */
int bench_lbr_switch(void)
{
	static struct bed plain, b;
	struct bench_set set = {.nr = 4,
				.c = {{.fn = run_two, .arg = &b},
				      {.fn = run_two, .arg = &plain},
				      {.fn = run_same, .arg = &b},
				      {.fn = run_host, .arg = &b}}};

	bed_open(&plain, 2);
	bed_open(&b, 2);
	record(&b, 0);
	record(&b, 1);
	bench_measure(&set);
	bench_report_ns("lbr_switch", &set, 0, BENCH_BLOCK, 0,
			json_pack("{s:i, s:f, s:f}", "entries", 32, "without_lbr_ns", set.c[1].ns,
				  "host_and_back_ns", set.c[3].ns));
	bench_report_ns("lbr_switch_same", &set, 2, BENCH_BLOCK, 6, NULL);
	bench_free(&set);
	bed_close(&b);
	bed_close(&plain);
	return 0;
}

static double rss_mib(void)
{
	unsigned long size = 0, rss = 0;
	FILE *f = fopen("/proc/self/statm", "r");

	if (f) {
		if (fscanf(f, "%lu %lu", &size, &rss) != 2)
			rss = 0;
		fclose(f);
	}
	return (double)rss * 4096 / MIB;
}

/* Global mode over many vCPUs: memory before, during and after. */
int bench_lbr_memory(void)
{
	struct vpmu_lbr_usage before, during, after;
	double rss, start, attach_us;
	struct bed b;

	bed_open(&b, MANY);
	vpmu_lbr_usage(b.host, &before);
	rss = rss_mib();
	start = bench_thread_ns();
	if (vpmu_lbr_attach(vpmu_host_root(b.host), CTL))
		die("global mode");
	attach_us = (bench_thread_ns() - start) / 1e3;
	rss = rss_mib() - rss;
	vpmu_lbr_usage(b.host, &during);
	if (during.tasks != MANY)
		die("global mode is not global");
	vpmu_lbr_detach(vpmu_host_root(b.host));
	urcu_memb_barrier();
	vpmu_lbr_usage(b.host, &after);
	bench_report("lbr_memory", (double)during.bytes / MIB, "MiB", 8, false,
		     json_pack("{s:i, s:I, s:f, s:f}", "vcpus", MANY, "bytes_per_vcpu",
			       (json_int_t)(during.bytes / MANY), "resident_mib", rss, "attach_us",
			       attach_us));
	/* Nothing at all is the goal; a goal of 0 would mean none. */
	bench_report("lbr_memory_unused", (double)(before.bytes + after.bytes), "bytes", 0.5, false,
		     NULL);
	bed_close(&b);
	return 0;
}
