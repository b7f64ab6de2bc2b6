// SPDX-License-Identifier: GPL-2.0-or-later
/* The native helper process of the differential test, see native_side.h. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/emu/native_side.h"

static void child(int shm, int cmd, int ack)
{
	static const char helper[] = "emu-difftest-native";
	char path[4096];
	char *const argv[] = {path, NULL}, *const env[] = {NULL};
	ssize_t len = readlink("/proc/self/exe", path, sizeof(path) - sizeof(helper));

	/* Not to outlive a test that is killed. */
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (dup2(shm, DT_FD_SHM) < 0 || dup2(cmd, DT_FD_CMD) < 0 || dup2(ack, DT_FD_ACK) < 0)
		_exit(126);
	if (len < 0)
		_exit(127);
	path[len] = 0;
	strcpy(strrchr(path, '/') + 1, helper);
	execve(path, argv, env);
	_exit(127);
}

int native_start(struct native_side *n)
{
	int fd, cmd[2] = {-1, -1}, ack[2] = {-1, -1}, rc = 0;
	uint64_t rng = 0x706f6f6c;

	memset(n, 0, sizeof(*n));
	n->cmd = n->ack = -1;
	signal(SIGPIPE, SIG_IGN); /* a dead helper is an error to report */
	fd = memfd_create("difftest", MFD_CLOEXEC);
	if (fd < 0 || ftruncate(fd, sizeof(*n->shm)))
		goto fail;
	n->shm = mmap(NULL, sizeof(*n->shm), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (n->shm == MAP_FAILED) {
		n->shm = NULL;
		goto fail;
	}
	for (size_t i = 0; i < sizeof(n->shm->pool); i++)
		n->shm->pool[i] = (uint8_t)(random_split(&rng) >> 20);
	if (pipe2(cmd, O_CLOEXEC) || pipe2(ack, O_CLOEXEC))
		goto fail;
	n->pid = fork();
	if (n->pid == 0)
		child(fd, cmd[0], ack[1]);
	if (n->pid < 0)
		goto fail;
	n->cmd = cmd[1];
	n->ack = ack[0];
	close(cmd[0]);
	close(ack[1]);
	close(fd);
	return 0;
fail:
	rc = -errno;
	for (int i = 0; i < 2; i++) {
		if (cmd[i] >= 0)
			close(cmd[i]);
		if (ack[i] >= 0)
			close(ack[i]);
	}
	if (fd >= 0)
		close(fd);
	native_stop(n);
	return rc;
}

int native_submit(struct native_side *n, unsigned int which)
{
	uint8_t b = (uint8_t)which;

	return write(n->cmd, &b, 1) == 1 ? 0 : -EPIPE;
}

int native_wait(struct native_side *n, unsigned int which, char *why, size_t why_len)
{
	ssize_t got;
	uint8_t b;
	int status;

	do
		got = read(n->ack, &b, 1);
	while (got < 0 && errno == EINTR);
	if (got == 1 && b == which)
		return 0;
	if (waitpid(n->pid, &status, 0) != n->pid)
		status = 0;
	n->pid = -1;
	if (WIFSIGNALED(status))
		snprintf(why, why_len, "native helper killed by signal %d in seed %llu",
			 WTERMSIG(status),
			 (unsigned long long)n->shm->buf[which].c[n->shm->buf[which].running].seed);
	else
		snprintf(why, why_len, "native helper ended with status %d", WEXITSTATUS(status));
	return -EPIPE;
}

void native_stop(struct native_side *n)
{
	if (n->cmd >= 0)
		close(n->cmd); /* the helper ends */
	if (n->ack >= 0)
		close(n->ack);
	if (n->pid > 0)
		waitpid(n->pid, NULL, 0);
	if (n->shm)
		munmap(n->shm, sizeof(*n->shm));
	memset(n, 0, sizeof(*n));
	n->cmd = n->ack = -1;
}
