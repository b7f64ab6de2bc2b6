/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Whether jansson ran out of memory. Jansson 2.14 does not say: a parser that cannot grow its
 * buffer drops a character. A request then names another object, or an assertion of jansson ends
 * the process. So requests and answers are parsed by json_memory_parse. The server also asks
 * json_memory_failed after it has built an answer; only "false" makes the answer valid.
 */
#ifndef SERVICE_JSON_MEMORY_H
#define SERVICE_JSON_MEMORY_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

/* json_memory_init - make jansson allocate through this file. Objects that exist already stay
 * valid. Before other threads use jansson; calling it again does nothing new. */
void json_memory_init(void);

/* json_memory_begin - forget earlier failures of the calling thread. json_memory_failed - whether
 * an allocation of jansson on the calling thread has failed since. Any thread. */
void json_memory_begin(void);
bool json_memory_failed(void);

/* json_memory_parse - as json_loadb, after json_memory_init: the value of @text, whole, with one
 * reference. It begins with json_memory_begin. NULL: @text is no JSON (@error says where), or
 * json_memory_failed. Any thread. */
json_t *json_memory_parse(const char *text, size_t len, size_t flags, json_error_t *error);

#endif
