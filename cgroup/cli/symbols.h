/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Names of guest addresses, from the image files the server says its VMs run. They are as good as
 * those files: an address outside of every function, of a guest that loaded other code, or of an
 * image that cannot be read stays a number. The files are data, of whatever content.
 */
#ifndef CLI_SYMBOLS_H
#define CLI_SYMBOLS_H

#include <jansson.h>
#include <stddef.h>
#include <stdint.h>

/* The functions of one ELF file. */
struct symbols;

/* symbols_load - -errno and one line in @err. symbols_free: NULL is fine. */
int symbols_load(const char *path, struct symbols **out, char *err, size_t errlen);
void symbols_free(struct symbols *s);
/* symbols_find - the function @address is in, or NULL; *offset: from its start. */
const char *symbols_find(const struct symbols *s, uint64_t address, uint64_t *offset);

/* The images of a server's VMs. */
struct images;
struct client;

/* images_load - ask @c for its VMs; symbols are read when they are first needed, and what cannot be
 * read is said once, on stderr. NULL after an error was said. images_refresh - ask again; VMs that
 * went stay known. -1 after an error was said. images_free: NULL is fine. */
struct images *images_load(struct client *c);
int images_refresh(struct images *im, struct client *c);
void images_free(struct images *im);

#define ADDRESS_LEN 256
/* images_function - the function of @vm that @address is in, or the address in hex, into @buf;
 * returns @buf. @vm NULL: in hex. images_place - the same with the offset ("fib+0x12"). */
const char *images_function(struct images *im, const char *vm, uint64_t address,
			    char buf[ADDRESS_LEN]);
const char *images_place(struct images *im, const char *vm, uint64_t address,
			 char buf[ADDRESS_LEN]);

/* An address of an answer: "0x...". 0 and *address, or -EINVAL (null: not known). */
int address_parse(const json_t *v, uint64_t *address);

#endif
