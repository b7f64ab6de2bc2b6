/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What people type who know perf and libvirt, and what does it here: one line each. For commands
 * and options that vpmu does not have.
 */
#pragma once

/* habits_command - return what to use instead of the command @name of perf; NULL: nothing known. */
const char *habits_command(const char *name);

/* habits_offer - try the names that habits_command() knows. */
struct vpmu_nearest;
void habits_offer(struct vpmu_nearest *n);

/* habits_option - return what to use instead of the option @typed ("-A", "--per-core") of the
 * command
 * @command, as perf has it; NULL: nothing known. */
const char *habits_option(const char *command, const char *typed);
