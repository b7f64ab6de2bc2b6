// SPDX-License-Identifier: GPL-2.0-or-later
/* virt.h for a build without libvirt (VPMU_LIBVIRT=OFF): no URI can be opened. VMs are still found
 * in /proc. */
#include <errno.h>
#include <stddef.h>

#include "vpmud/discover/virt.h"

int virt_open(const char *const *uris, size_t nr, struct virt **out)
{
	return -ENOSYS;
}

int virt_start(struct virt *v)
{
	return 0;
}

int virt_fd(const struct virt *v)
{
	return -1;
}

struct virt_message *virt_take(struct virt *v)
{
	return NULL;
}

void virt_close(struct virt *v)
{
}
