// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Histories of a host against vpmud's tree and the control protocol on it. Each line of the input
 * is one step: a VM or a cgroup appears, changes or goes, with numbers that are soon used again;
 * the configuration is read again; binding fails; vpmud ends and the next one restores the tree; an
 * administrator or a reader of one tenant sends a request. The backend is a fake that checks what
 * service/backend/backend.h and tree.h promise it.
 *
 * After each step: all counts are still there, nothing is bound to a node that is gone, all VMs are
 * known. A reader's request changes no node and shows no other tenant.
 */
#include <errno.h>
#include <sys/stat.h>
#include <unistd.h>

#include "service/listener.h"
#include "service/server.h"
#include "vpmud/config.h"
#include "vpmud/tree.h"
#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/fuzz_assert.h"
#include "tests/fuzz/fuzz_vpmud_backend.h"
#include "tests/unit/fake_backend.h"

#define STEPS_MAX 100
#define LONG_NAME                                                                                  \
	"a-name-that-is-longer-than-any-node-may-have-0123456789012345678901234567890123456789"

/* ---- the host ------------------------------------------------------------------------------- */

/* Cgroups that can be there; the files cgroup.procs in @root list their processes. */
static const struct {
	const char *path, *procs;
} cgroups[] = {{"/acme", ""},	       {"/acme-1", "1\n"},  {"/globex", "2\n"},
	       {"/pods", "1\n2\n"},    {"/pods/p1", "3\n"}, {"/pods/p 2", "3\n4\n"},
	       {"/machine/vm1", "1\n"}};

static const char *const configs[] = {
	"",
	"[tenant /acme]\ncgroup = /acme*\nvm = a-*\n[tenant /globex]\ncgroup = /globex\nvm = g-*\n",
	"[tenant /acme]\ncgroup = /pods\n[tenant /pods/*]\ncgroup = /pods/p*\n",
	"[tenant /globex/*]\nvm = *\n[tenant /acme/x]\nmetadata = /acme*\ncgroup = /machine/*\n",
	"[tenant /globex/*]\nvm = *\nvm_owner = 1\n",
	"[tenant /acme/*]\nmetadata = *\n[tenant /globex]\ncgroup = /*\n",
};
static const char *const names[] = {"a-1", "a-1",  "g-1",   "web",    "-x", "\xc3\xa4\xc3\xb6",
				    "a/b", "host", "a-1@1", LONG_NAME};
static const char *const metadata[] = {NULL,	"/acme", "/globex", "/acme/x",
				       "/host", "/",	 "/..",	    "no path"};
static const char *const kinds[] = {"qemu", "libvirt", "kvm", "vpmu-vmm"};

struct vm {
	bool there;
	struct disc_vm vm;
	struct disc_vcpu vcpu[4];
	/* What the tree was told last and before that, which it keeps. */
	struct {
		struct disc_vm vm;
		struct disc_vcpu vcpu[4];
	} told[2];
	unsigned int telling;
};
static struct vm vms[5]; /* by pid - 1 */
static struct {
	bool there, reported;
	struct cgroup c;
	char tenant[TENANT_PATH_MAX + 1];
} present[NR(cgroups)];

static char root[] = "/tmp/fuzz_vpmud.XXXXXX";
static struct fake_source fake;
static struct vpmu_backend_ops ops;
static struct tenants *ts;
static struct tree *tree;
static struct server *server;
static struct vpmud_config conf;
static uint64_t charged[FAKE_EVENTS];
static bool disturbed; /* binding has failed, or an operator has removed tenants */

/* ---- life of vpmud -------------------------------------------------------------------------- */

static void read_config(struct vpmud_config *c, size_t i)
{
	char err[300];

	vpmud_config_init(c);
	CHECK(!vpmud_config_text(c, "f", configs[i], strlen(configs[i]), err, sizeof(err)),
	      "a configuration is refused");
}

