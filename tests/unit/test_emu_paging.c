// SPDX-License-Identifier: GPL-2.0-or-later
/* The emulator's page tables: permissions, accessed and dirty bits, INVLPG and accesses across
 * pages. */
#include "tests/unit/emu_bed.h"
#include "vmm/emu/internal.h"

TestSuite(emu_paging, .fini = bed_end);

BED_GUEST(guest_access, "mov (%rsi), %eax\nhlt\n"); /* at 0 */
BED_GUEST(guest_store, "mov %eax, (%rsi)\nhlt\n");
BED_GUEST(guest_jump, "jmp *%rsi\n");

struct page_row {
	int line;
	const uint8_t *code, *end;
	bool user;
	uint64_t pte;
	uint64_t cr0_off; /* bits to clear in CR0 */
	int vec;	  /* -1: none, HLT reached (a user's HLT is #GP, 13) */
	uint64_t err;
	uint64_t after; /* A and D bits in the entry afterwards */
};

#define LOAD_	guest_access, guest_access_end
#define STORE_	guest_store, guest_store_end
#define JUMP_	guest_jump, guest_jump_end
#define AT(pte) (BED_DATA | (pte))

Test(emu_paging, page_permissions)
{
	static const struct page_row rows[] = {
		{__LINE__, LOAD_, true, AT(7), 0, 13, 0, BED_A},
		{__LINE__, STORE_, true, AT(7), 0, 13, 0, BED_A | BED_D},
		{__LINE__, LOAD_, true, 0, 0, 14, 4, 0},
		{__LINE__, STORE_, true, 0, 0, 14, 6, 0},
		{__LINE__, LOAD_, true, AT(BED_P | BED_W), 0, 14, 5, 0},
		{__LINE__, STORE_, true, AT(BED_P | BED_U), 0, 14, 7, 0},
		{__LINE__, LOAD_, false, AT(BED_P), 0, -1, 0, BED_A},
		{__LINE__, STORE_, false, AT(BED_P), 0, 14, 3, 0},
		{__LINE__, STORE_, false, AT(BED_P), 1 << 16, -1, 0, BED_A | BED_D},
		{__LINE__, STORE_, true, AT(BED_P | BED_U), 1 << 16, 14, 7, 0},
		{__LINE__, STORE_, false, 0, 0, 14, 2, 0},
		{__LINE__, JUMP_, false, AT(3), 0, -1, 0, BED_A},
		{__LINE__, JUMP_, false, AT(3) | BED_NX, 0, 14, 0x11, 0},
		{__LINE__, JUMP_, true, AT(7) | BED_NX, 0, 14, 0x15, 0},
		{__LINE__, JUMP_, true, AT(3), 0, 14, 0x15, 0},
		{__LINE__, JUMP_, true, 0, 0, 14, 0x14, 0},
	};

	for (unsigned int i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		const struct page_row *row = &rows[i];
		int vec;

		bed_start(&b, row->code, row->end, row->user);
		BED_SREGS(&b, s.cr0 &= ~row->cr0_off);
		*bed_u64(&b, BED_PT + 8) = row->pte;
		b.ram[BED_DATA + 0x10] = 0xf4; /* where guest_jump goes */
		BED_REGS(&b, .rsi = BED_WIN + 0x1010);
		vec = bed_run_to_hlt(&b);
		cr_assert_eq(vec, row->vec, "line %d: vector %d", row->line, vec);
		if (vec == 14) {
			cr_assert_eq(bed_stack(&b, 0), row->err, "line %d: error 0x%lx", row->line,
				     bed_stack(&b, 0));
			cr_assert_eq(bed_sregs(&b).cr2, BED_WIN + 0x1010, "line %d", row->line);
			cr_assert_eq(bed_total(&b.t, VPMU_EMU_INSTRUCTIONS),
				     row->code == guest_jump ? 2 : 1, "line %d", row->line);
		}
		cr_assert_eq(*bed_u64(&b, BED_PT + 8) & (BED_A | BED_D), row->after, "line %d",
			     row->line);
	}
}

