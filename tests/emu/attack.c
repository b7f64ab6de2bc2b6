// SPDX-License-Identifier: GPL-2.0-or-later
/* The guests of attack.h: page tables, descriptors and code. */
#include <string.h>

#include "tests/emu/attack.h"
#include "tests/emu/flat.h"
#include "vmm/emu/svm/vmcb.h"

#define PML4	 0x10000ULL
#define PDPT	 0x11000ULL
#define PD	 0x12000ULL
#define PD2	 0x13000ULL
#define PT	 0x14000ULL
#define HANDLERS 0x3000ULL /* 16 bytes per vector */
#define TSS	 0x4000ULL
#define IDT	 0x5000ULL
#define GDT	 0x6000ULL
#define STACK0	 0x80000ULL
#define STACK	 0x90000ULL
#define IST1	 0xa0000ULL
#define VMCB_AT	 0xb0000ULL
#define NPT	 0xb1000ULL /* three tables */
#define CODE	 ATTACK_CODE
#define DATA	 0x300000ULL
#define FIELD	 0x400000ULL   /* 1 MiB of short jumps, and the targets of JUMPS */
#define PAGES	 0x600000ULL   /* the window's mappings */
#define CHAIN	 0x800000ULL   /* 8 MiB of pointers to pointers */
#define WINDOW	 0x40000000ULL /* 511 pages of 4 KiB; the last one is not mapped */

