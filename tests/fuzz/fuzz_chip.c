// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * libFuzzer target: three vCPUs of one VM do the input's accesses to their local APICs in
 * memory and as MSRs, the I/O APIC, the TSC and HLT, in slices, while devices drive lines, time
 * passes, and the whole VM is saved and restored in between. Each input runs twice: the second run
 * saves and restores, the first one does not.
 *
 * Must hold: no crash, no undefined behaviour, no leak; the clock never goes back, for no vCPU and
 * in no order; a halted vCPU has a reason to be woken or none; a restored VM goes on as
 * the original; a state from a stranger is taken exactly or refused.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "tests/fuzz/fuzz_assert.h"
#include "tests/unit/emu_bed.h"
#include "vmm/emu/irqchip/chip.h"

#define VCPUS	3
#define SLOT	64		     /* bytes of code for one record */
#define RECORDS 40		     /* for each vCPU */
#define NEXT	(BED_CODE + 0x10000) /* handler of faults: goes to the next slot */
#define EOI	(BED_CODE + 0x10100) /* of interrupts */
#define NEWEST	0x300800u	     /* the largest TSC that was read */
#define BAD	0x300810u	     /* not 0: one was less */

struct record {
	uint8_t kind, a, b, c;
};

struct machine {
	struct bed b;
	struct vmm_engine_vcpu *v[VCPUS];
	struct vpmu_emu_tally t[VCPUS];
	struct vmm_run run[VCPUS];
	bool over[VCPUS];
	uint64_t time;
	unsigned int woken;
	bool gave_up; /* it makes no progress, and its last place depends on cached translations */
};

static void on_wake(void *arg, unsigned int id)
{
	cr_assert_lt(id, VCPUS);
	((struct machine *)arg)->woken++;
}

static uint64_t on_time(void *arg)
{
	return ((struct machine *)arg)->time;
}

static uint32_t value(const struct record *r)
{
	static const uint32_t some[] = {
		0,	    1,	    0x1ff,    0xff,	  0x40041, 0x80042, 0xc0043, 0x4500,
		0x4612,	    0x400,  0x20040,  0x40044,	  0xb,	   1000,    0x10000, 0x8061,
		0x01000000, 0x8000, 0xfee00c, 0x0ff00000, 0x850,   0x460,   0x100,   0xffffffff,
	};

	return r->b < 128 ? some[r->b % (sizeof(some) / sizeof(some[0]))] | (uint32_t)r->c << 24
			  : (uint32_t)r->b << 8 | r->c;
}

static void emit(uint8_t **p, const void *bytes, size_t n)
{
	memcpy(*p, bytes, n);
	*p += n;
}

static void emit32(uint8_t **p, uint32_t x)
{
	emit(p, &x, 4);
}

