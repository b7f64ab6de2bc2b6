/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Native side of the differential test: the helper process (native.c) and the memory shared. */
#ifndef TESTS_EMU_NATIVE_SIDE_H
#define TESTS_EMU_NATIVE_SIDE_H

#include <sys/types.h>

#include "tests/emu/dt.h"

struct native_side {
	struct dt_shm *shm;
	pid_t pid;
	int cmd, ack; /* descriptors */
};

/* native_start - start emu-difftest-native, beside this program. native_submit - have buffer @which
 * run; native_wait - until it has. 0 or -errno; native_wait stores in @why the helper's cause of
 * death. */
int native_start(struct native_side *n);
int native_submit(struct native_side *n, unsigned int which);
int native_wait(struct native_side *n, unsigned int which, char *why, size_t why_len);
void native_stop(struct native_side *n);

#endif
