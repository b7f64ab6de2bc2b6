// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Jansson's allocator, with a flag per thread for failed allocations. The server and the clients
 * use it. It must never hide a failure: the flag stays set until json_memory_begin. And it must
 * never let jansson's parser continue with a buffer that lacks a character.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "service/json_memory.h"
#include "service/program/memory.h"

/*
 * Jansson's parser collects a token in a buffer, which doubles when it is full. It ignores a
 * failure to grow, loses the character, then reads the token a second time and trusts it: it may
 * run beyond the buffer, or fail an assertion. So each parse has a reserve. After the first
 * failure, allocations come from the reserve, and the text ends at the next character: the parser
 * reports a syntax error before it needs much more. Its result is discarded.
 */
struct parsing {
	const char *text;
	size_t left;
	char *reserve;
	size_t size, used;
};

static _Thread_local bool failed;
static _Thread_local struct parsing *parsing;

/* Returns NULL if there is no reserve, or not enough of it. */
static void *from_reserve(size_t size)
{
	struct parsing *r = parsing;
	void *p;

	size = (size + 15) & ~(size_t)15;
	if (!r || size > r->size - r->used)
		return NULL;
	p = r->reserve + r->used;
	r->used += size;
	return p;
}

static void *allocate(size_t size)
{
	void *p = malloc(size);

	if (p)
		return p;
	failed = true;
	return from_reserve(size);
}

static void json_memory_release(void *p)
{
	uintptr_t at = (uintptr_t)p;

	if (!parsing || at - (uintptr_t)parsing->reserve >= parsing->size)
		free(p);
}

void json_memory_init(void)
{
	json_malloc_t by;
	json_free_t release;

	json_get_alloc_funcs(&by, &release);
	if (by != xmalloc)
		json_set_alloc_funcs(allocate, json_memory_release);
}

void json_memory_begin(void)
{
	failed = false;
}

bool json_memory_failed(void)
{
	return failed;
}

/* One character at a time, so that none is buffered when an allocation fails. */
static size_t next_char(void *buffer, size_t size, void *arg)
{
	struct parsing *r = arg;

	if (failed || !r->left || !size)
		return 0;
	memcpy(buffer, r->text, 1);
	r->text++;
	r->left--;
	return 1;
}

json_t *json_memory_parse(const char *text, size_t len, size_t flags, json_error_t *error)
{
	/* The buffer grows to twice the size of its token. The rest is for the token's copy, and
	 * for small objects. */
	struct parsing r = {.text = text, .left = len, .size = 4 * len + 4096};
	json_t *value;

	r.reserve = malloc(r.size);
	failed = !r.reserve;
	if (failed)
		return NULL;
	parsing = &r;
	value = json_load_callback(next_char, &r, flags, error);
	if (failed) {
		json_decref(value);
		value = NULL;
	}
	parsing = NULL;
	free(r.reserve);
	return value;
}