/* Report the rules' result for each cgroup, as cgroups.c does: first lost matches. */
static void scan_cgroups(void)
{
	char path[TENANT_PATH_MAX + 1], why[300];

	for (int adding = 0; adding < 2; adding++) {
		for (size_t i = 0; i < NR(cgroups); i++) {
			bool want = present[i].there && rules_cgroup(&conf.rules, cgroups[i].path,
								     path, why, sizeof(why));

			if (present[i].reported && !adding &&
			    (!want || strcmp(path, present[i].tenant))) {
				tree_cgroup_removed(tree, &present[i].c);
				present[i].reported = false;
			} else if (want && adding && !present[i].reported) {
				snprintf(present[i].tenant, sizeof(present[i].tenant), "%s", path);
				present[i].c.path = cgroups[i].path;
				present[i].c.tenant = present[i].tenant;
				present[i].c.user = NULL;
				present[i].c.born = present[i].c.id % 3;
				present[i].reported = true;
				tree_cgroup_added(tree, &present[i].c);
			}
		}
	}
	tree_cgroups_settle(tree, 1);
}

static void reload(size_t i)
{
	struct vpmud_config old = conf;

	read_config(&conf, i % NR(configs));
	tree_rules(tree, &conf.rules);
	scan_cgroups();
	tree_prune(tree);
	vpmud_config_fini(&old);
}

static int cmd_reload(void *arg, const json_t *req, json_t *resp, char *err, size_t errlen)
{
	reload((size_t)json_integer_value(json_object_get(req, "n")) % NR(configs));
	return 0;
}

static const struct disc_vm *told(struct vm *v)
{
	unsigned int i = v->telling ^= 1;

	v->told[i].vm = v->vm;
	memcpy(v->told[i].vcpu, v->vcpu, sizeof(v->vcpu));
	v->told[i].vm.vcpus = v->told[i].vcpu;
	return &v->told[i].vm;
}

/* By its number: whether the vpmud before has bound it. */
static bool has_cgroup(const struct vpmu_backend *s, uint64_t id)
{
	return id % 2;
}

static void begin(const json_t *saved)
{
	static const struct tree_backend backend = {
		&fake.s, bind_cgroup, unbind_cgroup, bind_task, unbind_task, NULL, has_cgroup};
	static const struct server_opts opts = {
		.name = "vpmud", .path = "/nowhere", .vm_info = tree_vm_info};
	char err[300];

	fake_init(&fake, "bpf", VPMU_BACKEND_SAMPLES);
	fake.s.ops = &ops;
	memset(charged, 0, sizeof(charged));
	CHECK(!tenants_create(NULL, &ts, err, sizeof(err)) && !tenants_add_source(ts, &fake.s),
	      "no tenants");
	tree = tree_create(ts, &backend, &conf.rules, root, note, NULL);
	if (saved)
		tree_restore(tree, saved);
	CHECK(!server_create(ts, NULL, &opts, &server, err, sizeof(err)) &&
		      !server_register(server, "reload", cmd_reload, NULL),
	      "no server");
}

static void end(void)
{
	server_destroy(server);
	tree_destroy(tree);
	memset(binds, 0, sizeof(binds)); /* the backend ends with vpmud */
	tenants_destroy(ts);
}

/* vpmud ends, and the next one finds the host as it is. */
static void restart(void)
{
	json_t *saved = tree_save(tree);

	CHECK(saved, "the tree cannot be saved");
	end();
	begin(saved);
	json_decref(saved);
	for (size_t i = 0; i < NR(cgroups); i++)
		present[i].reported = false;
	scan_cgroups();
	for (size_t i = 0; i < NR(vms); i++)
		if (vms[i].there)
			tree_vm_added(tree, told(&vms[i]));
	tree_restored(tree);
}

/* ---- steps ---------------------------------------------------------------------------------- */

/* A number below @n of the next byte of the step; 0 when there is none. */
static size_t pick(const char **at, const char *stop, size_t n)
{
	return *at < stop ? (unsigned char)*(*at)++ % n : 0;
}

static void step_cgroup(const char *p, const char *stop)
{
	size_t i = pick(&p, stop, NR(cgroups));
	uint64_t id = 1 + pick(&p, stop, 9);

	if (present[i].there) {
		present[i].there = false;
		scan_cgroups();
		return;
	}
	for (size_t k = 0; k < NR(cgroups); k++)
		if (present[k].there && present[k].c.id == id)
			return; /* the kernel gives a number once at a time */
	present[i].there = true;
	present[i].c.id = id;
	scan_cgroups();
}

