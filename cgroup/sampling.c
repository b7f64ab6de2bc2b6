// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Samples of nodes: the sampling part of service/backend/backend.h on the BPF backend. Events
 * sample whole CPUs (cgroup/sample/events.h); each sample is delivered to each sampling of that
 * node or an ancestor. The counts beside samples are counted like any session's keys.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "cgroup/priv.h"
#include "service/program/memory.h"

struct ksampling {
	struct vpmu_sampling s; /* first */
	struct sample_user user;
	struct vpmu_sampling_opts opts;
	vpmu_key_t key;
	struct vpmu_value value;
	struct vpmu_counting *counting;
	uint64_t nobodys;
	bool guests, hosts; /* samples of vCPU threads: in a guest; in the host's kernel */
};

static struct ksampling *sampling_of(const struct vpmu_sampling *s)
{
	return (struct ksampling *)s;
}

static struct ksampling *user_of(struct sample_user *u)
{
	return (struct ksampling *)((char *)u - offsetof(struct ksampling, user));
}

/* ---- CPUs ----------------------------------------------------------------------------------- */

static void find_cpus(struct bpf_backend *k)
{
	for (unsigned int cpu = 0; cpu < k->nr_cpus; cpu++)
		k->sampled_cpus[cpu] = k->online[cpu] && !k->quiet[cpu];
}

void sampling_open(struct bpf_backend *k)
{
	k->sampled_cpus = xcalloc(k->nr_cpus, sizeof(*k->sampled_cpus));
	find_cpus(k);
	k->samples = samples_create(k->nr_cpus, k->sampled_cpus, k->opts.sample_sys);
	if (!k->samples)
		memory_out();
	branches_init(k);
}

void sampling_close(struct bpf_backend *k)
{
	if (k->samples) /* else branches_init was not called either */
		branches_exit(k);
	samples_destroy(k->samples);
	free(k->sampled_cpus);
	whose_exit(k);
}

void sampling_tend(struct bpf_backend *k)
{
	if (!k->samplings)
		return;
	find_cpus(k);
	samples_cpus(k->samples);
}

void sampling_settle(struct bpf_backend *k)
{
	if (k->samplings)
		samples_take(k->samples);
}

/* ---- samples -------------------------------------------------------------------------------- */

static enum vpmu_side side_of(const struct bpf_backend *k, const struct ring_sample *s)
{
	switch (s->mode) {
	case RING_GUEST_KERNEL:
		return VPMU_SIDE_GUEST_KERNEL;
	case RING_GUEST_USER:
		return VPMU_SIDE_GUEST_USER;
	case RING_USER:
		return whose_vmm(k, (pid_t)s->pid) ? VPMU_SIDE_VMM : VPMU_SIDE_USER;
	default:
		return VPMU_SIDE_HOST;
	}
}

static bool is_user(enum vpmu_side side)
{
	return side == VPMU_SIDE_VMM || side == VPMU_SIDE_USER;
}

static void sampling_take(struct sample_user *u, const struct ring_sample *s)
{
	struct ksampling *ks = user_of(u);
	struct bpf_backend *k = backend_of(ks->s.node->source);
	struct knode *n, *top = knode_of(ks->s.node);
	struct vpmu_backend_sample out = {
		.cpu = s->cpu,
		.side = side_of(k, s),
		.known = s->mode != RING_UNKNOWN,
		.ip = s->ip,
		.periods = 1,
		.chained = ks->opts.chains,
		.nr_calls = s->nr_calls,
		.calls = s->calls,
		.time_ns = s->time_ns,
	};

	if (ks->opts.cpus && !ks->opts.cpus[s->cpu])
		return;
	n = whose_node(k, s);
	out.serial = n ? n->n.serial : 0;
	if (!n) {
		ks->nobodys++;
		n = &k->root;
	}
	if (!knode_is_below(n, top))
		return;
	if (bind_task_node(k, s->tid)) {
		ks->guests |=
			out.side == VPMU_SIDE_GUEST_KERNEL || out.side == VPMU_SIDE_GUEST_USER;
		ks->hosts |= out.side == VPMU_SIDE_HOST;
	}
	out.cpl = out.side == VPMU_SIDE_GUEST_USER || is_user(out.side) ? 3 : 0;
	/* User-mode addresses are valid in their process only. */
	if (is_user(out.side) || (s->nr_calls && !(s->calls[s->nr_calls - 1] >> 63)))
		out.pid = s->pid;
	ks->opts.sample(ks->opts.arg, &out);
}

