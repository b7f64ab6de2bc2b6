// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Fuzzer of the control socket's requests: each line of the input is one request, to a server
 * with tenants and VMs that come and go by requests as well ("fuzz-vm", "fuzz-run"), so that
 * sessions have something to follow. Every answer must be one line of JSON with "ok", and at the
 * end every count must be accounted for.
 */
#include <errno.h>
#include <jansson.h>

#include "service/listener.h"
#include "service/request.h"
#include "service/server.h"
#include "tests/fuzz/fuzz.h"
#include "vpmu/context.h"
#include "vpmu/pcpu.h"
#include "vpmu/core/rcu.h"
#include "vpmu/emupmu.h"
#include "service/backend/core.h"

#define LINES_MAX 64
#define VMS_MAX	  8

static struct vpmu_backend *source;
static struct vpmu_host *host; /* of source */
static struct vpmu_emupmu pmu;
static struct vpmu_pcpu *pcpu;
static struct tenants *ts;

struct vm {
	struct node *node;
	struct vpmu_context ctx;
	struct vm *next;
};
static struct vm *vms;
static unsigned int nr_vms;

static struct vpmu_account *account_of(const struct node *n)
{
	return vpmu_backend_core_account(node_in(n, source));
}

static void vm_gone(struct vm **link)
{
	struct vm *vm = *link;

	*link = vm->next;
	nr_vms--;
	vpmu_context_fini(&vm->ctx);
	tenant_vm_remove(ts, vm->node);
	free(vm);
}

static int where(struct vpmu_context *ctx, struct vpmu_where *out)
{
	*out = (struct vpmu_where){.ip = pmu.own_clock_ns % 64 * 16, .cpl = 3};
	return pmu.own_clock_ns % 5 ? 0 : -ENODATA;
}

/* {"cmd":"fuzz-vm","name":NAME,"tenant":PATH}: add it, or remove it when it is there. */
static int cmd_vm(void *arg, const json_t *req, json_t *resp, char *err, size_t errlen)
{
	static const char *const fields[] = {"name", "tenant", NULL};
	const char *name = NULL, *path = "/host";
	struct node *t;
	struct vm *vm;
	int ret = request_fields(req, fields, err, errlen);

	if (!ret)
		ret = request_string(req, "name", true, 64, &name, err, errlen);
	if (!ret)
		ret = request_string(req, "tenant", false, 255, &path, err, errlen);
	if (ret)
		return ret;
	for (struct vm **link = &vms; *link; link = &(*link)->next) {
		if (strcmp((*link)->node->name, name) == 0) {
			vm_gone(link);
			return 0;
		}
	}
	t = tenant_find(ts, path);
	if (!t || nr_vms == VMS_MAX)
		return -ENOENT;
	vm = calloc(1, sizeof(*vm));
	ret = tenant_vm_add(ts, t, source, name, 2, NULL, &vm->node, err, errlen);
	if (ret) {
		free(vm);
		return ret;
	}
	CHECK(vpmu_context_init(&vm->ctx, account_of(node_vcpu(vm->node, 1)),
				account_of(vm->node)) == 0,
	      "no context");
	CHECK(vpmu_context_place(&vm->ctx, pcpu) == 0, "not placed");
	vm->ctx.where = where;
	vm->next = vms;
	vms = vm;
	nr_vms++;
	return 0;
}

/* The emulator's part at a branch while records are made. */
static void branch(struct vpmu_lbr_regs *r, uint64_t n)
{
	if (!(r->ctl & VPMU_LBR_EN))
		return;
	r->head = (uint8_t)((r->head + 1) % VPMU_LBR_DEPTH_MAX);
	r->e[r->head] = (struct vpmu_lbr_entry){n, ~n, n << VPMU_LBR_INFO_TYPE_SHIFT};
	if (r->count < r->depth)
		r->count++;
	r->total++;
}

static int cmd_run(void *arg, const json_t *req, json_t *resp, char *err, size_t errlen)
{
	uint64_t n = 1000;

	for (struct vm *vm = vms; vm; vm = vm->next) {
		vpmu_pcpu_switch(pcpu, &vm->ctx);
		branch(&pmu.tally->lbr, n);
		vpmu_emu_add(pmu.tally, VPMU_EMU_USR, VPMU_EMU_INSTRUCTIONS, n);
		vpmu_emu_add(pmu.tally, VPMU_EMU_OS, VPMU_EMU_CYCLES, 2 * n);
		pmu.own_clock_ns += n++;
	}
	vpmu_pcpu_switch(pcpu, NULL);
	vpmu_pcpu_tick(pcpu);
	return 0;
}

