// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Pins of the BPF backend: a process that counts is killed, counting goes on without it, and the
 * next one takes over all totals. Pins that are not ours are refused and left alone. Each test has
 * a BPF file system of its own. Skipped where BPF or mounting is not permitted.
 */
#include "tests/integration/cgroup_pins_bed.h"

Test(cgroup_pins, a_killed_process_loses_nothing)
{
	struct shared *sh = share();
	struct bed_counters truth[2];
	struct bpf_backend_usage u;
	uint64_t begin[2][2], end[2][2], missed, v;
	struct tree t;
	bool partial;
	pid_t pid;

	for (int i = 0; i < 2; i++)
		bed_counters(&truth[i], keys[i]);
	bed_job("t", FAULTS);
	bed_cgroup("u");
	bed_spawn("u", work_switches, NULL);
	for (int i = 0; i < 2; i++)
		begin[0][i] = bed_counters_read(&truth[i]);
	pid = start(sh, first);
	for (int i = 0; i < 2; i++)
		begin[1][i] = bed_counters_read(&truth[i]);
	bed_kill(pid);
	bed_job_go(); /* no process is there */
	for (int i = 0; i < KILLS; i++) {
		pid = start(sh, middle);
		bed_job_go();
		usleep((useconds_t)(i * 3000));
		bed_kill(pid);
		bed_job_go();
	}
	next(sh, &t);
	bed_conserved(bpf_as_backend(t.k));
	cr_expect_eq(pinned("moves"), t.k->move_link != NULL);
	cr_expect(pinned("link"));
	bpf_backend_usage(t.k, &u);
	missed = u.missed + u.moved;
	for (int i = 0; i < 2; i++)
		end[0][i] = bed_counters_read(&truth[i]);
	bed_detach(t.root);
	for (int i = 0; i < 2; i++)
		end[1][i] = bed_counters_read(&truth[i]);
	bed_detach(t.tenants);
	v = t.tenants->values[0].count;
	/* Where the kernel hides a switch, the value says that it is partial, and for no other
	 * reason. */
	partial = t.tenants->values[0].partial;
	cr_expect(!partial || missed, "partial, and no switch was missed");
	cr_expect((partial || v >= (1 + 2 * KILLS) * FAULTS) &&
			  v <= (1 + 2 * KILLS) * FAULTS + SLACK * KILLS,
		  "%lu faults of the tenant", v);
	for (int i = 0; i < 2; i++) {
		v = t.root->values[i].count;
		printf("# %d kills, key %d: %lu, by the test's own events %lu to %lu\n", KILLS + 1,
		       i, v, (end[0][i] - begin[1][i]), (end[1][i] - begin[0][i]));
		cr_expect(v >= end[0][i] - begin[1][i] && v <= end[1][i] - begin[0][i]);
	}
	cr_expect_gt(t.root->values[1].count, 100);

	/* Nobody counts: nothing is left attached, although the maps are pinned. */
	bpf_backend_usage(t.k, &u);
	cr_expect_eq(u.programs + u.events, 0);
	cr_expect(!pinned("moves") && !pinned("link"));
	bed_done(t.k);
}

static const vpmu_key_t many[4] = {SW(PERF_COUNT_SW_PAGE_FAULTS), SW(PERF_COUNT_SW_PAGE_FAULTS_MIN),
				   SW(PERF_COUNT_SW_CPU_MIGRATIONS), SW(PERF_COUNT_SW_CPU_CLOCK)};

/* Exact, without anything that can run between the two readings. */
Test(cgroup_pins, totals_are_taken_over_to_the_count)
{
	struct shared *sh = share();
	struct bpf_backend_base a, b;
	struct tree t;

	bed_kill(start(sh, first));
	tree_open(&t, sh, 1);
	bed_attach(t.tenants);
	bpf_backend_base_get(t.tenants, 0, &a);
	/* A base of the future is refused; the old one is not. */
	b = a;
	b.total++;
	cr_expect_eq(bpf_backend_base_set(t.tenants, 0, &b), -EINVAL);
	cr_expect_eq(bpf_backend_base_set(t.tenants, 0, &sh->tenant[0]), 0);
	bpf_backend_named(t.k);
	bed_detach(t.tenants);
	cr_expect_eq(t.tenants->values[0].count, a.total - sh->tenant[0].total);
	bed_done(t.k);
}