/* A VM appears or changes; the process of that number may be another one than before. */
static void step_vm(const char *p, const char *stop)
{
	struct vm *v = &vms[pick(&p, stop, NR(vms))];
	uint64_t start = 1 + pick(&p, stop, 2);
	bool again = v->there && v->vm.start_time == start;
	size_t cgroup, nr = 0;

	if (v->there && !again)
		tree_vm_removed(tree, &v->vm);
	v->there = true;
	v->vm = (struct disc_vm){
		.pid = (pid_t)(v - vms) + 1,
		.start_time = start,
		.name = names[pick(&p, stop, NR(names))],
		.tenant = metadata[pick(&p, stop, NR(metadata))],
		.kind = kinds[pick(&p, stop, NR(kinds))],
		.uid = (uid_t)(v - vms),
		.vcpus = v->vcpu,
	};
	cgroup = pick(&p, stop, NR(cgroups) + 1);
	if (cgroup < NR(cgroups) && present[cgroup].there) {
		v->vm.cgroup = cgroups[cgroup].path;
		v->vm.cgroup_id = present[cgroup].c.id;
	}
	/* Sorted by index; the threads are those of this process only. */
	for (int index = -1; nr < NR(v->vcpu) && p < stop; nr++) {
		index += 1 + (int)pick(&p, stop, 2000);
		v->vcpu[nr] = (struct disc_vcpu){index, v->vm.pid * 10 + (pid_t)pick(&p, stop, 10),
						 start};
		for (size_t k = 0; k < nr; k++)
			if (v->vcpu[k].tid == v->vcpu[nr].tid)
				p = stop;
		if (p == stop)
			break;
	}
	v->vm.nr_vcpus = nr;
	if (again)
		tree_vm_changed(tree, told(v));
	else
		tree_vm_added(tree, told(v));
}

static void step_vm_gone(const char *p, const char *stop)
{
	struct vm *v = &vms[pick(&p, stop, NR(vms))];

	if (v->there)
		tree_vm_removed(tree, &v->vm);
	v->there = false;
}

static int charge(struct node *n, unsigned int depth, void *arg)
{
	struct vpmu_backend_node *in = node_in(n, &fake.s);
	uint64_t *next = arg;

	for (unsigned int ev = 0; in && ev < FAKE_EVENTS; ev++) {
		fake_charge(in, ev, ++*next);
		charged[ev] += *next;
	}
	if (n->kind == NODE_VCPU && in)
		fake_sample(in, *next);
	return 0;
}

/* ---- requests ------------------------------------------------------------------------------- */

static const struct access reader = {.uid = 1000, .nr = 1, .tenants = {"/acme"}};

/* Every tenant that @v names is one that the reader sees, or that the request has named. */
static void only_visible(const json_t *v, const char *request, size_t len)
{
	const json_t *member;
	const char *key, *text;
	size_t i;

	if (json_is_array(v))
		json_array_foreach (v, i, member)
			only_visible(member, request, len);
	if (!json_is_object(v))
		return;
	json_object_foreach ((json_t *)v, key, member) {
		only_visible(member, request, len);
		text = json_string_value(member);
		/* Where a VM of its own runs is no secret. An error may begin with a wrong key. */
		if (text && *text == '/' && strcmp(key, "cgroup") && strcmp(key, "error"))
			CHECK(access_sees(&reader, text) ||
				      memmem(request, len, text, strlen(text)),
			      "a reader is shown another tenant");
		if (text && !strcmp(key, "error"))
			CHECK(!strstr(text, "/globex") || memmem(request, len, "/globex", 7),
			      "a reader is told of another tenant");
	}
}

static int add_serial(struct node *n, unsigned int depth, void *sum)
{
	*(uint64_t *)sum = *(uint64_t *)sum * 31 + n->serial;
	return 0;
}

/* A hash of all nodes, in their order, and of all bindings. */
static uint64_t nodes_now(void)
{
	uint64_t sum = 0;

	tenants_walk(ts, add_serial, &sum);
	for (size_t i = 0; i < BINDS_MAX; i++)
		sum = sum * 31 + (binds[i].n != NULL);
	return sum;
}

static void request(const struct access *who, const char *line, size_t len)
{
	uint64_t before = nodes_now(), after;
	char *answer = server_dispatch_conn(server, who, line, len, NULL);
	json_t *obj;

	CHECK(answer && strchr(answer, '\n') == answer + strlen(answer) - 1, "not one line");
	obj = json_loads(answer, JSON_REJECT_DUPLICATES, NULL);
	CHECK(obj && json_is_boolean(json_object_get(obj, "ok")), "%s", answer);
	if (json_is_false(json_object_get(obj, "ok"))) {
		const char *text = json_string_value(json_object_get(obj, "error"));

		CHECK(text && *text && !strpbrk(text, "\n\r\x1b"), "an error without a clean line");
	}
	if (who) {
		after = nodes_now();
		CHECK(after == before, "a reader has changed the tree");
		only_visible(obj, line, len);
	}
	json_decref(obj);
	free(answer);
}

