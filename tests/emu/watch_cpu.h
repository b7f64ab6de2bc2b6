/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The helper of the differential test under ptrace: its cases run on the CPU with breakpoints. */
#ifndef TESTS_EMU_WATCH_CPU_H
#define TESTS_EMU_WATCH_CPU_H

#include "tests/emu/dt.h"
#include "tests/emu/native_side.h"

/* watch_attach - become the tracer of @native, until watch_stop, which also ends it. NULL, or why
 * no breakpoints can be set. */
const char *watch_attach(struct native_side *native);
void watch_stop(struct native_side *native);

/* watch_run - run the case in buffer 0 with the breakpoints @w, and note its traps in @t. 0, or -1:
 * the helper died. */
int watch_run(struct native_side *native, const struct dt_watch *w, struct dt_traps *t);

/* watch_measure - what kinds of CPU do differently, with a line for each thing found. @isa: what
 * has to be left out is made false. @together: it reports the data that an instruction has met and
 * the breakpoint at the next instruction in one #DB. @seed: whose place is used. 0, or -1: the
 * helper died. */
int watch_measure(struct native_side *native, uint64_t seed, bool *isa, bool *together);

#endif
