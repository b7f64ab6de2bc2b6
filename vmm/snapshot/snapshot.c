// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Saves a VM to a file and restores it; see snapshot.h. This file handles the VM's configuration,
 * the order of the sections, and the file itself (replace, rename, sync).
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <libgen.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "vpmu/util/fail.h"
#include "vmm/snapshot/priv.h"
#include "vmm/vm/ram.h"

#define WHY_MAX 400

/* ---- configuration --------------------------------------------------------------------------- */

/* The configuration is saved as texts, keys and values. They mean and accept the same as in an ini
 * file. */
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

/* The image's path is saved for the symbols of profiles: as an absolute path if the image exists,
 * otherwise as it was given. */
static void put_image(struct vpmu_blob *b, const char *image)
{
	char *path = image ? realpath(image, NULL) : NULL;

	put_key(b, "image", path && strlen(path) < PATH_MAX ? path : image);
	free(path);
}

static void save_conf(const struct machine_vm *e, struct vpmu_blob *b)
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
	put_image(b, e->image);
	put_key(b, "args", e->args);
	put_key(b, "policy", vpmu_policy_tier_name(e->policy));
	put_key(b, "allow", e->allow);
	put_key(b, "deny", e->deny);
	if (e->lbr != VM_LBR_DEFAULT)
		put_key(b, "lbr", e->lbr == VM_LBR_ON ? "on" : "off");
}

struct restore {
	struct vm_config cfg;
	const char *name, *tenant; /* replace those of the file, unless NULL */
	struct snap_in in;
};

/* Read a text. It may have at most 4095 bytes, the length of the longest value, and no NUL. */
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

static int load_conf(struct snap_in *in, void *arg, char *err, size_t errlen)
{
	struct vpmu_blob_reader r = {.data = in->conf, .len = in->conf_bytes};
	struct restore *rs = arg;
	char key[4096], value[4096];
	int ret = 0;

	if (rs->name)
		ret = vm_config_set(&rs->cfg, "name", rs->name, err, errlen);
	if (!ret && rs->tenant)
		ret = vm_config_set(&rs->cfg, "tenant", rs->tenant, err, errlen);
	while (!ret && !vpmu_blob_done(&r)) {
		get_text(&r, key);
		get_text(&r, value);
		if (r.failed)
			return fail(-EINVAL, err, errlen, "%s: the configuration is damaged",
				    in->name);
		if ((rs->name && !strcmp(key, "name")) || (rs->tenant && !strcmp(key, "tenant")))
			continue;
		ret = vm_config_set(&rs->cfg, key, value, err, errlen);
	}
	if (!ret)
		ret = vm_config_check(&rs->cfg, err, errlen);
	if (!ret && rs->cfg.engine != VM_ENGINE_SOFT)
		ret = fail(-EINVAL, err, errlen, "%s: engine %s, accepted: soft", in->name,
			   vm_engine_name(rs->cfg.engine));
	if (ret)
		return ret;
	in->vcpus = rs->cfg.vcpus;
	vm_ram_layout(rs->cfg.memory_bytes, &in->layout);
	return 0;
}

/* ---- saving ---------------------------------------------------------------------------------- */

static int write_section(struct snap_out *o, uint32_t tag,
			 int (*fill)(void *arg, struct vpmu_blob *b, char *err, size_t errlen),
			 void *arg, char *err, size_t errlen)
{
	struct vpmu_blob b = {0};
	size_t section = vpmu_blob_begin(&b, tag, 1);
	int ret = fill(arg, &b, err, errlen);

	vpmu_blob_end(&b, section);
	if (!ret && b.failed)
		ret = fail(-ENOMEM, err, errlen, "out of memory");
	if (!ret)
		snap_write(o, b.data, b.len);
	vpmu_blob_fini(&b);
	return ret;
}

static int fill_conf(void *arg, struct vpmu_blob *b, char *err, size_t errlen)
{
	save_conf(arg, b);
	return 0;
}

