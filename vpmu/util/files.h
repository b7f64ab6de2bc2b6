/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The limit of open files of this process: whoever opens a file per event and CPU soon has more
 * than the usual 1,024. Any thread. */
#ifndef VPMU_UTIL_FILES_H
#define VPMU_UTIL_FILES_H

#include <stdbool.h>

/* files_more - raise the limit as far as possible. Returns false if that changes nothing, so that
 * what failed with EMFILE would fail again. */
bool files_more(void);

#endif
