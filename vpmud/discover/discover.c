// SPDX-License-Identifier: GPL-2.0-or-later
/* The public functions of discovery, see discover.h: the timer that walks /proc in small pieces,
 * and notes. */
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <time.h>
#include <unistd.h>

#include "service/program/memory.h"
#include "vpmud/discover/priv.h"
#include "vpmu/util/fail.h"

#define POLL_MS_USUAL 1000

/* Files read per timer event, a few milliseconds' worth; and the pause after it, as a multiple of
 * the CPU time it took. */
#define TURN_FILES 256
#define REST	   9

/* Upper bound of the measured CPU time: a jumping clock must not stop the rounds. */
#define WORK_US_MAX 1000000

/* Accuracy of the timer. */
#define TIMER_US 1000

void disc_note(struct disc *d, struct proc *p, enum note_cause cause, const char *fmt, ...)
{
	unsigned int *noted = p ? &p->noted : &d->noted;
	char line[512], shown[512];
	va_list ap;

	if (*noted & cause)
		return;
	if (p) {
		if (!d->notes)
			return;
		d->notes--;
	}
	*noted |= cause;
	va_start(ap, fmt);
	vsnprintf(line, sizeof(line), fmt, ap);
	va_end(ap);
	fail(0, shown, sizeof(shown), "%s", line);
	d->ops.note(d->arg, shown);
}

/* Not sd_event_now(): it is the time at which this loop iteration began. */
static uint64_t discover_now(clockid_t clock)
{
	struct timespec ts;

	clock_gettime(clock, &ts);
	return (uint64_t)ts.tv_sec * 1000000 + (uint64_t)ts.tv_nsec / 1000;
}

static int discover_on_timer(sd_event_source *s, uint64_t usec, void *arg)
{
	struct disc *d = arg;
	uint64_t start = discover_now(CLOCK_THREAD_CPUTIME_ID), used, next;
	bool over = true;
	int ret = 0;

	/* Not before the loop runs: the threads keep the privileges that the process has when they
	 * start. */
	if (d->virt && !d->virt_started) {
		d->virt_started = true;
		ret = virt_start(d->virt);
		if (ret)
			disc_note(d, NULL, NOTE_ERROR, "threads for libvirt: %s", strerror(-ret));
		ret = 0;
	}
	if (!d->walk) {
		d->began = discover_now(CLOCK_MONOTONIC);
		ret = scan_restart(d, false);
	}
	if (ret)
		scan_failed_round(d, ret);
	else
		over = scan_some(d, TURN_FILES);
	used = discover_now(CLOCK_THREAD_CPUTIME_ID) - start;
	if (used > WORK_US_MAX)
		used = WORK_US_MAX;
	next = discover_now(CLOCK_MONOTONIC) + used * REST;
	if (over && next < d->began + d->poll_us)
		next = d->began + d->poll_us;
	/* These fail only for a source that is being destroyed. */
	sd_event_source_set_time(s, next);
	sd_event_source_set_enabled(s, SD_EVENT_ONESHOT);
	return 0;
}

static int on_virt(sd_event_source *s, int fd, uint32_t revents, void *arg)
{
	domains_take(arg);
	return 0;
}

int disc_scan(struct disc *d)
{
	int ret;

	d->began = discover_now(CLOCK_MONOTONIC);
	ret = scan_restart(d, true);
	if (ret)
		return ret;
	while (!scan_some(d, UINT64_MAX))
		;
	sd_event_source_set_time(d->timer, d->began + d->poll_us);
	return d->error;
}

int disc_open(sd_event *e, const struct disc_opts *o, const struct disc_ops *ops, void *arg,
	      struct disc **out)
{
	struct disc *d = xcalloc(1, sizeof(*d));
	int ret;

	d->cgroup = -1;
	d->event = sd_event_ref(e);
	d->ops = *ops;
	d->arg = arg;
	d->poll_us = (o->poll_ms ? o->poll_ms : POLL_MS_USUAL) * 1000;
	d->proc_path = xstrdup(o->proc ? o->proc : "/proc");
	d->proc = open(d->proc_path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (d->proc < 0) {
		ret = -errno;
		goto fail;
	}
	if (o->cgroup_root) {
		d->cgroup = open(o->cgroup_root, O_PATH | O_DIRECTORY | O_CLOEXEC);
		if (d->cgroup < 0)
			disc_note(d, NULL, NOTE_CGROUP,
				  "%s: %s; VMs are shown without the ids of their cgroups",
				  o->cgroup_root, strerror(errno));
	}
	ret = sd_event_add_time(e, &d->timer, CLOCK_MONOTONIC, 0, TIMER_US, discover_on_timer, d);
	if (ret < 0)
		goto fail;
	domains_init(d, o->libvirt_uris, o->nr_uris);
	ret = o->nr_uris ? virt_open(o->libvirt_uris, o->nr_uris, &d->virt) : 0;
	if (ret == -ENOSYS)
		domains_unavailable(d, "this build of vpmud is without libvirt");
	else if (ret)
		goto fail;
	if (d->virt) {
		ret = sd_event_add_io(e, &d->virt_source, virt_fd(d->virt), EPOLLIN, on_virt, d);
		if (ret < 0)
			goto fail;
	}
	*out = d;
	return 0;
fail:
	disc_close(d);
	return ret;
}

void disc_close(struct disc *d)
{
	if (!d)
		return;
	sd_event_source_disable_unref(d->virt_source);
	virt_close(d->virt);
	scan_free(d);
	domains_free(d);
	sd_event_source_disable_unref(d->timer);
	sd_event_unref(d->event);
	if (d->cgroup >= 0)
		close(d->cgroup);
	if (d->proc >= 0)
		close(d->proc);
	free(d->proc_path);
	free(d);
}
