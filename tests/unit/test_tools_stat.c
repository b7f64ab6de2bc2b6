// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The guest tools' commands stat and msr, and their PMU driver, on the host: the machine is a fake
 * PMU with register values of the test.
 */
#include <stdio.h>

#include "tools_bed.h"
#include "guest-tools/pmu.h"

static struct {
	enum pmu_vendor vendor;
	bool legacy; /* AMD without PerfMonV2 */
	unsigned int gp, fixed;
	uint32_t ebx; /* CPUID 0AH */
	bool pv;
	/* the value of the counter of @config (GP) or fixed counter after a run */
	uint64_t value[20], enabled[20], running[20], quality[20];
	/* registers */
	uint64_t evtsel[16], ctr[20], fixed_ctrl, global;
	uint64_t run_enable; /* settings in force during the last run */
	uint32_t run_on;     /* event selects with EN during it, by counter */
	unsigned int runs;
	uint32_t refuse;     /* this MSR is #GP */
	uint32_t refuse_run; /* only around a run */
} hw;

static void fake_cpuid(struct guest_op *op)
{
	static const char names[2][13] = {"GenuntelineI", "AuthcAMDenti"}; /* EBX ECX EDX */

	memset(op->regs, 0, sizeof(op->regs));
	switch (op->index) {
	case 0:
		op->regs[0] = 0xa;
		memcpy(&op->regs[1], names[hw.vendor == PMU_AMD], 12);
		break;
	case 1:
		op->regs[2] = 1u << 31;
		break;
	case 0xa:
		if (hw.vendor == PMU_INTEL)
			op->regs[0] = 2 | hw.gp << 8 | 48 << 16 | 8u << 24;
		op->regs[1] = hw.ebx;
		op->regs[3] = hw.fixed | 48 << 5;
		break;
	case 0x80000000u:
		op->regs[0] = 0x80000022u;
		break;
	case 0x80000022u:
		op->regs[0] = hw.vendor == PMU_AMD && !hw.legacy;
		op->regs[1] = hw.gp;
		break;
	case 0x80000001u:
		op->regs[2] = hw.gp == 6 ? 1u << 23 : 0;
		break;
	case VPMU_PV_CPUID_BASE:
		op->regs[0] = VPMU_PV_CPUID_BASE + 1;
		op->regs[1] = op->regs[2] = op->regs[3] = hw.pv ? VPMU_PV_SIG_EBX : 0x4b4d564b;
		break;
	case VPMU_PV_CPUID_BASE + 1:
		op->regs[0] = 1;
		op->regs[1] = VPMU_PV_FEAT_TIMES;
		break;
	}
}

/* The register @msr stands for, or NULL: #GP. */
static uint64_t *fake_msr(uint32_t msr, bool write)
{
	if (msr == hw.refuse)
		return NULL;
	if (hw.pv && msr - VPMU_PV_MSR_BASE < VPMU_PV_MSR_COUNT && !write) {
		uint32_t i = msr - VPMU_PV_MSR_BASE;

		return i % 4 == 0   ? &hw.enabled[i / 4]
		       : i % 4 == 1 ? &hw.running[i / 4]
				    : &hw.quality[i / 4];
	}
	if (hw.vendor == PMU_AMD) {
		if (msr == 0xc0000301u)
			return hw.legacy ? NULL : &hw.global;
		if (hw.legacy && hw.gp == 4)
			return msr - 0xc0010000u < 4   ? &hw.evtsel[msr - 0xc0010000u]
			       : msr - 0xc0010004u < 4 ? &hw.ctr[msr - 0xc0010004u]
						       : NULL;
		if (msr - 0xc0010200u < 2 * hw.gp)
			return msr & 1 ? &hw.ctr[(msr - 0xc0010200u) / 2]
				       : &hw.evtsel[(msr - 0xc0010200u) / 2];
		return NULL;
	}
	if (msr == 0x38f)
		return &hw.global;
	if (msr == 0x38d)
		return &hw.fixed_ctrl;
	if (msr - 0xc1 < hw.gp)
		return &hw.ctr[msr - 0xc1];
	if (msr - 0x186 < hw.gp)
		return &hw.evtsel[msr - 0x186];
	if (msr - 0x309 < hw.fixed)
		return &hw.ctr[16 + msr - 0x309];
	return NULL;
}

