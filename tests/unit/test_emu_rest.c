// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * A budget that ends inside a block: the next run() goes on in the middle of that block. It may do
 * so only if nothing has happened in between that the rest of the block does not know of.
 */
#include "tests/unit/emu_bed.h"
#include "vmm/emu/emu.h"

TestSuite(emu_rest, .fini = bed_end);

/* Blocks that @v has decoded and that are still valid. */
static unsigned int blocks(const struct vmm_engine_vcpu *v)
{
	const struct emu_vcpu *s = (const struct emu_vcpu *)v;
	unsigned int n = 0;

	for (unsigned int i = 0; i <= s->hash_mask; i++)
		for (const struct emu_block *b = s->hash[i]; b; b = b->hash_next)
			n += b->nr_ops != 0;
	return n;
}

/* Pairs of compare and jump, flags that are used later, stores, a call, a rare instruction. */
BED_GUEST(guest_loop, "mov $3000, %ebp\n"
		      "1: mov %ebp, %eax\n"
		      "and $7, %eax\n"
		      "add %rax, (%rdi)\n"
		      "cmp $5, %eax\n"
		      "setb %bl\n"
		      "adc $3, %rcx\n"
		      "mov %rcx, 8(%rdi)\n"
		      "cmova %rcx, %rsi\n"
		      "cmp $2, %eax\n"
		      "jne 2f\n"
		      "imul $5, %esi, %esi\n"
		      "xor %rsi, %r9\n"
		      "bt $3, %r9d\n"
		      "setc %dl\n"
		      "2: call 3f\n"
		      "rol $3, %r9\n"
		      "sub $1, %ebp\n"
		      "jne 1b\n"
		      "hlt\n"
		      "3: push %rbx\n"
		      "add %r9, %rcx\n"
		      "sbb %r10, %r10\n"
		      "pop %r11\n"
		      "test $64, %cl\n"
		      "je 4f\n"
		      "inc %r8\n"
		      "4: ret\n");

/* Two vCPUs in slices of @slice. To the second one the caller gives its own registers again after
 * each slice, so it never goes on inside a block. */
static void in_step(uint64_t slice)
{
	unsigned int slices = 0;
	enum vmm_exit x, y;
	struct bed a, b;

	BED_START(&a, guest_loop, false);
	BED_START(&b, guest_loop, false);
	do {
		x = bed_run(&a, slice);
		y = bed_run(&b, slice);
		slices++;
		cr_assert_eq(x, y);
		cr_assert_eq(a.run.retired, b.run.retired);
		cr_assert(x != VMM_EXIT_BUDGET || a.run.retired == slice);
		cr_assert(!memcmp(&a.r, &b.r, sizeof(a.r)), "slices of %lu: registers after %u",
			  slice, slices);
		cr_assert(!memcmp(a.t.ev, b.t.ev, sizeof(a.t.ev)), "slices of %lu: counts after %u",
			  slice, slices);
		cr_assert(!memcmp(a.ram + BED_DATA, b.ram + BED_DATA, 64));
		o->set_regs(b.v, &b.r);
	} while (x == VMM_EXIT_BUDGET);
	cr_assert_eq(x, VMM_EXIT_HLT);
	bed_stop(&b);
	bed_stop(&a);
}

Test(emu_rest, counts_and_registers_at_every_stop)
{
	for (uint64_t slice = 1; slice < 40; slice++)
		in_step(slice);
	in_step(257);
	in_step(1999);
	in_step(2003);
}

/* Wherever slices end, no block is decoded that a run without slices does not have. */
Test(emu_rest, stops_decode_nothing)
{
	unsigned int whole;

	BED_START(&b, guest_loop, false);
	cr_assert_eq(bed_run(&b, 0), VMM_EXIT_HLT);
	whole = blocks(b.v);
	cr_assert_gt(whole, 4);
	for (uint64_t slice = 2; slice < 300; slice += 17) {
		BED_START(&b, guest_loop, false);
		while (bed_run(&b, slice) == VMM_EXIT_BUDGET)
			;
		cr_assert_eq(b.run.exit, VMM_EXIT_HLT);
		cr_assert_eq(blocks(b.v), whole, "slices of %lu", slice);
	}
}

