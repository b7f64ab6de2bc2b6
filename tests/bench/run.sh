#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
# Tests that vpmu-bench prints the machine and results in units: run.sh VPMU-BENCH. No time is judged.
set -u
out=$("$1" --json --rounds 20 switch_equal consumer_read) || exit 1
echo "$out"
[ "$(echo "$out" | grep -c '^{"machine":{.*"kernel":.*"load":')" = 1 ] || exit 1
[ "$(echo "$out" | grep -c '"name":"switch_equal".*"units":.*"of":"block".*"rounds":20')" = 1 ] || exit 1
[ "$(echo "$out" | grep -c '"name":"consumer_read".*"units":.*"of":"call".*"consumers":')" = 4 ] || exit 1
[ "$(echo "$out" | grep -c '"name":"consumer_read_flat"')" = 1 ] || exit 1
text=$("$1" --rounds 20 switch_equal) || exit 1
echo "$text"
[ "$(echo "$text" | grep -c '^# kernel  *[0-9]')" = 1 ] || exit 1
[ "$(echo "$text" | grep -c '^switch_equal .* ns .* block ')" = 1 ]
