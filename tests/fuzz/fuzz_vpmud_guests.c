// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Hostile VMMs at vpmud's socket for VMMs: whole and broken requests of several VMs and of a
 * process that is none, while VMs end, their numbers are used again and the rules change. The
 * kernel's part is a fake: the peer's identity, the pages, and the backend.
 *
 * After each step: a VM has bound only events that its rules permit, of its own vCPUs only; quotas
 * are what is bound; a vCPU has a page exactly while something of it is bound, which shows that.
 */
#include <errno.h>
#include <fcntl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "vpmu/event/event.h"
#include "vpmud/config.h"
#include "vpmud/discover/procfile.h"
#include "vpmud/guests_priv.h"
#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/fuzz_assert.h"
#include "tests/unit/fake_backend.h"

#define STEPS_MAX 400
#define STEP	  12 /* bytes */
#define VMS	  3  /* and as many processes that are none */
#define VCPUS	  2
#define CLIENTS	  8
#define PAGES_MAX (VMS * VCPUS)

static const char *const configs[] = {
	"[vpmud]\nguest_events = instructions cycles page-faults\n",
	"[vpmud]\nguest_events = none\n[tenant /a/*]\nvm = a*\nvm_owner = 0\npolicy = full\n"
	"max_events = 2\n[tenant /a]\ntenant_max_events = 3\n",
	"[vpmud]\nguest_events = instructions\n[tenant /a]\nvm = a*\nvm_owner = 0\n"
	"allow = page-faults,cycles\n[tenant /b]\nvm = b*\nvm_owner = 0\npolicy = off\n",
	"[vpmud]\nguest_events = cycles\n[tenant /b]\nvm = *\nvm_owner = 0\npmu = amd-v2\ngp = 6\n"
	"deny = cycles\n",
};
static const char *const names[VMS] = {"a1", "a2", "b"};

static char root[] = "/tmp/fuzz_guests.XXXXXX", path[sizeof(root) + 8];
static struct fake_source fake;
static struct vpmu_backend_ops ops;
static struct tenants *ts;
static struct tree *tree;
static struct vpmud_config conf;
static sd_event *ev;
static struct guests *guests;

static struct {
	bool there;
	struct disc_vm vm;
	struct disc_vcpu vcpu[VCPUS];
} vms[2 * VMS]; /* by pid - 1 */

static struct {
	int fd;
	unsigned char out[sizeof(struct vpmu_totals_request)]; /* of a request that is not whole */
	size_t have;
	/* what of the requests that are not answered */
	uint32_t asked[8 * STEPS_MAX];
	size_t first, end;
} clients[CLIENTS];

/* ---- the kernel ------------------------------------------------------------------------------ */

static size_t connecting; /* the process that connects now */

int guest_peer_read(int fd, struct guest_peer *p)
{
	*p = (struct guest_peer){.pid = vms[connecting].vm.pid,
				 .start_time = vms[connecting].vm.start_time,
				 .pidfd = -1};
	return 0;
}

void guest_peer_close(struct guest_peer *p)
{
}

int disc_process(struct disc *d, pid_t pid, uint64_t start_time,
		 void (*fn)(const struct disc_vm *vm, void *arg), void *arg)
{
	if (vms[pid - 1].vm.start_time != start_time)
		return -ESRCH;
	fn(&vms[pid - 1].vm, arg);
	return 0;
}

int procfile_stat(int dir, const char *path, struct proc_stat *st)
{
	int pid, tid;

	CHECK(sscanf(path, "/proc/%d/task/%d/stat", &pid, &tid) == 2, "%s", path);
	*st = (struct proc_stat){.start_time = vms[pid - 1].vm.start_time};
	return vms[pid - 1].there ? 0 : -ENOENT;
}

struct vpmu_backend *bpf_as_backend(struct bpf_backend *k)
{
	return &fake.s;
}

unsigned int bpf_backend_users(const struct bpf_backend *k, vpmu_key_t key)
{
	return 0;
}

static struct {
	vpmu_key_t key;
	unsigned int users;
} slots[64];

static struct page {
	struct vpmu_backend_node *n;
	uint64_t shown;
} pages[PAGES_MAX];
static int page_error, slot_error;
static uint64_t spent_ns;
static bool lowered; /* a quota, maybe, below what was bound: that goes on */

