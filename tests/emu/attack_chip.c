// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Guests that attack by interrupts: timers at their shortest period, IPIs, lines that stay
 * asserted, registers of APICs and devices. Their VMs have the hardware of stock kernels. See
 * attack.h.
 */
#include <string.h>

#include "tests/emu/attack.h"
#include "tests/emu/flat.h"

/* As attack.c lays them out. */
#define IDT	 0x5000ULL
#define PT	 0x14000ULL
#define WINDOW	 0x40000000ULL
#define HANDLERS 0x7000ULL /* 64 bytes each */
#define ON	 0x7800ULL
#define SIPI	 0x8000ULL /* where a start-up IPI with vector 8 leads */

#define LAPIC_PAGE  510 /* of the window */
#define IOAPIC_PAGE 509

#define GUEST FLAT_GUEST

/* clang-format off */
/* R9 is the vCPU's number. R10 is the I/O APIC's page, R11 the local APIC's. Vectors: 40H ends its
 * interrupt by the MSR, 41H by the page. */
#define MSR(n, v)  "mov $" #n ",%ecx\n mov $" #v ",%eax\n xor %edx,%edx\n wrmsr\n"
#define IOAPIC(n, v) "movl $" #n ",(%r10)\n movl $" #v ",0x10(%r10)\n"
#define PORT(p, v) "mov $" #p ",%edx\n mov $" #v ",%al\n out %al,(%dx)\n"
/* The line of the serial port stays asserted: the transmitter is empty, and its interrupt is on. */
#define ASSERTED PORT(0x3fc, 0x0b) PORT(0x3f9, 2)
#define OTHERS_WAIT "test %r9d,%r9d\n jz 1f\n sti\n 9: jmp 9b\n 1:\n"
#define OTHERS_HALT "test %r9d,%r9d\n jz 1f\n sti\n 9: hlt\n jmp 9b\n 1:\n"

GUEST(chip_plain, "1: inc %rax\n jmp 1b");
GUEST(chip_timer, MSR(0x83e, 0xb) MSR(0x832, 0x20040) MSR(0x838, 1) "sti\n 1: jmp 1b");
GUEST(chip_timer_hlt, MSR(0x83e, 0xb) MSR(0x832, 0x20040) MSR(0x838, 1) "sti\n 1: hlt\n jmp 1b");
GUEST(chip_timer_100, MSR(0x83e, 0xb) MSR(0x832, 0x20040) MSR(0x838, 100) "sti\n 1: hlt\n jmp 1b");
GUEST(chip_timer_masked, MSR(0x83e, 0xb) MSR(0x832, 0x30040) MSR(0x838, 1) "1: jmp 1b");
GUEST(chip_oneshot, MSR(0x83e, 0xb) MSR(0x832, 0x40) "sti\n mov $0x838,%ecx\n mov $1,%eax\n"
		    "1: wrmsr\n jmp 1b");
GUEST(chip_deadline, MSR(0x832, 0x40040) "sti\n 1: rdtsc\n add $200,%eax\n adc $0,%edx\n mov $0x6e0,%ecx\n"
		     "wrmsr\n hlt\n jmp 1b");
GUEST(chip_deadline_past, MSR(0x832, 0x40040) "sti\n mov $0x6e0,%ecx\n mov $1,%eax\n xor %edx,%edx\n"
			  "1: wrmsr\n jmp 1b");
GUEST(chip_timer_set, MSR(0x83e, 0xb) MSR(0x832, 0x10040) "mov $0x838,%ecx\n mov $0x1000000,%eax\n"
		      "1: wrmsr\n jmp 1b");
GUEST(chip_timer_read, MSR(0x83e, 0xb) MSR(0x832, 0x30040) MSR(0x838, 0x1000000) "mov $0x839,%ecx\n"
		       "1: rdmsr\n jmp 1b");
