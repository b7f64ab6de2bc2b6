/* SPDX-License-Identifier: GPL-2.0-or-later */
/* A server with a history, one tenant and VMs. The test makes its ticks and clocks. */
#ifndef TESTS_UNIT_HISTORY_BED_H
#define TESTS_UNIT_HISTORY_BED_H

#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <malloc.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "answers.h"
#include "fake_backend.h"
#include "service/clock.h"
#include "service/history.h"
#include "service/listener.h"
#include "service/server.h"
#include "vpmu/event/event.h"

#define SECOND 1000000000ULL

static struct fake_source fake;
static struct tenants *ts;
static struct server *srv;
static sd_event *ev;
static struct history *h;
static struct node *acme, *vm;
static char err[300], notes[2000], dir[64], file[96], sock[96];
static struct history_opts opts;
static struct vpmu_backend_ops ops;
static struct vpmu_value how; /* of each value: quality, partial, losses, age */

static void read_how(const struct vpmu_counting *c)
{
	fake_read(c);
	for (size_t i = 0; i < c->nr_keys; i++) {
		c->values[i].quality = how.quality;
		c->values[i].partial = how.partial;
		c->values[i].losses = how.losses;
		c->values[i].age_ns = how.age_ns;
	}
}

static void detach_how(struct vpmu_backend *s, struct vpmu_counting *list)
{
	fake_detach(s, list);
	for (; list; list = list->next)
		for (size_t i = 0; i < list->nr_keys; i++)
			list->values[i].quality = how.quality;
}

static void on_note(void *arg, const char *line)
{
	snprintf(notes + strlen(notes), sizeof(notes) - strlen(notes), "%s\n", line);
}

static struct node *add_vm(const char *name)
{
	struct node *n;

	cr_assert_eq(tenant_vm_add(ts, acme, &fake.s, name, 1, NULL, &n, err, sizeof(err)), 0);
	return n;
}

static void server_up(void)
{
	struct server_opts o = {
		.name = "test", .path = sock, .own_dir = true, .raw_space = VPMU_SPACE_INTEL};

	cr_assert_geq(sd_event_new(&ev), 0);
	cr_assert_eq(server_create(ts, ev, &o, &srv, err, sizeof(err)), 0, "%s", err);
	opts.note = on_note;
	opts.file = file;
	h = history_create(server_sessions(srv), &opts);
	cr_assert_eq(server_history(srv, h), 0);
	/* What was counted before the first interval began is not known. */
	history_tick(h, realtime_us(), now_ns());
	usleep(20);
}

static void server_down(void)
{
	history_destroy(h);
	server_destroy(srv);
	sd_event_unref(ev);
}

static void setup(void)
{
	snprintf(dir, sizeof(dir), "/tmp/vpmu-history-%d", getpid());
	snprintf(sock, sizeof(sock), "%s/s.sock", dir);
	snprintf(file, sizeof(file), "%s/past", dir);
	fake_init(&fake, "bpf", 0);
	ops = fake_ops;
	ops.read = read_how;
	ops.detach = detach_how;
	fake.s.ops = &ops;
	cr_assert_eq(tenants_create(NULL, &ts, err, sizeof(err)), 0);
	cr_assert_eq(tenants_add_source(ts, &fake.s), 0);
	cr_assert_eq(tenant_add(ts, "/acme", &acme, err, sizeof(err)), 0);
	cr_assert_eq(tenant_count(acme, &fake.s), 0);
	vm = add_vm("web");
	opts = (struct history_opts){.interval_ns = 10 * SECOND, .keep_ns = 3600 * SECOND};
	server_up();
}

static void teardown(void)
{
	char command[128];

	server_down();
	tenants_destroy(ts);
	snprintf(command, sizeof(command), "rm -rf %s", dir);
	cr_expect_eq(system(command), 0);
}

TestSuite(history, .init = setup, .fini = teardown);

static inline json_t *ask(const char *line)
{
	char *answer = server_dispatch(srv, line, strlen(line));
	json_t *obj = json_loads(answer, JSON_REJECT_DUPLICATES, NULL);

	cr_assert(obj, "%s", answer);
	free(answer);
	return obj;
}

static void run(struct node *n, uint64_t count)
{
	fake_charge(node_in(node_vcpu(n, 0), &fake.s), VPMU_EV_INSTRUCTIONS, count);
}

static void tick(void)
{
	usleep(20);
	history_tick(h, realtime_us(), now_ns());
	usleep(20);
}

/* The next tick, when @mono_s more have passed, and the time of day has moved by @real_s. */
static void tick_at(uint64_t at[2], int real_s, unsigned int mono_s)
{
	history_tick(h, at[0] += (uint64_t)(real_s * 1000000LL), at[1] += mono_s * SECOND);
}

/* The deltas of a node's instructions as text: "5 null 7", with the quality behind each that is not
 * "ok". */
static const char *deltas(const json_t *answer, const char *tenant, const char *name)
{
	static char text[1000];
	const json_t *series = json_object_get(answer, "series"), *s;
	size_t i, n = 0;

	strcpy(text, "no series");
	json_array_foreach (series, i, s) {
		const char *v = json_string_value(json_object_get(s, "vm"));
		const json_t *d = json_object_get(s, "delta"), *q = json_object_get(s, "quality");

		if (strcmp(json_string_value(json_object_get(s, "tenant")), tenant) ||
		    strcmp(v ? v : "", name) ||
		    strcmp(json_string_value(json_object_get(s, "event")), "instructions"))
			continue;
		cr_expect_eq(json_array_size(d), json_array_size(json_object_get(answer, "times")));
		*text = '\0';
		for (size_t k = 0; k < json_array_size(d); k++) {
			const json_t *one = json_array_get(d, k);
			const char *how = json_string_value(json_array_get(q, k));

			n += (size_t)snprintf(text + n, sizeof(text) - n, "%s", k ? " " : "");
			if (json_is_null(one))
				n += (size_t)snprintf(text + n, sizeof(text) - n, "null");
			else
				n += (size_t)snprintf(text + n, sizeof(text) - n, "%lld",
						      json_integer_value(one));
			if (how && strcmp(how, "ok"))
				n += (size_t)snprintf(text + n, sizeof(text) - n, "(%s)", how);
		}
	}
	return text;
}

#define ATTACH(name, scope)                                                                        \
	json_decref(must("{\"cmd\":\"attach\",\"events\":\"instructions\",\"scope\":\"" scope      \
			 "\",\"name\":\"" name "\",\"keep\":true}"))

/* What the history answers about a node to a request with the fields @more, as deltas(). */
static __attribute__((format(printf, 3, 4))) const char *past(const char *tenant, const char *name,
							      const char *more, ...)
{
	char fields[120], line[160];
	const char *text;
	va_list ap;
	json_t *a;

	va_start(ap, more);
	vsnprintf(fields, sizeof(fields), more, ap);
	va_end(ap);
	snprintf(line, sizeof(line), "{\"cmd\":\"history\"%s}", fields);
	a = must(line);
	text = deltas(a, tenant, name);
	json_decref(a);
	return text;
}

#define EXPECT_PAST(tenant, vm, what) cr_expect_str_eq(past(tenant, vm, "%s", ""), what)

#endif
