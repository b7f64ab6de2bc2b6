/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Checked reading of the fields of a server's answer, for all subcommands. A server may answer
 * anything, so no field is used without its type being checked.
 *
 * The functions remember the first field that was missing or had a wrong type and go on with a
 *harmless value. A caller reads all fields that it needs, then calls fields_ok once before it
 *prints anything:
 *
 *	struct fields f = {0};
 *	const char *name = field_string(&f, answer, "session");
 *	uint64_t age = field_u64(&f, answer, "age-ns");
 *
 *	if (!fields_ok(&f))
 *		return -1;
 */
#ifndef CLI_FIELD_H
#define CLI_FIELD_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

struct fields {
	const char *wrong; /* name of the first wrong field; NULL: none so far */
};

/* field_wrong - remember that the field @key is wrong, for checks of the caller's own. */
void field_wrong(struct fields *f, const char *key);

/* fields_ok - true when no field was wrong. Otherwise prints an error that names the first one. */
bool fields_ok(const struct fields *f);

/*
 * The functions below return the field @key of @obj. The ones with "_or" are for fields that an
 * answer may leave out: they return @missing then. A field of a wrong type is wrong in both. The
 * strings and arrays belong to @obj. Wrong strings read as "", wrong numbers as 0, wrong arrays as
 * NULL, which jansson takes for an empty array.
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

/* field_address - whether @value, an element of the answer, is an address ("0x..."). null means
 * that the address is not known, and is not wrong. @key names the field for the error. */
bool field_address(struct fields *f, const json_t *value, const char *key, uint64_t *address);

#endif
