// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The functions that vpmu-preload.so has in place of libc's (preload/interpose.c), with a library
 * of this file's behind them that notes its calls. Starts itself once for each environment, since
 * the library begins with the program.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/kvm.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "preload/conf.h"
#include "preload/sys.h"
#include "preload/vm.h"

extern char **environ;

/* ---- what interpose.c calls ---- */

struct process process;

/* The calls since the last expect(), as text; shared with a vfork() child. */
static char log_text[400], said[100];
static unsigned int wrong;

__attribute__((format(printf, 1, 2))) static void note(const char *fmt, ...)
{
	size_t n = strlen(log_text);
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(log_text + n, sizeof(log_text) - n, fmt, ap);
	va_end(ap);
	errno = ENOTBLK; /* what a caller must not see */
}

int call_ioctl(int fd, unsigned long request, void *arg)
{
	note("kvm(%d,%lx,%p)", fd, request, arg);
	errno = EXDEV;
	return -1;
}

int sys_ioctl(int fd, unsigned long request, void *arg)
{
	note("sys(%d,%lx,%p)", fd, request, arg);
	return fd < 0 ? -EBADF : 7;
}

void call_closing(int fd)
{
	note("closing(%d)", fd);
}

void call_closing_range(unsigned int first, unsigned int last)
{
	note("range(%u,%u)", first, last);
}

void call_duplicated(int from, int fd)
{
	note("duplicated(%d,%d)", from, fd);
}

void call_masked(void)
{
	note("masked");
}

bool conf_host_is_intel(void)
{
	return false;
}

int process_init(const char *text, bool host_intel, char *err, size_t errlen)
{
	(void)host_intel;
	process.on = !strcmp(text, "on");
	if (strcmp(text, "bad"))
		return 0;
	snprintf(err, errlen, "bad text");
	return -EINVAL;
}

void say(const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(said, sizeof(said), fmt, ap);
	va_end(ap);
}

/* ---- checks ---- */

static void is(bool ok, const char *what, int line)
{
	if (ok)
		return;
	printf("FAILED: line %d: %s; calls: %s; errno %d\n", line, what, log_text, errno);
	wrong++;
}
#define IS(ok) is(ok, #ok, __LINE__)

/* The calls since the last time are @want. */
static void calls_are(const char *want, int line)
{
	is(!strcmp(log_text, want), want, line);
	log_text[0] = 0;
}
#define CALLS(want) calls_are(want, __LINE__)

static void masks(void)
{
	sigset_t set, old;

	sigemptyset(&set);
	sigaddset(&set, SIGUSR1);
	errno = EPERM;
	IS(!pthread_sigmask(SIG_BLOCK, &set, &old) && errno == EPERM);
	CALLS("masked");
	IS(!pthread_sigmask(SIG_SETMASK, NULL, &set) && sigismember(&set, SIGUSR1) == 1);
	IS(pthread_sigmask(99, &set, NULL) == EINVAL);
	IS(sigprocmask(99, &set, NULL) == -1 && errno == EINVAL);
	errno = EPERM;
	IS(!sigprocmask(SIG_UNBLOCK, &set, NULL) && errno == EPERM);
	CALLS("");
	IS(!sigprocmask(SIG_SETMASK, &old, &set) && sigismember(&set, SIGUSR1) == 0);
	CALLS("masked");
}

static bool is_open(int fd)
{
	return fcntl(fd, F_GETFD) >= 0;
}

static void ioctls(void)
{
	char want[100];
	int arg;

	errno = 0;
	IS(ioctl(5, KVM_RUN, &arg) == -1 && errno == EXDEV);
	snprintf(want, sizeof(want), "kvm(5,%lx,%p)", (unsigned long)KVM_RUN, (void *)&arg);
	CALLS(want);
	IS(ioctl(5, FIONREAD, &arg) == 7);
	IS(ioctl(-1, FIONREAD, &arg) == -1 && errno == EBADF);
	log_text[0] = 0;
}

static void closes(int fd)
{
	int one = dup(fd), two = fcntl(fd, F_DUPFD, 100);
	char want[100];

	snprintf(want, sizeof(want), "duplicated(%d,%d)duplicated(%d,100)", fd, one, fd);
	IS(one > fd && two == 100);
	CALLS(want);
	errno = EPERM;
	IS(!close(one) && errno == EPERM && !is_open(one));
	snprintf(want, sizeof(want), "closing(%d)", one);
	CALLS(want);
	IS(close(one) == -1 && errno == EBADF);
	log_text[0] = 0;

	errno = EPERM;
	IS(!close_range(100, 120, 0) && errno == EPERM && !is_open(100));
	CALLS("range(100,120)");
	IS(fcntl(fd, F_DUPFD, 100) == 100);
	log_text[0] = 0;
	IS(!close_range(100, 120, 4 /* CLOEXEC */) && is_open(100));
	CALLS("");
	IS(close_range(120, 100, 0) == -1 && errno == EINVAL);
	CALLS("");
	closefrom(90);
	IS(!is_open(100) && is_open(fd));
	CALLS("range(90,4294967295)");
}

