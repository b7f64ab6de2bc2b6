// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * record and lbr on the host: the machine is a fake one with PMIs at the times and places of the
 * test so that the tools must notice wrong ones.
 */
#include "tools_bed.h"
#include "guest-tools/flow.h"
#include "guest-tools/sample.h"
#include "guest-tools/symbols.h"

/* The image's table of functions and its end of code, for this test. */
const uint64_t symbol_count = 3;
const struct symbol symbol_table[] = {{0x1000, 0}, {0x2000, 6}, {0x3000, 12}};
const char symbol_names[] = "alpha\0beta0\0gamma";
const char __urodata_start[1];

static struct {
	bool x2apic, arch_lbr, refuse_lvtpc;
	uint64_t count;	   /* of the event in the workload, by the other counter */
	uint64_t own;	   /* by the sampled one */
	uint64_t pmis;	   /* that come */
	uint64_t no_cause; /* of these */
	uint64_t ips[8];   /* by turns */
	size_t nr_ips;
	bool kernel;
	uint64_t lbr[4]; /* FROM, TO of each sample's records */
	unsigned int nr_lbr;
	uint64_t quality;
	struct guest_pmi *pmi;
	struct {
		uint32_t msr;
		uint64_t v;
	} reg[512];
	size_t nr;
} hw;

static uint64_t *reg(uint32_t msr)
{
	size_t i = 0;

	while (i < hw.nr && hw.reg[i].msr != msr)
		i++;
	if (i == hw.nr) {
		cr_assert(hw.nr < 512);
		hw.reg[hw.nr++].msr = msr;
	}
	return &hw.reg[i].v;
}

static void fake_cpuid(struct guest_op *op)
{
	memset(op->regs, 0, sizeof(op->regs));
	switch (op->index) {
	case 0:
		op->regs[0] = 0x1c;
		memcpy(&op->regs[1], "GenuntelineI", 12);
		break;
	case 1:
		op->regs[2] = 1u << 31 | (hw.x2apic ? 1u << 21 : 0);
		break;
	case 7:
		op->regs[3] = hw.arch_lbr ? 1u << 19 : 0;
		break;
	case 0xa:
		op->regs[0] = 5 | 4 << 8 | 48 << 16 | 8u << 24;
		op->regs[3] = 3 | 48 << 5;
		break;
	case 0x1c:
		op->regs[0] = 0xb; /* 8, 16, 32 */
		op->regs[1] = 7;
		break;
	case VPMU_PV_CPUID_BASE:
		op->regs[0] = VPMU_PV_CPUID_BASE + 1;
		op->regs[1] = op->regs[2] = op->regs[3] = VPMU_PV_SIG_EBX;
		break;
	case VPMU_PV_CPUID_BASE + 1:
		op->regs[0] = VPMU_PV_VERSION;
		op->regs[1] = VPMU_PV_FEAT_TIMES;
		break;
	}
}

int64_t sys_pmu(struct guest_op *ops, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		ops[i].fault = 0;
		if (ops[i].kind == GUEST_CPUID)
			fake_cpuid(&ops[i]);
		else if (ops[i].kind == GUEST_WRMSR)
			*reg(ops[i].index) = ops[i].value;
		else if (ops[i].index - VPMU_PV_MSR_BASE < VPMU_PV_MSR_COUNT)
			ops[i].value = ops[i].index % 4 == 2 ? hw.quality : 1000;
		else
			ops[i].value = *reg(ops[i].index);
	}
	return 0;
}

int64_t sys_pmi(struct guest_pmi *pmi)
{
	if (pmi && hw.refuse_lvtpc)
		return -2;
	hw.pmi = pmi;
	return 0;
}

/* The kernel's part, at the PMIs the test asks for. */
uint64_t sys_run(struct guest_run *r)
{
	struct guest_pmi *p = hw.pmi;

	if (!r->msr)
		return 0;
	for (uint64_t i = 0; i < hw.pmis; i++) {
		p->pmis++;
		if (i < hw.no_cause) {
			p->no_cause++;
			continue;
		}
		if (p->samples == p->max)
			continue;

		struct guest_sample *s =
			(struct guest_sample *)(p->buf + p->samples++ * p->sample_bytes);
		memset(s, 0, p->sample_bytes);
		s->ip = hw.ips[i % hw.nr_ips];
		s->cs = hw.kernel ? 8 : 0x2b;
		s->nr_lbr = (uint16_t)hw.nr_lbr;
		memcpy((uint64_t *)(s + 1) + p->stack_nr, hw.lbr, sizeof(hw.lbr));
	}
	*reg(0x309) = hw.count; /* fixed counter 0 counts instructions beside counter 0 */
	*reg(0xc1) =
		(hw.own - (hw.pmis - hw.no_cause) * p->period - p->period) & ((1ull << 48) - 1);
	return r->fn == workload_empty ? 0 : r->fn(r->n, r->mem, r->mem_bytes, r->call);
}