int64_t sys_pmu(struct guest_op *ops, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		uint64_t *reg;

		if (ops[i].kind == GUEST_CPUID) {
			fake_cpuid(&ops[i]);
			continue;
		}
		reg = ops[i].kind == GUEST_RDPMC
			      ? NULL
			      : fake_msr(ops[i].index, ops[i].kind == GUEST_WRMSR);
		ops[i].fault = !reg;
		if (reg && ops[i].kind == GUEST_WRMSR)
			*reg = ops[i].value;
		else if (reg)
			ops[i].value = *reg;
	}
	return 0;
}

uint64_t sys_run(struct guest_run *r)
{
	uint64_t *reg = r->msr ? fake_msr(r->msr, true) : NULL;
	uint64_t result;

	if (r->msr && !reg) {
		r->fault = 1;
		return 0;
	}
	hw.run_enable = r->msr ? r->enable : 0;
	for (uint32_t i = 0; !r->msr && i < r->nr_writes; i++) {
		reg = r->writes[i].msr == hw.refuse_run ? NULL : fake_msr(r->writes[i].msr, true);
		if (!reg) {
			r->fault = 1;
			return 0;
		}
		*reg = r->writes[i].on;
	}
	hw.run_on = 0;
	for (int i = 0; i < 16; i++)
		hw.run_on |= (uint32_t)(hw.evtsel[i] >> 22 & 1) << i;
	if (hw.legacy)
		hw.run_enable = hw.run_on;
	result = r->fn(r->n, r->mem, r->mem_bytes, r->call);
	for (int i = 0; i < 20; i++) {
		int bit = i < 16 ? i : 32 + i - 16;

		if (hw.run_enable >> bit & 1)
			hw.ctr[i] += hw.value[i];
	}
	for (uint32_t i = 0; !r->msr && i < r->nr_writes; i++)
		*fake_msr(r->writes[i].msr, true) = r->writes[i].off;
	hw.runs++;
	return result;
}

static void intel(void)
{
	memset(&hw, 0, sizeof(hw));
	hw.vendor = PMU_INTEL;
	hw.gp = 4;
	hw.fixed = 3;
	hw.pv = true;
	for (int i = 0; i < 20; i++) {
		hw.value[i] = 1000 + (uint64_t)i;
		hw.enabled[i] = hw.running[i] = 5000;
	}
}

Test(stat, table)
{
	intel();
	hw.running[16] = 2500;
	hw.value[16] = 1234567;
	hw.quality[17] = VPMU_PV_Q_MODELLED;
	hw.running[17] = 1250;
	hw.quality[18] = VPMU_PV_Q_TSC;
	hw.running[0] = 0;
	hw.quality[1] = VPMU_PV_UNSUPPORTED;
	cr_assert_eq(tool(stat_main, "-e instructions,cycles:u,ref-cycles,loads,stores,branches"
				     " sieve 1000"),
		     0);
	EXPECT_HAS("\n Performance counter stats for 'sieve 1000' (vcpu 3):\n\n");
	EXPECT_HAS("         2,469,134      instructions ");
	EXPECT_HAS("(50.00%)\n");
	EXPECT_HAS("             4,068      cycles:u                  # modelled     (25.00%)\n");
	EXPECT_HAS("             1,018      ref-cycles                # tsc\n");
	EXPECT_HAS("     <not counted>      loads\n");
	EXPECT_HAS("   <not supported>      stores\n");
	EXPECT_HAS("             1,002      branches\n");
	EXPECT_HAS("               168      result of sieve 1000\n");
}

Test(stat, programs_the_registers_once)
{
	intel();
	cr_assert_eq(tool(stat_main, "-e instructions:u,cycles:k,instructions,branches-taken:u,"
				     "r01c2 empty"),
		     0);
	/* all in one write; fixed first; what came second is on a GP counter */
	cr_expect_eq(hw.run_enable, 3ull << 32 | 7);
	EXPECT_HAS("             1,016      instructions:u\n");
	EXPECT_HAS("             1,000      instructions\n");
	EXPECT_HAS("             1,002      r01c2\n");
	/* and nothing is left set up */
	cr_expect_eq(hw.fixed_ctrl, 0);
	for (int i = 0; i < 4; i++)
		cr_expect_eq(hw.evtsel[i], 0);
}

