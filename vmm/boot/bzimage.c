// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * bzImages: finds the compressed kernel in one and unpacks it, so that the guest needs none of the
 * bzImage's own code. Called by vmm/machine before the VM is made; linux.c loads the result.
 *
 * Layout: kernel Documentation/arch/x86/boot.rst, "The real-mode kernel header". All fields are
 * little endian.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "vmm/boot/bytes.h"
#include "vmm/boot/linux.h"
#include "vpmu/util/fail.h"

#define SECTOR	     512u
#define HEADER_BYTES 0x268u /* of protocol 2.12 and later, to the end of handover_offset */
#define VERSION_MIN  0x020c /* the first with xloadflags */
#define SETUP_SECTS  64u    /* at most; boot.rst: 0 means 4 */

static int bzimage_bad(const struct image *img, const char *field, uint64_t value,
		       const char *accepted, char *err, size_t errlen)
{
	return fail(-ENOEXEC, err, errlen, "%s: bzImage: %s is 0x%" PRIx64 "; expected %s",
		    img->name, field, value, accepted);
}

bool linux_is_bzimage(const struct image *img)
{
	return img->bytes >= LINUX_HDR_MAGIC + 4 && !memcmp(img->data + LINUX_HDR_MAGIC, "HdrS", 4);
}

/* Check the setup header and find the payload. */
static int check_header(const struct image *img, size_t *payload, size_t *bytes, char *err,
			size_t errlen)
{
	const uint8_t *d = img->data;
	size_t sectors, kernel, offset, length, end;

	if (img->bytes < HEADER_BYTES)
		return fail(
			-ENOEXEC, err, errlen,
			"%s: bzImage: %zu bytes long; expected a whole file (its header has %u)",
			img->name, img->bytes, HEADER_BYTES);
	if (get_u16(d + LINUX_HDR_BOOT_FLAG) != 0xaa55)
		return bzimage_bad(img, "boot_flag", get_u16(d + LINUX_HDR_BOOT_FLAG), "0xaa55",
				   err, errlen);
	if (get_u16(d + LINUX_HDR_VERSION) < VERSION_MIN)
		return bzimage_bad(img, "version", get_u16(d + LINUX_HDR_VERSION),
				   "0x20c or above (Linux 3.8)", err, errlen);
	if (!(get_u16(d + LINUX_HDR_XLOADFLAGS) & LINUX_XLF_KERNEL_64))
		return bzimage_bad(img, "xloadflags", get_u16(d + LINUX_HDR_XLOADFLAGS),
				   "bit 0 set (a 64-bit kernel)", err, errlen);
	end = LINUX_HDR_JUMP_END + d[LINUX_HDR_JUMP];
	if (end < HEADER_BYTES || end > LINUX_HDR_END_MAX || end > img->bytes)
		return bzimage_bad(img, "jump", d[LINUX_HDR_JUMP],
				   "0x66 to 0x8e (the header's end)", err, errlen);
	sectors = d[LINUX_HDR_SETUP_SECTS] ? d[LINUX_HDR_SETUP_SECTS] : 4;
	if (sectors > SETUP_SECTS)
		return bzimage_bad(img, "setup_sects", sectors, "0 to 0x40", err, errlen);
	kernel = (sectors + 1) * SECTOR;
	if (kernel >= img->bytes)
		return fail(-ENOEXEC, err, errlen,
			    "%s: bzImage: %zu bytes long; expected a whole file (the kernel begins "
			    "at %zu by setup_sects)",
			    img->name, img->bytes, kernel);
	offset = get_u32(d + LINUX_HDR_PAYLOAD_OFFSET);
	length = get_u32(d + LINUX_HDR_PAYLOAD_LENGTH);
	if (offset >= img->bytes - kernel)
		return bzimage_bad(img, "payload_offset", offset,
				   "inside the file (is it truncated?)", err, errlen);
	if (length < 8 || length > img->bytes - kernel - offset)
		return bzimage_bad(img, "payload_length", length,
				   "at least 8, and inside the file (is it truncated?)", err,
				   errlen);
	*payload = kernel + offset;
	*bytes = length;
	return 0;
}

/* The last 4 bytes of the payload are its unpacked size; gzip includes them in its own trailer. */
static int unpack_payload(const struct image *img, size_t payload, size_t bytes, uint8_t **out,
			  size_t *outlen, char *err, size_t errlen)
{
	const uint8_t *in = img->data + payload;
	size_t claimed = get_u32(in + bytes - 4);
	const char *method;
	uint8_t *buf;
	long n;

	if (!claimed || claimed > BOOT_FILE_MAX)
		return bzimage_bad(img, "size of the unpacked kernel", claimed, "1 to 0x10000000",
				   err, errlen);
	buf = malloc(claimed);
	if (!buf)
		return fail(-ENOMEM, err, errlen, "%s: out of memory", img->name);
	n = unpack(in, bytes, buf, claimed, &method);
	if (n == (long)claimed) {
		*out = buf;
		*outlen = claimed;
		return 0;
	}
	free(buf);
	switch (n) {
	case -ENOMEM:
		return fail(-ENOMEM, err, errlen, "%s: out of memory", img->name);
	case -ENOTSUP:
		return fail(-ENOEXEC, err, errlen,
			    "%s: bzImage: the payload begins with %02x %02x %02x %02x; expected "
			    "what " UNPACK_FORMATS " begins with",
			    img->name, in[0], in[1], in[2], in[3]);
	case -ENOSYS:
		return fail(-ENOEXEC, err, errlen,
			    "%s: bzImage: the payload is in %s, and this build of vpmu-vmm has no "
			    "library for that",
			    img->name, method);
	case -E2BIG:
		return fail(-ENOEXEC, err, errlen,
			    "%s: bzImage: the payload (%s) unpacks to more than the %zu bytes that "
			    "it claims",
			    img->name, method, claimed);
	case -EBADMSG:
		return fail(-ENOEXEC, err, errlen, "%s: bzImage: the payload (%s) is damaged",
			    img->name, method);
	default:
		return fail(-ENOEXEC, err, errlen,
			    "%s: bzImage: the payload (%s) unpacks to %ld bytes; expected %zu, as "
			    "it claims",
			    img->name, method, n, claimed);
	}
}

int linux_unpack(struct image *img, char *err, size_t errlen)
{
	size_t payload = 0, bytes = 0, kernel_bytes = 0, end;
	uint8_t *kernel = NULL, *setup;
	int ret;

	if (!linux_is_bzimage(img))
		return 0;
	ret = check_header(img, &payload, &bytes, err, errlen);
	if (ret)
		return ret;
	end = LINUX_HDR_JUMP_END + img->data[LINUX_HDR_JUMP];
	setup = malloc(end - LINUX_HDR);
	if (!setup)
		return fail(-ENOMEM, err, errlen, "%s: out of memory", img->name);
	ret = unpack_payload(img, payload, bytes, &kernel, &kernel_bytes, err, errlen);
	if (ret) {
		free(setup);
		return ret;
	}
	memcpy(setup, img->data + LINUX_HDR, end - LINUX_HDR);
	free(img->data);
	img->data = kernel;
	img->bytes = kernel_bytes;
	img->setup = setup;
	img->setup_bytes = end - LINUX_HDR;
	return 0;
}