/* 10 PMIs in 10050 instructions: 6 in alpha, 3 in gamma, one nowhere. */
static void good(void)
{
	static const uint64_t ips[] = {0x1000, 0x1fff, 0x3004, 0x1004,
				       0x10,   0x1100, 0x3100, 0x1200};

	memset(&hw, 0, sizeof(hw));
	hw.x2apic = hw.arch_lbr = true;
	hw.count = hw.own = 10050;
	hw.pmis = 10;
	memcpy(hw.ips, ips, sizeof(ips));
	hw.nr_ips = 8;
}

/* The code of this test is beyond every function of its table: as in __urodata_start.
 */
Test(symbols, lookup)
{
	char buf[SYMBOL_TEXT_MAX];

	cr_expect_eq(symbol_start(0xfff, 0x4000), 0xfff);
	cr_expect_eq(symbol_start(0x1000, 0x4000), 0x1000);
	cr_expect_eq(symbol_start(0x2fff, 0x4000), 0x2000);
	cr_expect_eq(symbol_start(0x3fff, 0x4000), 0x3000);
	cr_expect_eq(symbol_start(0x4000, 0x4000), 0x4000);
	cr_expect_str_eq(symbol_text(0x2000, buf), "beta0");
	cr_expect_str_eq(symbol_text(0x2001, buf), "0x2001");
}

Test(record, histogram)
{
	good();
	cr_assert_eq(tool(record_main, "-c 1000 loop 10"), 0, "%s", output);
	EXPECT_HAS("# vcpu 3: samples of instructions:u, one in 1000, by NMI, while loop 10 ran "
		   "(result 55)\n");
	EXPECT_HAS("        7   70.00%  [.] alpha\n        2   20.00%  [.] gamma\n"
		   "        1   10.00%  [.] 0x10\n");
	EXPECT_HAS("# vcpu 3: 10 PMIs, expected 10 (count 10050 / 1000), lost 0, without cause "
		   "0: ok\n");
	/* Counters: 0 samples with INT, fixed 0 counts beside it; all in one write. */
	cr_expect_eq(*reg(0x186), 0, "nothing is left set up");
	good();
	hw.kernel = true;
	cr_assert_eq(tool(record_main, "--vector -c 1000 loop 10"), 0, "%s", output);
	cr_expect(has("by vector") && has("[k] alpha"), "%s", output);
}

Test(record, raw)
{
	good();
	cr_assert_eq(tool(record_main, "--raw -c 1000 loop 10"), 0, "%s", output);
	EXPECT_HAS(": ok\n# sample 0: alpha+0x0 cpl 3\n# sample 1: alpha+0xfff cpl 3\n"
		   "# sample 2: gamma+0x4 cpl 3\n# sample 3: alpha+0x4 cpl 3\n"
		   "# sample 4: 0x10+0x0 cpl 3\n");
	EXPECT_HAS("# sample 9: alpha+0xfff cpl 3\n");
	cr_expect(!has("# sample 10:"), "%s", output);
	good();
	hw.kernel = true;
	cr_assert_eq(tool(record_main, "-j --raw -c 1000 loop 10"), 0, "%s", output);
	EXPECT_HAS("{\"kind\":\"sample\",\"vcpu\":3,\"nr\":2,\"function\":\"gamma\","
		   "\"offset\":4,\"cpl\":0}\n");
	good();
	cr_assert_eq(tool(record_main, "-c 1000 loop 10"), 0, "%s", output);
	cr_expect(!has("# sample 0"), "only when asked: %s", output);
}

Test(record, json_lines)
{
	uint64_t sum = 0;
	char *save, *l;

	good();
	hw.nr_lbr = 2;
	hw.lbr[0] = 0x2004, hw.lbr[1] = 0x1000, hw.lbr[2] = 0x3004, hw.lbr[3] = 0x2000;
	cr_assert_eq(tool(record_main, "-j -g -c 1000 loop 10"), 0, "%s", output);
	for (l = strtok_r(output, "\n", &save); l; l = strtok_r(NULL, "\n", &save)) {
		json_t *o = json_loads(l, 0, NULL), *chain;
		const char *kind = json_string_value(json_object_get(o, "kind"));

		cr_assert(kind, "%s", l);
		if (!strcmp(kind, "sample-histogram"))
			sum += (uint64_t)json_integer_value(json_object_get(o, "samples"));
		if (!strcmp(kind, "sample-summary"))
			cr_expect(json_is_true(json_object_get(o, "ok")) &&
				  json_integer_value(json_object_get(o, "pmis")) == 10);
		chain = json_object_get(o, "chain");
		if (chain) /* outermost first */
			cr_expect_str_eq(json_string_value(json_array_get(chain, 0)), "gamma");
		json_decref(o);
	}
	cr_expect_eq(sum, 10);
}

