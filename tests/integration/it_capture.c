// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * What an operator captures are the guests' true call chains, without the guests' help: VMs run a
 * workload with only return addresses on its stack (guest-tools/flow.S), are paused at
 * random, and each vCPU's captured records are compared with the stack in its memory.
 */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "guest_truth.h"
#include "machine_bed.h"
#include "tests/lbr_faults.h"

#define NR_VMS 50
#define VCPUS  2
#ifdef VPMU_FEWER /* what is right the plain build shows */
#define PAUSES 4
#define ENOUGH 60
#else
#define PAUSES 12
#define ENOUGH 300 /* captures that were judged */
#endif

/* Where chain_walk's code lies in the guest. */
struct code {
	uint64_t start, end;
};

/* @bytes at guest-virtual @va, through the vCPU's page tables; false: not mapped. */
static bool peek(struct vcpu *v, uint64_t cr3, uint64_t va, void *buf, size_t bytes)
{
	uint8_t *to = buf;

	for (size_t i = 0; i < bytes; i++, va++) {
		uint64_t table = cr3 & 0xffffffffff000, entry = 0, pa;
		int level;

		for (level = 3; level >= 0; level--) {
			pa = table + (va >> (12 + 9 * level) & 511) * 8;
			if (!vmm_ram_holds(&v->vm->ram, pa, 8))
				return false;
			memcpy(&entry, v->vm->ram.base + pa, 8);
			if (!(entry & 1))
				return false;
			if (level == 1 && (entry & 0x80))
				break;
			table = entry & 0xffffffffff000;
		}
		pa = level == 1 ? (entry & 0xfffffffe00000) + (va & 0x1fffff)
				: (entry & 0xffffffffff000) + (va & 0xfff);
		if (!vmm_ram_holds(&v->vm->ram, pa, 1))
			return false;
		to[i] = v->vm->ram.base[pa];
	}
	return true;
}

/* Address of the call that left @ret, by the code before it; 0: none of chain's. *last: it is the
 * call of the workload itself. */
static uint64_t call_before(struct vcpu *v, uint64_t cr3, uint64_t ret, bool *last)
{
	uint8_t b[5];

	*last = false;
	if (!peek(v, cr3, ret - 5, b, 5))
		return 0;
	if (b[0] == 0xe8)
		return ret - 5; /* CALL rel32 */
	if (b[2] == 0x41 && b[3] == 0xff && b[4] == 0xd1)
		return ret - 3; /* CALL *R9 */
	*last = b[3] == 0xff && b[4] == 0xd0;
	return *last ? ret - 2 : 0; /* CALL *RAX: user_call's */
}

struct tally {
	unsigned int judged, equal, cut, wrong;
};

static void judge(struct vcpu *v, const struct code *code, struct tally *t)
{
	struct vpmu_lbr_regs r;
	enum vpmu_lbr_user user;
	struct kvm_regs regs;
	struct kvm_sregs sregs;
	bool last = false;
	unsigned int n = 0;

	if (v->state != VCPU_READY)
		return;
	cr_assert_eq(v->vm->ops->get_regs(v->ev, &regs), 0);
	cr_assert_eq(v->vm->ops->get_sregs(v->ev, &sregs), 0);
	if (regs.rip < code->start || regs.rip >= code->end)
		return;
	t->judged++;
	if (vpmu_lbr_read(v->ctx.own, &r, &user)) {
		t->cut++;
		return;
	}
	cr_assert_eq(user, VPMU_LBR_HOST);
	while (!last) {
		const struct vpmu_lbr_entry *e = vpmu_lbr_nth(&r, n);
		uint64_t ret, from;

		cr_assert(peek(v, sregs.cr3, regs.rsp + 8 * n, &ret, 8));
		from = call_before(v, sregs.cr3, ret, &last);
		cr_assert_neq(from, 0);
		if (!e) {
			t->cut++;
			return;
		}
		if (e->from != from) {
			t->wrong++;
			return;
		}
		n++;
	}
	t->equal++;
}

static struct tally run(const char *host, enum lbr_fault fault)
{
	struct code code = {guest_symbol(VPMU_GUEST, "chain_walk"),
			    guest_symbol(VPMU_GUEST, "chain_end")};
	struct tally t = {0};
	struct bed b;

	bed_open(&b, host);
	for (unsigned int i = 0; i < NR_VMS; i++)
		bed_add(&b,
			"name=v%u,tenant=/t%u,vcpus=%u,memory=4M,pmu=%s,"
			"args=stat -e instructions:u chain 100000000",
			i, i % 4, VCPUS, i % 2 ? "amd-v2" : "intel-v5");
	bed_do(&b, "{'cmd':'lbr-attach','target':'/','name':'c','keep':true}");
	lbr_break_host(bed_host(&b), fault);
	srand(7);
	/* Where vCPUs are when they are paused depends on how long they ran: more pauses if need
	 * be. */
	for (int i = 0; i < PAUSES || t.judged <= ENOUGH; i++) {
		bed_do(&b, "{'cmd':'resume'}");
		usleep(20000 + (useconds_t)rand() % 30000);
		bed_do(&b, "{'cmd':'pause'}");
		vpmu_host_sync(bed_host(&b));
		for (struct machine_vm *vm = machine_vms(b.machine); vm; vm = vm->next)
			for (unsigned int k = 0; vm->vm && k < VCPUS; k++)
				judge(&vm->vm->vcpus[k], &code, &t);
	}
	bed_do(&b, "{'cmd':'lbr-detach','capture':'c'}");
	fprintf(stderr, "[%s] fault %u: %u captures, %u equal, %u short, %u wrong\n", host, fault,
		t.judged, t.equal, t.cut, t.wrong);
	bed_close(&b);
	return t;
}

static void all_equal(const char *host)
{
	struct tally t = run(host, LBR_FAULT_NONE);

	cr_assert_eq(t.equal, t.judged);
}

Test(capture, chains_are_true)
{
	all_equal("pcpus=2,slice=20000,random_slices=yes,migrate=random:3,seed=1");
	all_equal("pcpus=2,slice=97,random_slices=yes,migrate=random:2,seed=2");
}

/* The test can fail: the records read then are those since some switch. */
Test(capture, without_restore_chains_are_not_true)
{
	struct tally t = run("pcpus=2,slice=97,random_slices=yes,migrate=random:2,seed=2",
			     LBR_FAULT_NO_RESTORE);

	cr_assert_lt(t.equal, t.judged / 2);
}
