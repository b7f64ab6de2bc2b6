// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Native side of the differential test: a process with hardly anything in its address space that
 * runs sequences on the CPU. Started by difftest with the descriptors of dt.h open.
 *
 * General registers, flags, FS and GS bases are the sequence's while it runs, so the signal
 * handler must not touch thread-local storage before it has put FS back: no sanitizer, no stack
 * protector, no libc in it.
 */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <ucontext.h>
#include <unistd.h>

#include "tests/emu/dt.h"
#include "vmm/engine/simd.h"

/* Used by the assembler part; see dt_enter below. */
uint64_t dt_host_rsp, dt_host_fs;
uint64_t dt_frame[5]; /* IRETQ: RIP, CS, RFLAGS, RSP, SS */
uint64_t dt_out[DT_NREGS + 1];
uint8_t dt_fx_in[512] __attribute__((aligned(64))), dt_fx_out[512] __attribute__((aligned(64)));
uint8_t dt_area[4096] __attribute__((aligned(64))); /* XSAVE's, before and after */
uint32_t dt_mxcsr = 0x1f80, dt_components;	    /* those that the host has of AVX and AVX-512 */
void dt_enter(const uint64_t *regs);
void dt_leave(void);
void dt_recover(void);

/*
 * dt_enter loads all registers and enters the sequence by IRETQ, which loads RIP, RFLAGS and RSP
 * at once: with TF set the first trap comes after the sequence's first instruction (SDM vol. 3,
 * 18.3.1.4). dt_leave is where DT_EXIT jumps to; dt_recover where the signal handler returns to.
 */
__asm__(".text\n"
	".globl dt_enter\n"
	"dt_enter:\n"
	"	push %rbx; push %rbp; push %r12; push %r13; push %r14; push %r15\n"
	"	mov %rsp, dt_host_rsp(%rip)\n"
	/* Not by instructions of AVX, after which XINUSE does not follow from the registers. This
	 * also loads MXCSR. */
	"	mov dt_components(%rip), %eax\n"
	"	test %eax, %eax\n"
	"	je 1f\n"
	"	xor %edx, %edx\n"
	"	xrstor64 dt_area(%rip)\n"
	"1:\n"
	"	fxrstor64 dt_fx_in(%rip)\n"
	"	mov 0(%rdi), %rax; mov 8(%rdi), %rcx; mov 16(%rdi), %rdx; mov 24(%rdi), %rbx\n"
	"	mov 40(%rdi), %rbp; mov 48(%rdi), %rsi\n"
	"	mov 64(%rdi), %r8; mov 72(%rdi), %r9; mov 80(%rdi), %r10; mov 88(%rdi), %r11\n"
	"	mov 96(%rdi), %r12; mov 104(%rdi), %r13; mov 112(%rdi), %r14; mov 120(%rdi), %r15\n"
	"	mov 56(%rdi), %rdi\n"
	"	lea dt_frame(%rip), %rsp\n"
	"	iretq\n"
	".globl dt_leave\n"
	"dt_leave:\n"
	"	mov %rsp, dt_out+32(%rip)\n"
	"	fxsave64 dt_fx_out(%rip)\n"
	"	mov dt_host_rsp(%rip), %rsp\n"
	"	pushfq\n"
	"	popq dt_out+128(%rip)\n"
	"	mov %rax, dt_out+0(%rip); mov %rcx, dt_out+8(%rip)\n"
	"	mov %rdx, dt_out+16(%rip); mov %rbx, dt_out+24(%rip)\n"
	"	mov %rbp, dt_out+40(%rip); mov %rsi, dt_out+48(%rip)\n"
	"	mov %rdi, dt_out+56(%rip); mov %r8, dt_out+64(%rip)\n"
	"	mov %r9, dt_out+72(%rip); mov %r10, dt_out+80(%rip)\n"
	"	mov %r11, dt_out+88(%rip); mov %r12, dt_out+96(%rip)\n"
	"	mov %r13, dt_out+104(%rip); mov %r14, dt_out+112(%rip)\n"
	"	mov %r15, dt_out+120(%rip)\n"
	"	mov dt_components(%rip), %eax\n"
	"	test %eax, %eax\n"
	"	je dt_recover\n"
	"	xor %edx, %edx\n"
	"	xsave64 dt_area(%rip)\n"
	".globl dt_recover\n"
	"dt_recover:\n"
	"	cmpl $0, dt_components(%rip)\n"
	"	je 1f\n"
	"	vzeroupper\n"
	"1:\n"
	"	fninit\n"
	"	ldmxcsr dt_mxcsr(%rip)\n"
	"	push $0x202\n"
	"	popfq\n"
	"	mov dt_host_fs(%rip), %rax\n"
	"	wrfsbase %rax\n"
	"	pop %r15; pop %r14; pop %r13; pop %r12; pop %rbp; pop %rbx\n"
	"	ret\n");

