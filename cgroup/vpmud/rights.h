/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The rights that vpmud gives up when it has started: the steps are cgroup/daemon/contain.h's. The
 * daemon calls it while there is only one thread. There is no way back. */
#ifndef CGROUP_VPMUD_RIGHTS_H
#define CGROUP_VPMUD_RIGHTS_H

#include <stddef.h>

/* vpmud_contain - @socket can still be removed. Unless @pin_dir is NULL, the state file beside it
 * and what is in @pin_dir can be written. 0, or -ENOMEM and one line in @err. */
int vpmud_contain(const char *socket, const char *pin_dir, char *err, size_t errlen);

#endif