#define GUEST(name, ...)                                                                           \
	extern const uint8_t name[], name##_end[];                                                 \
	__asm__(".pushsection .rodata\n.balign 16\n.globl " #name "\n" #name ":\n" __VA_ARGS__     \
		"\n.globl " #name "_end\n" #name "_end:\n.popsection\n")

enum { /* attack.special */
       NOTHING,
       STEPS,	 /* single steps: TF, and a #DB handler that returns */
       FAULTS,	 /* #PF and #UD handlers skip two bytes; INT 80H returns */
       NO_FETCH, /* the #PF handler cannot be fetched */
       SYSCALLS,
       DF,	     /* RFLAGS.DF */
       FIELDS,	     /* FIELD is full of short jumps */
       JUMPS,	     /* DATA is a table of 2,000 places in FIELD */
       CHASE,	     /* CHAIN is filled */
       WORLDS,	     /* RAX has a VMCB of a guest at FIELD */
       WORLDS_TOUCH, /* it touches pages, and each VMRUN flushes its translations */
       WORLDS_FLUSH, /* each VMRUN flushes */
       WORLDS_NPT,   /* WORLDS_TOUCH with nested page tables */
       WORLDS_FILL,  /* it has filled its TLB with pages that it stores to */
       WORLDS_INSIDE /* its code is in the page of the VMCB */
};

/* clang-format off */
/* RDI = DATA, RSI = WINDOW, RBX = PAGES, R8 = CODE at the start. */
GUEST(att_plain, "1: add %rax,%rcx\n mov 8(%rdi),%rdx\n lea 1(%rdx),%rdx\n mov %rdx,8(%rdi)\n"
		 "test $7,%dl\n jz 2f\n xor %rdx,%rcx\n 2: inc %rax\n cmp %rbx,%rax\n jne 1b\n jmp 1b");
GUEST(att_invlpg, "1: invlpg (%rdi)\n jmp 1b");
GUEST(att_invlpg4, "1: .rept 100\n invlpg (%rdi)\n .endr\n jmp 1b");
GUEST(att_invlpg_touch, "1: invlpg (%rsi)\n mov (%rsi),%eax\n mov %eax,4096(%rsi)\n jmp 1b");
GUEST(att_step, "1: inc %eax\n jmp 1b");
GUEST(att_cr3, "mov %cr3,%rax\n 1: mov %rax,%cr3\n jmp 1b");
GUEST(att_cr3_100, "mov %cr3,%rax\n 1: .rept 100\n mov %rax,%cr3\n .endr\n jmp 1b");
GUEST(att_cr3_touch, "mov %cr3,%rax\n 1: mov %rax,%cr3\n mov (%rsi),%edx\n mov 4096(%rsi),%edx\n"
		     "mov 8192(%rsi),%edx\n mov (%rdi),%edx\n jmp 1b");
GUEST(att_cr0, "mov %cr0,%rax\n 1: mov %rax,%cr0\n jmp 1b");
GUEST(att_cr4, "mov %cr4,%rax\n 1: xor $0x80,%al\n mov %rax,%cr4\n jmp 1b"); /* PGE */
GUEST(att_cr4_same, "mov %cr4,%rax\n 1: mov %rax,%cr4\n jmp 1b");
GUEST(att_efer, "mov $0xc0000080,%ecx\n rdmsr\n 1: wrmsr\n jmp 1b");
GUEST(att_pf, "add $511*4096,%rsi\n 1: mov (%rsi),%eax\n jmp 1b");
GUEST(att_no_fetch, "add $511*4096,%rsi\n 1: mov (%rsi),%eax\n jmp 1b");
GUEST(att_ud, "1: ud2\n jmp 1b");
GUEST(att_int, "1: int $0x80\n jmp 1b");
GUEST(att_syscall, "1: syscall\n jmp 1b"); /* in CPL 3; the kernel is a SYSRET */
GUEST(att_iret, "mov %rsp,%rbp\n 1: push $0x10\n push %rbp\n pushf\n push $8\n lea 1b(%rip),%rax\n"
		" push %rax\n iretq");
GUEST(att_lret, "1: push $8\n lea 1b(%rip),%rax\n push %rax\n lretq");
GUEST(att_cmps, "1: mov $65536,%ecx\n mov %rbx,%rsi\n lea 65536(%rbx),%rdi\n repe cmpsb\n jmp 1b");
GUEST(att_cmps_short, "1: mov $3,%ecx\n mov %rbx,%rsi\n lea 65536(%rbx),%rdi\n repe cmpsb\n jmp 1b");
GUEST(att_scas, "mov $1,%al\n 1: mov $65536,%ecx\n mov %rbx,%rdi\n repne scasb\n jmp 1b");
GUEST(att_lods, "1: mov $65536,%ecx\n mov %rbx,%rsi\n rep lodsb\n jmp 1b");
GUEST(att_movs_back, "std\n 1: mov $65536,%ecx\n lea 65535(%rbx),%rsi\n lea 131072(%rsi),%rdi\n"
		     "rep movsb\n jmp 1b");
GUEST(att_cmps_back, "std\n 1: mov $65536,%ecx\n lea 65535(%rbx),%rsi\n lea 131072(%rsi),%rdi\n"
		     "repe cmpsb\n jmp 1b");
GUEST(att_stos_back, "std\n 1: mov $65536,%ecx\n lea 65535(%rbx),%rdi\n rep stosb\n jmp 1b");
GUEST(att_movs, "1: mov $65536,%ecx\n mov %rbx,%rsi\n lea 131072(%rsi),%rdi\n rep movsb\n jmp 1b");
GUEST(att_movs_overlap, "1: mov $65536,%ecx\n mov %rbx,%rsi\n lea 1(%rsi),%rdi\n rep movsb\n jmp 1b");
GUEST(att_movs_cross, "1: mov $200,%ecx\n lea 4095(%rbx),%rsi\n lea 131075(%rsi),%rdi\n"
		      "2: movsq\n add $4088,%rsi\n add $4088,%rdi\n dec %ecx\n jnz 2b\n jmp 1b");
GUEST(att_stos_one, "1: mov $1,%ecx\n mov %rbx,%rdi\n rep stosb\n jmp 1b");
GUEST(att_stos, "1: mov $65536,%ecx\n mov %rbx,%rdi\n rep stosb\n jmp 1b");
GUEST(att_stosw, "1: mov $65536,%ecx\n mov %rbx,%rdi\n rep stosw\n jmp 1b");
GUEST(att_cross_store, "1: mov %eax,4094(%rsi)\n jmp 1b");
GUEST(att_cross_store100, "1: .rept 100\n mov %rax,4093(%rsi)\n .endr\n jmp 1b");
GUEST(att_cross_load100, "1: .rept 100\n mov 4093(%rsi),%rax\n .endr\n jmp 1b");
GUEST(att_cross_rmw100, "1: .rept 100\n add %rax,4093(%rsi)\n .endr\n jmp 1b");
GUEST(att_tlb_miss, "1: mov %rsi,%rdx\n mov $510,%ecx\n 2: mov (%rdx),%eax\n add $4096,%rdx\n"
		    "dec %ecx\n jnz 2b\n jmp 1b");
GUEST(att_tlb_miss_unrolled, "1: .set i,0\n .rept 510\n mov i*4096(%rsi),%eax\n .set i,i+1\n .endr\n jmp 1b");
GUEST(att_tlb_store, "1: .set i,0\n .rept 510\n mov %eax,i*4096(%rsi)\n .set i,i+1\n .endr\n jmp 1b");
GUEST(att_tlb_cross, "1: .set i,0\n .rept 509\n mov %rax,i*4096+4093(%rsi)\n .set i,i+1\n .endr\n jmp 1b");
GUEST(att_tlb_large, "1: .set i,0\n .rept 512\n mov i*4096(%rbx),%eax\n .set i,i+1\n .endr\n jmp 1b");
/* Fixed counter 0 on, then IA32_PERF_GLOBAL_CTRL on and off (SDM vol. 4). */
GUEST(att_pmu, "xor %edx,%edx\n mov $0x38d,%ecx\n mov $3,%eax\n wrmsr\n mov $0x186,%ecx\n"
	       "mov $0x4300c4,%eax\n wrmsr\n mov $0x187,%ecx\n mov $0x43003c,%eax\n wrmsr\n"
	       "mov $0x38f,%ecx\n 1: mov $3,%eax\n mov $1,%edx\n wrmsr\n xor %eax,%eax\n xor %edx,%edx\n"
	       "wrmsr\n jmp 1b");
/* The same with all counters, each of another event; then what looks at all of them. */
#define SELECT(n, event) "mov $0x186+" #n ",%ecx\n mov $" #event ",%eax\n wrmsr\n"
#define ALL_COUNTERS                                                                               \
	"xor %edx,%edx\n mov $0x38d,%ecx\n mov $0x333,%eax\n wrmsr\n"                             \
	SELECT(0, 0x4100c0) SELECT(1, 0x4200c0) SELECT(2, 0x4300c4) SELECT(3, 0x4320c4)            \
	SELECT(4, 0x4381d0) SELECT(5, 0x4382d0) SELECT(6, 0x4100c4) SELECT(7, 0x41003c)            \
	"mov $0x38f,%ecx\n mov $0xff,%eax\n mov $7,%edx\n wrmsr\n"
GUEST(att_pmu_all, ALL_COUNTERS "1: xor %eax,%eax\n xor %edx,%edx\n wrmsr\n mov $0xff,%eax\n mov $7,%edx\n"
				"wrmsr\n jmp 1b");
GUEST(att_pmu_status, ALL_COUNTERS "mov $0x38e,%ecx\n 1: rdmsr\n jmp 1b");
GUEST(att_pmu_clear, ALL_COUNTERS "mov $0x390,%ecx\n 1: wrmsr\n jmp 1b");
GUEST(att_pmu_read, ALL_COUNTERS "mov $7,%ecx\n 1: rdpmc\n jmp 1b");
GUEST(att_pmu_write, ALL_COUNTERS "mov $0xc8,%ecx\n 1: wrmsr\n jmp 1b");
GUEST(att_pmu_select, "xor %edx,%edx\n mov $0x38f,%ecx\n mov $3,%eax\n wrmsr\n mov $0x186,%ecx\n"
		      "1: mov $0x4300c4,%eax\n wrmsr\n mov $0x43003c,%eax\n wrmsr\n jmp 1b");
GUEST(att_rdmsr, "mov $0x38f,%ecx\n 1: rdmsr\n jmp 1b");
GUEST(att_rdpmc, "xor %ecx,%ecx\n 1: rdpmc\n jmp 1b");
GUEST(att_wrmsr_gp, "mov $0x12345,%ecx\n 1: wrmsr\n jmp 1b");
GUEST(att_out, "1: out %al,$0x80\n jmp 1b");
GUEST(att_in, "1: in $0x80,%al\n jmp 1b");
GUEST(att_serial, "mov $0x3f8,%edx\n mov $65,%al\n 1: out %al,(%dx)\n jmp 1b");
GUEST(att_split_lock, "1: lock incl 62(%rdi)\n jmp 1b");
GUEST(att_split_lock100, "1: .rept 100\n lock incq 62(%rdi)\n .endr\n jmp 1b");
GUEST(att_split_page, "1: .rept 100\n lock incq 4093(%rsi)\n .endr\n jmp 1b");
GUEST(att_lock, "1: .rept 100\n lock incl (%rdi)\n .endr\n jmp 1b");
GUEST(att_cmpxchg16b, "1: .rept 100\n lock cmpxchg16b (%rdi)\n .endr\n jmp 1b");
GUEST(att_cmpxchg, "1: .rept 100\n lock cmpxchg %rcx,(%rdi)\n .endr\n jmp 1b");
GUEST(att_smc, "1: incb 2f+1(%rip)\n 2: mov $1,%al\n jmp 1b");
GUEST(att_smc_page, "1: incb 1f+256(%rip)\n .rept 20\n incb 1f+256(%rip)\n .endr\n jmp 1b\n 1:");
GUEST(att_smc_straight, "1: .rept 100\n movb $0x90, 3f(%rip)\n 3: nop\n .endr\n jmp 1b");
/* A loop that runs just often enough to be translated, and then changes. */
GUEST(att_translate, "1: incb 3f+3(%rip)\n mov $70,%ecx\n 2: .rept 9\n add %rax,%rdx\n xor %rdx,%rbp\n"
		     "mov %rbp,(%rdi)\n .endr\n 3: add $1,%rax\n dec %ecx\n jnz 2b\n jmp 1b");
GUEST(att_decode, "mov $0x400000,%eax\n jmp *%rax");
GUEST(att_jumps, "1: mov (%rdi,%rcx,8),%rax\n inc %ecx\n cmp $2000,%ecx\n cmove %r9d,%ecx\n jmp *%rax");
GUEST(att_div, "mov $3,%ecx\n 1: .rept 100\n xor %edx,%edx\n div %rcx\n .endr\n jmp 1b");
GUEST(att_div_only, "xor %edx,%edx\n mov $1,%ecx\n 1: .rept 100\n div %rcx\n .endr\n jmp 1b");
GUEST(att_idiv, "xor %edx,%edx\n mov $1,%ecx\n 1: .rept 100\n idiv %ecx\n .endr\n jmp 1b");
GUEST(att_mul, "mov $3,%ecx\n 1: .rept 100\n mul %rcx\n .endr\n jmp 1b");
GUEST(att_rcl, "1: .rept 100\n rcl $7,%rax\n .endr\n jmp 1b");
GUEST(att_shld, "1: .rept 100\n shld $7,%rax,%rdx\n .endr\n jmp 1b");
GUEST(att_adc, "1: .rept 100\n adc %rax,%rdx\n .endr\n jmp 1b");
GUEST(att_bts, "1: .rept 100\n bts %rax,(%rdi)\n .endr\n jmp 1b");
GUEST(att_bsf, "1: .rept 100\n bsf %rax,%rdx\n popcnt %rdx,%rcx\n .endr\n jmp 1b");
GUEST(att_pushf, "1: .rept 50\n pushf\n popf\n .endr\n jmp 1b");
GUEST(att_enter, "1: .rept 50\n enter $16,$0\n leave\n .endr\n jmp 1b");
GUEST(att_push16, "1: .rept 50\n push %ax\n pop %ax\n .endr\n jmp 1b");
GUEST(att_popm, "1: .rept 50\n push %rax\n popq (%rdi)\n .endr\n jmp 1b");
GUEST(att_movsb1, "1: .rept 50\n mov %rbx,%rdi\n stosb\n .endr\n jmp 1b");
GUEST(att_cpuid, "1: xor %eax,%eax\n cpuid\n jmp 1b");
GUEST(att_rdtsc, "1: rdtsc\n jmp 1b");
GUEST(att_rdmsr_held, "mov $0xc0000080,%ecx\n 1: rdmsr\n jmp 1b");
GUEST(att_apic, "mov $0x80b,%ecx\n xor %eax,%eax\n xor %edx,%edx\n 1: wrmsr\n jmp 1b");
GUEST(att_mov_seg, "mov $0x10,%eax\n 1: mov %eax,%ds\n jmp 1b");
GUEST(att_mov_ss, "mov $0x10,%eax\n 1: mov %eax,%ss\n jmp 1b");
GUEST(att_sti, "1: cli\n sti\n jmp 1b");
GUEST(att_lgdt, "sgdt (%rdi)\n 1: lgdt (%rdi)\n jmp 1b");
GUEST(att_dr, "1: mov %rax,%dr0\n jmp 1b");
GUEST(att_swapgs, "1: swapgs\n jmp 1b");
GUEST(att_fence, "1: .rept 100\n mfence\n .endr\n jmp 1b");
GUEST(att_loop, "1: mov $100,%ecx\n 2: loop 2b\n jmp 1b");
GUEST(att_tiny, "1: inc %rax\n jmp 1b");
GUEST(att_xchg, "1: .rept 100\n xchg %rax,(%rdi)\n .endr\n jmp 1b");
GUEST(att_chase, "mov $0x800000,%eax\n 1: .rept 32\n mov (%rax),%rax\n .endr\n jmp 1b");
GUEST(att_setcc, "1: .rept 50\n add %eax,%edx\n seto %cl\n .endr\n jmp 1b");
/* World switches. The first instruction of the guest of att_vmmcall leaves it. */
GUEST(att_vmrun, "1: vmrun\n jmp 1b");
GUEST(att_vmrun_touch, "1: movq $0x400000,0xb0578\n vmrun\n jmp 1b");
/* The page at RDI holds code anew, so translations that stores use are searched. */
GUEST(att_vmrun_code, "1: movl $0xc390,(%rdi)\n call *%rdi\n vmrun\n jmp 1b");
GUEST(att_vmload, "1: vmload\n vmsave\n jmp 1b");
GUEST(att_clgi, "1: clgi\n stgi\n jmp 1b");
GUEST(att_vmmcall, "vmmcall");
GUEST(att_fill, "1: mov %ecx,(%rsi)\n add $4096,%rsi\n add $1,%cl\n jnz 1b\n vmmcall");
GUEST(att_touch, ".set i,0\n .rept 32\n mov i*4096(%rsi),%ecx\n .set i,i+1\n .endr\n vmmcall");
GUEST(att_call_gp, "mov $0x8000000000000000,%rax\n 1: jmp *%rax");

GUEST(att_skip2, "add $8,%rsp\n addq $2,(%rsp)\n iretq");
GUEST(att_skip2_ud, "addq $2,(%rsp)\n iretq");
GUEST(att_iretq, "iretq");
GUEST(att_sysretq, "sysretq");
/* x87 and SSE. SSE1 makes them legal, and leaves OSXMMEXCPT off: #XM is #UD then. */
#define SSE1 "mov %cr4,%rax\n or $0x200,%eax\n mov %rax,%cr4\n fninit\n"
#define TINY "movl $1,(%rdi)\n movl $0,4(%rdi)\n movl $1,8(%rdi)\n movl $1,12(%rdi)\n movups (%rdi),%xmm1\n"
#define MXCSR(x) "movl $" #x ",32(%rdi)\n ldmxcsr 32(%rdi)\n"
GUEST(att_fadd, SSE1 "fld1\n fldpi\n 1: .rept 50\n fadd %st(1),%st\n .endr\n jmp 1b");
GUEST(att_fst, SSE1 "fldpi\n 1: .rept 50\n fstl 4093(%rbx)\n .endr\n jmp 1b");
GUEST(att_fsin, SSE1 "fldpi\n 1: .rept 50\n fsin\n .endr\n jmp 1b");
GUEST(att_fyl2x, SSE1 "fldpi\n fldpi\n 1: .rept 25\n fyl2x\n fldl2e\n .endr\n jmp 1b");
GUEST(att_fprem, SSE1 "fld1\n fldpi\n fscale\n 1: .rept 25\n fld %st(0)\n fprem\n fstp %st(0)\n .endr\n jmp 1b");
GUEST(att_fbstp, SSE1 "1: .rept 25\n fldpi\n fbstp (%rdi)\n .endr\n jmp 1b");
GUEST(att_fdenormal, SSE1 TINY "fninit\n flds (%rdi)\n 1: .rept 50\n fmuls (%rdi)\n .endr\n jmp 1b");
GUEST(att_fnsave, SSE1 "1: .rept 25\n fnsave 4040(%rbx)\n frstor 4040(%rbx)\n .endr\n jmp 1b");
GUEST(att_fnstenv, SSE1 "1: .rept 50\n fnstenv 4090(%rbx)\n .endr\n jmp 1b");
GUEST(att_fxsave, SSE1 "1: .rept 25\n fxsave 3952(%rbx)\n fxrstor 3952(%rbx)\n .endr\n jmp 1b");
GUEST(att_fstcw, SSE1 "1: .rept 25\n fnstcw (%rdi)\n fldcw (%rdi)\n .endr\n jmp 1b");
GUEST(att_mmx, SSE1 "1: .rept 50\n pmaddwd %mm0,%mm1\n .endr\n jmp 1b");
GUEST(att_emms, SSE1 "1: .rept 25\n emms\n fldpi\n .endr\n jmp 1b");
GUEST(att_cvtpi2ps, SSE1 "1: .rept 50\n cvtps2pi %xmm0,%mm0\n .endr\n jmp 1b");
GUEST(att_paddb, SSE1 "1: .rept 50\n paddb %xmm0,%xmm1\n .endr\n jmp 1b");
GUEST(att_mulpd, SSE1 "1: .rept 50\n mulpd %xmm0,%xmm0\n .endr\n jmp 1b");
GUEST(att_divpd, SSE1 "mov $3,%eax\n cvtsi2sd %eax,%xmm0\n unpcklpd %xmm0,%xmm0\n 1: .rept 50\n"
		 "divpd %xmm0,%xmm1\n .endr\n jmp 1b");
GUEST(att_sqrtpd, SSE1 "mov $3,%eax\n cvtsi2sd %eax,%xmm0\n unpcklpd %xmm0,%xmm0\n 1: .rept 50\n"
		  "sqrtpd %xmm0,%xmm0\n addpd %xmm0,%xmm0\n .endr\n jmp 1b");
GUEST(att_denormal, SSE1 TINY "1: .rept 50\n mulps %xmm1,%xmm0\n .endr\n jmp 1b");
GUEST(att_underflow, SSE1 TINY MXCSR(0x1780) "xorps %xmm0,%xmm0\n 1: .rept 50\n"
		     "mulps %xmm1,%xmm0\n .endr\n jmp 1b");
GUEST(att_xm, SSE1 MXCSR(0x1f00) "cvtsi2ss %ebx,%xmm0\n 1: .rept 50\n"
	      ".byte 0x0f,0x5e,0xc0,0xc0,0x00\n .endr\n xorps %xmm0,%xmm0\n jmp 1b");
GUEST(att_comi, SSE1 "1: .rept 50\n ucomisd %xmm0,%xmm1\n .endr\n jmp 1b");
GUEST(att_movups, SSE1 "1: .rept 25\n movups 4088(%rbx),%xmm0\n movups %xmm0,12281(%rbx)\n .endr\n jmp 1b");
GUEST(att_movups_line, SSE1 "1: .rept 25\n movups 60(%rbx),%xmm0\n movups %xmm0,189(%rbx)\n .endr\n jmp 1b");
GUEST(att_maskmov, SSE1 "1: .rept 50\n maskmovdqu %xmm0,%xmm1\n .endr\n jmp 1b");
GUEST(att_ldmxcsr, SSE1 "1: .rept 25\n stmxcsr (%rdi)\n ldmxcsr (%rdi)\n .endr\n jmp 1b");
GUEST(att_clflush, SSE1 "1: .rept 50\n clflush (%rdi)\n .endr\n jmp 1b");
/* clang-format on */

#define A(name, code, effort, special)                                                             \
	{                                                                                          \
		name, code, code##_end, effort, (special) == CHASE, special                        \
	}

const struct attack attacks[] = {
	A("plain", att_plain, 0, NOTHING),
	A("invlpg", att_invlpg, 25297, NOTHING),
	A("invlpg x100", att_invlpg4, 46918, NOTHING),
	A("invlpg, touch", att_invlpg_touch, 4951, NOTHING),
	A("single-step", att_step, 21195, STEPS),
	A("mov cr3", att_cr3, 7291, NOTHING),
	A("mov cr3 x100", att_cr3_100, 11263, NOTHING),
	A("mov cr3, touch", att_cr3_touch, 5626, NOTHING),
	A("mov cr0", att_cr0, 7291, NOTHING),
	A("mov cr4", att_cr4, 4860, NOTHING),
	A("mov cr4, same", att_cr4_same, 500, NOTHING),
	A("wrmsr efer", att_efer, 7291, NOTHING),
	A("#pf", att_pf, 11227, FAULTS),
	A("#pf, no handler", att_no_fetch, 10000, NO_FETCH),
	A("#ud", att_ud, 13529, FAULTS),
	A("int 80", att_int, 12634, FAULTS),
	A("syscall", att_syscall, 2641, SYSCALLS),
	A("iretq", att_iret, 3241, NOTHING),
	A("far ret", att_lret, 4210, NOTHING),
	A("repe cmpsb", att_cmps, 102468, NOTHING),
	A("repe cmpsb of 3", att_cmps_short, 558, NOTHING),
	A("repne scasb", att_scas, 51503, NOTHING),
	A("rep lodsb", att_lods, 5402, NOTHING),
	A("rep movsb back", att_movs_back, 41213, NOTHING),
	A("repe cmpsb back", att_cmps_back, 102545, NOTHING),
	A("rep stosb back", att_stos_back, 51503, NOTHING),
	A("rep movsb", att_movs, 41200, NOTHING),
	A("rep movsb overlap", att_movs_overlap, 51287, NOTHING),
	A("movsq crossing", att_movs_cross, 915, NOTHING),
	A("rep stosb of 1", att_stos_one, 1036, NOTHING),
	A("rep stosb", att_stos, 51517, NOTHING),
	A("rep stosw", att_stosw, 102676, NOTHING),
	A("crossing store", att_cross_store, 1801, NOTHING),
	A("crossing store x100", att_cross_store100, 3565, NOTHING),
	A("crossing load x100", att_cross_load100, 1962, NOTHING),
	A("crossing rmw x100", att_cross_rmw100, 5169, NOTHING),
	A("tlb miss", att_tlb_miss, 1299, NOTHING),
	A("tlb miss x510", att_tlb_miss_unrolled, 5191, NOTHING),
	A("tlb store x510", att_tlb_store, 6801, NOTHING),
	A("tlb crossing x509", att_tlb_cross, 8255, NOTHING),
	A("tlb large x512", att_tlb_large, 3414, NOTHING),
	A("pmu on/off", att_pmu, 1028, NOTHING),
	A("pmu all on/off", att_pmu_all, 1028, NOTHING),
	A("pmu all status", att_pmu_status, 1800, NOTHING),
	A("pmu all clear", att_pmu_clear, 1800, NOTHING),
	A("pmu all rdpmc", att_pmu_read, 1800, NOTHING),
	A("pmu all write", att_pmu_write, 1800, NOTHING),
	A("pmu select", att_pmu_select, 1440, NOTHING),
	A("rdmsr", att_rdmsr, 1800, NOTHING),
	A("rdpmc", att_rdpmc, 1800, NOTHING),
	A("wrmsr #gp", att_wrmsr_gp, 1800, FAULTS),
	A("out", att_out, 1800, NOTHING),
	A("in", att_in, 1800, NOTHING),
	A("serial", att_serial, 1800, NOTHING),
	A("split lock", att_split_lock, 222, NOTHING),
	A("split lock x100", att_split_lock100, 445, NOTHING),
	A("split page lock x100", att_split_page, 7000, NOTHING),
	A("lock x100", att_lock, 445, NOTHING),
	A("cmpxchg16b x100", att_cmpxchg16b, 7040, NOTHING),
	A("cmpxchg x100", att_cmpxchg, 445, NOTHING),
	A("self-modifying", att_smc, 50085, NOTHING),
	A("store beside code", att_smc_page, 4124, NOTHING),
	A("self-modifying x100", att_smc_straight, 376788, NOTHING),
	A("translating", att_translate, 640, NOTHING),
	A("decoding", att_decode, 44204, FIELDS),
	A("indirect jumps", att_jumps, 542, JUMPS),
	A("div", att_div, 404, NOTHING),
	A("div only", att_div_only, 803, NOTHING),
	A("idiv", att_idiv, 803, NOTHING),
	A("mul", att_mul, 90, NOTHING),
	A("rcl", att_rcl, 1071, NOTHING),
	A("shld", att_shld, 447, NOTHING),
	A("adc", att_adc, 178, NOTHING),
	A("bts", att_bts, 892, NOTHING),
	A("bsf", att_bsf, 449, NOTHING),
	A("pushf", att_pushf, 2229, NOTHING),
	A("enter", att_enter, 2362, NOTHING),
	A("push16", att_push16, 1783, NOTHING),
	A("pop mem", att_popm, 1560, NOTHING),
	A("stosb", att_movsb1, 1293, NOTHING),
	A("cpuid", att_cpuid, 301, NOTHING),
	A("rdtsc", att_rdtsc, 450, NOTHING),
	A("rdmsr held", att_rdmsr_held, 450, NOTHING),
	A("apic eoi", att_apic, 1531, NOTHING),
	A("mov ds", att_mov_seg, 1846, NOTHING),
	A("mov ss", att_mov_ss, 4545, NOTHING),
	A("sti", att_sti, 2400, NOTHING),
	A("lgdt", att_lgdt, 991, NOTHING),
	A("mov dr", att_dr, 450, NOTHING),
	A("swapgs", att_swapgs, 450, NOTHING),
	A("mfence", att_fence, 2051, NOTHING),
	A("loop", att_loop, 90, NOTHING),
	A("tiny loop", att_tiny, 0, NOTHING),
	A("xchg", att_xchg, 445, NOTHING),
	A("chase", att_chase, 778, CHASE),
	A("seto", att_setcc, 224, NOTHING),
	A("x87 add", att_fadd, 15046, NOTHING),
	A("x87 store", att_fst, 20675, NOTHING),
	A("fsin", att_fsin, 19899, NOTHING),
	A("fyl2x", att_fyl2x, 17472, NOTHING),
	A("fprem", att_fprem, 16772, NOTHING),
	A("fbstp", att_fbstp, 18636, NOTHING),
	A("x87 denormal", att_fdenormal, 26900, NOTHING),
	A("fnsave", att_fnsave, 26789, NOTHING),
	A("fnstenv", att_fnstenv, 27663, NOTHING),
	A("fxsave", att_fxsave, 15143, NOTHING),
	A("fstcw", att_fstcw, 9221, NOTHING),
	A("mmx", att_mmx, 1457, NOTHING),
	A("emms", att_emms, 8251, NOTHING),
	A("cvtps2pi", att_cvtpi2ps, 2719, NOTHING),
	A("paddb", att_paddb, 875, NOTHING),
	A("mulpd", att_mulpd, 1748, NOTHING),
	A("divpd", att_divpd, 2136, NOTHING),
	A("sqrtpd", att_sqrtpd, 1962, NOTHING),
	A("denormal", att_denormal, 4659, NOTHING),
	A("underflow not masked", att_underflow, 10484, NOTHING),
	A("simd exception", att_xm, 15000, FAULTS),
	A("ucomisd", att_comi, 1748, NOTHING),
	A("movups cross page", att_movups, 4756, NOTHING),
	A("movups cross line", att_movups_line, 875, NOTHING),
	A("maskmovdqu", att_maskmov, 3204, NOTHING),
	A("ldmxcsr", att_ldmxcsr, 2330, NOTHING),
	A("clflush", att_clflush, 1069, NOTHING),
	A("jmp #gp", att_call_gp, 20610, STEPS),
	A("vmrun", att_vmrun, 23900, WORLDS),
	A("vmrun, flush", att_vmrun, 36100, WORLDS_FLUSH),
	A("vmrun, touch", att_vmrun_touch, 7400, WORLDS_TOUCH),
	A("vmrun, nested touch", att_vmrun_touch, 16800, WORLDS_NPT),
	A("vmrun, new code", att_vmrun_code, 28700, WORLDS_FILL),
	A("vmrun, code in the VMCB", att_vmrun, 71000, WORLDS_INSIDE),
	A("vmload", att_vmload, 4600, WORLDS),
	A("clgi", att_clgi, 660, WORLDS),
};
const size_t nr_attacks = sizeof(attacks) / sizeof(attacks[0]);

static void put(uint8_t *ram, uint64_t at, uint64_t x)
{
	memcpy(ram + at, &x, sizeof(x));
}

static void gate(uint8_t *ram, unsigned int vec, uint64_t to, unsigned int ist, unsigned int dpl)
{
	put(ram, IDT + vec * 16,
	    (to & 0xffff) | 0x08ULL << 16 | (uint64_t)ist << 32 |
		    (uint64_t)(0x8e | dpl << 5) << 40 | (to & 0xffff0000) << 32);
	put(ram, IDT + vec * 16 + 8, to >> 32);
}

static void handler(uint8_t *ram, unsigned int vec, const uint8_t *code, const uint8_t *end)
{
	memcpy(ram + HANDLERS + vec % 32 * 16, code, (size_t)(end - code));
	gate(ram, vec, HANDLERS + vec % 32 * 16, 0, 3);
}

static void tables(uint8_t *ram)
{
	put(ram, PML4, PDPT | 7);
	put(ram, PDPT, PD | 7);
	put(ram, PDPT + 8, PD2 | 7);
	for (uint64_t i = 0; i < ATTACK_RAM >> 21; i++)
		put(ram, PD + i * 8, i << 21 | 0x80 | 7);
	put(ram, PD2, PT | 7);
	for (uint64_t i = 0; i < 511; i++)
		put(ram, PT + i * 8, (PAGES + i * 4096) | 7);
	put(ram, GDT + 8, 0x00af9b000000ffff);
	put(ram, GDT + 0x10, 0x00cf93000000ffff);
	put(ram, GDT + 0x20, 0x00cff3000000ffff);
	put(ram, GDT + 0x28, 0x00affb000000ffff);
	put(ram, GDT + 0x30, 0x0000890000000067 | TSS << 16);
	put(ram, TSS + 4, STACK0);
	put(ram, TSS + 0x24, IST1);
	for (unsigned int i = 0; i < 256; i++)
		gate(ram, i, HANDLERS, 0, 0);
	ram[HANDLERS] = 0xf4;
}

/* A guest of the guest, in its own mode and with its page tables. */
static void world(unsigned int special, uint8_t *ram)
{
	bool touch = special == WORLDS_TOUCH || special == WORLDS_NPT;
	bool flush = touch || special == WORLDS_FLUSH;
	uint64_t code = special == WORLDS_INSIDE ? VMCB_AT + 0x800 : FIELD;
	const struct vmcb_seg data = {.selector = 0x10, .attrib = 0xc93, .limit = ~0u};
	struct vmcb_control c = {
		.icpt = {0, 3}, /* VMRUN, VMMCALL */
		.asid = 1,
		.tlb_control = flush ? VMCB_FLUSH_ASID : VMCB_FLUSH_NONE,
		.nested_ctl = special == WORLDS_NPT ? VMCB_NP_ENABLE : 0,
		.ncr3 = NPT,
	};
	struct vmcb_save s = {
		.es = data,
		.cs = {.selector = 8, .attrib = 0xa9b, .limit = ~0u},
		.ss = data,
		.ds = data,
		.efer = 0x1d01,
		.cr4 = 0x20,
		.cr3 = PML4,
		.cr0 = 0x80010033,
		.rip = code,
		.rsp = STACK,
		.g_pat = 0x0007040600070406,
	};

	memcpy(ram + VMCB_AT, &c, sizeof(c));
	memcpy(ram + VMCB_AT + VMCB_SAVE, &s, sizeof(s));
	if (touch)
		memcpy(ram + code, att_touch, (size_t)(att_touch_end - att_touch));
	else if (special == WORLDS_FILL)
		memcpy(ram + code, att_fill, (size_t)(att_fill_end - att_fill));
	else
		memcpy(ram + code, att_vmmcall, (size_t)(att_vmmcall_end - att_vmmcall));
	put(ram, NPT, (NPT + 0x1000) | 7);
	put(ram, NPT + 0x1000, (NPT + 0x2000) | 7);
	for (uint64_t i = 0; i < ATTACK_RAM >> 21; i++)
		put(ram, NPT + 0x2000 + i * 8, i << 21 | 0x80 | 7);
}

static void prepare(const struct attack *a, uint8_t *ram)
{
	uint64_t at = 0;

	switch (a->special) {
	case STEPS:
		handler(ram, 1, att_iretq, att_iretq_end);
		gate(ram, 13, CODE, 1, 0);
		break;
	case FAULTS:
		handler(ram, 13, att_skip2, att_skip2_end);
		handler(ram, 14, att_skip2, att_skip2_end);
		handler(ram, 6, att_skip2_ud, att_skip2_ud_end);
		handler(ram, 0x80, att_iretq, att_iretq_end);
		break;
	case NO_FETCH:
		gate(ram, 14, WINDOW + 511 * 4096, 1, 0);
		break;
	case SYSCALLS:
		memcpy(ram + HANDLERS + 16, att_sysretq, (size_t)(att_sysretq_end - att_sysretq));
		break;
	case FIELDS:
		for (uint64_t i = 0; i < 64 << 10; i += 2)
			memcpy(ram + FIELD + i, "\xeb\x00", 2);
		memcpy(ram + FIELD + (64 << 10), "\xb8\x00\x00\x40\x00\xff\xe0", 7);
		break;
	case JUMPS:
		for (uint64_t i = 0; i < 2000; i++) {
			int32_t rel = (int32_t)(CODE - (FIELD + i * 64 + 5));

			put(ram, DATA + i * 8, FIELD + i * 64);
			ram[FIELD + i * 64] = 0xe9;
			memcpy(ram + FIELD + i * 64 + 1, &rel, 4);
		}
		break;
	case CHASE: /* every 64 bytes, far apart, in one cycle */
		for (uint64_t i = 0, n = (8 << 20) / 64; i < n; i++) {
			uint64_t next = (at + 40503) % n; /* odd: n is a power of two */

			put(ram, CHAIN + at * 64, CHAIN + next * 64);
			at = next;
		}
		break;
	case WORLDS ... WORLDS_INSIDE:
		world(a->special, ram);
		break;
	default:
		break;
	}
}

/* STAR and LSTAR, by the guest's own WRMSRs: no other way leads to them from outside. */
static const uint8_t set_syscall[] = {
	0xb9, 0x81, 0,	  0,	0xc0,	 /* mov $STAR, %ecx */
	0x31, 0xc0,			 /* xor %eax, %eax */
	0xba, 0x08, 0,	  0x18, 0,	 /* mov $0x180008, %edx */
	0x0f, 0x30,			 /* wrmsr */
	0xff, 0xc1,			 /* inc %ecx: LSTAR */
	0xb8, 0x10, 0x30, 0,	0,	 /* mov $HANDLERS + 16, %eax */
	0x31, 0xd2,			 /* xor %edx, %edx */
	0x0f, 0x30,			 /* wrmsr */
	0x44, 0x89, 0xc1,		 /* mov %r8d, %ecx: CODE */
	0x41, 0xbb, 2,	  0,	0,    0, /* mov $2, %r11d */
	0x48, 0x0f, 0x07,		 /* sysretq */
};

static const struct kvm_cpuid_entry2 svm_shown[] = {
	{.function = 0x80000000, .eax = 0x80000022},
	{.function = 0x80000001, .ecx = 1u << 2},
	{.function = 0x80000008, .eax = 40},
	{.function = 0x80000022, .eax = 7}, /* PerfMonV2: a world switch may change DebugCtl */
};

int attack_load(const struct attack *a, const struct vmm_engine_ops *ops, struct vmm_engine_vcpu *v,
		uint8_t *ram)
{
	struct kvm_regs r = {.rip = CODE,
			     .rsp = STACK,
			     .rdi = DATA,
			     .rsi = WINDOW,
			     .rbx = PAGES,
			     .r8 = CODE,
			     .rflags = a->code == att_step ? 0x102 : 2};
	struct kvm_sregs s;
	int ret;

	tables(ram);
	prepare(a, ram);
	memcpy(ram + CODE, a->code, (size_t)(a->end - a->code));
	if (a->special == SYSCALLS) {
		memcpy(ram + DATA, set_syscall, sizeof(set_syscall));
		r.rip = DATA;
	}
	if (a->special >= WORLDS) {
		ret = ops->set_cpuid(v, svm_shown, sizeof(svm_shown) / sizeof(svm_shown[0]));
		if (ret)
			return ret;
		r.rax = VMCB_AT;
	}
	ret = ops->get_sregs(v, &s);
	if (ret)
		return ret;
	s.cr0 = 0x80010033; /* PG WP NE ET MP PE */
	s.cr3 = PML4;
	s.cr4 = 0x120;	/* PCE PAE */
	s.efer = 0xd01; /* SCE LME LMA NXE */
	if (a->special >= WORLDS)
		s.efer |= 0x1000; /* SVME */
	s.cs = flat_segment(0x08, true);
	s.ss = s.ds = s.es = flat_segment(0x10, false);
	s.gdt.base = GDT;
	s.gdt.limit = 0x3f;
	s.idt.base = IDT;
	s.idt.limit = 0xfff;
	s.tr = (struct kvm_segment){
		.base = TSS, .limit = 0x67, .selector = 0x30, .type = 0xb, .present = 1};
	s.apic_base |= 3ULL << 10; /* x2APIC mode */
	ret = ops->set_sregs(v, &s);
	return ret ? ret : ops->set_regs(v, &r);
}
