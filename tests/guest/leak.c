// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The commands leak and victim. leak searches every PMU register for data of another VM. victim
 * runs in that other VM and generates branches and counts; its branches are recognized by the
 * address of its code.
 *
 * leak runs a copy of the workload branches at its own address, so each record to be found
 * afterwards is known. All other records are foreign. Between the steps it spins, so that the host
 * switches to another vCPU.
 */
#include "guest-tools/flow.h"
#include "guest-tools/sample.h"
#include "tests/guest/hostile.h"

#define CODE_BYTES  ((size_t)(branch_code_end - branch_code))
#define SHOWN_MAX   8 /* findings that get a line of their own */
#define WATCHED_MAX 160

extern const char __utext_start[], __urodata_start[]; /* guest.lds: the tools' code */

enum finding {
	FOREIGN_BRANCH,
	LOST_BRANCH,
	FOREIGN_COUNT,
	FOREIGN_STATUS,
	FOREIGN_PMI,
	CHANGED_MSR,
	FINDINGS
};

static const char *const finding_name[FINDINGS] = {
	"foreign branches", "lost branches", "foreign counts",
	"foreign status",   "foreign PMIs",  "changed registers",
};

static struct args_leak args;
static const struct guest_info *vcpu;
static struct pmu pmu;
static struct lbr_dev lbr;
static struct guest_pmi pmi;
static uint64_t found[FINDINGS], checks, shown;
static struct guest_op watched[WATCHED_MAX];
static uint64_t before[WATCHED_MAX];
static size_t nr_watched;

static void leak_find(enum finding what, uint32_t index, uint64_t saw, uint64_t expected)
{
	found[what]++;
	if (!args.json && shown++ < SHOWN_MAX)
		out("# vcpu %u: %s: 0x%x: expected 0x%lx, saw 0x%lx\n", vcpu->vcpu,
		    finding_name[what], index, expected, saw);
}

static void expect(enum finding what, uint32_t index, uint64_t saw, uint64_t expected)
{
	checks++;
	if (saw != expected)
		leak_find(what, index, saw, expected);
}

/* Spin in CPL3, long enough to be switched out. */
static void spin(void)
{
	workload_loop(args.spin / 3 + 1, NULL, 0, NULL);
}

/* ---- branch records ---------------------------------------------------------------------------
 */

static bool own_copy(uint64_t address)
{
	return address - args.address < CODE_BYTES;
}

static bool own_text(uint64_t address)
{
	return address >= (uint64_t)__utext_start && address < (uint64_t)__urodata_start;
}

/*
 * Call with the records cleared and recording off. Check that there is no record, neither now nor
 * directly after recording is on again, which is when the host allocates them anew. The kernel
 * reads them all in one system call, because branches in CPL0 are not recorded.
 */
static void check_empty(void)
{
	static struct guest_op op[1 + 4 * LBR_DEPTH_MAX];
	const unsigned int records = 2 * lbr.max;

	for (unsigned int i = 0; i < 2 * records; i++) {
		unsigned int k = i % records;

		op[i < records ? i : i + 1] = (struct guest_op){
			.kind = GUEST_RDMSR,
			.index = (k % 2 ? lbr.to : lbr.from) + k / 2 * lbr.stride,
		};
	}
	op[records] = (struct guest_op){
		.kind = GUEST_WRMSR, .index = lbr.enable_msr, .value = lbr.enable};
	sys_pmu(op, 2 * records + 1);
	for (unsigned int i = 0; i < 2 * records + 1; i++) {
		if (i != records)
			expect(FOREIGN_BRANCH, op[i].index, op[i].value, 0);
	}
}

/*
 * Check the records after a run of the copy. The newest ones are the tools' return from the copy.
 * All others must be the branches of the copy, which are known in order.
 */
