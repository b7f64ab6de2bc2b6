// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Samples and branch records of nodes on the BPF backend. The BPF program and its counts are the
 * real kernel's. The sampling events are a fake kernel's, because hosts without KVM or without a
 * PMU have no guests' samples; the last test uses the real kernel's clock. Skipped where BPF is not
 * permitted.
 */
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <sys/wait.h>

#include "cgroup/priv.h"
#include "tests/integration/cgroup_bed.h"
#include "tests/unit/sample_fake.h"
#include "vpmu/lbr.h"

#define CLOCK	  SW(PERF_COUNT_SW_CPU_CLOCK)
#define CALLS_CTL (VPMU_LBR_EN | VPMU_LBR_USR | VPMU_LBR_REL_CALL | VPMU_LBR_IND_CALL)
#define ALL_CTL	  (VPMU_LBR_EN | VPMU_LBR_USR | VPMU_LBR_TYPES)

static struct bpf_backend *k;
static struct vpmu_backend *s;
static struct vpmu_backend_node *tenant, *vm, *vcpu;
static uint64_t cgroup;
static pid_t vmm, other; /* two processes in the tenant's cgroup; the first one runs the vCPU */

struct seen {
	unsigned int n;
	struct vpmu_backend_sample last;
	uint64_t calls[3];
};

static void take(void *arg, const struct vpmu_backend_sample *v)
{
	struct seen *x = arg;

	x->n++;
	x->last = *v;
	for (unsigned int i = 0; i < v->nr_calls && i < 3; i++)
		x->calls[i] = v->calls[i];
}

static void setup(const struct sample_sys *sys)
{
	k = bed_open(&(struct bpf_backend_opts){.sample_sys = sys});
	s = bpf_as_backend(k);
	tenant = bed_node(s->root);
	vm = bed_node(tenant);
	vcpu = bed_node(vm);
	cgroup = bed_cgroup("a");
	cr_assert_eq(bpf_backend_bind_cgroup(tenant, cgroup), 0);
	vmm = bed_spawn("a", work_sleeps, NULL);
	other = bed_spawn("a", work_sleeps, NULL);
	bed_bind_task(vcpu, vmm);
}

static void end(void)
{
	bed_done(k);
	cr_expect_eq(fake_events(), 0u);
}

static struct vpmu_sampling *start(struct vpmu_backend_node *n, vpmu_key_t key, struct seen *x,
				   bool chains)
{
	const struct vpmu_sampling_opts o = {
		.key = key, .period = 1000000, .chains = chains, .sample = take, .arg = x};
	struct vpmu_sampling *out;
	int ret = vpmu_backend_sample_start(n, &o, &out);

	cr_assert_eq(ret, 0, "%s", strerror(-ret));
	return out;
}

static int open_uncounted(const struct perf_event_attr *attr, pid_t tid, int cpu)
{
	cr_expect_eq(k->countings, 0u);
	return fake_sys.open(attr, tid, cpu);
}

static int enable_counted(int fd, unsigned long request, unsigned long arg)
{
	cr_expect_neq(k->countings, 0u);
	return fake_sys.control(fd, request, arg);
}

/* Long work is done before: counts without samples are missing in the profile. */
Test(it_cgroup_sampling, counting_and_sampling_begin_together)
{
	struct sample_sys sys = fake_sys;
	struct seen x = {0};

	sys.open = open_uncounted;
	sys.control = enable_counted;
	setup(&sys);
	vpmu_backend_sample_stop(start(tenant, CLOCK, &x, false));
	fake_open_error = -EMFILE;
	cr_expect_eq(vpmu_backend_sample_start(
			     tenant,
			     &(struct vpmu_sampling_opts){
				     .key = CLOCK, .period = 1000000, .sample = take, .arg = &x},
			     &(struct vpmu_sampling *){NULL}),
		     -ENOMEM);
	cr_expect_eq(k->countings, 0u);
	fake_open_error = 0;
	end();
}

static uint64_t sent_ns;

/* A sample on the first CPU that is sampled. */
static void put(uint16_t mode, pid_t pid, pid_t tid, uint64_t in)
{
	struct fake_record r = fake_sample(mode, 0x1000, (uint32_t)pid, (uint32_t)tid, 0);

	fake_word(&r, in);
	cr_assert(fake_put(&fake[0], &r));
	vpmu_backend_sample_take(s);
	sent_ns = r.word[2];
}

