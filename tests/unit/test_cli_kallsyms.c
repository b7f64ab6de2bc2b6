// SPDX-License-Identifier: GPL-2.0-or-later
/* cli/kallsyms.c: names of kernel functions from a file of whatever content. */
#include "folder_bed.h"
#include "cli/symbols.h"

static struct symbols *k;
static char err[400];

TestSuite(cli_kallsyms, .init = folder_begin, .fini = folder_end);

static int load(const char *text, size_t len)
{
	int ret;

	folder_put_bytes("/file", text, len);
	k = NULL;
	err[0] = '\0';
	ret = kallsyms_load(folder_path("/file"), &k, err, sizeof(err));
	cr_expect_eq(!ret, k != NULL);
	cr_expect_eq(!ret, !err[0]);
	return ret;
}

static void is(uint64_t address, const char *name, uint64_t offset)
{
	uint64_t at = 0;
	const char *got = symbols_find(k, address, &at);

	if (!name)
		cr_expect_null(got, "%lx: %s", (unsigned long)address, got);
	else
		cr_expect(got && !strcmp(got, name) && at == offset, "%lx: %s+%lx, not %s+%lx",
			  (unsigned long)address, got ? got : "-", (unsigned long)at, name,
			  (unsigned long)offset);
}

Test(cli_kallsyms, names)
{
	static const char text[] = "ffffffff81000100 T second\n"
				   "ffffffff81000000 T _text\n"
				   "ffffffff81000000 T startup\n"
				   "ffffffff81000180 D data\n"
				   "ffffffff81000200 t third\n"
				   "0000000000000000 A fixed_percpu_data\n"
				   "ffffffffc0000000 t of_module\t[ext4]\n"
				   "ffffffffc0000040 W weak";

	cr_assert_eq(load(text, sizeof(text) - 1), 0, "%s", err);
	is(0xffffffff80ffffff, NULL, 0);
	is(0xffffffff81000000, "_text", 0);
	is(0xffffffff810000ff, "_text", 0xff);
	is(0xffffffff81000100, "second", 0);
	is(0xffffffff81000190, "second", 0x90);
	is(0xffffffff81000200, "third", 0);
	is(0xffffffffc0000001, "of_module", 1);
	is(0xffffffffc0000041, "weak", 1);
	is(0xffffffffd0000000, NULL, 0);
	is(0, NULL, 0);
	is(UINT64_MAX, NULL, 0);
	symbols_free(k);
}

static void wrong(const char *text, int ret, const char *why)
{
	cr_expect_eq(load(text, strlen(text)), ret, "%s", text);
	cr_expect(strstr(err, why) && !strchr(err, '\n'), "%s", err);
	symbols_free(k);
}

Test(cli_kallsyms, files_that_are_none)
{
	char line[3000];

	wrong("", -ENODATA, "no functions");
	wrong("ffffffff81000180 D data\n", -ENODATA, "no functions");
	wrong("0000000000000000 T _text\n0000000000000000 t f\n", -EACCES, "hidden");
	wrong("#!/bin/sh\n", -EINVAL, ":1: not a line of kallsyms");
	wrong("ffffffff81000000 T _text\nffffffff81000000 T\n", -EINVAL, ":2: ");
	memset(line, 'a', sizeof(line));
	line[sizeof(line) - 2] = '\n';
	line[sizeof(line) - 1] = '\0';
	memcpy(line, "ffffffff81000000 T ", 19);
	wrong(line, -EINVAL, ":1: ");
	cr_expect_eq(kallsyms_load("/", &k, err, sizeof(err)), -EIO);
	cr_expect_eq(kallsyms_load("/nowhere/at/all", &k, err, sizeof(err)), -ENOENT);
}