GUEST(chip_self, "sti\n mov $0x83f,%ecx\n mov $0x40,%eax\n xor %edx,%edx\n 1: wrmsr\n jmp 1b");
GUEST(chip_self_masked, "mov $0x83f,%ecx\n mov $0x40,%eax\n 1: wrmsr\n jmp 1b");
GUEST(chip_self_nmi, "mov $0x830,%ecx\n mov $0x40400,%eax\n xor %edx,%edx\n 1: wrmsr\n jmp 1b");
GUEST(chip_others, OTHERS_WAIT "sti\n mov $0x830,%ecx\n mov $0xc0040,%eax\n xor %edx,%edx\n 1: wrmsr\n jmp 1b");
GUEST(chip_others_hlt, OTHERS_HALT "sti\n mov $0x830,%ecx\n mov $0xc0040,%eax\n xor %edx,%edx\n 1: wrmsr\n jmp 1b");
GUEST(chip_all, "sti\n mov $0x830,%ecx\n mov $0x80040,%eax\n xor %edx,%edx\n 1: wrmsr\n jmp 1b");
GUEST(chip_all_hlt, "sti\n mov $0x830,%ecx\n mov $0xc0040,%eax\n xor %edx,%edx\n 1: wrmsr\n hlt\n jmp 1b");
GUEST(chip_all_masked, "mov $0x830,%ecx\n mov $0x80040,%eax\n xor %edx,%edx\n 1: wrmsr\n jmp 1b");
GUEST(chip_others_nmi, OTHERS_WAIT "mov $0x830,%ecx\n mov $0xc0400,%eax\n xor %edx,%edx\n 1: wrmsr\n jmp 1b");
GUEST(chip_others_nmi_hlt, OTHERS_HALT "mov $0x830,%ecx\n mov $0xc0400,%eax\n xor %edx,%edx\n 1: wrmsr\n jmp 1b");
GUEST(chip_init, OTHERS_WAIT "mov $0x830,%ecx\n xor %edx,%edx\n 1: mov $0xc4500,%eax\n wrmsr\n"
		 "mov $0xc4608,%eax\n wrmsr\n mov $200,%ebx\n 2: dec %ebx\n jnz 2b\n jmp 1b");
GUEST(chip_init_only, OTHERS_WAIT "mov $0x830,%ecx\n xor %edx,%edx\n mov $0xc4500,%eax\n 1: wrmsr\n jmp 1b");
GUEST(chip_nobody, "mov $0x830,%ecx\n mov $0x40,%eax\n mov $0x77,%edx\n 1: wrmsr\n jmp 1b");
GUEST(chip_eoi, "mov $0x80b,%ecx\n xor %eax,%eax\n xor %edx,%edx\n 1: wrmsr\n jmp 1b");
GUEST(chip_tpr, "mov $0x808,%ecx\n xor %eax,%eax\n xor %edx,%edx\n 1: wrmsr\n jmp 1b");
GUEST(chip_cr8, "xor %eax,%eax\n 1: mov %rax,%cr8\n jmp 1b");
GUEST(chip_mode, "mov $0x1b,%ecx\n xor %edx,%edx\n 1: mov $0xfee00100,%eax\n wrmsr\n"
		 "mov $0xfee00900,%eax\n wrmsr\n mov $0xfee00d00,%eax\n wrmsr\n jmp 1b");
GUEST(chip_tsc, "mov $0x10,%ecx\n 1: wrmsr\n jmp 1b");
GUEST(chip_rdtsc, "1: rdtsc\n jmp 1b");
GUEST(chip_kvmclock, "mov $0x4b564d01,%ecx\n mov $0x300001,%eax\n xor %edx,%edx\n 1: wrmsr\n jmp 1b");
GUEST(chip_lapic_load, "1: mov 0x20(%r11),%eax\n jmp 1b");
GUEST(chip_lapic_store, "1: movl $0,0xb0(%r11)\n jmp 1b");
GUEST(chip_lapic_self, "sti\n 1: movl $0x40041,0x300(%r11)\n jmp 1b");
GUEST(chip_hole, "1: mov 0x400(%r10),%eax\n jmp 1b");
GUEST(chip_line, IOAPIC(0x18, 0x8040) IOAPIC(0x19, 0) ASSERTED "sti\n 1: jmp 1b");
GUEST(chip_line_hlt, IOAPIC(0x18, 0x8040) IOAPIC(0x19, 0) ASSERTED "sti\n 1: hlt\n jmp 1b");
GUEST(chip_line_all, OTHERS_WAIT IOAPIC(0x18, 0x8040) IOAPIC(0x19, 0xff000000) ASSERTED "sti\n 2: jmp 2b");
GUEST(chip_line_all_hlt, OTHERS_HALT IOAPIC(0x18, 0x8040) IOAPIC(0x19, 0xff000000) ASSERTED "sti\n 2: hlt\n jmp 2b");
GUEST(chip_ioapic_load, "movl $0x18,(%r10)\n 1: mov 0x10(%r10),%eax\n jmp 1b");
GUEST(chip_ioapic_store, ASSERTED "movl $0x18,(%r10)\n 1: movl $0x8040,0x10(%r10)\n jmp 1b");
GUEST(chip_edges, IOAPIC(0x18, 0x40) IOAPIC(0x19, 0) PORT(0x3fc, 0x0b) "sti\n mov $0x3f9,%edx\n"
		  "1: mov $2,%al\n out %al,(%dx)\n xor %eax,%eax\n out %al,(%dx)\n jmp 1b");