#define KERNEL PERF_RECORD_MISC_KERNEL
#define USER   PERF_RECORD_MISC_USER

Test(it_cgroup_sampling, whose_samples_they_are)
{
	struct seen all = {0}, mine = {0}, vms = {0};
	struct vpmu_sampling *a, *t, *v;
	struct vpmu_sampling_state st;
	unsigned int n = 0;

	setup(&fake_sys);
	a = start(s->root, CLOCK, &all, false);
	t = start(tenant, CLOCK, &mine, false);
	v = start(vm, CLOCK, &vms, false);
	k->whose.ids = WHOSE_IDS; /* the fake kernel's are right, whatever this host's are */
	cr_expect_gt(fake_events(), 0u);
	cr_expect(fake[0].attr.use_clockid && fake[0].attr.clockid == CLOCK_MONOTONIC);

#define SAMPLE(mode, pid, tid, in, of, where, in_tenant, in_vm)                                    \
	do {                                                                                       \
		unsigned int mine_before = mine.n, vms_before = vms.n;                             \
		put(mode, pid, tid, in);                                                           \
		cr_expect_eq(all.n, ++n);                                                          \
		cr_expect_eq(all.last.serial, (of) ? (of)->serial : 0);                            \
		cr_expect_eq(all.last.time_ns, sent_ns);                                           \
		cr_expect_eq(all.last.side, where);                                                \
		cr_expect_eq(mine.n - mine_before, (unsigned int)(in_tenant));                     \
		cr_expect_eq(vms.n - vms_before, (unsigned int)(in_vm));                           \
	} while (0)

	SAMPLE(PERF_RECORD_MISC_GUEST_KERNEL, vmm, vmm, cgroup, vcpu, VPMU_SIDE_GUEST_KERNEL, 1, 1);
	cr_expect_eq(all.last.cpl, 0);
	cr_expect_eq(all.last.pid, 0u);
	SAMPLE(PERF_RECORD_MISC_GUEST_USER, vmm, vmm, cgroup, vcpu, VPMU_SIDE_GUEST_USER, 1, 1);
	cr_expect_eq(all.last.cpl, 3);
	SAMPLE(USER, vmm, vmm, cgroup, vcpu, VPMU_SIDE_VMM, 1, 1);
	cr_expect_eq(all.last.pid, (uint32_t)vmm);
	SAMPLE(KERNEL, vmm, vmm, cgroup, vcpu, VPMU_SIDE_HOST, 1, 1);
	cr_expect_eq(all.last.pid, 0u);
	/* Another thread of the process that runs the VM. */
	SAMPLE(USER, vmm, other, cgroup, tenant, VPMU_SIDE_VMM, 1, 0);
	SAMPLE(USER, other, other, cgroup, tenant, VPMU_SIDE_USER, 1, 0);
	SAMPLE(KERNEL, 0, 0, 1, s->other, VPMU_SIDE_HOST, 0, 0);
	SAMPLE(USER, getpid(), getpid(), 0, s->other, VPMU_SIDE_USER, 0, 0);
	/* A kernel that gives the root's id to all. */
	k->whose.ids = WHOSE_IDS_BUT_ROOT;
	SAMPLE(USER, getpid(), getpid(), 1, s->other, VPMU_SIDE_USER, 0, 0);
	SAMPLE(USER, other, other, 1, tenant, VPMU_SIDE_USER, 1, 0);
	k->whose.ids = WHOSE_NO_IDS;
	SAMPLE(USER, getpid(), getpid(), cgroup, s->other, VPMU_SIDE_USER, 0, 0);
	k->whose.ids = WHOSE_IDS;
	/* A task that is gone, of a cgroup that is known. */
	bed_kill(other);
	SAMPLE(USER, other, other, cgroup, tenant, VPMU_SIDE_USER, 1, 0);
	vpmu_backend_sample_state(t, &st);
	cr_expect_eq(st.nobodys, 0u);
	/* And an unknown one: it is charged to no account on a guess. */
	SAMPLE(USER, other, other, cgroup + 12345, (struct vpmu_backend_node *)NULL, VPMU_SIDE_USER,
	       0, 0);
	vpmu_backend_sample_state(t, &st);
	cr_expect_eq(st.nobodys, 1u);
	vpmu_backend_sample_stop(a);
	vpmu_backend_sample_stop(t);
	vpmu_backend_sample_stop(v);
	cr_expect_eq(fake_events(), 0u);
	end();
}

