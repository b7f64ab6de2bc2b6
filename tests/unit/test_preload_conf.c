// SPDX-License-Identifier: GPL-2.0-or-later
/* vpmu-qemu: what it finds on QEMU's command line, the keys of a VM's PMU, and the words in which
 * QEMU carries its registers. */
#include <criterion/criterion.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "preload/arguments.h"
#include "preload/conf.h"
#include "preload/words.h"

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
	struct vpmu_policy policy;
	char err[300] = "", *text;

	cr_assert_eq(conf_set(&c, "f:1", "pmu", "amd-v2", err, sizeof(err)), 0);
	cr_assert_eq(conf_set(&c, "f:2", "gp", "8", err, sizeof(err)), 0);
	cr_assert_eq(conf_set(&c, "f:3", "policy", "standard", err, sizeof(err)), 0);
	cr_assert_eq(conf_set(&c, "f:4", "deny", "r0c0,instructions", err, sizeof(err)), 0);
	text = conf_text(&c);
	cr_assert_str_eq(text, "pmu=amd-v2\ngp=8\npolicy=standard\ndeny=r0c0,instructions\n");
	cr_assert_eq(conf_parse(&back, text, err, sizeof(err)), 0, "%s", err);
	cr_assert_eq(conf_apply(&back, true, &cfg, &policy, err, sizeof(err)), 0, "%s", err);
	cr_expect_eq(cfg.model, VPMU_GUEST_AMD_V2);
	cr_expect_eq(cfg.gp, 8);
	cr_expect(cfg.no_lbr);
	cr_expect_eq(cfg.policy, &policy);
	cr_expect_eq(policy.action, VPMU_POLICY_DENY);
	cr_expect_eq(policy.nr_events, 2);
	/* a list replaces a list of the other kind */
	cr_assert_eq(conf_set(&over, "env", "allow", "cycles", err, sizeof(err)), 0);
	cr_assert_eq(conf_over(&back, &over), 0);
	cr_assert_eq(conf_apply(&back, true, &cfg, &policy, err, sizeof(err)), 0, "%s", err);
	cr_expect_eq(policy.action, VPMU_POLICY_ALLOW);
	free(text);
	conf_fini(&c);
	conf_fini(&back);
	conf_fini(&over);
	/* by default, what the host's CPU is, without limits */
	cr_assert_eq(conf_apply(&c, true, &cfg, &policy, err, sizeof(err)), 0);
	cr_expect(cfg.model == VPMU_GUEST_INTEL_V5 && !cfg.policy);
	cr_assert_eq(conf_apply(&c, false, &cfg, &policy, err, sizeof(err)), 0);
	cr_expect(cfg.model == VPMU_GUEST_AMD_V2 && !cfg.policy);
	cr_expect_not(conf_is_off(&c));
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
	struct vpmu_policy policy;

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
		cr_expect_lt(conf_apply(&c, false, &cfg, &policy, err, sizeof(err)), 0, "%s",
			     misfits[i]);
		cr_expect(*err && !strchr(err, '\n'), "%s", misfits[i]);
		conf_fini(&c);
	}
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