Test(stat, event_encodings)
{
	static const struct {
		int line;
		enum pmu_vendor vendor;
		const char *ev;
		uint64_t evtsel;
	} rows[] = {
		{__LINE__, PMU_INTEL, "branches", 0x4300c4},
		{__LINE__, PMU_INTEL, "branches-taken:u", 0x4120c4},
		{__LINE__, PMU_INTEL, "branches-conditional", 0x4311c4},
		{__LINE__, PMU_INTEL, "loads:k", 0x4281d0},
		{__LINE__, PMU_INTEL, "stores", 0x4382d0},
		{__LINE__, PMU_INTEL, "branch-misses", 0x4300c5},
		{__LINE__, PMU_INTEL, "cache-references", 0x434f2e},
		{__LINE__, PMU_INTEL, "cache-misses", 0x43412e},
		{__LINE__, PMU_INTEL, "rab12", 0x43ab12},
		{__LINE__, PMU_AMD, "instructions", 0x4300c0},
		{__LINE__, PMU_AMD, "cycles", 0x430076},
		{__LINE__, PMU_AMD, "branches:u", 0x4100c2},
		{__LINE__, PMU_AMD, "branches-taken", 0x4300c4},
		{__LINE__, PMU_AMD, "branches-conditional:u", 0x4100d1},
		{__LINE__, PMU_AMD, "loads", 0x430129},
		{__LINE__, PMU_AMD, "stores", 0x430229},
		{__LINE__, PMU_AMD, "branch-misses", 0x4300c3},
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct guest_write writes[PMU_WRITES_MAX];
		struct event ev[EVENTS_MAX];
		struct guest_run run;
		struct pmu_slot s[1];
		char err[ARGS_ERR_MAX];
		struct pmu pmu;
		size_t n = 0;

		intel();
		hw.vendor = rows[i].vendor;
		pmu_probe(&pmu);
		cr_assert(events_parse(rows[i].ev, strlen(rows[i].ev), ev, &n, err, sizeof(err)));
		pmu_assign(&pmu, ev, s, 1);
		cr_expect(pmu_program(&pmu, s, 1, &run, writes), "line %d", rows[i].line);
		cr_expect(run.enable == 1 && run.msr == pmu.global_ctrl, "line %d", rows[i].line);
		cr_expect(hw.evtsel[0] == rows[i].evtsel, "line %d: 0x%lx", rows[i].line,
			  hw.evtsel[0]);
	}
}

/* Without global control each counter is started by its own event select, around the run only. */
Test(stat, starts_counters_one_by_one)
{
	static const unsigned int gp[] = {4, 6};

	for (size_t i = 0; i < 2; i++) {
		intel();
		hw.vendor = PMU_AMD;
		hw.legacy = true;
		hw.gp = gp[i];
		cr_assert_eq(tool(stat_main, "-x, -e instructions:u,loads,branches:k empty"), 0);
		cr_expect_str_eq(output, "1000,,instructions:u,5000,100.00,exact,vcpu 3\n"
					 "1001,,loads,5000,100.00,exact,vcpu 3\n"
					 "1002,,branches:k,5000,100.00,exact,vcpu 3\n");
		cr_expect_eq(hw.run_on, 7);
		for (int k = 0; k < 16; k++)
			cr_expect_eq(hw.evtsel[k], 0);
	}
	/* refused at the second: nothing runs, nothing is left set up */
	hw.runs = 0;
	hw.refuse_run = 0xc0010202;
	cr_assert_eq(tool(stat_main, "-e instructions:u,loads empty"), TOOL_FAILED);
	cr_expect_str_eq(output, "vcpu 3: error: enabling a counter in its event select is #GP\n");
	cr_expect_eq(hw.runs, 0);
	cr_expect_eq(hw.evtsel[0], 0);
}

/* The list: each counter once, off is the same select without EN. */
Test(pmu, list_of_writes)
{
	struct guest_write writes[PMU_WRITES_MAX];
	struct event ev[EVENTS_MAX];
	struct pmu_slot s[EVENTS_MAX];
	char err[ARGS_ERR_MAX];
	struct guest_run run;
	struct pmu pmu;
	size_t n = 0;

	intel();
	hw.vendor = PMU_AMD;
	hw.legacy = true;
	pmu_probe(&pmu);
	cr_assert(events_parse("loads,stores,loads,branches,cycles,loads", 40, ev, &n, err,
			       sizeof(err)));
	pmu_assign(&pmu, ev, s, n);
	cr_assert(pmu_program(&pmu, s, n, &run, writes));
	cr_expect_eq(run.msr, 0);
	cr_assert_eq(run.nr_writes, 4);
	cr_expect_eq(writes[0].msr, 0xc0010000);
	cr_expect_eq(writes[0].on, 0x430129);
	cr_expect_eq(writes[0].off, 0x030129);
	cr_expect_eq(writes[3].msr, 0xc0010003);
	cr_expect_eq(writes[3].on, 0x430076);
	for (int i = 0; i < 4; i++)
		cr_expect(!(hw.evtsel[i] >> 22 & 1), "nothing counts yet");
	/* and where nothing can be counted */
	cr_assert(events_parse("cache-references", 16, ev, (n = 0, &n), err, sizeof(err)));
	pmu_assign(&pmu, ev, s, n);
	cr_expect(!pmu_program(&pmu, s, n, &run, writes) && !run.nr_writes && !run.msr);
}

