// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Writes the RAM of a paused VM to a snapshot. Usually most pages were never touched; pagemap shows
 * those that exist. The others are zero and must not be read, because reading would allocate them.
 */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "vmm/snapshot/priv.h"

#define EXISTS	 (3ULL << 62) /* present, or swapped: Documentation/admin-guide/mm/pagemap.rst */
#define MAP_PART 512

struct pages {
	int fd; /* of pagemap; -1: not available, so every page is read */
	const uint8_t *ram;
	uint64_t first, have;
	uint64_t map[MAP_PART];
};

static bool zero(const uint8_t *p)
{
	return !p[0] && !memcmp(p, p + 1, SNAP_PAGE - 1);
}

static bool exists(struct pages *p, uint64_t page)
{
	if (p->fd < 0)
		return true;
	if (page - p->first >= p->have) {
		uint64_t at = ((uintptr_t)p->ram / SNAP_PAGE + page) * sizeof(uint64_t);
		ssize_t n;

		do
			n = pread(p->fd, p->map, sizeof(p->map), (off_t)at);
		while (n < 0 && errno == EINTR);
		if (n < (ssize_t)sizeof(uint64_t)) {
			close(p->fd);
			p->fd = -1;
			return true;
		}
		p->first = page;
		p->have = (uint64_t)n / sizeof(uint64_t);
	}
	return p->map[page - p->first] & EXISTS;
}

static void put_run(struct snap_out *o, const uint8_t *ram, uint64_t page, uint64_t n)
{
	uint8_t raw[SNAP_SECTION_HEAD + 8];

	/* The section's head is written here, so that its contents need no copy in a blob. */
	for (int i = 0; i < 4; i++) {
		raw[i] = (uint8_t)(SNAP_RAMP >> 8 * i);
		raw[8 + i] = (uint8_t)((8 + n * SNAP_PAGE) >> 8 * i);
	}
	raw[4] = 1;
	raw[5] = raw[6] = raw[7] = 0;
	for (int i = 0; i < 8; i++)
		raw[12 + i] = (uint8_t)(page * SNAP_PAGE >> 8 * i);
	snap_write(o, raw, sizeof(raw));
	snap_write(o, ram + page * SNAP_PAGE, n * SNAP_PAGE);
}

static uint64_t save_slot(struct snap_out *o, struct pages *p, uint64_t page, uint64_t behind)
{
	uint64_t saved = 0, start = 0, n = 0;

	for (; page < behind && !o->error; page++) {
		bool want = exists(p, page) && !zero(p->ram + page * SNAP_PAGE);

		if (n && (!want || n == SNAP_RUN_PAGES)) {
			put_run(o, p->ram, start, n);
			n = 0;
		}
		if (want) {
			start = n ? start : page;
			n++;
			saved++;
		}
	}
	if (n)
		put_run(o, p->ram, start, n);
	return saved;
}

uint64_t snap_save_ram(struct snap_out *o, const struct vmm_ram *ram)
{
	struct pages p = {.ram = ram->base};
	uint64_t saved = 0;

	p.fd = sysconf(_SC_PAGESIZE) == SNAP_PAGE ? open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC)
						  : -1;
	for (unsigned int i = 0; i < ram->nr; i++)
		saved += save_slot(o, &p, ram->slot[i].gpa / SNAP_PAGE,
				   (ram->slot[i].gpa + ram->slot[i].bytes) / SNAP_PAGE);
	if (p.fd >= 0)
		close(p.fd);
	return saved;
}
