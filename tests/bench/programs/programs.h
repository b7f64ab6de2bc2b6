/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The guest programs that use SSE: simd.c has them, programs.c their names. */
#ifndef TESTS_BENCH_PROGRAMS_PROGRAMS_H
#define TESTS_BENCH_PROGRAMS_PROGRAMS_H

#include <stdint.h>

uint64_t run_sse_memcpy(uint64_t n);
uint64_t run_sse_strlen(uint64_t n);
uint64_t run_sse_double(uint64_t n);
uint64_t run_sse_float(uint64_t n);

#endif
