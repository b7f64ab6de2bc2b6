/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The guests of attack.c, which includes this list twice: X(name, symbol, effort, special, code),
 * in which the symbol is the code's, and SAME() with the code of one before.
 */
/* clang-format off */
/* RDI = DATA, RSI = WINDOW, RBX = PAGES, R8 = CODE at the start. */
X("plain", att_plain, 0, NOTHING, "1: add %rax,%rcx\n mov 8(%rdi),%rdx\n lea 1(%rdx),%rdx\n mov %rdx,8(%rdi)\n"
  "test $7,%dl\n jz 2f\n xor %rdx,%rcx\n 2: inc %rax\n cmp %rbx,%rax\n jne 1b\n jmp 1b")
X("invlpg", att_invlpg, 25297, NOTHING, "1: invlpg (%rdi)\n jmp 1b")
X("invlpg x100", att_invlpg4, 46918, NOTHING, "1: .rept 100\n invlpg (%rdi)\n .endr\n jmp 1b")
X("invlpg, touch", att_invlpg_touch, 4951, NOTHING,
  "1: invlpg (%rsi)\n mov (%rsi),%eax\n mov %eax,4096(%rsi)\n jmp 1b")
X("single-step", att_step, 21195, STEPS, "1: inc %eax\n jmp 1b")
X("mov cr3", att_cr3, 7291, NOTHING, "mov %cr3,%rax\n 1: mov %rax,%cr3\n jmp 1b")
X("mov cr3 x100", att_cr3_100, 11263, NOTHING, "mov %cr3,%rax\n 1: .rept 100\n mov %rax,%cr3\n .endr\n jmp 1b")
X("mov cr3, touch", att_cr3_touch, 5626, NOTHING,
  "mov %cr3,%rax\n 1: mov %rax,%cr3\n mov (%rsi),%edx\n mov 4096(%rsi),%edx\n"
  "mov 8192(%rsi),%edx\n mov (%rdi),%edx\n jmp 1b")
X("mov cr0", att_cr0, 7291, NOTHING, "mov %cr0,%rax\n 1: mov %rax,%cr0\n jmp 1b")
X("mov cr4", att_cr4, 4860, NOTHING, "mov %cr4,%rax\n 1: xor $0x80,%al\n mov %rax,%cr4\n jmp 1b") /* PGE */
X("mov cr4, same", att_cr4_same, 500, NOTHING, "mov %cr4,%rax\n 1: mov %rax,%cr4\n jmp 1b")
X("wrmsr efer", att_efer, 7291, NOTHING, "mov $0xc0000080,%ecx\n rdmsr\n 1: wrmsr\n jmp 1b")
X("#pf", att_pf, 11227, FAULTS, "add $511*4096,%rsi\n 1: mov (%rsi),%eax\n jmp 1b")
X("#pf, no handler", att_no_fetch, 10000, NO_FETCH, "add $511*4096,%rsi\n 1: mov (%rsi),%eax\n jmp 1b")
X("#ud", att_ud, 13529, FAULTS, "1: ud2\n jmp 1b")
X("int 80", att_int, 12634, FAULTS, "1: int $0x80\n jmp 1b")
X("syscall", att_syscall, 2641, SYSCALLS, "1: syscall\n jmp 1b") /* in CPL 3; the kernel is a SYSRET */
X("iretq", att_iret, 3241, NOTHING,
  "mov %rsp,%rbp\n 1: push $0x10\n push %rbp\n pushf\n push $8\n lea 1b(%rip),%rax\npush %rax\n iretq")
X("far ret", att_lret, 4210, NOTHING, "1: push $8\n lea 1b(%rip),%rax\n push %rax\n lretq")
X("repe cmpsb", att_cmps, 102468, NOTHING,
  "1: mov $65536,%ecx\n mov %rbx,%rsi\n lea 65536(%rbx),%rdi\n repe cmpsb\n jmp 1b")
X("repe cmpsb of 3", att_cmps_short, 558, NOTHING,
  "1: mov $3,%ecx\n mov %rbx,%rsi\n lea 65536(%rbx),%rdi\n repe cmpsb\n jmp 1b")
X("repne scasb", att_scas, 51503, NOTHING,
  "mov $1,%al\n 1: mov $65536,%ecx\n mov %rbx,%rdi\n repne scasb\n jmp 1b")
