// SPDX-License-Identifier: GPL-2.0-or-later
/* vpmu-qemu: what it finds on QEMU's command line, the keys of a VM's PMU, and the words in which
 * QEMU carries its registers. */
#include <criterion/criterion.h>
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "preload/conf.h"
#include "preload/words.h"
#include "vpmu/totals.h"

#define ARGV(...)                                                                                  \
	(char *const[])                                                                            \
	{                                                                                          \
		(char *)"qemu", __VA_ARGS__, NULL                                                  \
	}

Test(preload_arguments, cpu_and_accelerator)
{
	static const struct {
		const char *accel_opt, *accel, *cpu;
		bool kvm, pmu;
	} rows[] = {
		{"-accel", "kvm", "host", true, true},
		{"--accel", "kvm,kernel-irqchip=split", "max,-xsave", true, true},
		{"-accel", "accel=kvm", "host", true, true},
		{"-machine", "q35,accel=kvm:tcg", "host,pmu=off", true, false},
		{"-M", "pc", "EPYC,pmu=on", false, true},
		{"-M", "accel=tcg", "EPYC,enforce,pmu=true", false, true},
		{"-accel", "tcg", "host,-pmu", false, false},
		{"-machine", "q35,usb=off,accel=kvm", "EPYC,+pmu", true, true},
		{"-accel", "kvm", "EPYC", true, false},
		{"-accel", "kvm", "hostess", true, false},
		{"-accel", "kvm", "host,migratable=off,pmu=off,x=y", true, false},
	};
	struct arguments a;

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		arguments_read(&a, ARGV((char *)rows[i].accel_opt, (char *)rows[i].accel,
					(char *)"-cpu", (char *)rows[i].cpu));
		cr_expect_eq(a.kvm, rows[i].kvm, "%s", rows[i].accel);
		cr_expect_eq(a.pmu, rows[i].pmu, "%s", rows[i].cpu);
		cr_expect_not(a.probe);
	}
	arguments_read(&a, ARGV((char *)"-cpu", (char *)"host", (char *)"-enable-kvm"));
	cr_expect(a.kvm && a.pmu && !a.probe);
	arguments_read(&a, ARGV((char *)"-cpu"));
	cr_expect(!a.pmu && !a.kvm);
}

/* QEMU gives every CPU model the host's vendor, but for an explicit one. */
Test(preload_arguments, vendor)
{
	static const struct {
		const char *cpu, *pmu;
		bool intel, unfit;
	} rows[] = {
		{"host", "auto", true, false},
		{"host", "auto", false, false},
		{"EPYC,pmu=on", "auto", true, false},
		{"EPYC,pmu=on", "intel-v2", true, false},
		{"host", "intel-v5", false, true},
		{"host", "amd-v2", true, true},
		{"host,vendor=GenuineIntel", "auto", false, true},
		{"host,vendor=GenuineIntel,pmu=on", "intel-v2", false, false},
		{"max,vendor=AuthenticAMD", "auto", true, true},
		{"max,-xsave,vendor=HygonGenuine", "amd-core", true, false},
		{"host,vendor=GenuineIntel,vendor=AuthenticAMD", "auto", false, false},
		{"host,vendor=AuthenticAMD,vendor=GenuineIntel", "auto", false, true},
		{"host,vendor=CentaurHauls", "auto", true, true},
		{"host,,vendor=GenuineIntel", "auto", false, true},
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct conf c = {0};
		struct arguments a;
		char err[300];

		arguments_read(&a, ARGV((char *)"-cpu", (char *)rows[i].cpu));
		cr_assert(!conf_set(&c, "f:1", "pmu", rows[i].pmu, err, sizeof(err)));
		cr_assert(!conf_vendor(&c, rows[i].intel, a.vendor));
		cr_expect_eq(conf_is_unfit(&c), rows[i].unfit, "row %zu: %s", i, a.vendor);
		conf_fini(&c);
		/* vpmu-qemu's alone */
		cr_expect_eq(conf_set(&c, "f:2", "unfit", "1", err, sizeof(err)), -ENOENT);
	}
}