/* One slot of code. RBX is BED_WIN. */
static void put_record(uint8_t *p, const struct record *r)
{
	static const uint32_t msrs[] = {0x6e0, 0x1b, 0x10, 0x80b, 0x83f, 0x830, 0x832, 0x838};
	uint8_t *end = p + SLOT;
	uint32_t msr;

	switch (r->kind % 12) {
	case 0:
	case 1: /* movl $value,a*16(%rbx) */
		emit(&p, "\xc7\x83", 2);
		emit32(&p, (uint32_t)r->a << 4);
		emit32(&p, value(r));
		break;
	case 2: /* a load of some size */
		emit(&p,
		     r->c & 1	? "\x8a\x83"
		     : r->c & 2 ? "\x66\x8b\x83"
				: "\x48\x8b\x83",
		     (r->c & 3) == 1 || (r->c & 3) == 3 ? 2 : 3);
		emit32(&p, (uint32_t)r->a << 4 | (r->c >> 4));
		break;
	case 3: /* wrmsr of the local APIC */
	case 4:
		msr = r->kind % 12 == 3 ? 0x800u + r->a : msrs[r->a & 7];
		emit(&p, "\xb9", 1);
		emit32(&p, msr);
		emit(&p, "\xb8", 1);
		emit32(&p, msr == 0x1b ? 0xfee00100 | (uint32_t)(r->b & 3) << 10 : value(r));
		emit(&p, "\xba", 1);
		emit32(&p, msr == 0x830 ? r->c & 3 : 0);
		emit(&p, "\x0f\x30", 2);
		break;
	case 5: /* rdmsr */
		emit(&p, "\xb9", 1);
		emit32(&p, r->b & 1 ? msrs[r->a & 7] : 0x800u + r->a);
		emit(&p, "\x0f\x32", 2);
		break;
	case 6: /* the I/O APIC: select, window */
		emit(&p, "\xc7\x83", 2);
		emit32(&p, 0x1000);
		emit32(&p, r->a & 0x3f);
		emit(&p, "\xc7\x83", 2);
		emit32(&p, 0x1010);
		emit32(&p, r->a & 1 ? (uint32_t)r->c << 24 : r->b | (uint32_t)(r->c & 15) << 12);
		break;
	case 7: /* sti; hlt; or cli */
		emit(&p, r->a & 3 ? "\xfb\xf4" : "\xfa\x90", 2);
		break;
	case 8: /* a loop */
		emit(&p, "\xb9", 1);
		emit32(&p, 1 + r->a * 8u);
		emit(&p, "\xff\xc9\x75\xfc", 4);
		break;
	case 9: /* rep stosl or rep lodsl on device memory */
		emit(&p, "\x48\x8d\xbb", 3);
		emit32(&p, (uint32_t)r->a << 4);
		emit(&p, "\x48\x89\xfe\xb9", 4);
		emit32(&p, r->c & 7);
		emit(&p, r->b & 1 ? "\xf3\xab" : "\xf3\xad", 2);
		break;
	case 10: /* orl, lock xaddl, xchgl */
		emit(&p,
		     r->b & 1	? "\x09\x83"
		     : r->b & 2 ? "\xf0\x0f\xc1\x83"
				: "\x87\x83",
		     r->b & 1	? 2
		     : r->b & 2 ? 4
				: 2);
		emit32(&p, (uint32_t)r->a << 4);
		break;
	default: /* the TSC is not less than the newest one */
		emit(&p, "\xbe", 1);
		emit32(&p, NEWEST);
		emit(&p, "\x48\x8b\x2e\x0f\x31\x48\xc1\xe2\x20\x48\x09\xd0\x48\x39\xc5", 15);
		/* jbe 1f; incl BAD-NEWEST(%rsi); 1: mov %rax,(%rsi) */
		emit(&p, "\x76\x03\xff\x46\x10\x48\x89\x06", 8);
		break;
	}
	memset(p, 0x90, (size_t)(end - p));
}

static void build(struct machine *m, const struct record *r, size_t n, unsigned int flags)
{
	/* add $8,%rsp if there is an error code; then RIP to the next slot; iretq */
	static const uint8_t next[] = {0x48, 0x83, 0xc4, 8,    0x48, 0x8b, 0x04, 0x24,
				       0x48, 0x83, 0xe0, 0xc0, 0x48, 0x83, 0xc0, 0x40,
				       0x48, 0x89, 0x04, 0x24, 0x48, 0xcf};
	/* EOI both ways would fault; in memory only */
	static const uint8_t eoi[] = {0xc7, 0x83, 0xb0, 0, 0, 0, 0, 0, 0, 0, 0x48, 0xcf};
	struct vmm_waker w = {.wake = on_wake, .time = on_time, .arg = m};
	struct kvm_cpuid_entry2 e[2] = {{.function = 0}, {.function = 1, .ecx = 1u << 24}};

	memset(m, 0, sizeof(*m));
	m->time = 1;
	bed_init(&m->b);
	*bed_u64(&m->b, BED_PT) = EMU_LAPIC_PAGE | 3;
	*bed_u64(&m->b, BED_PT + 8) = EMU_IOAPIC_PAGE | 3;
	cr_assert_eq(vmm_emu_ops.irqchip_create(m->b.vm), 0);
	cr_assert_eq(vmm_emu_ops.set_waker(m->b.vm, &w), 0);
	memcpy(m->b.ram + NEXT, next, sizeof(next));
	memcpy(m->b.ram + EOI, eoi, sizeof(eoi));
	for (unsigned int v = 0; v < 256; v++)
		bed_gate(&m->b, v, v == 2 ? EOI + 10 : v < 32 ? NEXT : EOI, 0, 0xe);
	if (flags & 1)
		memcpy(&e[0].ebx, "Genu", 4), memcpy(&e[0].edx, "ineI", 4),
			memcpy(&e[0].ecx, "ntel", 4);
	for (unsigned int i = 0; i < VCPUS; i++) {
		uint64_t at = BED_CODE + i * 0x4000;
		struct kvm_regs regs = {
			.rip = at, .rsp = BED_STACK - i * 0x4000, .rbx = BED_WIN, .rflags = 2};

		for (size_t k = 0; k < RECORDS && k * VCPUS + i < n; k++)
			put_record(m->b.ram + at + k * SLOT, &r[k * VCPUS + i]);
		cr_assert_eq(vmm_emu_ops.vcpu_create(m->b.vm, i, &m->v[i]), 0);
		vmm_emu_ops.set_tally(m->v[i], &m->t[i]);
		vmm_emu_ops.set_cpuid(m->v[i], e, 2);
		if (i == 2 && (flags & 2))
			continue; /* it waits for its start-up IPI */
		bed_set_mode(&m->b, m->v[i], false);
		vmm_emu_ops.set_regs(m->v[i], &regs);
		/* At the end: cli; hlt; jmp to it. */
		memcpy(m->b.ram + at + RECORDS * SLOT, "\xfa\xf4\xeb\xfc", 4);
	}
}

