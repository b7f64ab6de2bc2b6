// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * libFuzzer target: the emulator runs whatever a guest could hand it. The input is code,
 * registers, control registers and changes to the page tables, which the code can reach and change
 * further. Each input runs twice, in one slice and in short ones; the slices with alarms armed,
 * branches recorded, and the vCPU's state taken out and put back in between.
 *
 * Must hold: no crash, no undefined behaviour, no leak; never more retired than the budget, and on
 * a budget exit exactly that; the tallies hold as many instructions as were retired; slicing
 * changes nothing user code or the operator could see. An alarm stops exactly where it is due;
 * records stay in their ring; state from a stranger is taken exactly or refused.
 */
#include <errno.h>

#include "tests/fuzz/fuzz.h"
#include "tests/emu/dt.h"
#include "tests/emu/bare.h"
#include "vmm/emu/debug.h"
#include "vmm/emu/jit/jit.h"
#include "vpmu/emupmu.h"

#define RAM_BYTES  (4u << 20)
#define CODE_VA	   0x10000u
#define CODE_BYTES 0x2000u
#define DATA_VA	   0x20000u
#define TABLES_VA  0x400000u   /* M_SELF: the page tables, writable from CPL3 */
#define BIG_VA	   0x800000ull /* a large page over guest-physical 2 MiB */
#define BUDGET	   2000u
#define MAX_COSTLY 16u
#define MAX_EXITS  48u

enum {
	M_KERNEL = 1,
	M_TABLES = 2,
	M_CONTROL = 4,
	M_EVENTS = 8,
	M_EDGE = 16,
	M_SELF = 32,
	M_ALARM = 64,
	M_LBR = 128
};
#define SLICE_STATE 0x80 /* in slice: take the state out and put it back */
#define SLICE_INTEL 0x40 /* in slice: CPUID names Intel */
#define SLICE_BREAK 0x20 /* in slice: breakpoints are set, and #DB is passed */

struct __attribute__((packed)) header {
	uint8_t mode;
	uint8_t nr_patches;
	uint8_t slice;
	uint8_t events; /* vector of the interrupts */
	uint32_t rflags;
	uint32_t cr0, cr4;
	uint16_t efer;
	uint8_t regs[16]; /* see reg_value() */
};

struct __attribute__((packed)) patch {
	uint16_t at; /* index of a page table entry, from BARE_CR3 */
	uint64_t value;
};

struct machine {
	struct bare s;
	struct vpmu_emu_tally tally;
	uint64_t retired, exits, costly, alarms;
	uint64_t halted_at; /* instructions up to the last HLT exit */
	bool gave_up;	    /* too costly: stopped anywhere */
	enum vmm_exit last;
	struct kvm_regs regs;
	struct kvm_sregs sregs;
	struct emu_fpu fpu;
	bool started;
};

static void must(int rc, const char *what)
{
	CHECK(rc == 0, "%s: %s", what, strerror(-rc));
}

/* The tables' last level entry for a large page, by hand: bare_map() makes small ones. */
static void map_big(struct bare *s)
{
	uint64_t entry = 0x200000 | 1 | BARE_W | BARE_U | 0x80, table = BARE_CR3, e;

	must(bare_map(s, BIG_VA, 0x200000, 4096, BARE_W | BARE_U), "bare_map");
	for (int shift = 39; shift > 21; shift -= 9) {
		memcpy(&e, s->ram + table + ((BIG_VA >> shift) & 511) * 8, 8);
		table = e & 0x000ffffffffff000ull;
	}
	memcpy(s->ram + table + ((BIG_VA >> 21) & 511) * 8, &entry, 8);
}

static void build(struct machine *m, const struct header *h, const struct patch *p,
		  unsigned int nr_patches, const uint8_t *code, size_t code_len)
{
	struct bare *s = &m->s;
	uint64_t code_pa, data_pa;
	char why[200] = "";

	must(bare_create(s, RAM_BYTES, 1, why, sizeof(why)), why);
	code_pa = bare_alloc(s, CODE_BYTES);
	data_pa = bare_alloc(s, CODE_BYTES);
	CHECK(code_pa && data_pa, "out of guest memory");
	must(bare_map(s, CODE_VA, code_pa, CODE_BYTES, BARE_U | BARE_W), "bare_map");
	must(bare_map(s, DATA_VA, data_pa, CODE_BYTES, BARE_U | BARE_W | BARE_NX), "bare_map");
	map_big(s);
	if (h->mode & M_SELF)
		must(bare_map(s, TABLES_VA, BARE_CR3, 16 * 4096, BARE_U | BARE_W), "bare_map");
	for (unsigned int i = 0; i < nr_patches; i++)
		memcpy(s->ram + BARE_CR3 + p[i].at % (16 * 512) * 8, &p[i].value, 8);
	/* At the start, or so that it runs off the end of the mapping. */
	memcpy(s->ram + code_pa + (h->mode & M_EDGE ? CODE_BYTES - code_len : 0), code, code_len);
}