Test(preload_arguments, probes)
{
	static const char *const probes[][2] = {
		{"-machine", "none,accel=kvm:tcg"},
		{"-M", "none"},
		{"-machine", "type=none"},
		{"-cpu", "help"},
		{"-device", "help"},
		{"-device", "e1000,help"},
		{"-help", NULL},
		{"--version", NULL},
		{"-h", NULL},
	};
	struct arguments a;

	for (size_t i = 0; i < sizeof(probes) / sizeof(probes[0]); i++) {
		arguments_read(&a, ARGV((char *)"-enable-kvm", (char *)probes[i][0],
					(char *)probes[i][1]));
		cr_expect(a.probe, "%s %s", probes[i][0], probes[i][1]);
	}
	arguments_read(&a, ARGV((char *)"-M", (char *)"nonesuch", (char *)"-cpu", (char *)"host"));
	cr_expect_not(a.probe);
}

Test(preload_arguments, name)
{
	static const struct {
		const char *given, *name;
	} rows[] = {
		{"web", "web"},
		{"guest=web,debug-threads=on", "web"},
		{"debug-threads=on,guest=a,,b", "a,b"},
		{"web,process=x", "web"},
		{"process=x", ""},
	};
	struct arguments a;

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		arguments_read(&a, ARGV((char *)"-name", (char *)rows[i].given));
		cr_expect_str_eq(a.name, rows[i].name, "%s: %s", rows[i].given, a.name);
	}
}

Test(preload_conf, text_and_back)
{
	struct conf c = {0}, back = {0}, over = {0};
	struct vpmu_guest_cfg cfg;
	struct vpmu_policy policy[2];
	char err[300] = "", *text;

	cr_assert_eq(conf_set(&c, "f:1", "pmu", "amd-v2", err, sizeof(err)), 0);
	cr_assert_eq(conf_set(&c, "f:2", "gp", "8", err, sizeof(err)), 0);
	cr_assert_eq(conf_set(&c, "f:3", "policy", "standard", err, sizeof(err)), 0);
	cr_assert_eq(conf_set(&c, "f:4", "deny", "r0c0,instructions", err, sizeof(err)), 0);
	text = conf_text(&c);
	cr_assert_str_eq(text, "pmu=amd-v2\ngp=8\npolicy=standard\ndeny=r0c0,instructions\n");
	cr_assert_eq(conf_parse(&back, text, err, sizeof(err)), 0, "%s", err);
	cr_assert_eq(conf_apply(&back, true, &cfg, policy, err, sizeof(err)), 0, "%s", err);
	cr_expect_eq(cfg.model, VPMU_GUEST_AMD_V2);
	cr_expect_eq(cfg.gp, 8);
	cr_expect(cfg.no_lbr);
	cr_expect_eq(cfg.policy, policy);
	cr_expect_eq(policy[0].action, VPMU_POLICY_DENY);
	cr_expect_eq(policy[0].nr_events, 2);
	/* a list replaces a list of the other kind */
	cr_assert_eq(conf_set(&over, "env", "allow", "cycles", err, sizeof(err)), 0);
	cr_assert_eq(conf_over(&back, &over), 0);
	cr_assert_eq(conf_apply(&back, true, &cfg, policy, err, sizeof(err)), 0, "%s", err);
	cr_expect_eq(policy[0].action, VPMU_POLICY_ALLOW);
	free(text);
	conf_fini(&c);
	conf_fini(&back);
	conf_fini(&over);
	/* by default, what the host's CPU is, without limits */
	cr_assert_eq(conf_apply(&c, true, &cfg, policy, err, sizeof(err)), 0);
	cr_expect(cfg.model == VPMU_GUEST_INTEL_V5 && !cfg.policy);
	cr_assert_eq(conf_apply(&c, false, &cfg, policy, err, sizeof(err)), 0);
	cr_expect(cfg.model == VPMU_GUEST_AMD_V2 && !cfg.policy);
	cr_expect_not(conf_is_off(&c));
}

