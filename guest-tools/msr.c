// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The command msr: executes a script of privileged operations and prints one line for each. Tests
 * of the register models use it. The steps and their lines are:
 *
 *	rd MSR			rd 0x38f = 0x0
 *	wr MSR VALUE		wr 0x38f <- 0x1 ok
 *	pmc INDEX		pmc 0x0 = 0x12
 *	cpuid LEAF[.SUB]	cpuid 0xa.0 = EAX EBX ECX EDX
 *	run WORKLOAD [ARG]	run loop 1000 = 500500
 *	count MSR VALUE WORKLOAD [ARG]
 *				as run, with VALUE written to MSR directly before and 0 directly
 *				after, as stat does
 * The line of a step that faults ends in ": #GP". The whole script is checked before any step is
 * executed.
 */
#include "guest-tools/args.h"
#include "guest-tools/tools.h"

struct step {
	struct guest_op op;
	struct args_work work; /* work.w is not NULL for run and count (op.index, op.value) */
};

static bool msr_number(const char **s, struct word verb, const char *what, uint64_t max,
		       uint64_t *v, char *err)
{
	struct word w = text_next_word(s);

	if (w.len && text_u64(w.s, w.len, v) && *v <= max)
		return true;
	text_format(err, ARGS_ERR_MAX, "%.*s: %s '%.*s' is invalid; expected a number up to 0x%lx",
		    (int)verb.len, verb.s, what, (int)(w.len < 64 ? w.len : 64), w.s, max);
	return false;
}

static bool cpuid_leaf(const char **s, struct step *step, char *err)
{
	struct word w = text_next_word(s);
	size_t dot = 0;
	uint64_t leaf, sub = 0;

	while (dot < w.len && w.s[dot] != '.')
		dot++;
	if (!text_u64(w.s, dot, &leaf) || leaf > UINT32_MAX ||
	    (dot < w.len && !text_u64(w.s + dot + 1, w.len - dot - 1, &sub)) || sub > UINT32_MAX) {
		text_format(err, ARGS_ERR_MAX,
			    "cpuid: leaf '%.*s' is invalid; expected LEAF or LEAF.SUB",
			    (int)(w.len < 64 ? w.len : 64), w.s);
		return false;
	}
	step->op.index = (uint32_t)leaf;
	step->op.sub = (uint32_t)sub;
	return true;
}

/* Parse the next step of the script. *done: there is none. */
static bool parse_step(const char **s, uint64_t mem_bytes, struct step *step, bool *done, char *err)
{
	struct word verb = text_next_word(s);
	uint64_t index = 0;
	bool ok = true;

	*step = (struct step){.op.kind = GUEST_RDMSR};
	*done = !verb.len;
	if (*done)
		return true;
	if (word_is(verb, "rd")) {
		ok = msr_number(s, verb, "MSR", UINT32_MAX, &index, err);
	} else if (word_is(verb, "wr")) {
		step->op.kind = GUEST_WRMSR;
		ok = msr_number(s, verb, "MSR", UINT32_MAX, &index, err) &&
		     msr_number(s, verb, "value", UINT64_MAX, &step->op.value, err);
	} else if (word_is(verb, "pmc")) {
		step->op.kind = GUEST_RDPMC;
		ok = msr_number(s, verb, "index", UINT32_MAX, &index, err);
	} else if (word_is(verb, "cpuid")) {
		step->op.kind = GUEST_CPUID;
		return cpuid_leaf(s, step, err);
	} else if (word_is(verb, "run")) {
		return args_workload(s, mem_bytes, &step->work, err);
	} else if (word_is(verb, "count")) {
		ok = msr_number(s, verb, "MSR", UINT32_MAX, &index, err) &&
		     msr_number(s, verb, "value", UINT64_MAX, &step->op.value, err) &&
		     args_workload(s, mem_bytes, &step->work, err);
	} else {
		text_format(
			err, ARGS_ERR_MAX,
			"unknown operation '%.*s' of msr: known are rd, wr, pmc, cpuid, run, count",
			(int)(verb.len < 64 ? verb.len : 64), verb.s);
		return false;
	}
	step->op.index = (uint32_t)index;
	return ok;
}

static void run_step(const struct guest_info *info, struct step *step)
{
	struct guest_run run = {.msr = step->op.index, .enable = step->op.value};
	uint64_t result;

	if (step->op.index)
		out("count 0x%x 0x%lx ", run.msr, run.enable);
	else
		out("run ");
	out("%s %lu", step->work.w->name, step->work.n);
	if (tool_run(info, step->work.w, step->work.n, &run, &result))
		out(": #GP\n");
	else
		out(" = %lu\n", result);
}

static void execute(const struct guest_info *info, struct step *step)
{
	struct guest_op *op = &step->op;
	const uint64_t value = op->value;

	out("vcpu %u: ", info->vcpu);
	if (step->work.w) {
		run_step(info, step);
		return;
	}
	sys_pmu(op, 1);
	switch (op->kind) {
	case GUEST_WRMSR:
		out("wr 0x%x <- 0x%lx%s\n", op->index, value, op->fault ? ": #GP" : " ok");
		return;
	case GUEST_CPUID:
		out("cpuid 0x%x.%u = 0x%x 0x%x 0x%x 0x%x\n", op->index, op->sub, op->regs[0],
		    op->regs[1], op->regs[2], op->regs[3]);
		return;
	default:
		out("%s 0x%x", op->kind == GUEST_RDPMC ? "pmc" : "rd", op->index);
		if (op->fault)
			out(": #GP\n");
		else
			out(" = 0x%lx\n", op->value);
	}
}

TOOL_COMMAND(msr, "rd|wr|pmc|cpuid|run|count ...", "execute a script of privileged operations");
int msr_main(const struct guest_info *info, const char *args)
{
	static char err[ARGS_ERR_MAX];
	const char *s = args;
	struct step step;
	bool done;

	do {
		if (!parse_step(&s, info->mem_bytes, &step, &done, err))
			return tool_error(info, err);
	} while (!done);
	for (;;) {
		parse_step(&args, info->mem_bytes, &step, &done, err);
		if (done)
			return TOOL_OK;
		execute(info, &step);
	}
}
