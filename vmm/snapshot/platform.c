// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Saves and loads the shared state of a VM with a stock kernel: the engine's part (interrupt
 * controllers, clock), and the devices. snapshot.c calls it before it loads any vCPU. Loaded bytes
 * may be hostile, so everything is checked.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "vpmu/util/fail.h"
#include "vmm/snapshot/priv.h"

#define ENGINE_BYTES_MAX (64u << 10)

int snap_save_engine(int (*get)(void *of, void *buf, size_t *bytes), void *of, struct vpmu_blob *b)
{
	size_t section, bytes, room = 4096;
	uint8_t *buf = NULL, *more;
	int ret;

	do {
		more = realloc(buf, room);
		if (!more) {
			free(buf);
			return -ENOMEM;
		}
		buf = more;
		bytes = room;
		ret = get(of, buf, &bytes);
		room *= 2;
	} while (ret == -ENOSPC && room <= ENGINE_BYTES_MAX);
	if (!ret) {
		section = vpmu_blob_begin(b, SNAP_ENGINE, 1);
		vpmu_blob_bytes(b, buf, bytes);
		vpmu_blob_end(b, section);
	}
	free(buf);
	return ret;
}

static int get_vm_state(void *vm, void *buf, size_t *bytes)
{
	const struct vm *v = vm;

	return v->ops->get_vm_state(v->evm, buf, bytes);
}

int snap_save_platform(struct vm *vm, struct vpmu_blob *b, char *err, size_t errlen)
{
	int ret = snap_save_engine(get_vm_state, vm, b);

	if (ret)
		return fail(ret, err, errlen, "engine %s: %s", vm->ops->name, strerror(-ret));
	vm_devices_save(vm->devices, b);
	return b->failed ? fail(-ENOMEM, err, errlen, "out of memory") : 0;
}

/* Check that saving the loaded state gives the bytes of @r: none of them was ignored. Not possible
 * if real time passes on the engine's clock. */
static int platform_check_same(struct vm *vm, const struct vpmu_blob_reader *r, char *err,
			       size_t errlen)
{
	struct vpmu_blob b = {0};
	int ret = vm->ops->can & VMM_CAN_TALLY ? snap_save_platform(vm, &b, err, errlen) : 0;

	if (!ret && b.len && (b.len != r->len || memcmp(b.data, r->data, b.len)))
		ret = fail(-EINVAL, err, errlen, "no guest can have this platform");
	vpmu_blob_fini(&b);
	return ret;
}

int snap_load_platform(struct vm *vm, struct vpmu_blob_reader *r, char *err, size_t errlen)
{
	struct vpmu_blob_reader engine;
	int ret;

	if (!vpmu_blob_get_section(r, SNAP_ENGINE, 1, &engine))
		return fail(-EINVAL, err, errlen, "the engine's state is damaged");
	ret = vm->ops->set_vm_state(vm->evm, engine.data, engine.len);
	if (ret == -EINVAL)
		return fail(ret, err, errlen, "no guest can have this state of the engine");
	if (ret)
		return fail(ret, err, errlen, "engine %s: %s", vm->ops->name, strerror(-ret));
	ret = vm_devices_load(vm->devices, r);
	if (ret)
		return fail(ret, err, errlen, "its devices%s",
			    ret == -ENOMEM ? ": out of memory" : " are damaged or out of range");
	if (!vpmu_blob_done(r))
		return fail(-EINVAL, err, errlen, "there are bytes after its end");
	return platform_check_same(vm, r, err, errlen);
}
