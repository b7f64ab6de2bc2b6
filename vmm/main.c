// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The main program of vpmu-vmm, and its control thread. It builds the machine from the options,
 * serves the control socket, and prints the VMs' output and how they end. An error is one line on
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

#include "vmm/lineout.h"
#include "vpmu/util/fail.h"
#include "vmm/console.h"
#include "vmm/contain.h"
#include "vmm/control.h"
#include "vmm/options.h"
#include "vmm/report.h"
#include "vpmu/core/rcu.h"

#define EXIT_USAGE 2
#define ERR_MAX	   1024

struct app {
	struct options opts;
	sd_event *ev;
	sd_event_source *timer;
	struct machine *machine;
	struct control control;
	int wake_fd;
	int *console_fds;   /* for the configuration's VMs, until passed to their consoles; or -1 */
	char *snapshot_dir; /* of the configuration, as an absolute path; NULL: none */
	unsigned int running; /* number of VMs that have not ended */
	bool waiting;	      /* the sessions of --wait-attach are not there yet */
	bool vm_failed;	      /* a VM failed or ended with a status other than 0 */
	bool failed;	      /* vpmu-vmm itself failed */
	bool trouble;	      /* standard output has failed, which was reported */
	bool reports;	      /* report_init has succeeded */
};

static void error_line(const char *text)
{
	fprintf(stderr, "vpmu-vmm: %s\n", text);
}

/* ---- callbacks of the machine --------------------------------------------------------------- */

static void main_on_console(const struct machine_vm *vm, unsigned int vcpu, const char *line,
			    size_t len, void *arg)
{
	report_console(vm, vcpu, line, len);
}

static void main_on_sent(const struct machine_vm *vm, uint8_t byte, void *arg)
{
	console_sent(vm->user, byte);
}

static void main_on_wake(void *arg)
{
	struct app *a = arg;
	uint64_t one = 1;

	if (write(a->wake_fd, &one, sizeof(one)) < 0)
		return; /* the counter is full, so the control thread is awake */
}

static void main_on_ended(const struct machine_vm *vm, void *arg)
{
	struct app *a = arg;

	report_end(vm);
	report_post_mortem(vm);
	a->vm_failed |= vm->state == VM_FAILED || vm->status;
	a->running--;
}

/* Create the VM's console by its configuration or else the host's. */
static int on_adding(struct machine_vm *vm, const struct vm_config *c, char *err, size_t errlen,
		     void *arg)
{
	struct app *a = arg;
	const struct host_config *host = &a->opts.config.host;
	enum vm_console where = c->console ? c->console : host->console;
	struct console_opts o = {
		.name = vm->name,
		.many = vm->vcpus > 1 && !vm->kernel,
		.rate = host->console_rate,
		.print = where == VM_CONSOLE_STDOUT,
		.fd = -1,
	};

	/* Only VMs of the configuration have files: control.c refuses them in requests. */
	if (where == VM_CONSOLE_FILE) {
		o.fd = a->console_fds[c - a->opts.config.vms];
		a->console_fds[c - a->opts.config.vms] = -1;
	}
	vm->user = console_new(&o);
	if (vm->user)
		return 0;
	if (o.fd >= 0)
		close(o.fd);
	return fail(-ENOMEM, err, errlen, "out of memory");
}

static void on_freed(struct machine_vm *vm, void *arg)
{
	console_free(vm->user);
}

static void main_on_note(const char *line, void *arg)
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

static void main_on_added(const struct machine_vm *vm, void *arg)
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
	control_kernels_tend(&a->control);
	return 0;
}

static int main_on_timer(sd_event_source *s, uint64_t usec, void *arg)
{
	struct app *a = arg;

	machine_tick(a->machine);
	return sd_event_source_set_time_relative(s, MACHINE_TICK_MS * 1000);
}

/* Report an error of standard output once. The VMs continue. */
static void tell_trouble(struct app *a)
{
	char line[ERR_MAX];
	int error = lineout_error();

	if (!error || a->trouble)
		return;
	a->trouble = true;
	snprintf(line, sizeof(line),
		 "standard output: %s; lines that cannot be printed are dropped and counted, and "
		 "the VMs go on",
		 strerror(error));
	error_line(line);
}

/* Called after every event: react to what the event may have changed. */
static int main_on_post(sd_event_source *s, void *arg)
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
	tell_trouble(a);
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
		ret = sd_event_add_post(a->ev, NULL, main_on_post, a);
	if (ret >= 0)
		ret = sd_event_add_time_relative(a->ev, &a->timer, CLOCK_MONOTONIC,
						 MACHINE_TICK_MS * 1000, 0, main_on_timer, a);
	return ret < 0 ? ret : 0;
}

/* Serve the requested socket, or else the usual one if possible. */
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
	a->control.usual_socket = true;
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
		return ret; /* these options need a socket */
	snprintf(line, sizeof(line), "no control socket: %s", err);
	error_line(line);
	return 0;
}