/* A guest with more counters than the host has for it would be multiplexed without its knowledge.
 */
Test(preload_conf, no_more_counters_than_the_host_has_for_it)
{
	static const struct {
		const char *pmu, *gp;
		bool intel;
		unsigned int host;
		const char *want; /* "none": it does not fit */
	} rows[] = {
		{NULL, NULL, false, 6, "4"},
		{NULL, NULL, false, 8, NULL},
		{NULL, NULL, false, 4, "4"},
		{NULL, NULL, false, 0, NULL},
		{"auto", NULL, true, 8, "6"},
		{NULL, NULL, true, 4, "2"},
		{NULL, NULL, true, 1, "2"},
		{NULL, NULL, true, 10, NULL},
		{"amd-core", NULL, false, 6, "none"},
		{"amd-core", NULL, true, 7, "none"},
		{"amd-core", NULL, false, 8, NULL},
		{"amd-core", NULL, false, 0, NULL},
		{"amd-core", "6", false, 6, "6"},
		/* the three fixed counters take general ones of AMD's */
		{"intel-v2", NULL, false, 6, "2"},
		{"intel-v2", NULL, false, 10, "5"},
		{"amd-v2", "6", false, 6, "6"},
		{"amd-v2", "15", false, 6, "15"},
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct vpmu_policy policy[2];
		struct vpmu_guest_cfg cfg;
		struct conf c = {0};
		char err[300];

		if (rows[i].pmu)
			cr_assert_eq(conf_set(&c, "f:1", "pmu", rows[i].pmu, err, sizeof(err)), 0);
		if (rows[i].gp)
			cr_assert_eq(conf_set(&c, "f:2", "gp", rows[i].gp, err, sizeof(err)), 0);
		*err = 0;
		if (conf_fits(&c, rows[i].intel, rows[i].host, err, sizeof(err))) {
			cr_expect(rows[i].want && !strcmp(rows[i].want, "none"), "row %zu: %s", i,
				  err);
			cr_expect(*err && !strchr(err, '\n'), "row %zu", i);
			conf_fini(&c);
			continue;
		}
		cr_assert_eq(conf_default_gp(&c, rows[i].intel, rows[i].host), 0);
		if (rows[i].want && c.value[CONF_GP])
			cr_expect_str_eq(c.value[CONF_GP], rows[i].want, "row %zu", i);
		cr_expect_eq(!rows[i].want, !c.value[CONF_GP], "row %zu", i);
		cr_expect_eq(conf_apply(&c, rows[i].intel, &cfg, policy, err, sizeof(err)), 0,
			     "row %zu", i);
		conf_fini(&c);
	}
}

Test(preload_conf, invalid)
{
	static const char *const bad[] = {
		"pmu=amd-k7\n",	 "pmu=\n",   "gp=1\n", "gp=16\n",
		"policy=most\n", "allow=\n", "x=y\n",  "pmu\n",
	};
	static const char *const misfits[] = {
		"pmu=amd-core\ngp=7\n",	       "pmu=intel-v2\ngp=9\n", "pmu=amd-v2\ngp=3\n",
		"allow=cycles\ndeny=cycles\n", "deny=nonesuch\n",
	};
	struct vpmu_guest_cfg cfg;
	struct vpmu_policy policy[2];

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		struct conf c = {0};
		char err[300] = "";

		cr_expect_eq(conf_parse(&c, bad[i], err, sizeof(err)), -EINVAL, "%s", bad[i]);
		cr_expect(*err && !strchr(err, '\n'), "%s", bad[i]);
		conf_fini(&c);
	}
	for (size_t i = 0; i < sizeof(misfits) / sizeof(misfits[0]); i++) {
		struct conf c = {0};
		char err[300] = "";

		cr_assert_eq(conf_parse(&c, misfits[i], err, sizeof(err)), 0, "%s", err);
		cr_expect_lt(conf_apply(&c, false, &cfg, policy, err, sizeof(err)), 0, "%s",
			     misfits[i]);
		cr_expect(*err && !strchr(err, '\n'), "%s", misfits[i]);
		conf_fini(&c);
	}
}

