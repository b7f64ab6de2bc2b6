// SPDX-License-Identifier: GPL-2.0-or-later
/* Loads libvirt; see virt_lib.h. libvirt has one event loop per process, so only this file of
 * discovery has process-wide state. */
#include <dlfcn.h>
#include <pthread.h>
#include <stdbool.h>
#include <string.h>
#include <time.h>

#include "vpmud/discover/virt_lib.h"
#include "vpmu/util/fail.h"

#define LIBRARY "libvirt.so.0"

static struct {
	pthread_mutex_t lock;
	bool loaded;
	struct virt_lib lib;
} one = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* Suppress libvirt's messages on standard error: our notes have them. */
static void silent(void *arg, virErrorPtr error)
{
}

static void *virt_lib_events(void *arg)
{
	static const struct timespec pause = {.tv_sec = 1};

	for (;;)
		if (one.lib.virEventRunDefaultImpl() < 0)
			nanosleep(&pause, NULL);
	return NULL;
}

static int virt_lib_start(char *err, size_t errlen)
{
	pthread_attr_t attr;
	pthread_t thread;
	int ret;

	if (one.lib.virEventRegisterDefaultImpl() < 0 || one.lib.virInitialize() < 0)
		return fail(-1, err, errlen, "%s: %s", LIBRARY, one.lib.virGetLastErrorMessage());
	one.lib.virSetErrorFunc(NULL, silent);
	pthread_attr_init(&attr);
	pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
	ret = pthread_create(&thread, &attr, virt_lib_events, NULL);
	pthread_attr_destroy(&attr);
	return ret ? fail(-1, err, errlen, "thread for libvirt: %s", strerror(ret)) : 0;
}

static int discover_virt_lib_load(char *err, size_t errlen)
{
	void *so = dlopen(LIBRARY, RTLD_NOW | RTLD_LOCAL);

	if (!so)
		return fail(-1, err, errlen, "%s", dlerror());
#define X(f)                                                                                       \
	one.lib.f = (__typeof__(&f))dlsym(so, #f);                                                 \
	if (!one.lib.f)                                                                            \
		goto missing;
	VIRT_FUNCTIONS(X)
#undef X
	/* Never unloaded: its threads cannot be stopped. */
	return virt_lib_start(err, errlen);
missing:
	fail(-1, err, errlen, "%s", dlerror());
	dlclose(so);
	return -1;
}

const struct virt_lib *virt_lib_load(char *err, size_t errlen)
{
	pthread_mutex_lock(&one.lock);
	if (!one.loaded)
		one.loaded = !discover_virt_lib_load(err, errlen);
	pthread_mutex_unlock(&one.lock);
	return one.loaded ? &one.lib : NULL;
}