X("rep lodsb", att_lods, 5402, NOTHING, "1: mov $65536,%ecx\n mov %rbx,%rsi\n rep lodsb\n jmp 1b")
X("rep movsb back", att_movs_back, 41213, NOTHING,
  "std\n 1: mov $65536,%ecx\n lea 65535(%rbx),%rsi\n lea 131072(%rsi),%rdi\n" "rep movsb\n jmp 1b")
X("repe cmpsb back", att_cmps_back, 102545, NOTHING,
  "std\n 1: mov $65536,%ecx\n lea 65535(%rbx),%rsi\n lea 131072(%rsi),%rdi\n" "repe cmpsb\n jmp 1b")
X("rep stosb back", att_stos_back, 51503, NOTHING,
  "std\n 1: mov $65536,%ecx\n lea 65535(%rbx),%rdi\n rep stosb\n jmp 1b")
X("rep movsb", att_movs, 41200, NOTHING,
  "1: mov $65536,%ecx\n mov %rbx,%rsi\n lea 131072(%rsi),%rdi\n rep movsb\n jmp 1b")
X("rep movsb overlap", att_movs_overlap, 51287, NOTHING,
  "1: mov $65536,%ecx\n mov %rbx,%rsi\n lea 1(%rsi),%rdi\n rep movsb\n jmp 1b")
X("movsq crossing", att_movs_cross, 915, NOTHING,
  "1: mov $200,%ecx\n lea 4095(%rbx),%rsi\n lea 131075(%rsi),%rdi\n"
  "2: movsq\n add $4088,%rsi\n add $4088,%rdi\n dec %ecx\n jnz 2b\n jmp 1b")
X("rep stosb of 1", att_stos_one, 1036, NOTHING, "1: mov $1,%ecx\n mov %rbx,%rdi\n rep stosb\n jmp 1b")
X("rep stosb", att_stos, 51517, NOTHING, "1: mov $65536,%ecx\n mov %rbx,%rdi\n rep stosb\n jmp 1b")
X("rep stosw", att_stosw, 102676, NOTHING, "1: mov $65536,%ecx\n mov %rbx,%rdi\n rep stosw\n jmp 1b")
X("crossing store", att_cross_store, 1801, NOTHING, "1: mov %eax,4094(%rsi)\n jmp 1b")
X("crossing store x100", att_cross_store100, 3565, NOTHING,
  "1: .rept 100\n mov %rax,4093(%rsi)\n .endr\n jmp 1b")
X("crossing load x100", att_cross_load100, 1962, NOTHING, "1: .rept 100\n mov 4093(%rsi),%rax\n .endr\n jmp 1b")
X("crossing rmw x100", att_cross_rmw100, 5169, NOTHING, "1: .rept 100\n add %rax,4093(%rsi)\n .endr\n jmp 1b")
X("tlb miss", att_tlb_miss, 1299, NOTHING,
  "1: mov %rsi,%rdx\n mov $510,%ecx\n 2: mov (%rdx),%eax\n add $4096,%rdx\n" "dec %ecx\n jnz 2b\n jmp 1b")
X("tlb miss x510", att_tlb_miss_unrolled, 5191, NOTHING,
  "1: .set i,0\n .rept 510\n mov i*4096(%rsi),%eax\n .set i,i+1\n .endr\n jmp 1b")
X("tlb store x510", att_tlb_store, 6801, NOTHING,
  "1: .set i,0\n .rept 510\n mov %eax,i*4096(%rsi)\n .set i,i+1\n .endr\n jmp 1b")
X("tlb crossing x509", att_tlb_cross, 8255, NOTHING,
  "1: .set i,0\n .rept 509\n mov %rax,i*4096+4093(%rsi)\n .set i,i+1\n .endr\n jmp 1b")
X("tlb large x512", att_tlb_large, 3414, NOTHING,
  "1: .set i,0\n .rept 512\n mov i*4096(%rbx),%eax\n .set i,i+1\n .endr\n jmp 1b")
