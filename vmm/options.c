// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The command line of vpmu-vmm; see options.h. vmm_options_parse() only collects the options.
 * options_apply() then applies the file first and the options after it, so that an option overrides
 * the file wherever it is on the command line. An option of the modelled host is the [host] key of
 * the same name.
 */
#include <argp.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "vpmu/util/fail.h"
#include "vmm/options.h"

const char *argp_program_version = "vpmu-vmm " VPMU_VERSION;

enum {
	OPT_VM = 256,
	OPT_JSON,
	OPT_EXIT,
	OPT_HOLD,
	OPT_PAUSED,
	OPT_WAIT_ATTACH,
	OPT_NO_SOCKET,
	OPT_HOST /* the first of host_options */
};

/* The options of the modelled host. Each is the [host] key of its name, with _ for -; its key in
 * argp is OPT_HOST plus its index here. */
static const struct argp_option host_options[] = {
	{"pcpus", 0, "N", 0, "modelled pCPUs, 1 to 64 [2]", 2},
	{"gp", 0, "N", 0, "general-purpose counters of each pCPU, 0 to 16 [4]", 2},
	{"fixed", 0, "N", 0, "fixed counters of each pCPU, 0 to 3 [3]", 2},
	{"width", 0, "BITS", 0, "width of the counters, 40 to 63 [48]", 2},
	{"slice", 0, "N", 0, "instructions of a time slice, 1 to 10000000 [100000]", 2},
	{"random-slices", 0, NULL, 0, "give slices a random length with the mean --slice", 2},
	{"seed", 0, "N", 0, "seed of all random choices [1]", 2},
	{"migrate", 0, "HOW", 0,
	 "when vCPUs change their pCPU: none, balance, random or random:N [balance]", 2},
	{"tick-us", 0, "US", 0, "modelled microseconds between two rotations of counters [1000]",
	 2},
	{"nominal-cycles", 0, NULL, 0,
	 "on KVM without a hardware PMU, count cycles as ticks of the nominal clock", 2},
	{"lbr", 0, "WHAT", 0,
	 "keep the last branches of every vCPU on the pCPUs: off, branches or call-stack [off]", 2},
	{"console", 0, "WHERE", 0,
	 "where guests' lines go: stdout, or ring, for `vpmu console` only [stdout; with --hold: "
	 "ring]",
	 4},
	{"console-rate", 0, "BYTES", 0,
	 "bytes per second that a guest may print, 0: no limit [1048576]", 4},
	{"socket", 0, "PATH", 0, "serve the control socket at PATH", 3},
	{"snapshot-dir", 0, "DIR", 0, "clients may save and restore VMs below DIR [nowhere]", 3},
	{"user", 0, "NAME", 0, "become user NAME before the first VM starts", 6},
	{"ram-limit", 0, "SIZE", 0, "RAM of all VMs together [all of the machine]", 6},
	{"cgroup-root", 0, "DIR", 0, "make a cgroup for each tenant in DIR, a cgroup2 directory",
	 3},
	{"leave-counters", 0, "N", 0, "on KVM, leave N general hardware counters to others [2]", 2},
	{"pinned-counters", 0, NULL, 0,
	 "on KVM, take hardware counters ahead of everybody else on the host", 2},
	{"admin-group", 0, "GROUP...", 0,
	 "let members of GROUP use every command of the control socket", 3},
	{"reader-group", 0, "GROUP[=/TENANT,...]...", 0,
	 "let members of GROUP look at these tenants, or at all", 3},
	{"stalled-after", 0, "MS", 0,
	 "milliseconds that commands wait for a CPU that does not answer, 1 to 600000 [10000]", 3},
	{"skip-idle", 0, NULL, 0,
	 "with one pCPU: jump to the next timer of a guest when all wait, instead of waiting", 2},
	{"no-jit", 0, NULL, 0,
	 "translate no guest code: the process has no executable memory of its own", 6},
};

#define NR_HOST (sizeof(host_options) / sizeof(host_options[0]))