static int fill_vcpu(void *arg, struct vpmu_blob *b, char *err, size_t errlen)
{
	return snap_save_vcpu(arg, b, err, errlen);
}

static int fill_pages(void *arg, struct vpmu_blob *b, char *err, size_t errlen)
{
	vpmu_blob_u64(b, *(const uint64_t *)arg);
	return 0;
}

int snap_save_vm(struct machine_vm *e, struct snap_out *o, char *err, size_t errlen)
{
	static const uint8_t head[SNAP_HEAD] = SNAP_MAGIC "\2"; /* version, little-endian */
	struct vm *vm = e->vm;
	uint64_t pages;
	int ret;

	_Static_assert(SNAP_VERSION == 2, "head");
	snap_write(o, head, sizeof(head));
	ret = write_section(o, SNAP_CONF, fill_conf, e, err, errlen);
	for (unsigned int i = 0; i < vm->nr_vcpus && !ret; i++)
		ret = write_section(o, SNAP_VCPU, fill_vcpu, &vm->vcpus[i], err, errlen);
	if (ret)
		return ret;
	pages = snap_save_ram(o, &vm->ram);
	ret = write_section(o, SNAP_END, fill_pages, &pages, err, errlen);
	if (ret)
		return ret;
	ret = snap_finish(o);
	return ret ? fail(ret, err, errlen, "%s", strerror(-ret)) : 0;
}

/* Check that @path may be replaced: it does not exist, or it is a snapshot. */
static int may_replace(const char *path, char *err, size_t errlen)
{
	char magic[8];
	struct stat st;
	int fd, ret = 0;

	if (lstat(path, &st))
		return errno == ENOENT ? 0 : fail(-errno, err, errlen, "%s", strerror(errno));
	if (!S_ISREG(st.st_mode))
		return fail(-EEXIST, err, errlen, "exists and is not a regular file");
	fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
	if (fd < 0)
		return fail(-errno, err, errlen, "%s", strerror(errno));
	if (read(fd, magic, sizeof(magic)) != sizeof(magic) ||
	    memcmp(magic, SNAP_MAGIC, sizeof(magic)))
		ret = fail(-EEXIST, err, errlen, "exists and is not a snapshot");
	close(fd);
	return ret;
}

