// SPDX-License-Identifier: GPL-2.0-or-later
/* The command selftest: checks on the current engine and PMU model what the other tools rely on.
 * This file checks faults, system calls, workloads and PMU registers. */
#include "guest-tools/pmu.h"
#include "tests/guest/selftest.h"
#include "guest-tools/tools.h"

enum { VEC_DE = 0, VEC_UD = 6, VEC_GP = 13, VEC_PF = 14 };
/* SDM vol. 3, 4.7 */
enum { PF_PRESENT = 1, PF_WRITE = 2, PF_USER = 4, PF_FETCH = 16 };

extern char _start[], user_start[]; /* kernel code, tools' code */
extern const char fault_ud[], fault_de[], fault_hlt[], fault_rdmsr[], fault_noncanonical[];

static const struct guest_info *vcpu;
static unsigned int passed, failed;
static uint64_t initialized = 0x1122334455667788;

void check(const char *what, bool ok, uint64_t saw, uint64_t expected)
{
	if (ok) {
		passed++;
		out("PASS %s (vcpu %u)\n", what, vcpu->vcpu);
	} else {
		failed++;
		out("FAIL %s (vcpu %u): expected 0x%lx, saw 0x%lx\n", what, vcpu->vcpu, expected,
		    saw);
	}
}

void check_equal(const char *what, uint64_t saw, uint64_t expected)
{
	check(what, saw == expected, saw, expected);
}

/* ---- faults ------------------------------------------------------------------------------- */

static void read_at(void *p)
{
	(void)*(volatile char *)p;
}

static void write_at(void *p)
{
	*(volatile char *)p = 0;
}

static void jump_to(void *p)
{
	((void (*)(void))p)();
}

static void check_fault(const char *what, void (*fn)(void *), const void *arg, uint64_t vector,
			uint64_t error, uint64_t address)
{
	struct user_fault f = {.vector = 0};

	if (!user_try(fn, (void *)(uintptr_t)arg, &f)) {
		check(what, false, 0, vector);
		return;
	}
	if (f.vector != vector)
		check_equal(what, f.vector, vector);
	else if (f.error != error)
		check_equal(what, f.error, error);
	else
		check_equal(what, f.address, address);
}

static bool nx_enabled(void)
{
	struct guest_op op = {.kind = GUEST_CPUID, .index = 0x80000001u};

	sys_pmu(&op, 1);
	return op.regs[3] & 1u << 20;
}

static void check_faults(void)
{
	char on_stack = (char)0xc3; /* RET */
	uint64_t kernel = (uint64_t)_start, text = (uint64_t)user_start;

	check_fault("undefined instruction is #UD", jump_to, fault_ud, VEC_UD, 0, 0);
	check_fault("division by zero is #DE", jump_to, fault_de, VEC_DE, 0, 0);
	check_fault("HLT in CPL3 is #GP", jump_to, fault_hlt, VEC_GP, 0, 0);
	check_fault("RDMSR in CPL3 is #GP", jump_to, fault_rdmsr, VEC_GP, 0, 0);
	check_fault("non-canonical address is #GP", jump_to, fault_noncanonical, VEC_GP, 0, 0);
	check_fault("null pointer is #PF", read_at, NULL, VEC_PF, PF_USER, 0);
	check_fault("reading the kernel is #PF", read_at, _start, VEC_PF, PF_USER | PF_PRESENT,
		    kernel);
	check_fault("calling the kernel is #PF", jump_to, _start, VEC_PF,
		    PF_USER | PF_PRESENT | (nx_enabled() ? PF_FETCH : 0), kernel);
	check_fault("writing code is #PF", write_at, user_start, VEC_PF,
		    PF_USER | PF_PRESENT | PF_WRITE, text);
	check_fault("below the stack is #PF", write_at, (void *)(USTACK_VA - 8), VEC_PF,
		    PF_USER | PF_WRITE, USTACK_VA - 8);
	if (nx_enabled())
		check_fault("executing the stack is #PF", jump_to, &on_stack, VEC_PF,
			    PF_USER | PF_PRESENT | PF_FETCH, (uint64_t)&on_stack);
}