#define HOST_KEY_MAX 32

static const char *host_key(size_t i, char key[HOST_KEY_MAX])
{
	snprintf(key, HOST_KEY_MAX, "%s", host_options[i].name);
	for (char *dash = key; (dash = strchr(dash, '-'));)
		*dash = '_';
	return key;
}

/* The options found by argp. */
struct found {
	struct options *o;
	const char *file;
	const char *host[NR_HOST];
	const char **vms;
	size_t nr_vms;
	bool exit_when_done;
	int ret;
	char *err;
	size_t errlen;
};

static void options_refuse(struct found *f, const char *what)
{
	if (!f->ret)
		f->ret = fail(-EINVAL, f->err, f->errlen, "%s", what);
}

static void options_add_vm(struct found *f, const char *arg)
{
	const char **vms = reallocarray(f->vms, f->nr_vms + 1, sizeof(*vms));

	if (!vms) {
		f->ret = fail(-ENOMEM, f->err, f->errlen, "out of memory");
		return;
	}
	f->vms = vms;
	f->vms[f->nr_vms++] = arg;
}

static void wait_attach(struct found *f, const char *arg)
{
	char *end;
	unsigned long n = strtoul(arg, &end, 10);

	if (*arg < '1' || *arg > '9' || *end || n > 256) {
		f->ret = fail(-EINVAL, f->err, f->errlen,
			      "--wait-attach: \"%.80s\" is invalid; expected 1 to 256", arg);
		return;
	}
	f->o->wait_attach = (unsigned int)n;
}

static error_t vmm_options_parse(int key, char *arg, struct argp_state *state)
{
	struct found *f = state->input;

	switch (key) {
	case 'c':
		if (f->file)
			options_refuse(f, "--config: given twice; expected once");
		f->file = arg;
		return 0;
	case OPT_VM:
		options_add_vm(f, arg);
		return 0;
	case OPT_JSON:
		f->o->json = true;
		return 0;
	case OPT_EXIT:
		f->exit_when_done = true;
		return 0;
	case OPT_HOLD:
		f->o->hold = true;
		return 0;
	case OPT_PAUSED:
		f->o->paused = true;
		return 0;
	case OPT_WAIT_ATTACH:
		wait_attach(f, arg);
		return 0;
	case OPT_NO_SOCKET:
		f->o->no_socket = true;
		return 0;
	case ARGP_KEY_ARG:
		f->ret = fail(-EINVAL, f->err, f->errlen,
			      "\"%.80s\": not an option; expected options only (--help)", arg);
		return 0;
	}
	if (key >= OPT_HOST && key < OPT_HOST + (int)NR_HOST) {
		if (f->host[key - OPT_HOST])
			f->ret =
				fail(-EINVAL, f->err, f->errlen, "--%s: given twice; expected once",
				     host_options[key - OPT_HOST].name);
		f->host[key - OPT_HOST] = arg ? arg : "yes";
		return 0;
	}
	return ARGP_ERR_UNKNOWN;
}

