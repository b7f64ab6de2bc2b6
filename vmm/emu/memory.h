/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Guest memory, as the files of the emulator reach it: paging, accesses, and the decoded code in
 * it. Included by internal.h, whose rules hold here, too.
 */
#pragma once

#include "vmm/emu/emu.h"

struct emu_code;

/* Types for accesses to guest memory: any alignment, and they may alias every other type. */
typedef struct {
	uint8_t v;
} __attribute__((packed, may_alias)) emu_u8;
typedef struct {
	uint16_t v;
} __attribute__((packed, may_alias)) emu_u16;
typedef struct {
	uint32_t v;
} __attribute__((packed, may_alias)) emu_u32;
typedef struct {
	uint64_t v;
} __attribute__((packed, may_alias)) emu_u64;

static inline uint64_t emu_get(const void *p, unsigned int bytes)
{
	switch (bytes) {
	case 1:
		return ((const emu_u8 *)p)->v;
	case 2:
		return ((const emu_u16 *)p)->v;
	case 4:
		return ((const emu_u32 *)p)->v;
	default:
		return ((const emu_u64 *)p)->v;
	}
}

static inline void emu_put(void *p, unsigned int bytes, uint64_t x)
{
	switch (bytes) {
	case 1:
		((emu_u8 *)p)->v = (uint8_t)x;
		break;
	case 2:
		((emu_u16 *)p)->v = (uint16_t)x;
		break;
	case 4:
		((emu_u32 *)p)->v = (uint32_t)x;
		break;
	default:
		((emu_u64 *)p)->v = x;
		break;
	}
}

/* emu_is_ram - returns true if guest-physical @pa is RAM. Then its whole page is RAM. */
static inline bool emu_is_ram(const struct emu_vm *vm, uint64_t pa)
{
	return likely(pa < vm->low) || vmm_ram_holds(&vm->slots, pa, 1);
}

/* ---- mmu.c ---- */
#define EMU_ACC_R 0u
#define EMU_ACC_W 2u /* as in the #PF error code */
#define EMU_ACC_U 4u
#define EMU_ACC_X 16u
/* emu_translate - find the guest-physical address of one byte at guest-virtual @va. Sets A and D
 * bits like the CPU. Traps. On success *perm (@perm may be NULL) is EMU_ACC_W if a store in the
 * same mode needs no further walk, else 0. */
int emu_translate(struct emu_vcpu *v, uint64_t va, unsigned int acc, uint64_t *pa,
		  unsigned int *perm);
/* emu_host - host address of @va, inside one page; @acc is R or W, with U for a user access.
 * Stores through it must look for code (emu_code_hit). Traps. */
uint8_t *emu_host(struct emu_vcpu *v, uint64_t va, unsigned int acc);
/* emu_pte_set - set A and D bits in a page-table entry that was read as @seen. Returns false if it
 * has changed: walk again. */
bool emu_pte_set(struct emu_vcpu *v, _Atomic uint64_t *pte, uint64_t seen, uint64_t bits);
void emu_tlb_flush(struct emu_vcpu *v);
/* emu_cr3_set - load CR3: drops all translations but those of a kernel's code in global pages. */
void emu_cr3_set(struct emu_vcpu *v, uint64_t cr3);
void emu_tlb_flush_page(struct emu_vcpu *v, uint64_t va);
/* emu_seen_bit - the bit of page or region number @n in the sets of emu_vcpu. */
static inline uint64_t emu_seen_bit(uint64_t n)
{
	return 1ULL << (n & 63);
}
/* emu_tlb_demote - from now on, no store takes the fast path to a page that holds decoded code. */
void emu_tlb_demote(struct emu_vcpu *v);

/* ---- access.c ---- */
/* Loads and stores of 1..8 bytes in the current mode, for accesses that miss the TLB's fast path.
 * Traps; emu_ld_slow then has v->trap set and returns 0. */