/* A state that was not written for a while has bases of keys that have not been counted since. */
Test(cgroup_pins, a_base_of_a_key_that_was_dropped_is_refused)
{
	struct bpf_backend *k = bed_open(NULL);
	struct vpmu_backend *s = bpf_as_backend(k);
	struct vpmu_counting *all = bed_counting(s->root, &many[3], 1, NULL);
	struct vpmu_backend_node *n = bed_tenant(s->root, "b");
	struct vpmu_counting *c = bed_counting(n, &many[0], 1, NULL);
	struct vpmu_counting *also = bed_counting(n, &many[0], 1, NULL);
	struct bpf_backend_base base, now;

	bed_attach(all); /* the program stays */
	bed_attach(c);
	bed_job("b", FAULTS);
	bed_job_go();
	bpf_backend_base_get(c, 0, &base);
	/* It is good as long as another counting has the key. */
	bed_attach(also);
	bed_detach(c);
	bed_attach(c);
	cr_expect_eq(bpf_backend_base_set(c, 0, &base), 0);
	bed_detach(also);
	bed_detach(c);
	bed_job_go();
	bed_attach(c);
	cr_expect_eq(bpf_backend_base_set(c, 0, &base), -EINVAL, "faults are missing");
	bpf_backend_base_get(c, 0, &now);
	cr_expect_eq(bpf_backend_base_set(c, 0, &now), 0);
	now.slot++;
	cr_expect_eq(bpf_backend_base_set(c, 0, &now), -EINVAL, "another key's");
	bed_done(k);
}

/* ---- missed counts ---------------------------------------------------------------------- */

static struct kp_account *account_of(const struct tree *t, const struct vpmu_backend_node *n)
{
	return account_at(t->k, ((const struct knode *)n)->account);
}

/* All that makes values of the tenant partial. */
static uint32_t missed_of(const struct tree *t)
{
	const struct kp_account *a = account_of(t, t->tenant), *vm = account_of(t, t->vm);

	return backend_blind(t->k) + VPMU_LOAD(&a->lacks) + VPMU_LOAD(&a->missed) +
	       VPMU_LOAD(&vm->lacks) + VPMU_LOAD(&vm->missed);
}

/* As if a switch was missed: @what selects the number in the maps that shows it. */
static void miss(const struct tree *t, int what)
{
	struct kp_account *a = account_of(t, t->tenant);

	__atomic_fetch_add(what == 0   ? &a->lacks
			   : what == 1 ? &a->missed
				       : &cpu_state(t->k, 0)->blind,
			   1, __ATOMIC_RELAXED);
}

/* The tenant's values are partial if something was missed since @missed, and only then. The kernel
 * may hide switches in that time. */
static void partial_since(const struct tree *t, uint32_t missed, int what)
{
	uint32_t before;

	do {
		before = missed_of(t);
		vpmu_backend_read(t->tenants);
	} while (missed_of(t) != before);
	cr_expect_eq(t->tenants->values[0].partial, before != missed, "%d: %u, %u", what, missed,
		     before);
}

/* Switches missed before a session began make no value partial, also after a restart. What was
 * missed since then makes them so, also after a restart. */