/* ---- system calls and workloads ------------------------------------------------------------- */

static void check_syscalls(void)
{
	struct guest_op op = {.kind = 99};

	check_equal("null system call returns its argument", sys_null_call(0x123456789abcdef0),
		    0x123456789abcdef0);
	check_equal("writing kernel memory out is refused", (uint64_t)sys_write(_start, 8),
		    UINT64_MAX);
	check_equal("operations in kernel memory are refused",
		    (uint64_t)sys_pmu((struct guest_op *)KCPU_VA, 1), UINT64_MAX);
	sys_pmu(&op, 1);
	check_equal("an unknown operation is refused", op.fault, 1);
	check_equal("variables have their initial values", initialized, 0x1122334455667788);
	initialized = vcpu->vcpu;
	check_equal("variables belong to one vCPU", initialized, vcpu->vcpu);
	check("vCPU number", vcpu->vcpu < vcpu->nr_vcpus, vcpu->vcpu, vcpu->nr_vcpus - 1);
}

static uint64_t selftest_run(const char *name, uint64_t n)
{
	struct guest_run r = {.msr = 0};
	uint64_t result, len = 0;

	while (name[len])
		len++;
	tool_run(vcpu, workload_find(name, len), n, &r, &result);
	return result;
}

static void check_workloads(void)
{
	check_equal("empty", selftest_run("empty", 77), 77);
	check_equal("loop", selftest_run("loop", 1000), 500500);
	check_equal("sieve", selftest_run("sieve", 10000), 1229);
	check_equal("fib", selftest_run("fib", 15), 610);
	check_equal("memcpy and repmovs copy the same", selftest_run("memcpy", 9001),
		    selftest_run("repmovs", 9001));
	check_equal("chase comes back after a whole cycle",
		    selftest_run("chase", WORKLOAD_CHASE_NODES),
		    8ull * WORKLOAD_CHASE_NODES * (WORKLOAD_CHASE_NODES - 1) / 2);
	check_equal("syscalls", selftest_run("syscalls", 10), 55);
	check_equal("scratch memory has its size",
		    (*(volatile char *)((char *)vcpu->mem + vcpu->mem_bytes - 1) = 5), 5);
}

/* ---- PMU ------------------------------------------------------------------------------------ */

static bool msr(enum guest_op_kind kind, uint32_t index, uint64_t *value)
{
	struct guest_op op = {.kind = kind, .index = index, .value = *value};

	sys_pmu(&op, 1);
	*value = op.value;
	return !op.fault;
}

static bool selftest_read_msr(uint32_t index, uint64_t *value)
{
	*value = 0;
	return msr(GUEST_RDMSR, index, value);
}

static bool selftest_write_msr(uint32_t index, uint64_t value)
{
	return msr(GUEST_WRMSR, index, &value);
}

/* Check that a read of @index by @kind does not fault and gives @expected. */
static void check_reads(const char *what, enum guest_op_kind kind, uint32_t index,
			uint64_t expected)
{
	uint64_t v = 0;
	bool ok = msr(kind, index, &v);

	check(what, ok && v == expected, v, expected);
}

