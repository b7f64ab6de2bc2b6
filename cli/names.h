/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Names of tenants, VMs and sessions as people type them. A request with a name that the server
 * does not know is looked at once more, with the names that it lists: "acme" is the tenant /acme if
 * no VM has this name; otherwise the error names what was probably meant.
 */
#pragma once

#include <jansson.h>

struct client;

/* names_ask - as client_ask(), for a request with a name in @field: "target", "name", "path" or
 * "session". */
json_t *names_ask(struct client *c, json_t *req, const char *field);

/* names_target - return @target, or the path of the tenant that it names without "/". The string is
 * @target or one of this function's own, valid until its next call. */
const char *names_target(struct client *c, const char *target);

/* names_nearest - return the name in @list, the answer to `list` or `sessions`, that is nearest to
 * @word, or whose last component is @word; NULL: none is near. @field: as for names_ask(). */
const char *names_nearest(const json_t *list, const char *field, const char *word);

/* names_tenant - return the path of the tenant that @word, without a leading "/", names in the
 * answer to `list`: "/acme" for "acme". NULL: there is none. */
const char *names_tenant(const json_t *list, const char *word);
