// SPDX-License-Identifier: GPL-2.0-or-later
/* Comparison and reports of the differential test, see compare.h. */
#include <inttypes.h>
#include <string.h>

#include "tests/emu/compare.h"

#define USER_END 0x7ffffffff000ull /* of 64-bit Linux with four-level tables */

static const char *const reg_name[DT_NREGS] = {"rax", "rcx", "rdx", "rbx", "rsp", "rbp",
					       "rsi", "rdi", "r8",  "r9",  "r10", "r11",
					       "r12", "r13", "r14", "r15"};

/* Undefined state where @r stopped. */
static uint32_t undefined_at(const struct dt_seq *q, const struct dt_result *r)
{
	if (r->vector == DT_END)
		return q->undef_end;
	for (unsigned int k = 0; k < q->n; k++) {
		const struct seq_insn *si = &q->insn[k];

		if (q->c.slot + si->off == r->rip)
			return si->undef;
	}
	return q->undef_any; /* went astray */
}

static bool memory_equal(const char *what, uint64_t base, const uint8_t *a, const uint8_t *b,
			 size_t n, char *why, size_t why_len)
{
	if (!memcmp(a, b, n))
		return true;
	for (size_t i = 0; i < n; i++)
		if (a[i] != b[i]) {
			snprintf(why, why_len, "%s at %#" PRIx64 ": native %02x, emulator %02x",
				 what, base + i, a[i], b[i]);
			break;
		}
	return false;
}

/*
 * CMPS reads two operands, a CALL checks its target and pushes. No manual defines which of two
 * faults is reported, and only Intel's CPUs were measured (vendor.c): elsewhere either is right.
 */
static bool either_fault(const struct dt_seq *q, const struct dt_result *nat,
			 const struct dt_result *emulator)
{
	const uint32_t memory_faults = 1u << 12 | 1u << 13 | 1u << 14;
	struct insn in;

	if (nat->vector < 0 || emulator->vector < 0 || nat->rip != emulator->rip ||
	    nat->rip - q->c.slot >= DT_SLOT || !(memory_faults & 1u << nat->vector) ||
	    !(memory_faults & 1u << emulator->vector))
		return false;
	if (!insn_decode(q->c.code + (nat->rip - q->c.slot), DT_SLOT - (nat->rip - q->c.slot), &in))
		return false;
	return in.i.mnemonic == ZYDIS_MNEMONIC_CALL || insn_is_cmps(&in);
}

/*
 * True if @r ended in a fault of an instruction on x87 or MMX registers, or of their whole state.
 * What such a fault leaves of the x87 state, and which byte of a long operand is reported, was
 * measured on AMD's CPUs only.
 */
static bool fp_fault(const struct dt_seq *q, const struct dt_result *r)
{
	struct insn in;

	if (r->vector < 0 || r->rip - q->c.slot >= DT_SLOT ||
	    !insn_decode(q->c.code + (r->rip - q->c.slot), DT_SLOT - (r->rip - q->c.slot), &in))
		return false;
	if (in.i.meta.isa_ext == ZYDIS_ISA_EXT_X87 || in.i.meta.isa_ext == ZYDIS_ISA_EXT_MMX ||
	    in.i.meta.category == ZYDIS_CATEGORY_SSE)
		return true;
	for (int k = 0; k < in.i.operand_count; k++)
		if (in.op[k].type == ZYDIS_OPERAND_TYPE_REGISTER &&
		    ZydisRegisterGetClass(in.op[k].reg.value) == ZYDIS_REGCLASS_MMX)
			return true;
	return false;
}

/*
 * True if @emulator ended in a memory fault of an x87 store that also has an exception that is not
 * masked, and @nat has that one pending. Intel's CPUs store nothing then and so do not fault. Both
 * are faults on executing an instruction, a class in which the order depends on the CPU (SDM vol.
 * 3, "Priority Among Concurrent Events").
 */
