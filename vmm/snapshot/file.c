// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Snapshot files: sections, and a CRC over everything. Called by snapshot.c. A file may be hostile:
 * check every length before its use, and allocate only bounded memory.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <zlib.h>

#include "vpmu/util/fail.h"
#include "vmm/snapshot/priv.h"

/* ---- writing ---- */

static void file_flush(struct snap_out *o)
{
	const uint8_t *p = o->buf;

	while (o->used && !o->error) {
		ssize_t n = write(o->fd, p, o->used);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0) {
			o->error = -errno;
		} else {
			p += n;
			o->used -= (size_t)n;
		}
	}
	o->used = 0;
}

void snap_write(struct snap_out *o, const void *p, size_t n)
{
	const uint8_t *from = p;

	o->crc = (uint32_t)crc32_z(o->crc, from, n);
	while (n && !o->error) {
		size_t part = sizeof(o->buf) - o->used;

		if (part > n)
			part = n;
		memcpy(o->buf + o->used, from, part);
		o->used += part;
		from += part;
		n -= part;
		if (o->used == sizeof(o->buf))
			file_flush(o);
	}
}

int snap_finish(struct snap_out *o)
{
	uint8_t crc[4] = {(uint8_t)o->crc, (uint8_t)(o->crc >> 8), (uint8_t)(o->crc >> 16),
			  (uint8_t)(o->crc >> 24)};

	snap_write(o, crc, sizeof(crc));
	file_flush(o);
	if (!o->error && fsync(o->fd))
		o->error = -errno;
	return o->error;
}

/* ---- reading ---- */

struct walk {
	struct snap_in *in;
	uint64_t at;
	uint32_t crc;
	char *err;
	size_t errlen;
	/* the head of the current section */
	uint32_t tag, bytes;
	uint64_t section_at;
};

static int file_bad(const struct walk *w, uint64_t at, const char *what)
{
	return fail(-EINVAL, w->err, w->errlen, "%s: offset %" PRIu64 ": %s", w->in->name, at,
		    what);
}

/* Read the next @n bytes without adding them to the CRC. -EINVAL: the file has fewer. */
static int get_raw(struct walk *w, void *p, size_t n)
{
	uint8_t *to = p;

	while (n) {
		ssize_t got = pread(w->in->fd, to, n, (off_t)w->at);

		if (got < 0 && errno == EINTR)
			continue;
		if (got < 0)
			return fail(-errno, w->err, w->errlen, "%s: offset %" PRIu64 ": %s",
				    w->in->name, w->at, strerror(errno));
		if (!got)
			return file_bad(w, w->at, "the file ends here, in the middle of a section");
		to += got;
		w->at += (uint64_t)got;
		n -= (size_t)got;
	}
	return 0;
}

static int file_get(struct walk *w, void *p, size_t n)
{
	int ret = get_raw(w, p, n);

	if (!ret)
		w->crc = (uint32_t)crc32_z(w->crc, p, n);
	return ret;
}

static int head(struct walk *w)
{
	uint8_t raw[SNAP_HEAD];
	struct vpmu_blob_reader r = {.data = raw, .len = sizeof(raw), .at = 8};
	uint32_t version;
	int ret = file_get(w, raw, sizeof(raw));

	if (ret)
		return ret;
	if (memcmp(raw, SNAP_MAGIC, 8))
		return fail(-EINVAL, w->err, w->errlen,
			    "%s: not a snapshot; expected a file that vm save has written",
			    w->in->name);
	version = vpmu_blob_get_u32(&r);
	if (version != SNAP_VERSION)
		return fail(-EINVAL, w->err, w->errlen,
			    "%s: snapshot of format %u; expected format %u", w->in->name, version,
			    SNAP_VERSION);
	if (vpmu_blob_get_u32(&r))
		return file_bad(w, 12, "reserved bytes are not 0");
	return 0;
}

static int file_section(struct walk *w)
{
	uint8_t raw[SNAP_SECTION_HEAD];
	struct vpmu_blob_reader r = {.data = raw, .len = sizeof(raw)};
	int ret;

	w->section_at = w->at;
	ret = file_get(w, raw, sizeof(raw));
	if (ret)
		return ret;
	w->tag = vpmu_blob_get_u32(&r);
	if (vpmu_blob_get_u16(&r) != 1)
		return file_bad(w, w->section_at, "the section's version is not 1");
	if (vpmu_blob_get_u16(&r))
		return file_bad(w, w->section_at, "reserved bytes are not 0");
	w->bytes = vpmu_blob_get_u32(&r);
	return 0;
}

/* Read a section, which must have tag @tag, into a new buffer *@buf. */
static int file_keep(struct walk *w, uint32_t tag, const char *missing, uint8_t **buf,
		     size_t *bytes)
{
	int ret = file_section(w);

	if (ret)
		return ret;
	if (w->tag != tag)
		return file_bad(w, w->section_at, missing);
	if (w->bytes > SNAP_SECTION_MAX)
		return file_bad(w, w->section_at, "section is too long");
	*buf = malloc(w->bytes ? w->bytes : 1);
	if (!*buf)
		return fail(-ENOMEM, w->err, w->errlen, "%s: out of memory", w->in->name);
	*bytes = w->bytes;
	return file_get(w, *buf, w->bytes);
}

/* Copy pages to @ram, which is zero. Zero pages are skipped, because writing would allocate them: a
 * sparse file of a few blocks can contain gigabytes of them. */
static void put_pages(uint8_t *ram, const uint8_t *from, uint64_t n)
{
	for (; n; n -= SNAP_PAGE, ram += SNAP_PAGE, from += SNAP_PAGE)
		if (*from || memcmp(from, from + 1, SNAP_PAGE - 1))
			memcpy(ram, from, SNAP_PAGE);
}

