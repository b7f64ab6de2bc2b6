/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Text without the names of tenants and VMs, for `vpmu check --bundle`. What is not known to be
 * harmless is taken for a name: words pass only if they occur in messages of vpmu's own programs or
 * of the C library, or are numbers or well-known paths. Everything else becomes a pseudonym.
 *
 * A pseudonym is "n-" and 8 hexadecimal digits, computed from the name and this host's machine-id
 * (sd_id128_get_machine_app_specific(3), an HMAC). So a name has the same one in each file and each
 * archive of a host, and nobody without the machine-id can try out names. Without a machine-id
 * every name becomes "hidden". One thread.
 */
#ifndef CLI_REDACT_H
#define CLI_REDACT_H

#include <stdbool.h>
#include <stdio.h>

struct redact;

/* redact_new - with @keep_names everything passes as it is. NULL when out of memory. */
struct redact *redact_new(bool keep_names);
/* redact_free - NULL is allowed. */
void redact_free(struct redact *r);

/* redact_program - words in the messages of the program at @path pass: strings with a blank in
 * them. 0, or -errno; a program that cannot be read has no words. */
int redact_program(struct redact *r, const char *path);
/* redact_words - the words of @text pass. 0 or -ENOMEM. */
int redact_words(struct redact *r, const char *text);
/* redact_known - each component of @name, a name or a path, is a name, also if it is a word. 0 or
 * -ENOMEM. */
int redact_known(struct redact *r, const char *name);

/* redact_name - write the pseudonym of @name; of a path: of each component. */
void redact_name(const struct redact *r, const char *name, FILE *to);
/* redact_text - write @text with a pseudonym in place of each word that does not pass. */
void redact_text(const struct redact *r, const char *text, FILE *to);

#endif
