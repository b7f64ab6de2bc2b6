// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * vpmu profile: sample VMs for a time, then show where they were: a histogram of functions, folded
 * stacks or JSON.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cgroup/cli/client.h"
#include "cgroup/cli/profile.h"
#include "cgroup/cli/wait.h"

#define DEFAULT_EVENT "instructions"
#define PERIOD_MAX    (1ULL << 47) /* docs/protocol.md */

enum { OPT_VCPU = 1000, OPT_FOLDED };

static const struct argp_option options[] = {
	{"event", 'e', "EVENT", 0, "What to sample (default: " DEFAULT_EVENT ")", 0},
	{"count", 'c', "PERIOD", 0, "Events between two samples (default: 100000)", 0},
	{"duration", 'd', "SEC", 0, "Stop after SEC seconds (default: on Ctrl-C)", 0},
	{"call-graph", 'g', NULL, 0, "Call chains too, from branch records", 0},
	{"vcpu", OPT_VCPU, NULL, 0, "Each vCPU of its own", 0},
	{"folded", OPT_FOLDED, NULL, 0, "All call chains as folded stacks; implies -g", 0},
	{"json-output", 'j', NULL, 0, "One JSON object per line", 0},
	{0},
};

static error_t parse(int key, char *arg, struct argp_state *state)
{
	struct profile_opts *o = state->input;

	switch (key) {
	case 'e':
		o->event = arg;
		return 0;
	case 'c':
		o->period = arg;
		return 0;
	case 'd':
		o->duration_s = cli_seconds("profile: -d", arg, 1e6);
		return 0;
	case 'g':
		o->chains = true;
		return 0;
	case OPT_VCPU:
		o->vcpu = true;
		return 0;
	case OPT_FOLDED:
		o->folded = o->chains = true;
		return 0;
	case 'j':
		o->json = true;
		return 0;
	case ARGP_KEY_ARG:
		if (o->target)
			cli_usage("profile: \"%s\": one TARGET is accepted", arg);
		o->target = arg;
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

/* "-c": digits, as the protocol has them. */
static void check_period(const char *text)
{
	unsigned long long n;

	if (!text)
		return;
	errno = 0;
	n = strtoull(text, NULL, 10);
	if (!*text || text[strspn(text, "0123456789")] || errno || !n || n > PERIOD_MAX)
		cli_usage("profile: -c \"%s\": 1 to %llu events are accepted", text, PERIOD_MAX);
}

static int run(const struct profile_opts *o, struct client *c)
{
	json_t *a = client_ask(c, json_pack("{s:s, s:s, s:s*, s:s, s:b}", "cmd", "profile-start",
					    "event", o->event, "period", o->period, "target",
					    o->target, "lbr", o->chains));
	const char *name = json_string_value(json_object_get(a, "profile"));
	json_t *stop =
		name ? json_pack("{s:s, s:s}", "cmd", "profile-stop", "profile", name) : NULL;
	struct images *im = NULL;
	int ret = 1;

	if (a && !stop)
		cli_error("the server's answer is none of vpmu's protocol");
	json_decref(a);
	if (!stop)
		return 1;
	/* Now: VMs may be gone at the end. */
	im = images_load(c);
	a = NULL;
	if (im && cli_wait(o->duration_s, client_fd(c)) == CLI_WAIT_SERVER_GONE)
		cli_error("the server went away");
	else if (im && images_refresh(im, c) == 0)
		a = client_ask(c, json_incref(stop));
	json_decref(stop);
	if (a)
		ret = profile_show(o, im, a);
	json_decref(a);
	images_free(im);
	return ret;
}

int cmd_profile(struct cli *cli, int argc, char **argv)
{
	static const struct argp argp = {
		.options = options,
		.parser = parse,
		.args_doc = "[TARGET]",
		.doc = "Sample a tenant, a VM or the whole host (/, the default) without the "
		       "guests' "
		       "help, and show in which functions they were.\v"
		       "Names are those of the VMs' image files.",
	};
	struct profile_opts o = {.event = DEFAULT_EVENT, .duration_s = -1};
	struct client *c;
	int ret = 1;

	cli_parse(cli, &argp, argc, argv, NULL, &o);
	if (o.folded && o.json)
		cli_usage("profile: --folded and -j: one of them is accepted");
	if (!o.target)
		o.target = "/";
	check_period(o.period);
	c = client_open(cli, false);
	if (c && cli_wait_init() == 0)
		ret = run(&o, c);
	client_close(c);
	return ret;
}
