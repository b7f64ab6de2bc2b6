// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * vmm/vcpu with the emulator: a guest that counts its user code from -n, so that the PMI comes
 * behind the n-th instruction, which may be a jump to where nothing is. The guest's NMI handler
 * writes the address that the PMI interrupted to the exit port.
 */
#include <string.h>

#include "tests/elf_image.h"
#include "vm_bed.h"
#include "vpmu/guest/abi.h"

/* The image: offsets in the file are offsets from VPMU_BOOT_IMAGE. */
#define BASE	 VPMU_BOOT_IMAGE
#define CODE	 0x1000
#define IDT	 0x2000
#define PML4	 0x3000
#define PDPT	 0x4000
#define GDT	 0x5000
#define TSS	 0x5100
#define TABLE	 0x5200 /* MSRs to write: index, 0, value */
#define GDTR	 0x5300
#define IDTR	 0x5310
#define BYTES	 0x8000
#define NOWHERE	 0x7012345000ULL
#define PF_ENDED 15

extern const uint8_t g_start[], g_user[], g_nmi[], g_pf[], g_end[];
__asm__(".pushsection .rodata\n"
	"g_start: mov $0x203000,%eax\n mov %rax,%cr3\n mov $0x208000,%esp\n"
	"lgdt 0x205300\n lidt 0x205310\n mov $0x30,%eax\n ltr %ax\n"
	"mov $0x205200,%esi\n"
	"1: mov (%rsi),%ecx\n test %ecx,%ecx\n jz 2f\n mov 8(%rsi),%eax\n mov 12(%rsi),%edx\n"
	"wrmsr\n add $16,%rsi\n jmp 1b\n"
	"2: pushq $0x23\n pushq $0x207000\n pushq $2\n pushq $0x2b\n"
	"pushq $0x201000 + g_user - g_start\n iretq\n"
	"g_user: nop\n nop\n movabs $0x7012345000,%rax\n jmp *%rax\n"
	"g_pf: mov $15,%eax\n jmp 3f\n"
	"g_nmi: mov (%rsp),%rax\n"
	"3: mov $0xf4,%edx\n out %eax,%dx\n hlt\n"
	"g_end:\n .popsection\n");

static uint8_t file[BYTES];

static void put64(unsigned int at, uint64_t x)
{
	memcpy(file + at, &x, 8);
}

static void gate(unsigned int vec, const uint8_t *handler)
{
	uint64_t to = BASE + CODE + (uint64_t)(handler - g_start);

	put64(IDT + vec * 16, (to & 0xffff) | 0x8e00ULL << 32 | 8 << 16 | (to & 0xffff0000) << 32);
}

struct msr {
	uint32_t index;
	uint64_t value;
};

static struct image image(const struct msr *msrs, size_t n)
{
	const Elf64_Ehdr eh = elf_program(BASE + CODE, 1);
	const Elf64_Phdr ph = elf_segment(PF_R | PF_W | PF_X, BASE, 0, BYTES);

	memset(file, 0, sizeof(file));
	memcpy(file, &eh, sizeof(eh));
	memcpy(file + sizeof(eh), &ph, sizeof(ph));
	memcpy(file + CODE, g_start, (size_t)(g_end - g_start));
	gate(2, g_nmi);
	gate(14, g_pf);
	put64(PML4, (BASE + PDPT) | 7);
	put64(PDPT, 0x80 | 7); /* one page of 1 GiB */
	put64(GDT + 0x08, 0x00af9b000000ffff);
	put64(GDT + 0x10, 0x00cf93000000ffff);
	put64(GDT + 0x20, 0x00cff3000000ffff);
	put64(GDT + 0x28, 0x00affb000000ffff);
	put64(GDT + 0x30, 0x0000890000000067 | (uint64_t)(BASE + TSS) << 16);
	put64(TSS + 4, BASE + BYTES); /* RSP0 */
	put64(GDTR, 0x3f | (uint64_t)(BASE + GDT) << 16);
	put64(IDTR, 0xfff | (uint64_t)(BASE + IDT) << 16);
	for (size_t i = 0; i < n; i++) {
		put64(TABLE + (unsigned int)i * 16, msrs[i].index);
		put64(TABLE + (unsigned int)i * 16 + 8, msrs[i].value);
	}
	return (struct image){.name = "pmi.elf", .data = file, .bytes = sizeof(file)};
}

