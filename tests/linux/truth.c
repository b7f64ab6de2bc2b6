// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * What perf must say about a static program whose path is always the same: the program is
 * single-stepped here, on the host's CPU.
 *   linux-truth count PROGRAM                    prints "instructions branches"
 *   linux-truth ips PROGRAM N                    prints the IPs of all samples
 *   linux-truth samples PROGRAM N                standard input: one IP per sample, from perf
 * script linux-truth stacks PROGRAM N DEPTH           the same with the branches of each sample
 *   linux-truth chains PROGRAM N                 the same with the call chain of each sample
 * A sample is due behind every Nth instruction. Exit status 1 and one line: what differs.
 */
#include <Zydis/Zydis.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>

#define DEPTH_MAX 32
#define CALLS_MAX 64

struct branch {
	unsigned long from, to;
};

static struct {
	unsigned long insns, branches, taken;
	struct branch last[DEPTH_MAX]; /* last[taken % DEPTH_MAX] is the next one */
	unsigned long calls[CALLS_MAX];
	unsigned int depth;
} now;

/* In what the program is stepped through: at the begin it is stopped at its entry. */
struct program {
	pid_t pid;
	bool ended;
};

static void die(const char *what)
{
	perror(what);
	exit(2);
}

static void start(struct program *p, char *path)
{
	int status;

	p->ended = false;
	p->pid = fork();
	if (p->pid < 0)
		die("fork");
	if (!p->pid) {
		ptrace(PTRACE_TRACEME, 0, NULL, NULL);
		execl(path, path, (char *)NULL);
		_exit(127);
	}
	if (waitpid(p->pid, &status, 0) != p->pid || !WIFSTOPPED(status)) {
		fprintf(stderr, "linux-truth: cannot execute %s\n", path);
		exit(2);
	}
}

static unsigned long ip_of(const struct program *p)
{
	struct user_regs_struct regs;

	if (ptrace(PTRACE_GETREGS, p->pid, NULL, &regs))
		die("PTRACE_GETREGS");
	return regs.rip;
}

static void note_branch(unsigned long from, unsigned long to, const ZydisDecodedInstruction *zi)
{
	now.last[now.taken++ % DEPTH_MAX] = (struct branch){from, to};
	if (zi->meta.category == ZYDIS_CATEGORY_CALL && now.depth < CALLS_MAX)
		now.calls[now.depth++] = from + zi->length;
	if (zi->meta.category == ZYDIS_CATEGORY_RET && now.depth)
		now.depth--;
}

/* Execute one instruction. Returns where the program is then; 0: it has ended. */
static unsigned long step(struct program *p, unsigned long ip)
{
	ZydisDecodedInstruction zi;
	ZydisDecodedOperand zo[ZYDIS_MAX_OPERAND_COUNT];
	unsigned long text[2], to;
	ZydisDecoder d;
	int status;

	text[0] = (unsigned long)ptrace(PTRACE_PEEKTEXT, p->pid, ip, NULL);
	text[1] = (unsigned long)ptrace(PTRACE_PEEKTEXT, p->pid, ip + 8, NULL);
	ZydisDecoderInit(&d, ZYDIS_MACHINE_MODE_LONG_64, ZYDIS_STACK_WIDTH_64);
	if (!ZYAN_SUCCESS(ZydisDecoderDecodeFull(&d, text, sizeof(text), &zi, zo))) {
		fprintf(stderr, "linux-truth: cannot decode what is at 0x%lx\n", ip);
		exit(2);
	}
	/* A stop that is not that of the step, such as of a SIGSTOP to all, is no step. */
	do {
		if (ptrace(PTRACE_SINGLESTEP, p->pid, NULL, NULL) ||
		    waitpid(p->pid, &status, 0) != p->pid)
			die("PTRACE_SINGLESTEP");
	} while (WIFSTOPPED(status) && WSTOPSIG(status) != SIGTRAP);
	now.insns++;
	now.branches += zi.meta.branch_type != ZYDIS_BRANCH_TYPE_NONE ||
			zi.mnemonic == ZYDIS_MNEMONIC_SYSCALL;
	if (WIFEXITED(status)) {
		p->ended = true;
		return 0;
	}
	to = ip_of(p);
	if (zi.meta.branch_type != ZYDIS_BRANCH_TYPE_NONE && to != ip + zi.length)
		note_branch(ip, to, &zi);
	return to;
}

