// SPDX-License-Identifier: GPL-2.0-or-later
/* VMs and cgroups that were found become nodes and bindings. The backend is a fake that notes the
 * bindings; the tests stand for discovery. */
#include "vpmud_tree_bed.h"

/* A vpmu-vmm is a VM as others are: its cgroup decides the owner, not its server. */
Test(vpmud_tree, a_vpmu_vmm_belongs_where_its_cgroup_is)
{
	struct disc_vm vm = vm_of(7, "vpmu-vmm-7", NULL, "/acme/vmm", 50, "01");
	json_t *info = json_object();

	start("[tenant /acme]\ncgroup = /acme\n");
	procs("/acme", "");
	procs("/acme/vmm", "7\n");
	vm.kind = "vpmu-vmm";
	vm_added(&vm);
	cr_assert(in("vpmu-vmm-7"));
	cr_expect_str_eq(tenant_vm_find(ts, "vpmu-vmm-7")->path, "/acme");
	TASK_BOUND(700, vcpu_in("vpmu-vmm-7", 0));
	TASK_BOUND(701, vcpu_in("vpmu-vmm-7", 1));
	CGROUP_BOUND(50, in("vpmu-vmm-7"));
	/* Where its server listens is known when it does. */
	tree_vm_info(tenant_vm_find(ts, "vpmu-vmm-7"), info, NULL);
	cr_expect_null(json_object_get(info, "server"));
	cr_expect_null(json_object_get(info, "vcpus-unknown"));
	vm.nr_unknown = 3;
	vm.backend_socket = "/run/vpmu/a.sock";
	vm_changed(&vm);
	tree_vm_info(tenant_vm_find(ts, "vpmu-vmm-7"), info, NULL);
	cr_expect_str_eq(json_string_value(json_object_get(info, "server")), "/run/vpmu/a.sock");
	cr_expect_str_eq(json_string_value(json_object_get(info, "found")), "vpmu-vmm");
	cr_expect_eq(json_integer_value(json_object_get(info, "vcpus-unknown")), 3);
	json_decref(info);
}

Test(vpmud_tree, a_vm_with_its_vcpus_and_cgroup)
{
	struct disc_vm vm = vm_of(7, "web", "/acme/web", "/m/a", 50, "01");

	start("");
	procs("/m", "");
	procs("/m/a", "7\n");
	vm_added(&vm);
	cr_assert(in("web"));
	cr_expect_str_eq(tenant_vm_find(ts, "web")->path, "/acme/web");
	TASK_BOUND(700, vcpu_in("web", 0));
	TASK_BOUND(701, vcpu_in("web", 1));
	CGROUP_BOUND(50, in("web"));
	fake_charge(vcpu_in("web", 1), 0, 5);
	/* A vCPU is plugged in, one is taken out, and one has another thread now. */
	vm = vm_of(7, "web", "/acme/web", "/m/a", 50, "03");
	((struct disc_vcpu *)vm.vcpus)[0] = (struct disc_vcpu){0, 799, 7990};
	vm_changed(&vm);
	TASK_BOUND(700, NULL);
	TASK_BOUND(701, NULL);
	TASK_BOUND(799, vcpu_in("web", 0));
	TASK_BOUND(703, vcpu_in("web", 3));
	cr_expect_null(vcpu_in("web", 1));
	cr_expect_eq(fake_total(in("web"), 0), 5, "what the vCPU counted stays in the VM");
	tree_vm_removed(t, &vm);
	cr_expect_null(in("web"));
	CGROUP_BOUND(50, NULL);
	TASK_BOUND(703, NULL);
	cr_expect_eq(fake_total(in("/acme/web"), 0), 5, "and in the tenant");
	/* Its restart. */
	vm = vm_of(8, "web", "/acme/web", "/m/a", 51, "0");
	vm_added(&vm);
	fake_charge(vcpu_in("web", 0), 0, 2);
	cr_expect_eq(fake_total(in("/acme/web"), 0), 7);
	cr_expect_str_eq(notes, "");
}