static inline uint64_t rdfsbase(void)
{
	uint64_t v;

	__asm__ volatile("rdfsbase %0" : "=r"(v));
	return v;
}

static inline void wrfsbase(uint64_t v)
{
	__asm__ volatile("wrfsbase %0" : : "r"(v) : "memory");
}

static inline void wrgsbase(uint64_t v)
{
	__asm__ volatile("wrgsbase %0" : : "r"(v) : "memory");
}

static volatile bool in_guest;
static struct dt_result *cur;
static bool stepping;
static uint64_t run_nr, run_at_tick; /* the run in work, and at the last SIGPROF */

static const int greg_of[DT_NREGS] = {
	REG_RAX, REG_RCX, REG_RDX, REG_RBX, REG_RSP, REG_RBP, REG_RSI, REG_RDI,
	REG_R8,	 REG_R9,  REG_R10, REG_R11, REG_R12, REG_R13, REG_R14, REG_R15,
};

/* The components behind the header of XSAVE's area: their bits, and where they are on this CPU. */
static const struct {
	unsigned int bit, bytes, of;
} part[] = {{2, 256, offsetof(struct dt_vectors, ymm)},
	    {5, 64, offsetof(struct dt_vectors, k)},
	    {6, 512, offsetof(struct dt_vectors, zmm_high)},
	    {7, 1024, offsetof(struct dt_vectors, zmm_hi16)}};
#define PARTS (sizeof(part) / sizeof(part[0]))
static uint32_t part_at[PARTS];
#define XSTATE_BV 512

static void area_get(struct dt_result *r, const uint8_t *area)
{
	memset(&r->v, 0, sizeof(r->v));
	for (unsigned int i = 0; i < PARTS; i++)
		if (dt_components & area[XSTATE_BV] & 1u << part[i].bit)
			memcpy((uint8_t *)&r->v + part[i].of, area + part_at[i], part[i].bytes);
}

/* A component of zeros is not in use. */
static void area_put(const struct dt_case *c)
{
	static const uint8_t zero[1024];

	memset(dt_area, 0, sizeof(dt_area));
	for (unsigned int i = 0; i < PARTS; i++) {
		const uint8_t *from = (const uint8_t *)&c->v + part[i].of;

		if (!(dt_components & 1u << part[i].bit) || !memcmp(from, zero, part[i].bytes))
			continue;
		dt_area[XSTATE_BV] |= (uint8_t)(1u << part[i].bit);
		memcpy(dt_area + part_at[i], from, part[i].bytes);
	}
}

static void save_fault(const ucontext_t *u, int vector)
{
	const greg_t *g = u->uc_mcontext.gregs;
	struct dt_result *r = cur;

	const uint8_t *fx = (const uint8_t *)u->uc_mcontext.fpregs;

	memcpy(r->fx, fx, DT_FX_BYTES);
	area_get(r, fx);
	r->vector = vector;
	r->error = (uint32_t)g[REG_ERR];
	r->cr2 = (uint64_t)g[REG_CR2];
	for (int i = 0; i < DT_NREGS; i++)
		r->regs[i] = (uint64_t)g[greg_of[i]];
	r->rip = (uint64_t)g[REG_RIP];
	r->rflags = (uint64_t)g[REG_EFL] & ~(uint64_t)DT_TF;
	r->cs = (uint16_t)g[REG_CSGSFS];
	r->ss = (uint16_t)((uint64_t)g[REG_CSGSFS] >> 48);
}