/* Faults of a machine, one at a time. */
Test(record, wrong_pmis)
{
	good();
	hw.pmis = 8;
	cr_expect_eq(tool(record_main, "-c 1000 loop"), TOOL_FAILED);
	cr_expect(has("8 PMIs, expected 10") && has("lost 2") && has(": WRONG\n"), "%s", output);
	good();
	hw.pmis = 12;
	cr_expect_eq(tool(record_main, "-c 1000 loop"), TOOL_FAILED);
	EXPECT_HAS(": WRONG\n");
	good();
	hw.pmis = 11;
	hw.no_cause = 1;
	cr_expect_eq(tool(record_main, "-c 1000 loop"), TOOL_FAILED);
	EXPECT_HAS("without cause 1: WRONG\n");
	good();
	hw.own = 10051; /* the two counters disagree by one */
	cr_expect_eq(tool(record_main, "-c 1000 loop"), TOOL_FAILED);
	good();
	hw.pmis = 9; /* one is still to come at the end: allowed */
	cr_expect_eq(tool(record_main, "-c 1000 loop"), TOOL_OK, "%s", output);
}

Test(record, cannot)
{
	good();
	hw.x2apic = false;
	cr_expect_eq(tool(record_main, "loop"), TOOL_FAILED);
	cr_expect_str_eq(output, "vcpu 3: error: no PMIs here: no local APIC in x2APIC mode (CPUID "
				 "1 ECX[21] is 0)\n");
	good();
	hw.pmis = 0;
	cr_expect_eq(tool(record_main, "-c 1000 loop"), TOOL_FAILED);
	EXPECT_HAS("no PMI came in 10 periods: this machine does not deliver them\n");
	good();
	hw.refuse_lvtpc = true;
	cr_expect_eq(tool(record_main, "loop"), TOOL_FAILED);
	EXPECT_HAS("a register that the PMI handler needs is #GP");
	good();
	hw.quality = VPMU_PV_UNSUPPORTED;
	cr_expect_eq(tool(record_main, "-c 1000 loop"), TOOL_FAILED);
	EXPECT_HAS("the host cannot count this event");
	good();
	hw.arch_lbr = false;
	cr_expect_eq(tool(record_main, "-g loop"), TOOL_FAILED);
	EXPECT_HAS("CPUID 7 EDX[19] (Arch LBR) is 0");
	good();
	cr_expect_eq(tool(record_main, "--fixed -e loads loop"), TOOL_FAILED);
	EXPECT_HAS("no fixed counter counts that");
	cr_expect_eq(tool(record_main, "nonsense"), TOOL_USAGE);
}

/* Records of the jump into the first block, and then something else. */
Test(lbr, judges)
{
	uint64_t first = (uint64_t)branch_blocks + 64 * (FLOW_BRANCH_SEED >> 60);

	good();
	hw.ips[0] = first;
	hw.nr_ips = 1;
	hw.nr_lbr = 1;
	hw.lbr[0] = (uint64_t)branch_entry_jmp;
	hw.lbr[1] = first;
	/* R8 of the samples is 0, which belongs to no block: never the truth */
	cr_expect_eq(tool(lbr_main, "--branches -c 1000"), TOOL_FAILED);
	EXPECT_HAS("10 captures of 32 records, equal 0, short 0, wrong 10");
	good();
	hw.ips[0] = 0x1000;
	hw.nr_ips = 1;
	cr_expect_eq(tool(lbr_main, "--branches -c 1000 fib 3"), TOOL_OK, "%s", output);
	EXPECT_HAS("not judged: the truth of fib is not known");
	good();
	cr_expect_eq(tool(lbr_main, "--depth 24"), TOOL_FAILED);
	EXPECT_HAS("24 branch records: CPUID 1CH EAX does not offer that depth");
	good();
	hw.kernel = true;
	cr_expect_eq(tool(lbr_main, "-c 1000"), TOOL_FAILED);
	EXPECT_HAS("nothing was captured");
}