static bool store_order(const struct dt_seq *q, const struct dt_result *nat,
			const struct dt_result *emulator)
{
	uint64_t off = emulator->rip - q->c.slot;
	bool unmasked = (emulator->fx[0] & 0x3f) != 0x3f, pending = nat->fx[2] & 0x80;
	struct insn in;

	if (emulator->vector < 12 || emulator->vector > 14 || !unmasked || !pending ||
	    off >= DT_SLOT || !insn_decode(q->c.code + off, DT_SLOT - off, &in))
		return false;
	return INSN_IS(&in, M(FST), M(FSTP), M(FBSTP), M(FIST), M(FISTP), M(FISTTP));
}

/*
 * True if @nat and @emulator are page faults of one instruction that accesses x87 state, at two
 * bytes of its operand. Which byte is reported differs between AMD's CPUs: family 1AH reports the
 * last one, family 19H model 11H the first bad one.
 */
static bool state_fault(const struct dt_seq *q, const struct dt_result *nat,
			const struct dt_result *emulator)
{
	uint64_t apart =
		nat->cr2 > emulator->cr2 ? nat->cr2 - emulator->cr2 : emulator->cr2 - nat->cr2;
	uint64_t off = nat->rip - q->c.slot;
	struct insn in;

	if (off >= DT_SLOT || !insn_decode(q->c.code + off, DT_SLOT - off, &in))
		return false;
	return INSN_IS(&in, M(FNSAVE), M(FNSTENV), M(FRSTOR), M(FLDENV), M(FXSAVE), M(FXSAVE64),
		       M(FXRSTOR), M(FXRSTOR64), M(XSAVE), M(XSAVE64), M(XSAVEC), M(XSAVEC64),
		       M(XSAVEOPT), M(XSAVEOPT64), M(XRSTOR), M(XRSTOR64)) &&
	       apart < in.op[0].size / 8;
}

static bool fault_equal(const struct dt_seq *q, const struct dt_result *nat,
			const struct dt_result *emulator, const struct host_facts *host, char *why,
			size_t why_len)
{
	uint32_t error_mask = ~0u;

	if (nat->vector != 14 && nat->vector != 13)
		return true;
	if (nat->vector == 14 && nat->cr2 != emulator->cr2) {
		if (state_fault(q, nat, emulator))
			return true;
		if (host && host->upper_first && host_upper_fault(q, nat, emulator))
			goto error_code;
		snprintf(why, why_len, "cr2: native %#" PRIx64 ", emulator %#" PRIx64, nat->cr2,
			 emulator->cr2);
		return false;
	}
error_code:
	/* Linux hides from user space whether an address beyond the user's is mapped. */
	if (nat->vector == 14 && nat->cr2 >= USER_END)
		error_mask = ~1u;
	if ((nat->error ^ emulator->error) & error_mask) {
		snprintf(why, why_len, "error code: native %#x, emulator %#x", nat->error,
			 emulator->error);
		return false;
	}
	return true;
}

/* @n registers of 16 bytes. */
static bool halves_equal(const char *name, unsigned int n, const uint8_t *a, const uint8_t *b,
			 char *why, size_t why_len)
{
	for (unsigned int i = 0; i < n; i++) {
		uint64_t x[2], y[2];

		memcpy(x, a + 16 * i, 16);
		memcpy(y, b + 16 * i, 16);
		if (x[0] == y[0] && x[1] == y[1])
			continue;
		snprintf(why, why_len,
			 "%s%u: native %016" PRIx64 " %016" PRIx64 ", emulator %016" PRIx64
			 " %016" PRIx64,
			 name, i, x[1], x[0], y[1], y[0]);
		return false;
	}
	return true;
}