Test(vpmud_tree, only_a_vm_that_is_alone_has_its_cgroup)
{
	struct disc_vm a = vm_of(7, "a", NULL, "/u", 50, "0"),
		       b = vm_of(8, "b", NULL, "/u", 50, "0");
	struct disc_vm c = vm_of(9, "c", NULL, "/", 1, "0"), d = vm_of(10, "d", NULL, "/x", 60, "");
	struct tree_usage u;

	start("");
	procs("/u", "7\n");
	procs("/x", "1\n2\n");
	vm_added(&a);
	CGROUP_BOUND(50, in("a"));
	procs("/u", "7\n8\n");
	vm_added(&b);
	CGROUP_BOUND(50, NULL);
	TASK_BOUND(700, vcpu_in("a", 0));
	TASK_BOUND(800, vcpu_in("b", 0));
	vm_added(&c);
	CGROUP_BOUND(1, NULL);
	vm_added(&d);
	CGROUP_BOUND(60, NULL);
	cr_expect_str_eq(tenant_vm_find(ts, "c")->path, "/host");
	d.kind = "libvirt";
	vm_changed(&d);
	CGROUP_BOUND(60, NULL);
	procs("/x", ""); /* libvirt made it, and has the VM's threads in cgroups below */
	vm_changed(&d);
	CGROUP_BOUND(60, in("d"));
	tree_usage(t, &u);
	cr_expect_eq(u.vms, 4);
	cr_expect_eq(u.whole_vms, 1);
	cr_expect_eq(u.failed, 0);
}

/* A cgroup below a VM's is charged to that VM, unless it has a node of its own. */
Test(vpmud_tree, a_vm_below_another_one_is_not_charged_to_it)
{
	struct disc_vm a = vm_of(7, "a", NULL, "/u", 50, "0"),
		       b = vm_of(8, "b", NULL, "/u/sub", 51, "0"),
		       c = vm_of(9, "c", NULL, "/u2", 52, "0");

	start("");
	procs("/u", "7\n");
	procs("/u/sub", "8\n99\n");
	procs("/u2", "9\n");
	vm_added(&a);
	vm_added(&c);
	CGROUP_BOUND(50, in("a"));
	vm_added(&b);
	CGROUP_BOUND(51, NULL);
	CGROUP_BOUND(50, NULL);
	TASK_BOUND(700, vcpu_in("a", 0));
	CGROUP_BOUND(52, in("c"));
	/* Alone in its own cgroup it takes nothing of the other's. */
	procs("/u/sub", "8\n");
	vm_changed(&b);
	CGROUP_BOUND(51, in("b"));
	CGROUP_BOUND(50, in("a"));
	/* It moves into the other's cgroup itself, goes on, and ends. */
	procs("/u", "7\n8\n");
	b.cgroup = "/u";
	b.cgroup_id = 50;
	vm_changed(&b);
	CGROUP_BOUND(51, NULL);
	CGROUP_BOUND(50, NULL);
	procs("/u", "7\n");
	procs("/u/sub", "8\n99\n");
	b.cgroup = "/u/sub";
	b.cgroup_id = 51;
	vm_changed(&b);
	CGROUP_BOUND(50, NULL);
	tree_vm_removed(t, &b);
	CGROUP_BOUND(50, in("a"));
	cr_expect_str_eq(notes, "");
}

static struct cgroup *found(struct cgroup *c, const char *path, uint64_t id, const char *tenant)
{
	*c = (struct cgroup){.path = path, .id = id, .tenant = tenant};
	tree_cgroup_added(t, c);
	return c;
}

Test(vpmud_tree, a_vm_comes_before_the_tenant_of_its_cgroup)
{
	struct disc_vm vm = vm_of(7, "web", NULL, "/m", 50, "0");
	struct cgroup m, s;

	start("[tenant /acme]\ncgroup = /m\ncgroup = /s\n");
	procs("/m", "7\n");
	cr_expect(in("/acme"), "a tenant of the file is there from the start");
	found(&m, "/m", 50, "/acme");
	found(&s, "/s", 51, "/acme");
	CGROUP_BOUND(50, in("/acme"));
	CGROUP_BOUND(51, in("/acme"));
	vm_added(&vm);
	cr_expect_str_eq(tenant_vm_find(ts, "web")->path, "/acme");
	CGROUP_BOUND(50, in("web"));
	tree_vm_removed(t, &vm);
	CGROUP_BOUND(50, in("/acme"));
	vm_added(&vm);
	tree_cgroup_removed(t, &m);
	CGROUP_BOUND(50, in("web"));
	tree_vm_removed(t, &vm);
	CGROUP_BOUND(50, NULL);
	tree_cgroup_removed(t, &s);
	CGROUP_BOUND(51, NULL);
	cr_expect(in("/acme"), "it stays");
}

