/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The last report of one VM, and the child process that is this VM's, for it_discover. */
#ifndef TESTS_INTEGRATION_IT_DISCOVER_BED_H
#define TESTS_INTEGRATION_IT_DISCOVER_BED_H

#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <libvirt/libvirt.h>
#include <libvirt/virterror.h>
#include <linux/kvm.h>
#include <pwd.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/lsan_interface.h>
#endif

#include "vpmud/discover/discover.h"
#include "vpmud/discover/virt_lib.h"

#define QEMU "qemu-system-x86_64"

/* The last report of the VM called @want. */
static struct {
	char want[64];
	unsigned int added, changed, removed;
	bool there;
	char kind[16], tenant[64], socket[128], uuid[64];
	pid_t pid;
	size_t nr_vcpus, nr_unknown;
	struct disc_vcpu vcpus[8];
} seen;

static sd_event *event;
static struct disc *d;
static char dir[64];
static pid_t child;
static bool killed;

static void copy(const struct disc_vm *vm)
{
	snprintf(seen.kind, sizeof(seen.kind), "%s", vm->kind);
	snprintf(seen.tenant, sizeof(seen.tenant), "%s", vm->tenant ? vm->tenant : "");
	snprintf(seen.socket, sizeof(seen.socket), "%s",
		 vm->backend_socket ? vm->backend_socket : "");
	snprintf(seen.uuid, sizeof(seen.uuid), "%s", vm->uuid ? vm->uuid : "");
	seen.pid = vm->pid;
	cr_assert_leq(vm->nr_vcpus, 8);
	seen.nr_vcpus = vm->nr_vcpus;
	seen.nr_unknown = vm->nr_unknown;
	if (vm->nr_vcpus)
		memcpy(seen.vcpus, vm->vcpus, vm->nr_vcpus * sizeof(*vm->vcpus));
}

static bool wanted(const struct disc_vm *vm)
{
	return !strcmp(vm->name, seen.want) || (seen.pid && vm->pid == seen.pid);
}

static void added(void *arg, const struct disc_vm *vm)
{
	if (!wanted(vm))
		return;
	cr_expect(!seen.there, "added twice");
	seen.there = true;
	seen.added++;
	copy(vm);
}

static void changed(void *arg, const struct disc_vm *vm)
{
	if (!wanted(vm))
		return;
	cr_expect(seen.there, "changed before it was added");
	seen.changed++;
	copy(vm);
}

static void removed(void *arg, const struct disc_vm *vm)
{
	if (!wanted(vm))
		return;
	cr_expect(seen.there, "removed before it was added");
	seen.there = false;
	seen.removed++;
	copy(vm);
}

/* Notes that concern these tests. */
static unsigned int notes, lost, again;

static void note(void *arg, const char *line)
{
	notes += strstr(line, "the latter is the domain") != NULL;
	lost += strstr(line, "the connection is lost") != NULL;
	again += strstr(line, "connected again") != NULL;
	fprintf(stderr, "note %s\n", line);
}

static void discover(const char *uri)
{
	static const struct disc_ops ops = {added, changed, removed, note};
	struct disc_opts o = {.libvirt_uris = &uri, .nr_uris = uri ? 1 : 0, .poll_ms = 20};

	cr_assert_eq(disc_open(event, &o, &ops, NULL, &d), 0);
}

/* Returns true if the child has ended by itself. */
static bool child_failed(void)
{
	siginfo_t si = {0};

	return child > 0 && !killed && !waitid(P_PID, child, &si, WEXITED | WNOHANG | WNOWAIT) &&
	       si.si_pid == child;
}

/* What takes a moment has taken so many seconds: it hangs. */
#define HANGS_S 240

/* All output that may show why the child fails. */
static void tell_state(void)
{
	char command[512];

	fprintf(stderr,
		"want \"%s\": there %d, added %u, changed %u, removed %u, pid %d, kind \"%s\", "
		"socket \"%s\", %zu vCPUs; child %d\n",
		seen.want, seen.there, seen.added, seen.changed, seen.removed, (int)seen.pid,
		seen.kind, seen.socket, seen.nr_vcpus, (int)child);
	snprintf(command, sizeof(command),
		 "cd /proc/%d && { cat stat; tr '\\0' ' ' <cmdline; echo; cat cgroup; ls -l fd; "
		 "for t in task/*; "
		 "do cat $t/stat $t/wchan $t/syscall $t/stack; echo; done; ps -eLo "
		 "pid,tid,stat,pcpu,comm; } >&2",
		 (int)child);
	if (system(command))
		fprintf(stderr, "not all of it could be read\n");
}

static bool hangs(time_t since)
{
	if (time(NULL) - since < HANGS_S)
		return false;
	tell_state();
	return true;
}

#define wait_until(condition)                                                                      \
	do {                                                                                       \
		time_t since = time(NULL);                                                         \
		do {                                                                               \
			cr_assert(!child_failed(), "line %d: the child ended", __LINE__);          \
			cr_assert(!hangs(since), "line %d: nothing comes", __LINE__);              \
			cr_assert_geq(sd_event_run(event, 1000000), 0);                            \
		} while (!(condition));                                                            \
	} while (0)

static void end_child(void)
{
	killed = true;
	kill(child, SIGKILL);
}

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
	return remove(path);
}

static void setup(void)
{
	strcpy(dir, "/tmp/vpmu-dXXXXXX"); /* short: QEMU's sockets are far below */
	cr_assert(mkdtemp(dir));
	cr_assert_geq(sd_event_new(&event), 0);
	snprintf(seen.want, sizeof(seen.want), "it-%d", getpid());
}

/* Also before a test is skipped. */
static void teardown(void)
{
	disc_close(d);
	d = NULL;
	if (child > 0) {
		kill(child, SIGKILL);
		waitpid(child, NULL, 0);
	}
	child = 0;
	event = sd_event_unref(event);
	nftw(dir, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

TestSuite(discover, .init = setup, .fini = teardown);

static bool installed(const char *program)
{
	char *path = strdup(getenv("PATH"));
	bool found = false;

	for (char *p = strtok(path, ":"); p; p = strtok(NULL, ":")) {
		char file[512];

		snprintf(file, sizeof(file), "%s/%s", p, program);
		found |= !access(file, X_OK);
	}
	free(path);
	return found;
}

static void run(char *const argv[])
{
	killed = false;
	child = fork();
	cr_assert_geq(child, 0);
	if (child)
		return;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	/* The test's output is not the child's. */
	dup2(open("/dev/null", O_RDWR), 0);
	dup2(0, 1);
	dup2(0, 2);
	execvp(argv[0], argv);
	_exit(127);
}

#endif