/* Open the files of consoles, before the user is switched. */
static int open_consoles(struct app *a, char *err, size_t errlen)
{
	const struct config *cfg = &a->opts.config;

	a->console_fds = malloc((cfg->nr_vms + 1) * sizeof(*a->console_fds));
	if (!a->console_fds)
		return fail(-ENOMEM, err, errlen, "out of memory");
	for (size_t i = 0; i < cfg->nr_vms; i++)
		a->console_fds[i] = -1;
	for (size_t i = 0; i < cfg->nr_vms; i++) {
		const struct vm_config *c = &cfg->vms[i];
		char why[ERR_MAX / 2];

		if (c->console != VM_CONSOLE_FILE)
			continue;
		a->console_fds[i] = console_open_file(c->console_file, why, sizeof(why));
		if (a->console_fds[i] < 0)
			return fail(a->console_fds[i], err, errlen, "%s: vm %s/console: %s",
				    c->where, c->name, why);
	}
	return 0;
}

static int give_up_rights(struct app *a, const char *socket, char *err, size_t errlen)
{
	const struct host_config *host = &a->opts.config.host;
	const struct vmm_contain_opts o = {
		.user = host->user,
		.socket = socket,
		.snapshot_dir = a->snapshot_dir,
		.cgroup_root = host->cgroup_root,
	};

	return vmm_contain(&o, err, errlen);
}

static int setup(struct app *a, char *err, size_t errlen)
{
	const struct machine_opts mo = {
		.host = &a->opts.config.host,
		.adding = on_adding,
		.freed = on_freed,
		.console = main_on_console,
		.sent = main_on_sent,
		.wake = main_on_wake,
		.ended = main_on_ended,
		.note = main_on_note,
		.arg = a,
	};
	const struct config *cfg = &a->opts.config;
	bool paused = a->opts.paused || a->opts.wait_attach;
	const char *path;
	int ret;

	ret = setup_events(a);
	if (ret)
		return fail(ret, err, errlen, "event loop: %s", strerror(-ret));
	ret = machine_create(&mo, &a->machine, err, errlen);
	if (ret)
		return ret;
	if (cfg->host.snapshot_dir) {
		a->snapshot_dir = realpath(cfg->host.snapshot_dir, NULL);
		if (!a->snapshot_dir)
			return fail(-errno, err, errlen, "--snapshot-dir: %.300s: %s",
				    cfg->host.snapshot_dir, strerror(errno));
	}
	a->control = (struct control){
		.machine = a->machine,
		.snapshot_dir = a->snapshot_dir,
		.paused = paused,
		.access = &a->opts.access,
		.quit = on_quit,
		.added = main_on_added,
		.removed = on_removed,
		.log = main_on_note,
		.arg = a,
	};
	ret = setup_socket(a, &path, err, errlen);
	if (!ret)
		ret = open_consoles(a, err, errlen);
	if (!ret)
		ret = give_up_rights(a, path, err, errlen);
	if (ret)
		return ret;
	/* From here on there are other threads. */
	ret = report_init(a->opts.json, main_on_wake, a);
	if (ret)
		return fail(ret, err, errlen, "output thread: %s", strerror(-ret));
	a->reports = true;
	for (size_t i = 0; i < cfg->nr_vms; i++) {
		ret = machine_vm_add(a->machine, &cfg->vms[i], NULL, err, errlen);
		if (ret)
			return ret;
		a->running++;
	}
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
		lineout_close();
	if (a->wake_fd >= 0)
		close(a->wake_fd);
	free(a->snapshot_dir);
	for (size_t i = 0; a->console_fds && i < a->opts.config.nr_vms; i++)
		if (a->console_fds[i] >= 0)
			close(a->console_fds[i]);
	free(a->console_fds);
	sd_event_source_unref(a->timer);
	sd_event_unref(a->ev);
	/* Wait for pending RCU callbacks, which free memory. */
	urcu_memb_barrier();
}

static bool started;

/* argp prints --help and --version itself and exits. */
static void vmm_main_at_exit(void)
{
	if (started || (!fflush(stdout) && !ferror(stdout)))
		return;
	error_line("standard output: cannot be written");
	_exit(EXIT_FAILURE);
}

int main(int argc, char **argv)
{
	struct app a = {.wake_fd = -1};
	char err[ERR_MAX] = "";
	int ret, status;

	atexit(vmm_main_at_exit);
	ret = options_parse(&a.opts, argc, argv, err, sizeof(err));
	if (ret) {
		error_line(err);
		options_fini(&a.opts);
		return EXIT_USAGE;
	}
	started = true;
	urcu_memb_register_thread();
	ret = setup(&a, err, sizeof(err));
	if (!ret) {
		ret = sd_event_loop(a.ev);
		if (ret < 0)
			fail(ret, err, sizeof(err), "event loop: %s", strerror(-ret));
	}
	if (ret < 0)
		error_line(err);
	teardown(&a);
	tell_trouble(&a);
	status = ret < 0 || a.failed || a.vm_failed || a.trouble ? EXIT_FAILURE : EXIT_SUCCESS;
	options_fini(&a.opts);
	urcu_memb_unregister_thread();
	return status;
}
