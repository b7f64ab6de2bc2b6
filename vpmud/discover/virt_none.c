// SPDX-License-Identifier: GPL-2.0-or-later
/* virt.h for a build without libvirt (VPMU_LIBVIRT=OFF): it reports each URI as unavailable. VMs
 * are still found in /proc. */
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "vpmud/discover/virt.h"

struct virt {
	int fd;
	struct virt_message *first;
};

int virt_open(const char *const *uris, size_t nr, struct virt **out)
{
	struct virt *v = calloc(1, sizeof(*v));
	int ret = -ENOMEM;

	if (!v)
		return -ENOMEM;
	v->fd = eventfd(1, EFD_CLOEXEC | EFD_NONBLOCK);
	if (v->fd < 0) {
		ret = -errno;
		goto fail;
	}
	for (size_t i = nr; i--;) {
		struct virt_message *m = calloc(1, sizeof(*m));

		if (!m)
			goto fail;
		m->what = VIRT_LINK;
		m->uri = i;
		snprintf(m->text, sizeof(m->text), "%s: this build of vpmud is without libvirt",
			 uris[i]);
		m->next = v->first;
		v->first = m;
	}
	*out = v;
	return 0;
fail:
	virt_close(v);
	return ret;
}

int virt_start(struct virt *v)
{
	return 0;
}

int virt_fd(const struct virt *v)
{
	return v->fd;
}

struct virt_message *virt_take(struct virt *v)
{
	struct virt_message *all = v->first;
	uint64_t n;

	if (read(v->fd, &n, sizeof(n)) < 0)
		n = 0; /* taken before */
	v->first = NULL;
	return all;
}

void virt_close(struct virt *v)
{
	if (!v)
		return;
	while (v->first) {
		struct virt_message *m = v->first;

		v->first = m->next;
		free(m);
	}
	if (v->fd >= 0)
		close(v->fd);
	free(v);
}
