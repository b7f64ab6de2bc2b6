// SPDX-License-Identifier: LGPL-2.1-or-later
/*
 * Alarms of a thread's perf PMU: timers for TSC counts, and the system calls for these and for
 * armed perf events. perf.c calls this when libvpmu arms a counter.
 *
 * A timer's clock advances while the thread has no CPU, but the counter does not, so an alarm can
 * be early; libvpmu then rearms. A timer on the thread's CPU time would be exact, but the kernel
 * checks those only at its ticks.
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/ioctl.h>

#include <linux/perf_event.h>

#include "vpmu/host/perf_priv.h"

#ifndef sigev_notify_thread_id
#define sigev_notify_thread_id _sigev_un._tid
#endif

/* ---- the kernel --------------------------------------------------------------------------- */

int vpmu_perf_sys_notify(int fd, int tid, int sig)
{
	struct f_owner_ex owner = {.type = F_OWNER_TID, .pid = tid};
	int flags = fcntl(fd, F_GETFL);

	if (flags < 0 || fcntl(fd, F_SETSIG, sig) || fcntl(fd, F_SETOWN_EX, &owner) ||
	    fcntl(fd, F_SETFL, flags | O_ASYNC))
		return -errno;
	return 0;
}

int vpmu_perf_sys_period(int fd, uint64_t events)
{
	return ioctl(fd, PERF_EVENT_IOC_PERIOD, &events) ? -errno : 0;
}

int vpmu_perf_sys_timer_make(int tid, int sig, timer_t *id)
{
	struct sigevent ev = {.sigev_notify = SIGEV_THREAD_ID, .sigev_signo = sig};

	ev.sigev_notify_thread_id = tid;
	return timer_create(CLOCK_MONOTONIC, &ev, id) ? -errno : 0;
}

int vpmu_perf_sys_timer_set(timer_t id, uint64_t ns)
{
	const struct itimerspec at = {.it_value = {.tv_sec = (time_t)(ns / 1000000000),
						   .tv_nsec = (long)(ns % 1000000000)}};

	return timer_settime(id, 0, &at, NULL) ? -errno : 0;
}

void vpmu_perf_sys_timer_end(timer_t id)
{
	timer_delete(id);
}

static uint64_t perf_alarm_tsc(void)
{
#ifdef __x86_64__
	return __builtin_ia32_rdtsc();
#else
	return 0; /* never called: there is no guest_tsc */
#endif
}

static uint64_t begin_tsc, begin_ns;
static pthread_once_t begin_once = PTHREAD_ONCE_INIT;

static void perf_alarm_begin(void)
{
	vpmu_perf_sys->clock(0, &begin_ns);
	begin_tsc = perf_alarm_tsc();
}

/* Uses the rate measured since the first call; its precision grows with time. */
uint64_t vpmu_perf_sys_tsc_ns(uint64_t ticks)
{
	uint64_t now = 0;
	double rate;

	pthread_once(&begin_once, perf_alarm_begin);
	vpmu_perf_sys->clock(0, &now);
	rate = now > begin_ns ? (double)(perf_alarm_tsc() - begin_tsc) / (double)(now - begin_ns)
			      : 0;
	return rate > 0 ? (uint64_t)((double)ticks / rate) : ticks;
}

/* ---- timers ------------------------------------------------------------------------------- */

#define FAR_NS (1ULL << 60) /* years */

/* Set timer @n, creating it on first use. 0 or -errno. */
static int perf_timer_set(struct vpmu_hostpmu_perf *p, unsigned int n, uint64_t ticks)
{
	uint64_t ns = vpmu_perf_sys->tsc_ns(ticks < FAR_NS ? ticks : FAR_NS);
	int rc;

	if (!p->timer[n].made) {
		rc = vpmu_perf_sys->timer_make(p->tid, p->opts.alarm_signal, &p->timer[n].id);
		if (rc)
			return rc;
		p->timer[n].made = true;
	}
	return vpmu_perf_sys->timer_set(p->timer[n].id,
					ns < VPMU_PERF_ALARM_MIN_NS ? VPMU_PERF_ALARM_MIN_NS : ns);
}

void vpmu_perf_timer_arm(struct vpmu_hostpmu_perf *p, unsigned int n, uint64_t ticks)
{
	p->timer[n].retry = false;
	if (!ticks) {
		if (p->timer[n].made)
			vpmu_perf_sys->timer_set(p->timer[n].id, 0);
	} else if (!p->tid || perf_timer_set(p, n, ticks)) {
		p->timer[n].retry = true;
		p->timer[n].due = p->opts.guest_tsc(p->opts.arg) + ticks;
	}
}

void vpmu_perf_timers_retry(struct vpmu_hostpmu_perf *p)
{
	for (unsigned int n = 0; n < sizeof(p->timer) / sizeof(p->timer[0]); n++) {
		uint64_t now, due = p->timer[n].due;

		if (!p->timer[n].retry)
			continue;
		now = p->opts.guest_tsc(p->opts.arg);
		vpmu_perf_timer_arm(p, n, due > now ? due - now : 1);
	}
}

void vpmu_perf_timers_end(struct vpmu_hostpmu_perf *p)
{
	for (unsigned int n = 0; n < sizeof(p->timer) / sizeof(p->timer[0]); n++) {
		if (p->timer[n].made)
			vpmu_perf_sys->timer_end(p->timer[n].id);
		p->timer[n].made = false;
	}
}
