// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Maps that grow while the BPF program runs: arrays of maps; their inner maps (pages) are added on
 * demand and mapped into this process. node.c selects the pages.
 *
 * Each page has a pin of its own, NAME-INDEX, beside those of the maps. The next daemon finds the
 * pages by these: before Linux 6.8 each lookup in an array of maps waits for an RCU grace period,
 * which would take minutes for all possible pages, and opening a map by the id found there takes
 * CAP_SYS_ADMIN.
 */
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <bpf/bpf.h>

#include "cgroup/priv.h"
#include "service/program/memory.h"

static size_t page_bytes(const struct pages *p)
{
	size_t unit = (size_t)sysconf(_SC_PAGESIZE), bytes = (size_t)p->entries * p->value_size;

	return (bytes + unit - 1) / unit * unit;
}

void pages_init(struct pages *p, const struct bpf_backend_sys *sys, int fd, uint32_t nr,
		uint32_t entries, uint32_t value_size)
{
	*p = (struct pages){
		.fd = fd, .nr = nr, .entries = entries, .value_size = value_size, .sys = sys};
	p->page = xcalloc(nr, sizeof(*p->page));
}

static void unmap(struct pages *p, uint32_t i)
{
	munmap(p->page[i], page_bytes(p));
	p->page[i] = NULL;
	p->bytes -= page_bytes(p);
}

void pages_free(struct pages *p)
{
	for (uint32_t i = 0; p->page && i < p->nr; i++)
		if (p->page[i])
			unmap(p, i);
	free(p->page);
	*p = (struct pages){.fd = -1};
}

static int growmap_map(struct pages *p, uint32_t i, int fd)
{
	void *m = mmap(NULL, page_bytes(p), p->frozen ? PROT_READ : PROT_READ | PROT_WRITE,
		       MAP_SHARED, fd, 0);

	if (m == MAP_FAILED)
		return -errno;
	p->page[i] = m;
	p->bytes += page_bytes(p);
	return 0;
}

/* The path of page @i's pin. Returns false without a pin directory. */
static bool pin_path(const struct pages *p, uint32_t i, char path[PIN_PATH + 24])
{
	if (p->pin_dir)
		snprintf(path, PIN_PATH + 24, "%s/%s-%u", p->pin_dir, p->name, i);
	return p->pin_dir;
}

static int pin(const struct pages *p, uint32_t i, int fd)
{
	char path[PIN_PATH + 24];

	return pin_path(p, i, path) && bpf_obj_pin(fd, path) ? -errno : 0;
}

static void unpin(const struct pages *p, uint32_t i)
{
	char path[PIN_PATH + 24];

	if (pin_path(p, i, path))
		unlink(path);
}

int pages_add(struct pages *p, const uint32_t *index, uint32_t n)
{
	LIBBPF_OPTS(bpf_map_create_opts, o, .map_flags = BPF_F_MMAPABLE);
	int *fd = xcalloc(n, sizeof(*fd)), ret = 0;
	uint32_t made = 0, mapped = 0;

	for (; !ret && made < n; made++) {
		fd[made] = bpf_map_create(BPF_MAP_TYPE_ARRAY, "vpmu_page", sizeof(uint32_t),
					  p->value_size, p->entries, &o);
		if (fd[made] < 0) {
			ret = -errno;
			break;
		}
		if (p->frozen && bpf_map_freeze(fd[made]))
			ret = -errno;
	}
	for (; !ret && mapped < n; mapped++) {
		ret = growmap_map(p, index[mapped], fd[mapped]);
		if (ret)
			break;
		ret = pin(p, index[mapped], fd[mapped]);
		if (ret) {
			unmap(p, index[mapped]);
			break;
		}
	}
	if (!ret)
		ret = p->sys->pages(p->fd, index, fd, n);
	if (ret)
		while (mapped) {
			unpin(p, index[--mapped]);
			unmap(p, index[mapped]);
		}
	while (made)
		close(fd[--made]);
	free(fd);
	return ret;
}

void pages_remove(struct pages *p, uint32_t i)
{
	unpin(p, i);
	unmap(p, i);
}

/* The page number in a pin's name; -1: not a page of @p. */
static int64_t growmap_page_of(const struct pages *p, const char *file)
{
	size_t len = strlen(p->name);
	unsigned long i;
	char *end;

	if (strncmp(file, p->name, len) || file[len] != '-' || file[len + 1] < '0' ||
	    file[len + 1] > '9')
		return -1;
	i = strtoul(file + len + 1, &end, 10);
	return *end || i >= p->nr ? -1 : (int64_t)i;
}

/* Open page @i and check its type: anyone with write access to the directory could replace it. */
static int open_page(const struct pages *p, uint32_t i)
{
	struct bpf_map_info info = {0};
	uint32_t len = sizeof(info);
	char path[PIN_PATH + 24];
	int fd;

	pin_path(p, i, path);
	fd = bpf_obj_get(path);
	if (fd < 0)
		return -errno;
	if (!bpf_obj_get_info_by_fd(fd, &info, &len) && info.type == BPF_MAP_TYPE_ARRAY &&
	    info.value_size == p->value_size && info.max_entries == p->entries &&
	    info.map_flags & BPF_F_MMAPABLE)
		return fd;
	close(fd);
	return -EINVAL;
}

int pages_find(struct pages *p)
{
	DIR *dir = opendir(p->pin_dir);
	uint32_t *index = xcalloc(p->nr, sizeof(*index)), n = 0;
	int *fd = xcalloc(p->nr, sizeof(*fd)), ret = dir ? 0 : -errno;
	struct dirent *e;

	while (!ret && (errno = 0, e = readdir(dir))) {
		int64_t i = growmap_page_of(p, e->d_name);

		if (i < 0 || p->page[i])
			continue;
		fd[n] = open_page(p, (uint32_t)i);
		if (fd[n] < 0) {
			ret = fd[n];
			break;
		}
		index[n] = (uint32_t)i;
		ret = growmap_map(p, index[n], fd[n]);
		n++;
	}
	/* The former process may have ended after the pin and before the update of the map. */
	if (!ret && n)
		ret = p->sys->pages(p->fd, index, fd, n);
	while (n)
		close(fd[--n]);
	if (dir)
		closedir(dir);
	free(index);
	free(fd);
	return ret;
}

void pages_unpin(const struct pages *p)
{
	DIR *dir = p->pin_dir ? opendir(p->pin_dir) : NULL;
	struct dirent *e;

	while (dir && (e = readdir(dir))) {
		int64_t i = growmap_page_of(p, e->d_name);

		if (i >= 0)
			unpin(p, (uint32_t)i);
	}
	if (dir)
		closedir(dir);
}
