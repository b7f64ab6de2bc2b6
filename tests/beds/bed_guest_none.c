// SPDX-License-Identifier: GPL-2.0-or-later
/* bed_guest.h for a bed without KVM: every test with a VM is skipped. */
#include "tests/beds/bed_guest.h"

#include <criterion/criterion.h>

void bed_guest_make(struct bed_guest *g)
{
	(void)g;
	cr_skip_test("no KVM in this bed");
}

void bed_guest_free(struct bed_guest *g)
{
	(void)g;
}

void bed_guest_start(struct bed_guest *g, uint64_t n)
{
	(void)g;
	(void)n;
}

int bed_guest_run(struct bed_guest *g)
{
	(void)g;
	return 0;
}