/* The upper halves of YMM0 to YMM15, and what AVX-512 adds. */
static bool avx_equal(const struct dt_result *a, const struct dt_result *b, char *why,
		      size_t why_len)
{
	for (unsigned int i = 0; i < 8; i++)
		if (a->v.k[i] != b->v.k[i]) {
			snprintf(why, why_len, "k%u: native %#" PRIx64 ", emulator %#" PRIx64, i,
				 a->v.k[i], b->v.k[i]);
			return false;
		}
	return halves_equal("upper half of ymm", 16, a->v.ymm[0], b->v.ymm[0], why, why_len) &&
	       halves_equal("zmm0's upper half + 16 * ", 32, a->v.zmm_high[0], b->v.zmm_high[0],
			    why, why_len) &&
	       halves_equal("zmm16 + 16 * ", 64, a->v.zmm_hi16[0], b->v.zmm_hi16[0], why, why_len);
}

/* x87, MMX and SSE, bit for bit. The pointers are looked at only while an exception waits: a CPU of
 * AMD's stores them only then, and Linux saves and restores with the CPU's image. */
static bool fx_equal(const uint8_t *a, const uint8_t *b, bool no_pointers, char *why,
		     size_t why_len)
{
	static const struct {
		const char *name;
		unsigned int at, bytes;
		bool pointer;
	} part[] = {{"FCW", 0, 2, 0}, {"FSW", 2, 2, 0},	 {"FTW", 4, 1, 0},   {"FOP", 6, 2, 1},
		    {"FIP", 8, 8, 1}, {"FDP", 16, 8, 1}, {"MXCSR", 24, 4, 0}};

	for (unsigned int i = 0; i < 7; i++) {
		uint64_t x = 0, y = 0;

		memcpy(&x, a + part[i].at, part[i].bytes);
		memcpy(&y, b + part[i].at, part[i].bytes);
		if (x == y || (part[i].pointer && (no_pointers || !(a[2] & 0x80))))
			continue;
		snprintf(why, why_len, "%s: native %#" PRIx64 ", emulator %#" PRIx64, part[i].name,
			 x, y);
		return false;
	}
	return halves_equal("st", 8, a + 32, b + 32, why, why_len) &&
	       halves_equal("xmm", 16, a + 160, b + 160, why, why_len);
}

bool results_equal(const struct dt_seq *q, const struct dt_result *nat,
		   const struct dt_result *emulator, unsigned int how,
		   const struct host_facts *host, char *why, size_t why_len)
{
	uint8_t data[DT_DATA_BYTES], stack[DT_STACK_BYTES];
	uint32_t mask = ~(how & COMPARE_UNDEFINED ? 0 : undefined_at(q, nat));
	bool either = how & COMPARE_EITHER_FAULT && either_fault(q, nat, emulator);
	bool fp = how & COMPARE_FP_FAULTS && fp_fault(q, nat);

	if (how & COMPARE_FP_FAULTS && nat->vector != emulator->vector &&
	    store_order(q, nat, emulator))
		return true;
	if (nat->vector != emulator->vector && !either) {
		snprintf(why, why_len, "ended by: native %d, emulator %d %s", nat->vector,
			 emulator->vector, emulator->vector == DT_OTHER ? emulator->msg : "");
		return false;
	}
	if (nat->vector == DT_HANG)
		return true; /* where it was stopped is chance */
	if (nat->rip != emulator->rip) {
		snprintf(why, why_len, "rip: native %#" PRIx64 ", emulator %#" PRIx64, nat->rip,
			 emulator->rip);
		return false;
	}
	for (int i = 0; i < DT_NREGS; i++)
		if (nat->regs[i] != emulator->regs[i]) {
			snprintf(why, why_len, "%s: native %#" PRIx64 ", emulator %#" PRIx64,
				 reg_name[i], nat->regs[i], emulator->regs[i]);
			return false;
		}
	if ((nat->rflags ^ emulator->rflags) & mask) {
		snprintf(why, why_len,
			 "rflags: native %#" PRIx64 ", emulator %#" PRIx64 ", differ in %#" PRIx64,
			 nat->rflags, emulator->rflags, (nat->rflags ^ emulator->rflags) & mask);
		return false;
	}
	if (nat->vector >= 0 && (nat->cs != emulator->cs || nat->ss != emulator->ss)) {
		snprintf(why, why_len, "cs:ss: native %x:%x, emulator %x:%x", nat->cs, nat->ss,
			 emulator->cs, emulator->ss);
		return false;
	}
	memcpy(data, emulator->data, sizeof(data));
	memcpy(stack, emulator->stack, sizeof(stack));
	if (host && host->x87_parts) {
		host_x87_part(q, nat, emulator, DT_DATA, nat->data, data, sizeof(data));
		host_x87_part(q, nat, emulator, DT_STACK, nat->stack, stack, sizeof(stack));
	}
	return (either || fp || fault_equal(q, nat, emulator, host, why, why_len)) &&
	       (fp || fx_equal(nat->fx, emulator->fx, how & COMPARE_FP_FAULTS, why, why_len)) &&
	       (fp || avx_equal(nat, emulator, why, why_len)) &&
	       memory_equal("data", DT_DATA, nat->data, data, DT_DATA_BYTES, why, why_len) &&
	       memory_equal("stack", DT_STACK, nat->stack, stack, DT_STACK_BYTES, why, why_len) &&
	       memory_equal("code", q->c.slot, nat->code, emulator->code, DT_SLOT, why, why_len);
}