/* Few bits to choose a value that leads somewhere. */
static uint64_t reg_value(uint8_t sel)
{
	uint64_t n = sel >> 3;

	switch (sel & 7) {
	case 0:
		return DATA_VA + n * 0x100;
	case 1:
		return DATA_VA + CODE_BYTES - n; /* at the end of the mapping */
	case 2:
		return CODE_VA + n * 16;
	case 3:
		return TABLES_VA + n * 0x800;
	case 4:
		return BIG_VA + n * 0xffff;
	case 5:
		return n - 4;
	case 6:
		return 1ull << (n * 2);
	default:
		return 0x0123456789abcdefull * n;
	}
}

/* x87 and SSE begin with numbers on which arithmetic goes wrong, and with any masks. */
static void start_fp(struct emu_vcpu *v, const struct header *h)
{
	static const uint64_t special[] = {0,
					   1,
					   1ull << 63,
					   0x7ff0000000000000,
					   0x7ff4000000000001,
					   0x000fffffffffffff,
					   0x0010000000000000,
					   0x7fefffffffffffff,
					   0x3ff0000000000000,
					   0x7f8000013f800000,
					   0x0000000180000001,
					   0x007fffff00800000,
					   0xc3e0000000000000};
	const unsigned int nr = sizeof(special) / sizeof(special[0]);
	struct emu_fpu *f = &v->fpu;

	for (unsigned int i = 0; i < 16; i++) {
		f->fx.xmm[i].q[0] = special[(h->regs[i] + i) % nr];
		f->fx.xmm[i].q[1] = special[h->regs[15 - i] % nr];
	}
	for (unsigned int i = 0; i < 8; i++) {
		f->fx.st[i].q[0] = special[h->regs[i] % nr] | (uint64_t)(h->regs[i] & 0x80) << 56;
		f->fx.st[i].w[4] = (uint16_t)(h->regs[i + 8] * 0x101u);
	}
	f->fx.ftw = h->regs[3];
	f->fx.fsw = (uint16_t)(h->rflags >> 8);
	f->fx.fcw = (uint16_t)(h->cr0 ? h->cr0 >> 8 : EMU_FCW_INIT);
	f->mxcsr = h->cr4 ? h->cr4 >> 8 & f->mxcsr_mask : EMU_MXCSR_INIT;
	emu_fpu_settle(f);
}

/* Breakpoints at the registers' addresses. The handler of #DB sets RF in its frame. */
static void start_breakpoints(struct machine *m, const struct header *h)
{
	static const uint8_t handler[] = {0x81, 0x4c, 0x24, 0x10, 0, 0,
					  1,	0,    0x48, 0xcf}; /* or [rsp+16], RF; iretq */
	struct emu_vcpu *v = (struct emu_vcpu *)m->s.vcpu[0];

	memcpy(m->s.ram + BARE_HANDLERS + 1 * 16, handler, sizeof(handler));
	for (unsigned int i = 0; i < 4; i++)
		v->dr[i] = reg_value(h->regs[i * 3]) + (h->rflags >> (16 + i * 4) & 15);
	v->dr[7] = ((h->cr4 + h->nr_patches + 1) * 0x9e3779b1u & 0xffff03ff) | 0x400;
	emu_debug_update(v);
}