/* Every signal of the sequence, on the alternate stack. */
static void on_signal(int sig, siginfo_t *info, void *ctx)
{
	uint64_t fs = rdfsbase();
	greg_t *g = ((ucontext_t *)ctx)->uc_mcontext.gregs;

	wrfsbase(dt_host_fs);
	if (!in_guest) {
		/* SIGPROF between two cases. A fault here is a bug of this file: die of it. */
		if (sig != SIGPROF)
			signal(sig, SIG_DFL);
		return;
	}
	if (sig == SIGTRAP && g[REG_TRAPNO] == 1 && stepping) {
		if (cur->nr_steps < DT_STEPS) {
			cur->step[cur->nr_steps] = (uint32_t)(g[REG_RIP] - DT_CODE);
			cur->step_rcx[cur->nr_steps] = (uint64_t)g[REG_RCX];
		}
		cur->nr_steps++;
		if (g[REG_RIP] == DT_EXIT || cur->nr_steps > DT_STEPS)
			g[REG_EFL] &= ~(greg_t)DT_TF;
		wrfsbase(fs);
		return;
	}
	if (sig == SIGPROF && run_nr != run_at_tick) {
		run_at_tick = run_nr;
		wrfsbase(fs);
		return;
	}
	save_fault(ctx, sig == SIGPROF ? DT_HANG : (int)g[REG_TRAPNO]);
	in_guest = false;
	g[REG_RIP] = (greg_t)dt_recover;
	g[REG_RSP] = (greg_t)dt_host_rsp;
	g[REG_EFL] = 0x202;
}

static void run_case(const struct dt_case *c, const uint8_t *pool, struct dt_result *r, bool step)
{
	memcpy((void *)(uintptr_t)c->slot, c->code, DT_SLOT);
	memcpy((void *)(uintptr_t)DT_DATA, pool + c->data_pool, DT_DATA_BYTES);
	memcpy((void *)(uintptr_t)DT_STACK, pool + c->stack_pool, DT_STACK_BYTES);
	cur = r;
	run_nr++;
	stepping = step;
	r->vector = DT_END;
	r->error = 0;
	r->cr2 = 0;
	memcpy(dt_fx_in, c->fx, DT_FX_BYTES);
	area_put(c);
	dt_frame[0] = c->rip;
	dt_frame[1] = DT_USER_CS;
	dt_frame[2] = c->rflags | (step ? DT_TF : 0);
	dt_frame[3] = c->regs[DT_RSP];
	dt_frame[4] = DT_USER_SS;
	/* What an earlier case may have loaded; null, as the emulator side begins. */
	__asm__ volatile("mov %0, %%ds\n\tmov %0, %%es" : : "r"(0));
	wrgsbase(DT_GS_BASE);
	if (__builtin_cpu_supports("avx"))
		__asm__ volatile("vzeroupper");
	in_guest = true;
	wrfsbase(DT_FS_BASE);
	dt_enter(c->regs);
	in_guest = false;
	if (r->vector == DT_END) {
		memcpy(r->regs, dt_out, sizeof(r->regs));
		memcpy(r->fx, dt_fx_out, DT_FX_BYTES);
		area_get(r, dt_area);
		r->rflags = dt_out[DT_NREGS];
		r->rip = DT_EXIT;
		r->cs = DT_USER_CS;
		r->ss = DT_USER_SS;
	}
	memcpy(r->code, (void *)(uintptr_t)c->slot, DT_SLOT);
	memcpy(r->data, (void *)(uintptr_t)DT_DATA, DT_DATA_BYTES);
	memcpy(r->stack, (void *)(uintptr_t)DT_STACK, DT_STACK_BYTES);
}

/*
 * All slots of a batch, as the emulator side has them: a stray access may see a neighbour's. Where
 * the emulator side begins with a new machine, memory is new here too.
 */
static void load_slots(const struct dt_case *c, uint32_t n)
{
	uint64_t region = (c->slot - DT_CODE) / DT_STRIDE * DT_STRIDE + DT_CODE;

	if (region == DT_CODE) {
		memset((void *)(uintptr_t)DT_CODE, DT_FILL, DT_CODE_BYTES);
		memset((void *)(uintptr_t)DT_EDGE, DT_FILL, 0x1000);
	}
	for (uint32_t i = 0; i < n; i++)
		memcpy((void *)(uintptr_t)c[i].slot, c[i].code, DT_SLOT);
}

static int map(uint32_t at, size_t bytes, int prot)
{
	void *p = (void *)(uintptr_t)at;

	return mmap(p, bytes, prot, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0) == p
		       ? 0
		       : -1;
}