uint64_t emu_ld_slow(struct emu_vcpu *v, uint64_t va, unsigned int bytes);
int emu_st_slow(struct emu_vcpu *v, uint64_t va, unsigned int bytes, uint64_t x);
/* emu_rmw_slow - return the address at which to modify @bytes (1..16) in place: guest memory, or
 * v->bounce.buf, after which the caller must call emu_rmw_commit. Traps (NULL). */
void *emu_rmw_slow(struct emu_vcpu *v, uint64_t va, unsigned int bytes);
void emu_rmw_commit(struct emu_vcpu *v);
/* Loads and stores of the state of x87 or SSE, up to 512 bytes, in the current mode. Trap. */
int emu_ld_wide(struct emu_vcpu *v, uint64_t va, void *buf, unsigned int bytes);
int emu_st_wide(struct emu_vcpu *v, uint64_t va, const void *buf, unsigned int bytes);
/* emu_touch - access one byte in the current mode; @acc is R or W. Traps. */
int emu_touch(struct emu_vcpu *v, uint64_t va, unsigned int acc);
/* Stores to parts of an area of up to 832 bytes. emu_area_open checks the whole area, and
 * emu_area_io then reads or writes @bytes at offset @at of it; none of these must be called between
 * open and close but emu_area_io. Only open traps. */
int emu_area_open(struct emu_vcpu *v, uint64_t va, unsigned int bytes);
void emu_area_io(struct emu_vcpu *v, unsigned int at, void *buf, unsigned int bytes, bool store);
void emu_area_close(struct emu_vcpu *v);
/* Accesses of up to 832 bytes to system structures and interrupt frames. They are supervisor
 * accesses, or user accesses if @acc is EMU_ACC_U. Stores may hit decoded code. Traps. */
int emu_sys_read(struct emu_vcpu *v, uint64_t va, void *buf, unsigned int bytes, unsigned int acc);
int emu_sys_write(struct emu_vcpu *v, uint64_t va, const void *buf, unsigned int bytes,
		  unsigned int acc);

/* ---- smc.c ---- */
/* emu_code_hit - returns true if a store of @bytes at host address @p, inside one page, hits code
 * decoded by any vCPU of the VM. */
bool emu_code_hit(struct emu_vm *vm, const uint8_t *p, unsigned int bytes);
/* emu_code_stored - call it after a store of @bytes at host address @p, inside one page: if it hit
 * code, all blocks of that page become stale. Returns true if it did. */
bool emu_code_stored(struct emu_vm *vm, const uint8_t *p, unsigned int bytes);
/* emu_sync - drop the blocks with overwritten code; includes emu_ack_code. Call it at safe
 * points (smc.c). */
void emu_sync(struct emu_vcpu *v);
/* emu_ack_code - remove this vCPU's fast paths to pages that hold decoded code, and publish that to
 * the other vCPUs (smc.c). Call it only where the vCPU keeps no host address of guest memory. */
void emu_ack_code(struct emu_vcpu *v);
/* emu_smc_settle - mark the block's bytes as code. Returns true if they are still the bytes that
 * were decoded; if not, the caller must decode again. *epoch: the block is unsettled until all
 * vCPUs have seen it; 0: it is settled. */
bool emu_smc_settle(struct emu_vcpu *v, uint64_t pa, const struct emu_code *c, const uint8_t *buf,
		    uint32_t gen[2], uint32_t *epoch);
/* emu_smc_page_add - @b has code in page @pfn of generation @gen, its first page or (@which 1) its
 * second. Returns false if the table of pages is full. */
bool emu_smc_page_add(struct emu_vcpu *v, uint32_t pfn, uint32_t gen, struct emu_block *b,
		      unsigned int which);
/* emu_smc_check - check @b at each safe point until all vCPUs have seen @e. */
void emu_smc_check(struct emu_vcpu *v, struct emu_block *b, uint32_t e);
/* emu_block_code - the bytes from which unsettled block @b was decoded. */
static inline uint8_t *emu_block_code(struct emu_block *b)
{
	return (uint8_t *)&b->ops[b->nr_ops];
}