/* U, W and NX of every level count, and not only those of the last one (SDM vol. 3, 4.6). */
Test(emu_paging, permissions_of_every_level)
{
	static const struct {
		int line;
		const uint8_t *code, *end;
		bool user;
		uint64_t clear, set; /* bits of one entry */
		int vec;
		uint64_t err;
	} rows[] = {
		{__LINE__, LOAD_, true, BED_U, 0, 14, 5},
		{__LINE__, STORE_, true, BED_U, 0, 14, 7},
		{__LINE__, JUMP_, true, BED_U, 0, 14, 0x15},
		{__LINE__, LOAD_, true, BED_W, 0, 13, 0},
		{__LINE__, STORE_, true, BED_W, 0, 14, 7},
		{__LINE__, STORE_, false, BED_W, 0, 14, 3},
		{__LINE__, JUMP_, true, 0, BED_NX, 14, 0x15},
		{__LINE__, JUMP_, false, 0, BED_NX, 14, 0x11},
		{__LINE__, LOAD_, false, BED_U, 0, -1, 0},
		{__LINE__, LOAD_, true, BED_P, 0, 14, 4},
	};
	/* The entries of the upper levels must not be those of the code and stack, so the window
	 * has a PML4 entry of its own. */
	const uint64_t va = 1ULL << 39 | 0x1010, pdpt = 0x20000, pd = 0x21000;
	const uint64_t entries[] = {BED_PML4 + 8, pdpt, pd, BED_PT + 8};

	for (unsigned int i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
		for (unsigned int level = 0; level < 4; level++)
			/* Again, with the entry of a page of 2 MiB as the last one. */
			for (unsigned int large = 0; large < (level < 3 ? 2 : 1); large++) {
				int vec;

				bed_start(&b, rows[i].code, rows[i].end, rows[i].user);
				*bed_u64(&b, BED_PML4 + 8) = pdpt | 7;
				*bed_u64(&b, pdpt) = pd | 7;
				*bed_u64(&b, pd) = large ? 0x200000 | BED_PS | 7 : BED_PT | 7;
				*bed_u64(&b, BED_PT + 8) = BED_DATA | 7;
				b.ram[BED_DATA + 0x10] = 0xf4;
				b.ram[0x200000 + 0x1010] = 0xf4;
				*bed_u64(&b, entries[level]) &= ~rows[i].clear;
				*bed_u64(&b, entries[level]) |= rows[i].set;
				BED_REGS(&b, .rsi = va);
				vec = bed_run_to_hlt(&b);
				cr_expect_eq(vec, rows[i].vec, "line %d level %u%s: vector %d",
					     rows[i].line, level, large ? ", large" : "", vec);
				if (vec == 14)
					cr_expect_eq(bed_stack(&b, 0), rows[i].err,
						     "line %d level %u: error 0x%lx", rows[i].line,
						     level, bed_stack(&b, 0));
			}
}

BED_GUEST(guest_load_store, "mov (%rsi), %eax\nmov %eax, 8(%rsi)\nhlt\n");

/* A store sets D in the entry of a page of any size, whether A is set already (by a load, or by the
 * guest) or not (SDM vol. 3, 4.8). */
Test(emu_paging, dirty_bits_of_every_size)
{
	const uint64_t va = 1ULL << 39, pdpt = 0x20000, pd = 0x21000;
	const uint64_t entries[] = {pdpt, pd, BED_PT}; /* 1 GiB, 2 MiB, 4 KiB */

	for (unsigned int size = 0; size < 3; size++)
		for (unsigned int a = 0; a < 2; a++)
			for (unsigned int load_first = 0; load_first < 2; load_first++) {
				uint64_t leaf = 7 | (size < 2 ? BED_PS : 0) | (a ? BED_A : 0);

				bed_start(&b, load_first ? guest_load_store : guest_store,
					  load_first ? guest_load_store_end : guest_store_end,
					  false);
				*bed_u64(&b, BED_PML4 + 8) = pdpt | 7;
				*bed_u64(&b, pdpt) = pd | 7;
				*bed_u64(&b, pd) = BED_PT | 7;
				*bed_u64(&b, entries[size]) = leaf | (size == 2 ? BED_DATA
								      : size	? 0x200000
										: 0);
				BED_REGS(&b, .rsi = va + (size ? 0x10 : 0x300010));
				cr_assert_eq(bed_run_to_hlt(&b), -1);
				cr_expect_eq(*bed_u64(&b, entries[size]) & (BED_A | BED_D),
					     BED_A | BED_D, "size %u, A %u, load first %u", size, a,
					     load_first);
			}
}

/* A load sets only A. */
Test(emu_paging, loads_leave_pages_clean)
{
	bed_start(&b, guest_access, guest_access_end, false);
	*bed_u64(&b, BED_PD2 + 8) = 0x200000 | BED_PS | 7;
	BED_REGS(&b, .rsi = BED_WIN + 0x200010);
	cr_assert_eq(bed_run_to_hlt(&b), -1);
	cr_assert_eq(*bed_u64(&b, BED_PD2 + 8) & (BED_A | BED_D), BED_A);
}

BED_GUEST(guest_invlpg, "mov (%rsi), %eax\n"
			"mov %rdx, (%rdi)\n" /* another page table entry */
			"invlpg (%r8)\n"
			"mov (%rsi), %ebx\n"
			"hlt\n");
BED_GUEST(guest_invlpg_code, "call *%rsi\n"
			     "mov %rdx, (%rdi)\n"
			     "invlpg (%r8)\n"
			     "call *%rsi\n"
			     "hlt\n");

#define INVLPG_PDPT 0x20000ULL
#define INVLPG_PD   0x21000ULL
/* A region of 2 MiB for which none of the bed's pages stands in the engine's sets. */
#define INVLPG_VA (1ULL << 39 | 5ULL << 21)

/* Load at, or call, @at; write @new to @entry; INVLPG @va; do it again. */
static void invlpg_row(struct bed *b, uint64_t at, uint64_t entry, uint64_t new, uint64_t va)
{
	*bed_u64(b, BED_PML4 + 8) = INVLPG_PDPT | 7;
	*bed_u64(b, INVLPG_PDPT) |= INVLPG_PD | 7;
	BED_REGS(b, .rsi = at, .rdi = entry, .rdx = new, .r8 = va);
	cr_assert_eq(bed_run_to_hlt(b), -1);
}

/* The first translation is to a 1, the second one to a 2. */
static void invlpg_start(void)
{
	BED_START(&b, guest_invlpg, false);
	*bed_u64(&b, BED_DATA) = 1;
	*bed_u64(&b, 0x100000) = 2;
}

/* Behind INVLPG of any address in a page the new translation of the whole page is used, whatever
 * its size. */
Test(emu_paging, invlpg_of_every_size)
{
	/* 1 GiB, that becomes tables because there are only 4 MiB of RAM */
	invlpg_start();
	*bed_u64(&b, INVLPG_PDPT) = BED_PS | 7;
	*bed_u64(&b, 0x22000 + 8) = 0 | BED_PS | 7;
	*bed_u64(&b, BED_PML4 + 8) = INVLPG_PDPT | 7;
	BED_REGS(&b, .rsi = (1ULL << 39) + BED_DATA, .rdi = INVLPG_PDPT, .rdx = 0x22000 | 7,
		 .r8 = (1ULL << 39) + 0x5000);
	cr_assert_eq(bed_run_to_hlt(&b), -1);
	cr_expect(b.r.rax == 1 && b.r.rbx == 2, "1 GiB: %llu %llu", b.r.rax, b.r.rbx);

	for (unsigned int user = 0; user < 2; user++) {
		invlpg_start();
		*bed_u64(&b, INVLPG_PD + 5 * 8) = 0x200000 | BED_PS | 7;
		invlpg_row(&b, INVLPG_VA + 0x100000, INVLPG_PD + 5 * 8, 0 | BED_PS | 7,
			   INVLPG_VA + (user ? 0x100123 : 0x1000));
		cr_expect(b.r.rax == 1 && b.r.rbx == 2, "2 MiB: %llu %llu", b.r.rax, b.r.rbx);
	}

	invlpg_start();
	*bed_u64(&b, INVLPG_PD + 5 * 8) = BED_PT | 7;
	*bed_u64(&b, BED_PT) = BED_DATA | 7;
	invlpg_row(&b, INVLPG_VA, BED_PT, 0x100000 | 7, INVLPG_VA + 0x123);
	cr_expect(b.r.rax == 1 && b.r.rbx == 2, "4 KiB: %llu %llu", b.r.rax, b.r.rbx);
}

/* The same for code, also code that reaches in from the page before. */
Test(emu_paging, invlpg_of_code)
{
	static const uint8_t one[] = {0xb9, 1, 0, 0, 0, 0xc3}, two[] = {0xb9, 2, 0, 0, 0, 0xc3};

	for (unsigned int row = 0; row < 3; row++) {
		uint64_t at = row == 2 ? 0xfff : 0; /* row 2: its second page moves */

		BED_START(&b, guest_invlpg_code, false);
		*bed_u64(&b, INVLPG_PD + 5 * 8) = row == 1 ? 0x200000 | BED_PS | 7 : BED_PT | 7;
		*bed_u64(&b, BED_PT) = 0x300000 | 7;
		*bed_u64(&b, BED_PT + 8) = 0x301000 | 7;
		memcpy(b.ram + 0x300000, one, sizeof(one));
		memcpy(b.ram + 0x300010, two, sizeof(two));
		memcpy(b.ram + 0x100000, two, sizeof(two));
		b.ram[0x300fff] = 0xe9; /* JMP to the page's begin, then to the other function */
		*bed_u64(&b, 0x301000) = (uint32_t)-0x1004;
		*bed_u64(&b, 0x101000) = (uint32_t)-0xff4;
		if (row == 1) /* far from the address that INVLPG names */
			invlpg_row(&b, INVLPG_VA + 0x100000, INVLPG_PD + 5 * 8, 0 | BED_PS | 7,
				   INVLPG_VA + 0x1f0000);
		else if (row == 2)
			invlpg_row(&b, INVLPG_VA + at, BED_PT + 8, 0x101000 | 7,
				   INVLPG_VA + 0x1000);
		else
			invlpg_row(&b, INVLPG_VA, BED_PT, 0x100000 | 7, INVLPG_VA);
		cr_expect_eq(b.r.rcx, 2, "row %u", row);
	}
}

BED_GUEST(guest_cmps, "sahf\nrepe cmpsb\nhlt\n");
BED_GUEST(guest_cmpsq, "sahf\nrepe cmpsq\nhlt\n");
BED_GUEST(guest_scas, "sahf\nrepne scasb\nhlt\n");
BED_GUEST(guest_cmps_back, "sahf\nstd\nrepe cmpsb\nhlt\n");

/* A repeated CMPS or SCAS that faults leaves in RCX, RSI and RDI how far it came, and compares the
 * rest when it is executed again. In the frame are the flags of before the instruction on Intel's
 * CPUs (SDM vol. 2, REP), those of the last comparison on AMD's. */
Test(emu_paging, string_comparisons_that_fault)
{
	static const struct {
		const uint8_t *code, *end;
		uint64_t bytes, before; /* elements until the page that is not there */
		bool back, scas;
	} rows[] = {
		{guest_cmps, guest_cmps_end, 1, 100, false, false},
		{guest_cmps, guest_cmps_end, 1, 1, false, false},
		{guest_cmps, guest_cmps_end, 1, 0, false, false},
		{guest_cmpsq, guest_cmpsq_end, 8, 50, false, false},
		{guest_cmps_back, guest_cmps_back_end, 1, 100, true, false},
		{guest_scas, guest_scas_end, 1, 100, false, true},
		{guest_scas, guest_scas_end, 1, 1, false, true},
	};

	for (unsigned int i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
		for (unsigned int k = 0; k < 4; k++) {
			bool flags = k & 1, intel = k & 2;
			uint64_t n = rows[i].before, bytes = rows[i].bytes;
			uint64_t first = rows[i].back ? BED_WIN + 0x1000 + n - 1
						      : BED_WIN + 0x2000 - n * bytes;
			/* SAHF: SF AF PF CF, or none. Equal bytes leave ZF and PF; SCAS compares 1
			 * with 0. */
			uint64_t want = intel || !n ? (flags ? 0x95 : 0) : rows[i].scas ? 0 : 0x44;

			bed_start(&b, rows[i].code, rows[i].end, false);
			bed_intel(&b, intel);
			*bed_u64(&b, BED_PT + 8) = BED_DATA | 7;
			BED_REGS(&b, .rdi = first,
				 .rsi = rows[i].back ? BED_DATA + 0x8fff : BED_DATA + 0x8000,
				 .rcx = 200, .rax = flags ? 0x9501 : 0x0001);
			cr_assert_eq(bed_run_to_hlt(&b), 14, "row %u", i);
			cr_expect_eq(b.r.rcx, 200 - n, "row %u: RCX %llu", i, b.r.rcx);
			cr_expect_eq(b.r.rdi, rows[i].back ? first - n : first + n * bytes,
				     "row %u", i);
			want |= 0x10002 | (rows[i].back ? 0x400 : 0);
			cr_expect_eq(bed_stack(&b, 3), want, "row %u, %u: flags 0x%lx", i, k,
				     bed_stack(&b, 3));
		}
}

BED_GUEST(guest_push, "push %rax\nhlt\n");

Test(emu_paging, accesses_across_the_end_of_the_address_space)
{
	static const struct {
		const uint8_t *code, *end;
		int vec;
	} rows[] = {{LOAD_, 13}, {STORE_, 13}, {guest_push, guest_push_end, 12}};

	/* The page of the first byte is not mapped, but the address is looked at first. */
	for (unsigned int i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		bed_start(&b, rows[i].code, rows[i].end, true);
		BED_REGS(&b, .rsi = 0x7ffffffffffe, .rsp = 0x7ffffffffffe + 8);
		cr_assert_eq(bed_run_to_hlt(&b), rows[i].vec, "row %u", i);
		cr_assert_eq(bed_stack(&b, 0), 0);
	}
}

Test(emu_paging, reserved_bits_and_large_pages)
{
	/* A bit between PAT and the address of a 2 MiB page. */
	BED_START(&b, guest_access, true);
	*bed_u64(&b, BED_PD2 + 8) = 0x2000 | BED_PS | 7;
	BED_REGS(&b, .rsi = BED_WIN + (2 << 20));
	BED_FAULTS(&b, 14, 0xd, BED_CODE);

	/* A 1 GiB page: its tail is in RAM when it maps from 0. */
	BED_START(&b, guest_access, false);
	*bed_u64(&b, BED_PDPT + 16) = BED_PS | 7;
	*bed_u64(&b, BED_DATA + 8) = 0x12345678;
	BED_REGS(&b, .rsi = 0x80000000 + BED_DATA + 8);
	cr_assert_eq(bed_run_to_hlt(&b), -1);
	cr_assert_eq(b.r.rax, 0x12345678);
	cr_assert_eq(*bed_u64(&b, BED_PDPT + 16) & (BED_A | BED_D), BED_A);

	/* NX without EFER.NXE is reserved. */
	BED_START(&b, guest_access, false);
	BED_SREGS(&b, s.efer &= ~0x800ULL);
	*bed_u64(&b, BED_PT) = BED_DATA | 7 | BED_NX;
	BED_REGS(&b, .rsi = BED_WIN);
	BED_FAULTS(&b, 14, 9, BED_CODE);
}

BED_GUEST(guest_cross, "mov %rax, (%rsi)\n"
		       "mov (%rsi), %rbx\n"
		       "add %rax, (%rsi)\n"
		       "lock incl (%rsi)\n"
		       "pushq (%rsi)\n"
		       "hlt\n");

Test(emu_paging, accesses_across_pages)
{
	BED_START(&b, guest_cross, false);
	*bed_u64(&b, BED_PT) = BED_DATA | 3;
	*bed_u64(&b, BED_PT + 8) = (BED_DATA + 0x8000) | 3;
	BED_REGS(&b, .rsi = BED_WIN + 0xffd, .rax = 0x1122334455667788);
	cr_assert_eq(bed_run_to_hlt(&b), -1);
	cr_assert_eq(b.r.rbx, b.r.rax);
	cr_assert_eq(bed_stack(&b, 0), 2 * 0x1122334455667788 + 1);
	cr_assert_eq(b.ram[BED_DATA + 0xfff], 0xcc);
	cr_assert_eq(b.ram[BED_DATA + 0x8000], 0xaa);

	/* The second page is missing: nothing is stored in the first. */
	BED_START(&b, guest_cross, false);
	*bed_u64(&b, BED_PT) = BED_DATA | 3;
	BED_REGS(&b, .rsi = BED_WIN + 0xffd, .rax = ~0ULL);
	cr_assert_eq(bed_run_to_hlt(&b), 14);
	cr_assert_eq(bed_sregs(&b).cr2, BED_WIN + 0x1000);
	cr_assert_eq(b.ram[BED_DATA + 0xffd], 0);
}

/* A kernel in the upper half calls a function until it is translated, maps its page to another
 * function, invalidates it, and calls again. */
#define KERNEL_CALLS	    "mov $100, %ecx\n1: call *%rsi\ndec %ecx\njne 1b\n"
#define KERNEL_REMAP(flush) KERNEL_CALLS "mov %r8, (%r9)\n" flush KERNEL_CALLS "hlt"
#define KERNEL_CR3	    "mov %cr3, %rax\nmov %rax, %cr3\n"
#define KERNEL_CR4(bit)	    "mov %cr4, %rax\nxor $" bit ", %rax\nmov %rax, %cr4\n"
BED_GUEST(guest_kernel_cr3, KERNEL_REMAP(KERNEL_CR3));
BED_GUEST(guest_kernel_page, KERNEL_REMAP("invlpg (%rsi)\n"));
BED_GUEST(guest_kernel_later, KERNEL_REMAP(KERNEL_CR3 KERNEL_CR3 "invlpg (%rsi)\n"));
BED_GUEST(guest_kernel_large, KERNEL_REMAP(KERNEL_CR3 "invlpg 0x123000(%rsi)\n"));
BED_GUEST(guest_kernel_pge, KERNEL_REMAP(KERNEL_CR4("0x80")));
BED_GUEST(guest_kernel_tsd, KERNEL_REMAP(KERNEL_CR4("4")));
BED_GUEST(guest_kernel_wp, KERNEL_REMAP("mov %cr0, %rax\nmov %rax, %cr0\n"));
BED_GUEST(guest_add_1, "add $1, %ebx\nret");
BED_GUEST(guest_add_16, "add $16, %ebx\nret");

/* Loads of CR3 keep the translations of global pages, and so do loads of CR4 that change no bit of
 * paging (SDM vol. 3, 4.10.4.1). The emulator does so for a kernel's code alone. */
Test(emu_paging, code_in_global_pages)
{
	const uint64_t kernel = 0xffffffff80000000, pdpt = 0x20000, pd = 0x21000, pt = 0x22000;
	const uint64_t pge = 0x80, g = 0x100, both = 100 * (1 + 16), old = 100 * 2;
	const struct {
		int line;
		const uint8_t *code, *end;
		uint64_t cr4, global; /* of the function's page */
		bool large, low;
		uint64_t sum;
	} rows[] = {
#define ROW(name, ...) {__LINE__, guest_kernel_##name, guest_kernel_##name##_end, __VA_ARGS__}
		ROW(cr3, pge, g, false, false, old),	ROW(cr3, pge, 0, false, false, both),
		ROW(cr3, 0, g, false, false, both),	ROW(cr3, pge, g, true, false, old),
		ROW(cr3, pge, 0, true, false, both),	ROW(cr3, pge, g, false, true, both),
		ROW(page, pge, g, false, false, both),	ROW(page, pge, g, true, false, both),
		ROW(later, pge, g, false, false, both), ROW(later, pge, g, true, false, both),
		ROW(large, pge, g, true, false, both),	ROW(pge, pge, g, false, false, both),
		ROW(tsd, pge, 0, false, false, old),	ROW(wp, pge, g, false, false, both),
	};

	for (unsigned int i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		uint64_t *pa = (uint64_t[]){rows[i].large ? 0x200000 : BED_DATA,
					    rows[i].large ? 0 : BED_DATA + 0x1000};
		uint64_t at = rows[i].large ? 0x7f00 : 0, bits = rows[i].global | 3;
		uint64_t entry = rows[i].large ? pd + 16 : rows[i].low ? BED_PT : pt + 5 * 8;
		struct kvm_sregs s;

		bed_start(&b, rows[i].code, rows[i].end, false);
		*bed_u64(&b, BED_PML4 + 511 * 8) = pdpt | 3;
		*bed_u64(&b, pdpt + 510 * 8) = pd | 3;
		*bed_u64(&b, pd) = pt | 3;
		*bed_u64(&b, pt) = BED_CODE | g | 3;
		bits |= rows[i].large ? BED_PS : 0;
		*bed_u64(&b, entry) = pa[0] | bits;
		memcpy(b.ram + pa[0] + at, guest_add_1, (size_t)(guest_add_1_end - guest_add_1));
		memcpy(b.ram + pa[1] + at, guest_add_16, (size_t)(guest_add_16_end - guest_add_16));
		o->get_sregs(b.v, &s);
		s.cr4 |= rows[i].cr4;
		cr_assert_eq(o->set_sregs(b.v, &s), 0);
		b.r.rip = kernel;
		b.r.rsi = at + (rows[i].large ? kernel + (4 << 20)
				: rows[i].low ? BED_WIN
					      : kernel + 0x5000);
		b.r.r8 = pa[1] | bits;
		b.r.r9 = entry;
		o->set_regs(b.v, &b.r);
		cr_assert_eq(bed_run_to_hlt(&b), -1, "line %d", rows[i].line);
		cr_expect_eq(b.r.rbx, rows[i].sum, "row %u: %llu, not %llu", i, b.r.rbx,
			     rows[i].sum);
	}
}

BED_GUEST(guest_loads, ".rept 60\ninc %edx\n.endr\nmov $2, %edi\n1: mov $9, %ecx\n"
		       "2: mov %rax, %cr3\n3: add $1, %ebx\ndec %ecx\njne 2b\n"
		       "movb $16, 3b+2(%rip)\ndec %edi\njne 1b\nhlt\n");
BED_GUEST(guest_kernel_loads, "1: mov %rax, %cr3\njmp 1b\n");

/* The numbers of mappings begin anew. No block from before is found again, as stores to its code
 * would not end it; and a kernel that loads CR3 without end comes there, too. */
Test(emu_paging, generations_begin_anew)
{
	const uint64_t kernel = 0xffffffff80000000, pdpt = 0x20000, pd = 0x21000;

	bed_start(&b, guest_loads, guest_loads_end, false);
	vcpu()->last_gen = EMU_GEN_LIMIT - 4;
	BED_REGS(&b, .rax = BED_PML4);
	cr_assert_eq(bed_run_to_hlt(&b), -1);
	cr_expect_eq(b.r.rbx, 9 * (1 + 16), "%llu", b.r.rbx);
	cr_expect_lt(vcpu()->last_gen, 100);

	bed_start(&b, guest_kernel_loads, guest_kernel_loads_end, false);
	*bed_u64(&b, BED_PML4 + 511 * 8) = pdpt | 3;
	*bed_u64(&b, pdpt + 510 * 8) = pd | 3;
	*bed_u64(&b, pd) = BED_CODE | 0x100 | BED_PS | 3;
	BED_SREGS(&b, s.cr4 |= 0x80);
	vcpu()->last_gen = EMU_GEN_LIMIT - 4;
	BED_REGS(&b, .rip = kernel, .rax = BED_PML4);
	cr_assert_eq(bed_run(&b, 1000), VMM_EXIT_BUDGET);
	cr_expect_lt(vcpu()->last_gen, EMU_GEN_LIMIT);
}

/* The effort of finding the block at @rip in the hash table. */
static uint64_t effort_of_find(uint64_t rip)
{
	struct emu_vcpu *v = vcpu();
	uint64_t extra;

	v->jc[emu_jc_index(rip)] = v->jc[emu_jc_index(rip + 1)];
	v->rip = rip;
	extra = v->extra;
	cr_assert_not_null(emu_find(v));
	return v->extra - extra;
}

Test(emu_paging, a_long_chain_of_blocks_is_charged)
{
	enum { N = 100 };
	const uint64_t base = 0x300000;
	uint64_t rip[N], last, least = UINT64_MAX, most = 0;
	unsigned int n = 0;

	bed_start(&b, guest_access, guest_access_end, false);
	memset(b.ram + base, 0xf4, BED_RAM - base);
	BED_REGS(&b, .rsi = BED_DATA);
	cr_assert_eq(bed_run_to_hlt(&b), -1);
	for (last = base; n < N && last < BED_RAM - 16; last++)
		if (emu_hash_index(vcpu(), last, last) == emu_hash_index(vcpu(), base, base))
			rip[n++] = last;
	cr_assert_eq(n, N);
	for (unsigned int i = 0; i < N; i++)
		effort_of_find(rip[i]);
	for (unsigned int i = 0; i < N; i++) {
		uint64_t effort = effort_of_find(rip[i]);

		least = effort < least ? effort : least;
		most = effort > most ? effort : most;
	}
	cr_expect_eq(least, EMU_EFFORT_FIND, "%llu", least);
	cr_expect_eq(most, (1 + N / EMU_FIND_HOPS) * EMU_EFFORT_FIND, "%llu", most);
}
