// SPDX-License-Identifier: GPL-2.0-or-later
/* The period for a frequency; see profile.h. */
#include <inttypes.h>
#include <stdio.h>

#include "cli/client.h"
#include "cli/error.h"
#include "cli/output.h"
#include "cli/profile.h"
#include "cli/session.h"
#include "cli/wait.h"

#define NS_PER_S 1000000000ULL

/* Count @event of @target for a moment. Returns events per second of running time; 0: none; below
 * 0 after an error was printed. */
static double frequency_measure(struct client *c, const char *event, const char *target)
{
	const struct what_opts what = {
		.events = event, .scope = "none", .target = {target}, .nr_targets = 1};
	struct reading *r = NULL;
	struct sessions s;
	double rate = -1;

	if (sessions_attach(&s, c, &what, NULL)) {
		cli_wait(cli_now() + FREQUENCY_MEASURE_S, client_fd(c));
		r = sessions_read(&s, SESSION_END);
	}
	sessions_fini(&s);
	for (size_t i = 0; r && i < r->nr_rows; i++) {
		const struct val *v = &r->rows[i].v[0];
		double row =
			v->running_ns ? (double)v->count * NS_PER_S / (double)v->running_ns : 0;

		rate = row > rate ? row : rate;
	}
	if (r && rate < 0)
		rate = 0;
	reading_free(r);
	return rate;
}

bool frequency_period(struct client *c, const char *event, const char *target, long hz,
		      char period[FREQUENCY_LEN])
{
	double rate = *out_unit(event) ? (double)NS_PER_S : frequency_measure(c, event, target);
	uint64_t n = rate > 0 ? (uint64_t)(rate / (double)hz + 0.5) : 0;

	if (rate == 0)
		cli_error("profile: -F: %s counted no %s in %g s, so its rate is unknown; give a "
			  "period with -c",
			  target, event, FREQUENCY_MEASURE_S);
	snprintf(period, FREQUENCY_LEN, "%" PRIu64, n ? n : 1);
	return rate > 0;
}
