// SPDX-License-Identifier: GPL-2.0-or-later
/* Names of tenants, VMs and sessions; see names.h. */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/client.h"
#include "cli/error.h"
#include "cli/names.h"
#include "service/program/memory.h"
#include "vpmu/util/nearest.h"

static const char *names_text(const json_t *row, const char *key)
{
	return json_string_value(json_object_get(row, key));
}

/* Return the name of @row in requests with @field; NULL: it has none. */
static const char *names_of(const json_t *row, const char *field)
{
	const char *vm = names_text(row, "vm");

	if (!strcmp(field, "session"))
		return names_text(row, "session");
	if (!strcmp(field, "name"))
		return vm;
	if (!strcmp(field, "path"))
		return vm ? NULL : names_text(row, "path");
	return vm ? vm : names_text(row, "path");
}

static const json_t *names_rows(const json_t *list, const char *field)
{
	return json_object_get(list, strcmp(field, "session") ? "nodes" : "sessions");
}

const char *names_tenant(const json_t *list, const char *word)
{
	const json_t *row;
	size_t i;

	json_array_foreach (json_object_get(list, "nodes"), i, row) {
		const char *path = names_text(row, "path");

		if (path && path[0] && path[1] && !names_text(row, "vm") && !strcmp(path + 1, word))
			return path;
	}
	return NULL;
}

const char *names_nearest(const json_t *list, const char *field, const char *word)
{
	const char *bare = *word == '/' ? word + 1 : word;
	struct vpmu_nearest near;
	const json_t *row;
	size_t i;

	if (!*bare)
		return NULL;
	vpmu_nearest_init(&near, bare);
	json_array_foreach (names_rows(list, field), i, row) {
		const char *name = names_of(row, field);
		const char *last = name && *name == '/' ? strrchr(name, '/') + 1 : name;

		if (!name || !*last)
			continue;
		if (!strcmp(last, bare))
			return name; /* the right name at another place */
		vpmu_nearest_try(&near, *name == '/' ? name + 1 : name);
	}
	/* A tenant was compared without its "/". */
	json_array_foreach (names_rows(list, field), i, row) {
		const char *name = names_of(row, field);

		if (name && near.best && (name == near.best || name + 1 == near.best))
			return name;
	}
	return NULL;
}

/* Return true if the server's error @text is about a name that it does not know. */
static bool names_unknown(const char *text)
{
	return !strncmp(text, "no VM \"", 7) || !strncmp(text, "no tenant \"", 11) ||
	       !strncmp(text, "no session \"", 12) || strstr(text, ": no such tenant;");
}

/* Print @err with @meant (may be NULL) before what the server names as the remedy. */
static void names_print(const char *err, const char *meant)
{
	const char *rest = strchr(err, ';');

	if (meant && rest)
		cli_error("%.*s; did you mean \"%s\"?%s", (int)(rest - err), err, meant, rest + 1);
	else
		cli_error("%s", err);
}

json_t *names_ask(struct client *c, json_t *req, const char *field)
{
	json_t *list = NULL, *resp;
	char *err, *word;
	const char *meant = NULL;

	if (!req)
		return client_ask(c, req);
	resp = client_try(c, json_incref(req), &err);
	if (resp || !err) {
		json_decref(req);
		return resp;
	}
	word = xstrdup(names_text(req, field) ? names_text(req, field) : "");
	if (names_unknown(err))
		list = client_silent(c, strcmp(field, "session") ? "list" : "sessions");
	if (list && !strcmp(field, "target") && *word != '/')
		meant = names_tenant(list, word);
	if (meant) {
		json_object_set_new(req, field, json_string(meant));
		resp = client_ask(c, json_incref(req));
	} else {
		names_print(err, list ? names_nearest(list, field, word) : NULL);
	}
	json_decref(list);
	json_decref(req);
	free(word);
	free(err);
	return resp;
}

const char *names_target(struct client *c, const char *target)
{
	static char found[400];
	const json_t *row;
	const char *path;
	json_t *list;
	size_t i;

	if (*target == '/')
		return target;
	list = client_silent(c, "list");
	json_array_foreach (json_object_get(list, "nodes"), i, row) {
		const char *vm = names_text(row, "vm");

		if (vm && !strcmp(vm, target)) {
			json_decref(list);
			return target;
		}
	}
	path = names_tenant(list, target);
	if (path)
		snprintf(found, sizeof(found), "%s", path);
	json_decref(list);
	return path ? found : target;
}