static void duplicates(int fd)
{
	char want[100];

	IS(dup(-1) == -1 && errno == EBADF);
	IS(fcntl(-1, F_DUPFD, 0) == -1 && errno == EBADF);
	IS(dup2(fd, fd) == fd);
	IS(dup3(fd, fd, 0) == -1 && errno == EINVAL);
	IS(fcntl(fd, F_GETFD) == 0);
	CALLS("");

	errno = EPERM;
	IS(dup2(fd, 50) == 50 && errno == EPERM);
	snprintf(want, sizeof(want), "closing(50)duplicated(%d,50)", fd);
	CALLS(want);
	IS(dup3(fd, 50, O_CLOEXEC) == 50 && fcntl(50, F_GETFD) == FD_CLOEXEC);
	CALLS(want);
	/* What fails leaves it open. */
	IS(dup2(-1, 50) == -1 && errno == EBADF && is_open(50));
	IS(dup2(fd, -1) == -1 && errno == EBADF);
	IS(dup3(-1, 50, 0) == -1 && errno == EBADF && is_open(50));
	IS(dup3(fd, 50, 1) == -1 && errno == EINVAL && is_open(50));
	CALLS("");
	IS(fcntl(fd, F_DUPFD_CLOEXEC, 60) == 60 && fcntl(60, F_GETFD) == FD_CLOEXEC);
	IS(fcntl64(fd, F_DUPFD, 70) == 70);
	snprintf(want, sizeof(want), "duplicated(%d,60)duplicated(%d,70)", fd, fd);
	CALLS(want);
	closefrom(50);
	log_text[0] = 0;
}

/* close_range() as on Linux before 5.9, or under a filter of system calls. */
static void no_close_range(int fd)
{
	struct sock_filter f[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_close_range, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | ENOSYS),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	const struct sock_fprog prog = {.len = 4, .filter = f};
	const struct rlimit few = {.rlim_cur = 103, .rlim_max = 103};

	IS(fcntl(fd, F_DUPFD, 100) == 100);
	log_text[0] = 0;
	IS(!setrlimit(RLIMIT_NOFILE, &few) && !prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) &&
	   !prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &prog));
	IS(close_range(100, 120, 0) == -1 && errno == ENOSYS && is_open(100));
	CALLS("");
	closefrom(100);
	IS(!is_open(100) && is_open(fd));
	CALLS("closing(100)closing(101)closing(102)");
}

/* A process that has had no VM: its child may have some, as QEMU's with -daemonize. */
static void daemonized(int fd)
{
	int status = -1;
	pid_t pid = fork();

	if (!pid) {
		IS(ioctl(fd, KVM_RUN, NULL) == -1 && errno == EXDEV);
		log_text[0] = 0;
		closes(fd);
		duplicates(fd);
		no_close_range(fd);
		fflush(stdout);
		_exit(wrong != 0);
	}
	IS(waitpid(pid, &status, 0) == pid && !status);
	CALLS("");
}

/* A child of a VMM has descriptors of its own. */
static void children(int fd)
{
	int status = -1;
	pid_t pid;

	process.vms = true;
	pid = fork();
	if (!pid) {
		close(dup(fd));
		ioctl(fd, KVM_RUN, NULL);
		_exit(strncmp(log_text, "sys(", 4) || strstr(log_text, "closing"));
	}
	IS(waitpid(pid, &status, 0) == pid && !status);
	CALLS("");
	pid = vfork();
	if (!pid) {
		close(dup(fd));
		dup2(fd, 50);
		close_range(100, 120, 0);
		_exit(0);
	}
	IS(waitpid(pid, &status, 0) == pid && !status);
	CALLS("");
	close(fd);
	IS(*log_text);
	log_text[0] = 0;
}

/* Becomes a shell, whose status is 0 if it has @text and @list in its environment. */
static int shell_has(const char *text, const char *list)
{
	char script[] = "test \"$" CONF_VARIABLE "\" = \"$0\" && test \"$LD_PRELOAD\" = \"$1\"";
	char *argv[] = {(char *)"sh", (char *)"-c", script, (char *)text, (char *)list, NULL};

	execvp("sh", argv);
	return 127;
}

