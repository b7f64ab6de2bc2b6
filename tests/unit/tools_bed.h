/* SPDX-License-Identifier: GPL-2.0-or-later */
/* For tests of guest tools on the host: their output, and system calls that do nothing. */
#ifndef TESTS_UNIT_TOOLS_BED_H
#define TESTS_UNIT_TOOLS_BED_H

#include <criterion/criterion.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "guest-tools/args.h"
#include "guest-tools/tools.h"

tool_fn stat_main, record_main, lbr_main, msr_main; /* TOOL_COMMAND */

#define MEM_BYTES (1u << 20)

static char output[16384];
static struct guest_info info;

int64_t sys_write(const char *buf, size_t bytes)
{
	size_t len = strlen(output);

	cr_assert(len + bytes < sizeof(output));
	memcpy(output + len, buf, bytes);
	output[len + bytes] = 0;
	return (int64_t)bytes;
}

uint64_t sys_null_call(uint64_t arg)
{
	return arg;
}

/* What tool @fn returns; its output is in @output. */
static inline int tool(tool_fn *fn, const char *args)
{
	int rc;

	output[0] = 0;
	info.vcpu = 3;
	info.nr_vcpus = 4;
	info.mem_bytes = MEM_BYTES;
	if (!info.mem)
		info.mem = malloc(MEM_BYTES);
	rc = fn(&info, args);
	out_flush();
	return rc;
}

static inline bool has(const char *text)
{
	return strstr(output, text);
}

#define EXPECT_HAS(text) cr_expect(has(text), "%s", output)

#endif
