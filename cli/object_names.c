// SPDX-License-Identifier: GPL-2.0-or-later
/* Function names of files that may be hostile, read by a child process; see processes.h. */
#include <errno.h>
#include <fcntl.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cli/processes.h"
#include "cli/symbols.h"
#include "service/clock.h"
#include "service/program/memory.h"

/* symbols.c reads up to 256 MiB and 4 million symbols. */
#define CHILD_CPU_S	   10
#define CHILD_MEMORY_BYTES (1ULL << 30)

/* ---- the answer: a head, then one record per place, in order ------------------------------ */

struct answer_head {
	int32_t error; /* 0 or -errno */
	bool own;      /* the file has symbols of its own, not only dynamic ones */
	uint8_t build_id_len;
	uint8_t build_id[SYMBOLS_BUILD_ID_MAX];
};

struct answer_record {
	uint64_t address; /* as linked; SYMBOLS_NOWHERE: no code of the file */
	uint64_t offset;  /* in the function */
	uint32_t len;	  /* of the name, which follows; 0: unknown */
};

/* What the child is to read. */
struct question {
	const char *const *path;
	uint64_t inode; /* 0: any */
	bool linked;	/* address[] instead of the places' offsets in the file */
	const uint64_t *address;
	const struct object_place *place;
	size_t nr;
};

/* ---- the child ---------------------------------------------------------------------------- */

#if defined(__x86_64__)
#define CHILD_ARCH AUDIT_ARCH_X86_64
#elif defined(__aarch64__)
#define CHILD_ARCH AUDIT_ARCH_AARCH64
#endif

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__) || !defined(CHILD_ARCH)

/* The sanitizers reserve more memory and make more calls. */
static int child_confine(void)
{
	return 0;
}

#else

/* From here on the process can read the files that it has open, write to them, and end. */
static int child_filter(void)
{
	static const uint16_t allowed[] = {
		SYS_read,	  SYS_pread64, SYS_lseek,     SYS_fstat, SYS_newfstatat,
		SYS_statx,	  SYS_fcntl,   SYS_close,     SYS_write, SYS_munmap,
		SYS_mremap,	  SYS_brk,     SYS_madvise,   SYS_futex, SYS_getrandom,
		SYS_rt_sigreturn, SYS_exit,    SYS_exit_group};
	enum { NR = sizeof(allowed) / sizeof(allowed[0]) };
	struct sock_filter code[4 + 2 * NR + 6], *to = code;
	struct sock_fprog program = {.filter = code};

	*to++ = (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS,
					     offsetof(struct seccomp_data, arch));
	*to++ = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, CHILD_ARCH, 1, 0);
	*to++ = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS);
	*to++ = (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS,
					     offsetof(struct seccomp_data, nr));
	for (size_t i = 0; i < NR; i++) {
		*to++ = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, allowed[i], 0, 1);
		*to++ = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
	}
	/* Memory, but none to execute. */
	*to++ = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_mmap, 0, 3);
	*to++ = (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS,
					     offsetof(struct seccomp_data, args[2]));
	*to++ = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, PROT_EXEC, 1, 0);
	*to++ = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
	*to++ = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM);
	program.len = (unsigned short)(to - code);
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) ||
	    prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program))
		return -errno;
	return 0;
}

static int child_confine(void)
{
	const struct rlimit cpu = {CHILD_CPU_S, CHILD_CPU_S}, none = {0, 0};
	const struct rlimit memory = {CHILD_MEMORY_BYTES, CHILD_MEMORY_BYTES};

	if (setrlimit(RLIMIT_CPU, &cpu) || setrlimit(RLIMIT_AS, &memory) ||
	    setrlimit(RLIMIT_FSIZE, &none) || setrlimit(RLIMIT_CORE, &none))
		return -errno;
	return child_filter();
}

#endif

