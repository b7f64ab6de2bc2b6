// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * vmm/engine: each engine matches its flags. A guest shows each ability that an engine claims; one
 * that it does not claim is refused, and happens to no guest. The fake engine of other tests is
 * held to the same. KVM is left out where /dev/kvm cannot be used.
 */
#include <criterion/criterion.h>
#include <errno.h>
#include <string.h>

#include "fake_engine.h"
#include "vmm/kvm/kvm.h"
#include "vmm/vm/cpuid.h"
#include "vmm/vm/ram.h"

#define CODE VPMU_BOOT_IMAGE

/* Guest code, copied to CODE, where the freestanding boot protocol starts it. */
#define GUEST(name, ...)                                                                           \
	extern const char name[], name##_end[];                                                    \
	__asm__(".pushsection .rodata\n" #name ":\n" __VA_ARGS__ "\n" #name "_end:\n"              \
		".popsection\n")

GUEST(g_rdpmc, "xor %ecx,%ecx\nrdpmc\nout %eax,$0xf4");
GUEST(g_lapic, "mov $0x802,%ecx\nrdmsr\nout %eax,$0xf4");
GUEST(g_work, "mov $1000,%ecx\n1: dec %ecx\njnz 1b\nout %eax,$0xf4\n2: jmp 2b");
/* SVR, LVTPC = NMI, the IDT that the test makes, HLT. */
#define IDTR 0x110000
#define IDT  0x100000
GUEST(g_pmi, "mov $0x80f,%ecx\nmov $0x1ff,%eax\nxor %edx,%edx\nwrmsr\n"
	     "mov $0x834,%ecx\nmov $0x400,%eax\nwrmsr\n"
	     "lidt 0x110000\nmov $0x280000,%esp\nhlt\nmov $3,%eax\nout %eax,$0xf4\n"
	     "g_pmi_nmi: mov $7,%eax\nout %eax,$0xf4\n");
extern const char g_pmi_nmi[];

struct bed {
	const struct vmm_engine_ops *ops;
	struct vmm_engine *e;
	struct vmm_engine_vm *vm;
	struct vmm_engine_vcpu *v;
	struct vmm_ram ram;
	struct vmm_run run;
};

/* false: this engine does not work here. */
static bool start_vcpu(struct bed *b, const struct vmm_engine_ops *ops, unsigned int id,
		       const char *code, const char *end)
{
	static const struct vpmu_msr_range none[] = {{0, 0}};
	struct boot_params boot = {.nr_vcpus = 1, .lapic = ops->can & VMM_CAN_LAPIC};
	struct vpmu_guest guest = {.cfg.model = VPMU_GUEST_NONE};
	struct kvm_cpuid_entry2 cpuid[VMM_CPUID_MAX];
	struct image img = fake_image();
	struct kvm_sregs sregs;
	struct kvm_regs regs;
	char why[256] = "";
	uint64_t entry;

	*b = (struct bed){.ops = ops};
	if (ops->open(&b->e, why, sizeof(why))) {
		fprintf(stderr, "%s: left out: %s\n", ops->name, why);
		return false;
	}
	vm_ram_layout(VMM_RAM_MIN, &b->ram);
	cr_assert_eq(vm_ram_map(&b->ram, false), 0);
	cr_assert_eq(boot_freestanding.load(&img, &b->ram, &boot, &entry, why, sizeof(why)), 0);
	memcpy(b->ram.base + CODE, code, (size_t)(end - code));
	cr_assert_eq(ops->vm_create(b->e, &b->ram, &b->vm), 0);
	cr_assert_eq(ops->vm_trap_msrs(b->vm, none), 0);
	cr_assert_eq(ops->vcpu_create(b->vm, id, &b->v), 0);
	cr_assert_eq(
		ops->set_cpuid(b->v, cpuid, vmm_cpuid(&guest, id, ops->can & VMM_CAN_LAPIC, cpuid)),
		0);
	cr_assert_eq(ops->get_sregs(b->v, &sregs), 0);
	boot_freestanding.registers(CODE, id, &boot, &regs, &sregs);
	cr_assert_eq(ops->set_sregs(b->v, &sregs), 0);
	cr_assert_eq(ops->set_regs(b->v, &regs), 0);
	return true;
}

#define START(b, ops, name) start_vcpu(b, ops, 0, name, name##_end)