/* A sample is of the node that the task was in when it was taken, not when it is read. */
Test(it_cgroup_sampling, what_runs_where_changes)
{
	struct vpmu_backend_node *below;
	struct vpmu_sampling *a;
	struct seen all = {0};
	struct fake_record r;
	uint64_t id;
	pid_t pid;

	setup(&fake_sys);
	a = start(s->root, CLOCK, &all, false);
	r = fake_sample(USER, 1, (uint32_t)vmm, (uint32_t)vmm, 0);
	fake_word(&r, cgroup);
	cr_assert(fake_put(&fake[0], &r));
	bpf_backend_unbind_task(vcpu, vmm);
	cr_expect_eq(all.n, 1u);
	cr_expect_eq(all.last.serial, vcpu->serial);
	cr_expect_eq(all.last.side, VPMU_SIDE_VMM);
	put(USER, vmm, vmm, cgroup);
	cr_expect_eq(all.last.serial, tenant->serial);
	cr_expect_eq(all.last.side, VPMU_SIDE_USER);

	/* A cgroup below one that has a node; then it has one itself. */
	id = bed_cgroup("a/b");
	pid = bed_spawn("a/b", work_sleeps, NULL);
	put(USER, pid, pid, id);
	cr_expect_eq(all.last.serial, tenant->serial);
	below = bed_node(tenant);
	cr_assert_eq(bpf_backend_bind_cgroup(below, id), 0);
	put(USER, pid, pid, id);
	cr_expect_eq(all.last.serial, below->serial);
	cr_assert(fake_put(&fake[0], &r));
	vpmu_backend_node_remove(below);
	put(USER, pid, pid, id);
	cr_expect_eq(all.last.serial, tenant->serial);
	vpmu_backend_sample_stop(a);
	end();
}

Test(it_cgroup_sampling, a_host_that_cannot_tell_guests_says_so)
{
	struct vpmu_sampling_state st;
	struct vpmu_sampling *a;
	struct seen x = {0};

	setup(&fake_sys);
	a = start(vm, CLOCK, &x, false);
	vpmu_backend_sample_state(a, &st);
	cr_expect_null(st.note, "no vCPU has run");
	put(KERNEL, vmm, vmm, cgroup);
	vpmu_backend_sample_state(a, &st);
	cr_expect(st.note && strstr(st.note, "software event") && !strchr(st.note, '\n'));
	put(PERF_RECORD_MISC_GUEST_USER, vmm, vmm, cgroup);
	vpmu_backend_sample_state(a, &st);
	cr_expect_null(st.note);
	vpmu_backend_sample_stop(a);
	end();
}

Test(it_cgroup_sampling, callers_and_losses)
{
	struct vpmu_sampling_state st;
	struct vpmu_sampling *a;
	struct vpmu_value v;
	struct seen x = {0};
	struct fake_record r;

	setup(&fake_sys);
	a = start(tenant, CLOCK, &x, true);
	r = fake_sample(KERNEL, 0x8000000000001000, (uint32_t)other, (uint32_t)other, 0);
	fake_word(&r, 2);
	fake_word(&r, 0x8000000000002000);
	fake_word(&r, 0x3000);
	fake_word(&r, cgroup);
	cr_assert(fake_put(&fake[0], &r));
	vpmu_backend_flush_node(tenant);
	cr_assert_eq(x.n, 1u);
	cr_expect(x.last.chained && x.last.nr_calls == 2 && x.calls[1] == 0x3000);
	cr_expect_eq(x.last.pid, (uint32_t)other, "a caller in user mode");
	vpmu_backend_sample_read(a, &v);
	cr_expect(v.supported && !v.partial);
	r = (struct fake_record){.header = {.type = PERF_RECORD_THROTTLE, .size = 8}};
	cr_assert(fake_put(&fake[0], &r));
	fake[0].lost = 3;
	vpmu_backend_sample_take(s);
	vpmu_backend_sample_state(a, &st);
	cr_expect_eq(st.lost, 3u);
	cr_expect_eq(st.throttled, 1u);
	vpmu_backend_sample_read(a, &v);
	cr_expect(v.partial, "what ran while the event was stopped is missing");
	vpmu_backend_sample_stop(a);
	end();
}