static void checks(json_t *rows, bool all, void *arg)
{
	json_array_append_new(rows, json_pack("{s:s}", "what", "fuzz"));
}

static int conserved(const struct vpmu_conservation *c, void *arg)
{
	CHECK(c->hardware == c->charged, "counts were lost or made up");
	return 0;
}

static bool can_count(vpmu_key_t key, enum vpmu_quality *q, char *why, size_t whylen, void *arg)
{
	snprintf(why, whylen, "the fuzzer does not know");
	*q = VPMU_Q_EXACT;
	return vpmu_key_event(key) % 2;
}

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
	static const struct vpmu_backend_core_opts opts = {
		.backend = "emulator",
		.can = VPMU_BACKEND_SAMPLES | VPMU_BACKEND_BRANCHES,
		.can_count = can_count,
	};

	urcu_memb_register_thread();
	atexit(urcu_memb_barrier);
	CHECK(vpmu_backend_core_create(&opts, &source) == 0, "no source");
	host = vpmu_backend_core_host(source);
	CHECK(vpmu_emupmu_init(&pmu, &(struct vpmu_emupmu_opts){0}) == 0 &&
		      vpmu_pcpu_create(host, &pmu.pmu, 0, &pcpu) == 0,
	      "no host");
	return 0;
}

static uint64_t number(const json_t *obj, const char *key)
{
	const char *text = json_string_value(json_object_get(obj, key));

	CHECK(text, "%s", key);
	return strtoull(text, NULL, 10);
}

/* Every sample is in a row or among the others, and together they equal the count. */
static void check_profile(const json_t *obj)
{
	uint64_t rows = number(obj, "other-rows"), samples = number(obj, "samples");
	const json_t *row;
	size_t i;

	json_array_foreach (json_object_get(obj, "rows"), i, row)
		rows += number(row, "samples");
	CHECK(rows == samples, "samples are missing in rows");
	CHECK(number(obj, "count") / number(obj, "period") == samples + number(obj, "lost"),
	      "samples are not count / period");
}

/* Every third input is a reader's, which sees one tenant only. */
static struct access reader = {.uid = 1000, .nr = 1, .tenants = {"/a"}};

static void request(struct server *s, const struct access *who, const char *line, size_t len)
{
	char *answer = server_dispatch_conn(s, who, line, len, NULL);
	json_t *obj;

	CHECK(answer, "no answer");
	CHECK(strchr(answer, '\n') == answer + strlen(answer) - 1, "not one line");
	obj = json_loads(answer, JSON_REJECT_DUPLICATES, NULL);
	CHECK(obj && json_is_boolean(json_object_get(obj, "ok")), "%s", answer);
	if (json_is_false(json_object_get(obj, "ok"))) {
		const char *text = json_string_value(json_object_get(obj, "error"));

		CHECK(text && *text && !strpbrk(text, "\n\r\x1b"), "an error without a clean line");
		CHECK(json_integer_value(json_object_get(obj, "errno")) > 0, "no errno");
	}
	if (json_object_get(obj, "samples"))
		check_profile(obj);
	json_decref(obj);
	free(answer);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const struct server_opts opts = {
		.name = "fuzz", .path = "/nowhere", .check = checks, .raw_space = VPMU_SPACE_INTEL};
	const char *p = (const char *)data, *end = p + size;
	struct vpmu_lbr_usage usage;
	struct server *s;
	char err[256];

	CHECK(tenants_create(NULL, &ts, err, sizeof(err)) == 0, "%s", err);
	CHECK(tenants_add_source(ts, source) == 0, "the source is not accepted");
	CHECK(server_create(ts, NULL, &opts, &s, err, sizeof(err)) == 0, "%s", err);
	CHECK(server_register(s, "fuzz-vm", cmd_vm, NULL) == 0, "not registered");
	CHECK(server_register(s, "fuzz-run", cmd_run, NULL) == 0, "not registered");
	for (int i = 0; i < LINES_MAX && p < end; i++) {
		const char *nl = memchr(p, '\n', (size_t)(end - p));

		if (!nl)
			nl = end;
		/* VMs are made by administrators. */
		request(s, size % 3 || memmem(p, (size_t)(nl - p), "fuzz-", 5) ? NULL : &reader, p,
			(size_t)(nl - p));
		p = nl + (nl < end);
	}
	CHECK(vpmu_host_conservation(host, conserved, NULL) == 0, "conservation failed");
	/* VMs may go while sampled and captured, and the server before them. */
	if (size % 2)
		server_destroy(s);
	while (vms)
		vm_gone(&vms);
	if (size % 2 == 0)
		server_destroy(s);
	vpmu_lbr_usage(host, &usage);
	CHECK(usage.tasks == 0, "branch records are left behind");
	tenants_destroy(ts);
	urcu_memb_barrier(); /* memory that waits for a grace period is no leak */
	return 0;
}