static void check_own(uint64_t blocks)
{
	static struct flow_branch b[LBR_DEPTH_MAX];
	const uint64_t first = args.address + (uint64_t)(branch_blocks - branch_code);
	uint64_t from[LBR_DEPTH_MAX] = {0}, to[LBR_DEPTH_MAX] = {0}, state = FLOW_BRANCH_SEED;
	unsigned int i = 0, known = 0;
	int n;

	for (unsigned int k = 0; k < lbr.max; k++) {
		tool_rdmsr(lbr.from + k * lbr.stride, &from[k]);
		tool_rdmsr(lbr.to + k * lbr.stride, &to[k]);
		if (!lbr_record(&lbr, &from[k], &to[k]))
			from[k] = to[k] = 0;
	}
	while (i < lbr.max && own_text(from[i]) && own_text(to[i]))
		i++;
	/* Skip the RET to user_call and the jump from the last block to that RET. */
	for (unsigned int k = 0; k < 2 && i < lbr.max && own_copy(from[i]); k++) {
		if (own_copy(to[i]) && to[i] < first + 16 * 64)
			break;
		i++;
	}
	for (uint64_t k = 0; k + 1 < blocks; k++)
		state *= FLOW_BRANCH_MUL;
	/* The branches as of the end of the last block. */
	n = flow_branches(args.address, first + 64 * (state >> 60) + branch_layout[state >> 60][4],
			  state * FLOW_BRANCH_MUL, b, LBR_DEPTH_MAX);
	for (; i < lbr.max; i++, known++) {
		checks++;
		if (!from[i] && !to[i] && (int)known < n)
			leak_find(LOST_BRANCH, lbr.from + i * lbr.stride, 0, b[known].from);
		else if ((int)known >= n || from[i] != b[known].from || to[i] != b[known].to)
			leak_find(FOREIGN_BRANCH, lbr.from + i * lbr.stride, from[i],
				  (int)known < n ? b[known].from : 0);
	}
}

static void leak_check_lbr(uint64_t round)
{
	uint64_t blocks = 64 + round % 64, records[2 * LBR_DEPTH_MAX], v;
	struct guest_run run = {.msr = 0, .fn = (workload_fn *)args.address, .n = blocks};

	check_empty();
	if (!lbr_start(&lbr, LBR_BRANCHES, lbr.max)) {
		leak_find(CHANGED_MSR, lbr.from, 0, 1);
		return;
	}
	if (round % 2)
		spin();
	sys_run(&run);
	lbr_stop(&lbr);
	check_own(blocks);
	for (unsigned int i = 0; i < 2 * lbr.max; i++)
		tool_rdmsr((i % 2 ? lbr.to : lbr.from) + i / 2 * lbr.stride, &records[i]);
	spin();
	for (unsigned int i = 0; i < 2 * lbr.max; i++) {
		uint32_t msr = (i % 2 ? lbr.to : lbr.from) + i / 2 * lbr.stride;

		tool_rdmsr(msr, &v);
		expect(FOREIGN_BRANCH, msr, v, records[i]);
	}
	lbr_clear(&lbr, lbr.max);
}

/* ---- counters, status, PMIs -------------------------------------------------------------------
 */

static void check_idle(uint64_t round)
{
	uint64_t values[VPMU_PV_FIXED], v;

	pmu_quiet(&pmu);
	for (int i = 0; i < (int)pmu.gp; i++) {
		values[i] = (round * 0x1234567 + (uint64_t)i * 0x1111111) & 0x7fffffff;
		tool_wrmsr(pmu_counter_msr(&pmu, i), values[i]);
	}
	spin();
	for (int i = 0; i < (int)pmu.gp; i++) {
		tool_rdmsr(pmu_counter_msr(&pmu, i), &v);
		expect(FOREIGN_COUNT, pmu_counter_msr(&pmu, i), v, values[i]);
	}
	if (pmu.status) {
		tool_rdmsr(pmu.status, &v);
		expect(FOREIGN_STATUS, pmu.status, v, 0);
	}
}

