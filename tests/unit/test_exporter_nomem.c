// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * exporter/ with every allocation failing in turn, alone and with all that follow: what
 * cannot be done fails with one line and leaves nothing (the sanitizer build looks), and the next
 * scrape has all counts. The texts of zlib and libmicrohttpd are not here: their allocations are
 * their own.
 */
#include <crypt.h>
#include <errno.h>
#include <stdlib.h>

#include "../nomem.h"
#include "exporter/metrics.h"
#include "exporter/users.h"
#include "cgroup_host.h"
#include "exporter_server.h"

static struct test_host h;
static struct server *server;
static struct test_vcpu v;

static struct metrics_opts opts = {
	.events = "instructions,cycles,cache-misses",
	.max_vms = 100,
	.max_tenants = 100,
	.keep_gone_sec = 3600,
	.created = METRICS_CREATED_ALL,
	.ask = exporter_server_ask,
};

static void setup(void)
{
	struct node *acme;

	json_memory_init();
	test_host_init(&h, NULL);
	server = exporter_server(&h);
	opts.arg = server;
	acme = test_tenant(&h, "/acme");
	test_vcpu_init(&v, test_vm(&h, acme, "web", 1), 0);
	test_vm(&h, acme, "idle", 1);
}

static void teardown(void)
{
	test_vcpu_fini(&v);
	server_destroy(server);
	test_host_fini(&h);
}

TestSuite(exporter_nomem, .init = setup, .fini = teardown);

static bool one_line(const char *err)
{
	return *err && !strchr(err, '\n');
}

/* Returns true if the text has the VM's 1,000 instructions, and is whole. */
static bool whole(const struct expo *e)
{
	static const char count[] =
		"vpmu_domain_events_total{domain=\"web\",backend=\"emulator\",event="
		"\"instructions\"} 1000\n";

	return memmem(e->text, e->len, count, sizeof(count) - 1) && e->len > 6 &&
	       !memcmp(e->text + e->len - 6, "# EOF\n", 6);
}

/* One scrape. Returns true if an allocation failed. */
static bool scrape(struct metrics *m, unsigned long n, bool all)
{
	struct expo e = {.form = EXPO_OPENMETRICS};
	char err[300] = "";
	unsigned long failed;
	int ret, end = 0;

	nomem_arm(n, all);
	ret = metrics_render(m, &e, err, sizeof(err));
	if (!ret)
		end = expo_end(&e);
	failed = nomem_disarm();
	cr_assert(!ret || (ret == -ENOMEM && one_line(err)), "allocation %lu: %d \"%s\"", n, ret,
		  err);
	cr_assert(ret || end || whole(&e), "allocation %lu: half a text", n);
	cr_assert(failed || (!ret && !end), "allocation %lu: \"%s\" with memory", n, err);
	expo_fini(&e);
	return failed;
}

Test(exporter_nomem, a_scrape_is_whole_or_fails)
{
	struct metrics *m = NULL;
	char err[300] = "";
	struct expo e = {.form = EXPO_TEXT};
	unsigned long n;

	cr_assert_eq(metrics_create(&opts, &m, err, sizeof(err)), 0, "%s", err);
	cr_assert_eq(metrics_render(m, &e, err, sizeof(err)), 0, "%s", err);
	expo_fini(&e);
	test_run(&h, 0, &v, 1000);
	cr_assert_not(scrape(m, 1000000, false));
	for (int all = 0; all < 2; all++) {
		for (n = 0; scrape(m, n, all); n++)
			;
		cr_assert_gt(n, 5);
	}
	metrics_destroy(m);
}

/* Sessions that could not be opened are with the next scrape. */
Test(exporter_nomem, it_begins_in_the_end)
{
	for (int all = 0; all < 2; all++) {
		unsigned long failed = 1;

		for (unsigned long n = 0; failed; n++) {
			struct expo e = {.form = EXPO_TEXT};
			struct metrics *m = NULL;
			char err[300] = "";
			int ret;

			nomem_arm(n, all);
			ret = metrics_create(&opts, &m, err, sizeof(err));
			if (!ret)
				ret = metrics_render(m, &e, err, sizeof(err));
			failed = nomem_disarm();
			expo_fini(&e);
			cr_assert(!ret || (ret == -ENOMEM && one_line(err)),
				  "allocation %lu: %d \"%s\"", n, ret, err);
			cr_assert(failed || !ret);
			if (m) {
				e = (struct expo){.form = EXPO_TEXT};
				cr_assert_eq(metrics_render(m, &e, err, sizeof(err)), 0, "%s", err);
				cr_assert(memmem(e.text, e.len, "domain=\"web\"", 12));
				expo_fini(&e);
			}
			metrics_destroy(m);
			registry_close_all(sessions_registry(server_sessions(server)));
		}
	}
}

Test(exporter_nomem, users)
{
	char text[1000], hash[200];
	struct users *u = NULL;
	char err[300];
	unsigned long failed = 1, tried = 0;
	struct crypt_data data = {0};

	snprintf(hash, sizeof(hash), "%s", crypt_r("secret", "$6$rounds=1000$aaaaaaaa$", &data));
	snprintf(text, sizeof(text), "a:%s\nb:%s\n", hash, hash);
	for (unsigned long n = 0; failed; n++, tried++) {
		int ret;

		*err = '\0';
		nomem_arm(n, false);
		ret = users_text("f", text, strlen(text), &u, err, sizeof(err));
		failed = nomem_disarm();
		cr_assert_eq(ret, failed ? -ENOMEM : 0, "allocation %lu", n);
		cr_assert(!ret || one_line(err));
		if (ret)
			continue;
		/* Without memory to remember a password it is right all the same. */
		nomem_arm(0, true);
		cr_assert_eq(users_check(u, "a", "secret", 0), 1);
		nomem_disarm();
		cr_assert_eq(users_check(u, "a", "wrong", 2000000000), 0);
		users_free(u);
	}
	cr_assert_gt(tried, 4);
}