/* VMs' own keys and vpmud's: events must be permitted by both. */
Test(preload_conf, limit)
{
	static const struct {
		const char *own, *limit;
		const char *pmu; /* NULL: an error */
		unsigned int gp;
		bool cycles, misses, raw; /* allowed: cycles, branch-misses, r01ff */
	} rows[] = {
		{"", "", "amd-v2", 0, true, true, true},
		{"", "pmu=amd-core\n", "amd-core", 0, true, true, true},
		{"pmu=auto\n", "pmu=amd-core\n", "amd-core", 0, true, true, true},
		{"pmu=amd-v2\n", "pmu=amd-core\n", NULL, 0, 0, 0, 0},
		{"pmu=amd-v2\n", "pmu=none\n", "none", 0, true, true, true},
		{"pmu=amd-v2\n", "pmu=auto\n", "amd-v2", 0, true, true, true},
		{"pmu=amd-v2\ngp=8\n", "gp=6\n", "amd-v2", 6, true, true, true},
		{"pmu=amd-v2\ngp=5\n", "pmu=amd-v2\ngp=6\n", "amd-v2", 5, true, true, true},
		{"", "policy=standard\n", "amd-v2", 0, true, true, false},
		{"policy=full\n", "policy=standard\n", "amd-v2", 0, true, true, false},
		{"policy=standard\n", "policy=full\n", "amd-v2", 0, true, true, false},
		{"allow=r01ff,cycles\n", "policy=standard\n", "amd-v2", 0, true, false, false},
		{"allow=r01ff,cycles\n", "allow=cycles,branch-misses\n", "amd-v2", 0, true, false,
		 false},
		{"deny=cycles\n", "deny=branch-misses\n", "amd-v2", 0, false, false, true},
	};
	struct vpmu_guest_cfg cfg;
	struct vpmu_policy policy[2];

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct conf own = {0}, limit = {0}, back = {0};
		char err[300] = "", *text;
		int ret;

		cr_assert_eq(conf_parse(&own, rows[i].own, err, sizeof(err)), 0, "%s", err);
		cr_assert_eq(conf_parse(&limit, rows[i].limit, err, sizeof(err)), 0, "%s", err);
		ret = conf_limit(&own, &limit, err, sizeof(err));
		cr_expect_eq(!ret, rows[i].pmu != NULL, "%zu: %s", i, err);
		/* as the library gets it */
		text = conf_text(&own);
		cr_assert_eq(conf_parse(&back, text, err, sizeof(err)), 0, "%zu: %s", i, err);
		if (!ret) {
			const struct vpmu_policy *p;

			cr_assert_eq(conf_apply(&back, false, &cfg, policy, err, sizeof(err)), 0,
				     "%zu: %s", i, err);
			p = cfg.policy;
			cr_expect_str_eq(vpmu_guest_model_name(cfg.model), rows[i].pmu, "%zu", i);
			cr_expect_eq(cfg.gp, rows[i].gp, "%zu", i);
#define ALLOWS(sel)                                                                                \
	vpmu_policy_allows(p, VPMU_SPACE_AMD, sel,                                                 \
			   vpmu_key_from_raw(VPMU_SPACE_AMD, sel, VPMU_KEY_USR | VPMU_KEY_GUEST))
			cr_expect_eq(ALLOWS(0x76), rows[i].cycles, "%zu", i);
			cr_expect_eq(ALLOWS(0xc3), rows[i].misses, "%zu", i);
			cr_expect_eq(ALLOWS(0x1ff), rows[i].raw, "%zu", i);
		}
		free(text);
		conf_fini(&own);
		conf_fini(&limit);
		conf_fini(&back);
	}
}

