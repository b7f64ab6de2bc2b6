/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The page of `vpmu report` and of vpmu-exporter: one HTML file with style, program and data in it.
 * docs/report.md has the data's form. Names in the data may be hostile: they are JSON in which no
 * markup is possible, and only scripts with the page's own random nonce run.
 */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

/*
 * page_text - return the page with @data (borrowed), *@len bytes, which the caller frees. @live: it
 * reads report.json from where it came from. NULL: no random bytes, or @data is no JSON.
 */
char *page_text(const json_t *data, bool live, size_t *len);

/* The files of share/report, which the build puts into the programs. Without a final NUL; page.c
 * uses them. */
extern const char report_html[], report_css[], report_js[];
extern const size_t report_html_len, report_css_len, report_js_len;
