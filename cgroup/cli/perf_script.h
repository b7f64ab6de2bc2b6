/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A profile's samples in the format of `perf script -F comm,pid,period,event,ip,sym,dso`, which
 * FlameGraph's stackcollapse-perf.pl, speedscope and others read. vpmu profile calls this.
 */
#ifndef CLI_PERF_SCRIPT_H
#define CLI_PERF_SCRIPT_H

#include <stdio.h>

#include "cgroup/cli/field.h"
#include "cgroup/cli/images.h"

/* perf_script_print - print each sample of @answer, the answer of profile-stop with chains, to @f.
 * Wrong fields are in @fields. Returns how many samples are not among them, because the server had
 * no room for their call chains. */
uint64_t perf_script_print(struct fields *fields, struct images *im, const json_t *answer, FILE *f);

#endif