static int setup(const struct dt_shm *shm)
{
	static uint8_t altstack[65536] __attribute__((aligned(64)));
	static const int sigs[] = {SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGTRAP, SIGPROF};
	struct sigaction sa = {.sa_sigaction = on_signal, .sa_flags = SA_SIGINFO | SA_ONSTACK};
	stack_t ss = {.ss_sp = altstack, .ss_size = sizeof(altstack)};
	uint8_t *exit_page = (uint8_t *)(uintptr_t)DT_EXIT;
	uint32_t simd = vmm_simd_host(), size, other;
	uint64_t leave = (uint64_t)dt_leave;
	static const uint8_t jmp_mem[6] = {0xff, 0x25, 0, 0, 0, 0}; /* jmp *0(%rip) */

	if (map(DT_CODE, DT_CODE_BYTES, PROT_READ | PROT_WRITE | PROT_EXEC) ||
	    map(DT_EDGE, 0x1000, PROT_READ | PROT_WRITE | PROT_EXEC) ||
	    map(DT_DATA, DT_DATA_BYTES, PROT_READ | PROT_WRITE) ||
	    map(DT_RO, 0x1000, PROT_READ | PROT_WRITE) ||
	    map(DT_STACK, DT_STACK_BYTES, PROT_READ | PROT_WRITE) ||
	    map(DT_EXIT, 0x1000, PROT_READ | PROT_WRITE))
		return -1;
	memset((void *)(uintptr_t)DT_CODE, DT_FILL, DT_CODE_BYTES);
	memset((void *)(uintptr_t)DT_EDGE, DT_FILL, 0x1000);
	memcpy((void *)(uintptr_t)DT_RO, shm->pool, 0x1000);
	memcpy(exit_page, jmp_mem, sizeof(jmp_mem));
	memcpy(exit_page + sizeof(jmp_mem), &leave, sizeof(leave));
	if (mprotect((void *)(uintptr_t)DT_RO, 0x1000, PROT_READ) ||
	    mprotect(exit_page, 0x1000, PROT_READ | PROT_EXEC) || sigaltstack(&ss, NULL))
		return -1;
	sigfillset(&sa.sa_mask);
	for (size_t i = 0; i < sizeof(sigs) / sizeof(sigs[0]); i++)
		if (sigaction(sigs[i], &sa, NULL))
			return -1;
	dt_host_fs = rdfsbase();
	dt_components = simd & VMM_SIMD_AVX512 ? 0xe4 : simd & VMM_SIMD_AVX ? 4 : 0;
	for (unsigned int i = 0; i < PARTS && dt_components; i++)
		__get_cpuid_count(0xd, part[i].bit, &size, &part_at[i], &other, &other);
	return 0;
}

static bool read_command(uint8_t *which)
{
	ssize_t n;

	do
		n = read(DT_FD_CMD, which, 1);
	while (n < 0 && errno == EINTR);
	return n == 1 && *which < 2;
}

int main(void)
{
	/* A run that sees two of these ticks loops without end: it is stopped and reported. They
	 * are CPU time, and long: on a virtual machine that has to wait for its CPUs, seconds can
	 * pass within a sequence of a few instructions. */
	static const struct itimerval tick = {.it_value.tv_sec = 60, .it_interval.tv_sec = 60};
	struct dt_shm *shm =
		mmap(NULL, sizeof(*shm), PROT_READ | PROT_WRITE, MAP_SHARED, DT_FD_SHM, 0);
	uint8_t which;

	if (shm == MAP_FAILED || setup(shm)) {
		fprintf(stderr, "difftest-native: cannot map the test's addresses: %s\n",
			strerror(errno));
		return 1;
	}
	if (setitimer(ITIMER_PROF, &tick, NULL))
		return 1;
	while (read_command(&which)) {
		load_slots(shm->buf[which].c, shm->buf[which].n);
		for (uint32_t i = 0; i < shm->buf[which].n; i++) {
			struct dt_case *c = &shm->buf[which].c[i];
			struct dt_result *r = &shm->buf[which].r[i];

			shm->buf[which].running = i;
			r->nr_steps = 0;
			if (c->step)
				run_case(c, shm->pool, r, true);
			run_case(c, shm->pool, r, false);
		}
		if (write(DT_FD_ACK, &which, 1) != 1)
			return 1;
	}
	return 0;
}