static void destroy(struct machine *m)
{
	for (unsigned int i = 0; i < VCPUS; i++)
		vmm_emu_ops.vcpu_destroy(m->v[i]);
	vmm_emu_ops.vm_destroy(m->b.vm);
	vmm_emu_ops.close(m->b.e);
	munmap(m->b.ram, BED_RAM);
}

/* All of the VM out and back in. */
static void save_and_load(struct machine *m)
{
	uint8_t buf[4096], again[4096];
	size_t n = sizeof(buf), k;

	/* Time passes only with a waker, and states are those of a VM that does not run. */
	vmm_emu_ops.set_waker(m->b.vm, NULL);
	cr_assert_eq(vmm_emu_ops.get_vm_state(m->b.vm, buf, &n), 0);
	cr_assert_eq(vmm_emu_ops.set_vm_state(m->b.vm, buf, n), 0);
	for (unsigned int i = 0; i < VCPUS; i++) {
		struct kvm_sregs s;
		struct kvm_regs r;

		n = k = sizeof(buf);
		vmm_emu_ops.get_sregs(m->v[i], &s);
		vmm_emu_ops.get_regs(m->v[i], &r);
		cr_assert_eq(vmm_emu_ops.get_state(m->v[i], buf, &n), 0);
		cr_assert_eq(vmm_emu_ops.set_sregs(m->v[i], &s), 0);
		cr_assert_eq(vmm_emu_ops.set_regs(m->v[i], &r), 0);
		cr_assert_eq(vmm_emu_ops.set_state(m->v[i], buf, n), 0);
		cr_assert_eq(vmm_emu_ops.get_state(m->v[i], again, &k), 0);
		cr_assert(n == k && !memcmp(buf, again, n), "vCPU %u: state changed on its way", i);
	}
	vmm_emu_ops.set_waker(m->b.vm,
			      &(struct vmm_waker){.wake = on_wake, .time = on_time, .arg = m});
}

/* Some bytes of the states from the input. */
static void hostile(struct machine *m, const uint8_t *data, size_t size)
{
	for (unsigned int i = 0; i <= VCPUS; i++) {
		uint8_t now[4096], buf[4096], after[4096];
		size_t n = sizeof(now), k = sizeof(after);
		int rc;

		if (i < VCPUS)
			vmm_emu_ops.get_state(m->v[i], now, &n);
		else
			vmm_emu_ops.get_vm_state(m->b.vm, now, &n);
		memcpy(buf, now, n);
		for (size_t j = 0; j + 1 < size && j < 16; j += 2)
			buf[(data[j] * 3u + i) % n] = data[j + 1];
		rc = i < VCPUS ? vmm_emu_ops.set_state(m->v[i], buf, n)
			       : vmm_emu_ops.set_vm_state(m->b.vm, buf, n);
		cr_assert(rc == 0 || rc == -EINVAL, "%d", rc);
		if (i < VCPUS)
			vmm_emu_ops.get_state(m->v[i], after, &k);
		else
			vmm_emu_ops.get_vm_state(m->b.vm, after, &k);
		cr_assert(k == n && !memcmp(after, rc ? now : buf, n), "state %u: %d", i, rc);
	}
	for (unsigned int i = 0; i < VCPUS; i++) {
		m->run[i].budget = 300;
		cr_assert_eq(vmm_emu_ops.run(m->v[i], &m->run[i]), 0);
	}
}

