// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The main program of vpmu-vmm, and its control thread. It builds the machine from the options,
 * serves the control socket, and prints what VMs print and how they end. An error is one line on
 * standard error. Exit status: 0; 1 if vpmu-vmm or a VM failed; 2 if options or configuration are
 * wrong.
 */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "vpmu/util/fail.h"
#include "vmm/control.h"
#include "vmm/options.h"
#include "vmm/report.h"
#include "vpmu/rcu.h"

#define EXIT_USAGE 2
#define ERR_MAX	   1024

struct app {
	struct options opts;
	sd_event *ev;
	sd_event_source *timer;
	struct machine *machine;
	struct control control;
	int wake_fd;
	unsigned int running; /* number of VMs that have not ended */
	bool waiting;	      /* the sessions of --wait-attach are not there yet */
	bool vm_failed;	      /* a VM failed or ended with a status other than 0 */
	bool failed;	      /* vpmu-vmm itself failed */
	bool reports;	      /* report_init has succeeded */
};

static void error_line(const char *text)
{
	fprintf(stderr, "vpmu-vmm: %s\n", text);
}

/* ---- callbacks of the machine --------------------------------------------------------------- */

static void on_console(const struct machine_vm *vm, unsigned int vcpu, const char *line, size_t len,
		       void *arg)
{
	report_console(vm, vcpu, line, len);
}

static void on_wake(void *arg)
{
	struct app *a = arg;
	uint64_t one = 1;

	if (write(a->wake_fd, &one, sizeof(one)) < 0)
		return; /* the counter is full, so the control thread is awake */
}

static void on_ended(const struct machine_vm *vm, void *arg)
{
	struct app *a = arg;

	report_end(vm);
	report_post_mortem(vm);
	a->vm_failed |= vm->state == VM_FAILED || vm->status;
	a->running--;
}

static void on_note(const char *line, void *arg)
{
	error_line(line);
}

/* ---- callbacks of the control socket -------------------------------------------------------- */

static void on_quit(void *arg)
{
	struct app *a = arg;

	sd_event_exit(a->ev, 0);
}

static void on_removed(const struct machine_vm *vm, void *arg)
{
	struct app *a = arg;

	if (vm->vm) {
		report_removed(vm);
		a->running--;
	}
}

static void on_added(const struct machine_vm *vm, void *arg)
{
	struct app *a = arg;

	a->running++;
}

/* ---- the event loop ------------------------------------------------------------------------- */

static int on_wake_fd(sd_event_source *s, int fd, uint32_t revents, void *arg)
{
	struct app *a = arg;
	uint64_t n;

	if (read(fd, &n, sizeof(n)) < 0 && errno != EAGAIN)
		return -errno;
	machine_reap(a->machine);
	return 0;
}

static int on_timer(sd_event_source *s, uint64_t usec, void *arg)
{
	struct app *a = arg;

	machine_tick(a->machine);
	return sd_event_source_set_time_relative(s, MACHINE_TICK_MS * 1000);
}

/* Called after every event: react to what the event may have changed. */
static int on_post(sd_event_source *s, void *arg)
{
	struct app *a = arg;
	char err[ERR_MAX];

	if (a->waiting && control_sessions(&a->control) >= a->opts.wait_attach) {
		a->waiting = false;
		if (control_resume(&a->control, err, sizeof(err))) {
			error_line(err);
			a->failed = true;
			sd_event_exit(a->ev, 0);
		}
	}
	if (report_failed()) {
		error_line("standard output: cannot write");
		a->failed = true;
		sd_event_exit(a->ev, 0);
	}
	if (!a->running && !a->opts.hold)
		sd_event_exit(a->ev, 0);
	return sd_event_source_set_enabled(
		a->timer, a->running && machine_ticks(a->machine) ? SD_EVENT_ON : SD_EVENT_OFF);
}

