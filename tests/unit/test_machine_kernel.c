// SPDX-License-Identifier: GPL-2.0-or-later
/* vmm/machine/kernel.c: VMs that boot the same file share the unpacked image, as long as it is the
 * same file. */
#include <criterion/criterion.h>
#include <errno.h>
#include <semaphore.h>
#include <stdio.h>
#include <unistd.h>

#include "bz_image.h"
#include "vmm/machine/priv.h"

static char path[] = "/tmp/vpmu-kernel-XXXXXX";
static struct machine_kernel k;
static const struct image *out;
static char err[256];

static void put(enum bz_method m, uint8_t mark)
{
	struct bz_vmlinux kernel;
	struct image img;
	FILE *f = fopen(path, "w");

	bz_vmlinux(&kernel);
	kernel.data[0] = mark;
	cr_assert(f && bz_image(m, &kernel, sizeof(kernel), &img));
	cr_assert_eq(fwrite(img.data, img.bytes, 1, f), 1);
	cr_assert_eq(fclose(f), 0);
	image_free(&img);
}

static int get(const char *file)
{
	*err = 0;
	return machine_kernel_get(&k, file, &out, err, sizeof(err));
}

static uint8_t mark(void)
{
	return out->data[offsetof(struct bz_vmlinux, data)];
}

Test(machine_kernel, shared)
{
	int fd = mkstemp(path);
	const uint8_t *data;

	cr_assert_geq(fd, 0);
	close(fd);
	put(BZ_XZ, 1);
	cr_assert_eq(get(path), 0, "%s", err);
	cr_assert_eq(mark(), 1);
	data = out->data;
	/* The same memory, not the same contents again. */
	k.img.data[offsetof(struct bz_vmlinux, data)] = 7;
	cr_assert_eq(get(path), 0, "%s", err);
	cr_assert(out->data == data && mark() == 7);

	/* Another file of the same name; its size is another one. */
	put(BZ_GZIP, 2);
	cr_assert_eq(get(path), 0, "%s", err);
	cr_assert_eq(mark(), 2);

	/* After an error there is nothing left of the former one. */
	cr_assert_eq(truncate(path, 1000), 0);
	cr_assert_eq(get(path), -ENOEXEC);
	cr_assert(strstr(err, "bzImage") && !strchr(err, '\n'), "%s", err);
	cr_assert_null(k.img.data);
	unlink(path);
	cr_assert_eq(get(path), -ENOENT);
	put(BZ_ZSTD, 3);
	cr_assert_eq(get(path), 0, "%s", err);
	cr_assert_eq(mark(), 3);
	unlink(path);
	cr_assert_eq(get(path), -ENOENT, "what is gone is gone");
	machine_kernel_forget(&k);
	machine_kernel_forget(&k);
}

/* ---- on a thread of its own ----------------------------------------------------------------- */

static sem_t woken;

static void wake(void *arg)
{
	sem_post(arg);
}

/* The kernel is that of the next VM with this path, also if the file has been replaced. */
Test(machine_kernel, unpacked_on_a_thread)
{
	struct machine m = {.opts = {.wake = wake, .arg = &woken}};
	struct machine_unpack *u;
	int fd = mkstemp(path);

	cr_assert_geq(fd, 0);
	close(fd);
	cr_assert_eq(sem_init(&woken, 0, 0), 0);
	put(BZ_LZMA, 1);
	u = machine_unpack(&m, path);
	cr_assert(u);
	cr_assert_eq(sem_wait(&woken), 0);
	cr_assert(machine_unpacked(u));
	put(BZ_GZIP, 2);
	cr_assert_eq(machine_unpack_take(u, err, sizeof(err)), 0, "%s", err);
	cr_assert_eq(machine_kernel_get(&m.kernel, path, &out, err, sizeof(err)), 0, "%s", err);
	cr_assert_eq(mark(), 1);
	cr_assert_eq(machine_kernel_get(&m.kernel, path, &out, err, sizeof(err)), 0, "%s", err);
	cr_assert_eq(mark(), 2, "once only");

	/* An untaken image is freed, and the former one stays. */
	machine_unpack_unused(&m);
	cr_assert(m.kernel.img.data);
	u = machine_unpack(&m, path);
	cr_assert(u && !sem_wait(&woken));
	cr_assert_eq(machine_unpack_take(u, err, sizeof(err)), 0, "%s", err);
	machine_unpack_unused(&m);
	cr_assert_null(m.kernel.img.data);

	/* An error is reported, and no caller need wait for it. */
	cr_assert_eq(truncate(path, 1000), 0);
	u = machine_unpack(&m, path);
	cr_assert(u && !sem_wait(&woken));
	cr_assert_eq(machine_unpack_take(u, err, sizeof(err)), -ENOEXEC);
	cr_assert(strstr(err, "bzImage"), "%s", err);
	unlink(path);
	for (int i = 0; i < 20; i++)
		machine_unpack_leave(machine_unpack(&m, path));
	machine_kernel_forget(&m.kernel);
}
