/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Code under test of truth_test.c besides the known workloads; called like them. */
#ifndef TESTS_EMU_TRUTH_CODE_H
#define TESTS_EMU_TRUTH_CODE_H

#include "guest-tools/workloads.h"

uint64_t truth_echo(uint64_t arg);
uint64_t truth_odd(uint64_t n, void *mem, size_t bytes, workload_call *call);
uint64_t truth_shared(uint64_t n, void *mem, size_t bytes, workload_call *call);

#endif