static void stop(struct bed *b)
{
	b->ops->vcpu_destroy(b->v);
	b->ops->vm_destroy(b->vm);
	b->ops->close(b->e);
	vm_ram_unmap(&b->ram);
}

static enum vmm_exit run(struct bed *b)
{
	cr_assert_eq(b->ops->run(b->v, &b->run), 0);
	return b->run.exit;
}

/* The guest's writes to the exit port. */
static uint32_t outcome(struct bed *b)
{
	cr_assert_eq(run(b), VMM_EXIT_IO, "%s: exit %d", b->ops->name, b->run.exit);
	return b->run.u.io.data;
}

static const struct vmm_engine_ops *const engines[] = {&vmm_emu_ops, &vmm_kvm_ops};

#define EACH_ENGINE(ops)                                                                           \
	const struct vmm_engine_ops *const *p_ = engines, *ops;                                    \
	p_ < engines + sizeof(engines) / sizeof(engines[0]) && (ops = *p_);                        \
	p_++

/* No operation is NULL, and those without their flag refuse without touching anything. */
static void check_table(const struct vmm_engine_ops *o)
{
	struct vpmu_emu_tally tally = {0};
	uint64_t ticks = 5;
	size_t bytes = 7;
	char buf[8];

	cr_assert(o->name && o->open && o->close && o->vm_create && o->vm_destroy &&
		  o->vm_trap_msrs && o->vcpu_create && o->vcpu_destroy && o->set_cpuid &&
		  o->supported_cpuid);
	cr_assert(o->get_regs && o->set_regs && o->get_sregs && o->set_sregs && o->run && o->kick);
	cr_assert(o->interrupt && o->nmi && o->pmi && o->set_tally && o->get_state &&
		  o->set_state && o->guest_tsc);
	if (!(o->can & VMM_CAN_PMI))
		cr_assert_eq(o->pmi(NULL), -EOPNOTSUPP, "%s", o->name);
	if (!(o->can & VMM_CAN_TALLY))
		cr_assert_eq(o->set_tally(NULL, &tally), -EOPNOTSUPP, "%s", o->name);
	if (!(o->can & VMM_CAN_SAVE)) {
		cr_assert_eq(o->get_state(NULL, buf, &bytes), -EOPNOTSUPP, "%s", o->name);
		cr_assert_eq(o->set_state(NULL, buf, bytes), -EOPNOTSUPP, "%s", o->name);
		cr_assert_eq(bytes, 7);
	}
	if (!(o->can & VMM_CAN_GUEST_TSC)) {
		cr_assert_eq(o->guest_tsc(NULL, &ticks), -EOPNOTSUPP, "%s", o->name);
		cr_assert_eq(ticks, 5);
	}
	cr_assert(o->irqchip_create && o->irq_line && o->set_waker && o->expire && o->retire &&
		  o->get_vm_state && o->set_vm_state);
	if (!(o->can & VMM_CAN_IRQCHIP)) {
		cr_assert_eq(o->irqchip_create(NULL), -EOPNOTSUPP, "%s", o->name);
		cr_assert_eq(o->irq_line(NULL, 0, true), -EOPNOTSUPP, "%s", o->name);
	}
	cr_assert(o->rdpmc_sites);
	if (!(o->can & VMM_CAN_RDPMC_SITES))
		cr_assert_eq(o->rdpmc_sites(NULL, NULL, 0), -EOPNOTSUPP, "%s", o->name);
	cr_assert(!(o->can & VMM_CAN_RDPMC_SITES) || !(o->can & VMM_CAN_RDPMC), "%s", o->name);
	if (!(o->can & VMM_CAN_WAKE)) {
		cr_assert_eq(o->set_waker(NULL, NULL), -EOPNOTSUPP, "%s", o->name);
		cr_assert_eq(o->expire(NULL, &ticks), -EOPNOTSUPP, "%s", o->name);
		cr_assert_eq(o->retire(NULL, &ticks), -EOPNOTSUPP, "%s", o->name);
	}
	if (!(o->can & VMM_CAN_SAVE) || !(o->can & VMM_CAN_IRQCHIP)) {
		cr_assert_eq(o->get_vm_state(NULL, buf, &bytes), -EOPNOTSUPP, "%s", o->name);
		cr_assert_eq(o->set_vm_state(NULL, buf, bytes), -EOPNOTSUPP, "%s", o->name);
	}
	cr_assert(ticks == 5 && bytes == 7);
	cr_assert(!(o->can & VMM_CAN_WAKE) || (o->can & VMM_CAN_IRQCHIP), "%s", o->name);
	cr_assert(!(o->can & VMM_CAN_PMI) || (o->can & (VMM_CAN_LAPIC | VMM_CAN_IRQCHIP)), "%s",
		  o->name);
	cr_assert(!(o->can & VMM_CAN_LBR) || (o->can & VMM_CAN_TALLY), "%s", o->name);
}

