// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Accesses of instructions to guest memory that miss the TLB's fast path, cross a page, hit decoded
 * code, a device or a breakpoint. The files that execute instructions call them. A store is looked
 * up in the marks of decoded code before it becomes visible to the guest's own next instruction
 * (smc.c).
 */
#include <string.h>

#include "vmm/emu/irqchip/chip.h"
#include "vmm/emu/debug.h"
#include "vmm/emu/fp/fpu.h"

static inline unsigned int cur_acc(const struct emu_vcpu *v, unsigned int acc)
{
	return acc | (v->cpl == 3 ? EMU_ACC_U : 0);
}

/* Translate an access that may cross a page: host[] and n[] become the address and the length of
 * each part. Returns the number of parts, 1 or 2, or 0 with v->trap set. The access may hit a
 * breakpoint. */
static int span(struct emu_vcpu *v, uint64_t va, unsigned int bytes, unsigned int acc,
		uint8_t *host[2], uint16_t n[2])
{
	uint64_t room = EMU_PAGE_SIZE - (va & ~EMU_PAGE_MASK);

	if (unlikely(v->brk.data) && emu_debug_access(v, va, bytes, acc & EMU_ACC_W))
		return 0;
	/* An access that reaches beyond the canonical addresses raises #GP or #SS, even if its
	 * first page would raise #PF. */
	if (room < bytes && unlikely(!emu_canonical(va + bytes - 1)))
		va += room;
	v->extra += EMU_EFFORT_SLOW;
	host[0] = emu_host(v, va, acc);
	if (!host[0])
		return 0;
	if (room >= bytes) {
		n[0] = (uint16_t)bytes;
		n[1] = 0;
		return 1;
	}
	n[0] = (uint16_t)room;
	n[1] = (uint16_t)(bytes - room);
	v->extra += EMU_EFFORT_CROSS;
	host[1] = emu_host(v, va + room, acc);
	return host[1] ? 2 : 0;
}

/* span() has failed. Returns true if the access is to a device, at v->device. */
static bool to_device(struct emu_vcpu *v, uint64_t va, unsigned int bytes)
{
	if (v->trap != EMU_TRAP_DEVICE)
		return false;
	v->trap = EMU_TRAP_NONE;
	if (bytes <= 8 && EMU_PAGE_SIZE - (va & ~EMU_PAGE_MASK) >= bytes)
		return true;
	emu_error(v, "access of %u bytes at virtual 0x%llx, where there is no RAM but devices",
		  bytes, (unsigned long long)va);
	return false;
}

uint64_t emu_ld_slow(struct emu_vcpu *v, uint64_t va, unsigned int bytes)
{
	uint8_t *host[2], buf[8] = {0};
	uint16_t n[2];

	switch (span(v, va, bytes, cur_acc(v, EMU_ACC_R), host, n)) {
	case 1:
		return emu_get(host[0], bytes);
	case 2:
		memcpy(buf, host[0], n[0]);
		memcpy(buf + n[0], host[1], n[1]);
		return emu_get(buf, bytes);
	}
	return to_device(v, va, bytes) ? emu_device_load(v, v->device, bytes) : 0;
}

/* Set *hit if a store to these parts hits decoded code. Traps on a hit, unless the instruction
 * already executes alone (v->single). */
static int code_check(struct emu_vcpu *v, int parts, uint8_t *host[2], const uint16_t n[2],
		      bool *hit)
{
	v->extra += EMU_EFFORT_FENCE;
	*hit = emu_code_hit(v->vm, host[0], n[0]) ||
	       (parts == 2 && emu_code_hit(v->vm, host[1], n[1]));
	if (*hit)
		v->extra += EMU_EFFORT_CODE;
	if (*hit && !v->single) {
		v->trap = EMU_TRAP_SMC;
		return 1;
	}
	return 0;
}

/* Call it after a store to the parts that span() has returned. */
static void access_stored(struct emu_vcpu *v, uint8_t *const host[2], const uint16_t n[2])
{
	for (int i = 0; i < 2 && n[i]; i++)
		emu_code_stored(v->vm, host[i], n[i]);
}

int emu_st_slow(struct emu_vcpu *v, uint64_t va, unsigned int bytes, uint64_t x)
{
	uint8_t *host[2], buf[8];
	uint16_t n[2];
	int parts = span(v, va, bytes, cur_acc(v, EMU_ACC_W), host, n);
	bool hit;

	if (!parts && to_device(v, va, bytes))
		return emu_device_store(v, v->device, bytes, x);
	if (!parts || code_check(v, parts, host, n, &hit))
		return 1;
	if (parts == 1) {
		emu_put(host[0], bytes, x);
	} else {
		emu_put(buf, bytes, x);
		memcpy(host[0], buf, n[0]);
		memcpy(host[1], buf + n[0], n[1]);
	}
	access_stored(v, host, n);
	return 0;
}

