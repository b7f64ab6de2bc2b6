#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
# Makes a man page: page.sh SCDOC SOURCE PAGE. The first line tells man that the page has tables, which scdoc does not say;
# groff 1.23 warns of such a page.
set -e
"$1" <"$2" >"$3.scdoc"
{
	! grep -q '^\.TS' "$3.scdoc" || printf '%s\n' "'\\\" t"
	cat "$3.scdoc"
} >"$3.tmp"
rm "$3.scdoc"
mv "$3.tmp" "$3"