/* Count the instructions of two loops. The difference of the counts is known exactly. */
static void leak_check_counting(uint64_t round)
{
	static const struct event ev = {
		.id = EV_INSTRUCTIONS, .usr = true, .name = "instructions:u"};
	const struct workload *w = workload_find("loop", 4);
	struct guest_run run = {.msr = pmu.global_ctrl};
	uint64_t n[2] = {1000 + round % 1000, args.spin / 3 + 1}, got[2] = {0}, result;
	uint64_t select = pmu_gp_select(&pmu, &ev) | EVTSEL_EN;

	for (int i = 0; i < 2; i++) {
		tool_wrmsr(pmu_counter_msr(&pmu, 0), 0);
		if (pmu.global_ctrl) {
			tool_wrmsr(pmu_evtsel_msr(&pmu, 0), select);
			run.enable = 1;
		} else {
			run.msr = pmu_evtsel_msr(&pmu, 0);
			run.enable = select;
		}
		tool_run(vcpu, w, n[i], &run, &result);
		tool_rdmsr(pmu_counter_msr(&pmu, 0), &got[i]);
	}
	pmu_quiet(&pmu);
	if (pmu.pv & VPMU_PV_FEAT_TIMES && tool_rdmsr(VPMU_PV_MSR_BASE + 2, &result) &&
	    result == VPMU_PV_UNSUPPORTED)
		return; /* the host cannot count instructions */
	expect(FOREIGN_COUNT, pmu_counter_msr(&pmu, 0), got[1] - got[0], 3 * (n[1] - n[0]));
}

/* ---- everything else --------------------------------------------------------------------------
 */

static void leak_watch(uint32_t first, uint32_t n)
{
	for (; n && nr_watched < WATCHED_MAX; n--, first++)
		watched[nr_watched++] = (struct guest_op){.kind = GUEST_RDMSR, .index = first};
}

static void watch_all(void)
{
	if (pmu.vendor == PMU_INTEL) {
		leak_watch(0xc1, 8);
		leak_watch(0x186, 8);
		leak_watch(0x1d9, 1);
		leak_watch(0x309, 4);
		leak_watch(0x345, 1);
		leak_watch(0x38d, 4);
		leak_watch(0x14ce, 2);
	} else {
		leak_watch(0xc0000300u, 4);
		leak_watch(0xc000010eu, 2);
		leak_watch(0xc0010000u, 8);
		leak_watch(0xc0010200u, 12);
	}
	for (uint32_t i = 0; i < 8; i++)
		leak_watch(VPMU_PV_MSR_BASE + 4 * i, 3);
}

static void check_watched(void)
{
	sys_pmu(watched, nr_watched);
	for (size_t i = 0; i < nr_watched; i++)
		before[i] = watched[i].fault ? ~0ull : watched[i].value;
	spin();
	sys_pmu(watched, nr_watched);
	for (size_t i = 0; i < nr_watched; i++)
		expect(CHANGED_MSR, watched[i].index, watched[i].fault ? ~0ull : watched[i].value,
		       before[i]);
}

