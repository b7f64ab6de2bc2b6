// SPDX-License-Identifier: GPL-2.0-or-later
/* The cost of a scrape of very many VMs: reading their counts and answering, as vpmud does, and
 * writing the text of the answer and compressing it, as vpmu-exporter does; and of a
 * switch during it. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#include "exporter/metrics.h"
#include "service/server.h"
#include "tests/bench/kernel/kbench.h"

#define PER_TENANT 100

struct bed {
	struct bpf_backend *k;
	struct tenants *ts;
	struct server *s;
	struct metrics *m;
	double served; /* ns of CPU for answers */
};

static void vm_info(const struct node *vm, json_t *obj, void *arg)
{
	json_object_set_new(obj, "uuid", json_string("6f0c1b9e-0000-4000-8000-000000000001"));
	json_object_set_new(obj, "cgroup",
			    json_string("/machine.slice/machine-qemu\\x2d1\\x2dinstance.scope"));
}

static int ask(void *arg, json_t *req, json_t **resp, char *err, size_t errlen)
{
	struct bed *b = arg;
	char *line = json_dumps(req, 0), *answer;
	double t0 = 1e9 * clock_s(CLOCK_PROCESS_CPUTIME_ID);

	answer = server_dispatch(b->s, line, strlen(line));
	b->served += 1e9 * clock_s(CLOCK_PROCESS_CPUTIME_ID) - t0;
	*resp = json_loads(answer, JSON_REJECT_DUPLICATES, NULL);
	free(line);
	free(answer);
	json_decref(req);
	return json_is_true(json_object_get(*resp, "ok"))
		       ? 0
		       : -(int)json_integer_value(json_object_get(*resp, "errno"));
}

static void bed_open(struct bed *b, unsigned int vms)
{
	const struct bpf_backend_opts k = {.pin_dir = NULL};
	struct metrics_opts o = {.events = EVENTS8,
				 .created = METRICS_CREATED_TENANTS,
				 .max_vms = vms,
				 .max_tenants = vms,
				 .ask = ask,
				 .arg = b};
	const struct server_opts so = {.name = "bench", .host_too = true, .vm_info = vm_info};
	char err[512] = "", name[64];
	struct node *t = NULL, *vm;

	if (bpf_backend_open(&k, &b->k, err, sizeof(err)) ||
	    tenants_create(NULL, &b->ts, err, sizeof(err)) ||
	    tenants_add_source(b->ts, bpf_as_backend(b->k)) ||
	    server_create(b->ts, NULL, &so, &b->s, err, sizeof(err)))
		skip("%s", err);
	for (unsigned int i = 0; i < vms; i++) {
		snprintf(name, sizeof(name), "/tenant-%u", i / PER_TENANT);
		if (i % PER_TENANT == 0 && tenant_add(b->ts, name, &t, err, sizeof(err)))
			skip("%s", err);
		snprintf(name, sizeof(name), "instance-%08x", i);
		if (tenant_vm_add(b->ts, t, bpf_as_backend(b->k), name, 0, NULL, &vm, err,
				  sizeof(err)) ||
		    bpf_backend_bind_cgroup(node_in(vm, bpf_as_backend(b->k)), ground_id(i)))
			skip("%s", err);
	}
	if (metrics_create(&o, &b->m, err, sizeof(err)))
		skip("%s", err);
}

static void bed_close(struct bed *b)
{
	metrics_destroy(b->m);
	server_destroy(b->s);
	tenants_destroy(b->ts);
	bpf_backend_close(b->k);
}

static struct expo render(struct bed *b, enum expo_form form)
{
	struct expo e = {.form = form};
	char err[300];

	if (metrics_render(b->m, &e, err, sizeof(err)) || expo_end(&e))
		skip("%s", err);
	return e;
}

static void scrape(void *arg)
{
	struct expo e = render(arg, EXPO_OPENMETRICS);

	expo_fini(&e);
}

/* Bytes after gzip, as http.c has it. */
static size_t packed(const struct expo *e)
{
	z_stream z = {.next_in = (unsigned char *)e->text, .avail_in = (unsigned int)e->len};
	size_t room, len;
	unsigned char *to;

	if (deflateInit2(&z, 1, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY) != Z_OK)
		skip("zlib");
	room = deflateBound(&z, e->len);
	to = malloc(room);
	if (!to)
		skip("memory");
	z.next_out = to;
	z.avail_out = (unsigned int)room;
	deflate(&z, Z_FINISH);
	len = room - z.avail_out;
	deflateEnd(&z);
	free(to);
	return len;
}

static void cost(struct bed *b, unsigned int rounds, enum expo_form form, const char *name)
{
	double text = 0, gzip = 0, served = 0;
	size_t len = 0, small = 0;

	for (unsigned int r = 0; r < rounds; r++) {
		double t0 = 1e9 * clock_s(CLOCK_PROCESS_CPUTIME_ID), t1, t2;
		struct expo e;

		b->served = 0;
		e = render(b, form);
		t1 = 1e9 * clock_s(CLOCK_PROCESS_CPUTIME_ID);
		small = packed(&e);
		t2 = 1e9 * clock_s(CLOCK_PROCESS_CPUTIME_ID);
		served = b->served > served ? b->served : served;
		t0 += b->served;
		text = t1 - t0 > text ? t1 - t0 : text;
		gzip = t2 - t1 > gzip ? t2 - t1 : gzip;
		len = e.len;
		expo_fini(&e);
	}
	printf("%s: %.2f ms CPU of vpmud at most   goal 20; %.2f ms to write, %.2f ms to compress; "
	       "%.2f MB, %.2f MB with gzip   goal 2\n",
	       name, served / 1e6, text / 1e6, gzip / 1e6, (double)len / 1e6, (double)small / 1e6);
}

void bench_scrape(unsigned int rounds, unsigned int vms, int cpu)
{
	double sum[2] = {0, 0}, best[2] = {0, 0};
	static struct bed b;

	ground_need(vms);
	bed_open(&b, vms);
	play(WORK_PIPE, 0, 1, cpu, 1000); /* not all counts are 0 */
	printf("%u VMs, 8 events\n", vms);
	cost(&b, rounds, EXPO_TEXT, "text format");
	cost(&b, rounds, EXPO_OPENMETRICS, "OpenMetrics");
	for (unsigned int r = 0; r < rounds; r++) {
		for (unsigned int i = 0; i < 2; i++) {
			bool reads = (r + i) % 2;
			double ns = beside(reads ? scrape : NULL, &b, cpu);

			sum[reads] += ns;
			best[reads] = !best[reads] || ns < best[reads] ? ns : best[reads];
		}
	}
	printf("a switch: %.0f ns; with ten scrapes a second: %.0f ns; ratio %.3f, of the sums of "
	       "all rounds %.3f   goal 1.02\n",
	       best[0], best[1], best[1] / best[0], sum[1] / sum[0]);
	bed_close(&b);
}
