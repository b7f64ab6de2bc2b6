/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Detects that jansson ran out of memory, which jansson 2.14 does not report: a parser that cannot
 * grow its buffer drops a character. A request then names another object, or an assertion of
 * jansson ends the process. So requests and answers are parsed by json_memory_parse. The server
 * also calls json_memory_failed after it has built an answer; the answer is valid only if that
 * returns false.
 */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

/* json_memory_init - make jansson allocate through this file, unless it allocates with
 * xmalloc() and so never fails. Existing objects stay valid. Call before other threads use
 * jansson; repeated calls have no effect. */
void json_memory_init(void);

/* json_memory_begin - clear the failure flag of the calling thread.
 * json_memory_failed - returns true if an allocation of jansson on the calling thread has failed
 * since. Any thread. */
void json_memory_begin(void);
bool json_memory_failed(void);

/* json_memory_parse - as json_loadb, after json_memory_init: the value of @text, complete, with one
 * reference. Calls json_memory_begin first. Returns NULL if @text is not JSON (position in @error),
 * or json_memory_failed. Any thread. */
json_t *json_memory_parse(const char *text, size_t len, size_t flags, json_error_t *error);