/* ---- what happens in between ---- */

/* The flags of the comparison are used behind it, by ops that know where they come from. */
BED_GUEST(guest_flags, "cmp $5, %eax\n"
		       "setb %bl\n"
		       "setg %cl\n"
		       "setne %dl\n"
		       "cmp $7, %eax\n"
		       "je 1f\n"
		       "mov $1, %esi\n"
		       "1: hlt\n");

/* It goes on behind @n instructions, with the flags of an equal comparison. */
static void are_used(unsigned int n)
{
	cr_assert_eq(bed_run(&b, 0), VMM_EXIT_HLT);
	cr_assert_eq(b.r.rbx, n <= 1, "stopped after %u", n);
	cr_assert_eq(b.r.rcx, n > 2, "stopped after %u", n);
	cr_assert_eq(b.r.rdx, n > 3, "stopped after %u", n);
}

/* EAX is 7: above, greater, not equal. Stop after @n instructions; by the caller it is equal. */
Test(emu_rest, flags_from_the_caller)
{
	for (unsigned int n = 1; n <= 5; n++) {
		BED_START(&b, guest_flags, false);
		BED_REGS(&b, .rax = 7);
		cr_assert_eq(bed_run(&b, n), VMM_EXIT_BUDGET);
		BED_REGS(&b, .rflags = n < 5 ? 0x47 : 2); /* CF, PF, ZF; or none of them */
		are_used(n);
		cr_assert_eq(b.r.rsi, n == 5, "stopped after %u", n);
	}
}

/* Its frame's RFLAGS get CF, PF and ZF, so IRETQ goes back with other flags than it found. */
BED_GUEST(guest_handler, "orq $0x45, 16(%rsp)\n"
			 "iretq\n");

/* The same by an interrupt that comes where the budget ended, and goes back there. */
Test(emu_rest, flags_from_a_handler)
{
	for (unsigned int n = 1; n <= 4; n++) {
		BED_START(&b, guest_flags, false);
		BED_PUT(&b, BED_CODE + 0x800, guest_handler);
		bed_gate(&b, 0x40, BED_CODE + 0x800, 0, 0xe);
		BED_REGS(&b, .rax = 7, .rflags = 0x202);
		cr_assert_eq(bed_run(&b, n), VMM_EXIT_BUDGET);
		cr_assert_eq(o->interrupt(b.v, 0x40), 0);
		are_used(n);
	}
}

/* It comes to the same place twice: first from the comparison before it, then by a jump. */
BED_GUEST(guest_twice, "cmp $5, %eax\n"
		       "1: setb %bl\n"
		       "inc %ebp\n"
		       "cmp $2, %ebp\n"
		       "je 2f\n"
		       "push $0x47\n"
		       "popf\n"
		       "jmp 1b\n"
		       "2: hlt\n");

/* Both times the budget ends there, the second time behind the jump. */
Test(emu_rest, a_stop_is_forgotten_once_it_is_used)
{
	uint64_t rip;

	BED_START(&b, guest_twice, false);
	BED_REGS(&b, .rax = 7);
	cr_assert_eq(bed_run(&b, 1), VMM_EXIT_BUDGET);
	rip = b.r.rip;
	cr_assert_eq(bed_run(&b, 7), VMM_EXIT_BUDGET);
	cr_assert_eq(b.r.rbx, 0);
	cr_assert_eq(b.r.rip, rip);
	cr_assert_eq(bed_run(&b, 0), VMM_EXIT_HLT);
	cr_assert_eq(b.r.rbx, 1);
}

BED_GUEST(guest_straight, "inc %eax\n inc %eax\n inc %eax\n inc %eax\n"
			  "inc %eax\n inc %eax\n inc %eax\n inc %eax\n"
			  "hlt\n");
/* Makes the sixth of these INC EAX (FF C0) an INC EDX (FF C2). */
BED_GUEST(guest_overwrites, "movb $0xc2, 0x20000b\n"
			    "hlt\n");