/* vpmud's keys are no keys of the VM's owner. */
Test(preload_conf, limit_is_vpmuds)
{
	struct conf c = {0}, limit = {0};
	char err[300];

	cr_expect_eq(conf_set(&c, "f", "limit_policy", "full", err, sizeof(err)), -ENOENT);
	cr_assert_eq(conf_set(&limit, "f", "policy", "off", err, sizeof(err)), 0);
	cr_assert_eq(conf_limit(&c, &limit, err, sizeof(err)), 0);
	cr_expect(conf_is_off(&c));
	cr_expect_str_eq(conf_vpmud(&c), "/run/vpmu/vcpus.sock");
	conf_fini(&c);
	conf_fini(&limit);
}

/* ---- the question to vpmud ------------------------------------------------------------------- */

struct answerer {
	int fd;
	const char *bytes;
	size_t len;
	unsigned int closes; /* connections that are closed without an answer, first */
	struct vpmu_totals_request got;
};

static void *answerer_run(void *arg)
{
	struct answerer *a = arg;

	for (;; a->closes--) {
		int conn = accept(a->fd, NULL, NULL);

		if (conn < 0)
			return NULL;
		if (!a->closes) {
			if (recv(conn, &a->got, sizeof(a->got), MSG_WAITALL) < 0 ||
			    send(conn, a->bytes, a->len, MSG_NOSIGNAL) < 0)
				a->got.version = 0;
			close(conn);
			return NULL;
		}
		close(conn);
	}
}

struct stopped {
	int fd;
	const void *bytes;
	size_t len;
	int conn; /* which stays open */
};

static void *stopped_run(void *arg)
{
	struct stopped *s = arg;

	s->conn = accept(s->fd, NULL, NULL);
	if (s->conn >= 0 && send(s->conn, s->bytes, s->len, MSG_NOSIGNAL) < 0)
		s->len = 0;
	return NULL;
}

/* Ask a vpmud that answers @text, of which its reply says that it has @said bytes. */
static int asked(const char *text, uint32_t error, uint32_t said, unsigned int closes,
		 struct conf *c, char err[300])
{
	struct sockaddr_un at = {.sun_family = AF_UNIX};
	struct vpmu_totals_reply r = {error, said};
	char dir[] = "/tmp/ask.XXXXXX", bytes[sizeof(r) + 400];
	struct answerer a = {.bytes = bytes, .len = sizeof(r) + strlen(text), .closes = closes};
	pthread_t thread;
	int ret;

	memcpy(bytes, &r, sizeof(r));
	memcpy(bytes + sizeof(r), text, strlen(text));
	cr_assert(mkdtemp(dir));
	snprintf(at.sun_path, sizeof(at.sun_path), "%s/s", dir);
	a.fd = socket(AF_UNIX, SOCK_STREAM, 0);
	cr_assert(!bind(a.fd, (struct sockaddr *)&at, sizeof(at)) && !listen(a.fd, 8));
	cr_assert_eq(pthread_create(&thread, NULL, answerer_run, &a), 0);
	ret = ask_vpmud(at.sun_path, c, err, 300);
	shutdown(a.fd, SHUT_RDWR);
	pthread_join(thread, NULL);
	close(a.fd);
	unlink(at.sun_path);
	rmdir(dir);
	if (!ret)
		cr_expect(a.got.version == VPMU_TOTALS_VERSION &&
			  a.got.what == VPMU_TOTALS_CONFIG && !a.got.key && !a.got.tid);
	return ret;
}

