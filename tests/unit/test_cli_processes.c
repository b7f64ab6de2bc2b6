// SPDX-License-Identifier: GPL-2.0-or-later
/* Names of processes of the host and of their code; files of tenants that may be hostile. */
#include <criterion/criterion.h>
#include <criterion/redirect.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>

#include "folder_bed.h"
#include "cli/processes.h"
#include "cli/symbols.h"
#include "tests/random.h"

#define NO_DEBUG "/nonexistent"
#define HANG_NS	 600000000000ULL

/* ---- a reader that does what an exploited one would --------------------------------------- */

enum { READ, REACH_OUT, LOOP, WAIT, END, END_LATER };
static int reader;

/* What reach_out() could do, as bits. */
enum {
	DID_OPEN = 1,
	DID_CONNECT = 2,
	DID_EXEC = 4,
	DID_KILL = 8,
	DID_ALLOCATE = 16,
	DID_FORK = 32
};
#define DID_BASE 1000

static int reach_out(void)
{
	int did = 0;
	pid_t pid;

	if (open("/etc/passwd", O_RDONLY | O_CLOEXEC) >= 0)
		did |= DID_OPEN;
	if (socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0) >= 0)
		did |= DID_CONNECT;
	if (kill(getppid(), 0) == 0)
		did |= DID_KILL;
	if (malloc(2UL << 30))
		did |= DID_ALLOCATE;
	pid = fork();
	if (!pid)
		_exit(0);
	if (pid > 0)
		did |= DID_FORK;
	return -DID_BASE - did;
}

int __real_symbols_load_fd(int fd, struct symbols **out);
int __wrap_symbols_load_fd(int fd, struct symbols **out);

int __wrap_symbols_load_fd(int fd, struct symbols **out)
{
	while (reader == LOOP)
		;
	while (reader == WAIT)
		syscall(SYS_futex, &reader, FUTEX_WAIT_PRIVATE, WAIT, NULL, NULL, 0);
	if (reader == END)
		_exit(0);
	return reader == REACH_OUT ? reach_out() : __real_symbols_load_fd(fd, out);
}

const char *__real_symbols_find(const struct symbols *s, uint64_t address, uint64_t *offset);
const char *__wrap_symbols_find(const struct symbols *s, uint64_t address, uint64_t *offset);

const char *__wrap_symbols_find(const struct symbols *s, uint64_t address, uint64_t *offset)
{
	static unsigned int calls;

	if (reader == END_LATER && ++calls == 2)
		_exit(0);
	return __real_symbols_find(s, address, offset);
}

/* ---- files -------------------------------------------------------------------------------- */

static __attribute__((noinline, noclone)) int named_here(int x)
{
	return x * 3 + getpid();
}

static char file[80];
static struct processes *ps;
static const uint64_t here = (uint64_t)(uintptr_t)named_here;
static unsigned int pid; /* of this process */
static struct process_code code;

static void begin(void)
{
	folder_begin();
	snprintf(file, sizeof(file), "%s/file", folder);
	reader = READ;
	ps = processes_new();
	pid = (unsigned int)getpid();
}

static void end(void)
{
	processes_free(ps);
	folder_end();
}

TestSuite(cli_processes, .init = begin, .fini = end);

static uint64_t in_ns(uint64_t ns)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec + ns;
}

/* Ask for the name at the start of @path. */
static int ask(const char *path, uint64_t inode, uint64_t deadline_ns)
{
	const char *const paths[2] = {path, NULL};
	struct object_place place = {0};
	int ret = object_names(paths, inode, NO_DEBUG, &place, 1, deadline_ns);

	free(place.name);
	return ret;
}

/* ---- processes ---------------------------------------------------------------------------- */

Test(cli_processes, own_code_has_its_name)
{
	char comm[17] = "a;b\x1b[1m c";

	cr_assert_eq(prctl(PR_SET_NAME, comm), 0);
	cr_assert_neq(named_here(1), 0);
	processes_want(ps, pid, 0, here + 1);
	processes_want(ps, pid, 0, here);
	processes_want(ps, pid, 0, here);
	processes_want(ps, pid, 0, 0x10); /* nothing is mapped there */
	processes_look(ps, pid);
	processes_find(ps, pid, here, &code);
	cr_assert(code.object && strstr(code.object, "test_cli_processes"), "%s", code.object);
	cr_assert(code.function, "no name");
	cr_assert_str_eq(code.function, "named_here");
	cr_assert_eq(code.offset, 0);
	processes_find(ps, pid, here + 1, &code);
	cr_assert(code.function);
	cr_assert_eq(code.offset, 1);
	processes_find(ps, pid, 0x10, &code);
	cr_assert_null(code.object);
	cr_assert_null(code.function);
	processes_find(ps, pid + 1, here, &code); /* never wanted */
	cr_assert_null(code.object);
	cr_assert_str_eq(processes_comm(ps, pid), comm);
}

Test(cli_processes, looks_again)
{
	for (uint64_t i = 0; i < 1000; i++) {
		processes_want(ps, pid, 0, here + i % 3);
		if (i % 300 == 0)
			processes_look(ps, pid);
	}
	processes_look(ps, pid);
	processes_find(ps, pid, here + 2, &code);
	cr_assert(code.function);
	cr_assert_eq(code.offset, 2);
}