/* Another vCPU of the VM overwrites what follows. */
Test(emu_rest, code_that_is_overwritten)
{
	struct bed b, c;

	BED_START(&b, guest_straight, false);
	c = b;
	cr_assert_eq(o->vcpu_create(b.vm, 1, &c.v), 0);
	BED_PUT(&b, BED_CODE + 0x1000, guest_overwrites);
	bed_set_mode(&c, c.v, false);
	BED_REGS(&c, .rip = BED_CODE + 0x1000);
	cr_assert_eq(bed_run(&b, 3), VMM_EXIT_BUDGET);
	cr_assert_eq(bed_run(&c, 0), VMM_EXIT_HLT);
	cr_assert_eq(bed_run(&b, 0), VMM_EXIT_HLT);
	cr_assert_eq(b.r.rax, 7);
	cr_assert_eq(b.r.rdx, 1);
	o->vcpu_destroy(c.v);
	bed_stop(&b);
}

/* The VM gets its second vCPU: code that the first has decoded as the only one is forgotten, and so
 * is the block in which it stands. */
Test(emu_rest, blocks_that_are_forgotten)
{
	struct vmm_engine_vcpu *other;

	BED_START(&b, guest_straight, false);
	cr_assert_eq(bed_run(&b, 3), VMM_EXIT_BUDGET);
	cr_assert_eq(o->vcpu_create(b.vm, 1, &other), 0);
	cr_assert_eq(blocks(b.v), 0);
	cr_assert_eq(bed_run(&b, 2), VMM_EXIT_BUDGET);
	cr_assert_eq(blocks(b.v), 1);
	cr_assert_eq(b.r.rax, 5);
	o->vcpu_destroy(other);
}

/* ---- alarms ---- */

/* The block's end is much denser in cycles than the whole. */
BED_GUEST(guest_dense, "mov $9, %ecx\n"
		       "1: mov $1, %eax\n mov $2, %ebx\n mov $3, %esi\n mov $4, %r8d\n"
		       "mov $1, %eax\n mov $2, %ebx\n mov $3, %esi\n mov $4, %r8d\n"
		       "mov $1, %eax\n mov $2, %ebx\n mov $3, %esi\n mov $4, %r8d\n"
		       "imul %rax, %r9\n imul %rax, %r9\n imul %rax, %r9\n imul %rax, %r9\n"
		       "dec %ecx\n"
		       "jne 1b\n"
		       "hlt\n");

/* An alarm that is armed while the vCPU stands inside a block: it stops behind the instruction that
 * single steps say. */
static void alarm_inside(unsigned int event, unsigned int stop, uint64_t left)
{
	uint64_t at, retired = 0;
	struct bed a, b;

	BED_START(&a, guest_dense, false);
	BED_START(&b, guest_dense, false);
	cr_assert_eq(bed_run(&a, stop), VMM_EXIT_BUDGET);
	cr_assert_eq(bed_run(&b, stop), VMM_EXIT_BUDGET);
	at = bed_total(&a.t, event) + left;
	a.t.alarm[0] = (struct vpmu_emu_alarm){.event = (uint8_t)event, .modes = 7, .at = at};
	a.t.armed = 1;
	while (bed_total(&b.t, event) < at) {
		cr_assert_eq(bed_run(&b, 1), VMM_EXIT_BUDGET);
		retired++;
	}
	cr_assert_eq(bed_run(&a, 0), VMM_EXIT_ALARM);
	cr_assert_eq(a.run.retired, retired, "event %u, stopped after %u, %lu left", event, stop,
		     left);
	cr_assert_eq(a.r.rip, b.r.rip);
	bed_stop(&b);
	bed_stop(&a);
}

Test(emu_rest, alarms_that_are_armed_inside)
{
	for (unsigned int stop = 2; stop < 18; stop++)
		for (uint64_t left = 1; left < 60; left++) {
			alarm_inside(VPMU_EMU_INSTRUCTIONS, stop, left);
			alarm_inside(VPMU_EMU_CYCLES, stop, left);
		}
}
