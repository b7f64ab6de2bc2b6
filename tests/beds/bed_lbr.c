// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * LBR virtualization of a real kvm-amd: a guest that records its last branch, and one that does
 * not, in turns on one CPU. With lbrv=0 KVM ignores the guest's write.
 */
#include "tests/beds/bed_guest.h"

#include <criterion/criterion.h>

#include <fcntl.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <linux/kvm.h>

TestSuite(lbr);

/* DebugCtl := RDI; a branch; OUT; DebugCtl to RSI, FROM and TO of the last branch to R8 and R9;
 * OUT. */
extern const uint8_t lbr_guest[], lbr_from[], lbr_to[], lbr_end[];
__asm__(".pushsection .rodata\n"
	"lbr_guest: mov $0x1d9,%ecx\n mov %edi,%eax\n xor %edx,%edx\n wrmsr\n"
	"lbr_from: jmp lbr_to\n nop\n"
	"lbr_to: out %al,$0x10\n"
	"mov $0x1d9,%ecx\n rdmsr\n mov %eax,%esi\n mov $0x1db,%ecx\n rdmsr\n mov %eax,%r8d\n"
	"inc %ecx\n rdmsr\n mov %eax,%r9d\n out %al,$0x10\n"
	"lbr_end: .popsection");

#define FROM (BED_GUEST_CODE + (uint64_t)(lbr_from - lbr_guest))
#define TO   (BED_GUEST_CODE + (uint64_t)(lbr_to - lbr_guest))

static void lbr_load(const char *parameters)
{
	int fd = open("/kvm-amd.ko", O_RDONLY | O_CLOEXEC);

	cr_assert(fd >= 0);
	cr_assert(!syscall(SYS_delete_module, "kvm_amd", O_NONBLOCK));
	cr_assert(!syscall(SYS_finit_module, fd, parameters, 0), "%s", parameters);
	close(fd);
}

static void lbr_make(struct bed_guest *g, uint64_t debugctl)
{
	struct kvm_regs r;

	bed_guest_make(g);
	memcpy(g->ram, lbr_guest, (size_t)(lbr_end - lbr_guest));
	cr_assert(!ioctl(g->vcpu, KVM_GET_REGS, &r));
	r.rdi = debugctl;
	cr_assert(!ioctl(g->vcpu, KVM_SET_REGS, &r));
	cr_assert(!bed_guest_run(g));
}

/* The second OUT: what the guest has read, and what KVM says. */
static void lbr_check(struct bed_guest *g, uint64_t debugctl, uint64_t from, uint64_t to)
{
	struct {
		struct kvm_msrs h;
		struct kvm_msr_entry e[3];
	} m = {{.nmsrs = 3}, {{.index = 0x1d9}, {.index = 0x1db}, {.index = 0x1dc}}};
	struct kvm_regs r;

	cr_assert(!bed_guest_run(g));
	cr_assert(!ioctl(g->vcpu, KVM_GET_REGS, &r));
	cr_assert_eq(ioctl(g->vcpu, KVM_GET_MSRS, &m), 3);
	cr_expect_eq(r.rsi, debugctl, "DebugCtl 0x%llx", r.rsi);
	cr_expect_eq(r.r8, from, "from 0x%llx, not 0x%lx", r.r8, from);
	cr_expect_eq(r.r9, to, "to 0x%llx, not 0x%lx", r.r9, to);
	cr_expect_eq(m.e[0].data, debugctl);
	cr_expect_eq(m.e[1].data, from, "KVM: from 0x%llx", m.e[1].data);
	cr_expect_eq(m.e[2].data, to, "KVM: to 0x%llx", m.e[2].data);
}

static void lbr_turns(const char *parameters, uint64_t debugctl, uint64_t from, uint64_t to)
{
	struct bed_guest on, off;

	lbr_load(parameters);
	lbr_make(&on, 1);
	lbr_make(&off, 0);
	lbr_check(&on, debugctl, from, to);
	lbr_check(&off, 0, 0, 0);
	bed_guest_free(&on);
	bed_guest_free(&off);
}

Test(lbr, each_its_own)
{
	lbr_turns("lbrv=1", 1, FROM, TO);
}

Test(lbr, switched_off)
{
	lbr_turns("lbrv=0", 0, 0, 0);
}