static void step(const char *p, const char *stop)
{
	uint64_t next = (uint64_t)(stop - p);

	switch (p < stop ? *p : 0) {
	case 'c':
		step_cgroup(p + 1, stop);
		break;
	case 'v':
		step_vm(p + 1, stop);
		break;
	case 'x':
		step_vm_gone(p + 1, stop);
		break;
	case 'r':
		p++;
		reload(pick(&p, stop, NR(configs)));
		break;
	case 'e':
		p++;
		disturbed = true;
		bind_error = (const int[]){0, -ENOMEM, -ENOSPC, -ESRCH}[pick(&p, stop, 4)];
		break;
	case 'a':
		p++;
		fake.attach_error = (const int[]){0, -ENOSPC, -ENOMEM}[pick(&p, stop, 3)];
		break;
	case 'S':
		restart();
		break;
	case '+':
		tenants_walk(ts, charge, &next);
		break;
	case '?':
		request(&reader, p + 1, (size_t)(stop - p - 1));
		break;
	default:
		disturbed |= memmem(p, (size_t)(stop - p), "tenant-", 7) != NULL;
		request(NULL, p, (size_t)(stop - p));
	}
}

static int count_vms(struct node *n, unsigned int depth, void *nr)
{
	*(size_t *)nr += n->kind == NODE_VM;
	return 0;
}

/* What has not been disturbed is counted: each VM, each of its threads, each cgroup of a rule. */
static void all_is_counted(void)
{
	size_t nodes = 0, there = 0;

	for (size_t i = 0; i < NR(vms); i++) {
		there += vms[i].there;
		for (size_t k = 0; vms[i].there && k < vms[i].vm.nr_vcpus; k++)
			CHECK(vms[i].vcpu[k].index >= TENANT_VCPUS_MAX ||
				      bind_of(0, vms[i].vcpu[k].tid),
			      "a vCPU is not counted");
	}
	tenants_walk(ts, count_vms, &nodes);
	CHECK(nodes == there, "a VM has no node");
	for (size_t i = 0; i < NR(cgroups); i++)
		CHECK(!present[i].reported || bind_of(present[i].c.id, 0),
		      "a cgroup of a tenant is not counted");
}

static void all_is_right(void)
{
	struct tree_usage u;
	size_t there = 0;

	for (unsigned int ev = 0; ev < FAKE_EVENTS; ev++)
		CHECK(fake_total(&fake.root.n, ev) == charged[ev], "counts were lost or made up");
	for (size_t i = 0; i < NR(vms); i++)
		there += vms[i].there;
	if (!disturbed)
		all_is_counted();
	tree_usage(tree, &u);
	CHECK(u.vms == there, "VMs are missing, or there is one too many");
	CHECK(u.whole_vms <= u.vms, "more VMs have a cgroup than there are");
	/* Nothing is bound that is not there: a leak would count one VM's threads for another. */
	for (size_t i = 0; i < BINDS_MAX; i++) {
		pid_t pid = binds[i].tid / 10;

		if (binds[i].n && binds[i].tid)
			CHECK(pid >= 1 && (size_t)pid <= NR(vms) && vms[pid - 1].there,
			      "a thread of a process that has ended is bound");
	}
}

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
	char path[200];
	FILE *f;

	ops = fake_ops;
	ops.node_remove = node_remove;
	ops.sample_start = sample_start;
	CHECK(mkdtemp(root), "no directory");
	for (size_t i = 0; i < NR(cgroups); i++) {
		snprintf(path, sizeof(path), "%s%s", root, cgroups[i].path);
		for (char *s = path + strlen(root) + 1; (s = strchr(s, '/')); *s++ = '/') {
			*s = '\0';
			mkdir(path, 0700);
		}
		mkdir(path, 0700);
		strcat(path, "/cgroup.procs");
		f = fopen(path, "w");
		CHECK(f && fputs(cgroups[i].procs, f) >= 0 && !fclose(f), "no file");
	}
	return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const char *p = (const char *)data, *stop = p + size;

	memset(vms, 0, sizeof(vms));
	memset(present, 0, sizeof(present));
	bind_error = 0;
	disturbed = false;
	read_config(&conf, size % NR(configs));
	begin(NULL);
	for (int i = 0; i < STEPS_MAX && p < stop; i++) {
		const char *nl = memchr(p, '\n', (size_t)(stop - p));

		step(p, nl ? nl : stop);
		all_is_right();
		p = nl ? nl + 1 : stop;
	}
	end();
	CHECK(!fake.nodes, "nodes are left behind");
	vpmud_config_fini(&conf);
	return 0;
}

