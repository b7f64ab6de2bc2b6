/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The files of share/report, which the build puts into the programs. Without a final NUL; page.c
 * uses them. */
#ifndef EXPORTER_PAGE_FILES_H
#define EXPORTER_PAGE_FILES_H

#include <stddef.h>

extern const char report_html[], report_css[], report_js[];
extern const size_t report_html_len, report_css_len, report_js_len;

#endif
