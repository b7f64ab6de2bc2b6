/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Checks the fields of a request of the control socket. Clients are hostile. Each function reports
 * the field, the error and the expected value in one line.
 */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define REQUEST_DEPTH_MAX 8 /* nested arrays and objects */

/* request_parse - parse a line of @len bytes to an object with a string "cmd" and an optional
 * well-formed "id". -EINVAL or -ENOMEM and one line in @err otherwise. */
int request_parse(const char *line, size_t len, json_t **req, char *err, size_t errlen);

/* request_fields - returns -EINVAL if @req has a field other than "cmd", "id" and those of @allowed
 * (NULL-terminated; NULL: none). Commands that server_register() added call this first. */
int request_fields(const json_t *req, const char *const *allowed, char *err, size_t errlen);

/*
 * request_string, request_bool, request_uint - read field @key of @req. Missing: -EINVAL if
 * @required, else 0, with *out unchanged. A string has 1..@max bytes and is valid as long as @req;
 * a number is @min..@max.
 */
int request_string(const json_t *req, const char *key, bool required, size_t max, const char **out,
		   char *err, size_t errlen);
int request_bool(const json_t *req, const char *key, bool required, bool *out, char *err,
		 size_t errlen);
int request_uint(const json_t *req, const char *key, bool required, uint64_t min, uint64_t max,
		 uint64_t *out, char *err, size_t errlen);

/* json_u64 - a 64-bit count as a string, since many JSON readers lose bits of numbers. NULL when
 * out of memory, which json_object_set_new treats as an error. */
json_t *json_u64(uint64_t v);