static int options_apply(struct found *f)
{
	struct options *o = f->o;
	const struct host_config *h = &o->config.host;
	char where[32], key[HOST_KEY_MAX];
	int ret = 0;

	if (f->file)
		ret = config_file(&o->config, f->file, f->err, f->errlen);
	for (size_t i = 0; i < NR_HOST && !ret; i++) {
		if (!f->host[i])
			continue;
		snprintf(where, sizeof(where), "--%s", host_options[i].name);
		ret = config_host_option(&o->config, where, host_key(i, key), f->host[i], f->err,
					 f->errlen);
	}
	for (size_t i = 0; i < f->nr_vms && !ret; i++)
		ret = config_vm_option(&o->config, f->vms[i], f->err, f->errlen);
	if (!ret)
		ret = config_check(&o->config, f->err, f->errlen);
	if (!ret)
		ret = access_parse(&o->access,
				   (struct access_list){h->at_admin_group, h->admin_group},
				   (struct access_list){h->at_reader_group, h->reader_group},
				   f->err, f->errlen);
	if (ret)
		return ret;
	if (o->config.host.console == VM_CONSOLE_DEFAULT)
		o->config.host.console = o->hold ? VM_CONSOLE_RING : VM_CONSOLE_STDOUT;
	if (f->exit_when_done && o->hold)
		return fail(-EINVAL, f->err, f->errlen,
			    "--exit-when-done: given with --hold; expected only one of them");
	if (o->config.host.socket && o->no_socket)
		return fail(-EINVAL, f->err, f->errlen,
			    "--no-socket: given with --socket (or socket in [host]); expected only "
			    "one of them");
	if (o->no_socket && (o->paused || o->wait_attach || o->hold))
		return fail(-EINVAL, f->err, f->errlen,
			    "--no-socket: given with --paused, --wait-attach or --hold, which need "
			    "a client; expected only one of them");
	if (!o->config.nr_vms && !o->hold)
		return fail(-EINVAL, f->err, f->errlen,
			    "no VM given; expected --vm, [vm NAME] in --config, or --hold");
	return 0;
}

static void complete_line(struct complete *c, const struct argp *argp)
{
	char name[HOST_KEY_MAX];
	int key;

	complete_scan(c, argp, false);
	key = c->value ? c->value->key : 0;
	if (key == OPT_VM)
		config_complete_vm(c);
	else if (key >= OPT_HOST)
		config_complete_host(c, host_key((size_t)(key - OPT_HOST), name));
	else
		complete_option(c, argp);
}

int options_parse(struct options *o, int argc, char **argv, char *err, size_t errlen)
{
	static const struct argp_option own[] = {
		{"config", 'c', "FILE", 0, "read the host and its VMs from an ini file", 1},
		{"vm", OPT_VM, "KEY=VALUE,...", 0,
		 "add a VM; its keys: name, tenant, vcpus, memory, image, args, kernel, initrd, "
		 "cmdline, ram, pmu, gp, fixed, engine, rdpmc, svm, policy, allow, deny, lbr, "
		 "max_events, tenant_max_events, weight, tenant_weight, console",
		 1},
		{"json", OPT_JSON, NULL, 0, "print one JSON object per line", 4},
		{"exit-when-done", OPT_EXIT, NULL, 0,
		 "exit when the last VM has ended (the default)", 5},
		{"hold", OPT_HOLD, NULL, 0, "run until `vpmu quit` or a signal", 5},
		{"paused", OPT_PAUSED, NULL, 0, "start no VM before `vpmu resume`", 5},
		{"wait-attach", OPT_WAIT_ATTACH, "N", 0,
		 "start no VM before N operator sessions are attached", 5},
		{"no-socket", OPT_NO_SOCKET, NULL, 0, "serve no control socket", 3},
	};
	struct argp_option all[sizeof(own) / sizeof(own[0]) + NR_HOST + 1] = {0};
	struct argp argp = {.options = all, .parser = vmm_options_parse};
	struct found f = {.o = o, .err = err, .errlen = errlen};
	struct complete words;
	int ret;

	argp_err_exit_status = 2;
	argp.doc = "Run virtual machines that share performance counters.";
	memcpy(all, own, sizeof(own));
	for (size_t i = 0; i < NR_HOST; i++) {
		struct argp_option *opt = &all[sizeof(own) / sizeof(own[0]) + i];

		*opt = host_options[i];
		opt->key = OPT_HOST + (int)i;
	}

	*o = (struct options){0};
	config_init(&o->config);
	if (complete_asked(&words, argc, argv)) {
		complete_line(&words, &argp);
		exit(EXIT_SUCCESS);
	}
	ret = argp_parse(&argp, argc, argv, 0, NULL, &f);
	if (ret)
		ret = fail(-ret, err, errlen, "%s", strerror(ret));
	else
		ret = f.ret ? f.ret : options_apply(&f);
	free(f.vms);
	return ret;
}

void options_fini(struct options *o)
{
	config_fini(&o->config);
	access_fini(&o->access);
}
