// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * SYSENTER and SYSEXIT of vCPUs that show a whole CPU. Intel's CPUs have them in 64-bit mode; what
 * is expected is the manual's word (SDM vol. 2). AMD's have not, and one is asked itself.
 */
#include <cpuid.h>
#include <signal.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/unit/emu_bed.h"

TestSuite(emu_legacy, .fini = bed_end);

BED_GUEST(guest_sysenter, "sysenter\nhlt\n");
BED_GUEST(guest_enter, "mov $0x174, %ecx\nmov $8, %eax\nxor %edx, %edx\nwrmsr\n"
		       "inc %ecx\nmov $0x80000, %eax\nwrmsr\n"
		       "inc %ecx\nlea 3f(%rip), %rax\nwrmsr\n"
		       "mov $0x8f000, %ecx\nlea 2f(%rip), %rdx\n"
		       ".byte 0x48, 0x0f, 0x35\n" /* sysexit to 64-bit code */
		       "2: mov %cs, %r8d\nmov %ss, %r9d\nmov %rsp, %r10\nsysenter\n"
		       "3: hlt\n");
BED_GUEST(guest_sysexit, ".byte 0x48, 0x0f, 0x35\nhlt\n");
/* The program does it again, with the same registers. */
BED_GUEST(guest_twice, "mov $0x174, %ecx\nmov $8, %eax\nxor %edx, %edx\nwrmsr\n"
		       "mov $0x8f000, %ecx\nlea 2f(%rip), %rdx\n.byte 0x48, 0x0f, 0x35\n"
		       "2: .byte 0x48, 0x0f, 0x35\nhlt\n");
BED_GUEST(guest_sysexit32, "sysexitl\nhlt\n");

Test(emu_legacy, sysenter_and_sysexit_of_intel)
{
	struct kvm_sregs s;

	BED_START(&b, guest_enter, false);
	bed_whole(b.v, true);
	BED_REGS(&b, .rflags = 0x202);
	cr_assert_eq(bed_run_to_hlt(&b), -1);
	s = bed_sregs(&b);
	cr_assert_eq(b.r.r8, 0x2b);
	cr_assert_eq(b.r.r9, 0x33);
	cr_assert_eq(b.r.r10, 0x8f000);
	cr_assert_eq(b.r.rsp, 0x80000);
	cr_assert_eq(b.r.rflags & 0x200, 0, "SYSENTER leaves interrupts on");
	cr_assert(s.cs.selector == 8 && s.cs.l && !s.cs.dpl && s.ss.selector == 0x10);
	cr_assert_eq(b.t.ev[VPMU_EMU_OS][VPMU_EMU_INSTRUCTIONS], 13 + 1);
	cr_assert_eq(b.t.ev[VPMU_EMU_USR][VPMU_EMU_INSTRUCTIONS], 4);
	cr_assert_eq(b.t.ev[VPMU_EMU_OS][VPMU_EMU_BRANCHES_TAKEN], 1);
	cr_assert_eq(b.t.ev[VPMU_EMU_USR][VPMU_EMU_BRANCHES_TAKEN], 1);
}

Test(emu_legacy, sysenter_and_sysexit_that_fault)
{
	static const struct {
		const uint8_t *code, *end;
		bool intel, user;
		int vec; /* -2: an error */
	} rows[] = {
		{guest_sysenter, guest_sysenter_end, true, true, 13}, /* no SYSENTER_CS */
		{guest_sysenter, guest_sysenter_end, false, true, 6},
		{guest_sysexit, guest_sysexit_end, true, true, 13},
		{guest_sysexit, guest_sysexit_end, true, false, 13},
		{guest_sysexit, guest_sysexit_end, false, false, 6},
		{guest_sysexit32, guest_sysexit32_end, false, false, 6},
		{guest_sysexit32, guest_sysexit32_end, true, false, -2},
		{guest_enter, guest_enter_end, false, false, 6},
		{guest_twice, guest_twice_end, true, false, 13},
	};

	for (unsigned int i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		bed_start(&b, rows[i].code, rows[i].end, rows[i].user);
		bed_whole(b.v, rows[i].intel);
		if (rows[i].vec == -2)
			cr_assert_eq(bed_run(&b, 10), VMM_EXIT_ERROR, "row %u", i);
		else
			cr_assert_eq(bed_run_to_hlt(&b), rows[i].vec, "row %u", i);
	}
}

/* As on a CPU of AMD's. */
Test(emu_legacy, sysenter_of_this_cpu)
{
	unsigned int a, b = 0, c, d;
	int status;
	pid_t pid;

	__get_cpuid(0, &a, &b, &c, &d);
	if (b != 0x68747541)
		cr_skip_test("SYSENTER would enter the kernel of this host");
	fflush(NULL);
	pid = fork();
	if (!pid) {
		signal(SIGILL, SIG_DFL);
		__asm__ volatile("sysenter");
		_exit(0);
	}
	cr_assert_eq(waitpid(pid, &status, 0), pid);
	cr_assert(WIFSIGNALED(status) && WTERMSIG(status) == SIGILL, "status 0x%x",
		  (unsigned int)status);
}
