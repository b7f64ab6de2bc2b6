// SPDX-License-Identifier: GPL-2.0-or-later
/* The kernel that VMs of the configuration share while they are created. See priv.h. */
#include <string.h>

#include "vmm/boot/linux.h"
#include "vmm/machine/priv.h"

/* Returns true if @a and @b are the same file with the same contents. */
static bool kernel_same(const struct stat *a, const struct stat *b)
{
	return a->st_dev == b->st_dev && a->st_ino == b->st_ino && a->st_size == b->st_size &&
	       a->st_mtim.tv_sec == b->st_mtim.tv_sec && a->st_mtim.tv_nsec == b->st_mtim.tv_nsec &&
	       a->st_ctim.tv_sec == b->st_ctim.tv_sec && a->st_ctim.tv_nsec == b->st_ctim.tv_nsec;
}

int machine_kernel_get(struct machine_kernel *k, const char *path, const struct image **out,
		       char *err, size_t errlen)
{
	struct stat st = {0};
	/* A missing file is reported when it is read. */
	bool known = !stat(path, &st);
	bool next = k->next && !strcmp(k->img.name, path);
	int ret;

	k->next = false;
	if (next) {
		*out = &k->img;
		return 0;
	}
	if (!k->img.data || !known || !kernel_same(&k->of, &st) || strcmp(k->img.name, path)) {
		machine_kernel_forget(k);
		ret = image_read(path, &k->img, err, errlen);
		if (!ret)
			ret = linux_unpack(&k->img, err, errlen);
		if (ret) {
			machine_kernel_forget(k);
			return ret;
		}
		k->of = st;
	}
	*out = &k->img;
	return 0;
}

void machine_kernel_forget(struct machine_kernel *k)
{
	image_free(&k->img);
	*k = (struct machine_kernel){0};
}