X("load x100", att_load, 0, NOTHING, "1: .rept 100\n mov 8(%rdi),%rax\n .endr\n jmp 1b")
X("unaligned load x100", att_unaligned, 0, NOTHING, "1: .rept 100\n mov 9(%rdi),%rax\n .endr\n jmp 1b")
X("load by r15 x100", att_load_r15, 0, NOTHING, "mov %rdi,%r15\n 1: .rept 100\n mov 8(%r15),%r14\n .endr\n jmp 1b")
X("rmw x100", att_rmw, 0, NOTHING, "1: .rept 100\n add %rax,8(%rdi)\n .endr\n jmp 1b")
X("push, pop", att_push_pop, 0, NOTHING, "1: .rept 50\n push %rax\n pop %rdx\n .endr\n jmp 1b")
X("call, ret", att_call, 0, NOTHING, "1: .rept 20\n call 2f\n .endr\n jmp 1b\n 2: push %rbx\n xor %rax,%rcx\n pop %rbx\n ret")
X("branch records", att_records, 0, NOTHING,
  "mov $0x14ce,%ecx\n mov $0x7f0007,%eax\n xor %edx,%edx\n wrmsr\n 1: jmp 2f\n 2: jmp 3f\n 3: jmp 1b")
/* Fixed counter 0 on, then IA32_PERF_GLOBAL_CTRL on and off (SDM vol. 4). */
X("pmu on/off", att_pmu, 1028, NOTHING,
  "xor %edx,%edx\n mov $0x38d,%ecx\n mov $3,%eax\n wrmsr\n mov $0x186,%ecx\n"
  "mov $0x4300c4,%eax\n wrmsr\n mov $0x187,%ecx\n mov $0x43003c,%eax\n wrmsr\n"
  "mov $0x38f,%ecx\n 1: mov $3,%eax\n mov $1,%edx\n wrmsr\n xor %eax,%eax\n xor %edx,%edx\n" "wrmsr\n jmp 1b")
X("pmu all on/off", att_pmu_all, 1028, NOTHING,
  ALL_COUNTERS "1: xor %eax,%eax\n xor %edx,%edx\n wrmsr\n mov $0xff,%eax\n mov $7,%edx\n" "wrmsr\n jmp 1b")
X("pmu all status", att_pmu_status, 1800, NOTHING, ALL_COUNTERS "mov $0x38e,%ecx\n 1: rdmsr\n jmp 1b")
X("pmu all clear", att_pmu_clear, 1800, NOTHING, ALL_COUNTERS "mov $0x390,%ecx\n 1: wrmsr\n jmp 1b")
X("pmu all rdpmc", att_pmu_read, 1800, NOTHING, ALL_COUNTERS "mov $7,%ecx\n 1: rdpmc\n jmp 1b")
X("pmu all write", att_pmu_write, 1800, NOTHING, ALL_COUNTERS "mov $0xc8,%ecx\n 1: wrmsr\n jmp 1b")
X("pmu select", att_pmu_select, 1440, NOTHING,
  "xor %edx,%edx\n mov $0x38f,%ecx\n mov $3,%eax\n wrmsr\n mov $0x186,%ecx\n"
  "1: mov $0x4300c4,%eax\n wrmsr\n mov $0x43003c,%eax\n wrmsr\n jmp 1b")
X("rdmsr", att_rdmsr, 1800, NOTHING, "mov $0x38f,%ecx\n 1: rdmsr\n jmp 1b")
X("rdpmc", att_rdpmc, 1800, NOTHING, "xor %ecx,%ecx\n 1: rdpmc\n jmp 1b")
X("wrmsr #gp", att_wrmsr_gp, 1800, FAULTS, "mov $0x12345,%ecx\n 1: wrmsr\n jmp 1b")
X("out", att_out, 1800, NOTHING, "1: out %al,$0x80\n jmp 1b")
X("in", att_in, 1800, NOTHING, "1: in $0x80,%al\n jmp 1b")
X("serial", att_serial, 1800, NOTHING, "mov $0x3f8,%edx\n mov $65,%al\n 1: out %al,(%dx)\n jmp 1b")
X("split lock", att_split_lock, 222, NOTHING, "1: lock incl 62(%rdi)\n jmp 1b")
X("split lock x100", att_split_lock100, 445, NOTHING, "1: .rept 100\n lock incq 62(%rdi)\n .endr\n jmp 1b")
X("split page lock x100", att_split_page, 7000, NOTHING, "1: .rept 100\n lock incq 4093(%rsi)\n .endr\n jmp 1b")
X("lock x100", att_lock, 445, NOTHING, "1: .rept 100\n lock incl (%rdi)\n .endr\n jmp 1b")
X("cmpxchg16b x100", att_cmpxchg16b, 7040, NOTHING, "1: .rept 100\n lock cmpxchg16b (%rdi)\n .endr\n jmp 1b")
X("cmpxchg x100", att_cmpxchg, 445, NOTHING, "1: .rept 100\n lock cmpxchg %rcx,(%rdi)\n .endr\n jmp 1b")
X("self-modifying", att_smc, 50085, NOTHING, "1: incb 2f+1(%rip)\n 2: mov $1,%al\n jmp 1b")
X("store beside code", att_smc_page, 4124, NOTHING,
  "1: incb 1f+256(%rip)\n .rept 20\n incb 1f+256(%rip)\n .endr\n jmp 1b\n 1:")
