// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * perf's expected output about a static program with a fixed path. The first command
 * single-steps the program on the host's CPU and writes its path to FILE, which the others read.
 *
 * - trace FILE PROGRAM [ARGUMENT...]: writes FILE
 * - count FILE: prints "instructions branches"
 * - between FILE N M: the same from behind the Nth system call to the Mth one, inclusive
 * - ips FILE PERIOD: prints the IPs of all samples
 * - samples FILE PERIOD: compares standard input, one IP per sample, from perf script
 * - stacks FILE PERIOD DEPTH: the same with the branches of each sample
 * - chains FILE PERIOD BASE: the same with the call chain of each sample; perf script gives its
 *   addresses as offsets from BASE, at which the program is linked (hexadecimal)
 *
 * A sample is due behind every PERIODth instruction. Exit status 1 and one line: what differs.
 * Exit status 2 and one line: an error in the command, the program or FILE.
 */
#include <Zydis/Zydis.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>

#define DEPTH_MAX 32
#define CALLS_MAX 64
#define TEXT_MAX  65536 /* bytes of the program's text */

enum {
	KNOWN = 1,    /* only in the cache of the stepper */
	BRANCH = 2,   /* retires as a branch */
	TRANSFER = 4, /* a branch with a record if it is taken */
	CALL = 8,
	RET = 16,
	SYSCALL = 32,
};

/* One executed instruction, as in the file. */
struct step {
	uint64_t ip;
	uint8_t what, length, pad[6];
};

/* A file is this mark, the steps, and the mark again when the program has ended. */
static const char mark[sizeof(struct step)] = "vpmu truth path";

static _Noreturn void die(const char *what)
{
	perror(what);
	exit(2);
}

/* ---- the path of a program ---- */

static pid_t start(char **argv)
{
	int status;
	pid_t pid = fork();

	if (pid < 0)
		die("fork");
	if (!pid) {
		ptrace(PTRACE_TRACEME, 0, NULL, NULL);
		execv(argv[0], argv);
		_exit(127);
	}
	if (waitpid(pid, &status, 0) != pid || !WIFSTOPPED(status)) {
		fprintf(stderr, "linux-truth: cannot execute %s\n", argv[0]);
		exit(2);
	}
	return pid;
}

static uint64_t ip_of(pid_t pid)
{
	struct user_regs_struct regs;

	if (ptrace(PTRACE_GETREGS, pid, NULL, &regs))
		die("PTRACE_GETREGS");
	return regs.rip;
}

/* The instruction at @ip. The program does not modify itself. */
static struct step decode(pid_t pid, uint64_t ip)
{
	ZydisDecodedInstruction zi;
	ZydisDecodedOperand zo[ZYDIS_MAX_OPERAND_COUNT];
	struct step s = {.ip = ip, .what = KNOWN};
	unsigned long text[2];
	ZydisDecoder d;

	text[0] = (unsigned long)ptrace(PTRACE_PEEKTEXT, pid, ip, NULL);
	text[1] = (unsigned long)ptrace(PTRACE_PEEKTEXT, pid, ip + 8, NULL);
	ZydisDecoderInit(&d, ZYDIS_MACHINE_MODE_LONG_64, ZYDIS_STACK_WIDTH_64);
	if (!ZYAN_SUCCESS(ZydisDecoderDecodeFull(&d, text, sizeof(text), &zi, zo))) {
		fprintf(stderr, "linux-truth: cannot decode what is at 0x%lx\n", ip);
		exit(2);
	}
	s.length = zi.length;
	if (zi.mnemonic == ZYDIS_MNEMONIC_SYSCALL)
		s.what |= SYSCALL | BRANCH;
	if (zi.meta.branch_type != ZYDIS_BRANCH_TYPE_NONE)
		s.what |= TRANSFER | BRANCH;
	if (zi.meta.category == ZYDIS_CATEGORY_CALL)
		s.what |= CALL;
	if (zi.meta.category == ZYDIS_CATEGORY_RET)
		s.what |= RET;
	return s;
}