/* ---- mutation: whole requests, so that the parser is not all that is reached ----------------- */

static const char *const whole[] = {
	"{\"cmd\":\"attach\",\"events\":\"instructions,cycles\",\"scope\":\"tenant\"}\n",
	"{\"cmd\":\"attach\",\"events\":[\"loads:u\",\"slots\"],\"name\":\"n\",\"keep\":true}\n",
	"{\"cmd\":\"attach\",\"events\":\"loads\",\"scope\":\"vcpu\",\"target\":\"/a\"}\n",
	"{\"cmd\":\"attach\",\"events\":\"stores\",\"target\":\"v\"}\n",
	"{\"cmd\":\"read\",\"session\":\"@1\"}\n",
	"{\"cmd\":\"read\",\"session\":\"@2\",\"keep-gone\":true}\n",
	"{\"cmd\":\"read\",\"session\":\"n\"}\n",
	"{\"cmd\":\"detach\",\"session\":\"@1\"}\n",
	"{\"cmd\":\"reattach\",\"session\":\"n\"}\n",
	"{\"cmd\":\"detach\",\"session\":\"n\"}\n",
	"{\"cmd\":\"tenant-add\",\"path\":\"/a/b\"}\n",
	"{\"cmd\":\"tenant-remove\",\"path\":\"/a/b\"}\n",
	"{\"cmd\":\"fuzz-vm\",\"name\":\"v\",\"tenant\":\"/a/b\"}\n",
	"{\"cmd\":\"fuzz-vm\",\"name\":\"w\"}\n",
	"{\"cmd\":\"fuzz-run\"}\n",
	"{\"cmd\":\"list\"}\n",
	"{\"cmd\":\"events\",\"id\":1}\n",
	"{\"cmd\":\"sessions\",\"id\":\"x\"}\n",
	"{\"cmd\":\"sharing\"}\n",
	"{\"cmd\":\"conservation\"}\n",
	"{\"cmd\":\"check\"}\n",
	"{\"cmd\":\"hello\"}\n",
	"{\"cmd\":\"profile-start\",\"event\":\"instructions\",\"period\":100}\n",
	("{\"cmd\":\"profile-start\",\"event\":\"cycles:k\",\"period\":\"7\",\"lbr\":true,"
	 "\"target\":\"v\",\"name\":\"p\",\"keep\":true}\n"),
	"{\"cmd\":\"profile-read\",\"profile\":\"@1\",\"max\":3}\n",
	"{\"cmd\":\"profile-read\",\"profile\":\"p\"}\n",
	"{\"cmd\":\"profile-stop\",\"profile\":\"p\"}\n",
	"{\"cmd\":\"profile-start\",\"event\":\"loads\",\"backend\":\"emulator\",\"target\":\"/"
	"a\"}\n",
	"{\"cmd\":\"profiles\"}\n",
	"{\"cmd\":\"lbr-attach\",\"target\":\"/a\",\"mode\":\"branches\",\"name\":\"c\"}\n",
	"{\"cmd\":\"lbr-attach\",\"target\":\"v\"}\n",
	"{\"cmd\":\"lbr-attach\",\"target\":\"/\",\"mode\":\"calls\"}\n",
	"{\"cmd\":\"lbr-attach\",\"target\":\"/a\",\"backend\":\"kvm\"}\n",
	"{\"cmd\":\"lbr-read\",\"target\":\"/\"}\n",
	"{\"cmd\":\"lbr-detach\",\"capture\":\"@1\"}\n",
	"{\"cmd\":\"captures\"}\n",
};

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max, unsigned int seed)
{
	return fuzz_add_line(whole, sizeof(whole) / sizeof(whole[0]), data, size, max, seed);
}
