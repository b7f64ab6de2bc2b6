/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What an operator does in a bed: starts and ends vpmud, and asks it by the command vpmu. Both are
 * the programs of the build, in /bed (BED_FILES). Every call ends the test on a failure that
 * the comment does not name.
 */
#ifndef TESTS_BEDS_OPERATOR_H
#define TESTS_BEDS_OPERATOR_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/* vpmud_start - with this configuration, until it answers. It is in the root cgroup. Skips the test
 * where the bed has no vpmud. vpmud_kill - SIGKILL. vpmud_stop - SIGTERM; its exit status is 0. */
pid_t vpmud_start(const char *config);
void vpmud_kill(pid_t vpmud);
void vpmud_stop(pid_t vpmud);

/* ask - `vpmu` with these arguments, which are separated by blanks. Returns what it prints until
 * the next call; *@status: its exit status. asked - the same; the exit status must be 0. */
const char *ask(const char *arguments, int *status);
const char *asked(const char *arguments);

/* has_line - whether a line of @text has all of @a, @b and @c in this order; NULL: less of them. */
bool has_line(const char *text, const char *a, const char *b, const char *c);

/* cell - of `stat -x,`: the count of @event in @tenant, of @vm ("": the tenant's own row) and @cpu
 * ("": the VM's row); UINT64_MAX: it was <not counted>. The row must be there, once, and may not be
 * scaled. */
uint64_t cell(const char *csv, const char *event, const char *tenant, const char *vm,
	      const char *vcpu);

#endif