static void check_registers(const struct pmu *pmu)
{
	uint32_t sel = pmu_evtsel_msr(pmu, 0), ctr = pmu_counter_msr(pmu, 0);
	int beyond = (int)pmu->gp;
	uint64_t v;

	/* Nothing has been written yet. All GP counters are on, so that software that does not know
	 * global control works (SDM vol. 3 table 10-1, note on IA32_PERF_GLOBAL_CTRL). */
	if (pmu->global_ctrl)
		check_reads("global control after reset", GUEST_RDMSR, pmu->global_ctrl,
			    (1ull << pmu->gp) - 1);
	check_equal("writing an event select", selftest_write_msr(sel, 0), 1);
	check_equal("writing a counter", selftest_write_msr(ctr, 0x1234), 1);
	check_reads("reading it back", GUEST_RDMSR, ctr, 0x1234);
	if (pmu->pv & VPMU_PV_FEAT_RDPMC) {
		check_reads("RDPMC reads the same", GUEST_RDPMC, 0, 0x1234);
		v = 0;
		check_equal("RDPMC of an absent counter is #GP", msr(GUEST_RDPMC, 0x1000, &v), 0);
	}
	selftest_write_msr(ctr, 0);
	/* AMD PMUs ignore writes to reserved bits. */
	check_equal("reserved bit of an event select", selftest_write_msr(sel, 1ull << 63),
		    pmu->vendor == PMU_AMD);
	if (pmu->global_ctrl)
		check_equal("reserved bit of global control",
			    selftest_write_msr(pmu->global_ctrl, 1ull << 63),
			    pmu->vendor == PMU_AMD);
	if (pmu_evtsel_msr(pmu, beyond) != ctr) /* K7: counters follow the event selects directly */
		check_equal("event select beyond the last is #GP",
			    selftest_write_msr(pmu_evtsel_msr(pmu, beyond), 0), 0);
	check_equal("counter beyond the last is #GP",
		    selftest_read_msr(pmu_counter_msr(pmu, beyond), &v), 0);
}

/* Count the instructions of two runs in CPL3, if this machine can count them exactly. */
static void selftest_check_counting(const struct pmu *pmu)
{
	struct event ev = {.id = EV_INSTRUCTIONS, .usr = true, .name = "instructions:u"};
	struct guest_write writes[PMU_WRITES_MAX];
	struct guest_run r;
	const struct workload *w = workload_find("loop", 4);
	struct pmu_slot s;
	uint64_t result, counts[2];

	pmu_assign(pmu, &ev, &s, 1);
	for (int i = 0; i < 2; i++) {
		if (!pmu_program(pmu, &s, 1, &r, writes) ||
		    tool_run(vcpu, w, i ? 2000 : 1000, &r, &result)) {
			check("enabling a counter", s.state == PMU_NOT_SUPPORTED, s.state,
			      PMU_NOT_SUPPORTED);
			return;
		}
		pmu_read(pmu, &s, 1);
		counts[i] = s.value;
	}
	if (s.state != PMU_COUNTED || !s.times || s.quality != VPMU_PV_Q_EXACT ||
	    s.running_ns < s.enabled_ns) {
		check_equal("instructions cannot be counted here: reads as 0",
			    s.state == PMU_NOT_SUPPORTED ? counts[1] : 0, 0);
		return;
	}
	check_equal("1000 more iterations are 3000 more instructions", counts[1] - counts[0], 3000);
}

static void check_pmu(void)
{
	char text[128];
	struct pmu pmu;
	uint64_t v;

	pmu_probe(&pmu);
	pmu_describe(&pmu, text, sizeof(text));
	out("# vcpu %u: %s\n", vcpu->vcpu, text);
	if (pmu.vendor == PMU_NONE) {
		check_equal("no PMU: global control is #GP", selftest_read_msr(0x38f, &v), 0);
		return;
	}
	check("number of counters", pmu.gp && pmu.gp <= VPMU_PV_FIXED, pmu.gp, VPMU_PV_FIXED);
	check_registers(&pmu);
	if (pmu.pv & VPMU_PV_FEAT_TIMES) {
		check_equal("times are read only", selftest_write_msr(VPMU_PV_MSR_BASE, 0), 0);
		check_reads("an idle counter counts nothing", GUEST_RDMSR, VPMU_PV_MSR_BASE + 2,
			    VPMU_PV_UNSUPPORTED);
	}
	selftest_check_counting(&pmu);
}

TOOL_COMMAND(selftest, "", "test faults, system calls and PMU registers; print PASS or FAIL lines");
int selftest_main(const struct guest_info *info, const char *args)
{
	while (*args == ' ')
		args++;
	if (*args)
		return tool_error(info, "selftest takes no arguments");
	vcpu = info;
	check_faults();
	check_syscalls();
	check_workloads();
	check_pmu();
	check_pmis(info);
	check_branch_records(info);
	out("selftest: %u passed, %u failed (vcpu %u)\n", passed, failed, info->vcpu);
	return failed ? TOOL_FAILED : TOOL_OK;
}