static struct page *page_of(const struct vpmu_backend_node *n)
{
	for (size_t i = 0; i < PAGES_MAX; i++)
		if (pages[i].n == n)
			return &pages[i];
	return NULL;
}

int bpf_backend_totals_open(struct vpmu_backend_node *n)
{
	struct page *p = page_of(n);

	if (page_error)
		return page_error;
	p = p ? p : page_of(NULL);
	CHECK(p, "more pages than vCPUs");
	*p = (struct page){.n = n};
	return open("/dev/null", O_RDONLY | O_CLOEXEC);
}

void bpf_backend_totals_close(struct vpmu_backend_node *n)
{
	struct page *p = page_of(n);

	if (p)
		p->n = NULL;
}

void bpf_backend_totals_show(struct vpmu_backend_node *n, uint64_t shown)
{
	CHECK(page_of(n), "shown without a page");
	page_of(n)->shown = shown;
}

bool bpf_backend_has_totals(const struct vpmu_backend_node *n)
{
	return page_of(n);
}

/* The slot of @key, or a free one. */
static int slot_of(vpmu_key_t key)
{
	int at = -1;

	for (int i = 0; i < (int)NR(slots); i++)
		if (slots[i].users && slots[i].key == key)
			return i;
		else if (!slots[i].users)
			at = i;
	CHECK(at >= 0, "more keys are attached than quotas permit");
	return at;
}

int bpf_backend_slot(const struct vpmu_counting *c, size_t i)
{
	int at = slot_of(c->keys[i]);

	CHECK(slots[at].users, "the slot of what is not attached");
	return slot_error ? slot_error : at;
}

static int attach(struct vpmu_backend *s, struct vpmu_counting *list, size_t *failed)
{
	int ret = fake_attach(s, list, failed), at = slot_of(list->keys[0]);

	slots[at].key = list->keys[0];
	slots[at].users += !ret;
	return ret;
}

static void detach(struct vpmu_backend *s, struct vpmu_counting *list)
{
	int at = slot_of(list->keys[0]);

	CHECK(slots[at].users, "a detach of what is not attached");
	slots[at].users--;
	fake_detach(s, list);
}

static int bind_any(struct vpmu_backend_node *n, uint64_t id)
{
	return 0;
}

static void unbind_any(struct vpmu_backend_node *n, uint64_t id)
{
}

static int bind_task(struct vpmu_backend_node *n, pid_t tid, uint64_t start)
{
	return 0;
}

static void unbind_task(struct vpmu_backend_node *n, pid_t tid)
{
}

static void note(void *arg, const char *line)
{
}

/* ---- what must be so ------------------------------------------------------------------------- */

static void check_bind(const struct vmm *v, const struct bind *b)
{
	const struct node *vm = b->vcpu->parent;
	struct page *p = page_of(node_in(b->vcpu, &fake.s));
	uint64_t shown = 0;

	CHECK(!v->waited, "a process that is no VM has bound an event");
	CHECK(vm == tree_vm(tree, v->peer.pid, v->peer.start_time), "another VM's vCPU is bound");
	CHECK(v->policy == rules_guest(&conf.rules, b->vcpu->path), "not the policy of its tenant");
	CHECK(guest_policy_allows(v->policy, &guests->events, b->key), "a denied event is bound");
	for (const struct bind *o = v->binds; o; o = o->next) {
		CHECK(o == b || o->tid != b->tid || o->key != b->key, "bound twice");
		shown |= o->vcpu == b->vcpu ? 1ull << o->slot : 0;
	}
	CHECK(p && p->shown == shown, "the page shows something else than what is bound");
}

/* What VMMs have cost in this second does not get less when one connects again. */
static void check_spent(void)
{
	uint64_t now = guests->accept_ns;

	for (const struct vmm *v = guests->vmms; v; v = v->next)
		now += v->busy_ns;
	CHECK(now >= spent_ns, "%lu ns of %lu are forgotten", spent_ns - now, spent_ns);
	spent_ns = now;
}