/* Which counter each event gets, as "f0 g1 -": fixed, GP, none. */
static void assigned(const char *events, char *text)
{
	struct event ev[EVENTS_MAX];
	struct pmu_slot s[EVENTS_MAX];
	char err[ARGS_ERR_MAX];
	struct pmu pmu;
	size_t n = 0;

	pmu_probe(&pmu);
	cr_assert(events_parse(events, strlen(events), ev, &n, err, sizeof(err)), "%s", err);
	pmu_assign(&pmu, ev, s, n);
	*text = 0;
	for (size_t i = 0; i < n; i++) {
		if (s[i].ctr < 0)
			strcat(text, s[i].state == PMU_NO_FREE ? "- " : "x ");
		else
			sprintf(text + strlen(text), "%c%d ", s[i].ctr < 16 ? 'g' : 'f',
				s[i].ctr & 15);
	}
}

Test(pmu, assignment)
{
	static const struct {
		int line;
		enum pmu_vendor vendor;
		unsigned int gp, fixed;
		uint32_t ebx;
		const char *ev, *want;
	} rows[] = {
		{__LINE__, PMU_INTEL, 8, 3, 0, EVENTS_DEFAULT, "f0 f1 g0 g1 g2 g3 g4 f2 "},
		/* seven counters, eight events of seven kinds: equal ones share */
		{__LINE__, PMU_AMD, 6, 0, 0, EVENTS_DEFAULT, "g0 g1 g0 g2 g3 g4 g5 - "},
		{__LINE__, PMU_AMD, 7, 0, 0, EVENTS_DEFAULT, "g0 g1 g0 g2 g3 g4 g5 g6 "},
		{__LINE__, PMU_AMD, 8, 0, 0, EVENTS_DEFAULT, "g0 g1 g2 g3 g4 g5 g6 g7 "},
		{__LINE__, PMU_AMD, 6, 0, 0, "cache-references,cache-misses", "x x "},
		{__LINE__, PMU_INTEL, 1, 3, 0, "loads,stores,ref-cycles,ref-cycles", "g0 - f2 f2 "},
		{__LINE__, PMU_INTEL, 2, 0, 0, "instructions,cycles,ref-cycles,loads",
		 "g0 g1 x - "},
		{__LINE__, PMU_INTEL, 4, 3, 0x67, "instructions,cycles,ref-cycles,branches,loads",
		 "x x f2 x g0 "},
		{__LINE__, PMU_INTEL, 4, 1, 0, "cycles,instructions:u,instructions:k", "g0 f0 g1 "},
		{__LINE__, PMU_NONE, 4, 3, 0, "cycles,loads", "x x "},
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		char text[256];

		intel();
		hw.vendor = rows[i].vendor;
		hw.gp = rows[i].gp;
		hw.fixed = rows[i].fixed;
		hw.ebx = rows[i].ebx;
		assigned(rows[i].ev, text);
		cr_expect(!strcmp(text, rows[i].want), "line %d: %s", rows[i].line, text);
	}
}

Test(stat, json_lines)
{
	size_t lines = 0;

	intel();
	hw.running[17] = 4375;
	hw.quality[17] = VPMU_PV_Q_MODELLED;
	hw.quality[0] = VPMU_PV_UNSUPPORTED;
	cr_assert_eq(tool(stat_main, "-j -e instructions:u,cycles,loads,branch-misses empty"), 0);
	for (char *line = strtok(output, "\n"); line; line = strtok(NULL, "\n"), lines++) {
		json_error_t error;
		json_t *o = json_loads(line, JSON_REJECT_DUPLICATES, &error);

		cr_assert(o, "%s: %s", line, error.text);
		cr_expect_eq((int)json_integer_value(json_object_get(o, "vcpu")), 3);
		cr_expect(json_is_string(json_object_get(o, "counter-value")));
		if (lines == 0) {
			cr_expect_str_eq(json_string_value(json_object_get(o, "event")),
					 "instructions:u");
			cr_expect_str_eq(json_string_value(json_object_get(o, "counter-value")),
					 "1016");
			cr_expect_str_eq(json_string_value(json_object_get(o, "quality")), "exact");
			cr_expect(json_number_value(json_object_get(o, "pcnt-running")) == 100.0);
			cr_expect(json_number_value(json_object_get(o, "event-runtime")) == 5000);
		} else if (lines == 1) {
			cr_expect_str_eq(json_string_value(json_object_get(o, "quality")),
					 "modelled");
			cr_expect(json_number_value(json_object_get(o, "pcnt-running")) == 87.5);
			/* 1017 * 5000 / 4375 */
			cr_expect_str_eq(json_string_value(json_object_get(o, "counter-value")),
					 "1162");
		} else if (lines == 2) {
			cr_expect_str_eq(json_string_value(json_object_get(o, "counter-value")),
					 "<not supported>");
		}
		json_decref(o);
	}
	cr_expect_eq(lines, 4);
}

