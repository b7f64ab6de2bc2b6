// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * main() of the unit tests where Criterion does not run: see criterion/criterion.h. Prints the
 * lines of Criterion that ./check counts. Arguments: --filter SUITE/NAME with * and ?, and @(A|B);
 * --verbose is fine.
 */
#include <fnmatch.h>
#include <stdarg.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/aarch64/criterion/criterion.h"

#define SKIPPED 77

static struct cr_test *tests, **last = &tests;
/* In the process of a test. */
static const struct cr_test *running;
static bool failed;

void cr_register(struct cr_test *t)
{
	*last = t;
	last = &t->next;
}

void cr_failed(bool fatal, const char *file, int line, const char *what, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	printf("[----] %s:%d: %s: ", file, line, what);
	vprintf(fmt, ap);
	putchar('\n');
	va_end(ap);
	__atomic_store_n(&failed, true, __ATOMIC_RELAXED);
	if (fatal) {
		fflush(stdout);
		_exit(1);
	}
}

void cr_skip(const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	printf("[SKIP] %s::%s: ", running->suite, running->name);
	vprintf(fmt, ap);
	putchar('\n');
	va_end(ap);
	fflush(stdout);
	_exit(SKIPPED);
}

static const struct cr_test *suite_of(const struct cr_test *t)
{
	static const struct cr_test none;

	for (const struct cr_test *s = tests; s; s = s->next) {
		if (!s->name && !strcmp(s->suite, t->suite))
			return s;
	}
	return &none;
}

static void in_child(const struct cr_test *t)
{
	const struct cr_test *s = suite_of(t);
	void (*init)(void) = t->init ? t->init : s->init;
	void (*fini)(void) = t->fini ? t->fini : s->fini;

	running = t;
	if (init)
		init();
	t->fn();
	if (fini)
		fini();
	fflush(stdout);
	_exit(failed);
}

/* Whether the test did not fail. */
static bool run(const struct cr_test *t)
{
	int status;
	pid_t pid;

	if (t->disabled || suite_of(t)->disabled) {
		printf("[SKIP] %s::%s: disabled\n", t->suite, t->name);
		return true;
	}
	printf("[RUN ] %s::%s\n", t->suite, t->name);
	fflush(stdout);
	pid = fork();
	if (pid == 0)
		in_child(t);
	if (pid < 0 || waitpid(pid, &status, 0) < 0) {
		perror("fork");
		return false;
	}
	if (WIFEXITED(status) && WEXITSTATUS(status) == SKIPPED)
		return true;
	if (WIFSIGNALED(status))
		printf("[----] %s::%s: signal %d\n", t->suite, t->name, WTERMSIG(status));
	printf("[%s] %s::%s\n", status ? "FAIL" : "PASS", t->suite, t->name);
	return !status;
}

int main(int argc, char **argv)
{
	const char *filter = "*";
	unsigned int nr_failed = 0, nr_selected = 0;
	char name[200];

	for (int i = 1; i < argc; i++) {
		if (!strcmp(argv[i], "--filter") && i + 1 < argc)
			filter = argv[++i];
	}
	for (const struct cr_test *t = tests; t; t = t->next) {
		snprintf(name, sizeof(name), "%s/%s", t->suite, t->name ? t->name : "");
		if (t->name && !fnmatch(filter, name, FNM_EXTMATCH)) {
			nr_selected++;
			nr_failed += !run(t);
		}
	}
	if (!nr_selected)
		printf("[FAIL] --filter %s selects no test\n", filter);
	return nr_failed || !nr_selected;
}
