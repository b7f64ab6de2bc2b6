// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Saves a VM to a file and restores it; see snapshot.h. This file handles the order of the
 * sections, and the file itself (replace, rename, sync).
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "vpmu/util/fail.h"
#include "vmm/snapshot/priv.h"

#define WHY_MAX 400

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
	snap_save_conf(arg, b);
	return 0;
}

static int fill_platform(void *arg, struct vpmu_blob *b, char *err, size_t errlen)
{
	return snap_save_platform(arg, b, err, errlen);
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
	static const uint8_t head[SNAP_HEAD] = SNAP_MAGIC "\5"; /* version, little-endian */
	struct vm *vm = e->vm;
	uint64_t pages;
	int ret;

	_Static_assert(SNAP_VERSION == 5, "head");
	snap_write(o, head, sizeof(head));
	ret = write_section(o, SNAP_CONF, fill_conf, e, err, errlen);
	if (!ret && vm->devices)
		ret = write_section(o, SNAP_PLAT, fill_platform, vm, err, errlen);
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

/* Check that @base in @at may be replaced: it does not exist, or it is a snapshot. */
static int may_replace(int at, const char *base, char *err, size_t errlen)
{
	char magic[8];
	struct stat st;
	int fd, ret = 0;

	if (fstatat(at, base, &st, AT_SYMLINK_NOFOLLOW))
		return errno == ENOENT ? 0 : fail(-errno, err, errlen, "%s", strerror(errno));
	if (!S_ISREG(st.st_mode))
		return fail(-EEXIST, err, errlen, "exists and is not a regular file");
	fd = openat(at, base, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
	if (fd < 0)
		return fail(-errno, err, errlen, "%s", strerror(errno));
	if (read(fd, magic, sizeof(magic)) != sizeof(magic) ||
	    memcmp(magic, SNAP_MAGIC, sizeof(magic)))
		ret = fail(-EEXIST, err, errlen, "exists and is not a snapshot");
	close(fd);
	return ret;
}

/* Make a temporary file in @at. Its name begins with that of the snapshot. Returns the descriptor.
 */
static int make_temporary(int at, const char *base, char tmp[NAME_MAX + 1])
{
	uint32_t n;
	int fd;

	do {
		if (getrandom(&n, sizeof(n), 0) != sizeof(n))
			return -EIO;
		snprintf(tmp, NAME_MAX + 1, "%.200s.%08x.tmp", base, n);
		fd = openat(at, tmp, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	} while (fd < 0 && errno == EEXIST);
	return fd < 0 ? -errno : fd;
}

/* Write @base in @at. */
static int snapshot_replace_file(struct machine_vm *e, int at, const char *base, char *err,
				 size_t errlen)
{
	char tmp[NAME_MAX + 1];
	struct snap_out *o;
	int ret = may_replace(at, base, err, errlen);

	if (ret)
		return ret;
	o = calloc(1, sizeof(*o));
	if (!o)
		return fail(-ENOMEM, err, errlen, "out of memory");
	o->fd = make_temporary(at, base, tmp);
	if (o->fd < 0) {
		ret = fail(o->fd, err, errlen, "%s", strerror(-o->fd));
		free(o);
		return ret;
	}
	ret = snap_save_vm(e, o, err, errlen);
	close(o->fd);
	free(o);
	if (!ret && renameat(at, tmp, at, base))
		ret = fail(-errno, err, errlen, "%s", strerror(errno));
	if (ret)
		unlinkat(at, tmp, 0);
	else if (fsync(at))
		ret = fail(-EIO, err, errlen, "written, but its directory cannot be synced");
	return ret;
}

static int snapshot_write_file(struct machine_vm *e, int dir, const char *file, char *err,
			       size_t errlen)
{
	const char *base;
	int ret, at = snap_parent(dir, file, &base, err, errlen);

	if (at < 0)
		return at;
	ret = snapshot_replace_file(e, at, base, err, errlen);
	close(at);
	return ret;
}

/* Only a VM that can continue is saved. */
static int check_state(struct machine_vm *e, char *err, size_t errlen)
{
	struct vm *vm = e->vm;

	if (!vm || vm_state(vm) == VM_DONE || vm_state(vm) == VM_FAILED)
		return fail(-ESRCH, err, errlen,
			    "vm %s: it has ended; expected a VM that is running or paused",
			    e->name);
	if (vm_failing(vm))
		return fail(-ESRCH, err, errlen,
			    "vm %s: it has failed; expected a VM that is running or paused",
			    e->name);
	return 0;
}

int snapshot_save(struct machine_vm *e, int dir, const char *file, char *err, size_t errlen)
{
	char why[WHY_MAX], more[WHY_MAX];
	bool ran;
	int ret = check_state(e, err, errlen);

	if (ret)
		return ret;
	if (e->vm->svm)
		return fail(-EOPNOTSUPP, err, errlen,
			    "vm %s: svm = yes: the state of SVM cannot be saved; expected a VM "
			    "without it",
			    e->name);
	ran = vm_state(e->vm) == VM_RUNNING;
	if (vm_unplace(e->vm))
		return fail(-EOPNOTSUPP, err, errlen,
			    "vm %s: engine %s cannot save its VMs; expected emulator or kvm",
			    e->name, e->engine);
	/* The VM may have ended or failed before it was paused. If it has failed, its other vCPUs
	 * must run to stop, so it is started again below. */
	ret = check_state(e, why, sizeof(why));
	if (ret) {
		fail(ret, err, errlen, "%s", why);
	} else {
		ret = snapshot_write_file(e, dir, file, why, sizeof(why));
		if (!ret)
			return 0;
		fail(ret, err, errlen, "vm %s: %.300s: %s", e->name, file, why);
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

	if (vm->devices) {
		struct vpmu_blob_reader r = {.data = rs->in.plat, .len = rs->in.plat_bytes};

		ret = snap_load_platform(vm, &r, why, sizeof(why));
		if (ret)
			return fail(ret, err, errlen, "section at %" PRIu64 ": %s", rs->in.plat_at,
				    why);
	}
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

int snapshot_restore(struct machine *m, int fd, const char *file, const struct snapshot_said *said,
		     struct machine_vm **out, char *err, size_t errlen)
{
	struct restore *rs = calloc(1, sizeof(*rs));
	int ret;

	if (!rs || vm_config_init(&rs->cfg, file)) {
		free(rs);
		return fail(-ENOMEM, err, errlen, "%.300s: out of memory", file);
	}
	rs->said = said;
	rs->in.name = file;
	rs->in.fd = fd;
	ret = snap_check(&rs->in, snap_load_conf, rs, err, errlen);
	if (!ret)
		ret = machine_vm_restore(m, &rs->cfg, load_vm, rs, out, err, errlen);
	snap_in_fini(&rs->in);
	vm_config_fini(&rs->cfg);
	free(rs);
	return ret;
}
