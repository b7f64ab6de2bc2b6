/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Who holds the counters of this host, as far as files of /proc and /sys say so: for `vpmu check`.
 * It opens no perf event and loads no BPF program, because a check must not take what it looks for.
 * The contents of the files are hostile: a process chooses its own name.
 */
#ifndef CLI_HOLDERS_H
#define CLI_HOLDERS_H

#include <stdbool.h>

/*
 * holders_check - call @fn for each fact: @what it is about, whether it leaves the counters to us
 * (@ok), and one line @why. Stops when @fn returns non-zero and returns that. @root: the folder
 * that has proc and sys; "" is the host itself.
 *
 *   NMI watchdog		whether it takes a counter on each CPU
 *   perf events of NAME	the processes of that name that have perf events open; one line per
 * name perf events of others	if there are many names, or processes that this user may not look at
 *   mediated vPMU, KVM vPMU	whether guests take counters, and whether they take all
 *   isolated CPUs		CPUs that should not be interrupted: isolated, nohz_full
 *   right to count		perf_event_paranoid and the capabilities of this process
 *   right to BPF		the same for BPF programs, with type information and a mounted bpffs
 */
int holders_check(const char *root,
		  int (*fn)(const char *what, bool ok, const char *why, void *arg), void *arg);

#endif