GUEST(chip_edges_all, OTHERS_WAIT IOAPIC(0x18, 0x40) IOAPIC(0x19, 0xff000000) PORT(0x3fc, 0x0b) "sti\n mov $0x3f9,%edx\n"
		      "1: mov $2,%al\n out %al,(%dx)\n xor %eax,%eax\n out %al,(%dx)\n jmp 1b");
GUEST(chip_serial, "mov $0x3f8,%edx\n mov $65,%al\n 1: out %al,(%dx)\n jmp 1b");
GUEST(chip_lines, "mov $0x3f8,%edx\n mov $10,%al\n 1: out %al,(%dx)\n jmp 1b");
GUEST(chip_lines_all, "mov $0x3f8,%edx\n 1: mov $65,%al\n out %al,(%dx)\n mov $10,%al\n out %al,(%dx)\n jmp 1b");
GUEST(chip_serial_in, "mov $0x3fd,%edx\n 1: in (%dx),%al\n jmp 1b");
GUEST(chip_nothing, "1: in $0x71,%al\n jmp 1b");

/* Handlers: of 40H, of 41H, and of all others. */
GUEST(chip_eoi_msr, "push %rax\n push %rcx\n push %rdx\n" MSR(0x80b, 0) "pop %rdx\n pop %rcx\n pop %rax\n iretq");
GUEST(chip_eoi_page, "movl $0,0xb0(%r11)\n iretq");
GUEST(chip_iretq, "iretq");
/* Each vCPU begins by enabling its local APIC. */
GUEST(chip_on, MSR(0x80f, 0x1ff) "xor %eax,%eax\n xor %ecx,%ecx\n jmp *%r8");
GUEST(chip_on_page, "movl $0x1ff,0xf0(%r11)\n jmp *%r8");
GUEST(chip_real, ".code16\n 1: jmp 1b\n .code64");
/* clang-format on */