/* A program that is started gets neither the library nor its text. */
static bool child_is_clean(bool shares, const char *list)
{
	int status = -1;
	pid_t pid = shares ? vfork() : fork();

	if (!pid)
		_exit(shell_has("", list));
	return waitpid(pid, &status, 0) == pid && !status;
}

/* What replaces a VMM in its process does, as QEMU's cpr-exec needs, unless it cannot be started.
 */
static void replaces(bool vmm, const char *preload, const char *list)
{
	char *argv[] = {(char *)"/nowhere/qemu", NULL};

	process.vms = vmm;
	IS(execvp(argv[0], argv) == -1 && errno == ENOENT);
	IS(!getenv(CONF_VARIABLE));
	IS(!strcmp(getenv("LD_PRELOAD") ? getenv("LD_PRELOAD") : "", list));
	IS(child_is_clean(true, list));
	IS(!vmm || child_is_clean(false, list));
	fflush(stdout);
	_exit(wrong ? 1 : shell_has(vmm ? "on" : "", vmm ? preload : list));
}

static void replaced(const char *preload, const char *list)
{
	for (int vmm = 0; vmm < 2; vmm++) {
		int status = -1;
		pid_t pid = fork();

		if (!pid)
			replaces(vmm, preload, list);
		is(waitpid(pid, &status, 0) == pid && !status, vmm ? "VMM" : "no VMM", __LINE__);
	}
}

/* In the environment @name. */
static void begin_is(const char *name, const char *preload, const char *list)
{
	const char *now = getenv("LD_PRELOAD");
	int arg = 0, fd = open("/dev/null", O_RDONLY | O_CLOEXEC);

	log_text[0] = 0;
	IS(!getenv(CONF_VARIABLE));
	IS(*list ? now && !strcmp(now, list) : !now);
	IS(!strcmp(said, strcmp(name, "bad") ? "" : "bad text"));
	fcntl(fd, F_SETFD, 0);
	if (!strcmp(name, "on")) {
		ioctls();
		masks();
		closes(fd);
		duplicates(fd);
		daemonized(fd);
		replaced(preload, list);
		children(fd);
		return;
	}
	/* All goes straight to the kernel. */
	IS(dup2(fd, 50) == 50 && !close(50) && !close_range(100, 120, 0));
	CALLS("");
	IS(ioctl(fd, KVM_RUN, &arg) == 7 && !strncmp(log_text, "sys(", 4));
}

/* Starts this program with the library's text and LD_PRELOAD, and tells it which list it is to have
 * after its start. */
static void start(char *self, const char *text, const char *preload, const char *list)
{
	char *argv[] = {self, (char *)text, (char *)preload, (char *)list, NULL};
	int status = -1, null;
	pid_t pid = fork();

	if (!pid) {
		unsetenv(CONF_VARIABLE);
		unsetenv("LD_PRELOAD");
		if (*text)
			setenv(CONF_VARIABLE, text, 1);
		if (*preload)
			setenv("LD_PRELOAD", preload, 1);
		/* The loader complains that there is no such library. */
		null = open("/dev/null", O_WRONLY);
		dup2(null, STDERR_FILENO);
		execve("/proc/self/exe", argv, environ);
		_exit(127);
	}
	if (waitpid(pid, &status, 0) != pid || status) {
		printf("FAILED: text \"%s\", LD_PRELOAD=\"%s\": status %d\n", text, preload,
		       status);
		wrong++;
	}
}

static int early = -1;

/* As another library's, before the library's own. */
__attribute__((constructor(101))) static void starts_a_program(void)
{
	char *argv[] = {(char *)"true", NULL};
	pid_t pid;

	if (getenv("LD_PRELOAD"))
		return;
	pid = fork();
	if (!pid) {
		execvp(argv[0], argv);
		_exit(127);
	}
	waitpid(pid, &early, 0);
}

int main(int argc, char **argv)
{
	const char *ours = "/nowhere/vpmu-preload.so";
	char list[200];

	if (argc == 4) {
		begin_is(argv[1], argv[2], argv[3]);
		return wrong != 0;
	}
	IS(!early);
	start(argv[0], "", "", "");
	start(argv[0], "", "libm.so.6", "libm.so.6");
	start(argv[0], "on", "", "");
	start(argv[0], "on", ours, "");
	start(argv[0], "off", ours, "");
	start(argv[0], "bad", ours, "");
	snprintf(list, sizeof(list), "libm.so.6:%s libdl.so.2", ours);
	start(argv[0], "on", list, "libm.so.6:libdl.so.2");
	snprintf(list, sizeof(list), "%s:/nowhere/not-vpmu-preload.so", ours);
	start(argv[0], "on", list, "/nowhere/not-vpmu-preload.so");
	if (!wrong)
		puts("interpose: all right");
	return wrong != 0;
}