Test(cgroup_pins, what_was_missed_is_taken_over)
{
	struct shared *sh = share();
	struct bpf_backend_base was;
	struct tree t;
	uint32_t missed;

	for (int what = 0; what < 3; what++) {
		tree_open(&t, sh, what != 0);
		bpf_backend_named(t.k);
		miss(&t, what);
		do {
			missed = missed_of(&t);
			bed_attach(t.tenants);
			bpf_backend_base_get(t.tenants, 0, &was);
			if (missed_of(&t) != missed)
				bed_detach(t.tenants);
		} while (missed_of(&t) != missed);
		partial_since(&t, missed, what);
		for (int restart = 0; restart < 2; restart++) {
			bed_leave(t.k);
			tree_open(&t, sh, 1);
			bed_attach(t.tenants);
			cr_assert_eq(bpf_backend_base_set(t.tenants, 0, &was), 0);
			bpf_backend_named(t.k);
			partial_since(&t, missed, what);
			if (!restart)
				miss(&t, what);
			partial_since(&t, missed, what);
		}
		bed_close(t.k);
	}
	bed_end();
}

/* ---- killed while a CPU gets new events ---------------------------------------------------- */

static struct bpf_backend_sys dying;
static char files[64];
static int opens_left; /* 0: any number */

static int open_or_die(const struct perf_event_attr *attr, int cpu, int group)
{
	if (opens_left && !--opens_left)
		raise(SIGKILL);
	return bpf_backend_sys_real.event_open(attr, cpu, group);
}

static void cpus_online(const char *list)
{
	char path[128];
	FILE *f;

	snprintf(path, sizeof(path), "%s/sys/devices/system/cpu/online", files);
	f = fopen(path, "we");
	cr_assert(f && fputs(list, f) >= 0 && !fclose(f));
}

/* Files of our own with the online CPUs. All else is the host's. */
static void own_files(void)
{
	strcpy(files, "/tmp/vpmu-pins-XXXXXX");
	cr_assert(mkdtemp(files));
	bed_system("cd %s && mkdir -p sys/devices/system/cpu && ln -s /proc . && "
		   "ln -s /sys/kernel /sys/bus sys",
		   files);
	cpus_online("0-1\n");
	dying = bpf_backend_sys_real;
	dying.files = files;
	dying.event_open = open_or_die;
}

static void many_open(struct tree *t, const struct shared *sh, int found)
{
	t->k = bed_reopen(&(struct bpf_backend_opts){.pin_dir = dir, .sys = &dying});
	t->tenant = bed_node(bpf_as_backend(t->k)->root);
	cr_assert_eq(bpf_backend_name(t->tenant, 77), found);
	if (!found)
		cr_assert_eq(bpf_backend_bind_cgroup(t->tenant, sh->cgroup), 0);
	t->tenants = bed_counting(t->tenant, many, 4, NULL);
	bed_attach(t->tenants);
}

/* It dies where it opens event number sh->die_at of CPU 1, which has come back, or has not been
 * away. */
static void dies(struct shared *sh)
{
	uint64_t slots = 0;
	struct tree t;

	many_open(&t, sh, 0);
	for (int i = 0; i < 4; i++)
		bpf_backend_base_get(t.tenants, (size_t)i, &sh->many[i]);
	__atomic_store_n(&sh->ready, 1, __ATOMIC_RELEASE);
	while (!__atomic_load_n(&sh->die_at, __ATOMIC_ACQUIRE))
		usleep(1000);
	for (unsigned int i = 0; i < VPMU_MAX_SLOTS; i++)
		slots |= (uint64_t)(t.k->slot[i].key != 0) << i;
	if (sh->die_at % 2) {
		cpus_online("0\n");
		bpf_backend_tend(t.k);
		cpus_online("0-1\n");
	}
	opens_left = sh->die_at;
	if (sh->die_at % 2)
		bpf_backend_tend(t.k);
	else
		hotplug_renew(t.k, 1, slots);
	_exit(1);
}

/* The next process gives the CPU all its events. Earlier charges are not lost, and what is
 * counted from then on is exact. */
