// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Maps that grow while the BPF program runs: arrays of maps, whose inner maps (pages) are added as
 * they are needed and are this process's memory too. node.c says which pages are needed.
 */
#include <errno.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include <bpf/bpf.h>

#include "cgroup/kernel/priv.h"

static size_t page_bytes(const struct pages *p)
{
	size_t unit = (size_t)sysconf(_SC_PAGESIZE), bytes = (size_t)p->entries * p->value_size;

	return (bytes + unit - 1) / unit * unit;
}

int pages_init(struct pages *p, const struct kernel_sys *sys, int fd, uint32_t nr, uint32_t entries,
	       uint32_t value_size)
{
	*p = (struct pages){
		.fd = fd, .nr = nr, .entries = entries, .value_size = value_size, .sys = sys};
	p->page = calloc(nr, sizeof(*p->page));
	return p->page ? 0 : -ENOMEM;
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

static int map(struct pages *p, uint32_t i, int fd)
{
	void *m = mmap(NULL, page_bytes(p), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

	if (m == MAP_FAILED)
		return -errno;
	p->page[i] = m;
	p->bytes += page_bytes(p);
	return 0;
}

int pages_add(struct pages *p, const uint32_t *index, uint32_t n)
{
	LIBBPF_OPTS(bpf_map_create_opts, o, .map_flags = BPF_F_MMAPABLE);
	int *fd = calloc(n, sizeof(*fd));
	uint32_t made = 0, mapped = 0;
	int ret = fd ? 0 : -ENOMEM;

	for (; !ret && made < n; made++) {
		fd[made] = bpf_map_create(BPF_MAP_TYPE_ARRAY, "vpmu_page", sizeof(uint32_t),
					  p->value_size, p->entries, &o);
		if (fd[made] < 0) {
			ret = -errno;
			break;
		}
	}
	for (; !ret && mapped < n; mapped++) {
		ret = map(p, index[mapped], fd[mapped]);
		if (ret)
			break;
	}
	if (!ret)
		ret = p->sys->pages(p->fd, index, fd, n);
	if (ret)
		while (mapped)
			unmap(p, index[--mapped]);
	while (made)
		close(fd[--made]);
	free(fd);
	return ret;
}

int pages_find(struct pages *p)
{
	uint32_t i, id;
	int ret = 0, fd;

	for (i = 0; !ret && i < p->nr; i++) {
		if (bpf_map_lookup_elem(p->fd, &i, &id))
			continue;
		fd = bpf_map_get_fd_by_id(id);
		ret = fd < 0 ? fd : map(p, i, fd);
		if (fd >= 0)
			close(fd);
	}
	return ret;
}
