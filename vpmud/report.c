// SPDX-License-Identifier: GPL-2.0-or-later
/* vpmud's own rows of `vpmu check` and `sharing`; see report.h. daemon_server.c calls it,
 * daemon.c at the start. */
#include <linux/perf_event.h>
#include <stdio.h>
#include <sys/stat.h>

#include "service/daemon/contain.h"
#include "service/request.h"
#include "vpmud/report.h"

/* Every kernel can count it on a CPU, and it needs the same privilege as the others. */
#define ANY_EVENT                                                                                  \
	vpmu_key_make(VPMU_SPACE_SOFTWARE, PERF_COUNT_SW_CONTEXT_SWITCHES,                         \
		      VPMU_KEY_USR | VPMU_KEY_OS | VPMU_KEY_GUEST | VPMU_KEY_HOST)

static void report_check_row(const char *what, bool ok, const char *why, void *rows)
{
	json_array_append_new(rows,
			      json_pack("{s:s, s:b, s:s}", "what", what, "ok", ok, "why", why));
}

static void libvirt_row(const char *uri, bool connected, const char *text, void *rows)
{
	char what[120];

	snprintf(what, sizeof(what), "libvirt %s", uri);
	report_check_row(what, connected, text, rows);
}

/* The BPF program sees thread ids of the initial PID namespace, which always has the inode number
 * PROC_PID_INIT_INO (include/linux/proc_ns.h). */
const char *report_pids(void)
{
	struct stat st;

	if (stat("/proc/self/ns/pid", &st) || st.st_ino == 0xeffffffcu)
		return NULL;
	return "not the host's: cgroups are counted here, but no thread of a VM, so neither vCPUs "
	       "nor VMs without a cgroup of their own";
}

void report_check(const struct report *r, json_t *rows, bool all)
{
	struct bpf_backend_budget b;
	struct bpf_backend_usage k;
	struct tree_usage u;
	enum vpmu_quality q;
	char why[600];
	bool may;

	contain_describe(report_check_row, rows);
	if (!all)
		return;
	if (*r->reload_error)
		snprintf(why, sizeof(why), "the old one is in force: %s", r->reload_error);
	else
		snprintf(why, sizeof(why), "%zu section%s for tenants", r->sections,
			 r->sections == 1 ? "" : "s");
	report_check_row("configuration", !*r->reload_error, why, rows);
	tree_usage(r->tree, &u);
	snprintf(why, sizeof(why), "%zu, %zu of them with a cgroup of their own", u.vms,
		 u.whole_vms);
	report_check_row("VMs found", true, why, rows);
	if (u.refused) {
		snprintf(why, sizeof(why),
			 "%zu named as VMs of a tenant that does not trust them; see the log",
			 u.refused);
		report_check_row("names of VMs", false, why, rows);
	}
	if (report_pids())
		report_check_row("PID namespace", false, report_pids(), rows);
	disc_libvirt(r->disc, libvirt_row, rows);
	snprintf(why, sizeof(why), "%zu below %s", u.cgroups, r->cgroup_root);
	report_check_row("cgroups of tenants", true, why, rows);
	snprintf(why, sizeof(why), u.failed ? "%zu could not be; see the log" : "%zu failed",
		 u.failed);
	report_check_row("VMs, vCPUs and cgroups are counted", !u.failed, why, rows);
	bpf_backend_usage(r->kernel, &k);
	snprintf(why, sizeof(why), "%s; %u perf events, %llu KiB of maps",
		 k.programs ? "attached to context switches"
			    : "no counter is in use: nothing is attached",
		 k.events, (unsigned long long)k.map_bytes >> 10);
	report_check_row("BPF backend", true, why, rows);
	if (k.programs)
		report_check_row("tasks that move while they run", k.moves, k.moves_why, rows);
	if (k.missed) {
		snprintf(why, sizeof(why),
			 "%llu; counts around one are unclaimed, and tasks that ran there are "
			 "partial",
			 (unsigned long long)k.missed);
		report_check_row("context switches that the kernel did not show", true, why, rows);
	}
	if (!k.sees_hidden)
		report_check_row("context switches that the kernel did not show", false,
				 "not known: the kernel has no CONFIG_FAIR_GROUP_SCHED", rows);
	if (k.moved) {
		snprintf(why, sizeof(why),
			 "%llu; charged to the old cgroup up to the next switch, and both are "
			 "partial",
			 (unsigned long long)k.moved);
		report_check_row("moves of running tasks that were not shown", true, why, rows);
	}
	guests_check(r->guests, report_check_row, rows);
	bpf_backend_budget(r->kernel, &b);
	budget_rows(&b, report_check_row, rows);
	/* Test our own privileges, not the client's: most were dropped. */
	may = vpmu_backend_can_count(bpf_as_backend(r->kernel), ANY_EVENT, &q, why, sizeof(why));
	report_check_row("vpmud may count", may, may ? "perf events of all tasks on a CPU" : why,
			 rows);
}

void report_figures(struct bpf_backend *kernel, const struct guests *guests, json_t *resp)
{
	struct bpf_backend_budget b;
	struct bpf_backend_usage u;
	json_t *o;

	bpf_backend_budget(kernel, &b);
	bpf_backend_usage(kernel, &u);
	o = json_pack("{s:I, s:i, s:i, s:o, s:I}", "keys", (json_int_t)b.keys, "turns", b.turns,
		      "mediated", b.mediated, "map-bytes", json_u64(u.map_bytes), "perf-events",
		      (json_int_t)u.events);
	if (!b.known || !b.general) { /* unknown figures are absent */
		json_object_set_new(o, "unknown", json_integer(1));
	} else {
		json_object_set_new(o, "general", json_integer(b.general));
		json_object_set_new(o, "fixed", json_integer(b.fixed));
		json_object_set_new(o, "left", json_integer(b.left));
	}
	json_object_set_new(resp, "kernel", o);
	guests_figures(guests, resp);
}