Test(cgroup_pins, killed_while_a_cpu_gets_new_events)
{
	struct shared *sh = share();
	struct tree t;
	pid_t pid;
	int status;

	bed_two_cpus();
	own_files();
	bed_run_on(bed_job("t", FAULTS), 1);
	bed_job_go();
	for (int at = 1; at <= 4; at++) {
		struct kp_cpu *st;
		uint64_t v;
		bool lacks;

		sh->die_at = 0;
		pid = start(sh, dies);
		bed_job_go();
		__atomic_store_n(&sh->die_at, at, __ATOMIC_RELEASE);
		cr_assert_eq(waitpid(pid, &status, 0), pid);
		cr_assert(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL, "%#x", status);
		bed_job_go(); /* CPU 1 has lost its events: this is not counted */
		many_open(&t, sh, 1);
		for (size_t i = 0; i < 4; i++)
			cr_assert_eq(bpf_backend_base_set(t.tenants, i, &sh->many[i]), 0);
		bpf_backend_named(t.k);
		bpf_backend_tend(t.k);
		st = cpu_state(t.k, 1);
		cr_expect(!st->opening && !st->held, "event %d: %#lx, %#lx", at, st->opening,
			  st->held);
		bed_job_go();
		cr_expect_gt(bed_conserved(bpf_as_backend(t.k)), 0);
		bed_detach(t.tenants);
		for (int i = 0; i < 2; i++) {
			v = t.tenants->values[i].count;
			/* Less is right only where the kernel hid a switch, and the value says so.
			 */
			lacks = t.tenants->values[i].partial && bed_unseen(t.k);
			cr_expect(v == 2 * FAULTS || (lacks && v < 2 * FAULTS),
				  "event %d, key %d: %lu faults", at, i, v);
		}
		cr_expect_lt(t.tenants->values[2].count, 100u);
		for (int i = 0; i < 4; i++)
			cr_expect(t.tenants->values[i].supported &&
				  t.tenants->values[i].running_ns <=
					  t.tenants->values[i].enabled_ns);
		cr_expect_lt(t.tenants->values[3].count, t.tenants->values[3].enabled_ns + 1000000);
		bed_close(t.k);
		bed_system("rm -r %s", dir);
	}
	bed_system("rm -r %s", files);
	bed_end();
}

/* ---- refused ------------------------------------------------------------------------------ */

#define expect_refused(what, ret, text)                                                            \
	do {                                                                                       \
		char why_[512] = "";                                                               \
		struct bpf_backend *k_;                                                            \
		const struct bpf_backend_opts o_ = {.pin_dir = (what)};                            \
		int r_ = bpf_backend_open(&o_, &k_, why_, sizeof(why_));                           \
		cr_expect_eq(r_, ret, "%d: %s", r_, why_);                                         \
		cr_expect(strstr(why_, text), "%s", why_);                                         \
		cr_expect_null(strchr(why_, '\n'));                                                \
		cr_expect_null(k_);                                                                \
	} while (0)

static void pin_fd(int fd, const char *name)
{
	cr_assert(fd >= 0 && !bpf_obj_pin(fd, pin_path(name)), "%s: %s", name, strerror(errno));
	close(fd);
}

/* Pin a page of @entries cells as @name. */
static void pin_page(uint32_t entries, const char *name)
{
	LIBBPF_OPTS(bpf_map_create_opts, o, .map_flags = BPF_F_MMAPABLE);

	pin_fd(bpf_map_create(BPF_MAP_TYPE_ARRAY, "page", 4, sizeof(struct kp_cell), entries, &o),
	       name);
}

/* Somebody else's map in the place of @name. */
static void pin_other(enum bpf_map_type type, const char *name)
{
	cr_assert_eq(unlink(pin_path(name)), 0);
	pin_fd(bpf_map_create(type, "other", 4, 8, 1, NULL), name);
}

static int pin_open(const char *name)
{
	int fd = bpf_obj_get(pin_path(name));

	cr_assert_geq(fd, 0, "%s", name);
	return fd;
}

static unsigned int looks;

static bool look_again(unsigned int times)
{
	cr_expect_eq(times, looks);
	return ++looks < 4;
}