static void all_is_right(void)
{
	unsigned int binds = 0, vmms = 0, with_page = 0, refs = 0;

	check_spent();
	lowered &= guests->nr_binds > 0;
	for (const struct vmm *v = guests->vmms; v; v = v->next) {
		unsigned int n = 0;

		for (const struct bind *b = v->binds; b; b = b->next, n++)
			check_bind(v, b);
		CHECK(n == v->nr_binds, "%u binds, not %u", n, v->nr_binds);
		CHECK(lowered || !v->quota.max || v->quota.nr <= v->quota.max,
		      "a VM is beyond its quota");
		binds += n;
		vmms++;
	}
	CHECK(binds == guests->nr_binds && binds == fake.countings, "%u binds, %u, %u countings",
	      binds, guests->nr_binds, fake.countings);
	CHECK(vmms == guests->nr_vmms, "%u VMMs, not %u", vmms, guests->nr_vmms);
	for (size_t i = 0; i < GUEST_KEYS_MAX; i++)
		refs += guests->quotas.all.refs[i];
	CHECK(refs == binds, "quotas count %u binds of %u", refs, binds);
	for (const struct guest_quota *q = guests->quotas.tenants; q; q = q->next)
		CHECK(lowered || !q->max || q->nr <= q->max, "a tenant is beyond its quota");
	for (size_t i = 0; i < PAGES_MAX; i++) {
		bool bound = false;

		with_page += pages[i].n != NULL;
		for (const struct vmm *v = guests->vmms; v && pages[i].n; v = v->next)
			for (const struct bind *b = v->binds; b; b = b->next)
				bound |= node_in(b->vcpu, &fake.s) == pages[i].n;
		CHECK(bound || !pages[i].n, "a page without a bind");
	}
	CHECK(with_page <= binds, "more pages than binds");
}

/* ---- steps ----------------------------------------------------------------------------------- */

static uint8_t take(const uint8_t **p, const uint8_t *stop)
{
	return *p < stop ? *(*p)++ : 0;
}

static void settle(void)
{
	for (int i = 0; i < 50 && sd_event_run(ev, 0) > 0; i++)
		;
}