static void start(struct machine *m, const struct header *h, size_t code_len)
{
	uint64_t r[16];
	struct kvm_regs k;
	struct kvm_sregs sr;

	for (int i = 0; i < 16; i++)
		r[i] = reg_value(h->regs[i]);
	k = (struct kvm_regs){
		.rax = r[0],
		.rcx = r[1],
		.rdx = r[2],
		.rbx = r[3],
		.rsp = r[4],
		.rbp = r[5],
		.rsi = r[6],
		.rdi = r[7],
		.r8 = r[8],
		.r9 = r[9],
		.r10 = r[10],
		.r11 = r[11],
		.r12 = r[12],
		.r13 = r[13],
		.r14 = r[14],
		.r15 = r[15],
		.rip = CODE_VA + (h->mode & M_EDGE ? CODE_BYTES - code_len : 0),
		.rflags = h->rflags | 2,
	};
	static const struct kvm_cpuid_entry2 intel = {
		.ebx = 0x756e6547, .edx = 0x49656e69, .ecx = 0x6c65746e};

	vmm_emu_ops.set_tally(m->s.vcpu[0], &m->tally);
	if (h->slice & SLICE_INTEL)
		must(vmm_emu_ops.set_cpuid(m->s.vcpu[0], &intel, 1), "set_cpuid");
	/* Refusing flags the architecture does not have is an answer too. */
	if (bare_user(&m->s, 0, &k, DATA_VA, DATA_VA + 0x1000))
		return;
	must(vmm_emu_ops.get_sregs(m->s.vcpu[0], &sr), "get_sregs");
	if (h->mode & M_KERNEL) {
		sr.cs.selector = 0x10;
		sr.ss.selector = 0x18;
		sr.cs.dpl = sr.ss.dpl = 0;
	}
	if (h->mode & M_CONTROL) {
		sr.cr0 ^= h->cr0;
		sr.cr4 ^= h->cr4;
		sr.efer ^= h->efer;
	}
	m->started = !vmm_emu_ops.set_sregs(m->s.vcpu[0], &sr);
	start_fp((struct emu_vcpu *)m->s.vcpu[0], h);
	if (h->slice & SLICE_BREAK)
		start_breakpoints(m, h);
}

/* The caller's part; false: this vCPU is at its end. */
static bool answer(struct machine *m, const struct header *h, struct vmm_run *run)
{
	uint64_t n = m->exits * 0x9e3779b97f4a7c15ull + h->events;

	m->last = run->exit;
	if (run->exit == VMM_EXIT_BUDGET || run->exit == VMM_EXIT_ALARM)
		return true;
	/* Not kicked: the guest costs more time than its instructions should. */
	if (run->exit == VMM_EXIT_INTR) {
		m->gave_up = ++m->costly > MAX_COSTLY;
		return !m->gave_up;
	}
	if (++m->exits > MAX_EXITS)
		return false;
	switch (run->exit) {
	case VMM_EXIT_IO:
		CHECK(run->u.io.size == 1 || run->u.io.size == 2 || run->u.io.size == 4,
		      "I/O of %u bytes", run->u.io.size);
		run->u.io.data = (uint32_t)n;
		return true;
	case VMM_EXIT_RDMSR:
	case VMM_EXIT_WRMSR:
		run->u.msr.fault = n & 1;
		run->u.msr.data = n;
		return true;
	case VMM_EXIT_RDPMC:
		run->u.pmc.fault = n & 1;
		run->u.pmc.data = n;
		return true;
	case VMM_EXIT_HLT:
		/* The second time in the same place: queued events do not wake it. */
		if (!(h->mode & M_EVENTS) || m->halted_at == m->retired)
			return false;
		m->halted_at = m->retired;
		if (n & 4)
			vmm_emu_ops.nmi(m->s.vcpu[0]);
		else
			vmm_emu_ops.interrupt(m->s.vcpu[0], h->events);
		return true;
	case VMM_EXIT_SHUTDOWN:
		return false;
	case VMM_EXIT_ERROR:
		CHECK(memchr(run->u.error.msg, 0, sizeof(run->u.error.msg)) &&
			      run->u.error.msg[0] && !strchr(run->u.error.msg, '\n'),
		      "not one line: %.200s", run->u.error.msg);
		return false;
	default:
		CHECK(false, "exit %d", run->exit);
		return false;
	}
}

static uint64_t tallied(const struct vpmu_emu_tally *t)
{
	uint64_t n = 0;

	for (int mode = 0; mode < VPMU_EMU_MODES; mode++)
		n += t->ev[mode][VPMU_EMU_INSTRUCTIONS];
	return n;
}

/* ---- alarms, branch records, state ---- */

static uint64_t alarm_sum(const struct vpmu_emu_tally *t, const struct vpmu_emu_alarm *a)
{
	uint64_t sum = 0;

	for (int i = 0; i < VPMU_EMU_MODES; i++)
		sum += a->modes & (1 << i) ? t->ev[i][a->event] : 0;
	return sum;
}

static void arm(struct machine *m, const struct header *h)
{
	uint64_t n = (m->alarms++ + 1) * 0x9e3779b97f4a7c15ull + h->nr_patches;
	struct vpmu_emu_alarm *a = &m->tally.alarm[5];

	if (!(h->mode & M_ALARM) || m->tally.armed)
		return;
	*a = (struct vpmu_emu_alarm){.event = (uint8_t)((n >> 32) % VPMU_EMU_EVENTS),
				     .modes = (uint8_t)(1 + (n >> 40) % 3)};
	a->at = alarm_sum(&m->tally, a) + 1 + (n >> 48) % 60;
	m->tally.armed = 1 << 5;
}

