/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Decompressing the payload of a bzImage, by the libraries that own the formats. Only vmm/boot
 * includes this. */
#ifndef VMM_BOOT_UNPACK_H
#define VMM_BOOT_UNPACK_H

#include <stddef.h>
#include <stdint.h>

#define UNPACK_FORMATS "gzip, xz, lzma, zstd, lz4 or bzip2"

/*
 * unpack - decompress the @n bytes at @in, which may be followed by bytes that are not part of the
 * compressed data, to the @room bytes at @out. Returns their number, or -ENOTSUP: the first bytes
 * are not those of a format in UNPACK_FORMATS; -ENOSYS: this build has no library for the format;
 * -ENOMEM; -E2BIG: the output exceeds @room; -EBADMSG: the data is damaged or ends too early, or
 * needs a dictionary of more than 256 MiB. *@method is the name of the format; "" with -ENOTSUP.
 * Uses no more memory than @room and the dictionary. Any thread.
 */
long unpack(const uint8_t *in, size_t n, uint8_t *out, size_t room, const char **method);

#endif