X("self-modifying x100", att_smc_straight, 376788, NOTHING,
  "1: .rept 100\n movb $0x90, 3f(%rip)\n 3: nop\n .endr\n jmp 1b")
/* A loop that runs just often enough to be translated, and then changes. */
X("translating", att_translate, 640, NOTHING,
  "1: incb 3f+3(%rip)\n mov $70,%ecx\n 2: .rept 9\n add %rax,%rdx\n xor %rdx,%rbp\n"
  "mov %rbp,(%rdi)\n .endr\n 3: add $1,%rax\n dec %ecx\n jnz 2b\n jmp 1b")
X("decoding", att_decode, 44204, FIELDS, "mov $0x400000,%eax\n jmp *%rax")
X("indirect jumps", att_jumps, 542, JUMPS,
  "1: mov (%rdi,%rcx,8),%rax\n inc %ecx\n cmp $2000,%ecx\n cmove %r9d,%ecx\n jmp *%rax")
X("div", att_div, 404, NOTHING, "mov $3,%ecx\n 1: .rept 100\n xor %edx,%edx\n div %rcx\n .endr\n jmp 1b")
X("div only", att_div_only, 803, NOTHING,
  "xor %edx,%edx\n mov $1,%ecx\n 1: .rept 100\n div %rcx\n .endr\n jmp 1b")
