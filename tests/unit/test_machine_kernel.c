// SPDX-License-Identifier: GPL-2.0-or-later
/* vmm/machine/kernel.c: VMs that boot the same file share what was unpacked, as long as it is the
 * same file. */
#include <criterion/criterion.h>
#include <errno.h>
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