static void check_alarm(struct machine *m, const struct vmm_run *run)
{
	const struct vpmu_emu_alarm *a = &m->tally.alarm[5];
	bool cycles = a->event == VPMU_EMU_CYCLES || a->event == VPMU_EMU_REF_CYCLES;
	bool due = vpmu_emu_alarm_due(&m->tally);

	CHECK(due || run->exit != VMM_EXIT_ALARM, "an alarm that is not due");
	CHECK(!due || run->exit == VMM_EXIT_ALARM || run->exit == VMM_EXIT_ERROR ||
		      run->exit == VMM_EXIT_SHUTDOWN,
	      "exit %d, but an alarm is due", run->exit);
	CHECK(!due || cycles || alarm_sum(&m->tally, a) == a->at, "alarm of event %u passed by %lu",
	      a->event, (alarm_sum(&m->tally, a) - a->at));
	if (due)
		m->tally.armed = 0;
}

/* Rules as the input chooses, among those a register model lets through. */
static void record(struct machine *m, const struct header *h)
{
	struct vpmu_lbr_regs *l = &m->tally.lbr;

	if (!(h->mode & M_LBR))
		return;
	l->depth = (uint8_t)(8 * (1 + h->nr_patches % 4));
	l->ctl = VPMU_LBR_EN | ((h->cr4 >> 8) & (VPMU_LBR_OS | VPMU_LBR_USR)) |
		 ((h->cr4 >> 1) & VPMU_LBR_TYPES);
	if (h->cr4 & 1)
		l->ctl = (l->ctl & ~VPMU_LBR_TYPES) | VPMU_LBR_CALL_STACK | VPMU_LBR_CALLS;
}

static void check_records(const struct machine *m)
{
	const struct vpmu_lbr_regs *l = &m->tally.lbr;
	bool stack = l->ctl & VPMU_LBR_CALL_STACK;

	CHECK(l->count <= l->depth && l->head < VPMU_LBR_DEPTH_MAX && l->count <= l->total,
	      "%u records of %u, head %u", l->count, l->depth, l->head);
	CHECK(l->cycles <= vpmu_emu_clock(&m->tally), "the newest record is in the future");
	for (unsigned int i = 0; i < l->count; i++) {
		const struct vpmu_lbr_entry *e = vpmu_lbr_nth(l, i);
		unsigned int type = (unsigned int)(e->info >> VPMU_LBR_INFO_TYPE_SHIFT) & 15;

		CHECK((e->info & VPMU_LBR_INFO_CYC_VALID) && (type <= 5 || type == 8),
		      "record of type %u", type);
		CHECK(!stack || type == 3 || type == 4, "type %u on the call stack", type);
	}
}

/* The state out and back in; what waits must still wait. */
static void state_round(struct machine *m)
{
	struct vmm_engine_vcpu *v = m->s.vcpu[0];
	uint8_t buf[2048], again[2048];
	size_t n = sizeof(buf), k = sizeof(again);
	struct kvm_sregs sr;
	struct kvm_regs r;

	must(vmm_emu_ops.get_sregs(v, &sr), "get_sregs");
	must(vmm_emu_ops.get_regs(v, &r), "get_regs");
	must(vmm_emu_ops.get_state(v, buf, &n), "get_state");
	must(vmm_emu_ops.set_sregs(v, &sr), "set_sregs");
	must(vmm_emu_ops.set_regs(v, &r), "set_regs");
	must(vmm_emu_ops.set_state(v, buf, n), "set_state");
	must(vmm_emu_ops.get_state(v, again, &k), "get_state");
	CHECK(n == k && !memcmp(buf, again, n), "state changed on its way");
}

/* Some bytes of it from the input. */
static void hostile_state(struct machine *m, const uint8_t *data, size_t size)
{
	struct vmm_engine_vcpu *v = m->s.vcpu[0];
	uint8_t now[2048], buf[2048], after[2048];
	size_t n = sizeof(now), k = sizeof(after);
	struct vmm_run run = {.budget = 50};
	int rc;

	must(vmm_emu_ops.get_state(v, now, &n), "get_state");
	memcpy(buf, now, n);
	for (size_t i = 0; i + 1 < size && i < 16; i += 2)
		buf[(data[i] * 7u + i) % n] = data[i + 1];
	rc = vmm_emu_ops.set_state(v, buf, n);
	CHECK(rc == 0 || rc == -EINVAL, "set_state: %d", rc);
	must(vmm_emu_ops.get_state(v, after, &k), "get_state");
	CHECK(k == n && !memcmp(after, rc ? now : buf, n), "set_state returned %d, but", rc);
	if (m->started)
		must(vmm_emu_ops.run(v, &run), "run");
}