Test(it_cgroup_sampling, refusals_leave_nothing)
{
	const struct vpmu_sampling_opts o = {.key = CLOCK, .period = 1, .sample = take};
	struct vpmu_sampling *a;
	struct bpf_backend_usage u;

	setup(&fake_sys);
	fake_open_error = -ENOENT;
	cr_expect_eq(vpmu_backend_sample_start(vm, &o, &a), -EOPNOTSUPP);
	fake_open_error = -EMFILE;
	cr_expect_eq(vpmu_backend_sample_start(vm, &o, &a), -ENOMEM);
	fake_open_error = 0;
	fake_map_max = 1;
	cr_expect_eq(vpmu_backend_sample_start(vm, &o, &a), -ENOMEM);
	bpf_backend_usage(k, &u);
	cr_expect_eq(u.programs, 0u, "nobody counts");
	end();
}

/* ---- branch records ------------------------------------------------------------------------- */

static void put_branches(pid_t tid, uint64_t from)
{
	struct fake_record r = fake_sample(USER, 5, (uint32_t)tid, (uint32_t)tid, 0);

	fake_word(&r, 1);
	fake_word(&r, from);
	fake_word(&r, from + 1);
	fake_word(&r, 0);
	cr_assert(fake_put(fake_event(tid, -1, 0), &r));
}

static uint64_t newest(struct vpmu_backend_node *n)
{
	enum vpmu_lbr_user user = VPMU_LBR_GUEST;
	struct vpmu_lbr_regs r;

	vpmu_backend_flush_node(n);
	if (vpmu_backend_branches_read(n, &r, &user))
		return 0;
	cr_expect_eq(user, VPMU_LBR_HOST);
	return r.count ? vpmu_lbr_nth(&r, 0)->from : 1;
}

Test(it_cgroup_sampling, branch_records_of_vcpu_threads)
{
	struct vpmu_backend_node *second;
	struct vpmu_lbr_usage u;

	setup(&fake_sys);
	cr_expect_eq(newest(vcpu), 0u, "nobody captures");
	cr_assert_eq(vpmu_backend_branches_attach(vm, CALLS_CTL), 0);
	cr_assert_eq(vpmu_backend_branches_attach(tenant, CALLS_CTL), 0);
	cr_expect_eq(fake_events(), 1u, "one event for the thread, whoever captures");
	cr_expect_eq(newest(vcpu), 1u, "no records so far");
	put_branches(vmm, 0x100);
	put_branches(vmm, 0x200);
	cr_expect_eq(newest(vcpu), 0x200u);
	cr_expect_eq(newest(vm), 0u, "a VM is no thread");
	/* Another choice of branches would need another event. */
	cr_expect_eq(vpmu_backend_branches_attach(vcpu, ALL_CTL), -EBUSY);
	cr_expect_eq(vpmu_backend_branches_attach(s->root, ALL_CTL), -EBUSY);
	/* vCPUs to come. */
	second = bed_node(vm);
	bed_bind_task(second, other);
	put_branches(other, 0x300);
	cr_expect_eq(newest(second), 0x300u);
	vpmu_backend_branches_usage(s, &u);
	cr_expect_eq(u.tasks, 2u);
	cr_expect_gt(u.bytes, 0u);
	vpmu_backend_branches_detach(vm);
	cr_expect_eq(fake_events(), 2u, "the tenant is still captured");
	bpf_backend_unbind_task(second, other);
	cr_expect_eq(fake_events(), 1u);
	cr_expect_eq(newest(second), 0u);
	vpmu_backend_branches_detach(tenant);
	cr_expect_eq(fake_events(), 0u);
	cr_expect_eq(newest(vcpu), 0u);
	cr_assert_eq(vpmu_backend_branches_attach(vcpu, ALL_CTL), 0);
	cr_assert_eq(vpmu_backend_branches_attach(vcpu, ALL_CTL), 0);
	vpmu_backend_branches_detach(vcpu);
	cr_expect_eq(fake_events(), 1u, "attached once more than detached");
	vpmu_backend_branches_detach(vcpu);
	cr_expect_eq(fake_events(), 0u);
	vpmu_backend_branches_usage(s, &u);
	cr_expect_eq(u.tasks, 0u);
	end();
}

