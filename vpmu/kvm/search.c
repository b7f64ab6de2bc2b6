// SPDX-License-Identifier: LGPL-2.1-or-later
/*
 * RDPMC of a kernel that runs: looked for around the RIP of its first write of a PMU MSR, which is
 * in the text that holds RDPMC, too; and again when a select that is off is read by RDMSR, which
 * Linux does when its driver starts, as after kexec. Guest memory and page tables are hostile, and
 * change while they are read: every address goes through the VMM's callback, and the work has
 * limits.
 *
 * RDPMC (0F 33) becomes IN EAX,33H (E5 33) by one byte, so another vCPU in that code executes
 * either.
 */
#include <string.h>

#include "vpmu/kvm/priv.h"
#include "vpmu/kvm/text.h"
#include "vpmu/util/clock.h"

#define PHYS 0x000ffffffffff000ull
#define NONE (~0ull)

/* Limits of one search: bytes that look like the instruction, of which so many are followed by SHL
 * RDX,32. Linux has some hundred, and up to 64. */
#define CANDIDATES_MAX 65536
#define DECODED_MAX    256

/* Two system calls each: a guest without RDPMC must not pay for them at every write. Linux' first
 * write of a PMU MSR is in the text that is looked for. */
#define LOOKS_MAX 256

/* After so long there are LOOKS_MAX looks again, and one search more, up to VPMU_KVM_SEARCHES. */
#define AGAIN_NS 10000000000ull

/* Returns the physical address of @va if it is mapped executable for the kernel, and the size of
 * its page; NONE: it is not. SDM vol. 3, 4.5. */
static uint64_t search_walk(const struct vpmu_kvm_vm *vm, const struct kvm_sregs *sr, uint64_t va,
			    uint64_t *page)
{
	uint64_t table = sr->cr3 & PHYS, left, e;

	for (int level = sr->cr4 & 1 << 12 ? 4 : 3; level >= 0; level--) {
		unsigned int shift = 12 + 9 * (unsigned int)level;
		const uint8_t *p =
			vm->opts.hva(vm->opts.arg, table + 8 * (va >> shift & 511), &left);

		if (!p || left < sizeof(e))
			return NONE;
		memcpy(&e, p, sizeof(e));
		if (!(e & 1) || e >> 63)
			return NONE;
		if (!level || (level < 3 && e & 0x80)) {
			*page = 1ull << shift;
			return (e & PHYS & ~(*page - 1)) | (va & (*page - 1));
		}
		table = e & PHYS;
	}
	return NONE;
}

/* Returns the address of guest code at @va, where *@left bytes are contiguous; or NULL. */
static uint8_t *search_hva(const struct vpmu_kvm_vm *vm, uint64_t pa, uint64_t *left)
{
	return pa == NONE ? NULL : vm->opts.hva(vm->opts.arg, pa, left);
}

struct search_text {
	uint64_t lo, hi; /* virtual addresses */
	uint64_t pa;	 /* of lo; NONE: not mapped */
};

/* The text around @rip: as far as it is executable and contiguous in memory. */
static bool search_extend(const struct vpmu_kvm_vm *vm, const struct kvm_sregs *sr, uint64_t rip,
			  struct search_text *t)
{
	uint64_t page, pa = search_walk(vm, sr, rip, &page), more;

	if (pa == NONE)
		return false;
	t->lo = rip & ~(page - 1);
	t->hi = t->lo + page;
	t->pa = pa - (rip - t->lo);
	if (t->hi - t->lo > VPMU_KVM_SEARCH_BYTES)
		return false;
	while (t->lo && t->pa && search_walk(vm, sr, t->lo - 1, &page) == t->pa - 1) {
		more = t->lo - ((t->lo - 1) & ~(page - 1));
		if (more > t->pa || t->hi - t->lo + more > VPMU_KVM_SEARCH_BYTES)
			break;
		t->lo -= more;
		t->pa -= more;
	}
	while (search_walk(vm, sr, t->hi, &page) == t->pa + (t->hi - t->lo)) {
		if (t->hi - t->lo + page > VPMU_KVM_SEARCH_BYTES)
			break;
		t->hi += page;
	}
	return true;
}