/* The place where run() returns because of its effort depends on caches: go on, so that slices end
 * at the same instructions with and without saving. */
static void run_slice(struct machine *m, unsigned int i, uint64_t budget)
{
	struct vmm_run *run = &m->run[i];

	for (unsigned int n = 0; budget; n++) {
		run->budget = budget;
		cr_assert_eq(vmm_emu_ops.run(m->v[i], run), 0);
		cr_assert_leq(run->retired, budget);
		budget -= run->retired;
		if (run->exit != VMM_EXIT_INTR)
			return;
		m->gave_up |= n > 20;
		if (m->gave_up)
			return;
	}
}

static void execute(struct machine *m, const uint8_t *plan, size_t n, bool saves)
{
	uint64_t next;

	for (size_t k = 0; k < 64; k++) {
		unsigned int byte = k < n ? plan[k] : (unsigned int)k * 37, i = byte % VCPUS;
		struct vmm_run *run = &m->run[i];

		if (byte & 0x40)
			vmm_emu_ops.irq_line(m->b.vm, byte >> 2 & 31, byte & 1);
		m->time += byte * 100;
		next = 0;
		cr_assert_eq(vmm_emu_ops.expire(m->b.vm, &next), 0);
		cr_assert(!next || next > m->time, "expire() is never done");
		if (m->over[i])
			continue;
		if (saves && (byte & 0x80))
			save_and_load(m);
		run_slice(m, i, 1 + byte * 7);
		switch (run->exit) {
		case VMM_EXIT_RDMSR:
		case VMM_EXIT_WRMSR:
			run->u.msr.fault = true;
			break;
		case VMM_EXIT_HLT:
			cr_assert(run->u.hlt.waits || !run->u.hlt.deadline);
			break;
		case VMM_EXIT_ERROR:
			cr_assert(run->u.error.msg[0] && !strchr(run->u.error.msg, '\n'));
			/* fall through */
		case VMM_EXIT_SHUTDOWN:
			m->over[i] = true;
			vmm_emu_ops.retire(m->v[i], &next);
			break;
		default:
			break;
		}
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct machine m[2];
	struct record r[RECORDS * VCPUS];
	size_t n, plan;
	uint32_t bad;

	if (size < 2 + 4)
		return -1;
	plan = data[1] % 64;
	if (size < 2 + plan + 4)
		return -1;
	n = (size - 2 - plan) / sizeof(r[0]);
	if (n > RECORDS * VCPUS)
		n = RECORDS * VCPUS;
	memcpy(r, data + 2 + plan, n * sizeof(r[0]));
	for (int i = 0; i < 2; i++) {
		build(&m[i], r, n, data[0]);
		execute(&m[i], data + 2, plan, i);
		memcpy(&bad, m[i].b.ram + BAD, 4);
		/* A guest may write its TSC. */
		for (size_t k = 0; k < n; k++)
			if (r[k].kind % 12 == 4)
				bad = 0;
		cr_assert_eq(bad, 0, "a TSC went back");
	}
	if (!m[0].gave_up && !m[1].gave_up)
		cr_assert_eq(memcmp(m[0].b.ram, m[1].b.ram, BED_RAM), 0,
			     "saving changed what came later");
	for (unsigned int v = 0; v < VCPUS && !m[0].gave_up && !m[1].gave_up; v++)
		cr_assert_eq(memcmp(m[0].t[v].ev, m[1].t[v].ev, sizeof(m[0].t[v].ev)), 0,
			     "vCPU %u: saving changed the counts", v);
	for (int i = 0; i < 2; i++) {
		vmm_emu_ops.set_waker(m[i].b.vm, NULL);
		hostile(&m[i], data, size);
		destroy(&m[i]);
	}
	return 0;
}