static int sync_dir(const char *path)
{
	char *copy = strdup(path);
	int fd = copy ? open(dirname(copy), O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;
	int ret = fd < 0 || fsync(fd) ? -errno : 0;

	if (fd >= 0)
		close(fd);
	free(copy);
	return ret;
}

static int write_file(struct machine_vm *e, const char *path, char *err, size_t errlen)
{
	char tmp[SNAPSHOT_PATH_MAX + 16];
	struct snap_out *o;
	int ret = may_replace(path, err, errlen);

	if (ret)
		return ret;
	o = calloc(1, sizeof(*o));
	if (!o)
		return fail(-ENOMEM, err, errlen, "out of memory");
	snprintf(tmp, sizeof(tmp), "%s.XXXXXX.tmp", path);
	o->fd = mkostemps(tmp, 4, O_CLOEXEC); /* mode 0600 */
	if (o->fd < 0) {
		ret = fail(-errno, err, errlen, "%s", strerror(errno));
		free(o);
		return ret;
	}
	ret = snap_save_vm(e, o, err, errlen);
	close(o->fd);
	free(o);
	if (!ret && rename(tmp, path))
		ret = fail(-errno, err, errlen, "%s", strerror(errno));
	if (ret)
		unlink(tmp);
	else if (sync_dir(path))
		ret = fail(-EIO, err, errlen, "written, but its directory cannot be synced");
	return ret;
}

/* Only what can go on is worth a file. */
static int check_state(struct machine_vm *e, char *err, size_t errlen)
{
	struct vm *vm = e->vm;

	if (!vm || vm_state(vm) == VM_DONE || vm_state(vm) == VM_FAILED)
		return fail(-ESRCH, err, errlen,
			    "vm %s: it has ended, accepted: a VM that is running or paused",
			    e->name);
	if (vm_failing(vm))
		return fail(-ESRCH, err, errlen,
			    "vm %s: it has failed, accepted: a VM that is running or paused",
			    e->name);
	return 0;
}

int snapshot_save(struct machine_vm *e, const char *path, char *err, size_t errlen)
{
	char why[WHY_MAX], more[WHY_MAX];
	bool ran;
	int ret = check_state(e, err, errlen);

	if (ret)
		return ret;
	if (strlen(path) > SNAPSHOT_PATH_MAX)
		return fail(-ENAMETOOLONG, err, errlen, "file: more than %u bytes",
			    SNAPSHOT_PATH_MAX);
	ran = vm_state(e->vm) == VM_RUNNING;
	if (vm_unplace(e->vm))
		return fail(-EOPNOTSUPP, err, errlen,
			    "vm %s: engine %s: VMs of this engine cannot be saved, accepted: soft",
			    e->name, e->engine);
	/* The VM may have ended or failed meanwhile. If it has failed, its other vCPUs must run to
	 * stop, so it is started again below. */
	ret = check_state(e, why, sizeof(why));
	if (ret) {
		fail(ret, err, errlen, "%s", why);
	} else {
		ret = write_file(e, path, why, sizeof(why));
		if (!ret)
			return 0;
		fail(ret, err, errlen, "vm %s: %.300s: %s", e->name, path, why);
	}
	if (ran && vm_start(e->vm, more, sizeof(more)))
		fail(ret, err, errlen, "vm %s: %s; also, it cannot be resumed: %s", e->name, why,
		     more);
	return ret;
}

/* ---- restoring ------------------------------------------------------------------------------- */

static int load_vm(struct vm *vm, void *arg, char *err, size_t errlen)
{
	struct restore *rs = arg;
	unsigned int live = 0;
	char why[WHY_MAX];
	int ret = 0;

	for (unsigned int i = 0; i < vm->nr_vcpus && !ret; i++) {
		struct vpmu_blob_reader r = {.data = rs->in.vcpu[i], .len = rs->in.vcpu_bytes[i]};

		ret = snap_load_vcpu(&vm->vcpus[i], &r, why, sizeof(why));
		if (ret)
			return fail(ret, err, errlen, "section at %" PRIu64 ": %s",
				    rs->in.vcpu_at[i], why);
		live += vm->vcpus[i].state == VCPU_READY;
	}
	if (!live)
		return fail(-EINVAL, err, errlen, "every vCPU of the snapshot has ended");
	atomic_store(&vm->live, live);
	return snap_load_ram(&rs->in, &vm->ram, err, errlen);
}

static int open_file(const char *path, char *err, size_t errlen)
{
	/* These flags make opening a device or a pipe harmless; it is refused below. */
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	struct stat st;

	if (fd < 0)
		return fail(-errno, err, errlen, "%.300s: %s", path, strerror(errno));
	if (!fstat(fd, &st) && S_ISREG(st.st_mode))
		return fd;
	close(fd);
	return fail(-EINVAL, err, errlen, "%.300s: not a regular file", path);
}

int snapshot_restore(struct machine *m, const char *path, const char *name, const char *tenant,
		     struct machine_vm **out, char *err, size_t errlen)
{
	struct restore *rs = calloc(1, sizeof(*rs));
	int ret;

	if (!rs || vm_config_init(&rs->cfg, path)) {
		free(rs);
		return fail(-ENOMEM, err, errlen, "%.300s: out of memory", path);
	}
	rs->name = name;
	rs->tenant = tenant;
	rs->in.name = path;
	rs->in.fd = ret = open_file(path, err, errlen);
	if (ret < 0)
		goto out;
	ret = snap_check(&rs->in, load_conf, rs, err, errlen);
	if (!ret)
		ret = machine_vm_restore(m, &rs->cfg, load_vm, rs, out, err, errlen);
	close(rs->in.fd);
out:
	snap_in_fini(&rs->in);
	vm_config_fini(&rs->cfg);
	free(rs);
	return ret;
}