bool path_count(const struct dt_seq *q, const struct dt_result *nat, struct path_counts *out)
{
	uint64_t ip = q->c.rip, rcx = q->c.regs[DT_RCX];
	bool in_string = false; /* amid the iterations of a rep string instruction */

	memset(out, 0, sizeof(*out));
	if (q->no_step || nat->nr_steps > DT_STEPS)
		return false;
	for (uint32_t i = 0; i < nat->nr_steps; i++) {
		uint64_t next = (uint32_t)(nat->step[i] + DT_CODE), off = ip - q->c.slot;
		bool string, idle;
		struct insn in;

		if (off >= DT_SLOT || !insn_decode(q->c.code + off, DT_SLOT - off, &in))
			return false;
		string = insn_is_rep_string(&in);
		idle = string && !in_string &&
		       (in.i.address_width == 32 ? (uint32_t)rcx : rcx) == 0;
		rcx = nat->step_rcx[i];
		/* One trap per iteration, but one instruction: it retires when RIP moves on. A
		 * gather traps behind the elements before one that faults. */
		in_string = string && next == ip;
		if (next == ip && !insn_is_branch(&in))
			continue;
		out->insns++;
		out->loads += insn_loads(&in) && !idle;
		out->stores += insn_stores(&in) && !idle;
		if (insn_is_branch(&in)) {
			out->branches++;
			out->conditional += in.i.meta.category == ZYDIS_CATEGORY_COND_BR;
			if (in.i.meta.category != ZYDIS_CATEGORY_COND_BR ||
			    next != ip + in.i.length) {
				out->last[out->taken++ % VPMU_LBR_DEPTH_MAX] =
					(struct vpmu_lbr_entry){ip, next, insn_branch_type(&in)};
				out->recorded = out->taken;
			}
		}
		ip = next;
	}
	/* A software interrupt retires, but ends stepping before its trap. */
	if (nat->vector >= 0 && ip - q->c.slot < DT_SLOT && nat->rip != ip) {
		out->insns++;
		out->branches++;
		out->taken++;
	}
	return true;
}

bool path_branches_equal(const struct path_counts *p, const struct vpmu_lbr_regs *l, char *why,
			 size_t why_len)
{
	uint64_t nr = p->recorded < VPMU_LBR_DEPTH_MAX ? p->recorded : VPMU_LBR_DEPTH_MAX;

	if (l->total != p->recorded || l->count != nr) {
		snprintf(why, why_len, "branches: single-stepped %" PRIu64 ", recorded %" PRIu64,
			 p->recorded, l->total);
		return false;
	}
	for (unsigned int i = 0; i < nr; i++) {
		const struct vpmu_lbr_entry *t =
			&p->last[(p->recorded - 1 - i) % VPMU_LBR_DEPTH_MAX];
		const struct vpmu_lbr_entry *e = vpmu_lbr_nth(l, i);
		uint64_t type = (e->info & VPMU_LBR_INFO_TYPE) >> VPMU_LBR_INFO_TYPE_SHIFT;

		if (e->from != t->from || e->to != t->to || type != t->info) {
			snprintf(why, why_len,
				 "branch %u: single-stepped %#" PRIx64 " -> %#" PRIx64 " (%" PRIu64
				 "), recorded %#" PRIx64 " -> %#" PRIx64 " (%" PRIu64 ")",
				 i, t->from, t->to, t->info, e->from, e->to, type);
			return false;
		}
	}
	return true;
}

