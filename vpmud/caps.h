/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The rights that vpmud gives up when it has started: the steps are service/daemon/contain.h's. The
 * daemon calls it while there is only one thread. There is no way back. */
#ifndef VPMUD_CAPS_H
#define VPMUD_CAPS_H

#include <stddef.h>

/* vpmud_contain - take all steps. 0, or -errno and one line in @err. */
int vpmud_contain(char *err, size_t errlen);

#endif
