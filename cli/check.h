/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The parts of `vpmu check`. check_view.c: what it prints as text: the verdict first, rows of one
 * cause as one, states by design apart from problems. JSON has every row. Pure but for standard
 * output; rows have been checked.
 */
#pragma once

#include <jansson.h>
#include <stdbool.h>

/* check_view_split - move the rows of @rows that are so by design to the array @design. */
void check_view_split(json_t *rows, json_t *design);

/* check_view_fold - return a new array in which the rows of @rows with one backend, reason and
 * state are one row, at the place of the first. The caller frees it. */
json_t *check_view_fold(const json_t *rows);

/* check_view_verdict - print in one line how many problems the folded @rows and @holders have, and
 * which. */
void check_view_verdict(const json_t *rows, const json_t *holders);

/*
 * remedy_for - return a remedy for the row @what, which is not ok because of @why: a static string
 * of one line; "" if none is needed; NULL if the row is unknown, such as one of a newer server.
 */
const char *remedy_for(const char *what, const char *why);

/* remedy_by_design - return true if such a row is no problem: the CPU, an option or vpmu itself is
 * meant to be so. Its remedy is another way, if there is one. */
bool remedy_by_design(const char *what, const char *why);

/*
 * holders.c finds users of this host's counters in files of /proc and /sys. It must not open a perf
 * event or load a BPF program, because a check must not take what it looks for. The contents are
 * untrusted: a process chooses its own name.
 *
 * holders_check - call @fn for each fact: @what, @ok if it leaves the counters to us, and one line
 * @why. Stops when @fn returns non-zero, and returns that. @root: a directory with proc and sys; ""
 * is the host itself.
 *
 *   NMI watchdog            if it takes a counter on each CPU
 *   perf events of NAME     processes of that name with open perf events; one line per name
 *   perf events of others   if there are many names, or processes without permission
 *   mediated vPMU, KVM vPMU if guests take counters, and if they take all
 *   isolated CPUs           CPUs that should not be interrupted: isolated, nohz_full
 *   right to count          perf_event_paranoid and the capabilities of this process
 *   right to BPF            the same for BPF programs, with type information and a mounted bpffs
 */
int holders_check(const char *root,
		  int (*fn)(const char *what, bool ok, const char *why, void *arg), void *arg);
