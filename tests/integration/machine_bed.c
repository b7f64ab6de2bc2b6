// SPDX-License-Identifier: GPL-2.0-or-later
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/lsan_interface.h>
#endif

#include "machine_bed.h"
#include "vpmu/core/rcu.h"
#include "service/backend/core.h"

#define WAIT_SECONDS 3600

void bed_fail(const char *file, int line, const char *expr, const char *fmt, ...)
{
	va_list ap;

	fprintf(stderr, "%s:%d: %s: ", file, line, expr);
	va_start(ap, fmt);
	vfprintf(stderr, fmt, ap);
	va_end(ap);
	fprintf(stderr, "\n");
	abort();
}

static void on_console(const struct machine_vm *vm, unsigned int vcpu, const char *line, size_t len,
		       void *arg)
{
	struct bed *b = arg;

	pthread_mutex_lock(&b->lock);
	b->lines = reallocarray(b->lines, b->nr_lines + 1, sizeof(*b->lines));
	b->lines[b->nr_lines++] =
		(struct bed_line){.vm = strdup(vm->name), .text = strndup(line, len), .vcpu = vcpu};
	b->woken = true;
	pthread_cond_signal(&b->cond);
	pthread_mutex_unlock(&b->lock);
}

static void on_wake(void *arg)
{
	struct bed *b = arg;

	pthread_mutex_lock(&b->lock);
	b->woken = true;
	pthread_cond_signal(&b->cond);
	pthread_mutex_unlock(&b->lock);
}

static void on_ended(const struct machine_vm *vm, void *arg)
{
	struct bed *b = arg;

	b->ended++;
	b->failed += vm->state == VM_FAILED || vm->status;
}

static void on_log(const char *line, void *arg)
{
	fprintf(stderr, "# %s\n", line);
}

static void on_quit(void *arg)
{
	struct bed *b = arg;

	b->quit = true;
}

static void on_change(const struct machine_vm *vm, void *arg)
{
}

void bed_open(struct bed *b, const char *host)
{
	struct machine_opts mo = {
		.console = on_console,
		.wake = on_wake,
		.ended = on_ended,
		.note = on_log,
		.arg = b,
	};
	char err[512], *copy = strdup(host), *rest = copy, *item;

	memset(b, 0, sizeof(*b));
	pthread_mutex_init(&b->lock, NULL);
	pthread_cond_init(&b->cond, NULL);
	urcu_memb_register_thread();
	config_init(&b->config);
	while ((item = strsep(&rest, ",")) && *item) {
		char *eq = strchr(item, '=');

		bed_must(eq, "%s", item);
		*eq = 0;
		bed_must(config_host_option(&b->config, "test", item, eq + 1, err, sizeof(err)) ==
				 0,
			 "%s", err);
	}
	free(copy);
	if (!b->config.host.ram_limit)
		b->config.host.ram_limit = UINT64_MAX; /* of the machines that tests run on */
	mo.host = &b->config.host;
	bed_must(machine_create(&mo, &b->machine, err, sizeof(err)) == 0, "%s", err);
	b->control = (struct control){
		.machine = b->machine,
		.snapshot_dir = "/",
		.paused = true,
		.quit = on_quit,
		.added = on_change,
		.removed = on_change,
		.log = on_log,
		.arg = b,
	};
	bed_must(control_serve(&b->control, NULL, NULL, err, sizeof(err)) == 0, "%s", err);
}

void bed_close(struct bed *b)
{
	bed_conserved(b);
	control_close(&b->control);
	machine_destroy(b->machine);
	config_fini(&b->config);
	for (size_t i = 0; i < b->nr_lines; i++) {
		free(b->lines[i].vm);
		free(b->lines[i].text);
	}
	free(b->lines);
	urcu_memb_barrier();
	urcu_memb_unregister_thread();
}

struct machine_vm *bed_add(struct bed *b, const char *fmt, ...)
{
	char option[2048], err[1024];
	struct machine_vm *vm;
	size_t n;
	va_list ap;

	va_start(ap, fmt);
	n = (size_t)vsnprintf(option, sizeof(option), fmt, ap);
	va_end(ap);
	if (!strstr(option, "image="))
		n += (size_t)snprintf(option + n, sizeof(option) - n, ",image=" VPMU_GUEST);
	if (!strstr(option, "engine="))
		snprintf(option + n, sizeof(option) - n, ",engine=emulator");
	bed_must(config_vm_option(&b->config, option, err, sizeof(err)) == 0, "%s", err);
	bed_must(machine_vm_add(b->machine, &b->config.vms[b->config.nr_vms - 1], &vm, err,
				sizeof(err)) == 0,
		 "%s", err);
	return vm;
}

struct vpmu_host *bed_host(struct bed *b)
{
	struct vpmu_backend *source = tenants_source(machine_tenants(b->machine), 0);

	bed_must(source && !strcmp(source->backend, BACKEND_EMU), "no modelled pCPUs yet");
	return vpmu_backend_core_host(source);
}

/* Sleep until something happened; @deadline: give up. */
static void wait_event(struct bed *b, const struct timespec *deadline)
{
	int rc = 0;

	pthread_mutex_lock(&b->lock);
	while (!b->woken && !rc)
		rc = pthread_cond_timedwait(&b->cond, &b->lock, deadline);
	b->woken = false;
	pthread_mutex_unlock(&b->lock);
	bed_must(rc == 0, "nothing happened for %d s", WAIT_SECONDS);
	machine_reap(b->machine);
}

