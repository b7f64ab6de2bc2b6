/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The file of the control socket: its creation, owner and mode, and removal. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <sys/stat.h>

struct socket_file {
	int fd;	    /* listening socket; -1: none */
	bool bound; /* @at is the file that this process made */
	struct stat at;
};

/* socket_file_make - listen at @path, with @mode and, unless it is -1, @gid. @own_dir: the
 * directory is the server's own. -errno and one line in @err; socket_file_close is required even
 * then. */
int socket_file_make(struct socket_file *s, const char *path, bool own_dir, mode_t mode, gid_t gid,
		     char *err, size_t errlen);
/* socket_file_take - use the listening socket @fd that another process has bound. Takes ownership
 * of @fd, even on error. */
int socket_file_take(struct socket_file *s, int fd, const char *path, char *err, size_t errlen);
/* socket_file_close - stop listening, and remove the file if it is still the one made here. */
void socket_file_close(struct socket_file *s, const char *path);