unsigned int sample_take(struct vpmu_backend *s)
{
	return samples_take(backend_of(s)->samples);
}

/* ---- life ----------------------------------------------------------------------------------- */

static void sampling_end(struct ksampling *ks)
{
	struct bpf_backend *k = backend_of(ks->s.node->source);

	if (ks->user.set)
		samples_stop(k->samples, &ks->user);
	k->samplings--;
	if (ks->counting)
		vpmu_backend_detach(ks->counting);
	vpmu_counting_free(ks->counting);
	free(ks);
}

/* Counting begins just before sampling and ends after it, so a count is never less than its samples
 * represent, and not much more. */
static int sampling_begin(struct ksampling *ks)
{
	struct bpf_backend *k = backend_of(ks->s.node->source);
	const struct sample_spec spec = {ks->key, ks->opts.period, ks->opts.chains};
	struct vpmu_counting *c;
	size_t failed;
	int ret = samples_open(k->samples, &spec, &ks->user);

	if (ret)
		return ret == -EMFILE ? -ENOMEM : ret;
	whose_forget(k);
	whose_begin(k);
	c = vpmu_counting_new(ks->s.node, &ks->key, 1, &ks->value);
	c->cpus = ks->opts.cpus;
	ret = vpmu_backend_attach(c, &failed);
	if (ret) {
		vpmu_counting_free(c);
		return ret;
	}
	ks->counting = c;
	return samples_start(k->samples, &ks->user);
}

int sample_start(struct vpmu_backend_node *n, const struct vpmu_sampling_opts *o,
		 struct vpmu_sampling **out)
{
	struct bpf_backend *k = backend_of(n->source);
	struct ksampling *ks = xcalloc(1, sizeof(*ks));
	int ret;

	ks->s.node = n;
	ks->opts = *o;
	ks->key = o->key;
	ks->user.take = sampling_take;
	ks->user.cpus = o->cpus;
	bpf_backend_tend(k);
	k->samplings++;
	sampling_tend(k);
	ret = sampling_begin(ks);
	if (ret)
		sampling_end(ks);
	else
		*out = &ks->s;
	return ret;
}

void sample_stop(struct vpmu_sampling *s)
{
	sampling_end(sampling_of(s));
}

void sample_read(const struct vpmu_sampling *s, struct vpmu_value *out)
{
	const struct ksampling *ks = sampling_of(s);
	struct ring_counts counts;

	vpmu_backend_read(ks->counting);
	*out = ks->value;
	samples_counts(backend_of(s->node->source)->samples, &ks->user, &counts);
	/* Samples are missing, in an unknown number. */
	out->partial |= counts.throttled || counts.bad;
}

static const char *note_of(const struct ksampling *ks)
{
	if (ks->guests || !ks->hosts || !(ks->key & VPMU_KEY_GUEST))
		return NULL;
	if (vpmu_key_space(ks->key) == VPMU_SPACE_SOFTWARE)
		return "no sample has a guest's address: on this host samples of a software event "
		       "show the code of the host that runs the guest";
	return "no sample has a guest's address: this host's kernel marks none as a guest's";
}

void sample_state(const struct vpmu_sampling *s, struct vpmu_sampling_state *out)
{
	const struct ksampling *ks = sampling_of(s);
	struct ring_counts counts;

	samples_counts(backend_of(s->node->source)->samples, &ks->user, &counts);
	*out = (struct vpmu_sampling_state){
		.lost = counts.lost,
		.throttled = counts.throttled,
		.nobodys = ks->nobodys,
		.note = note_of(ks),
	};
}