Test(preload_ask, answers)
{
	static const char good[] = "pmu=amd-v2\ngp=6\nnewer=x\nvpmud=/x\nallow=cycles,r01c0\n";
	struct conf c = {0};
	char err[300] = "", *text;

	/* a vpmud that is busy at first */
	cr_assert_eq(asked(good, 0, strlen(good), 3, &c, err), 0, "%s", err);
	text = conf_text(&c);
	cr_expect_str_eq(text, "pmu=amd-v2\ngp=6\nallow=cycles,r01c0\n");
	free(text);
	conf_fini(&c);
	cr_expect_eq(ask_vpmud("", &c, err, sizeof(err)), -ENOENT);
	cr_expect_eq(ask_vpmud("/nonexistent/s", &c, err, sizeof(err)), -ENOENT);
	cr_expect_eq(asked("pmu=best\n", 0, 9, 0, &c, err), -EPROTO);
	cr_expect(*err && !strchr(err, '\n'), "%s", err);
	conf_fini(&c);
	cr_expect_eq(asked("", 0, VPMU_TOTALS_CONFIG_MAX + 1, 0, &c, err), -EPROTO);
	cr_expect_eq(asked("pmu=none\n", 0, 100, 0, &c, err), -ETIMEDOUT); /* cut off, then gone */
	cr_expect_null(c.value[CONF_PMU]);
}

/* A vpmud that is stopped: @full: its queue, so that not even connect() returns. @bytes is what it
 * had answered before. */
static void asked_stopped(bool full, const void *bytes, size_t len)
{
	struct sockaddr_un at = {.sun_family = AF_UNIX};
	char dir[] = "/tmp/ask.XXXXXX", err[300] = "";
	struct conf c = {0};
	int fd = socket(AF_UNIX, SOCK_STREAM, 0), other = socket(AF_UNIX, SOCK_STREAM, 0);
	pthread_t thread;
	struct stopped s = {fd, bytes, len, -1};

	cr_assert(mkdtemp(dir));
	snprintf(at.sun_path, sizeof(at.sun_path), "%s/s", dir);
	cr_assert(!bind(fd, (struct sockaddr *)&at, sizeof(at)) && !listen(fd, full ? 0 : 8));
	if (full)
		cr_assert(!connect(other, (struct sockaddr *)&at, sizeof(at)));
	if (len)
		cr_assert_eq(pthread_create(&thread, NULL, stopped_run, &s), 0);
	cr_expect_eq(ask_vpmud(at.sun_path, &c, err, sizeof(err)), -ETIMEDOUT);
	/* Not the error of the last of many attempts. */
	cr_expect(strstr(err, strerror(ETIMEDOUT)), "%s", err);
	cr_expect_null(c.value[CONF_PMU]);
	if (len)
		pthread_join(thread, NULL);
	close(s.conn);
	close(other);
	close(fd);
	unlink(at.sun_path);
	rmdir(dir);
}

Test(preload_ask, stopped)
{
	asked_stopped(false, NULL, 0);
}

Test(preload_ask, stopped_with_a_full_queue)
{
	asked_stopped(true, NULL, 0);
}

Test(preload_ask, stopped_within_its_answer)
{
	const struct {
		struct vpmu_totals_reply r;
		char text[9];
	} part = {{0, 100}, "pmu=none"};

	asked_stopped(false, &part, sizeof(part.r) + strlen(part.text));
}

Test(preload_conf, off)
{
	struct conf c = {0};
	char err[300];

	cr_assert_eq(conf_set(&c, "f", "policy", "off", err, sizeof(err)), 0);
	cr_expect(conf_is_off(&c));
	cr_assert_eq(conf_set(&c, "f", "policy", "full", err, sizeof(err)), 0);
	cr_assert_eq(conf_set(&c, "f", "pmu", "none", err, sizeof(err)), 0);
	cr_expect(conf_is_off(&c));
	conf_fini(&c);
}

