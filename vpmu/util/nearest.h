/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * For "did you mean": init with a word, try each candidate; then best is the nearest one, or NULL
 * if none is near. Case is ignored. Candidates must outlive the use of best. Any thread.
 */
#pragma once

struct vpmu_nearest {
	const char *word;
	const char *best;
	unsigned int distance;
};
void vpmu_nearest_init(struct vpmu_nearest *n, const char *word);
void vpmu_nearest_try(struct vpmu_nearest *n, const char *candidate);