/* Open the regular file @path, without side effects on anything else. */
static int child_open_one(const char *path, uint64_t inode)
{
	int fd = open(path, O_PATH | O_CLOEXEC), ret;
	struct stat st;
	char again[40];

	if (fd < 0)
		return -errno;
	if (fstat(fd, &st))
		ret = -errno;
	else if (!S_ISREG(st.st_mode))
		ret = -EINVAL;
	else if (inode && st.st_ino != inode)
		ret = -ESTALE; /* another file has the name now */
	else
		ret = 0;
	if (!ret) {
		snprintf(again, sizeof(again), "/proc/self/fd/%d", fd);
		ret = open(again, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
		if (ret < 0)
			ret = -errno;
	}
	close(fd);
	return ret;
}

static int child_open(const struct question *q)
{
	int fd = child_open_one(q->path[0], q->inode);

	return fd < 0 && q->path[1] ? child_open_one(q->path[1], q->inode) : fd;
}

static int child_write(int fd, const void *data, size_t len)
{
	const char *at = data;

	while (len) {
		ssize_t n = write(fd, at, len);

		if (n < 0 && errno != EINTR)
			return -errno;
		if (n > 0) {
			at += n;
			len -= (size_t)n;
		}
	}
	return 0;
}

static int child_answer(const struct question *q, const struct symbols *s, int out)
{
	int ret = 0;

	for (size_t i = 0; i < q->nr && !ret; i++) {
		struct answer_record r = {.address = q->linked ? q->address[i]
							       : symbols_linked(s, q->place[i].at)};
		const char *name =
			r.address != SYMBOLS_NOWHERE ? symbols_find(s, r.address, &r.offset) : NULL;

		r.len = name ? (uint32_t)strnlen(name, OBJECT_NAME_MAX) : 0;
		ret = child_write(out, &r, sizeof(r));
		if (!ret && name)
			ret = child_write(out, name, r.len);
	}
	return ret;
}

static _Noreturn void child_main(const struct question *q, int out)
{
	struct answer_head head = {0};
	struct symbols *s = NULL;
	int fd;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	fd = child_open(q);
	head.error = fd < 0 ? fd : child_confine();
	if (!head.error)
		head.error = symbols_load_fd(fd, &s);
	if (s) {
		head.own = symbols_are_own(s);
		head.build_id_len = (uint8_t)symbols_build_id(s, head.build_id);
	}
	if (!child_write(out, &head, sizeof(head)) && s)
		child_answer(q, s, out);
	_exit(0);
}

/* ---- the parent --------------------------------------------------------------------------- */

/* Read up to @max bytes until the writers are gone or the deadline. Returns the number. */
static size_t parent_read(int fd, char *buf, size_t max, uint64_t deadline_ns)
{
	size_t n = 0;

	while (n < max) {
		uint64_t now = now_ns();
		struct pollfd p = {.fd = fd, .events = POLLIN};
		ssize_t got;

		if (now >= deadline_ns)
			break;
		if (poll(&p, 1, (int)((deadline_ns - now) / 1000000 % 1000000) + 1) <= 0)
			continue;
		got = read(fd, buf + n, max - n);
		if (!got || (got < 0 && errno != EINTR))
			break;
		n += got > 0 ? (size_t)got : 0;
	}
	return n;
}

/* Let a child answer @q. Returns the answer's length and the answer, to be freed, or -errno. */
static ssize_t parent_ask(const struct question *q, uint64_t deadline_ns, char **answer)
{
	size_t max = sizeof(struct answer_head) +
		     q->nr * (sizeof(struct answer_record) + OBJECT_NAME_MAX);
	int fd[2];
	size_t n;
	pid_t pid;

	if (pipe2(fd, O_CLOEXEC))
		return -errno;
	pid = fork();
	if (pid < 0) {
		int ret = -errno;

		close(fd[0]);
		close(fd[1]);
		return ret;
	}
	if (!pid) {
		/* Nothing of ours but the pipe: not the server's socket, not the output. */
		int out = dup2(fd[1], STDIN_FILENO);

		if (out < 0 || close_range(STDOUT_FILENO, ~0U, 0))
			_exit(1);
		child_main(q, out);
	}
	close(fd[1]);
	*answer = xmalloc(max);
	n = parent_read(fd[0], *answer, max, deadline_ns);
	close(fd[0]);
	kill(pid, SIGKILL);
	while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
		;
	return (ssize_t)n;
}

/* Take the names in the answer, which an exploited child may have made up: any bytes, but within
 * bounds. @address[i] becomes the linked address of place i. Returns false if it lacks places. */
static bool parent_take(const char *at, size_t left, struct object_place *place, uint64_t *address,
			size_t nr)
{
	for (size_t i = 0; i < nr; i++) {
		struct answer_record r;

		if (left < sizeof(r))
			return false;
		memcpy(&r, at, sizeof(r));
		at += sizeof(r);
		left -= sizeof(r);
		if (r.len > OBJECT_NAME_MAX || r.len > left)
			return false;
		address[i] = r.address;
		if (r.len) {
			free(place[i].name);
			place[i].name = xmalloc(r.len + 1);
			memcpy(place[i].name, at, r.len);
			place[i].name[r.len] = 0;
			place[i].offset = r.offset;
		}
		at += r.len;
		left -= r.len;
	}
	return true;
}

/* Ask, and take the answer. Returns 0 or -errno. */
static int parent_names(const struct question *q, uint64_t deadline_ns, struct answer_head *head,
			struct object_place *place, uint64_t *address)
{
	char *answer = NULL;
	ssize_t n = parent_ask(q, deadline_ns, &answer);
	bool whole = false;

	if (n < 0)
		return (int)n;
	if ((size_t)n >= sizeof(*head)) {
		memcpy(head, answer, sizeof(*head));
		whole = head->error ||
			parent_take(answer + sizeof(*head), (size_t)n - sizeof(*head), place,
				    address, q->nr);
	}
	free(answer);
	if (!whole)
		return now_ns() >= deadline_ns ? -ETIMEDOUT : -EIO;
	return head->error > 0 ? -EIO : head->error;
}

/* Name the places by the debug file of the build id, as distributions install them. Returns 0, also
 * without one, or -errno. */
static int parent_debug(const struct answer_head *head, const char *dir, uint64_t deadline_ns,
			struct object_place *place, uint64_t *address, size_t nr)
{
	char file[300], hex[2 * SYMBOLS_BUILD_ID_MAX + 1] = "";
	const char *path[2] = {file, NULL};
	const struct question q = {
		.path = path, .linked = true, .address = address, .place = place, .nr = nr};
	struct answer_head other;

	if (head->build_id_len < 2 || head->build_id_len > SYMBOLS_BUILD_ID_MAX)
		return 0;
	for (size_t i = 0; i < head->build_id_len; i++)
		snprintf(hex + 2 * i, 3, "%02x", head->build_id[i]);
	snprintf(file, sizeof(file), "%.200s/.build-id/%.2s/%s.debug", dir, hex, hex + 2);
	return access(file, R_OK) ? 0 : parent_names(&q, deadline_ns, &other, place, address);
}

int object_names(const char *const path[2], uint64_t inode, const char *debug_dir,
		 struct object_place *place, size_t nr, uint64_t deadline_ns)
{
	uint64_t *address = xcalloc(nr ? nr : 1, sizeof(*address));
	const struct question q = {.path = path, .inode = inode, .place = place, .nr = nr};
	struct answer_head head = {0};
	int ret = parent_names(&q, deadline_ns, &head, place, address);

	/* It may have no symbols at all, but a build id. */
	if (!ret && !head.own)
		ret = parent_debug(&head, debug_dir, deadline_ns, place, address, nr);
	free(address);
	return ret;
}