static void trace(const char *file, char **argv)
{
	static struct step text[TEXT_MAX];
	FILE *f = fopen(file, "w");
	pid_t pid;
	int status;
	uint64_t base;

	if (!f || fwrite(mark, sizeof(mark), 1, f) != 1)
		die(file);
	pid = start(argv);
	base = ip_of(pid) & ~(uint64_t)(TEXT_MAX - 1);
	for (uint64_t ip = ip_of(pid); ip; ip = WIFSTOPPED(status) ? ip_of(pid) : 0) {
		struct step *s = &text[ip - base];

		if (ip - base >= TEXT_MAX) {
			fprintf(stderr, "linux-truth: text of more than %d bytes\n", TEXT_MAX);
			exit(2);
		}
		if (!s->what)
			*s = decode(pid, ip);
		if (fwrite(s, sizeof(*s), 1, f) != 1)
			die(file);
		/* A stop that is not that of the step, such as of a SIGSTOP to all, is no step. */
		do {
			if (ptrace(PTRACE_SINGLESTEP, pid, NULL, NULL) ||
			    waitpid(pid, &status, 0) != pid)
				die("PTRACE_SINGLESTEP");
		} while (WIFSTOPPED(status) && WSTOPSIG(status) != SIGTRAP);
	}
	if (!WIFEXITED(status)) {
		fprintf(stderr, "linux-truth: %s did not exit\n", argv[0]);
		exit(2);
	}
	if (fwrite(mark, sizeof(mark), 1, f) != 1 || fclose(f))
		die(file);
}

static struct step *path;
static size_t nr_steps;

static void load(const char *file)
{
	FILE *f = fopen(file, "r");
	char begin[sizeof(mark)], end[sizeof(mark)];
	long bytes;

	if (!f || fseek(f, 0, SEEK_END) || (bytes = ftell(f)) < 0 || fseek(f, 0, SEEK_SET))
		die(file);
	nr_steps = (size_t)bytes / sizeof(*path);
	if (bytes % (long)sizeof(*path) || nr_steps < 3 || fread(begin, sizeof(begin), 1, f) != 1 ||
	    memcmp(begin, mark, sizeof(mark)))
		goto refuse;
	nr_steps -= 2;
	path = malloc(nr_steps * sizeof(*path));
	if (!path || fread(path, sizeof(*path), nr_steps, f) != nr_steps ||
	    fread(end, sizeof(end), 1, f) != 1)
		die(file);
	if (memcmp(end, mark, sizeof(mark)))
		goto refuse;
	fclose(f);
	return;

refuse:
	fprintf(stderr, "linux-truth: %s is not a whole path, as linux-truth trace writes it\n",
		file);
	exit(2);
}

/* ---- known state behind each instruction ---- */

struct branch {
	uint64_t from, to;
};

static struct {
	uint64_t insns, taken;
	struct branch last[DEPTH_MAX]; /* last[taken % DEPTH_MAX] is the next one */
	struct branch calls[CALLS_MAX];
	unsigned int depth;
} now;

/* Take note of step @i. Returns where the program is then; 0: it has ended. */
static uint64_t advance(size_t i)
{
	const struct step *s = &path[i];
	uint64_t to = i + 1 < nr_steps ? path[i + 1].ip : 0;
	struct branch b = {s->ip, to};

	now.insns++;
	if (!to || !(s->what & TRANSFER) || to == s->ip + s->length)
		return to;
	now.last[now.taken++ % DEPTH_MAX] = b;
	if ((s->what & CALL) && now.depth < CALLS_MAX)
		now.calls[now.depth++] = b;
	if ((s->what & RET) && now.depth)
		now.depth--;
	return to;
}

static void count(size_t from, size_t to)
{
	uint64_t branches = 0;

	for (size_t i = from; i < to; i++)
		branches += !!(path[i].what & BRANCH);
	printf("%zu %lu\n", to - from, branches);
}

/* Index of the step behind the @n-th system call. */
static size_t behind_syscall(unsigned long n)
{
	for (size_t i = 0; i < nr_steps; i++)
		if ((path[i].what & SYSCALL) && !--n)
			return i + 1;
	fprintf(stderr, "linux-truth: the path has fewer system calls\n");
	exit(2);
}

/* ---- comparing ---- */

/* Samples with fewer branches than there could be. */
static uint64_t shorter;