/* The status that the guest ends with. */
static uint32_t play(enum vpmu_guest_model model, const struct image *img, unsigned int slice)
{
	struct host_config config = one_pcpu;
	struct vmm_engine *engine;
	char err[256] = "";
	uint32_t status;

	config.slice_insns = slice;
	bed_host(&config);
	cr_assert_eq(vmm_emu_ops.open(&engine, err, sizeof(err)), 0);
	cr_assert_eq(bed_create((struct vm_opts){.vcpus = 1,
						 .memory_bytes = 4 << 20,
						 .image = img,
						 .pmu.model = model,
						 .ops = &vmm_emu_ops,
						 .engine = engine},
				err),
		     0, "%s", err);
	bed_start();
	bed_run();
	cr_assert_eq(b.vm->vcpus[0].state, VCPU_EXITED);
	status = b.vm->vcpus[0].status;
	bed_fini();
	vmm_emu_ops.close(engine);
	return status;
}

static const struct model {
	enum vpmu_guest_model model;
	uint32_t sel, ctr, global;
	uint32_t branches; /* the event */
} models[] = {
	{VPMU_GUEST_INTEL_V2, 0x186, 0xc1, 0x38f, 0xc4},
	{VPMU_GUEST_INTEL_V3, 0x186, 0xc1, 0x38f, 0xc4},
	{VPMU_GUEST_INTEL_V4, 0x186, 0xc1, 0x38f, 0xc4},
	{VPMU_GUEST_INTEL_V5, 0x186, 0xc1, 0x38f, 0xc4},
	{VPMU_GUEST_AMD_K7, 0xc0010000, 0xc0010004, 0, 0xc2},
	{VPMU_GUEST_AMD_CORE, 0xc0010200, 0xc0010201, 0, 0xc2},
	{VPMU_GUEST_AMD_V2, 0xc0010200, 0xc0010201, 0xc0000301, 0xc2},
};

/* Where the PMI of the @n-th event @event interrupts. */
static uint32_t pmi_at(const struct model *m, uint32_t event, unsigned int n, unsigned int slice)
{
	const struct msr msrs[] = {
		{0x80f, 0x1ff}, /* local APIC on */
		{0x834, 0x400}, /* LVTPC: NMI */
		{m->ctr, (m->branches == 0xc2 ? 1ULL << 48 : 1ULL << 32) - n},
		{m->sel, 0x510000 | event}, /* EN INT USR */
		{m->global, 1},
	};
	struct image img = image(msrs, m->global ? 5 : 4);

	return play(m->model, &img, slice);
}

Test(vcpu_emu, pmi_at_a_jump_to_nowhere)
{
	uint32_t user = BASE + CODE + (uint32_t)(g_user - g_start);
	const uint32_t behind[] = {user + 1, user + 2, user + 12, (uint32_t)NOWHERE, PF_ENDED};
	static const unsigned int slices[] = {1, 3, 100000};

	for (unsigned int i = 0; i < sizeof(models) / sizeof(models[0]); i++)
		for (unsigned int s = 0; s < 3; s++) {
			const struct model *m = &models[i];
			uint32_t at;

			/* Each user instruction; there is no fifth, only the page fault. */
			for (unsigned int n = 1; n <= 5; n++) {
				at = pmi_at(m, 0xc0, n, slices[s]);
				cr_assert_eq(at, behind[n - 1], "%s, slices of %u, period %u: 0x%x",
					     vpmu_guest_model_name(m->model), slices[s], n, at);
			}
			at = pmi_at(m, m->branches, 1, slices[s]);
			cr_assert_eq(at, (uint32_t)NOWHERE, "%s, slices of %u, branches: 0x%x",
				     vpmu_guest_model_name(m->model), slices[s], at);
		}
}
