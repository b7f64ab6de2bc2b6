// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Backend calls that do more than call their operation: lists that may be empty, and capabilities
 * that the backend may not have.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "service/backend/backend.h"

struct vpmu_counting *vpmu_counting_new(struct vpmu_backend_node *n, const vpmu_key_t *keys,
					size_t nr_keys, struct vpmu_value *values)
{
	struct vpmu_counting *c = n->source->ops->counting_new(n, nr_keys);

	if (c) {
		c->source = n->source;
		c->node = n;
		c->keys = keys;
		c->nr_keys = nr_keys;
		c->values = values;
		c->next = NULL;
	}
	return c;
}

void vpmu_counting_free(struct vpmu_counting *c)
{
	if (c)
		c->source->ops->counting_free(c);
}

int vpmu_backend_attach(struct vpmu_counting *list, size_t *failed)
{
	struct vpmu_backend *s = list ? list->source : NULL;

	return s ? s->ops->attach(s, list, failed) : 0;
}

void vpmu_backend_detach(struct vpmu_counting *list)
{
	struct vpmu_backend *s = list ? list->source : NULL;

	if (s)
		s->ops->detach(s, list);
}

void vpmu_backend_flush(const struct vpmu_counting *list)
{
	if (list)
		list->source->ops->flush(list->source, list);
}

bool vpmu_backend_stalled(struct vpmu_backend *s, char *why, size_t whylen)
{
	why[0] = '\0';
	return s->ops->stalled && s->ops->stalled(s, why, whylen);
}

const char *vpmu_backend_error(struct vpmu_backend *s, int ret, char *why, size_t whylen)
{
	if (ret != -ETIMEDOUT || !vpmu_backend_stalled(s, why, whylen))
		snprintf(why, whylen, "%s",
			 ret == -ETIMEDOUT ? "a CPU answered too late, try again" : strerror(-ret));
	return why;
}

int vpmu_backend_conservation(struct vpmu_backend *s,
			      int (*fn)(const struct vpmu_conservation *c, void *arg), void *arg)
{
	return s->can & VPMU_BACKEND_CONSERVES ? s->ops->conservation(s, fn, arg) : -EOPNOTSUPP;
}

int vpmu_backend_sample_start(struct vpmu_backend_node *n, const struct vpmu_sampling_opts *o,
			      struct vpmu_sampling **out)
{
	if (!(n->source->can & VPMU_BACKEND_SAMPLES))
		return -EOPNOTSUPP;
	return n->source->ops->sample_start(n, o, out);
}

void vpmu_backend_sample_stop(struct vpmu_sampling *s)
{
	if (s)
		s->node->source->ops->sample_stop(s);
}

unsigned int vpmu_backend_sample_take(struct vpmu_backend *s)
{
	return s->ops->sample_take ? s->ops->sample_take(s) : 0;
}

void vpmu_backend_sample_state(const struct vpmu_sampling *s, struct vpmu_sampling_state *out)
{
	*out = (struct vpmu_sampling_state){0};
	if (s->node->source->ops->sample_state)
		s->node->source->ops->sample_state(s, out);
}

const char *vpmu_backend_branches_why(const struct vpmu_backend *s)
{
	return s->ops->branches_why ? s->ops->branches_why(s) : NULL;
}

int vpmu_backend_branches_attach(struct vpmu_backend_node *n, uint32_t ctl)
{
	if (!(n->source->can & VPMU_BACKEND_BRANCHES))
		return -EOPNOTSUPP;
	return n->source->ops->branches_attach(n, ctl);
}

void vpmu_backend_branches_detach(struct vpmu_backend_node *n)
{
	if (n->source->can & VPMU_BACKEND_BRANCHES)
		n->source->ops->branches_detach(n);
}

int vpmu_backend_branches_read(const struct vpmu_backend_node *n, struct vpmu_lbr_regs *r,
			       enum vpmu_lbr_user *user)
{
	if (!(n->source->can & VPMU_BACKEND_BRANCHES))
		return -ENOENT;
	return n->source->ops->branches_read(n, r, user);
}

void vpmu_backend_branches_usage(struct vpmu_backend *s, struct vpmu_lbr_usage *out)
{
	*out = (struct vpmu_lbr_usage){0};
	if (s->can & VPMU_BACKEND_BRANCHES)
		s->ops->branches_usage(s, out);
}