#define A(name, code, vcpus, xapic)                                                                \
	{                                                                                          \
		{name, code, code##_end, 0, false, 0}, vcpus, xapic                                \
	}

const struct chip_attack chip_attacks[] = {
	A("plain, 1 vCPU", chip_plain, 1, false),
	A("plain, 4 vCPUs", chip_plain, 4, false),
	A("timer of 1 ns", chip_timer, 1, false),
	A("timer of 1 ns, hlt", chip_timer_hlt, 1, false),
	A("timer of 1 ns, hlt, 4 vCPUs", chip_timer_hlt, 4, false),
	A("timer of 100 ns, hlt", chip_timer_100, 1, false),
	A("timer of 1 ns, masked", chip_timer_masked, 1, false),
	A("one-shot timer", chip_oneshot, 1, false),
	A("TSC deadline, hlt", chip_deadline, 1, false),
	A("TSC deadline, hlt, 4 vCPUs", chip_deadline, 4, false),
	A("TSC deadline that has passed", chip_deadline_past, 1, false),
	A("timer set", chip_timer_set, 1, false),
	A("timer read", chip_timer_read, 1, false),
	A("self IPI", chip_self, 1, false),
	A("self IPI, IF = 0", chip_self_masked, 1, false),
	A("self NMI", chip_self_nmi, 1, false),
	A("IPI to 3 others", chip_others, 4, false),
	A("IPI to 15 others", chip_others, 16, false),
	A("IPI to 3 that halt", chip_others_hlt, 4, false),
	A("IPI to 15 that halt", chip_others_hlt, 16, false),
	A("16 vCPUs, IPIs to all", chip_all, 16, false),
	A("16 vCPUs, IPIs to all, hlt", chip_all_hlt, 16, false),
	A("16 vCPUs, IPIs to all, IF = 0", chip_all_masked, 16, false),
	A("NMI to 15 others", chip_others_nmi, 16, false),
	A("NMI to 15 that halt", chip_others_nmi_hlt, 16, false),
	A("INIT and start-up to 15 others", chip_init, 16, false),
	A("INIT to 15 others", chip_init_only, 16, false),
	A("IPI to nobody", chip_nobody, 16, false),
	A("x2APIC EOI", chip_eoi, 1, false),
	A("x2APIC TPR", chip_tpr, 1, false),
	A("mov cr8", chip_cr8, 1, false),
	A("APIC off and on", chip_mode, 1, false),
	A("wrmsr tsc", chip_tsc, 4, false),
	A("rdtsc, 4 vCPUs", chip_rdtsc, 4, false),
	A("KVM's clock", chip_kvmclock, 1, false),
	A("xAPIC load", chip_lapic_load, 1, true),
	A("xAPIC store", chip_lapic_store, 1, true),
	A("xAPIC self IPI", chip_lapic_self, 1, true),
	A("load where nothing is", chip_hole, 1, false),
	A("asserted line", chip_line, 1, false),
	A("asserted line, hlt", chip_line_hlt, 1, false),
	A("asserted line, 16 vCPUs", chip_line_all, 16, false),
	A("asserted line, 16 vCPUs, hlt", chip_line_all_hlt, 16, false),
	A("I/O APIC load", chip_ioapic_load, 1, false),
	A("I/O APIC store", chip_ioapic_store, 1, false),
	A("edges of the serial port", chip_edges, 1, false),
	A("edges to 16 vCPUs", chip_edges_all, 16, false),
	A("serial port", chip_serial, 1, false),
	A("empty lines", chip_lines, 1, false),
	A("short lines, 4 vCPUs", chip_lines_all, 4, false),
	A("serial port, in", chip_serial_in, 1, false),
	A("port of nothing", chip_nothing, 1, false),
};
const size_t nr_chip_attacks = sizeof(chip_attacks) / sizeof(chip_attacks[0]);

static void put(uint8_t *ram, uint64_t at, uint64_t x)
{
	memcpy(ram + at, &x, sizeof(x));
}

static void gate(uint8_t *ram, unsigned int vec, unsigned int n)
{
	put(ram, IDT + vec * 16, (HANDLERS + n * 64) | 0x08ULL << 16 | 0x8eULL << 40);
	put(ram, IDT + vec * 16 + 8, 0);
}

int chip_attack_load(const struct chip_attack *c, const struct vmm_engine_ops *ops,
		     struct vmm_engine_vcpu *v, unsigned int i, uint8_t *ram)
{
	struct kvm_sregs s;
	struct kvm_regs r;
	int ret = attack_load(&c->attack, ops, v, ram);

	memcpy(ram + HANDLERS, chip_iretq, (size_t)(chip_iretq_end - chip_iretq));
	memcpy(ram + HANDLERS + 64, chip_eoi_msr, (size_t)(chip_eoi_msr_end - chip_eoi_msr));
	memcpy(ram + HANDLERS + 128, chip_eoi_page, (size_t)(chip_eoi_page_end - chip_eoi_page));
	if (c->xapic)
		memcpy(ram + ON, chip_on_page, (size_t)(chip_on_page_end - chip_on_page));
	else
		memcpy(ram + ON, chip_on, (size_t)(chip_on_end - chip_on));
	memcpy(ram + SIPI, chip_real, (size_t)(chip_real_end - chip_real));
	for (unsigned int vec = 0; vec < 256; vec++)
		gate(ram, vec, vec == 0x40 ? 1 : vec == 0x41 ? 2 : 0);
	put(ram, PT + LAPIC_PAGE * 8, 0xfee00000 | 7);
	put(ram, PT + IOAPIC_PAGE * 8, 0xfec00000 | 7);
	if (!ret)
		ret = ops->get_sregs(v, &s);
	if (!ret) {
		if (c->xapic)
			s.apic_base &= ~(1ULL << 10);
		ret = ops->set_sregs(v, &s);
	}
	if (!ret)
		ret = ops->get_regs(v, &r);
	if (ret)
		return ret;
	r.rip = ON;
	r.rsp -= i * 4096ULL;
	r.r9 = i;
	r.r10 = WINDOW + IOAPIC_PAGE * 4096;
	r.r11 = WINDOW + LAPIC_PAGE * 4096;
	return ops->set_regs(v, &r);
}