/* Samples with fewer branches than there could be. */
static unsigned long shorter;

/* Compare one line of perf script with where the program is. */
static bool sample_ok(const char *line, unsigned long ip, bool stack, unsigned int depth)
{
	char *end;
	unsigned long said = strtoul(line, &end, 16), n = 0, want;

	if (said != ip) {
		printf("sample at instruction %lu: IP 0x%lx, not 0x%lx\n", now.insns, said, ip);
		return false;
	}
	if (!stack)
		return true;
	want = now.taken < depth ? now.taken : depth;
	for (;; n++) {
		const struct branch *b = &now.last[(now.taken - 1 - n) % DEPTH_MAX];
		unsigned long from, to;
		int used;

		if (sscanf(end, " 0x%lx/0x%lx/%*[^ \n]%n", &from, &to, &used) < 2)
			break;
		end += used;
		if (n >= want || from != b->from || to != b->to) {
			printf("sample at instruction %lu: branch %lu is 0x%lx to 0x%lx, not 0x%lx "
			       "to 0x%lx\n",
			       now.insns, n, from, to, n < want ? b->from : 0,
			       n < want ? b->to : 0);
			return false;
		}
	}
	/* Linux clears the records when it switches tasks. So a sample behind a switch has fewer.
	 */
	if (n < want)
		shorter++;
	return true;
}

/* A chain of perf script: the IP and one caller a line, then an empty line. */
static bool chain_ok(unsigned long ip, char *line, size_t room)
{
	for (int i = (int)now.depth; i >= 0; i--) {
		unsigned long want = i == (int)now.depth ? ip : now.calls[i], said;

		said = strtoul(line, NULL, 16);
		if (said != want) {
			printf("chain at instruction %lu: entry %d is 0x%lx, not 0x%lx\n",
			       now.insns, (int)now.depth - i, said, want);
			return false;
		}
		if (!fgets(line, (int)room, stdin))
			line[0] = '\0';
	}
	if (strtoul(line, NULL, 16)) {
		printf("chain at instruction %lu: more callers than %u\n", now.insns, now.depth);
		return false;
	}
	return true;
}

int main(int argc, char **argv)
{
	bool count = argc == 3 && !strcmp(argv[1], "count");
	bool ips = argc == 4 && !strcmp(argv[1], "ips");
	bool samples = argc == 4 && !strcmp(argv[1], "samples");
	bool stacks = argc == 5 && !strcmp(argv[1], "stacks");
	bool chains = argc == 4 && !strcmp(argv[1], "chains");
	unsigned long n = argc > 3 ? strtoul(argv[3], NULL, 10) : 0, ip, got = 0;
	unsigned int depth = argc > 4 ? (unsigned int)strtoul(argv[4], NULL, 10) : 0;
	static char line[8192];
	struct program p;

	if (!(count || ips || samples || stacks || chains) || (!count && !n) || depth > DEPTH_MAX) {
		fprintf(stderr,
			"usage: linux-truth count PROGRAM | ips PROGRAM N | samples PROGRAM N | "
			"stacks PROGRAM N DEPTH | chains PROGRAM N\n");
		return 2;
	}
	start(&p, argv[2]);
	ip = ip_of(&p);
	while ((ip = step(&p, ip))) {
		if (count || now.insns % n)
			continue;
		if (ips) {
			printf("%lx\n", ip);
			continue;
		}
		do {
			if (!fgets(line, sizeof(line), stdin)) {
				printf("%lu samples, and one is due at instruction %lu\n", got,
				       now.insns);
				return 1;
			}
		} while (strspn(line, " \t\r\n") == strlen(line));
		if (chains ? !chain_ok(ip, line, sizeof(line))
			   : !sample_ok(line, ip, stacks, depth))
			return 1;
		got++;
	}
	while (!count && !ips && fgets(line, sizeof(line), stdin))
		if (strspn(line, " \t\r\n") != strlen(line)) {
			printf("more samples than the %lu that are due: %s", got, line);
			return 1;
		}
	if (4 * shorter > got) {
		printf("%lu of %lu samples have fewer than %u branches\n", shorter, got, depth);
		return 1;
	}
	if (count)
		printf("%lu %lu\n", now.insns, now.branches);
	else if (!ips)
		printf("%lu samples agree\n", got);
	return 0;
}
