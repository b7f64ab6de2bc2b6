/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The kernel, below what the library interposes. sys.c makes the system calls; unit tests and the
 * fuzzer have a fake kernel instead.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

/* All return the result or -errno. */
int sys_ioctl(int fd, unsigned long request, void *arg);
int sys_close(int fd);
int sys_dup(int fd); /* a new number of the same file, closed by exec */
int sys_map_run(int fd, size_t bytes, void **run);
void sys_unmap_run(void *run, size_t bytes);

int sys_tid(void);
