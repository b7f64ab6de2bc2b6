// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * A hypervisor in the emulator. Its VMCBs, nested page tables and guest's code come from the input.
 * Whatever they are, run() must return, soon, with an exit that its caller knows, and the
 * vCPU must be able to run again. The counts of HostOnly and GuestOnly add up, and no alarm on them
 * is passed.
 */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "tests/emu/attack.h"
#include "tests/fuzz/fuzz.h"
#include "vpmu/emupmu.h"

#define EFFORT 20000u
/* Beyond effort_max: engine.h and docs/internals/emulator.md, "Effort". */
#define SLACK  250000u
#define SLICES 12u

struct patch {
	uint16_t at;
	uint8_t where, bytes;
	uint64_t value;
} __attribute__((packed));

static const struct attack *guest(unsigned int n)
{
	static const char *const names[] = {"vmrun", "vmrun, flush", "vmrun, touch",
					    "vmrun, nested touch"};

	for (size_t i = 0; i < nr_attacks; i++)
		if (!strcmp(attacks[i].name, names[n % 4]))
			return &attacks[i];
	abort();
}

/* Where patches go: the VMCB (half of them to its first 256 bytes), nested tables, the guest's
 * code, its page tables, GDT and IDT. */
static uint64_t place(const struct patch *p)
{
	static const uint64_t pages[] = {0xb0000,  0xb0000, 0xb0400, 0xb1000, 0xb2000, 0xb3000,
					 0x400000, 0x10000, 0x12000, 0x14000, 0x5000,  0x6000};
	uint64_t page = pages[p->where % (sizeof(pages) / sizeof(pages[0]))];

	if (page == 0xb0000)
		return page + p->at % 0x100;
	return page + p->at % (page == 0xb0400 ? 0x298 : 0xff8);
}

/* The sets of HostOnly and GuestOnly add up, and are part of all. */
static void check_sets(const struct vpmu_emu_tally *t)
{
	const unsigned int g = VPMU_EMU_GUESTONLY, h = VPMU_EMU_HOSTONLY;

	for (int e = 0; e < VPMU_EMU_EVENTS; e++) {
#define SET(s) t->ev[vpmu_emu_row(s)][e]
		for (unsigned int m = 1; m <= 3; m++) {
			CHECK(SET(g | m) + SET(h | m) == SET(g | h | m), "event %d, set %u", e, m);
			CHECK(SET(g | h | m) <= SET(m), "event %d, set %u", e, m);
		}
		for (unsigned int s = 1; s <= 3; s++)
			CHECK(SET(s << VPMU_EMU_SVM_SHIFT | 1) + SET(s << VPMU_EMU_SVM_SHIFT | 2) ==
				      SET(s << VPMU_EMU_SVM_SHIFT | 3),
			      "event %d, SVM %u", e, s);
#undef SET
	}
}

/* An alarm on instructions, in a set that @n chooses. */
static void arm(struct vpmu_emu_tally *t, unsigned int n)
{
	unsigned int modes = (n % 4) << VPMU_EMU_SVM_SHIFT | (1 + n / 4 % 3);

	t->alarm[0] = (struct vpmu_emu_alarm){
		.event = VPMU_EMU_INSTRUCTIONS,
		.modes = (uint8_t)modes,
		.at = t->ev[vpmu_emu_row(modes)][VPMU_EMU_INSTRUCTIONS] + 1 + n % 13};
	t->armed = 1;
}

static void drive(struct vmm_engine_vcpu *v, struct vpmu_emu_tally *t, unsigned int seed)
{
	struct vmm_run run = {0};

	for (unsigned int i = 0; i < SLICES; i++) {
		run.budget = run.effort_max = EFFORT;
		if (seed & 1)
			arm(t, seed >> 1 ^ i);
		CHECK(!vmm_emu_ops.run(v, &run), "run");
		check_sets(t);
		if (t->armed) {
			const struct vpmu_emu_alarm *a = &t->alarm[0];
			uint64_t is = t->ev[vpmu_emu_row(a->modes)][a->event];

			CHECK(is <= a->at, "the alarm was passed: %lu, due at %lu", is, a->at);
			CHECK(run.exit != VMM_EXIT_ALARM || is == a->at, "not due");
		}
		CHECK(run.retired <= EFFORT, "retired %lu", run.retired);
		CHECK(run.effort <= EFFORT + SLACK, "effort %lu", run.effort);
		switch (run.exit) {
		case VMM_EXIT_BUDGET:
		case VMM_EXIT_INTR:
		case VMM_EXIT_ALARM:
			break;
		case VMM_EXIT_IO:
			run.u.io.data = i;
			break;
		case VMM_EXIT_RDMSR:
		case VMM_EXIT_WRMSR:
			run.u.msr.fault = i & 1;
			break;
		case VMM_EXIT_RDPMC:
			run.u.pmc.fault = i & 1;
			break;
		case VMM_EXIT_HLT:
			if (vmm_emu_ops.nmi(v))
				return;
			break;
		case VMM_EXIT_SHUTDOWN:
		case VMM_EXIT_ERROR:
			return;
		default:
			CHECK(false, "exit %d", run.exit);
		}
		if (i % 3 == 1)
			vmm_emu_ops.interrupt(v, (uint8_t)(0x40 + i));
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct vpmu_emu_tally tally;
	static uint8_t *ram;
	struct vmm_engine_vcpu *v;
	struct vmm_engine_vm *vm;
	struct vmm_engine *e;
	unsigned int seed;
	struct patch p;
	char why[128];

	if (!size)
		return -1;
	if (ram)
		munmap(ram, ATTACK_RAM);
	ram = mmap(NULL, ATTACK_RAM, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	CHECK(ram != MAP_FAILED, "mmap");
	CHECK(!vmm_emu_ops.open(&e, why, sizeof(why)), "%s", why);
	CHECK(!vmm_emu_ops.vm_create(
		      e, &(struct vmm_ram){.base = ram, .nr = 1, .slot[0].bytes = ATTACK_RAM}, &vm),
	      "vm_create");
	CHECK(!vmm_emu_ops.vcpu_create(vm, 0, &v), "vcpu_create");
	memset(&tally, 0, sizeof(tally));
	vmm_emu_ops.set_tally(v, &tally);
	CHECK(!attack_load(guest(data[0]), &vmm_emu_ops, v, ram), "attack_load");
	seed = data[0] >> 2; /* guest() takes two bits */
	for (data++, size--; size >= sizeof(p); data += sizeof(p), size -= sizeof(p)) {
		memcpy(&p, data, sizeof(p));
		memcpy(ram + place(&p), &p.value, 1 + p.bytes % 8);
	}
	if (seed & 4)
		ram[0xb00b8] |= 1; /* LBR virtualization: the fields from 670H on are used */
	drive(v, &tally, seed);
	vmm_emu_ops.vcpu_destroy(v);
	vmm_emu_ops.vm_destroy(vm);
	vmm_emu_ops.close(e);
	return 0;
}