/* ---- mutation: whole steps ------------------------------------------------------------------ */

static const char *const whole[] = {
	"c01\n",
	"c12\n",
	"c23\n",
	"c34\n",
	"c45\n",
	"c56\n",
	"c67\n",
	"v00001101\n",
	"v0110120123\n",
	"v1021021\n",
	"v20311\n",
	"v3000500\n",
	"v10000\n",
	"v04200211223\n",
	"x0\n",
	"x1\n",
	"x2\n",
	"r0\n",
	"r1\n",
	"r2\n",
	"r3\n",
	"r4\n",
	"e0\n",
	"e1\n",
	"e3\n",
	"a0\n",
	"a1\n",
	"S\n",
	"+\n",
	"+\n",
	"{\"cmd\":\"attach\",\"events\":\"instructions,cycles\",\"scope\":\"tenant\"}\n",
	"{\"cmd\":\"attach\",\"events\":\"cycles\",\"scope\":\"vcpu\",\"name\":\"n\"}\n",
	"?{\"cmd\":\"attach\",\"events\":\"instructions\",\"scope\":\"vm\",\"name\":\"m\"}\n",
	"?{\"cmd\":\"attach\",\"events\":\"cycles\",\"target\":\"/acme\",\"scope\":\"vm\"}\n",
	"?{\"cmd\":\"attach\",\"events\":\"cycles\",\"target\":\"g-1\"}\n",
	"{\"cmd\":\"read\",\"session\":\"@1\",\"keep-gone\":true}\n",
	"?{\"cmd\":\"read\",\"session\":\"@1\"}\n",
	"?{\"cmd\":\"read\",\"session\":\"m\",\"keep-gone\":true}\n",
	"{\"cmd\":\"read\",\"session\":\"n\"}\n",
	"{\"cmd\":\"detach\",\"session\":\"@1\"}\n",
	"?{\"cmd\":\"detach\",\"session\":\"n\"}\n",
	"?{\"cmd\":\"reattach\",\"session\":\"n\"}\n",
	"{\"cmd\":\"tenant-add\",\"path\":\"/acme/x\"}\n",
	"{\"cmd\":\"tenant-remove\",\"path\":\"/acme\"}\n",
	"{\"cmd\":\"tenant-remove\",\"path\":\"/acme/x\"}\n",
	"{\"cmd\":\"tenant-remove\",\"path\":\"/globex\"}\n",
	"?{\"cmd\":\"tenant-remove\",\"path\":\"/acme\"}\n",
	"?{\"cmd\":\"tenant-add\",\"path\":\"/acme/y\"}\n",
	"{\"cmd\":\"reload\",\"n\":2}\n",
	"?{\"cmd\":\"reload\",\"n\":1}\n",
	"{\"cmd\":\"list\"}\n",
	"?{\"cmd\":\"list\"}\n",
	"?{\"cmd\":\"sessions\"}\n",
	"?{\"cmd\":\"events\"}\n",
	"?{\"cmd\":\"sharing\"}\n",
	"?{\"cmd\":\"check\"}\n",
	"?{\"cmd\":\"conservation\"}\n",
	"{\"cmd\":\"profile-start\",\"event\":\"cycles\",\"period\":7,\"target\":\"/globex\"}\n",
	"?{\"cmd\":\"profile-start\",\"event\":\"cycles\",\"period\":7,\"target\":\"/acme\"}\n",
	"?{\"cmd\":\"profile-read\",\"profile\":\"@1\"}\n",
	"{\"cmd\":\"profile-stop\",\"profile\":\"@1\"}\n",
	"?{\"cmd\":\"profiles\"}\n",
	"?{\"cmd\":\"captures\"}\n",
	"?{\"cmd\":\"lbr-attach\",\"target\":\"/acme\"}\n",
	"?{\"cmd\":\"lbr-read\",\"target\":\"/\"}\n",
};

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max, unsigned int seed)
{
	return fuzz_add_line(whole, NR(whole), data, size, max, seed);
}
