/* SPDX-License-Identifier: GPL-2.0-or-later */
/* A folder for the files of a test: folder_begin and folder_end are its .init and .fini. */
#ifndef TESTS_UNIT_FOLDER_BED_H
#define TESTS_UNIT_FOLDER_BED_H

#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static char folder[32];

static inline void folder_begin(void)
{
	strcpy(folder, "/tmp/vpmu-unit-XXXXXX");
	cr_assert(mkdtemp(folder));
}

static inline void folder_end(void)
{
	char command[64];

	snprintf(command, sizeof(command), "rm -r %s", folder);
	cr_expect_eq(system(command), 0);
}

/* The path of @name ("/a/b"), until the next call; the folders above it are made. */
static inline const char *folder_path(const char *name)
{
	static char path[400];

	snprintf(path, sizeof(path), "%s%s", folder, name);
	for (char *p = path + strlen(folder) + 1; (p = strchr(p, '/')); p++) {
		*p = '\0';
		cr_assert(mkdir(path, 0700) == 0 || errno == EEXIST, "%s", path);
		*p = '/';
	}
	return path;
}

static inline void folder_put_bytes(const char *name, const void *data, size_t len)
{
	FILE *f = fopen(folder_path(name), "we");

	cr_assert(f, "%s", name);
	cr_assert_eq(fwrite(data, 1, len, f), len);
	cr_assert_eq(fclose(f), 0);
}

static inline void folder_put(const char *name, const char *text)
{
	folder_put_bytes(name, text, strlen(text));
}

#endif
