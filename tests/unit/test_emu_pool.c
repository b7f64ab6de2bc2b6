// SPDX-License-Identifier: GPL-2.0-or-later
/* Memory of vCPUs: objects of a few sizes in regions of 2 MiB. */
#include <criterion/criterion.h>

#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>

#include "vmm/emu/pool.h"
#include "tests/random.h"

#define REGION (2u << 20)

#define MOST 4096u
static char *region[MOST]; /* those that the pool has */
static unsigned int mapped;
static bool no_memory;

void *__real_mmap(void *at, size_t bytes, int prot, int flags, int fd, off_t offset);
int __real_munmap(void *at, size_t bytes);
void *__wrap_mmap(void *at, size_t bytes, int prot, int flags, int fd, off_t offset);
int __wrap_munmap(void *at, size_t bytes);

/* The pool maps twice the size of a region, and gives back the rest around the region. */
void *__wrap_mmap(void *at, size_t bytes, int prot, int flags, int fd, off_t offset)
{
	char *p;

	if (no_memory)
		return MAP_FAILED;
	p = __real_mmap(at, bytes, prot, flags, fd, offset);
	if (bytes == 2 * REGION && p != MAP_FAILED) {
		cr_assert_lt(mapped, MOST);
		region[mapped++] = p + -(uintptr_t)p % REGION;
	}
	return p;
}

int __wrap_munmap(void *at, size_t bytes)
{
	for (unsigned int i = 0; i < mapped && bytes == REGION; i++)
		if (region[i] == at) {
			region[i] = region[--mapped];
			break;
		}
	return __real_munmap(at, bytes);
}

static uint64_t rnd_state = 88172645463325252ULL;

static unsigned int rnd(unsigned int n)
{
	return (unsigned int)(random_shift(&rnd_state) % n);
}

static bool is_all(const unsigned char *p, size_t bytes, unsigned char c)
{
	return p[0] == c && !memcmp(p, p + 1, bytes - 1);
}

#define OBJECTS 400u

/* Objects of four sizes come and go. Each is zeroes at first, and no other owner writes it. */
Test(emu_pool, objects_are_apart)
{
	static const size_t sizes[] = {64, 16448, 40000, EMU_POOL_MAX};
	static struct {
		unsigned char *p;
		size_t bytes;
	} o[OBJECTS];

	for (unsigned int step = 0; step < 20000; step++) {
		unsigned int i = rnd(OBJECTS);

		if (o[i].p) {
			cr_assert(is_all(o[i].p, o[i].bytes, (unsigned char)(i | 1)), "%u", i);
			emu_pool_put(o[i].p, o[i].bytes);
			o[i].p = NULL;
			continue;
		}
		o[i].bytes = sizes[rnd(4)];
		o[i].p = emu_pool_get(o[i].bytes);
		cr_assert(o[i].p && !((uintptr_t)o[i].p % 64));
		cr_assert(is_all(o[i].p, o[i].bytes, 0), "%u", i);
		memset(o[i].p, (int)(i | 1), o[i].bytes);
	}
	for (unsigned int i = 0; i < OBJECTS; i++)
		emu_pool_put(o[i].p, o[i].bytes);
	cr_expect_eq(mapped, 0, "%u regions are left", mapped);
}

Test(emu_pool, a_size_uses_few_regions)
{
	static void *p[100];

#if defined(__SANITIZE_ADDRESS__)
	cr_skip_test("with AddressSanitizer there are no regions");
#endif
	for (unsigned int round = 0; round < 50; round++) {
		for (unsigned int i = 0; i < 100; i++)
			cr_assert_not_null(p[i] = emu_pool_get(40000));
		cr_assert_eq(mapped, 2, "%u", mapped);
		for (unsigned int i = 0; i < 100; i++) /* some full ones get room again */
			if (i % 3)
				emu_pool_put(p[i], 40000);
		for (unsigned int i = 0; i < 100; i++)
			if (i % 3)
				cr_assert_not_null(p[i] = emu_pool_get(40000));
		cr_assert_eq(mapped, 2, "%u", mapped);
		for (unsigned int i = 0; i < 100; i++)
			emu_pool_put(p[(i * 37) % 100], 40000);
		cr_assert_eq(mapped, 0, "%u", mapped);
	}
}

/* Unused sizes make room for others. */
Test(emu_pool, any_number_of_sizes_in_turn)
{
	for (size_t bytes = 64; bytes < 64 * 1000; bytes += 64) {
		void *p = emu_pool_get(bytes);

		cr_assert_not_null(p, "%zu", bytes);
		emu_pool_put(p, bytes);
	}
}

Test(emu_pool, refuses)
{
	cr_expect_null(emu_pool_get(0));
	cr_expect_null(emu_pool_get(EMU_POOL_MAX + 1));
	emu_pool_put(NULL, 64);
#if !defined(__SANITIZE_ADDRESS__)
	void *p;

	no_memory = true;
	p = emu_pool_get(64);
	no_memory = false;
	cr_expect_null(p);
	p = emu_pool_get(64);
	cr_expect_not_null(p);
	emu_pool_put(p, 64);
#endif
}
