// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The configuration of a VM in a snapshot, and the part of it that a restore trusts. snapshot.c
 * calls these functions. The whole file may be forged: settings that give the VM rights or
 * resources - policy, lists, memory, tenant - are valid only as far as the operator allows.
 */
#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "vpmu/util/fail.h"
#include "vmm/snapshot/priv.h"
#include "vmm/vm/ram.h"

/* ---- saving ---- */

/* The configuration is saved as texts, keys and values. They have the same meaning and ranges as in
 * an ini file. */
static void put_text(struct vpmu_blob *b, const char *text)
{
	size_t n = strlen(text);

	vpmu_blob_u16(b, (uint16_t)n);
	vpmu_blob_bytes(b, text, n);
}

static void put_key(struct vpmu_blob *b, const char *key, const char *value)
{
	if (!value || !*value)
		return; /* not set */
	put_text(b, key);
	put_text(b, value);
}

static void put_number(struct vpmu_blob *b, const char *key, uint64_t v)
{
	char text[24];

	snprintf(text, sizeof(text), "%" PRIu64, v);
	put_key(b, key, v ? text : NULL);
}

/* The path of the image or kernel is saved for symbols in profiles: absolute if it exists,
 * otherwise as given. */
static void put_image(struct vpmu_blob *b, const char *key, const char *image)
{
	char *path = image ? realpath(image, NULL) : NULL;

	put_key(b, key, path && strlen(path) < PATH_MAX ? path : image);
	free(path);
}

void snap_save_conf(const struct machine_vm *e, struct vpmu_blob *b)
{
	const struct vpmu_guest_cfg *pmu = &e->vm->vcpus[0].guest->cfg;

	put_key(b, "name", e->name);
	put_key(b, "tenant", e->node->parent->kind == NODE_TENANT ? e->node->path : NULL);
	put_key(b, "engine", e->engine);
	put_number(b, "vcpus", e->vm->nr_vcpus);
	put_number(b, "memory", vmm_ram_bytes(&e->vm->ram));
	put_key(b, "pmu", vpmu_guest_model_name(pmu->model));
	put_number(b, "gp", pmu->gp);
	put_number(b, "fixed", pmu->fixed);
	put_image(b, e->kernel ? "kernel" : "image", e->image);
	put_key(b, e->kernel ? "cmdline" : "args", e->args);
	put_key(b, "policy", vpmu_policy_tier_name(e->policy));
	put_key(b, "allow", e->allow);
	put_key(b, "deny", e->deny);
	if (e->lbr != VM_LBR_DEFAULT)
		put_key(b, "lbr", e->lbr == VM_LBR_ON ? "on" : "off");
}

/* ---- restoring ---- */

/* The keys that snap_save_conf writes. All others are set by the operator of the destination, so a
 * file with one is forged. */
static bool saved_key(const char *key)
{
	static const char *const keys[] = {
		"name",	 "tenant", "engine", "vcpus",	"memory", "pmu",   "gp",   "fixed",
		"image", "args",   "kernel", "cmdline", "policy", "allow", "deny", "lbr"};

	for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++)
		if (!strcmp(key, keys[i]))
			return true;
	return false;
}

/* Read a text of up to 4095 bytes, the length of the longest value, without NUL. */
static void get_text(struct vpmu_blob_reader *r, char text[4096])
{
	size_t n = vpmu_blob_get_u16(r);

	if (n > 4095)
		r->failed = true;
	if (r->failed)
		n = 0;
	vpmu_blob_get_bytes(r, text, n);
	text[n] = 0;
	if (strlen(text) != n)
		r->failed = true;
}

/* Settings that the file requests and the operator did not allow, as text for the error message. */
struct wants {
	char text[300];
	size_t len;
};

__attribute__((format(printf, 2, 3))) static void want(struct wants *w, const char *fmt, ...)
{
	va_list ap;
	int n;

	if (w->len >= sizeof(w->text))
		return;
	va_start(ap, fmt);
	n = vsnprintf(w->text + w->len, sizeof(w->text) - w->len, fmt, ap);
	va_end(ap);
	w->len += (size_t)n;
}

/* Limit rs->cfg, read from the file, to the operator's settings, or to the defaults for untrusted
 * files. */
