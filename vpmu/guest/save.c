// SPDX-License-Identifier: GPL-2.0-or-later
#include <errno.h>

#include "vpmu/guest/internal.h"

int vpmu_guest_save(struct vpmu_guest *g, struct vpmu_blob *b)
{
	return -EOPNOTSUPP;
}

int vpmu_guest_load(struct vpmu_guest *g, struct vpmu_blob_reader *b, char *err, size_t errlen)
{
	return -EOPNOTSUPP;
}
