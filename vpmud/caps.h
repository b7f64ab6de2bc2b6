/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Drops the privileges that only the start needs; service/daemon/contain.h has the steps. Called by
 * the daemon while it has one thread. Irreversible. */
#ifndef VPMUD_CAPS_H
#define VPMUD_CAPS_H

#include <stddef.h>

/* vpmud_contain - take all steps. Returns 0, or -errno and one line in @err. */
int vpmud_contain(char *err, size_t errlen);

#endif