/* Read the replies that have come: each whole, with a page for a bind only. */
static void replies(size_t c)
{
	char text[VPMU_TOTALS_CONFIG_MAX];
	struct vpmu_totals_reply r;
	union {
		struct cmsghdr h;
		char room[CMSG_SPACE(sizeof(int))];
	} u;

	for (;;) {
		struct iovec iov = {&r, sizeof(r)};
		struct msghdr m = {.msg_iov = &iov,
				   .msg_iovlen = 1,
				   .msg_control = &u,
				   .msg_controllen = sizeof(u.room)};
		ssize_t n = recvmsg(clients[c].fd, &m, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
		uint32_t what;
		int page;

		if (n <= 0)
			return;
		CHECK(n == (ssize_t)sizeof(r), "a reply of %zd bytes", n);
		CHECK(clients[c].first < clients[c].end, "a reply without a request");
		what = clients[c].asked[clients[c].first++];
		CHECK(r.error < 200, "error %u", r.error);
		if (m.msg_controllen) {
			memcpy(&page, CMSG_DATA(&u.h), sizeof(page));
			close(page);
			CHECK(!r.error && what == VPMU_TOTALS_BIND, "a page without a bind");
		}
		if (what != VPMU_TOTALS_CONFIG) {
			CHECK(r.slot < NR(slots), "slot %u", r.slot);
			continue;
		}
		CHECK(r.slot <= sizeof(text), "a text of %u bytes", r.slot);
		CHECK(!r.slot || recv(clients[c].fd, text, r.slot, MSG_DONTWAIT) == (ssize_t)r.slot,
		      "not all of a text");
	}
}

static void send_bytes(size_t c, const void *what, size_t len)
{
	struct vpmu_totals_request q;

	if (clients[c].fd < 0 || send(clients[c].fd, what, len, MSG_DONTWAIT | MSG_NOSIGNAL) < 0)
		return;
	for (size_t i = 0; i < len; i++) {
		clients[c].out[clients[c].have++] = ((const unsigned char *)what)[i];
		if (clients[c].have < sizeof(q))
			continue;
		memcpy(&q, clients[c].out, sizeof(q));
		clients[c].asked[clients[c].end++] = q.what;
		clients[c].have = 0;
	}
	settle();
	replies(c);
}

static void hang_up(size_t c)
{
	if (clients[c].fd >= 0)
		close(clients[c].fd);
	clients[c].fd = -1;
	clients[c].have = clients[c].first = clients[c].end = 0;
}

static void hello(size_t c, size_t process)
{
	struct sockaddr_un at = {.sun_family = AF_UNIX};

	hang_up(c);
	strcpy(at.sun_path, path);
	clients[c].fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	CHECK(clients[c].fd >= 0, "no socket");
	connecting = process;
	if (connect(clients[c].fd, (struct sockaddr *)&at, sizeof(at)))
		hang_up(c);
	settle();
}

/* A request of which at most one field is wrong. */
static void request(size_t c, const uint8_t **p, const uint8_t *stop)
{
	static const char *const events[] = {
		"page-faults",	    "cycles:G",	       "instructions:G",
		"instructions:Gu",  "instructions:Gk", "cycles",
		"context-switches", "r01c0:G",	       "branches:G"};
	static const uint32_t whats[] = {VPMU_TOTALS_BIND, VPMU_TOTALS_BIND, VPMU_TOTALS_UNBIND,
					 VPMU_TOTALS_CONFIG};
	struct vpmu_totals_request q = {.version = VPMU_TOTALS_VERSION};
	uint8_t what = take(p, stop), event = take(p, stop), thread = take(p, stop);
	vpmu_key_t key;
	char err[200];

	q.what = whats[what % NR(whats)];
	if (what >= 250)
		q.what = what;
	if (q.what != VPMU_TOTALS_CONFIG || what >= 128) {
		q.key = vpmu_event_parse(events[event % NR(events)], vpmu_event_host_space(), &key,
					 err, sizeof(err))
				? 0
				: key;
		q.tid = 10 * (1 + thread / 4 % VMS) + thread % 4;
	}
	if (event >= 248)
		for (size_t i = 0; i < sizeof(q.key); i++)
			q.key = q.key << 8 | take(p, stop);
	q.zero = thread >= 252;
	q.version += thread == 251;
	send_bytes(c, &q, sizeof(q));
}

static void read_rules(size_t i)
{
	char err[300];

	vpmud_config_init(&conf);
	CHECK(!vpmud_config_text(&conf, "f", configs[i], strlen(configs[i]), err, sizeof(err)),
	      "%s", err);
}

static void reload(size_t i)
{
	struct vpmud_config old = conf;

	lowered = true;
	read_rules(i);
	tree_rules(tree, &conf.rules);
	tree_prune(tree);
	guests_rules(guests, &conf.rules, conf.guest_events);
	vpmud_config_fini(&old);
}

/* A VM ends; the next process of its number begins. */
static void vm_step(size_t i, bool there)
{
	if (vms[i].there)
		tree_vm_removed(tree, &vms[i].vm);
	vms[i].there = there;
	vms[i].vm.start_time++;
	for (size_t k = 0; k < VCPUS; k++)
		vms[i].vcpu[k].start_time = vms[i].vm.start_time;
	if (there)
		tree_vm_added(tree, &vms[i].vm);
}

static void step(const uint8_t **p, const uint8_t *stop)
{
	uint8_t op = take(p, stop);
	size_t c = op / 16 % CLIENTS;
	char bytes[STEP];
	size_t n = 0;

	switch (op % 16) {
	case 0:
	case 1:
		hello(c, take(p, stop) % NR(vms));
		break;
	case 2:
		hang_up(c);
		settle();
		break;
	case 3:
		for (size_t len = 1 + take(p, stop) % (STEP - 2); n < len; n++)
			bytes[n] = (char)take(p, stop);
		send_bytes(c, bytes, n);
		break;
	case 4:
		reload(take(p, stop) % NR(configs));
		break;
	case 5:
		vm_step(c % VMS, op & 0x80);
		break;
	case 6:
		guests_tend(guests);
		spent_ns = 0;
		break;
	case 7:
		fake.attach_error = op & 0x80 ? -ENOSPC : 0;
		page_error = op & 0x40 ? -ENOENT : 0;
		slot_error = op & 0x20 ? -EOPNOTSUPP : 0;
		break;
	default:
		request(c, p, stop);
	}
	settle();
	all_is_right();
}

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
	ops = fake_ops;
	ops.attach = attach;
	ops.detach = detach;
	CHECK(mkdtemp(root), "no directory");
	snprintf(path, sizeof(path), "%s/v", root);
	for (size_t i = 0; i < NR(vms); i++) {
		vms[i].vm = (struct disc_vm){.pid = (pid_t)i + 1,
					     .name = names[i % VMS],
					     .kind = "qemu",
					     .vcpus = vms[i].vcpu,
					     .nr_vcpus = VCPUS};
		for (size_t k = 0; k < VCPUS; k++)
			vms[i].vcpu[k] =
				(struct disc_vcpu){(int)k, 10 * vms[i].vm.pid + (pid_t)k, 0};
	}
	return 0;
}

