/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A whole machine inside of a test: VMs by their --vm options, their console lines, and the control
 * socket's commands without a socket. The test's thread is the control thread. Whatever fails
 * ends the process with a line. Knows nothing of Criterion, which does not run under
 * ThreadSanitizer.
 */
#ifndef TESTS_INTEGRATION_MACHINE_BED_H
#define TESTS_INTEGRATION_MACHINE_BED_H

#include <jansson.h>
#include <pthread.h>

#include "vmm/control.h"
#include "vmm/machine/machine.h"

/* Go on only if @ok: else print where, what and the message, and abort. */
#define bed_must(ok, ...)                                                                          \
	do {                                                                                       \
		if (!(ok))                                                                         \
			bed_fail(__FILE__, __LINE__, #ok, __VA_ARGS__);                            \
	} while (0)
void bed_fail(const char *file, int line, const char *expr, const char *fmt, ...)
	__attribute__((format(printf, 4, 5), noreturn));

struct bed_line {
	char *vm, *text;
	unsigned int vcpu;
};

struct bed {
	struct config config;
	struct machine *machine;
	struct control control;
	unsigned int ended, failed; /* VMs */
	bool quit;		    /* the quit command came */
	pthread_mutex_t lock;
	pthread_cond_t cond;
	bool woken;
	struct bed_line *lines;
	size_t nr_lines;
};

/* bed_open - @host: "key=value,..." of [host], may be "". VMs are paused. */
void bed_open(struct bed *b, const char *host);
/* bed_close - checks conservation first. */
void bed_close(struct bed *b);

/* bed_add - a VM by --vm's keys (image: the guest's, unless given; engine: emulator unless given).
 */
struct machine_vm *bed_add(struct bed *b, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));
/* bed_host - the modelled pCPUs' host in libvpmu's core; there is one once a VM was added. */
struct vpmu_host *bed_host(struct bed *b);
/* bed_start - a VM runs as soon as the machine does. */
void bed_start(struct machine_vm *vm);
/* bed_run - resume, and wait until @ended VMs in all have ended. */
void bed_run(struct bed *b, unsigned int ended);
/* bed_wait_line - wait until a console line of @vm contains @text. */
void bed_wait_line(struct bed *b, const char *vm, const char *text);

/* bed_ask - one command, its answer (a new reference). Fails the test unless "ok" is @ok. In the
 * command ' stands for ". bed_do - the same of a command that must succeed. bed_refused - of one
 * that must fail, in one line with @says. */
json_t *bed_ask(struct bed *b, bool ok, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
void bed_do(struct bed *b, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void bed_refused(struct bed *b, const char *says, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));

/* bed_conserved - every pCPU and event: the hardware's count equals the charges. Returns
 * how many rows there were. */
size_t bed_conserved(struct bed *b);

/* bed_each_stat - every JSON line that `stat -j` of a guest printed. */
void bed_each_stat(struct bed *b,
		   void (*fn)(const struct bed_line *l, const json_t *stat, void *arg), void *arg);

/*
 * bed_fork - call @work in @n processes at once, each with its number, and store their results in
 * its element of @results (@size bytes, zero at start). A machine that is taken down waits for
 * grace periods, so that more processes than CPUs are worth it. The caller has no other thread. A
 * process that fails must print why and abort, as bed_must does; then bed_fork fails the test.
 */
void bed_fork(unsigned int n, void *results, size_t size,
	      void (*work)(unsigned int i, void *result));

/* bed_kvm - true if /dev/kvm works here; if not, prints it. */
bool bed_kvm(void);

#endif