static void print_insns(FILE *f, const struct dt_seq *q)
{
	for (unsigned int k = 0; k < q->n; k++) {
		const struct seq_insn *si = &q->insn[k];
		char text[128] = "(no instruction)";
		unsigned int done = 0;

		/* A place may hold several NOPs after shrinking. */
		while (done < si->len) {
			struct insn in;
			unsigned int len = si->len - done;

			if (!si->raw &&
			    insn_decode(q->c.code + si->off + done, si->len - done, &in)) {
				len = in.i.length;
				insn_text(&in, q->c.slot + si->off + done, text, sizeof(text));
			}
			if (len == 1 && q->c.code[si->off + done] == 0x90 && si->len > 1) {
				done++;
				continue;
			}
			fprintf(f, "#   %" PRIx64 ": ", q->c.slot + si->off + done);
			for (unsigned int b = 0; b < 12 || b < len; b++)
				if (b < len)
					fprintf(f, "%02x ", q->c.code[si->off + done + b]);
				else
					fprintf(f, "   ");
			fprintf(f, " %s\n", text);
			done += len;
		}
	}
}

static void print_result(FILE *f, const char *who, const struct dt_result *r)
{
	fprintf(f,
		"#  %-6s vector %d error %#x cr2 %#" PRIx64 " rip %#" PRIx64 " rflags %#" PRIx64
		" %s\n",
		who, r->vector, r->error, r->cr2, r->rip, r->rflags, r->msg);
	for (int i = 0; i < DT_NREGS; i++)
		fprintf(f, "%s%4s %016" PRIx64 "%s", i % 4 ? "" : "#   ", reg_name[i], r->regs[i],
			i % 4 == 3 ? "\n" : "");
}

static void print_memory(FILE *f, const char *what, uint64_t base, const uint8_t *a,
			 const uint8_t *b, size_t n)
{
	unsigned int shown = 0;

	for (size_t i = 0; i < n && shown < 32; i++)
		if (a[i] != b[i]) {
			fprintf(f, "#   %s %#" PRIx64 ": native %02x emulator %02x\n", what,
				base + i, a[i], b[i]);
			shown++;
		}
}

void print_case(FILE *f, const struct dt_seq *q, const struct dt_result *nat,
		const struct dt_result *emulator)
{
	fprintf(f, "#  sequence at %#" PRIx64 ", memory %#x %#x:\n", q->c.rip, q->c.data_pool,
		q->c.stack_pool);
	print_insns(f, q);
	fprintf(f, "#  before: rflags %#" PRIx64 "\n", q->c.rflags);
	for (int i = 0; i < DT_NREGS; i++)
		fprintf(f, "%s%4s %016" PRIx64 "%s", i % 4 ? "" : "#   ", reg_name[i], q->c.regs[i],
			i % 4 == 3 ? "\n" : "");
	if (nat)
		print_result(f, "native", nat);
	if (emulator)
		print_result(f, "emulator", emulator);
	if (!nat || !emulator)
		return;
	print_memory(f, "data", DT_DATA, nat->data, emulator->data, DT_DATA_BYTES);
	print_memory(f, "stack", DT_STACK, nat->stack, emulator->stack, DT_STACK_BYTES);
	print_memory(f, "code", q->c.slot, nat->code, emulator->code, DT_SLOT);
}
