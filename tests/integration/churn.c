// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * VMs come, go, pause and migrate while others count and operators read, for SECONDS (argument,
 * default 5): every VM that counts must read what it would read alone, everything charged is
 * conserved. A program of its own because it is run under ThreadSanitizer, where Criterion is not.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "machine_bed.h"

#define COUNT "stat -j -e instructions:u,,branches:u,,stores:u sieve 3000"
#define SLOTS 12

static double now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* Every value of an event is the same on every VM, in every round. */
static void same_values(const struct bed_line *l, const json_t *stat, void *arg)
{
	static char first[3][32];
	static const char *const events[] = {"instructions:u", "branches:u", "stores:u"};
	const char *event = json_string_value(json_object_get(stat, "event"));
	const char *value = json_string_value(json_object_get(stat, "counter-value"));
	unsigned int *seen = arg;

	for (size_t i = 0; i < 3; i++) {
		if (strcmp(event, events[i]))
			continue;
		if (!*first[i])
			snprintf(first[i], sizeof(first[i]), "%s", value);
		bed_must(!strcmp(value, first[i]), "%s vCPU %u: %s is %s, elsewhere %s", l->vm,
			 l->vcpu, event, value, first[i]);
		(*seen)++;
	}
}

static void command(struct bed *b, const char *cmd, unsigned int vm)
{
	bed_do(b, "{'cmd':'%s','name':'c%u'}", cmd, vm);
}

/* One machine: VMs that count and end, between VMs that spin and are added, paused, removed. */
static unsigned int round_of(unsigned int n)
{
	static const char *const models[] = {"intel-v2", "intel-v5", "amd-v2"};
	bool there[SLOTS] = {false};
	unsigned int seen = 0, counting = 8;
	char host[128];
	struct bed b;

	snprintf(host, sizeof(host),
		 "pcpus=2,slice=300,random_slices=yes,migrate=random:3,seed=%u,tick_us=50", n);
	bed_open(&b, host);
	for (unsigned int i = 0; i < counting; i++)
		bed_add(&b, "name=v%u,tenant=/t%u,vcpus=2,pmu=%s,args=" COUNT, i, i % 3,
			models[i % 3]);
	bed_do(&b,
	       "{'cmd':'attach','name':'s','keep':true,'scope':'vm','events':'instructions:u'}");
	bed_run(&b, 0);
	for (unsigned int i = 0; i < 40; i++) {
		unsigned int vm = (i * 7 + n) % SLOTS;

		if (there[vm])
			command(&b, "vm-remove", vm);
		else
			bed_do(&b,
			       "{'cmd':'vm-add','name':'c%u','image':'" VPMU_GUEST
			       "','engine':'emulator','vcpus':2,'tenant':'/t%u','args':'spin'}",
			       vm, vm % 4);
		there[vm] = !there[vm];
		if (there[vm] && i % 3 == 0)
			command(&b, "pause", vm);
		if (there[vm] && i % 6 == 0)
			command(&b, "resume", vm);
		if (i % 4 == 0)
			bed_do(&b, "{'cmd':'read','session':'s'}");
		if (i % 10 == 0)
			bed_conserved(&b);
	}
	bed_run(&b, counting);
	bed_must(b.failed == 0, "%u VMs failed", b.failed);
	bed_each_stat(&b, same_values, &seen);
	bed_must(seen == counting * 2 * 3, "%u values", seen);
	bed_close(&b);
	return seen;
}

int main(int argc, char **argv)
{
	double end = now() + (argc > 1 ? atof(argv[1]) : 5);
	unsigned int rounds = 0, values = 0;

	do
		values += round_of(rounds++);
	while (now() < end);
	printf("%u rounds, %u values equal\n", rounds, values);
	return 0;
}