/* What QEMU reads and writes for an architectural PMU, in number and place. */
Test(preload_words, of_qemu)
{
	unsigned int n = 0;

	for (uint32_t msr = 0; msr < 0x1000; msr++)
		n += words_has(msr);
	cr_expect_eq(n, 43, "%u", n);
	cr_expect(words_has(0xc1) && words_has(0xd2) && !words_has(0xd3));
	cr_expect(words_has(0x186) && words_has(0x197) && !words_has(0x198));
	cr_expect(words_has(0x309) && words_has(0x30b) && !words_has(0x30c));
	cr_expect(words_has(0x38d) && words_has(0x390) && !words_has(0x391));
	/* KVM's own: TSC, EFER, STAR */
	cr_expect(!words_has(0x10) && !words_has(0xc0000080) && !words_has(0xc0000081));
}

/* Each register of a model has one word below AMD's numbers, and no word has two. */
Test(preload_words, one_for_each)
{
	static const struct {
		enum vpmu_guest_model model;
		unsigned int gp, registers;
	} rows[] = {
		{VPMU_GUEST_AMD_CORE, 6, 13}, /* selects, counters, DEBUGCTL */
		{VPMU_GUEST_AMD_V2, 6, 15},   /* and two global ones */
		{VPMU_GUEST_AMD_V2, 15, 33},  {VPMU_GUEST_INTEL_V2, 8, 23},
		{VPMU_GUEST_INTEL_V5, 4, 15},
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		uint32_t seen[64];
		unsigned int n = 0;

		for (uint32_t msr = 0; msr < 0x1000; msr++) {
			uint32_t reg = words_register(rows[i].model, rows[i].gp, msr);

			if (!reg)
				continue;
			for (unsigned int k = 0; k < n; k++)
				cr_expect_neq(seen[k], reg, "%#x twice", reg);
			seen[n++] = reg;
		}
		cr_expect_eq(n, rows[i].registers, "row %zu: %u", i, n);
	}
	cr_expect_eq(words_register(VPMU_GUEST_AMD_V2, 6, 0xc2), 0xc0010203);
	cr_expect_eq(words_register(VPMU_GUEST_AMD_V2, 6, 0x187), 0xc0010202);
	cr_expect_eq(words_register(VPMU_GUEST_AMD_V2, 6, 0xc7), 0);
	cr_expect_eq(words_register(VPMU_GUEST_AMD_CORE, 6, 0x38f), 0);
	/* a VMM writes counters at full width */
	cr_expect_eq(words_register(VPMU_GUEST_INTEL_V2, 8, 0xc2), 0x4c2);
	cr_expect_eq(words_register(VPMU_GUEST_INTEL_V2, 8, 0x38f), 0x38f);
	cr_expect_eq(words_register(VPMU_GUEST_INTEL_V2, 8, 0xc0000301), 0);
}

Test(preload_words, tag)
{
	uint64_t tag = words_tag(VPMU_GUEST_AMD_V2, 6, WORDS_TAG, 0);
	char why[200] = "";

	cr_expect_eq(words_tag_check(VPMU_GUEST_AMD_V2, 6, tag, why, sizeof(why)), 0);
	cr_expect_eq(words_tag_check(VPMU_GUEST_AMD_V2, 8, tag, why, sizeof(why)), -EINVAL);
	cr_expect_eq(words_tag_check(VPMU_GUEST_INTEL_V2, 6, tag, why, sizeof(why)), -EINVAL);
	cr_expect(strstr(why, "amd-v2") && strstr(why, "intel-v2"), "%s", why);
	cr_expect_eq(words_tag_check(VPMU_GUEST_AMD_V2, 6, tag + (2ull << 32), why, sizeof(why)),
		     -EINVAL);
	cr_expect(strstr(why, "version 3; expected version 1 or 2"), "%s", why);
	cr_expect_eq(words_tag_check(VPMU_GUEST_AMD_V2, 6, 7, why, sizeof(why)), -EINVAL);
	cr_expect_eq(words_tag_check(VPMU_GUEST_AMD_V2, 6, ~0ull, why, sizeof(why)), -EINVAL);
}