/* Any process can call itself a QEMU of any name: only libvirt's process of a domain is believed.
 */
Test(vpmud_tree, a_name_that_is_only_claimed_chooses_no_tenant)
{
	struct disc_vm vm = vm_of(7, "lab-1", NULL, "/other/x", 50, "0");
	struct disc_vm web = vm_of(8, "web", NULL, "/other/x", 50, "0");
	struct tree_usage u;

	start("[tenant /lab]\nvm = lab-*\nvm_owner = 107\n[tenant /other]\ncgroup = /other\n");
	vm.uid = 108;
	vm_added(&vm);
	vm_added(&web);
	cr_expect_str_eq(path_of("lab-1"), "/other");
	/* libvirt may still name it as the domain. After a while it is noted, once. */
	for (int i = 0; i < REFUSED_TENDS; i++) {
		cr_expect_str_eq(notes, "");
		tree_usage(t, &u);
		cr_expect_eq(u.refused, 0);
		tree_tend(t);
	}
	tree_tend(t);
	tree_usage(t, &u);
	cr_expect_eq(u.refused, 1);
	cr_expect_str_eq(notes,
			 "VM lab-1, process 7: its name makes it no VM of [tenant /lab]: its "
			 "user is not in vm_owner, and libvirt does not name the process\n");
	vm.uid = 107;
	vm_changed(&vm);
	cr_expect_str_eq(path_of("lab-1"), "/lab");
	tree_tend(t);
	tree_usage(t, &u);
	cr_expect_eq(u.refused, 0);
	vm.uid = 108;
	vm.kind = "libvirt";
	vm_changed(&vm);
	cr_expect_str_eq(path_of("lab-1"), "/lab");
	cr_expect_str_eq(path_of("web"), "/other");
	/* The next vpmud trusts it before libvirt has answered, and no other process. */
	next_vpmud();
	vm.kind = "qemu";
	vm_added(&vm);
	cr_expect_str_eq(path_of("lab-1"), "/lab");
	vm.start_time = 2;
	vm.name = "lab-2";
	vm_added(&vm);
	cr_expect_str_eq(path_of("lab-2"), "/other");
}

Test(vpmud_tree, a_tenant_called_as_its_cgroup_goes_with_it)
{
	struct cgroup a, b;

	start("[tenant /pods/*]\ncgroup = /k/*\n");
	found(&a, "/k/a", 50, "/pods/a");
	found(&b, "/k/b", 51, "/pods/b");
	fake_charge(in("/pods/a"), 0, 3);
	tree_cgroup_removed(t, &a);
	cr_expect_null(in("/pods/a"));
	CGROUP_BOUND(50, NULL);
	CGROUP_BOUND(51, in("/pods/b"));
	cr_expect_eq(fake_total(in("/pods"), 0), 3, "the parent has its counts");
	/* A tenant that had a VM stays for the VM's next start. */
	vm_added(&(struct disc_vm){.name = "v", .kind = "qemu", .cgroup = "/k/b/x"});
	tree_vm_removed(t, &(struct disc_vm){.name = "v"});
	tree_cgroup_removed(t, &b);
	cr_expect(in("/pods/b"));
	tree_prune(t);
	cr_expect_null(in("/pods/b"));
	cr_expect(in("/pods"), "made for its children only, and it keeps their counts");
}