Test(it_cgroup_sampling, branch_records_that_are_not_there)
{
	setup(&fake_sys);
	fake_open_error = -EOPNOTSUPP;
	cr_expect_eq(vpmu_backend_branches_attach(tenant, ALL_CTL), -EOPNOTSUPP);
	cr_expect(strstr(vpmu_backend_branches_why(s), "no perf event with branch records"));
	fake_open_error = -EACCES;
	cr_expect_eq(vpmu_backend_branches_attach(tenant, ALL_CTL), -EOPNOTSUPP);
	cr_expect(strstr(vpmu_backend_branches_why(s), "CAP_PERFMON"));
	fake_open_error = 0;
	fake_map_max = 1;
	cr_expect_eq(vpmu_backend_branches_attach(tenant, ALL_CTL), -ENOMEM);
	cr_expect_null(vpmu_backend_branches_why(s));
	cr_expect_eq(fake_events(), 0u);
	fake_map_max = 0;
	cr_expect_eq(vpmu_backend_branches_attach(tenant, ALL_CTL), 0);
	vpmu_backend_branches_detach(tenant);
	end();
}

/* The kernel opens an event of whatever process has the number. */
Test(it_cgroup_sampling, no_branch_records_of_another_thread_of_that_number)
{
	struct vpmu_lbr_usage u;

	setup(&fake_sys);
	bed_kill(vmm);
	cr_assert_eq(vpmu_backend_branches_attach(vm, CALLS_CTL), 0);
	cr_expect_eq(fake_events(), 0u);
	cr_expect_eq(newest(vcpu), 0u);
	vpmu_backend_branches_usage(s, &u);
	cr_expect_eq(u.tasks, 0u);
	vpmu_backend_branches_detach(vm);
	end();
}

/* ---- the real kernel ------------------------------------------------------------------------ */

static void spin(void *arg)
{
	for (;;)
		__asm__ volatile("");
}

/* The clock of whole CPUs: at most one sample for each period that was counted, and those of the
 * tenant are where its program is. */
Test(it_cgroup_sampling, the_real_clock)
{
	struct vpmu_value all_v, mine_v;
	struct seen all = {0}, mine = {0};
	struct vpmu_backend_sample last;
	struct vpmu_sampling *a, *t;
	struct vpmu_sampling_state st;
	pid_t pid;

	setup(NULL);
	a = start(s->root, CLOCK, &all, false);
	t = start(tenant, CLOCK, &mine, false);
	pid = bed_spawn("a", spin, NULL);
	for (int i = 0; i < 360000 && (mine.n < 50 || mine.last.side != VPMU_SIDE_USER); i++) {
		usleep(10000);
		vpmu_backend_sample_take(s);
	}
	last = mine.last; /* a flush may bring more, of kernel mode too, which have no pid */
	vpmu_backend_flush_node(tenant);
	vpmu_backend_flush_node(s->root);
	vpmu_backend_sample_read(a, &all_v);
	vpmu_backend_sample_read(t, &mine_v);
	vpmu_backend_sample_state(a, &st);
	cr_expect_geq(mine.n, 50u);
	cr_expect_leq(mine.n, all.n);
	cr_expect_leq(all.n + st.lost, all_v.count / 1000000, "%u samples in %lu ns", all.n,
		      all_v.count);
	cr_expect_gt(mine_v.count, 0u);
	cr_expect_leq(mine_v.count, all_v.count);
	cr_expect_eq(last.serial, tenant->serial);
	/* setup()'s process that only sleeps is in the cgroup, too. */
	cr_expect(last.pid == (uint32_t)pid || last.pid == (uint32_t)other,
		  "a sample of %u, not of %d or %d", last.pid, pid, other);
	vpmu_backend_sample_stop(a);
	vpmu_backend_sample_stop(t);
	bed_kill(pid);
	end();
}