X("idiv", att_idiv, 803, NOTHING, "xor %edx,%edx\n mov $1,%ecx\n 1: .rept 100\n idiv %ecx\n .endr\n jmp 1b")
X("mul", att_mul, 90, NOTHING, "mov $3,%ecx\n 1: .rept 100\n mul %rcx\n .endr\n jmp 1b")
X("rcl", att_rcl, 1071, NOTHING, "1: .rept 100\n rcl $7,%rax\n .endr\n jmp 1b")
X("shld", att_shld, 447, NOTHING, "1: .rept 100\n shld $7,%rax,%rdx\n .endr\n jmp 1b")
X("adc", att_adc, 178, NOTHING, "1: .rept 100\n adc %rax,%rdx\n .endr\n jmp 1b")
X("bts", att_bts, 892, NOTHING, "1: .rept 100\n bts %rax,(%rdi)\n .endr\n jmp 1b")
X("bsf", att_bsf, 449, NOTHING, "1: .rept 100\n bsf %rax,%rdx\n popcnt %rdx,%rcx\n .endr\n jmp 1b")
X("pushf", att_pushf, 2229, NOTHING, "1: .rept 50\n pushf\n popf\n .endr\n jmp 1b")
X("enter", att_enter, 2362, NOTHING, "1: .rept 50\n enter $16,$0\n leave\n .endr\n jmp 1b")
X("push16", att_push16, 1783, NOTHING, "1: .rept 50\n push %ax\n pop %ax\n .endr\n jmp 1b")
X("pop mem", att_popm, 1560, NOTHING, "1: .rept 50\n push %rax\n popq (%rdi)\n .endr\n jmp 1b")
X("stosb", att_movsb1, 1293, NOTHING, "1: .rept 50\n mov %rbx,%rdi\n stosb\n .endr\n jmp 1b")
X("cpuid", att_cpuid, 800, NOTHING, "1: xor %eax,%eax\n cpuid\n jmp 1b")
X("rdtsc", att_rdtsc, 450, NOTHING, "1: rdtsc\n jmp 1b")
X("rdmsr held", att_rdmsr_held, 450, NOTHING, "mov $0xc0000080,%ecx\n 1: rdmsr\n jmp 1b")
X("apic eoi", att_apic, 1531, NOTHING, "mov $0x80b,%ecx\n xor %eax,%eax\n xor %edx,%edx\n 1: wrmsr\n jmp 1b")
X("mov ds", att_mov_seg, 1846, NOTHING, "mov $0x10,%eax\n 1: mov %eax,%ds\n jmp 1b")
X("mov ss", att_mov_ss, 4545, NOTHING, "mov $0x10,%eax\n 1: mov %eax,%ss\n jmp 1b")
X("sti", att_sti, 2400, NOTHING, "1: cli\n sti\n jmp 1b")
X("lgdt", att_lgdt, 991, NOTHING, "sgdt (%rdi)\n 1: lgdt (%rdi)\n jmp 1b")
X("mov dr", att_dr, 450, NOTHING, "1: mov %rax,%dr0\n jmp 1b")
X("swapgs", att_swapgs, 450, NOTHING, "1: swapgs\n jmp 1b")
X("mfence", att_fence, 2051, NOTHING, "1: .rept 100\n mfence\n .endr\n jmp 1b")
X("loop", att_loop, 90, NOTHING, "1: mov $100,%ecx\n 2: loop 2b\n jmp 1b")
X("tiny loop", att_tiny, 0, NOTHING, "1: inc %rax\n jmp 1b")
X("xchg", att_xchg, 445, NOTHING, "1: .rept 100\n xchg %rax,(%rdi)\n .endr\n jmp 1b")
X("chase", att_chase, 778, CHASE, "mov $0x800000,%eax\n 1: .rept 32\n mov (%rax),%rax\n .endr\n jmp 1b")
X("seto", att_setcc, 224, NOTHING, "1: .rept 50\n add %eax,%edx\n seto %cl\n .endr\n jmp 1b")
X("x87 add", att_fadd, 15046, NOTHING, SSE1 "fld1\n fldpi\n 1: .rept 50\n fadd %st(1),%st\n .endr\n jmp 1b")
X("x87 store", att_fst, 20675, NOTHING, SSE1 "fldpi\n 1: .rept 50\n fstl 4093(%rbx)\n .endr\n jmp 1b")
X("fsin", att_fsin, 19899, NOTHING, SSE1 "fldpi\n 1: .rept 50\n fsin\n .endr\n jmp 1b")
X("fyl2x", att_fyl2x, 17472, NOTHING, SSE1 "fldpi\n fldpi\n 1: .rept 25\n fyl2x\n fldl2e\n .endr\n jmp 1b")
X("fprem", att_fprem, 16772, NOTHING,
  SSE1 "fld1\n fldpi\n fscale\n 1: .rept 25\n fld %st(0)\n fprem\n fstp %st(0)\n .endr\n jmp 1b")
X("fbstp", att_fbstp, 18636, NOTHING, SSE1 "1: .rept 25\n fldpi\n fbstp (%rdi)\n .endr\n jmp 1b")
X("x87 denormal", att_fdenormal, 26900, NOTHING,
  SSE1 TINY "fninit\n flds (%rdi)\n 1: .rept 50\n fmuls (%rdi)\n .endr\n jmp 1b")
X("fnsave", att_fnsave, 26789, NOTHING,
  SSE1 "1: .rept 25\n fnsave 4040(%rbx)\n frstor 4040(%rbx)\n .endr\n jmp 1b")
X("fnstenv", att_fnstenv, 27663, NOTHING, SSE1 "1: .rept 50\n fnstenv 4090(%rbx)\n .endr\n jmp 1b")
X("fxsave", att_fxsave, 15143, NOTHING,
  SSE1 "1: .rept 25\n fxsave 3952(%rbx)\n fxrstor 3952(%rbx)\n .endr\n jmp 1b")
