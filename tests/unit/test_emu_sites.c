// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The sites of translated code (vmm/emu/jit/jit.h, struct emu_site): only those that are given to
 * accesses are ever looked at, so all others must be empty and have credit.
 */
#include "tests/unit/emu_bed.h"
#include "vmm/emu/jit/jit.h"

TestSuite(emu_sites, .fini = bed_end);

/* One load finds another page each time; then 200,000 instructions find the same page. */
BED_GUEST(guest_pages, "mov $400, %ecx\n"
		       "1: mov (%rdi), %rax\n"
		       "xor $0x1000, %rdi\n"
		       "add %rax, %rbx\n"
		       "dec %ecx\n"
		       "jne 1b\n"
		       "out %al, $0x80\n"
		       "mov $50000, %ecx\n"
		       "2: mov (%rdi), %rax\n"
		       "add %rax, %rbx\n"
		       "dec %ecx\n"
		       "jne 2b\n"
		       "out %al, $0x80\n");

static bool start(struct bed *b, bool user)
{
	emu_jit_set(EMU_JIT_ALL);
	BED_START(b, guest_pages, user);
	if (emu_jit_off()) {
		bed_stop(b);
		return false;
	}
	BED_REGS(b, .rflags = b->r.rflags | 0x3000); /* IOPL 3 */
	return true;
}

static unsigned int given(const struct emu_vcpu *v)
{
	return v->jit.nr_sites[v->jit.nr_sites[0] < v->jit.nr_sites[1]];
}

/* Sites from pair @from on that hold a page, or have not their whole credit. */
static unsigned int in_use(const struct emu_vcpu *v, unsigned int from)
{
	unsigned int n = 0;

	for (unsigned int user = 0; user < 2; user++)
		for (unsigned int i = from; i < EMU_SITES; i++)
			for (unsigned int store = 0; store < 2; store++)
				n += v->jit.sites[user][i][store].tag != EMU_SITE_NONE ||
				     v->jit.sites[user][i][store].credit != EMU_SITE_CREDIT;
	return n;
}

Test(emu_sites, of_forgotten_code)
{
	if (!start(&b, false))
		cr_skip("nothing is translated here: %s", emu_jit_off());
	cr_assert_eq(bed_run(&b, 0), VMM_EXIT_IO);
	cr_assert_gt(in_use(vcpu(), 0), 0);
	cr_assert_eq(in_use(vcpu(), given(vcpu())), 0);
	/* All code is forgotten. */
	BED_SREGS(&b, );
	cr_assert_eq(given(vcpu()), 0);
	cr_assert_eq(in_use(vcpu(), 0), 0);
}

Test(emu_sites, get_new_credit)
{
	for (int user = 0; user < 2; user++) {
		int least = EMU_SITE_CREDIT;

		if (!start(&b, user))
			cr_skip("nothing is translated here: %s", emu_jit_off());
		cr_assert_eq(bed_run(&b, 0), VMM_EXIT_IO, "%d", b.run.exit);
		for (unsigned int i = 0; i < EMU_SITES; i++)
			if (vcpu()->jit.sites[user][i][0].credit < least)
				least = vcpu()->jit.sites[user][i][0].credit;
		cr_assert_lt(least, 0, "the load has missed too often: %d", least);
		cr_assert_eq(bed_run(&b, 0), VMM_EXIT_IO);
		for (unsigned int i = 0; i < EMU_SITES; i++)
			cr_assert_geq(vcpu()->jit.sites[user][i][0].credit, EMU_SITE_CREDIT - 1);
	}
}