/* Read the RAM sections and the END section, through @buf. The pages go to @ram unless it is NULL.
 */
static int ram_sections(struct walk *w, const struct vmm_ram *ram,
			uint8_t buf[SNAP_RUN_PAGES * SNAP_PAGE])
{
	static const char *const wrong = "the RAM section has a wrong length";
	uint64_t end = 0, pages = 0, told;
	uint8_t word[8];
	int ret;

	while (!(ret = file_section(w)) && w->tag == SNAP_RAMP) {
		struct vpmu_blob_reader r = {.data = word, .len = sizeof(word)};
		uint64_t gpa, n = w->bytes - sizeof(word);

		if (w->bytes <= sizeof(word) || n % SNAP_PAGE || n > SNAP_RUN_PAGES * SNAP_PAGE)
			return file_bad(w, w->section_at, wrong);
		ret = file_get(w, word, sizeof(word));
		if (ret)
			return ret;
		gpa = vpmu_blob_get_u64(&r);
		if (gpa % SNAP_PAGE || gpa < end || !vmm_ram_holds(&w->in->layout, gpa, n))
			return file_bad(
				w, w->section_at,
				"the RAM section is outside of the VM's memory or out of order");
		end = gpa + n;
		pages += n / SNAP_PAGE;
		ret = file_get(w, buf, n);
		if (ret)
			return ret;
		if (ram)
			put_pages(ram->base + gpa, buf, n);
	}
	if (ret)
		return ret;
	if (w->tag != SNAP_END || w->bytes != sizeof(word))
		return file_bad(w, w->section_at, "a RAM or END section must come here");
	ret = file_get(w, word, sizeof(word));
	told = vpmu_blob_get_u64(&(struct vpmu_blob_reader){.data = word, .len = sizeof(word)});
	if (!ret && told != pages)
		return file_bad(w, w->section_at,
				"the number of pages differs from that in the END section");
	return ret;
}

static int ram_pages(struct walk *w, const struct vmm_ram *ram)
{
	uint8_t *buf = malloc(SNAP_RUN_PAGES * SNAP_PAGE);
	int ret = buf ? ram_sections(w, ram, buf)
		      : fail(-ENOMEM, w->err, w->errlen, "%s: out of memory", w->in->name);

	free(buf);
	return ret;
}

static int tail(struct walk *w)
{
	uint8_t raw[4], more;
	uint32_t crc = w->crc;
	ssize_t n;
	int ret = get_raw(w, raw, sizeof(raw));

	if (ret)
		return ret;
	if (vpmu_blob_get_u32(&(struct vpmu_blob_reader){.data = raw, .len = 4}) != crc)
		return file_bad(w, w->at - 4, "CRC is wrong: the file is damaged");
	do
		n = pread(w->in->fd, &more, 1, (off_t)w->at);
	while (n < 0 && errno == EINTR);
	return n ? file_bad(w, w->at, "there are bytes after the end") : 0;
}

int snap_check(struct snap_in *in,
	       int (*conf)(struct snap_in *in, void *arg, char *err, size_t len), void *arg,
	       char *err, size_t errlen)
{
	struct walk w = {.in = in, .err = err, .errlen = errlen};
	int ret = head(&w);

	if (!ret)
		ret = file_keep(&w, SNAP_CONF, "a CONF section must come here", &in->conf,
				&in->conf_bytes);
	if (!ret)
		ret = conf(in, arg, err, errlen);
	if (!ret && in->platform) {
		in->plat_at = w.at;
		ret = file_keep(&w, SNAP_PLAT, "a PLAT section must come here", &in->plat,
				&in->plat_bytes);
	}
	for (unsigned int i = 0; i < in->vcpus && !ret; i++) {
		in->vcpu_at[i] = w.at;
		ret = file_keep(&w, SNAP_VCPU, "a VCPU section must come here", &in->vcpu[i],
				&in->vcpu_bytes[i]);
	}
	if (!ret)
		ret = ram_pages(&w, NULL);
	if (!ret)
		ret = tail(&w);
	in->crc = w.crc;
	return ret;
}

/* Skip a section that snap_check has kept. Its length must be unchanged. */
static int again(struct walk *w, size_t bytes)
{
	uint8_t buf[256];
	int ret = file_section(w);

	if (!ret && w->bytes != bytes)
		ret = file_bad(w, w->section_at, "the file changes while it is read");
	while (bytes && !ret) {
		size_t n = bytes < sizeof(buf) ? bytes : sizeof(buf);

		ret = file_get(w, buf, n);
		bytes -= n;
	}
	return ret;
}

int snap_load_ram(struct snap_in *in, const struct vmm_ram *ram, char *err, size_t errlen)
{
	struct walk w = {.in = in, .err = err, .errlen = errlen};
	int ret = head(&w);

	if (!ret)
		ret = again(&w, in->conf_bytes);
	if (!ret && in->plat)
		ret = again(&w, in->plat_bytes);
	for (unsigned int i = 0; i < in->vcpus && !ret; i++)
		ret = again(&w, in->vcpu_bytes[i]);
	if (!ret)
		ret = ram_pages(&w, ram);
	if (!ret)
		ret = tail(&w);
	if (!ret && w.crc != in->crc)
		ret = file_bad(&w, 0, "the file changes while it is read");
	return ret;
}

void snap_in_fini(struct snap_in *in)
{
	free(in->conf);
	free(in->plat);
	for (unsigned int i = 0; i < VM_VCPUS_MAX; i++)
		free(in->vcpu[i]);
}