/* Block the signals before any thread exists, so that all threads have them blocked. */
static int setup_events(struct app *a)
{
	static const int quits[] = {SIGINT, SIGTERM};
	sigset_t set;
	int ret;

	sigemptyset(&set);
	sigaddset(&set, SIGINT);
	sigaddset(&set, SIGTERM);
	ret = -pthread_sigmask(SIG_BLOCK, &set, NULL);
	signal(SIGPIPE, SIG_IGN);
	signal(SIGXFSZ, SIG_IGN); /* a snapshot beyond the file size limit gets EFBIG instead */
	if (!ret)
		ret = sd_event_new(&a->ev);
	for (size_t i = 0; i < 2 && ret >= 0; i++)
		ret = sd_event_add_signal(a->ev, NULL, quits[i], NULL, NULL);
	if (ret < 0)
		return ret;
	a->wake_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
	if (a->wake_fd < 0)
		return -errno;
	ret = sd_event_add_io(a->ev, NULL, a->wake_fd, POLLIN, on_wake_fd, a);
	if (ret >= 0)
		ret = sd_event_add_post(a->ev, NULL, on_post, a);
	if (ret >= 0)
		ret = sd_event_add_time_relative(a->ev, &a->timer, CLOCK_MONOTONIC,
						 MACHINE_TICK_MS * 1000, 0, on_timer, a);
	return ret < 0 ? ret : 0;
}

/* Serve the socket that was asked for, or else the usual one if that is possible. */
static int setup_socket(struct app *a, const char **path, char *err, size_t errlen)
{
	static char usual[128];
	char line[ERR_MAX + 64];
	int ret;

	*path = a->opts.config.host.socket;
	if (a->opts.no_socket)
		return 0;
	if (*path)
		return control_serve(&a->control, a->ev, *path, err, errlen);
	ret = server_default_path("vpmu-vmm", usual, sizeof(usual));
	if (!ret)
		ret = control_serve(&a->control, a->ev, usual, err, errlen);
	else
		fail(ret, err, errlen, "%s", strerror(-ret));
	if (!ret) {
		*path = usual;
		return 0;
	}
	if (a->opts.hold || a->opts.paused || a->opts.wait_attach)
		return ret; /* these options are useless without a socket */
	snprintf(line, sizeof(line), "no control socket: %s", err);
	error_line(line);
	return 0;
}

static int setup(struct app *a, char *err, size_t errlen)
{
	const struct machine_opts mo = {
		.host = &a->opts.config.host,
		.console = on_console,
		.wake = on_wake,
		.ended = on_ended,
		.note = on_note,
		.arg = a,
	};
	const struct config *cfg = &a->opts.config;
	bool paused = a->opts.paused || a->opts.wait_attach;
	const char *path;
	int ret;

	ret = setup_events(a);
	if (ret)
		return fail(ret, err, errlen, "event loop: %s", strerror(-ret));
	ret = report_init(a->opts.json, on_wake, a);
	if (ret)
		return fail(ret, err, errlen, "output thread: %s", strerror(-ret));
	a->reports = true;
	ret = machine_create(&mo, &a->machine, err, errlen);
	if (ret)
		return ret;
	a->control = (struct control){
		.machine = a->machine,
		.paused = paused,
		.quit = on_quit,
		.added = on_added,
		.removed = on_removed,
		.log = on_note,
		.arg = a,
	};
	for (size_t i = 0; i < cfg->nr_vms; i++) {
		ret = machine_vm_add(a->machine, &cfg->vms[i], NULL, err, errlen);
		if (ret)
			return ret;
		a->running++;
	}
	ret = setup_socket(a, &path, err, errlen);
	if (ret)
		return ret;
	a->waiting = a->opts.wait_attach != 0;
	report_ready(path, cfg->nr_vms, paused);
	return paused ? 0 : control_resume(&a->control, err, errlen);
}

static void teardown(struct app *a)
{
	control_close(&a->control);
	if (a->machine)
		machine_destroy(a->machine);
	if (a->reports)
		report_close();
	if (a->wake_fd >= 0)
		close(a->wake_fd);
	sd_event_source_unref(a->timer);
	sd_event_unref(a->ev);
	urcu_memb_barrier();
}

int main(int argc, char **argv)
{
	struct app a = {.wake_fd = -1};
	char err[ERR_MAX] = "";
	int ret, status;

	ret = options_parse(&a.opts, argc, argv, err, sizeof(err));
	if (ret) {
		error_line(err);
		options_fini(&a.opts);
		return EXIT_USAGE;
	}
	urcu_memb_register_thread();
	ret = setup(&a, err, sizeof(err));
	if (!ret) {
		ret = sd_event_loop(a.ev);
		if (ret < 0)
			fail(ret, err, sizeof(err), "event loop: %s", strerror(-ret));
	}
	if (ret < 0)
		error_line(err);
	status = ret < 0 || a.failed || a.vm_failed ? EXIT_FAILURE : EXIT_SUCCESS;
	teardown(&a);
	options_fini(&a.opts);
	urcu_memb_unregister_thread();
	return status;
}