Test(engine_flags, tables)
{
	struct vmm_engine_ops fake = fake_ops;

	fake.open = vmm_emu_ops.open; /* it has no reader */
	fake.close = vmm_emu_ops.close;
	check_table(&fake);
	for (EACH_ENGINE(ops))
		check_table(ops);
}

Test(engine_flags, rdpmc)
{
	struct bed b;

	for (EACH_ENGINE(ops)) {
		if (!START(&b, ops, g_rdpmc))
			continue;
		if (ops->can & VMM_CAN_RDPMC) {
			cr_assert_eq(run(&b), VMM_EXIT_RDPMC, "%s", ops->name);
			b.run.u.pmc.data = 0x123;
			b.run.u.pmc.fault = false;
			cr_assert_eq(outcome(&b), 0x123, "%s", ops->name);
		} else {
			/* #GP without an IDT. */
			cr_assert_eq(run(&b), VMM_EXIT_SHUTDOWN, "%s", ops->name);
		}
		stop(&b);
	}
}

Test(engine_flags, lapic)
{
	struct bed b;

	for (EACH_ENGINE(ops)) {
		if (!start_vcpu(&b, ops, 3, g_lapic, g_lapic_end))
			continue;
		if (ops->can & VMM_CAN_LAPIC) {
			cr_assert_eq(outcome(&b), 3, "%s", ops->name);
		} else if (run(&b) == VMM_EXIT_RDMSR) {
			/* Nobody's: the caller makes it #GP. */
			cr_assert_eq(b.run.u.msr.index, 0x802);
		} else {
			cr_assert_eq(b.run.exit, VMM_EXIT_SHUTDOWN, "%s", ops->name);
		}
		stop(&b);
	}
}

Test(engine_flags, pmi)
{
	static const struct {
		uint16_t limit;
		uint64_t base;
	} __attribute__((packed)) idtr = {0x2f, IDT};
	uint64_t handler = CODE + (uint64_t)(g_pmi_nmi - g_pmi);
	struct bed b;

	for (EACH_ENGINE(ops)) {
		uint64_t *gate;

		if (!(ops->can & VMM_CAN_PMI) || !START(&b, ops, g_pmi))
			continue;
		if (!(ops->can & VMM_CAN_LAPIC)) {
			cr_assert_eq(ops->pmi(b.v), -EOPNOTSUPP, "%s", ops->name);
			stop(&b);
			continue;
		}
		/* An interrupt gate for vector 2 (SDM vol. 3, 6.14.1). */
		gate = (uint64_t *)(b.ram.base + IDT + 2 * 16);
		gate[0] = (handler & 0xffff) | 8 << 16 | 0x8e00ULL << 32 |
			  (handler >> 16 & 0xffff) << 48;
		memcpy(b.ram.base + IDTR, &idtr, sizeof(idtr));
		cr_assert_eq(run(&b), VMM_EXIT_HLT, "%s", ops->name);
		cr_assert_eq(run(&b), VMM_EXIT_HLT, "%s", ops->name);
		cr_assert_eq(ops->pmi(b.v), 0);
		cr_assert_eq(outcome(&b), 7, "%s", ops->name);
		stop(&b);
	}
}