static int conf_limit(struct restore *rs, const char *file, char *err, size_t errlen)
{
	const struct snapshot_said *o = rs->said;
	struct vm_config *cfg = &rs->cfg, said;
	struct wants w = {.len = 0};
	int ret = vm_config_init(&said, cfg->where);

	if (ret)
		return fail(ret, err, errlen, "%.300s: out of memory", file);
	if (o->policy)
		ret = vm_config_set(&said, "policy", o->policy, err, errlen);
	if (!ret && o->memory)
		ret = vm_config_set(&said, "memory", o->memory, err, errlen);
	if (!ret && o->engine)
		ret = vm_config_set(&said, "engine", o->engine, err, errlen);
	if (ret)
		goto out;
	if (!o->policy)
		said.policy = o->trust ? VPMU_POLICY_FULL : SNAPSHOT_POLICY;
	/* Greater is narrower. */
	if (cfg->policy < said.policy && o->policy)
		cfg->policy = said.policy;
	if (cfg->policy < said.policy)
		want(&w, " policy=%s", vpmu_policy_tier_name(cfg->policy));
	if (cfg->memory_bytes > said.memory_bytes && (o->memory || !o->trust))
		want(&w, " memory=%" PRIu64 "M", cfg->memory_bytes >> 20);
	if (*cfg->tenant && !o->tenant && !o->trust)
		want(&w, " tenant=%.100s", cfg->tenant);
	/* A list of allowed events replaces the policy. */
	if (cfg->allow && !o->allow && (o->policy || !o->trust))
		want(&w, " allow=%.100s", cfg->allow);
	/* The host's kernel would execute it. */
	if (cfg->engine != VM_ENGINE_EMU && !o->engine && !o->trust)
		want(&w, " engine=%s", vm_engine_name(cfg->engine));
	if (o->engine && cfg->engine != said.engine)
		ret = fail(-EINVAL, err, errlen,
			   "%.160s: engine: %s is invalid; expected %s, that of the file", file,
			   o->engine, vm_engine_name(cfg->engine));
	if (!ret && w.len)
		ret = fail(-EPERM, err, errlen,
			   "%.160s: the file requests%s; expected the same in the request, or "
			   "trust=yes",
			   file, w.text);
out:
	vm_config_fini(&said);
	return ret;
}

/* Returns true if the request replaces this key of the file. */
static bool conf_replaced(const struct snapshot_said *o, const char *key)
{
	return (o->name && !strcmp(key, "name")) || (o->tenant && !strcmp(key, "tenant")) ||
	       (o->allow && (!strcmp(key, "allow") || !strcmp(key, "deny"))) ||
	       (o->deny && !strcmp(key, "deny"));
}

static int replace(struct restore *rs, char *err, size_t errlen)
{
	const struct snapshot_said *o = rs->said;
	const struct {
		const char *key, *value;
	} given[] = {
		{"name", o->name},
		{"tenant", o->tenant},
		{"allow", o->allow},
		{"deny", o->deny},
		{"weight", o->weight},
		{"tenant_weight", o->tenant_weight},
		{"max_events", o->max_events},
		{"tenant_max_events", o->tenant_max_events},
	};
	int ret = 0;

	for (size_t i = 0; i < sizeof(given) / sizeof(given[0]) && !ret; i++)
		if (given[i].value)
			ret = vm_config_set(&rs->cfg, given[i].key, given[i].value, err, errlen);
	return ret;
}

int snap_load_conf(struct snap_in *in, void *arg, char *err, size_t errlen)
{
	struct vpmu_blob_reader r = {.data = in->conf, .len = in->conf_bytes};
	struct restore *rs = arg;
	char key[4096], value[4096];
	int ret = replace(rs, err, errlen);

	while (!ret && !vpmu_blob_done(&r)) {
		get_text(&r, key);
		get_text(&r, value);
		if (r.failed)
			return fail(-EINVAL, err, errlen, "%s: the configuration is damaged",
				    in->name);
		if (!saved_key(key))
			return fail(-EINVAL, err, errlen,
				    "%.160s: the configuration has the key %.80s, which no "
				    "snapshot has",
				    in->name, key);
		if (!conf_replaced(rs->said, key))
			ret = vm_config_set(&rs->cfg, key, value, err, errlen);
	}
	if (!ret)
		ret = conf_limit(rs, in->name, err, errlen);
	if (!ret)
		ret = vm_config_check(&rs->cfg, err, errlen);
	if (!ret && rs->cfg.engine == VM_ENGINE_AUTO)
		ret = fail(-EINVAL, err, errlen,
			   "%s: engine %s is invalid; expected emulator or kvm", in->name,
			   vm_engine_name(rs->cfg.engine));
	if (ret)
		return ret;
	in->vcpus = rs->cfg.vcpus;
	in->platform = rs->cfg.kernel;
	vm_ram_layout(rs->cfg.memory_bytes, &in->layout);
	return 0;
}