static struct timespec deadline(void)
{
	struct timespec t;

	clock_gettime(CLOCK_REALTIME, &t);
	t.tv_sec += WAIT_SECONDS;
	return t;
}

void bed_start(struct machine_vm *vm)
{
	char err[512];

	bed_must(machine_vm_start(vm, err, sizeof(err)) == 0, "%s", err);
}

void bed_run(struct bed *b, unsigned int ended)
{
	struct timespec until = deadline();
	char err[512];

	bed_must(control_resume(&b->control, err, sizeof(err)) == 0, "%s", err);
	machine_reap(b->machine);
	while (b->ended < ended)
		wait_event(b, &until);
}

static bool has_line(struct bed *b, const char *vm, const char *text)
{
	bool found = false;

	pthread_mutex_lock(&b->lock);
	for (size_t i = 0; i < b->nr_lines && !found; i++)
		found = !strcmp(b->lines[i].vm, vm) && strstr(b->lines[i].text, text);
	pthread_mutex_unlock(&b->lock);
	return found;
}

void bed_wait_line(struct bed *b, const char *vm, const char *text)
{
	struct timespec until = deadline();

	while (!has_line(b, vm, text))
		wait_event(b, &until);
}

/* @says: what its error contains; NULL: anything. */
static json_t *ask(struct bed *b, bool ok, const char *says, const char *fmt, va_list ap)
{
	char line[2048], *answer;
	const char *why;
	json_t *obj;
	int n = vsnprintf(line, sizeof(line), fmt, ap);

	for (char *at = line; (at = strchr(at, '\''));)
		*at = '"';
	answer = server_dispatch(b->control.server, line, (size_t)n);
	bed_must(answer, "out of memory");
	obj = json_loads(answer, 0, NULL);
	bed_must(obj, "%s", answer);
	bed_must(json_is_true(json_object_get(obj, "ok")) == ok, "%s -> %s", line, answer);
	why = json_string_value(json_object_get(obj, "error"));
	bed_must(!says || (why && strstr(why, says) && !strchr(why, '\n')), "%s -> %s, not \"%s\"",
		 line, why, says);
	free(answer);
	return obj;
}

json_t *bed_ask(struct bed *b, bool ok, const char *fmt, ...)
{
	json_t *obj;
	va_list ap;

	va_start(ap, fmt);
	obj = ask(b, ok, NULL, fmt, ap);
	va_end(ap);
	return obj;
}

void bed_do(struct bed *b, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	json_decref(ask(b, true, NULL, fmt, ap));
	va_end(ap);
}

void bed_refused(struct bed *b, const char *says, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	json_decref(ask(b, false, says, fmt, ap));
	va_end(ap);
}

size_t bed_conserved(struct bed *b)
{
	json_t *answer = bed_ask(b, true, "{'cmd':'conservation'}"), *rows, *row;
	size_t i, n;

	rows = json_object_get(answer, "rows");
	n = json_array_size(rows);
	json_array_foreach (rows, i, row) {
		const char *hw = json_string_value(json_object_get(row, "hardware"));
		const char *charged = json_string_value(json_object_get(row, "charged"));

		bed_must(hw && charged, "conservation: bad row");
		bed_must(!strcmp(hw, charged), "pCPU %d, %s: hardware %s, charged %s",
			 (int)json_integer_value(json_object_get(row, "pcpu")),
			 json_string_value(json_object_get(row, "event")), hw, charged);
	}
	json_decref(answer);
	return n;
}

void bed_each_stat(struct bed *b,
		   void (*fn)(const struct bed_line *l, const json_t *stat, void *arg), void *arg)
{
	for (size_t i = 0; i < b->nr_lines; i++) {
		json_t *stat;

		if (b->lines[i].text[0] != '{')
			continue;
		stat = json_loads(b->lines[i].text, 0, NULL);
		bed_must(stat, "%s: %s", b->lines[i].vm, b->lines[i].text);
		fn(&b->lines[i], stat, arg);
		json_decref(stat);
	}
}

void bed_fork(unsigned int n, void *results, size_t size,
	      void (*work)(unsigned int i, void *result))
{
	char *shared =
		mmap(NULL, n * size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	unsigned int died = 0;
	int status;

	bed_must(shared != MAP_FAILED, "out of memory");
	for (unsigned int i = 0; i < n; i++) {
		pid_t pid = fork();

		bed_must(pid >= 0, "fork");
		if (pid)
			continue;
		work(i, shared + i * size);
#ifdef __SANITIZE_ADDRESS__
		__lsan_do_leak_check(); /* ends the process if there is a leak */
#endif
		_exit(0);
	}
	for (unsigned int i = 0; i < n; i++)
		died += wait(&status) < 0 || status;
	bed_must(!died, "%u of %u processes died", died, n);
	memcpy(results, shared, n * size);
	munmap(shared, n * size);
}

bool bed_kvm(void)
{
	struct vmm_engine *e;
	char why[256] = "";

	if (vmm_kvm_ops.open(&e, why, sizeof(why))) {
		fprintf(stderr, "# SKIP the KVM part: %s\n", why);
		return false;
	}
	vmm_kvm_ops.close(e);
	return true;
}