Test(engine_flags, save)
{
	struct kvm_sregs sregs;
	struct kvm_regs regs;
	size_t bytes = 65536;
	static char buf[65536];
	struct bed a, b;

	for (EACH_ENGINE(ops)) {
		if (!(ops->can & VMM_CAN_SAVE) || !START(&a, ops, g_rdpmc))
			continue;
		if (!(ops->can & VMM_CAN_RDPMC)) {
			/* An exit that waits for its answer is not saved, and nothing is
			 * left half done. */
			stop(&a);
			cr_assert(START(&a, ops, g_work));
			cr_assert_eq(run(&a), VMM_EXIT_IO);
			cr_assert_eq(ops->get_state(a.v, buf, &bytes), -EBUSY);
			stop(&a);
			continue;
		}
		/* In the middle of an exit: state that kvm_regs lacks. */
		cr_assert_eq(run(&a), VMM_EXIT_RDPMC);
		cr_assert_eq(ops->get_sregs(a.v, &sregs), 0);
		cr_assert_eq(ops->get_regs(a.v, &regs), 0);
		cr_assert_eq(ops->get_state(a.v, buf, &bytes), 0);
		cr_assert(START(&b, ops, g_rdpmc));
		cr_assert_eq(ops->set_sregs(b.v, &sregs), 0);
		cr_assert_eq(ops->set_regs(b.v, &regs), 0);
		cr_assert_eq(ops->set_state(b.v, buf, bytes), 0);
		b.run.u.pmc.data = 0x77;
		cr_assert_eq(outcome(&b), 0x77, "%s: the RDPMC was completed", ops->name);
		stop(&a);
		stop(&b);
	}
}

/* Budget, retired, tally and branch records. */
Test(engine_flags, tally)
{
	struct vpmu_emu_tally t;
	struct bed b;

	for (EACH_ENGINE(ops)) {
		if (!START(&b, ops, g_work))
			continue;
		memset(&t, 0, sizeof(t));
		t.lbr.ctl = VPMU_LBR_EN | VPMU_LBR_OS | VPMU_LBR_TYPES;
		t.lbr.depth = 32;
		b.run.budget = 100;
		if (ops->can & VMM_CAN_TALLY) {
			cr_assert_eq(ops->set_tally(b.v, &t), 0);
			cr_assert_eq(run(&b), VMM_EXIT_BUDGET, "%s", ops->name);
			cr_assert_eq(b.run.retired, 100);
			cr_assert_eq(t.ev[VPMU_EMU_OS][VPMU_EMU_INSTRUCTIONS], 100);
			t.alarm[0] = (struct vpmu_emu_alarm){
				.at = 151, .event = VPMU_EMU_INSTRUCTIONS, .modes = 3};
			t.armed = 1;
			cr_assert_eq(run(&b), VMM_EXIT_ALARM);
			cr_assert_eq(b.run.retired, 51);
		} else {
			/* To the OUT: no budget. */
			outcome(&b);
			cr_assert_eq(b.run.retired, 0, "%s", ops->name);
		}
		if (ops->can & VMM_CAN_LBR)
			cr_assert_eq(t.lbr.total, t.ev[VPMU_EMU_OS][VPMU_EMU_BRANCHES_TAKEN]);
		stop(&b);
	}
}

Test(engine_flags, guest_tsc)
{
	uint64_t before = 0, after = 0;
	struct bed b;

	for (EACH_ENGINE(ops)) {
		if (!(ops->can & VMM_CAN_GUEST_TSC) || !START(&b, ops, g_work))
			continue;
		cr_assert_eq(ops->guest_tsc(b.v, &before), 0);
		outcome(&b);
		cr_assert_eq(ops->guest_tsc(b.v, &after), 0);
		cr_assert_gt(after, before, "%s", ops->name);
		stop(&b);
	}
}

/* No engine gives its guests RAM outside of its slots. */
GUEST(g_hole, "mov $0x40000000,%eax\nmov (%rax),%rax\nhlt");

Test(engine_flags, ram)
{
	struct bed b;

	for (EACH_ENGINE(ops)) {
		uint64_t *pdpt;

		if (!START(&b, ops, g_hole))
			continue;
		/* Map the second GiB, where there is no RAM. */
		pdpt = (uint64_t *)(b.ram.base + VPMU_BOOT_PAGETABLES + 0x1000);
		pdpt[1] = 0x100000 | 3;
		*(uint64_t *)(b.ram.base + 0x100000) = 0x40000000 | 0x83;
		cr_assert_eq(run(&b), VMM_EXIT_ERROR, "%s", ops->name);
		cr_assert(strstr(b.run.u.error.msg, "0x40000000"), "%s: %s", ops->name,
			  b.run.u.error.msg);
		stop(&b);
	}
}
