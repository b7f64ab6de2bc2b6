/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Finds users of this host's counters in files of /proc and /sys, for `vpmu check`. It must not
 * open a perf event or load a BPF program, because a check must not take what it looks for. The
 * contents are untrusted: a process chooses its own name.
 */
#ifndef CLI_HOLDERS_H
#define CLI_HOLDERS_H

#include <stdbool.h>

/*
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

#endif