Test(cgroup_pins, what_cannot_be_taken_over_is_refused)
{
	const struct bpf_backend_opts has = {.pin_dir = dir},
				      waits = {.pin_dir = dir, .busy = look_again};
	struct bpf_backend *k, *other;
	char why[512];
	struct kp_cfg cfg;
	uint32_t zero = 0;
	int fd;

	bed_begin();
	expect_refused("/tmp/vpmu-not-bpf", -EOPNOTSUPP, "mount -t bpf");
	expect_refused("/nowhere/at/all", -ENOENT, "/nowhere/at/all");
	bed_pin_dir(dir);

	/* Somebody else could remove them. */
	cr_assert(!mkdir(dir, 0700) && !chmod(dir, 0777));
	expect_refused(dir, -EPERM, "others may write to");
	cr_assert(!chmod(dir, 0700) && !chown(dir, 65534, 65534));
	expect_refused(dir, -EPERM, "belongs to user 65534");
	cr_assert_eq(chown(dir, 0, 0), 0);

	/* Another process has them. Who waits for them looks again as often as it wants to. */
	k = bed_reopen(&has);
	expect_refused(dir, -EBUSY, "another process");
	cr_expect_eq(bpf_backend_open(&waits, &other, why, sizeof(why)), -EBUSY);
	cr_expect_eq(looks, 4u);
	bpf_backend_close(k);

	/* A page that a process pinned before it ended, but did not put into its map yet. */
	pin_page(KP_PAGE_CELLS, "cells-7");
	bpf_backend_close(bed_reopen(&has));
	/* One that is somebody else's. */
	pin_page(KP_PAGE_CELLS / 2, "cells-8");
	expect_refused(dir, -EINVAL, "the maps of the BPF program");
	cr_assert_eq(unlink(pin_path("cells-8")), 0);

	/* Another version's. */
	fd = pin_open("cfg");
	cr_assert_eq(bpf_map_lookup_elem(fd, &zero, &cfg), 0);
	cfg.schema++;
	cr_assert_eq(bpf_map_update_elem(fd, &zero, &cfg, 0), 0);
	expect_refused(dir, -EBUSY, "schema");
	cfg.schema--;
	cr_assert_eq(bpf_map_update_elem(fd, &zero, &cfg, 0), 0);
	close(fd);

	/* One map is somebody else's: it stays as it is. */
	pin_other(BPF_MAP_TYPE_ARRAY, "cells");
	expect_refused(dir, -EBUSY, "cells");
	cr_expect(pinned("cells"));

	/* Something that is no map of ours at all. */
	pin_other(BPF_MAP_TYPE_HASH, "cfg");
	expect_refused(dir, -EBUSY, "not a map of vpmu");
	bed_end();
}

/* A cgroup that is bound to an account which no node has (damaged pins) is the root's, also when a
 * new node gets that account. */
Test(cgroup_pins, a_binding_to_no_node_is_the_roots)
{
	const struct bpf_backend_opts pinned = {.pin_dir = dir};
	struct vpmu_backend_node *n;
	struct bpf_backend *k;
	uint32_t account = 0, next;
	uint64_t id;
	int fd;

	bed_begin();
	bed_pin_dir(dir);
	id = bed_cgroup("lost");
	k = bed_reopen(&pinned);
	cr_assert_eq(bpf_backend_bind_cgroup(bed_node(bpf_as_backend(k)->root), id), 0);
	next = k->cfg->nr_accounts;
	fd = pin_open("cgroups");
	cr_assert_eq(bpf_map_update_elem(fd, &id, &next, 0), 0);
	bpf_backend_close(k);
	k = bed_reopen(&pinned);
	bpf_backend_named(k);
	n = bed_node(bpf_as_backend(k)->root);
	cr_assert_eq(bpf_map_lookup_elem(fd, &id, &account), 0);
	close(fd);
	cr_expect_eq(account, KP_ROOT, "%u; the new node has %u", account, knode_of(n)->account);
	cr_expect_neq(account, knode_of(n)->account);
	cr_expect_eq(bind_cgroup_node(k, id), &k->root);
	bed_done(k);
}
