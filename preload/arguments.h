/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What vpmu-qemu must know of QEMU's command line. QEMU checks it; here only what is found counts.
 */
#ifndef PRELOAD_ARGUMENTS_H
#define PRELOAD_ARGUMENTS_H

#include <stdbool.h>
#include <stddef.h>

struct arguments {
	bool probe; /* no VM: -machine none, -help, -version, -device help and the like */
	bool kvm;
	bool pmu;	/* -cpu has a PMU: host or max without pmu=off, or pmu=on */
	char name[128]; /* guest name, or "" */
};

/* arguments_read - @argv is QEMU's, the program's name included, and ends with NULL. */
void arguments_read(struct arguments *a, char *const argv[]);

#endif
