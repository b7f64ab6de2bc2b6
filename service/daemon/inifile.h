/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Reads ini files, parsed by libinih: sections in brackets, with keys. vpmu-vmm and vpmud define
 * their sections. Input that libinih would silently ignore is an error here, with file and line.
 */
#pragma once

#include "service/daemon/keys.h"

#define CONFIG_FILE_MAX	  (1u << 20) /* bytes of a file */
#define CONFIG_NO_SECTION 1

/* A program's sections. The functions return 0, or -errno with one line in at->err, which ends the
 * reading. */
struct config_sections {
	const char *accepted; /* "[host] or [vm NAME]" */
	/* A section begins: at->section is its name. Another one than @accepted: CONFIG_NO_SECTION.
	 */
	int (*begin)(void *arg, const struct config_at *at);
	/* A key of the current section. */
	int (*set)(void *arg, const struct config_at *at, const char *key, const char *value);
	/* The current section is complete. */
	int (*end)(void *arg, const struct config_at *at);
};

/* config_read_file - read the file or pipe at @path, up to CONFIG_FILE_MAX bytes. -EINVAL: invalid
 * contents.
 * config_read_text - the same for the @len bytes at @text; @name: their name in messages. */
int config_read_file(const struct config_sections *s, void *arg, const char *path, char *err,
		     size_t errlen);
int config_read_text(const struct config_sections *s, void *arg, const char *name, const char *text,
		     size_t len, char *err, size_t errlen);
