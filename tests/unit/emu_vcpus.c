// SPDX-License-Identifier: GPL-2.0-or-later
/* Several vCPUs of a VM: code that one writes and another executes, and its cost. A part of
 * test_emu_exec. */
#include <pthread.h>

#include "tests/unit/emu_bed.h"
#include "vmm/emu/emu.h"

TestSuite(emu_vcpus, .fini = bed_end);

/* vCPU 0 rewrites a function and passes vCPU 1 its number; 1 serialises, calls it, answers. */
BED_GUEST(guest_writer, "1: add $1, %ebx\n"
			"mov %ebx, 0x301001\n" /* mov $imm, %eax; ret at 0x301000 */
			"mov %ebx, 0x300000\n"
			"2: pause\n"
			"cmp 0x300040, %ebx\n"
			"jne 2b\n"
			"cmp $3000, %ebx\n"
			"jne 1b\n"
			"hlt\n");
BED_GUEST(guest_caller, "1: pause\n"
			"mov 0x300000, %edi\n"
			"cmp %edi, %esi\n"
			"je 1b\n"
			"mov %edi, %esi\n"
			"xor %eax, %eax\n"
			"cpuid\n"
			"mov $0x301000, %ebp\n"
			"call *%rbp\n"
			"cmp %eax, %esi\n"
			"jne 2f\n"
			"mov %esi, 0x300040\n"
			"cmp $3000, %esi\n"
			"jne 1b\n"
			"2: hlt\n");

/* Hostile: every instruction is decoded anew, which takes a thousand times as long as running it. A
 * run ends long before its budget, at an instruction, and the next one goes on from there. */
Test(emu_vcpus, code_that_modifies_itself_gives_the_cpu_back)
{
	/* 1: incb 2f+1(%rip); 2: mov $1, %al; jmp 1b */
	static const uint8_t code[] = {0xfe, 0x05, 0x01, 0x00, 0x00, 0x00, 0xb0, 0x01, 0xeb, 0xf6};
	uint64_t sum = 0;
	int runs = 0;

	bed_start(&b, code, code + sizeof(code), false);
	b.run.effort_max = 100000;
	while (sum < 10000) {
		enum vmm_exit x = bed_run(&b, 10000 - sum);

		cr_assert_gt(b.run.retired, 0);
		sum += b.run.retired;
		cr_assert_eq(x, sum < 10000 ? VMM_EXIT_INTR : VMM_EXIT_BUDGET);
		runs++;
	}
	cr_assert_eq(sum, 10000);
	cr_assert_gt(runs, 5);
}

/* 400 blocks of one instruction, killed by a store, again and again, with an exit in between. */
BED_GUEST(guest_decodes, "mov $0x202000, %edi\n"
			 "mov %rdi, %rbx\n"
			 "mov $400, %ecx\n"
			 "1: movw $0x00eb, (%rdi)\n"
			 "add $2, %rdi\n"
			 "dec %ecx\n"
			 "jnz 1b\n"
			 "movb $0xc3, (%rdi)\n"
			 "2: call *%rbx\n"
			 "movb $0xc3, (%rdi)\n"
			 "out %al, $0x80\n"
			 "jmp 2b\n");
/* Strings of 1 MiB, one instruction each, that store or load. */
BED_GUEST(guest_strings, "1: mov $0x300000, %edi\n"
			 "mov $0xfffff, %ecx\n"
			 "rep stosb\n"
			 "jmp 1b\n");
BED_GUEST(guest_elements, "1: mov $0x300000, %esi\n"
			  "mov $0xfffff, %ecx\n"
			  "rep lodsb\n"
			  "jmp 1b\n");

/* The effort of runs between exits that are answered, and of strings that end, adds up to a
 * slice's, long before its instructions do. */
Test(emu_vcpus, effort_adds_up)
{
	static const struct {
		const uint8_t *code, *end;
		uint64_t most; /* instructions */
	} hostile[] = {
		{guest_decodes, guest_decodes_end, 5000},
		{guest_strings, guest_strings_end, 30},
		{guest_elements, guest_elements_end, 400},
	};

	for (size_t i = 0; i < sizeof(hostile) / sizeof(hostile[0]); i++) {
		bed_start(&b, hostile[i].code, hostile[i].end, false);
		for (int slice = 0; slice < 10; slice++) {
			uint64_t sum = 0, effort = 0;
			enum vmm_exit x;

			do {
				b.run.effort_max = 100000 - effort;
				x = bed_run(&b, 100000);
				sum += b.run.retired;
				effort += b.run.effort;
				cr_assert_geq(4 * b.run.effort, b.run.retired);
			} while (x == VMM_EXIT_IO && effort < 100000);
			cr_assert_geq(effort, 100000);
			cr_assert_leq(effort, 2 * 100000, "it stops soon: %lu", effort);
			cr_assert_eq(x, VMM_EXIT_INTR, "line %zu slice %d: exit %d", i, slice, x);
			cr_assert_leq(sum, hostile[i].most, "line %zu: %lu", i, sum);
		}
		cr_assert_gt(bed_total(&b.t, VPMU_EMU_INSTRUCTIONS), 5, "and it goes on");
	}
}

static void *run_thread(void *arg)
{
	struct bed *b = arg;
	enum vmm_exit x;

	/* Code that has to be decoded again and again gives its pCPU back early. */
	while ((x = bed_run(b, 0)) == VMM_EXIT_INTR)
		;
	cr_assert_eq(x, VMM_EXIT_HLT);
	return NULL;
}

Test(emu_vcpus, code_modified_by_another_vcpu)
{
	static const uint8_t fn[] = {0xb8, 0, 0, 0, 0, 0xc3};
	struct bed a, c;
	pthread_t th;

	bed_init(&a);
	c = a;
	cr_assert_eq(o->vcpu_create(a.vm, 0, &a.v), 0);
	cr_assert_eq(o->vcpu_create(a.vm, 1, &c.v), 0);
	bed_load(&a, guest_writer, guest_writer_end, false);
	BED_PUT(&a, BED_CODE + 0x1000, guest_caller);
	bed_set_mode(&c, c.v, false);
	c.r = a.r;
	c.r.rip += 0x1000;
	c.r.rsp -= 0x1000;
	o->set_regs(c.v, &c.r);
	memcpy(a.ram + BED_DATA + 0x1000, fn, sizeof(fn));
	pthread_create(&th, NULL, run_thread, &c);
	run_thread(&a);
	pthread_join(th, NULL);
	cr_assert_eq(c.r.rsi, 3000);
	o->vcpu_destroy(c.v);
	bed_stop(&a);
}
