// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Guests with more than 3 GiB of RAM, on both engines: RAM on both sides of the hole below 4 GiB
 * can be read, written, executed and used for page tables; an access to the hole or behind the end
 * is an error that names the address; a snapshot has the pages of both sides. Only the pages that
 * are touched cost memory.
 */
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "machine_bed.h"
#include "tests/elf_image.h"
#include "vpmu/guest/abi.h"

#define FLAG 0x2a0000 /* the guest of a snapshot waits until this is not 0 */

/* Guest code at @name .. @name_end. RSI = boot info. RBX is the number of the step that fails. */
#define GUEST(name, ...)                                                                           \
	extern const char name[], name##_end[];                                                    \
	__asm__(".pushsection .rodata\n" #name ":\n"                                               \
		"mov $0x280000,%esp\n" __VA_ARGS__ "xor %ebx,%ebx\n1: mov %ebx,%eax\n"             \
		"out %eax,$0xf4\n" #name "_end:\n.popsection\n")

#define STEP(n) "mov $" #n ",%ebx\n"
#define PUT(at) "movabs $" #at ",%rax\nmov %rax,(%rax)\n"
#define GOT(at) "movabs $" #at ",%rax\ncmp %rax,(%rax)\njne 1f\n"
/* Every word has its own address in it, so that no two of them can be the same memory. */
#define ALL(op)                                                                                    \
	op(0x2ff000) op(0xbffffff8) op(0x100000000) op(0x1002ff000) op(0x13ffffff8)                \
		op(0x140000000) op(0x17ffffff8)

GUEST(g_both_sides, STEP(1) "movabs $0xc0000000,%rax\ncmp %rax,8(%rsi)\njne 1f\n"   /* mem_bytes */
			    "movabs $0x100000000,%rax\ncmp %rax,32(%rsi)\njne 1f\n" /* high_base */
			    "movabs $0x80000000,%rax\ncmp %rax,40(%rsi)\njne 1f\n"  /* high_bytes */
      STEP(2) ALL(PUT) ALL(GOT)
      /* Across two pages. */
      STEP(3) "movabs $0x100000ffc,%rdi\nmovabs $0x1122334455667788,%rax\nmov %rax,(%rdi)\n"
	      "cmpl $0x55667788,(%rdi)\njne 1f\ncmpl $0x11223344,4(%rdi)\njne 1f\n"
      /* Code that is written, runs, is written again, and runs. */
      STEP(4) "movabs $0x100001000,%rdi\nmovl $0xc3d8f7,(%rdi)\nmov $5,%eax\ncall *%rdi\n"
	      "cmp $-5,%eax\njne 1f\n"
	      "movl $0xc3d0f7,(%rdi)\nmov $5,%eax\nmov %cr3,%rcx\nmov %rcx,%cr3\ncall *%rdi\n"
	      "cmp $-6,%eax\njne 1f\n"
      /* The top page table moves there. */
      STEP(5) "mov %cr3,%rsi\nmovabs $0x100002000,%rdi\nmov $512,%ecx\ncld\nmov %rdi,%rdx\n"
	      "rep movsq\nmov %rdx,%cr3\n" ALL(GOT) "mov %cr3,%rax\ncmp %rax,%rdx\njne 1f\n");

/* Map the GiB at 3 GiB and that at 6 GiB, and read the first word of each. */
#define MAP_GIB(n)                                                                                 \
	"movl $(" #n "<<30|0x83),0x290000\nmovl $(" #n "<<30>>32),0x290004\n"                      \
	"movq $0x290003,0x11000+8*" #n "\nmov %cr3,%rax\nmov %rax,%cr3\n"
GUEST(g_hole, MAP_GIB(3) "mov $0xc0000000,%eax\nmov (%rax),%rcx\n");
GUEST(g_behind, "movl $0x80000083,0x290000\nmovl $1,0x290004\nmovq $0x290003,0x11030\n"
		"mov %cr3,%rax\nmov %rax,%cr3\nmovabs $0x180000000,%rax\nmov %rcx,(%rax)\n");

GUEST(g_saved, STEP(1) ALL(PUT) "mov $0x3f8,%edx\nmov $'r',%al\nout %al,%dx\nmov $10,%al\n"
				"out %al,%dx\n2: cmpl $0,0x2a0000\nje 2b\n" ALL(GOT));

static char image[] = "/tmp/it-memory-XXXXXX";

/* An image with @code, in a file. */
static void write_image(const char *code, const char *end)
{
	size_t n = (size_t)(end - code);
	struct {
		Elf64_Ehdr eh;
		Elf64_Phdr ph;
		char code[2048];
	} f = {
		.eh = elf_program(VPMU_BOOT_IMAGE + offsetof(__typeof__(f), code), 1),
		.ph = elf_segment(PF_R | PF_X, VPMU_BOOT_IMAGE, 0, sizeof(f)),
	};
	int fd = mkstemp(image);

	cr_assert_geq(fd, 0);
	cr_assert_leq(n, sizeof(f.code));
	memcpy(f.code, code, n);
	cr_assert_eq(write(fd, &f, sizeof(f)), (ssize_t)sizeof(f));
	close(fd);
}

#define IMAGE(name) write_image(name, name##_end)

static struct machine_vm *add(struct bed *b, const char *engine)
{
	bed_open(b, "");
	return bed_add(b, "name=big,memory=5G,image=%s,engine=%s", image, engine);
}

static void both_sides(const char *engine)
{
	struct machine_vm *vm;
	struct bed b;

	vm = add(&b, engine);
	cr_assert_eq(vm->vm->ram.nr, 2);
	bed_run(&b, 1);
	cr_assert_eq(vm->state, VM_DONE, "%s: %s", engine, vm->vm ? vm->vm->reason : "");
	cr_assert_eq(vm->status, 0, "%s: step %u", engine, vm->status);
	bed_close(&b);
}

Test(memory, both_sides_of_the_hole)
{
	IMAGE(g_both_sides);
	both_sides("emulator");
	if (bed_kvm())
		both_sides("kvm");
	unlink(image);
}

static void refused(const char *engine, const char *address)
{
	struct machine_vm *vm;
	struct bed b;

	vm = add(&b, engine);
	bed_run(&b, 1);
	cr_assert_eq(vm->state, VM_FAILED);
	cr_assert(strstr(vm->reason, address), "%s: %s", engine, vm->reason);
	bed_close(&b);
}

Test(memory, the_hole_is_no_memory)
{
	IMAGE(g_hole);
	refused("emulator", "guest-physical 0xc0000000");
	if (bed_kvm())
		refused("kvm", "guest-physical 0xc0000000");
	unlink(image);
}

Test(memory, nothing_behind_the_end)
{
	IMAGE(g_behind);
	refused("emulator", "guest-physical 0x180000000");
	if (bed_kvm())
		refused("kvm", "guest-physical 0x180000000");
	unlink(image);
}

Test(memory, snapshot)
{
	char file[64];
	struct machine_vm *vm;
	struct bed b;

	IMAGE(g_saved);
	snprintf(file, sizeof(file), "%s.snap", image);
	vm = add(&b, "emulator");
	bed_start(vm);
	machine_step(b.machine, 20);
	cr_assert_eq(b.nr_lines, 1, "it has written, and waits");
	bed_do(&b, "{'cmd':'vm-save','name':'big','file':'%s'}", file);
	bed_do(&b, "{'cmd':'vm-remove','name':'big'}");
	bed_do(&b, "{'cmd':'vm-restore','trust':true,'file':'%s'}", file);
	vm = machine_vm_find(b.machine, "big");
	cr_assert(vm);
	cr_assert_eq(vm->vm->ram.base[FLAG], 0);
	vm->vm->ram.base[FLAG] = 1;
	bed_run(&b, 1);
	cr_assert_eq(vm->state, VM_DONE);
	cr_assert_eq(vm->status, 0, "step %u", vm->status);
	bed_close(&b);
	unlink(file);
	unlink(image);
}