Test(vpmud_tree, new_rules)
{
	struct disc_vm vm = vm_of(7, "web", NULL, "/m", 50, "01");
	struct cgroup s;

	start("[tenant /old]\nvm = web\n[tenant /both]\ncgroup = /s\n");
	vm.kind = "libvirt";
	procs("/m", "7\n");
	vm_added(&vm);
	found(&s, "/s", 51, "/both");
	fake_charge(vcpu_in("web", 0), 0, 4);
	read_rules(&conf2, "[tenant /new/x]\nvm = w*\n[tenant /both]\ncgroup = /s\n");
	tree_rules(t, &conf2.rules);
	tree_prune(t);
	cr_expect_str_eq(tenant_vm_find(ts, "web")->path, "/new/x");
	CGROUP_BOUND(50, in("web"));
	CGROUP_BOUND(51, in("/both"));
	TASK_BOUND(701, vcpu_in("web", 1));
	cr_expect_null(in("/old"), "no rule names it");
	cr_expect_eq(fake_total(&fake.root.n, 0), 4, "its counts are the host's");
	fake_charge(vcpu_in("web", 0), 0, 1);
	cr_expect_eq(fake_total(in("/new/x"), 0), 1);
	/* The same rules again change nothing. */
	tree_rules(t, &conf2.rules);
	tree_prune(t);
	cr_expect_eq(fake_total(in("web"), 0), 1);
}

/* Whoever starts a VM chooses its name, also one that another VM would get. */
Test(vpmud_tree, a_name_made_unique_that_is_taken)
{
	struct disc_vm a = vm_of(7, "web", NULL, NULL, 0, "0");
	struct disc_vm b = vm_of(8, "web@9", NULL, NULL, 0, "0");
	struct disc_vm c = vm_of(9, "web", NULL, NULL, 0, "0");

	start("");
	vm_added(&a);
	vm_added(&b);
	vm_added(&c);
	cr_expect(in("web") && in("web@9") && in("web@9.2"));
	TASK_BOUND(900, vcpu_in("web@9.2", 0));
}

Test(vpmud_tree, names_that_nodes_cannot_have)
{
	struct disc_vm a = vm_of(7, "a b\xc3\xa9", NULL, NULL, 0, "0");
	struct disc_vm b = vm_of(8, "a b\xc3\xa9", NULL, NULL, 0, "0");
	struct disc_vm c = vm_of(9, ".c", "/host", NULL, 0, ""),
		       d = vm_of(10, "", NULL, NULL, 0, "");
	char name[256];
	struct disc_vm e = vm_of(11, name, NULL, NULL, 0, ""),
		       f = vm_of(12, name, NULL, NULL, 0, "");

	memset(name, 'n', 255);
	name[255] = '\0';
	start("");
	vm_added(&a);
	vm_added(&b);
	cr_expect(in("a_b__"));
	cr_expect(in("a_b__@8"));
	TASK_BOUND(800, vcpu_in("a_b__@8", 0));
	vm_added(&c);
	cr_expect(in("_c"));
	cr_expect(strstr(notes, "VM .c: in no tenant: tenant path \"/host\""), "%s", notes);
	vm_added(&d);
	cr_expect(in("vm"));
	vm_added(&e);
	vm_added(&f);
	name[64] = '\0';
	cr_expect(in(name));
	strcpy(name + 50, "@12");
	cr_expect(in(name));
}

Test(vpmud_tree, what_cannot_be_bound_is_said)
{
	struct disc_vm vm = vm_of(7, "web", NULL, "/m", 50, "0");
	struct tree_usage u;
	struct cgroup s;

	start("[tenant /a]\ncgroup = /s\n");
	procs("/m", "7\n");
	bind_error = -ENOSPC;
	vm_added(&vm);
	found(&s, "/s", 51, "/a");
	cr_expect(strstr(notes, "VM web, process 7: a vCPU is not counted: No space left"), "%s",
		  notes);
	cr_expect(strstr(notes, "its cgroup is not counted, only its vCPUs"), "%s", notes);
	cr_expect(strstr(notes, "cgroup /s: not counted for /a: No space left"), "%s", notes);
	tree_usage(t, &u);
	cr_expect_eq(u.failed, 3);
	cr_expect_eq(u.whole_vms, 0);
	/* Later it works. */
	bind_error = 0;
	vm_changed(&vm);
	TASK_BOUND(700, vcpu_in("web", 0));
	CGROUP_BOUND(50, in("web"));
	tree_cgroup_removed(t, &s);
	tree_vm_removed(t, &vm);
}