Test(cli_processes, an_ended_process_is_unknown)
{
	char want[24];
	pid_t child = fork();

	if (!child)
		_exit(0);
	cr_assert_eq(waitpid(child, NULL, 0), child);
	processes_want(ps, (unsigned int)child, 0, here);
	processes_look(ps, pid);
	processes_find(ps, (unsigned int)child, here, &code);
	cr_assert_null(code.object);
	cr_assert_null(code.function);
	snprintf(want, sizeof(want), ":%d", child);
	cr_assert_str_eq(processes_comm(ps, (unsigned int)child), want);
}

/* This process has the number now, but what was sampled is of one that began before it did. */
Test(cli_processes, a_process_with_the_number_of_another_one_gives_no_names)
{
	char want[24];

	snprintf(want, sizeof(want), ":%u", pid);
	for (int later = 0; later < 2; later++) {
		processes_free(ps);
		ps = processes_new();
		processes_want(ps, pid, in_ns(0), here);
		/* One sample from before is enough. */
		processes_want(ps, pid, later ? 1000000 : 0, here + 1);
		processes_look(ps, pid);
		processes_find(ps, pid, here, &code);
		cr_expect_eq(!code.function, later);
		cr_expect_eq(!code.object, later);
		cr_expect_eq(!strcmp(processes_comm(ps, pid), want), later);
	}
}

/* ---- hostile files ------------------------------------------------------------------------ */

Test(cli_processes, only_the_regular_file_that_was_mapped)
{
	struct stat st;

	cr_assert_eq(ask("/nonexistent", 0, in_ns(HANG_NS)), -ENOENT);
	cr_assert_eq(ask(folder, 0, in_ns(HANG_NS)), -EINVAL);
	cr_assert_eq(ask("/dev/zero", 0, in_ns(HANG_NS)), -EINVAL);
	cr_assert_eq(mkfifo(file, 0600), 0); /* an open for reading would wait */
	cr_assert_eq(ask(file, 0, in_ns(HANG_NS)), -EINVAL);
	cr_assert_eq(stat("/proc/self/exe", &st), 0);
	cr_assert_eq(ask("/proc/self/exe", st.st_ino + 1, in_ns(HANG_NS)), -ESTALE);
	unlink(file);
	folder_put_bytes("/file", "#!/bin/sh\n", 10);
	cr_assert_eq(ask(file, 0, in_ns(HANG_NS)), -ENOEXEC);
	/* The second path is for one that cannot be opened. */
	cr_assert_eq(object_names((const char *const[2]){"/nonexistent", file}, 0, NO_DEBUG, NULL,
				  0, in_ns(HANG_NS)),
		     -ENOEXEC);
}

Test(cli_processes, damaged_files_harm_nobody)
{
	static unsigned char data[1 << 16];
	uint64_t seed = 1;
	int fd = open("/bin/sh", O_RDONLY | O_CLOEXEC);
	ssize_t n = read(fd, data, sizeof(data));

	cr_assert(fd >= 0 && n > 1000);
	close(fd);
	for (int i = 0; i < 100; i++) {
		/* In the ELF header, or anywhere. */
		size_t at = random_split(&seed) % (i % 2 ? 64 : (uint64_t)n);
		unsigned char old = data[at];

		data[at] = (unsigned char)random_split(&seed);
		folder_put_bytes("/file", data, (size_t)n);
		cr_assert(ask(file, 0, in_ns(HANG_NS)) <= 0);
		data[at] = i % 4 ? old : data[at];
	}
}

Test(cli_processes, the_reader_can_do_nothing_else)
{
#if defined(__SANITIZE_ADDRESS__)
	cr_skip("sanitizers are not confined");
#endif
	reader = REACH_OUT;
	cr_assert_eq(ask("/proc/self/exe", 0, in_ns(HANG_NS)), -DID_BASE);
}

Test(cli_processes, a_reader_that_never_ends_is_ended)
{
	reader = LOOP;
	cr_assert_eq(ask("/proc/self/exe", 0, in_ns(100000000)), -ETIMEDOUT);
	cr_assert_eq(waitpid(-1, NULL, WNOHANG), -1); /* and is not left behind */
	cr_assert_eq(errno, ECHILD);
}

Test(cli_processes, a_part_of_an_answer_is_an_error)
{
	reader = END_LATER;
	processes_want(ps, pid, 0, here);
	processes_want(ps, pid, 0, here + 1);
	cr_redirect_stderr();
	processes_look(ps, pid);
	processes_find(ps, pid, here, &code);
	cr_assert(code.function && !strcmp(code.function, "named_here"));
	processes_find(ps, pid, here + 1, &code);
	cr_assert(code.object && !code.function);
	fflush(stderr);
	cr_assert_stderr_eq_str("vpmu: 1 of 1 files with code cannot be read (Input/output error); "
				"functions in them are shown by the file's name\n");
}

static void look_fails(int as, const char *want)
{
	reader = as;
	processes_want(ps, pid, 0, here);
	cr_redirect_stderr();
	processes_look(ps, pid);
	processes_find(ps, pid, here, &code);
	cr_assert(code.object && !code.function);
	fflush(stderr);
	cr_assert_stderr_eq_str(want);
}

Test(cli_processes, files_that_cannot_be_read_are_reported)
{
	look_fails(END, "vpmu: 1 of 1 files with code cannot be read (Input/output error); "
			"functions in them are shown by the file's name\n");
}

/* After 5 s. */
Test(cli_processes, files_that_take_too_long_are_reported)
{
	look_fails(WAIT, "vpmu: 1 of 1 files with code take too long to read; functions in them "
			 "may be shown by the file's name\n");
}