TOOL_COMMAND(leak, "[--spin N] [--at ADDRESS] [-j] [ROUNDS]", "look for PMU state of another VM");
int leak_main(const struct guest_info *info, const char *text)
{
	static char err[ARGS_ERR_MAX];
	bool apic;
	uint64_t sum = 0;

	if (!args_leak_parse(text, &args, err))
		return tool_error(info, err);
	vcpu = info;
	pmu_probe(&pmu);
	lbr_probe(&lbr, err, sizeof(err));
	if (pmu.vendor == PMU_NONE && lbr.kind == LBR_NONE)
		return tool_cannot(info, "no PMU and no branch records: nothing can leak");
	if (sys_exec(branch_code, CODE_BYTES, args.address))
		return tool_cannot(info, "the code could not be mapped");
	apic = pmu.vendor != PMU_NONE && apic_enable(err, sizeof(err));
	pmi = (struct guest_pmi){
		.status = pmu.vendor == PMU_INTEL ? GUEST_STATUS_INTEL
			  : pmu.status		  ? GUEST_STATUS_AMD
						  : GUEST_STATUS_NONE,
		.sample_bytes = sizeof(struct guest_sample),
	};
	if (apic && sys_pmi(&pmi))
		return tool_cannot(info, "a register that the PMI handler needs is #GP");
	/* lbr_start sets the filter; check_empty then only enables recording. */
	if (lbr.kind != LBR_NONE && (!lbr_start(&lbr, LBR_BRANCHES, lbr.max) || !lbr_stop(&lbr) ||
				     !lbr_clear(&lbr, lbr.max)))
		return tool_cannot(info, "a branch record register is #GP");
	watch_all();
	for (uint64_t r = 0; r < args.rounds; r++) {
		if (lbr.kind != LBR_NONE)
			leak_check_lbr(r);
		if (pmu.vendor != PMU_NONE) {
			check_idle(r);
			leak_check_counting(r);
		}
		check_watched();
		expect(FOREIGN_PMI, 0, pmi.pmis, 0);
		pmi.pmis = 0;
	}
	for (int i = 0; i < FINDINGS; i++)
		sum += found[i];
	if (args.json)
		out("{\"kind\":\"guest-leak\",\"vcpu\":%u,\"rounds\":%lu,\"checks\":%lu,"
		    "\"lbr\":%s,\"pmis_watched\":%s,\"branches\":%lu,\"lost_branches\":%lu,"
		    "\"counts\":%lu,"
		    "\"status\":%lu,\"pmis\":%lu,\"registers\":%lu}\n",
		    info->vcpu, args.rounds, checks, lbr.kind ? "true" : "false",
		    apic ? "true" : "false", found[0], found[1], found[2], found[3], found[4],
		    found[5]);
	else
		out("vcpu %u: leak: %lu rounds, %lu checks%s%s: foreign branches %lu, lost "
		    "branches %lu, counts "
		    "%lu, "
		    "status %lu, PMIs %lu, changed registers %lu\n",
		    info->vcpu, args.rounds, checks, lbr.kind ? "" : ", no branch records",
		    apic ? "" : ", no PMIs", found[0], found[1], found[2], found[3], found[4],
		    found[5]);
	return sum ? TOOL_FAILED : TOOL_OK;
}

/* Run branches at its own address, always recorded and counted. */
TOOL_COMMAND(victim, "[ADDRESS] [ROUNDS]", "make branches and counts for leak to look for");
int victim_main(const struct guest_info *info, const char *text)
{
	static char err[ARGS_ERR_MAX];
	static const struct event ev = {.id = EV_INSTRUCTIONS, .usr = true, .os = true};
	struct guest_run run = {.msr = 0};
	struct args_victim a;
	uint64_t round = 0;

	if (!args_victim_parse(text, &a, err))
		return tool_error(info, err);
	pmu_probe(&pmu);
	lbr_probe(&lbr, err, sizeof(err));
	if (sys_exec(branch_code, CODE_BYTES, a.address))
		return tool_cannot(info, "the code could not be mapped");
	run.fn = (workload_fn *)a.address;
	run.n = 10000;
	if (pmu.vendor != PMU_NONE) {
		pmu_quiet(&pmu);
		tool_wrmsr(pmu_evtsel_msr(&pmu, 0), pmu_gp_select(&pmu, &ev) | EVTSEL_EN);
		if (pmu.global_ctrl)
			tool_wrmsr(pmu.global_ctrl, 1);
	}
	do {
		/* Every 8 rounds, close and open the records, so that the host frees and allocates
		 * their memory. */
		if (lbr.kind != LBR_NONE && round % 8 == 0)
			lbr_start(&lbr, LBR_BRANCHES, lbr.max);
		sys_run(&run);
	} while (++round != a.rounds);
	out("vcpu %u: victim at 0x%lx: %lu rounds\n", info->vcpu, a.address, round);
	return TOOL_OK;
}
