// SPDX-License-Identifier: GPL-2.0-or-later
/* A journal of the test's own, preloaded (LD_PRELOAD): its entries are the lines "PID MESSAGE" of
 * the file FAKE_JOURNAL. With FAKE_JOURNAL_ABORT it ends the program when it is read. Of
 * sd-journal(3) it has what `vpmu check --bundle` calls. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <systemd/sd-journal.h>

static char *line[1000], data[2000];
static size_t nr, at;

int sd_journal_open(sd_journal **ret, int flags)
{
	const char *path = getenv("FAKE_JOURNAL");
	FILE *f = path ? fopen(path, "re") : NULL;
	size_t room = 0;
	ssize_t n;

	*ret = (sd_journal *)line;
	for (nr = 0; f && nr < 1000; nr++) {
		line[nr] = NULL;
		n = getline(&line[nr], &room, f);
		if (n < 0)
			break;
		line[nr][strcspn(line[nr], "\n")] = '\0';
		room = 0;
	}
	if (f)
		fclose(f);
	return 0;
}

void sd_journal_close(sd_journal *j)
{
	while (nr)
		free(line[--nr]);
}

int sd_journal_add_match(sd_journal *j, const void *match, size_t size)
{
	return 0;
}

int sd_journal_add_disjunction(sd_journal *j)
{
	return 0;
}

int sd_journal_seek_tail(sd_journal *j)
{
	if (getenv("FAKE_JOURNAL_ABORT"))
		abort();
	return 0;
}

int sd_journal_previous_skip(sd_journal *j, uint64_t skip)
{
	at = skip > nr ? 0 : nr - skip;
	return (int)(nr - at);
}

int sd_journal_next(sd_journal *j)
{
	return ++at < nr;
}

int sd_journal_get_realtime_usec(sd_journal *j, uint64_t *us)
{
	*us = 1700000000000000;
	return 0;
}

int sd_journal_get_data(sd_journal *j, const char *field, const void **out, size_t *len)
{
	const char *blank = strchr(line[at], ' ');

	if (!strcmp(field, "_PID"))
		snprintf(data, sizeof(data), "_PID=%.*s", (int)(blank - line[at]), line[at]);
	else
		snprintf(data, sizeof(data), "MESSAGE=%s", blank + 1);
	*out = data;
	*len = strlen(data);
	return 0;
}