static void begin(size_t config)
{
	static const struct tree_backend backend = {&fake.s,	 bind_any, unbind_any, bind_task,
						    unbind_task, NULL,	   NULL};
	struct guests_opts o = {.path = path};
	char err[300];

	fake_init(&fake, "bpf", 0);
	fake.s.ops = &ops;
	page_error = slot_error = 0;
	lowered = false;
	spent_ns = 0;
	read_rules(config);
	CHECK(sd_event_new(&ev) >= 0, "no event loop");
	CHECK(!tenants_create(NULL, &ts, err, sizeof(err)) && !tenants_add_source(ts, &fake.s),
	      "no tenants");
	tree = tree_create(ts, &backend, &conf.rules, root, note, NULL);
	o.ev = ev;
	o.events = conf.guest_events;
	o.rules = &conf.rules;
	o.ts = ts;
	o.tree = tree;
	CHECK(!guests_open(&o, &guests, err, sizeof(err)), "%s", err);
	for (size_t i = 0; i < VMS; i++)
		vm_step(i, true);
	for (size_t i = 0; i < CLIENTS; i++)
		clients[i].fd = -1;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const uint8_t *p = data, *stop = data + size;

	begin(take(&p, stop) % NR(configs));
	for (int i = 0; i < STEPS_MAX && stop - p >= STEP; i++) {
		const uint8_t *at = p;

		p += STEP;
		step(&at, p);
	}
	guests_close(guests);
	for (size_t i = 0; i < CLIENTS; i++)
		hang_up(i);
	CHECK(!fake.countings, "countings are left behind");
	for (size_t i = 0; i < PAGES_MAX; i++)
		CHECK(!pages[i].n, "pages are left behind");
	for (size_t i = 0; i < VMS; i++)
		if (vms[i].there)
			tree_vm_removed(tree, &vms[i].vm);
	for (size_t i = 0; i < VMS; i++)
		vms[i].there = false;
	tree_destroy(tree);
	tenants_destroy(ts);
	sd_event_unref(ev);
	vpmud_config_fini(&conf);
	return 0;
}

/* ---- mutation: mostly a whole step, such as a VMM of a VM makes in good order ------------------
 */

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max, unsigned int seed)
{
	uint8_t whole[STEP] = {0}, vm = seed >> 4 & 3, any = (uint8_t)(seed >> 6);
	size_t at;

	if (seed % 4 == 0 || size < 1 || size + STEP > max)
		return LLVMFuzzerMutate(data, size, max);
	whole[0] = (uint8_t)(vm << 4);
	switch (seed >> 2 & 3) {
	case 0:
		whole[1] = any % 8 ? vm : any;
		break;
	case 1:
		whole[0] |= any % 4 ? 4 : any >> 2 & 7;
		whole[1] = any >> 2;
		break;
	default: /* to bind or unbind */
		whole[0] |= 8;
		whole[1] = any % 8 ? 0 : 2;
		whole[2] = (uint8_t)(seed >> 12 & 7);
		whole[3] = (uint8_t)(vm * 4 + (any >> 7));
	}
	at = 1 + (seed >> 15) % ((size - 1) / STEP + 1) * STEP;
	memmove(data + at + STEP, data + at, size - at);
	memcpy(data + at, whole, STEP);
	return size + STEP;
}
