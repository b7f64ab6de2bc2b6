/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What a scraper takes: its header fields Accept and Accept-Encoding (RFC 9110, 12.5). They are
 * anybody's text: whatever they say, there is an answer. Pure functions, any thread. */
#ifndef EXPORTER_ACCEPT_H
#define EXPORTER_ACCEPT_H

#include <stdbool.h>

#include "exporter/exposition.h"

/* accept_form - OpenMetrics if @accept (may be NULL) wants version 1.0.0 of it at least as much as
 * plain text; else the text format. */
enum expo_form accept_form(const char *accept);

/* accept_gzip - whether @encodings (may be NULL) names gzip, or everything, with more than q=0. */
bool accept_gzip(const char *encodings);

#endif
