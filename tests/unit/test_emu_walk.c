// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * A page walk while another vCPU takes an entry away: it exchanges the entry for 0, and the old
 * value was the last state of the entry. Here that happens between the walk's load of an entry and
 * the store of its A and D bits: the table can only be read, and the handler of the fault does it.
 */
#include <signal.h>
#include <stdatomic.h>

#include "tests/unit/emu_bed.h"

#define PAGE 0x380000ULL

BED_GUEST(guest_store, "movq $1, (%rsi)\n"
		       "hlt\n");

static struct bed b;
static uint64_t at, got;
static volatile sig_atomic_t faults;

static void on_fault(int sig)
{
	/* A fault of anything else comes back, and is not handled then. */
	if (faults++)
		signal(sig, SIG_DFL);
	mprotect(b.ram + at, 4096, PROT_READ | PROT_WRITE);
	got = atomic_exchange((_Atomic uint64_t *)(b.ram + at), 0);
}

/* The entry at guest-physical @entry is taken away. */
static void taken_away(uint64_t entry)
{
	struct sigaction sa = {.sa_handler = on_fault}, old;
	uint64_t before;

	at = entry;
	BED_START(&b, guest_store, false);
	*bed_u64(&b, BED_PT) = PAGE | BED_P | BED_W;
	BED_REGS(&b, .rsi = BED_WIN);
	before = *bed_u64(&b, at);
	cr_assert_eq(before & (BED_A | BED_D), 0u);
	sigaction(SIGSEGV, &sa, &old);
	mprotect(b.ram + at, 4096, PROT_READ);
	cr_expect_eq(bed_run_to_hlt(&b), 14, "#PF");
	sigaction(SIGSEGV, &old, NULL);
	cr_expect_eq(faults, 1);
	cr_expect_eq(got, before);
	cr_expect_eq(*bed_u64(&b, at), 0u, "the entry is 0x%llx",
		     (unsigned long long)*bed_u64(&b, at));
	cr_expect_eq(*bed_u64(&b, PAGE), 0u, "the page was stored to");
	bed_stop(&b);
}

Test(emu_walk, page_is_taken_away)
{
	taken_away(BED_PT);
}

Test(emu_walk, table_is_taken_away)
{
	taken_away(BED_PD2);
}
