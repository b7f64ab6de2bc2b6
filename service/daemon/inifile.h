/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Reading ini files: sections in brackets and keys below them, parsed by libinih. vpmu-vmm and
 * vpmud say what their sections are. Whatever libinih would ignore silently is an error here, with
 * file and line.
 */
#ifndef SERVICE_DAEMON_INIFILE_H
#define SERVICE_DAEMON_INIFILE_H

#include "service/daemon/keys.h"

#define CONFIG_FILE_MAX (1u << 20) /* bytes of a file */

/* What a program has in its files. The functions return 0, or -errno with one line in at->err,
 * which ends the reading. */
struct config_sections {
	const char *accepted; /* "[host] or [vm NAME]" */
	/* A section begins: at->section is its name. */
	int (*begin)(void *arg, const struct config_at *at);
	/* A key of the section that began last. */
	int (*set)(void *arg, const struct config_at *at, const char *key, const char *value);
	/* The section that began last is complete. */
	int (*end)(void *arg, const struct config_at *at);
};

/* config_bad_section - for begin(): "NAME given, accepted: ...". -EINVAL. */
int config_bad_section(const struct config_sections *s, const struct config_at *at);

/* config_read_file - read the file or pipe at @path (at most CONFIG_FILE_MAX bytes). -EINVAL: its
 * contents are not accepted. config_read_text - the same for the @len bytes at @text; messages call
 * them @name. */
int config_read_file(const struct config_sections *s, void *arg, const char *path, char *err,
		     size_t errlen);
int config_read_text(const struct config_sections *s, void *arg, const char *name, const char *text,
		     size_t len, char *err, size_t errlen);

#endif
