// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Every row of vendor_table.c on the emulator as each vendor, whatever CPU this runs on; and on
 * that CPU itself if it is one of those that vendor.c lists. So neither vendor's half of the table
 * can become wrong unnoticed where only the other's CPUs are.
 */
#include <stdio.h>
#include <string.h>
#include <sys/auxv.h>

#include "tests/emu/native_side.h"
#include "tests/emu/emu_side.h"
#include "tests/emu/vendor.h"

static uint8_t pool[DT_POOL + DT_POOL_TAIL];
static struct dt_result result;
static unsigned int nr, failed;

static void report(bool ok, const struct vendor_diff *d, const char *who, const char *why)
{
	printf("%s %u - %s: %s%s%s\n", ok ? "ok" : "not ok", ++nr, who, d->name, ok ? "" : ": ",
	       ok ? "" : why);
	failed += !ok;
}

/* The row's code in CPL 0. */
static int run_kernel(struct emu_side *s, const struct dt_case *c, struct dt_result *r)
{
	const struct vmm_engine_ops *o = &vmm_emu_ops;
	struct vmm_engine_vcpu *v = s->vm.vcpu[0];
	struct kvm_regs k;
	struct vmm_run run = {.budget = 1000};
	struct kvm_sregs sr;
	struct bare_stop stop;
	int rc;

	emu_side_regs_in(c, &k);
	rc = bare_user(&s->vm, 0, &k, DT_FS_BASE, DT_GS_BASE);
	if (!rc)
		rc = o->get_sregs(v, &sr);
	sr.cs.selector = 0x10;
	sr.ss.selector = 0x18;
	sr.cs.dpl = sr.ss.dpl = 0;
	if (!rc)
		rc = o->set_sregs(v, &sr);
	if (!rc)
		rc = o->run(v, &run);
	if (!rc)
		rc = bare_stopped(&s->vm, 0, run.exit, &stop);
	if (rc)
		return rc;
	memset(r, 0, sizeof(*r));
	r->vector = stop.vector < 0 ? DT_OTHER : stop.vector;
	r->error = stop.error;
	r->cr2 = stop.cr2;
	r->rip = stop.rip;
	r->cs = stop.cs;
	emu_side_regs_out(&stop.regs, r->regs);
	return 0;
}

static bool on_emu(const struct vendor_diff *d, enum vendor v, char *why, size_t why_len)
{
	struct kvm_cpuid_entry2 leaf0;
	struct emu_counts counts;
	struct emu_side s = {0};
	struct dt_case c;
	bool ok = false;

	vendor_case(d, &c);
	vendor_leaf0(v, &leaf0);
	if (emu_side_init(&s, 1, pool, &leaf0, 1, why, why_len))
		goto out;
	emu_side_load(&s, &c, 1);
	if (!d->kernel) {
		emu_side_run(&s, &c, 0, &result, &counts);
	} else if (run_kernel(&s, &c, &result)) {
		snprintf(why, why_len, "the engine refused the registers");
		goto out;
	}
	ok = vendor_expect(d, v, &c, pool, &result, why, why_len);
out:
	emu_side_fini(&s);
	return ok;
}

/* The rows that are meant for the host's CPU, on it. */
static void on_native(enum vendor v)
{
	struct native_side n;
	char why[200];

	if (native_start(&n)) {
		printf("Bail out! cannot start the native helper\n");
		failed++;
		return;
	}
	for (unsigned int i = 0; i < nr_vendor_diffs; i++) {
		const struct vendor_diff *d = &vendor_diffs[i];
		struct dt_case *c = &n.shm->buf[0].c[0];
		bool ok;

		if (d->kernel || d->emu_only & 1u << v)
			continue;
		vendor_case(d, c);
		n.shm->buf[0].n = 1;
		ok = !native_submit(&n, 0) && !native_wait(&n, 0, why, sizeof(why)) &&
		     vendor_expect(d, v, c, n.shm->pool, &n.shm->buf[0].r[0], why, sizeof(why));
		report(ok, d, "this CPU", why);
	}
	native_stop(&n);
}

int main(void)
{
	struct vendor_host host;
	char why[200] = "";

	for (unsigned int i = 0; i < nr_vendor_diffs; i++)
		for (int v = 0; v < NR_VENDORS; v++) {
			const struct vendor_diff *d = &vendor_diffs[i];
			bool ok = on_emu(d, (enum vendor)v, why, sizeof(why));

			report(ok, d, vendor_name((enum vendor)v), why);
		}
	vendor_of_host(&host);
	if (!host.listed)
		printf("# this CPU (%s) is not in vendor.c's list\n", host.text);
	else if (!(getauxval(AT_HWCAP2) & 2))
		printf("# this CPU has no FSGSBASE for user space\n");
	else
		on_native(host.vendor);
	printf("1..%u\n", nr);
	return failed != 0;
}
