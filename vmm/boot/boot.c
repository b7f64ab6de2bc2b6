// SPDX-License-Identifier: GPL-2.0-or-later
/* Reading image files, and finding the boot protocol of an image. See boot.h. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "vmm/boot/boot.h"
#include "vpmu/util/fail.h"
#include "vpmu/util/files.h"

int image_read(const char *path, struct image *img, char *err, size_t errlen)
{
	struct stat st;
	size_t done = 0;
	int fd, ret;

	*img = (struct image){0};
	fd = regular_open(AT_FDCWD, path, 0);
	if (fd < 0)
		return fail(fd, err, errlen, "%s: %s", path,
			    fd == -EINVAL ? "not a regular file" : strerror(-fd));
	if (fstat(fd, &st) < 0) {
		ret = -errno;
		fail(ret, err, errlen, "%s: %s", path, strerror(-ret));
		goto out;
	}
	if (st.st_size <= 0 || (uint64_t)st.st_size > BOOT_FILE_MAX) {
		ret = fail(-EFBIG, err, errlen, "%s: file size is %jd bytes; expected 1 to %llu",
			   path, (intmax_t)st.st_size, BOOT_FILE_MAX);
		goto out;
	}
	img->name = strdup(path);
	img->data = malloc((size_t)st.st_size);
	if (!img->name || !img->data) {
		ret = fail(-ENOMEM, err, errlen, "%s: out of memory", path);
		goto out;
	}
	/* The file may shrink while it is read; then the image is the part that was read. */
	while (done < (size_t)st.st_size) {
		ssize_t n = read(fd, img->data + done, (size_t)st.st_size - done);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0) {
			ret = -errno;
			fail(ret, err, errlen, "%s: %s", path, strerror(-ret));
			goto out;
		}
		if (!n)
			break;
		done += (size_t)n;
	}
	img->bytes = done;
	ret = 0;
out:
	close(fd);
	if (ret)
		image_free(img);
	return ret;
}

void image_free(struct image *img)
{
	free(img->name);
	free(img->data);
	free(img->setup);
	*img = (struct image){0};
}

int boot_find(const struct image *img, const struct boot_protocol **out, char *err, size_t errlen)
{
	static const struct boot_protocol *const all[] = {&boot_freestanding};
	char hex[4 * 3 + 1] = "";

	for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++)
		if (all[i]->probe(img)) {
			*out = all[i];
			return 0;
		}
	for (size_t i = 0; i < 4 && i < img->bytes; i++)
		snprintf(hex + 3 * i, 4, " %02x", img->data[i]);
	return fail(-ENOEXEC, err, errlen,
		    "%s: first bytes are%s; expected 7f 45 4c 46 (an ELF64 executable)", img->name,
		    hex);
}