Test(vpmud_tree, an_operator_removes_a_tenant)
{
	struct disc_vm vm = vm_of(7, "web", "/a", NULL, 0, "0");
	struct cgroup s;

	start("[tenant /b]\ncgroup = /s\n[tenant /*]\nmetadata=*\n");
	found(&s, "/s", 51, "/b");
	cr_assert_eq(tenant_remove(ts, "/b", err, sizeof(err)), 0, "%s", err);
	CGROUP_BOUND(51, NULL);
	tree_cgroup_removed(t, &s);
	vm_added(&vm);
	cr_expect_neq(tenant_remove(ts, "/a", err, sizeof(err)), 0, "it has a VM");
	tree_vm_removed(t, &vm);
	cr_expect_eq(tenant_remove(ts, "/a", err, sizeof(err)), 0, "%s", err);
	vm_added(&vm);
	cr_expect_str_eq(tenant_vm_find(ts, "web")->path, "/a", "it is made again");
}

static void look(void)
{
	for (int i = 0; i < TREE_LOOK; i++)
		tree_tend(t);
}

/* A process that is in the cgroup for a moment makes no difference, whenever that is looked at; one
 * that stays does, and for good. */
Test(vpmud_tree, a_vm_keeps_its_cgroup_until_somebody_stays_there)
{
	struct disc_vm a = vm_of(7, "a", NULL, "/u", 50, "0");

	start("");
	procs("/u", "7\n99\n"); /* what starts it */
	vm_added(&a);
	CGROUP_BOUND(50, NULL);
	procs("/u", "7\n");
	look();
	CGROUP_BOUND(50, in("a"));
	for (int i = 0; i < 3; i++) {
		procs("/u", "7\n99\n");
		vm_changed(&a);
		look();
		look();
		CGROUP_BOUND(50, in("a"));
		procs("/u", "7\n");
		look();
		CGROUP_BOUND(50, in("a"));
	}
	procs("/u", "7\n99\n");
	for (int i = 0; i < 3; i++)
		look();
	CGROUP_BOUND(50, NULL);
	TASK_BOUND(700, vcpu_in("a", 0));
	procs("/u", "7\n");
	look();
	vm_changed(&a);
	CGROUP_BOUND(50, NULL);
	next_vpmud();
	vm_added(&a);
	look();
	CGROUP_BOUND(50, NULL);
	tree_restored(t);
	look();
	CGROUP_BOUND(50, NULL);
	/* Another cgroup is another matter. */
	procs("/u2", "7\n");
	a.cgroup = "/u2";
	a.cgroup_id = 51;
	vm_changed(&a);
	CGROUP_BOUND(51, in("a"));
	cr_expect_str_eq(notes, "");
}

/* The next vpmud makes the same tree, with the state of this one. */
Test(vpmud_tree, names_and_what_was_known_outlive_it)
{
	struct disc_vm web = vm_of(7, "web", "/acme/web", "/m", 50, "01");
	struct disc_vm other = vm_of(8, "db", "/acme/web", NULL, 0, "0");
	uint64_t tenant, vm, vcpu, acme;
	struct cgroup s;
	struct node *added;

	start("[tenant /b]\ncgroup = /s\n[tenant /*]\nmetadata = *\n");
	procs("/m", "7\n");
	vm_added(&web);
	found(&s, "/s", 51, "/b");
	cr_assert_eq(tenant_add(ts, "/own", &added, err, sizeof(err)), 0);
	tenant = name_of(in("/acme/web"));
	acme = name_of(in("/acme"));
	vm = name_of(in("web"));
	vcpu = name_of(vcpu_in("web", 1));
	cr_expect(tenant && vm && vcpu && vcpu != name_of(vcpu_in("web", 0)));
	next_vpmud();
	cr_expect(in("/acme/web"), "it has had a VM");
	cr_expect_eq(name_of(in("/acme/web")), tenant);
	cr_expect_eq(name_of(in("/acme")), acme, "it has what was below it");
	cr_expect(in("/own"), "an operator has added it");
	tree_prune(t);
	cr_expect(in("/own"), "and nobody else removes it");
	web.tenant = other.tenant = NULL; /* libvirt has not answered */
	vm_added(&web);
	vm_added(&other);
	cr_expect_str_eq(tenant_vm_find(ts, "web")->path, "/acme/web");
	cr_expect_str_eq(tenant_vm_find(ts, "db")->path, "/host", "it was not there before");
	cr_expect_eq(name_of(in("web")), vm);
	cr_expect_eq(name_of(vcpu_in("web", 1)), vcpu);
	/* Cgroup 51 is no tenant's any more, but the kernel has the binding. 50 is the VM's again.
	 */
	bind(in("/b"), 51, 0);
	tree_restored(t);
	CGROUP_BOUND(50, in("web"));
	CGROUP_BOUND(51, NULL);
	/* The same VM, started again, is another one. */
	tree_vm_removed(t, &web);
	web.pid = 9;
	web.tenant = "/acme/web";
	vm_added(&web);
	cr_expect_neq(name_of(in("web")), vm);
}