static void search_patch(struct vpmu_kvm_vm *vm, uint8_t *p, uint64_t gpa)
{
	__atomic_store_n(p, kvm_text_in[0], __ATOMIC_SEQ_CST);
	vm->patched[vm->nr_patched++ % VPMU_KVM_SITES] = gpa;
	if (vm->opts.dirty)
		vm->opts.dirty(vm->opts.arg, gpa, 1);
}

/* Find RDPMC in @t, and IN where another process has replaced it before. Nothing is replaced if
 * there are more than sites: then it is no kernel. */
static void search_text(struct vpmu_kvm_vm *vm, const struct search_text *st, uint8_t *text,
			uint64_t bytes)
{
	unsigned int seen = 0, decoded = 0;
	uint64_t found[VPMU_KVM_SITES];
	size_t n = 0;
	const uint8_t *p = text;
	struct kvm_text t;

	kvm_text_init(&t, text, bytes);
	while (p < text + bytes - 1 &&
	       (p = memchr(p + 1, kvm_text_rdpmc[1], (size_t)(text + bytes - p - 1)))) {
		uint64_t at = (uint64_t)(p - 1 - text);

		if (p[-1] != kvm_text_rdpmc[0] && p[-1] != kvm_text_in[0])
			continue;
		if (++seen > CANDIDATES_MAX)
			return;
		if (!kvm_text_shl_follows(&t, at))
			continue;
		if (++decoded > DECODED_MAX)
			return;
		if (!kvm_text_is_instruction(&t, at))
			continue;
		if (n == VPMU_KVM_SITES)
			return;
		found[n++] = at;
	}
	/* Sites of kernels that are gone. One that still executes is adopted again. */
	if (n + atomic_load(&vm->port.nr_sites) > VPMU_KVM_SITES)
		kvm_port_forget_sites(&vm->port);
	for (size_t i = 0; i < n; i++) {
		/* The site first: another vCPU may execute the IN at once. */
		if (kvm_port_add_site(&vm->port, st->lo + found[i]))
			return;
		if (text[found[i]] == kvm_text_rdpmc[0])
			search_patch(vm, text + found[i], st->pa + found[i]);
	}
}

static size_t search_at_most(size_t n, size_t max)
{
	return n < max ? n : max;
}

/* Returns the address of the IN that was put at @gpa, if it is still there and SHL RDX,32 follows;
 * or NULL. */
static uint8_t *search_in(const struct vpmu_kvm_vm *vm, uint64_t gpa)
{
	uint8_t code[sizeof(kvm_text_in) + KVM_TEXT_SHL_WITHIN], *p;
	uint64_t left = 0;
	struct kvm_text t;

	p = search_hva(vm, gpa, &left);
	if (!p || left < sizeof(code))
		return NULL;
	memcpy(code, p, sizeof(code));
	kvm_text_init(&t, code, sizeof(code));
	return memcmp(code, kvm_text_in, sizeof(kvm_text_in)) || !kvm_text_shl_follows(&t, 0) ? NULL
											      : p;
}

/* Another kernel may be where this one was: then the instructions are not replaced any more. */
static bool search_intact(const struct vpmu_kvm_vm *vm, uint64_t pa, uint64_t bytes)
{
	for (size_t i = search_at_most(vm->nr_patched, VPMU_KVM_SITES); i--;)
		if (vm->patched[i] - pa < bytes && !search_in(vm, vm->patched[i]))
			return false;
	return true;
}

static bool search_done(const struct vpmu_kvm_vm *vm, const struct kvm_sregs *sr, uint64_t rip)
{
	uint64_t page, pa = search_walk(vm, sr, rip, &page);

	for (size_t i = search_at_most(vm->nr_searched, VPMU_KVM_SEARCHES); i--;) {
		uint64_t lo = vm->searched[i].lo, bytes = vm->searched[i].hi - lo;

		if (rip - lo < bytes && pa - vm->searched[i].pa == rip - lo &&
		    search_intact(vm, vm->searched[i].pa, bytes))
			return true;
	}
	return false;
}

/* Returns true if a guest may cause system calls and a search, and counts the former. */
static bool search_allowed(struct vpmu_kvm_vm *vm)
{
	uint64_t now = clock_ns(CLOCK_MONOTONIC_COARSE);

	if (now - vm->replenished_ns >= AGAIN_NS) {
		vm->replenished_ns = now;
		vm->looks = 0;
		if (vm->searches)
			vm->searches--;
	}
	return vm->searches < VPMU_KVM_SEARCHES && vm->looks < LOOKS_MAX && ++vm->looks;
}

