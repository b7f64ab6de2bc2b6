/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Names places in files that processes of the host execute: programs and libraries, which tenants
 * may have made to harm their reader. So a child process reads each file: it has limits of
 * time and memory and almost no system calls, and only its answer comes back. processes.c calls
 * this, from one thread.
 */
#ifndef CLI_OBJECT_NAMES_H
#define CLI_OBJECT_NAMES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define OBJECT_NAME_MAX 200 /* bytes of a function's name; the rest is cut off */

/* A place: an offset in the file. The function there and the place's offset in it are the answer.
 */
struct object_place {
	uint64_t at;
	char *name; /* malloc'd; NULL: unknown */
	uint64_t offset;
};

/* object_names - name @place[0..nr) of the mapped file @path[0], else of @path[1] (NULL: none). The
 * file must be regular and have inode number @inode. Without symbols of its own, those of its build
 * id in @debug_dir ("/usr/lib/debug") are used, else its dynamic ones. Gives up at the time
 * @deadline_ns of CLOCK_MONOTONIC. Returns 0 or -errno: -ETIMEDOUT, -ESTALE (another file has the
 * name now), -ENOEXEC (no ELF file). Even then, names that were found are set. */
int object_names(const char *const path[2], uint64_t inode, const char *debug_dir,
		 struct object_place *place, size_t nr, uint64_t deadline_ns);

#endif