X("fstcw", att_fstcw, 9221, NOTHING, SSE1 "1: .rept 25\n fnstcw (%rdi)\n fldcw (%rdi)\n .endr\n jmp 1b")
X("mmx", att_mmx, 1457, NOTHING, SSE1 "1: .rept 50\n pmaddwd %mm0,%mm1\n .endr\n jmp 1b")
X("emms", att_emms, 8251, NOTHING, SSE1 "1: .rept 25\n emms\n fldpi\n .endr\n jmp 1b")
X("cvtps2pi", att_cvtpi2ps, 2719, NOTHING, SSE1 "1: .rept 50\n cvtps2pi %xmm0,%mm0\n .endr\n jmp 1b")
X("paddb", att_paddb, 875, NOTHING, SSE1 "1: .rept 50\n paddb %xmm0,%xmm1\n .endr\n jmp 1b")
X("mulpd", att_mulpd, 1748, NOTHING, SSE1 "1: .rept 50\n mulpd %xmm0,%xmm0\n .endr\n jmp 1b")
X("divpd", att_divpd, 2136, NOTHING,
  SSE1 "mov $3,%eax\n cvtsi2sd %eax,%xmm0\n unpcklpd %xmm0,%xmm0\n 1: .rept 50\n"
  "divpd %xmm0,%xmm1\n .endr\n jmp 1b")
X("sqrtpd", att_sqrtpd, 1962, NOTHING,
  SSE1 "mov $3,%eax\n cvtsi2sd %eax,%xmm0\n unpcklpd %xmm0,%xmm0\n 1: .rept 50\n"
  "sqrtpd %xmm0,%xmm0\n addpd %xmm0,%xmm0\n .endr\n jmp 1b")
X("denormal", att_denormal, 4659, NOTHING, SSE1 TINY "1: .rept 50\n mulps %xmm1,%xmm0\n .endr\n jmp 1b")
X("underflow not masked", att_underflow, 10484, NOTHING,
  SSE1 TINY MXCSR(0x1780) "xorps %xmm0,%xmm0\n 1: .rept 50\n" "mulps %xmm1,%xmm0\n .endr\n jmp 1b")
X("simd exception", att_xm, 15000, FAULTS, SSE1 MXCSR(0x1f00) "cvtsi2ss %ebx,%xmm0\n 1: .rept 50\n"
  ".byte 0x0f,0x5e,0xc0,0xc0,0x00\n .endr\n xorps %xmm0,%xmm0\n jmp 1b")
X("ucomisd", att_comi, 1748, NOTHING, SSE1 "1: .rept 50\n ucomisd %xmm0,%xmm1\n .endr\n jmp 1b")
X("movups cross page", att_movups, 4756, NOTHING,
  SSE1 "1: .rept 25\n movups 4088(%rbx),%xmm0\n movups %xmm0,12281(%rbx)\n .endr\n jmp 1b")
X("movups cross line", att_movups_line, 875, NOTHING,
  SSE1 "1: .rept 25\n movups 60(%rbx),%xmm0\n movups %xmm0,189(%rbx)\n .endr\n jmp 1b")
X("maskmovdqu", att_maskmov, 3204, NOTHING, SSE1 "1: .rept 50\n maskmovdqu %xmm0,%xmm1\n .endr\n jmp 1b")
X("ldmxcsr", att_ldmxcsr, 2330, NOTHING, SSE1 "1: .rept 25\n stmxcsr (%rdi)\n ldmxcsr (%rdi)\n .endr\n jmp 1b")
X("clflush", att_clflush, 1069, NOTHING, SSE1 "1: .rept 50\n clflush (%rdi)\n .endr\n jmp 1b")
X("jmp #gp", att_call_gp, 20610, STEPS, "mov $0x8000000000000000,%rax\n 1: jmp *%rax")
/* World switches. The first instruction of the guest of att_vmmcall leaves it. */
X("vmrun", att_vmrun, 23900, WORLDS, "1: vmrun\n jmp 1b")
SAME("vmrun, flush", att_vmrun, 36100, WORLDS_FLUSH)
X("vmrun, touch", att_vmrun_touch, 7400, WORLDS_TOUCH, "1: movq $0x400000,0xb0578\n vmrun\n jmp 1b")
SAME("vmrun, nested touch", att_vmrun_touch, 16800, WORLDS_NPT)
/* The page at RDI holds code anew, so translations that stores use are searched. */
X("vmrun, new code", att_vmrun_code, 28700, WORLDS_FILL, "1: movl $0xc390,(%rdi)\n call *%rdi\n vmrun\n jmp 1b")
SAME("vmrun, code in the VMCB", att_vmrun, 71000, WORLDS_INSIDE)
X("vmload", att_vmload, 4600, WORLDS, "1: vmload\n vmsave\n jmp 1b")
X("clgi", att_clgi, 660, WORLDS, "1: clgi\n stgi\n jmp 1b")