Test(stat, csv_and_repeat)
{
	intel();
	cr_assert_eq(tool(stat_main, "-x; -r 3 -e instructions,loads:u empty"), 0);
	cr_expect_eq(hw.runs, 3);
	cr_expect_str_eq(output, "1016;;instructions;0.00%;15000;100.00;exact;vcpu 3\n"
				 "1000;;loads:u;0.00%;15000;100.00;exact;vcpu 3\n");
}

Test(stat, no_paravirtual_leaf)
{
	intel();
	hw.pv = false;
	cr_assert_eq(tool(stat_main, "-x, -e instructions,loads empty"), 0);
	cr_expect_str_eq(output, "1016,,instructions,,,unknown,vcpu 3\n"
				 "1000,,loads,,,unknown,vcpu 3\n");
}

Test(stat, refused_registers)
{
	intel();
	hw.refuse = 0x186; /* the first event select */
	cr_assert_eq(tool(stat_main, "-e loads,stores empty"), 0);
	EXPECT_HAS("   <not supported>      loads\n");
	EXPECT_HAS("             1,001      stores\n");
	intel();
	hw.refuse = 0x38f;
	cr_assert_eq(tool(stat_main, "-e loads empty"), TOOL_FAILED);
	cr_expect_str_eq(output,
			 "vcpu 3: error: writing 0x1 to MSR 0x38f (global control) is #GP\n");
	cr_assert_eq(tool(stat_main, "-e lads empty"), TOOL_USAGE);
	cr_expect(has("vcpu 3: error: unknown event 'lads'"));
}

Test(msr, script)
{
	intel();
	cr_assert_eq(tool(msr_main, "wr 0xc1 0x55 rd 0xc1 rd 0x1b pmc 0 cpuid 0x80000022.1 "
				    "run loop 10 count 0x38f 3 fib 10 run fib rd 193"),
		     0);
	cr_expect_str_eq(output, "vcpu 3: wr 0xc1 <- 0x55 ok\n"
				 "vcpu 3: rd 0xc1 = 0x55\n"
				 "vcpu 3: rd 0x1b: #GP\n"
				 "vcpu 3: pmc 0x0: #GP\n"
				 "vcpu 3: cpuid 0x80000022.1 = 0x0 0x4 0x0 0x0\n"
				 "vcpu 3: run loop 10 = 55\n"
				 "vcpu 3: count 0x38f 0x3 fib 10 = 55\n"
				 "vcpu 3: run fib 20 = 6765\n"
				 "vcpu 3: rd 0xc1 = 0x43d\n");
}

Test(msr, bad_scripts_do_nothing)
{
	static const char *const rows[] = {
		"rd",
		"rd x",
		"rd 0x100000000",
		"wr 0xc1",
		"wr 0xc1 1 frob",
		"wr 0xc1 1 rd",
		"wr 0xc1 1 cpuid a",
		"wr 0xc1 1 run",
		"wr 0xc1 1 count 1",
		"wr 0xc1 1 count 0x38f 1 frob",
		"wr 0xc1 1 pmc -1",
		"wr 0xc1 1 cpuid 1.",
		"wr 0xc1 1 loop",
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		intel();
		cr_expect(tool(msr_main, rows[i]) == TOOL_USAGE, "%s", rows[i]);
		cr_expect(!strncmp(output, "vcpu 3: error: ", 15), "%s", output);
		cr_expect(strchr(output, '\n') == output + strlen(output) - 1, "%s", output);
		cr_expect(hw.ctr[0] == 0, "%s", rows[i]);
	}
}
