/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Keys of a configuration: a table has, for each key of a struct, the parser of its value and a
 * description of valid values. vpmu-vmm and vpmud have such tables; files, options and requests use
 * them, so a key has the same meaning everywhere. A message is one line: place, section and key,
 * the given value, valid values.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define CONFIG_WHY_MAX 320

/* One key. set() parses @value and stores it at @field, which is @offset bytes into the struct.
 * -EINVAL: invalid value; -ENOMEM. @why (CONFIG_WHY_MAX bytes) is empty on entry; set() may write a
 * reason to it that is more specific than @accepted. */
struct config_key;
typedef int config_set_fn(const struct config_key *k, void *field, const char *value, char *why);
struct config_key {
	const char *name;
	config_set_fn *set;
	size_t offset;
	uint64_t min, max; /* for set() */
	const char *accepted;
};

/* The place for messages, and the buffer for the message. */
struct config_at {
	const char *where;   /* "vmm.ini:12", "--vm" */
	const char *section; /* "host", "vm web" */
	char *err;
	size_t errlen;
};

/*
 * config_set - set key @name of @obj to @value. @keys has @nr <= 32 rows; *given: a bit for each
 * row that was set. -EINVAL: unknown key, key given before, or invalid value; -ENOMEM. One line to
 * at->err.
 */
int config_set(const struct config_key *keys, size_t nr, void *obj, uint32_t *given,
	       const struct config_at *at, const char *name, const char *value);

/* config_parse_u64 - decimal digits only: no sign, no blanks, no 0x. 0 or -EINVAL. */
int config_parse_u64(const char *s, uint64_t *v);

/* For struct config_key. Numbers are min .. max; texts have min .. max bytes and are malloc'd.
 * config_set_text requires UTF-8 without control characters, because `list` shows it and JSON
 * carries it; config_set_bytes takes any bytes, config_set_path a text that begins with /. */
config_set_fn config_set_u64, config_set_uint, config_set_bool, config_set_bytes, config_set_path,
	config_set_text;