static bool search_regs(struct vpmu_kvm_vcpu *v, struct kvm_regs *r, struct kvm_sregs *sr)
{
	return !v->port.vm->ioctl(v->port.fd, KVM_GET_REGS, r) &&
	       !v->port.vm->ioctl(v->port.fd, KVM_GET_SREGS, sr) && sr->efer & 1 << 10;
}

static void search_around(struct vpmu_kvm_vm *vm, const struct kvm_sregs *sr, uint64_t rip)
{
	struct search_text t = {.lo = rip, .hi = rip + 1, .pa = NONE};
	size_t at = vm->nr_searched++ % VPMU_KVM_SEARCHES;
	uint64_t left = 0;
	uint8_t *text;

	vm->searches++;
	if (search_extend(vm, sr, rip, &t)) {
		text = search_hva(vm, t.pa, &left);
		if (text)
			search_text(vm, &t, text, left < t.hi - t.lo ? left : t.hi - t.lo);
	}
	vm->searched[at].lo = t.lo;
	vm->searched[at].hi = t.hi;
	vm->searched[at].pa = t.pa;
}

void kvm_search(struct vpmu_kvm_vcpu *v, bool starts)
{
	struct vpmu_kvm_vm *vm = v->vm;
	struct kvm_sregs sr;
	struct kvm_regs r;

	if (!starts && atomic_load_explicit(&vm->port.nr_sites, memory_order_relaxed))
		return;
	/* Another vCPU searches: this one need not. */
	if (pthread_mutex_trylock(&vm->search_lock))
		return;
	if (search_allowed(vm) && search_regs(v, &r, &sr) && !search_done(vm, &sr, r.rip))
		search_around(vm, &sr, r.rip);
	pthread_mutex_unlock(&vm->search_lock);
}

bool kvm_search_adopt(struct vpmu_kvm_vcpu *v)
{
	uint64_t rip = v->port.rdpmc_regs.rip, left = 0, page;
	const uint8_t *p;
	struct kvm_sregs sr;
	struct kvm_regs r;
	struct kvm_text t;
	uint8_t code[sizeof(kvm_text_in) + KVM_TEXT_SHL_WITHIN];

	if (!search_regs(v, &r, &sr) || sr.cs.selector & 3)
		return false;
	p = search_hva(v->vm, search_walk(v->vm, &sr, rip, &page), &left);
	if (!p || left < sizeof(code))
		return false;
	memcpy(code, p, sizeof(code));
	if (memcmp(code, kvm_text_in, sizeof(kvm_text_in)))
		return false;
	kvm_text_init(&t, code, sizeof(code));
	return kvm_text_shl_follows(&t, 0) && !kvm_port_add_site(&v->vm->port, rip);
}

/* ---- sites ---- */

void vpmu_kvm_rdpmc_sites(const struct vpmu_kvm_vm *vm, uint64_t *rip, size_t *n)
{
	size_t have = atomic_load_explicit(&vm->port.nr_sites, memory_order_acquire);

	for (size_t i = 0; i < have && i < *n; i++)
		rip[i] = vm->port.site[i];
	*n = have;
}

int vpmu_kvm_rdpmc_add(struct vpmu_kvm_vm *vm, uint64_t rip)
{
	return kvm_port_add_site(&vm->port, rip);
}

size_t vpmu_kvm_rdpmc_restore(struct vpmu_kvm_vm *vm)
{
	size_t done = 0;

	pthread_mutex_lock(&vm->search_lock);
	for (size_t i = search_at_most(vm->nr_patched, VPMU_KVM_SITES); i--;) {
		uint8_t *p = search_in(vm, vm->patched[i]);

		if (!p)
			continue;
		__atomic_store_n(p, kvm_text_rdpmc[0], __ATOMIC_SEQ_CST);
		if (vm->opts.dirty)
			vm->opts.dirty(vm->opts.arg, vm->patched[i], 1);
		done++;
	}
	pthread_mutex_unlock(&vm->search_lock);
	vpmu_kvm_vm_reset(vm);
	return done;
}