void *emu_rmw_slow(struct emu_vcpu *v, uint64_t va, unsigned int bytes)
{
	int parts = span(v, va, bytes, cur_acc(v, EMU_ACC_W), v->bounce.host, v->bounce.n);
	bool hit;

	if (!parts && to_device(v, va, bytes)) {
		emu_put(v->bounce.buf, bytes, emu_device_load(v, v->device, bytes));
		v->bounce.host[0] = NULL;
		v->bounce.n[0] = (uint16_t)bytes;
		v->bounce.n[1] = 0;
		return v->trap ? NULL : v->bounce.buf;
	}
	if (!parts || code_check(v, parts, v->bounce.host, v->bounce.n, &hit))
		return NULL;
	/* Without code in the page, the caller may write to it directly until its next safe point.
	 */
	if (parts == 1 &&
	    !atomic_load(&v->vm->pages[(uint64_t)(v->bounce.host[0] - v->vm->ram) >> EMU_PAGE_SHIFT]
				  .mask))
		return v->bounce.host[0];
	memcpy(v->bounce.buf, v->bounce.host[0], v->bounce.n[0]);
	if (parts == 2)
		memcpy(v->bounce.buf + v->bounce.n[0], v->bounce.host[1], v->bounce.n[1]);
	return v->bounce.buf;
}

void emu_rmw_commit(struct emu_vcpu *v)
{
	uint8_t *src = v->bounce.buf;

	v->extra += EMU_EFFORT_FENCE;
	if (unlikely(!v->bounce.host[0])) { /* cannot trap: the load from it did not */
		emu_device_store(v, v->device, v->bounce.n[0], emu_get(src, v->bounce.n[0]));
		return;
	}
	for (int i = 0; i < 2 && v->bounce.n[i]; i++) {
		memcpy(v->bounce.host[i], src, v->bounce.n[i]);
		src += v->bounce.n[i];
	}
	access_stored(v, v->bounce.host, v->bounce.n);
}

/* System structures, stacks of interrupts and the state of x87 and SSE are in RAM. Returns 1. */
static int no_device(struct emu_vcpu *v, uint64_t va)
{
	if (v->trap == EMU_TRAP_DEVICE)
		emu_error(v,
			  "system structure, or state of x87 or SSE, at virtual 0x%llx, where "
			  "there is no RAM but devices",
			  (unsigned long long)va);
	return 1;
}

int emu_touch(struct emu_vcpu *v, uint64_t va, unsigned int acc)
{
	return emu_host(v, va, cur_acc(v, acc)) ? 0 : no_device(v, va);
}

/* AMD's CPUs access the last byte of x87 or SSE state first; for FXSAVE and FXRSTOR it is the last
 * of 512 (measured on family 1AH). Not if the operand wraps to address 0 (family 19H). */
static bool last_byte(struct emu_vcpu *v, uint64_t va, unsigned int bytes, unsigned int acc)
{
	unsigned int all = bytes == EMU_FX_WRITTEN ? EMU_FX_BYTES : bytes;

	return v->intel || va + all - 1 < va || !emu_touch(v, va + all - 1, acc);
}

int emu_ld_wide(struct emu_vcpu *v, uint64_t va, void *buf, unsigned int bytes)
{
	unsigned int acc = cur_acc(v, EMU_ACC_R);

	return last_byte(v, va, bytes, acc) ? emu_sys_read(v, va, buf, bytes, acc) : 1;
}

int emu_area_open(struct emu_vcpu *v, uint64_t va, unsigned int bytes)
{
	int parts = span(v, va, bytes, cur_acc(v, EMU_ACC_W), v->bounce.host, v->bounce.n);
	bool hit;

	if (!parts)
		return no_device(v, va);
	return code_check(v, parts, v->bounce.host, v->bounce.n, &hit);
}

void emu_area_io(struct emu_vcpu *v, unsigned int at, void *buf, unsigned int bytes, bool store)
{
	unsigned int first = v->bounce.n[0];

	for (unsigned int n; bytes; at += n, bytes -= n, buf = (uint8_t *)buf + n) {
		uint8_t *p = at < first ? v->bounce.host[0] + at : v->bounce.host[1] + at - first;

		n = at < first && bytes > first - at ? first - at : bytes;
		memcpy(store ? p : buf, store ? buf : p, n);
	}
}

void emu_area_close(struct emu_vcpu *v)
{
	access_stored(v, v->bounce.host, v->bounce.n);
}

int emu_st_wide(struct emu_vcpu *v, uint64_t va, const void *buf, unsigned int bytes)
{
	if (!last_byte(v, va, bytes, cur_acc(v, EMU_ACC_W)) || emu_area_open(v, va, bytes))
		return 1;
	emu_area_io(v, 0, (void *)(uintptr_t)buf, bytes, true);
	emu_area_close(v);
	return 0;
}

int emu_sys_read(struct emu_vcpu *v, uint64_t va, void *buf, unsigned int bytes, unsigned int acc)
{
	uint8_t *host[2];
	uint16_t n[2];
	int parts = span(v, va, bytes, EMU_ACC_R | acc, host, n);

	if (!parts)
		return no_device(v, va);
	memcpy(buf, host[0], n[0]);
	if (parts == 2)
		memcpy((uint8_t *)buf + n[0], host[1], n[1]);
	return 0;
}

int emu_sys_write(struct emu_vcpu *v, uint64_t va, const void *buf, unsigned int bytes,
		  unsigned int acc)
{
	uint8_t *host[2];
	uint16_t n[2];
	int parts = span(v, va, bytes, EMU_ACC_W | acc, host, n);

	if (!parts)
		return no_device(v, va);
	memcpy(host[0], buf, n[0]);
	if (parts == 2)
		memcpy(host[1], (const uint8_t *)buf + n[0], n[1]);
	access_stored(v, host, n);
	return 0;
}
