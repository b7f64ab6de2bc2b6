// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * A host that cannot be created: each allocation of vpmu_host_create fails in turn, and nothing is
 * left behind, no memory (with ASan) and no mutex.
 */
#include <criterion/criterion.h>
#include <pthread.h>

#include "tests/nomem.h"
#include "vpmu/host.h"

static int mutexes;

int __real_pthread_mutex_init(pthread_mutex_t *m, const pthread_mutexattr_t *attr);
int __wrap_pthread_mutex_init(pthread_mutex_t *m, const pthread_mutexattr_t *attr);
int __wrap_pthread_mutex_init(pthread_mutex_t *m, const pthread_mutexattr_t *attr)
{
	mutexes++;
	return __real_pthread_mutex_init(m, attr);
}

int __real_pthread_mutex_destroy(pthread_mutex_t *m);
int __wrap_pthread_mutex_destroy(pthread_mutex_t *m);
int __wrap_pthread_mutex_destroy(pthread_mutex_t *m)
{
	mutexes--;
	return __real_pthread_mutex_destroy(m);
}

Test(core_nomem, host)
{
	unsigned long failed = 1, tried = 0;

	for (; failed; tried++) {
		struct vpmu_host *host;

		nomem_arm(tried, false);
		host = vpmu_host_create();
		failed = nomem_disarm();
		cr_assert_eq(!host, failed);
		cr_assert_eq(mutexes > 0, host != NULL);
		vpmu_host_destroy(host);
		cr_assert_eq(mutexes, 0, "allocation %lu: %d mutexes are left", tried, mutexes);
	}
	cr_assert_gt(tried, 3);
}