static void execute(struct machine *m, const struct header *h, uint64_t slice)
{
	struct vmm_run run = {0};
	bool more = m->started;

	if (slice)
		record(m, h);
	while (more && m->retired < BUDGET) {
		uint64_t left = BUDGET - m->retired;

		run.budget = slice && slice < left ? slice : left;
		if (slice)
			arm(m, h);
		must(vmm_emu_ops.run(m->s.vcpu[0], &run), "run");
		CHECK(run.retired <= run.budget, "retired %lu of %lu", run.retired, run.budget);
		CHECK(run.exit != VMM_EXIT_BUDGET || run.retired == run.budget,
		      "budget exit after %lu of %lu", run.retired, run.budget);
		m->retired += run.retired;
		CHECK(tallied(&m->tally) == m->retired, "tallies %lu, retired %lu",
		      tallied(&m->tally), m->retired);
		check_alarm(m, &run);
		check_records(m);
		more = answer(m, h, &run);
		if (slice && (h->slice & SLICE_STATE))
			state_round(m);
	}
	must(vmm_emu_ops.get_regs(m->s.vcpu[0], &m->regs), "get_regs");
	must(vmm_emu_ops.get_sregs(m->s.vcpu[0], &m->sregs), "get_sregs");
	m->fpu = ((const struct emu_vcpu *)m->s.vcpu[0])->fpu;
	m->fpu.fx.fip = m->fpu.fx.fdp = 0; /* the host's */
	m->fpu.fx.fop = 0;
}

static void check_same(const struct machine *a, const struct machine *b)
{
	CHECK(a->retired == b->retired && a->exits == b->exits,
	      "slices: %lu:%lu retired, "
	      "%lu:%lu exits",
	      a->retired, b->retired, a->exits, b->exits);
	CHECK(!memcmp(&a->regs, &b->regs, sizeof(a->regs)), "slices: registers differ");
	CHECK(!memcmp(&a->fpu, &b->fpu, sizeof(a->fpu)), "slices: x87 or SSE differ");
	CHECK(!memcmp(&a->tally.ev, &b->tally.ev, sizeof(a->tally.ev)), "slices: tallies differ");
	for (size_t i = 0; memcmp(a->s.ram, b->s.ram, RAM_BYTES) && i < RAM_BYTES; i++)
		CHECK(a->s.ram[i] == b->s.ram[i], "slices: memory differs at %#zx: %02x:%02x", i,
		      a->s.ram[i], b->s.ram[i]);
}

#ifdef FUZZ_TRANSLATED
static __attribute__((constructor)) void translate(void)
{
	emu_jit_set(EMU_JIT_ALL);
}
#endif

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct machine m[2];
	unsigned int nr_patches;
	struct header h;
	struct patch patch[64];

	if (size < sizeof(h))
		return -1;
	memcpy(&h, data, sizeof(h));
	data += sizeof(h);
	size -= sizeof(h);
	nr_patches = h.mode & M_TABLES ? h.nr_patches % 64 : 0;
	if (size < nr_patches * sizeof(patch[0]))
		return -1;
	memcpy(patch, data, nr_patches * sizeof(patch[0]));
	data += nr_patches * sizeof(patch[0]);
	size -= nr_patches * sizeof(patch[0]);
	if (size > CODE_BYTES)
		size = CODE_BYTES;
	for (int i = 0; i < 2; i++) {
		memset(&m[i], 0, sizeof(m[i]));
		build(&m[i], &h, patch, nr_patches, data, size);
		start(&m[i], &h, size);
		execute(&m[i], &h, i ? 1 + h.slice % 32 : 0);
	}
	/*
	 * Code that can write page tables may see old and new translations, and may or may not see
	 * its accesses set A and D bits again, until it flushes (SDM vol. 3, 4.10.2): slicing
	 * decides which, and both are right.
	 */
	if (!(h.mode & (M_KERNEL | M_TABLES | M_SELF)) && !m[0].gave_up && !m[1].gave_up)
		check_same(&m[0], &m[1]);
	for (int i = 0; i < 2; i++) {
		hostile_state(&m[i], data, size);
		bare_destroy(&m[i].s);
	}
	return 0;
}
