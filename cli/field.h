/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Checked access to the fields of a server's answer, for all subcommands. A server may answer
 * anything, so every field's type is checked before use.
 *
 * The functions record the first field that is missing or has a wrong type and continue with a
 * harmless value. Read all fields, then call fields_ok() once before printing anything:
 *
 * 	struct fields f = {0};
 * 	const char *name = field_string(&f, answer, "session");
 * 	uint64_t age = field_u64(&f, answer, "age-ns");
 *
 * 	if (!fields_ok(&f))
 * 		return -1;
 */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

struct fields {
	const char *wrong; /* name of the first wrong field; NULL: none so far */
};

/* field_wrong - record the field @key as wrong, for the caller's own checks. */
void field_wrong(struct fields *f, const char *key);

/* fields_ok - returns true if no field was wrong. Otherwise prints an error with the first one. */
bool fields_ok(const struct fields *f);

/*
 * The functions below return the field @key of @obj. Those with "_or" return @missing if it is
 * absent. A wrong type is an error in both; the value then is "", 0 or NULL, which jansson takes
 * for an empty array. Strings and arrays belong to @obj.
 */
const char *field_string(struct fields *f, const json_t *obj, const char *key);
const char *field_string_or(struct fields *f, const json_t *obj, const char *key,
			    const char *missing);
/* 64-bit numbers are strings of decimal digits in the protocol. */
uint64_t field_u64(struct fields *f, const json_t *obj, const char *key);
uint64_t field_u64_or(struct fields *f, const json_t *obj, const char *key, uint64_t missing);
/* A JSON integer from 0 to @max. */
unsigned int field_int(struct fields *f, const json_t *obj, const char *key, unsigned int max);
bool field_bool(struct fields *f, const json_t *obj, const char *key);
bool field_bool_or(struct fields *f, const json_t *obj, const char *key, bool missing);
const json_t *field_array(struct fields *f, const json_t *obj, const char *key);

/* field_address - returns true if @value, an element of the answer, is an address ("0x..."). null
 * means unknown, and is valid. @key names the field in the error. */
bool field_address(struct fields *f, const json_t *value, const char *key, uint64_t *address);