/* VMs of one name are found in any order. */
Test(vpmud_tree, each_of_two_vms_of_one_name_keeps_the_name_it_had)
{
	struct disc_vm a = vm_of(getpid(), "web", NULL, NULL, 0, "0");
	struct disc_vm b = vm_of(getppid(), "web", NULL, NULL, 0, "0");
	struct disc_vm c = vm_of(1 << 23, "web", NULL, NULL, 0, "0"); /* no process's id */
	char second[40], third[40];

	snprintf(second, sizeof(second), "web@%d", b.pid);
	snprintf(third, sizeof(third), "web@%d", c.pid);
	start("");
	vm_added(&a);
	vm_added(&b);
	TASK_BOUND(b.pid * 100, vcpu_in(second, 0));
	next_vpmud();
	vm_added(&c); /* a new one is first, and takes nobody's name */
	vm_added(&b);
	vm_added(&a);
	TASK_BOUND(a.pid * 100, vcpu_in("web", 0));
	TASK_BOUND(b.pid * 100, vcpu_in(second, 0));
	TASK_BOUND(c.pid * 100, vcpu_in(third, 0));
	/* One that is called otherwise now does not keep its name. */
	b.name = "db";
	vm_changed(&b);
	cr_expect(in("db") && !in(second));
	tree_restored(t);
	/* Who was called so has ended: another one keeps its own name, and a new one gets that. */
	tree_vm_removed(t, &a);
	tree_vm_removed(t, &b);
	tree_vm_removed(t, &c);
	vm_added(&c);
	vm_added(&a);
	snprintf(second, sizeof(second), "web@%d", a.pid);
	TASK_BOUND(a.pid * 100, vcpu_in(second, 0));
	next_vpmud();
	b.name = "web";
	vm_added(&a);
	vm_added(&b);
	TASK_BOUND(a.pid * 100, vcpu_in(second, 0));
	TASK_BOUND(b.pid * 100, vcpu_in("web", 0));
	tree_restored(t);
}

Test(vpmud_tree, what_was_saved_and_is_nothing)
{
	static const char *const texts[] = {
		"null",
		"[]",
		"{}",
		"{\"tenants\":3}",
		"{\"tenants\":[3,null,\"x\",\"/a/../b\"]}",
		"{\"added\":[3,null,\"x\",\"/host\"]}",
		"{\"vms\":[3,{},{\"pid\":\"x\"},{\"pid\":7,\"start\":1}]}",
		"{\"vms\":[{\"pid\":7,\"start\":\"1\",\"name\":\"web\",\"node\":\"-/x\"}]}",
		"{\"vms\":[{\"pid\":7,\"start\":\"1\",\"name\":1,\"node\":[]}]}",
		"{\"cgroups\":[\"x\",\"-1\",7,\"0\",\"99999999999999999999999\"]}"};
	struct disc_vm web = vm_of(7, "web", NULL, NULL, 0, "0");

	start("");
	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
		json_t *saved = json_loads(texts[i], JSON_DECODE_ANY, NULL);

		cr_assert(saved);
		tree_restore(t, saved);
		vm_added(&web);
		cr_expect_str_eq(tenant_vm_find(ts, "web")->path, "/host", "%s", texts[i]);
		tree_vm_removed(t, &web);
		tree_restored(t);
		json_decref(saved);
	}
	cr_expect_null(in("/x"));
}
