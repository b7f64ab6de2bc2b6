// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * A user of hardware breakpoints in a stock Linux guest: perf events of the type breakpoint on a
 * program with known accesses, and a child that is debugged by ptrace. All counts and all
 * places must be exact. tests/linux/breakpoints runs it; it is static, and runs on any x86 Linux.
 *
 * It prints a line for each check that fails, and "breaks: N checks, M failed".
 */
#include <errno.h>
#include <linux/hw_breakpoint.h>
#include <linux/perf_event.h>
#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>

/* Each of @turns stores 8 bytes to @p, loads 4 from p + 4, stores 1 to p + 16, and stores @bytes to
 * p + 64 by REP STOSB. */
void known(uint64_t turns, uint8_t *p, uint64_t bytes);
extern const char known_store[], known_load[], known_byte[], known_rep[], known_after[];
__asm__(".text\n.globl known, known_store, known_load, known_byte, known_rep, known_after\n"
	"known:\n"
	"	mov %rsi,%r8\n"
	"	mov %rdx,%r9\n"
	"1:	mov %rdi,(%r8)\n"
	"known_store:\n"
	"	mov 4(%r8),%eax\n"
	"known_load:\n"
	"	movb $1,16(%r8)\n"
	"known_byte:\n"
	"	lea 64(%r8),%rdi\n"
	"	mov %r9,%rcx\n"
	"known_rep:\n"
	"	rep stosb\n"
	"known_after:\n"
	"	mov %r10,%rdi\n"
	"	dec %r10\n"
	"	jnz 1b\n"
	"	ret\n");

static uint8_t page[4096] __attribute__((aligned(4096)));
static unsigned int checks, failed;

static void check(const char *what, uint64_t is, uint64_t should)
{
	checks++;
	if (is == should)
		return;
	failed++;
	printf("breaks: FAILED: %s: %lu, not %lu\n", what, is, should);
}

static void run(uint64_t turns, uint64_t bytes)
{
	register uint64_t left __asm__("r10") = turns;
	uint8_t *p = page;

	__asm__ volatile("mov %1,%%rsi\n mov %2,%%rdx\n mov %%r10,%%rdi\n call known"
			 : "+r"(left)
			 : "r"(p), "r"(bytes)
			 : "rax", "rcx", "rdx", "rsi", "rdi", "r8", "r9", "memory", "cc");
}

static int open_at(uint32_t type, const void *at, uint64_t len, uint64_t period)
{
	struct perf_event_attr a = {.type = PERF_TYPE_BREAKPOINT,
				    .size = sizeof(a),
				    .bp_type = type,
				    .bp_addr = (uintptr_t)at,
				    .bp_len = len,
				    .sample_period = period,
				    .sample_type = PERF_SAMPLE_IP,
				    .exclude_kernel = 1,
				    .exclude_hv = 1,
				    .disabled = 1};

	return (int)syscall(SYS_perf_event_open, &a, 0, -1, -1, 0);
}

static void on(int fd)
{
	ioctl(fd, PERF_EVENT_IOC_ENABLE, 0);
}

static uint64_t off(int fd)
{
	uint64_t n = ~0ULL;

	ioctl(fd, PERF_EVENT_IOC_DISABLE, 0);
	if (read(fd, &n, sizeof(n)) != sizeof(n))
		n = ~0ULL;
	return n;
}

struct what {
	const char *name;
	uint32_t type;
	const void *at;
	uint64_t len, each, once; /* hits in each turn, and beyond that */
	const void *ip;		  /* of a sample; NULL: not looked at */
};

#define BYTES 40u

static const struct what all[] = {
	{"store of 8, watched by 8", HW_BREAKPOINT_W, page, 8, 1, 0, known_store},
	{"store of 8, its last byte", HW_BREAKPOINT_W, page + 7, 1, 1, 0, known_store},
	{"store of 8, behind it", HW_BREAKPOINT_W, page + 8, 8, 0, 0, NULL},
	{"store and load, the upper half", HW_BREAKPOINT_RW, page + 4, 4, 2, 0, NULL},
	{"store and load, the lower half", HW_BREAKPOINT_RW, page, 4, 1, 0, known_store},
	{"store of a byte, by 2", HW_BREAKPOINT_W, page + 16, 2, 1, 0, known_byte},
	{"store of a byte, next to it", HW_BREAKPOINT_RW, page + 17, 1, 0, 0, NULL},
	{"REP STOSB, 8 of its bytes", HW_BREAKPOINT_W, page + 72, 8, 8, 0, NULL},
	{"REP STOSB, its last byte", HW_BREAKPOINT_W, page + 64 + BYTES - 1, 1, 1, 0, known_after},
	{"instruction in the loop", HW_BREAKPOINT_X, known_load, 8, 1, 0, known_load},
	{"REP STOSB itself", HW_BREAKPOINT_X, known_rep, 8, 1, 0, known_rep},
	{"first instruction", HW_BREAKPOINT_X, (const void *)known, 8, 0, 1, (const void *)known},
};

static void count_alone(const struct what *w)
{
	uint64_t turns = 777;
	int fd = open_at(w->type, w->at, w->len, 0);

	if (fd < 0) {
		check(w->name, (uint64_t)errno, 0);
		return;
	}
	on(fd);
	run(turns, BYTES);
	check(w->name, off(fd), w->each * turns + w->once);
	run(10, BYTES);
	check("after it was switched off", off(fd), w->each * turns + w->once);
	close(fd);
}

