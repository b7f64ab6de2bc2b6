// SPDX-License-Identifier: GPL-2.0-or-later
/* The keys of vpmu-exporter.conf; see config.h. The administrator's file may contain any error. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/un.h>
#include <unistd.h>

#include "exporter/answer.h"
#include "exporter/config.h"
#include "exporter/listen.h"
#include "service/daemon/inifile.h"
#include "vpmu/event/event.h"
#include "vpmu/util/fail.h"

#define EVENTS_USUAL "instructions,cycles,ref-cycles,cache-misses"

static int set_listen(const struct config_key *k, void *field, const char *value, char *why)
{
	return metrics_listen_ok(value) ? config_set_text(k, field, value, why) : -EINVAL;
}

/* Reject only unknown names: an event that cannot be counted here is reported by the metrics. */
static int set_events(const struct config_key *k, void *field, const char *value, char *why)
{
	vpmu_key_t keys[METRICS_EVENTS_MAX];
	size_t n = METRICS_EVENTS_MAX;
	int ret = vpmu_event_parse_list(value, vpmu_event_host_space(), keys, NULL, &n, why,
					CONFIG_WHY_MAX);

	return ret ? -EINVAL : config_set_text(k, field, value, why);
}

/* In the order of enum metrics_created. */
static int set_created(const struct config_key *k, void *field, const char *value, char *why)
{
	static const char *const words[] = {"no", "tenants", "all"};

	for (int i = 0; i < 3; i++) {
		if (!strcmp(value, words[i])) {
			*(enum metrics_created *)field = (enum metrics_created)i;
			return 0;
		}
	}
	return -EINVAL;
}

#define C(field)   offsetof(struct exporter_config, field)
#define SOCKET_MAX (sizeof(((struct sockaddr_un *)0)->sun_path) - 1)

static const struct config_key keys[] = {
	{"socket", config_set_path, C(socket), 1, SOCKET_MAX,
	 "a path of up to 107 bytes that starts with /"},
	{"events", set_events, C(events), 1, 4095,
	 "events as for `vpmu stat -e`, separated by commas"},
	{"listen", set_listen, C(listen), 1, 200,
	 "ADDRESS:PORT, :PORT for 127.0.0.1, [ADDRESS]:PORT for IPv6, or unix:/PATH"},
	{"tls_cert", config_set_path, C(tls_cert), 1, 4000, "the path of a PEM file"},
	{"tls_key", config_set_path, C(tls_key), 1, 4000, "the path of a PEM file"},
	{"users", config_set_path, C(users), 1, 4000, "the path of a file with lines NAME:HASH"},
	{"max_domains", config_set_uint, C(max_domains), 0, 32768, "0 to 32768"},
	{"max_tenants", config_set_uint, C(max_tenants), 0, 32768, "0 to 32768"},
	{"keep_gone", config_set_uint, C(keep_gone), 0, 3600, "0 to 3600 seconds"},
	{"created", set_created, C(created), 0, 0, "all, tenants or no"},
	{"as_of", config_set_bool, C(as_of), 0, 0, "yes or no"},
};

struct file {
	struct exporter_config *c;
	bool seen;
};

static int begin(void *arg, const struct config_at *at)
{
	struct file *f = arg;

	if (strcmp(at->section, "vpmu-exporter"))
		return CONFIG_NO_SECTION;
	if (f->seen)
		return fail(-EINVAL, at->err, at->errlen, "%s: [%s] given twice; expected once",
			    at->where, at->section);
	f->seen = true;
	return 0;
}

static int set(void *arg, const struct config_at *at, const char *key, const char *value)
{
	struct file *f = arg;

	return config_set(keys, sizeof(keys) / sizeof(keys[0]), f->c, &f->c->given, at, key, value);
}

static int end(void *arg, const struct config_at *at)
{
	const struct exporter_config *c = ((struct file *)arg)->c;

	if (!c->tls_cert == !c->tls_key)
		return 0;
	return fail(
		-EINVAL, at->err, at->errlen,
		"%s: [vpmu-exporter] with %s only; expected both of tls_cert and tls_key, or none",
		at->where, c->tls_cert ? "tls_cert" : "tls_key");
}

static const struct config_sections sections = {"[vpmu-exporter]", begin, set, end};

static const struct exporter_config usual = {
	.max_domains = 2000,
	.max_tenants = 2000,
	.keep_gone = 60,
	.created = METRICS_CREATED_TENANTS,
};

int exporter_config_text(struct exporter_config *c, const char *name, const char *text, size_t len,
			 char *err, size_t errlen)
{
	struct file f = {.c = c};

	*c = usual;
	return config_read_text(&sections, &f, name, text, len, err, errlen);
}

int exporter_config_read(struct exporter_config *c, const char *path, char *err, size_t errlen)
{
	struct file f = {.c = c};

	*c = usual;
	if (!path && access(EXPORTER_CONF, F_OK) && errno == ENOENT)
		return 0;
	return config_read_file(&sections, &f, path ? path : EXPORTER_CONF, err, errlen);
}

void exporter_config_fini(struct exporter_config *c)
{
	free(c->socket);
	free(c->events);
	free(c->listen);
	free(c->tls_cert);
	free(c->tls_key);
	free(c->users);
	*c = (struct exporter_config){0};
}

int exporter_metrics(const struct exporter_config *c, void *connection, struct metrics **out,
		     char *err, size_t errlen)
{
	const struct metrics_opts o = {
		.events = c->events ? c->events : EVENTS_USUAL,
		.created = c->created,
		.as_of = c->as_of,
		.max_vms = c->max_domains,
		.max_tenants = c->max_tenants,
		.keep_gone_sec = c->keep_gone,
		.ask = answer_ask,
		.arg = connection,
	};

	return metrics_create(&o, out, err, errlen);
}
