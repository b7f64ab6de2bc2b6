/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Content negotiation: parses a scraper's header fields Accept and Accept-Encoding (RFC 9110,
 * 12.5). They are untrusted; every input yields a valid choice. Pure functions, any thread. http.c
 * calls them. */
#ifndef EXPORTER_ACCEPT_H
#define EXPORTER_ACCEPT_H

#include <stdbool.h>

#include "exporter/exposition.h"

/* accept_form - return OpenMetrics if @accept (may be NULL) prefers its version 1.0.0 to plain text
 * or weights both the same; else the text format. */
enum expo_form accept_form(const char *accept);

/* accept_gzip - returns true if @encodings (may be NULL) contains gzip or "*" with a weight above
 * 0. */
bool accept_gzip(const char *encodings);

#endif