/* Every hit a sample: its IP is that of the instruction behind the access, or of the breakpoint. */
static void sample(const struct what *w)
{
	uint64_t turns = 50, n = 0, at, wrong = 0;
	int fd = open_at(w->type, w->at, w->len, 1);
	struct perf_event_mmap_page *m;
	const uint8_t *data;

	if (!w->ip || fd < 0)
		goto out;
	m = mmap(NULL, 9 * 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (m == MAP_FAILED) {
		check("mmap", (uint64_t)errno, 0);
		goto out;
	}
	on(fd);
	run(turns, BYTES);
	off(fd);
	data = (const uint8_t *)m + m->data_offset;
	for (at = 0; at < m->data_head;) {
		struct {
			struct perf_event_header h;
			uint64_t ip;
		} r;

		for (unsigned int i = 0; i < sizeof(r); i++)
			((uint8_t *)&r)[i] = data[(at + i) % (8 * 4096)];
		if (r.h.type == PERF_RECORD_SAMPLE) {
			n++;
			wrong += r.ip != (uintptr_t)w->ip;
		}
		at += r.h.size;
	}
	check(w->name, n, w->each * turns + w->once);
	check("samples elsewhere", wrong, 0);
	munmap(m, 9 * 4096);
out:
	if (fd >= 0)
		close(fd);
}

/* Four at once, of which the CPU has as many; a fifth is refused. */
static void four(void)
{
	static const unsigned int which[] = {0, 3, 7, 9};
	uint64_t turns = 300;
	int fd[4], more;

	for (int i = 0; i < 4; i++) {
		const struct what *w = &all[which[i]];

		fd[i] = open_at(w->type, w->at, w->len, 0);
	}
	more = open_at(HW_BREAKPOINT_W, page, 8, 0);
	check("a fifth one", (uint64_t)(more < 0 ? errno : 0), ENOSPC);
	if (more >= 0)
		close(more);
	for (int i = 0; i < 4; i++)
		on(fd[i]);
	run(turns, BYTES);
	for (int i = 0; i < 4; i++) {
		check(all[which[i]].name, off(fd[i]), all[which[i]].each * turns);
		close(fd[i]);
	}
}

/* As a debugger: DR6 has the cause, and the child goes on. */
static void debugger(void)
{
	const long dr = offsetof(struct user, u_debugreg), word = sizeof(long);
	uint64_t stores = 0, steps = 0, wrong = 0;
	struct user_regs_struct r;
	pid_t pid = fork();
	int status;

	if (!pid) {
		ptrace(PTRACE_TRACEME, 0, 0, 0);
		raise(SIGSTOP);
		run(20, BYTES);
		_exit(33);
	}
	waitpid(pid, &status, 0);
	ptrace(PTRACE_POKEUSER, pid, dr, page);
	ptrace(PTRACE_POKEUSER, pid, dr + word, known_rep);
	/* 0: store of 8; 1: instruction */
	check("POKEUSER of DR7",
	      (uint64_t)ptrace(PTRACE_POKEUSER, pid, dr + 7 * word, 0x90000ul | 5), 0);
	for (;;) {
		long dr6;

		ptrace(PTRACE_CONT, pid, 0, 0);
		waitpid(pid, &status, 0);
		if (!WIFSTOPPED(status))
			break;
		dr6 = ptrace(PTRACE_PEEKUSER, pid, dr + 6 * word, 0);
		ptrace(PTRACE_POKEUSER, pid, dr + 6 * word, 0);
		ptrace(PTRACE_GETREGS, pid, 0, &r);
		if ((dr6 & 15) == 1 && r.rip == (uintptr_t)known_store)
			stores++;
		else if ((dr6 & 15) == 2 && r.rip == (uintptr_t)known_rep)
			steps++;
		else
			wrong++;
	}
	check("stores that the debugger saw", stores, 20);
	check("instructions that the debugger saw", steps, 20);
	check("other stops", wrong, 0);
	check("how the child ended", (uint64_t)WEXITSTATUS(status), 33);
}

/* Stores of the kernel for a system call are not the program's. */
static void kernel_stores(void)
{
	int fd = open_at(HW_BREAKPOINT_W, page, 8, 0), pipes[2];

	if (fd < 0 || pipe(pipes))
		return;
	on(fd);
	check("write", (uint64_t)write(pipes[1], "01234567", 8), 8);
	check("read", (uint64_t)read(pipes[0], page, 8), 8);
	check("stores of the kernel, which are excluded", off(fd), 0);
	close(fd);
}

int main(void)
{
	int fd = open_at(HW_BREAKPOINT_W, page, 8, 0);

	memset(page, 0, sizeof(page));
	if (fd < 0) {
		printf("breaks: SKIP: perf_event_open: %s\n", strerror(errno));
		return 77;
	}
	close(fd);
	for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++)
		count_alone(&all[i]);
	for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++)
		sample(&all[i]);
	four();
	debugger();
	kernel_stores();
	printf("breaks: %u checks, %u failed\n", checks, failed);
	return failed > 0;
}
