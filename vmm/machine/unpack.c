// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Reads and unpacks a kernel on a thread of its own, since a malicious one may take minutes.
 * vmm/control_kernel.c starts it for a VM that a client adds, and hands the result to the next
 * machine_vm_add. The thread touches nothing but its struct machine_unpack.
 */
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "vmm/machine/priv.h"

struct machine_unpack {
	struct machine *machine;
	char *path;
	struct machine_kernel kernel;
	int ret;
	char why[VM_REASON_MAX];
	pthread_mutex_t lock;
	bool done, left; /* the thread has finished; the result is not wanted any more */
};

static void unpack_free(struct machine_unpack *u)
{
	machine_kernel_forget(&u->kernel);
	pthread_mutex_destroy(&u->lock);
	free(u->path);
	free(u);
}

static void *unpack_thread(void *arg)
{
	struct machine_unpack *u = arg;
	const struct image *img;
	bool left;
	int ret = machine_kernel_get(&u->kernel, u->path, &img, u->why, sizeof(u->why));

	pthread_mutex_lock(&u->lock);
	u->ret = ret;
	u->done = true;
	left = u->left;
	if (!left)
		u->machine->opts.wake(u->machine->opts.arg);
	pthread_mutex_unlock(&u->lock);
	if (left)
		unpack_free(u);
	return NULL;
}

struct machine_unpack *machine_unpack(struct machine *m, const char *path)
{
	struct machine_unpack *u = calloc(1, sizeof(*u));
	sigset_t all, old;
	pthread_t thread;
	int ret;

	if (!u)
		return NULL;
	pthread_mutex_init(&u->lock, NULL);
	u->machine = m;
	u->path = strdup(path);
	if (!u->path) {
		unpack_free(u);
		return NULL;
	}
	/* Signals are for the control thread. */
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	ret = pthread_create(&thread, NULL, unpack_thread, u);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	if (ret) {
		unpack_free(u);
		return NULL;
	}
	pthread_detach(thread);
	return u;
}

bool machine_unpacked(struct machine_unpack *u)
{
	bool done;

	pthread_mutex_lock(&u->lock);
	done = u->done;
	pthread_mutex_unlock(&u->lock);
	return done;
}

int machine_unpack_take(struct machine_unpack *u, char *err, size_t errlen)
{
	struct machine *m = u->machine;
	int ret = u->ret;

	if (ret) {
		snprintf(err, errlen, "%s", u->why);
	} else {
		machine_kernel_forget(&m->kernel);
		m->kernel = u->kernel;
		m->kernel.next = true;
		u->kernel = (struct machine_kernel){0};
	}
	unpack_free(u);
	return ret;
}

void machine_unpack_unused(struct machine *m)
{
	if (m->kernel.next)
		machine_kernel_forget(&m->kernel);
}

void machine_unpack_leave(struct machine_unpack *u)
{
	bool done;

	pthread_mutex_lock(&u->lock);
	u->left = true;
	done = u->done;
	pthread_mutex_unlock(&u->lock);
	if (done)
		unpack_free(u);
}