/* Compare one line of perf script with where the program is. */
static bool sample_ok(const char *line, uint64_t ip, bool stack, unsigned int depth)
{
	char *end;
	uint64_t said = strtoul(line, &end, 16), n = 0, want;

	if (said != ip) {
		printf("sample at instruction %lu: IP 0x%lx, not 0x%lx\n", now.insns, said, ip);
		return false;
	}
	if (!stack)
		return true;
	want = now.taken < depth ? now.taken : depth;
	for (;; n++) {
		const struct branch *b = &now.last[(now.taken - 1 - n) % DEPTH_MAX];
		uint64_t from, to;
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

/*
 * A chain that perf has from branch records is the innermost function's first instruction, and then
 * the instructions of the calls. Outside of all calls there are no records. Then perf 6.1 prints
 * one address, which it reads from behind the sample: that of the next one, or anything.
 */
static bool chain_ok(uint64_t base, char *line, size_t room)
{
	for (unsigned int i = 0; i < now.depth + 1; i++) {
		uint64_t want = now.depth - i < now.depth ? now.calls[now.depth - i].from
				: now.depth		  ? now.calls[now.depth - 1].to
							  : 0;
		uint64_t said = strtoul(line, NULL, 16);

		if (now.depth ? said != want - base : !said) {
			printf("chain at instruction %lu: entry %u is 0x%lx, not 0x%lx\n",
			       now.insns, i, said, want);
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

static bool blank(const char *line)
{
	return strspn(line, " \t\r\n") == strlen(line);
}

/* Compare all samples of standard input. */
static int compare(unsigned long period, bool stacks, unsigned int depth, bool chains,
		   uint64_t base)
{
	static char line[8192];
	uint64_t got = 0, ip;

	for (size_t i = 0; i < nr_steps && (ip = advance(i)); i++) {
		if (now.insns % period)
			continue;
		do {
			if (!fgets(line, sizeof(line), stdin)) {
				printf("%lu samples, and one is due at instruction %lu\n", got,
				       now.insns);
				return 1;
			}
		} while (blank(line));
		if (chains ? !chain_ok(base, line, sizeof(line))
			   : !sample_ok(line, ip, stacks, depth))
			return 1;
		got++;
	}
	while (fgets(line, sizeof(line), stdin))
		if (!blank(line)) {
			printf("more samples than the %lu that are due: %s", got, line);
			return 1;
		}
	if (10 * shorter > got) {
		printf("%lu of %lu samples have fewer than %u branches\n", shorter, got, depth);
		return 1;
	}
	printf("%lu samples agree\n", got);
	return 0;
}

int main(int argc, char **argv)
{
	const char *cmd = argc > 2 ? argv[1] : "";
	unsigned long n = argc > 3 ? strtoul(argv[3], NULL, 10) : 0;
	unsigned long m = argc > 4 ? strtoul(argv[4], NULL, 10) : 0;

	if (!strcmp(cmd, "trace") && argc > 3) {
		trace(argv[2], argv + 3);
		return 0;
	}
	if (*cmd)
		load(argv[2]);
	if (!strcmp(cmd, "count") && argc == 3) {
		count(0, nr_steps);
		return 0;
	}
	if (!strcmp(cmd, "between") && argc == 5 && n && m > n) {
		count(behind_syscall(n), behind_syscall(m));
		return 0;
	}
	if (!strcmp(cmd, "ips") && argc == 4 && n) {
		for (size_t i = n; i < nr_steps; i += n)
			printf("%lx\n", path[i].ip);
		return 0;
	}
	if (!strcmp(cmd, "samples") && argc == 4 && n)
		return compare(n, false, 0, false, 0);
	if (!strcmp(cmd, "stacks") && argc == 5 && n && m && m <= DEPTH_MAX)
		return compare(n, true, (unsigned int)m, false, 0);
	if (!strcmp(cmd, "chains") && argc == 5 && n)
		return compare(n, false, 0, true, strtoul(argv[4], NULL, 16));
	fprintf(stderr, "usage: linux-truth trace FILE PROGRAM [ARGUMENT...] | count FILE | "
			"between FILE N M | "
			"ips FILE PERIOD | samples FILE PERIOD | stacks FILE PERIOD DEPTH | "
			"chains FILE PERIOD BASE\n");
	return 2;
}
