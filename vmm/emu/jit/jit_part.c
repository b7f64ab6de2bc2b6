// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The memory of translated code: one piece per process, mapped twice, once to write and once to
 * execute, so no address is both. It is made before containment forbids such mappings.
 *
 * The memory consists of parts. Code is appended to a part and never changed, until no vCPU holds
 * the part. vCPUs that translate the same guest code share the part: a thousand vCPUs that run one
 * program then have its translation once in the host's caches and branch predictors. A vCPU first
 * writes its translation to private memory. It may use existing code only if that is byte for byte
 * the code it would have written to this place. So it only executes its own translation, even if
 * another vCPU wrote the bytes.
 *
 * A vCPU has one position in one part, after the code that it got last. Its next translation is
 * there already, or is appended if the part ends there, or else goes to the start of another part.
 * A vCPU holds all parts that it has used until it drops all of its code, because jumps connect
 * them.
 */
#include <pthread.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "vmm/emu/jit/jit.h"

/* JIT_PART_BYTES is no power of two: else all parts would start in the same sets of the host's
 * caches. */
#define NR_PARTS   4096u
#define POOL_BYTES ((size_t)JIT_PART_BYTES * NR_PARTS)

static struct part {
	uint32_t users; /* vCPUs that hold it */
	uint32_t end;	/* bytes of code */
	uint32_t key;	/* hash of the code at its start; 0: no other vCPU may get it */
} parts[NR_PARTS];
static unsigned int nr_parts = 1; /* those from here on are free; the first one holds common code */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* protects the above, and all code */

/* Number of times that code was written. */
static _Atomic uint32_t written;

static uint8_t *part_at(unsigned int i)
{
	return jit_common.write + (size_t)i * JIT_PART_BYTES;
}

const char *jit_parts_open(void)
{
	int fd = memfd_create("vpmu-code", MFD_CLOEXEC);
	void *w = MAP_FAILED, *x = MAP_FAILED;
	struct jit_buf b;

	if (fd < 0)
		return "this host allows no memory file";
	if (!ftruncate(fd, (off_t)POOL_BYTES)) {
		w = mmap(NULL, POOL_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
		x = mmap(NULL, POOL_BYTES, PROT_READ | PROT_EXEC, MAP_SHARED, fd, 0);
	}
	close(fd);
	if (w == MAP_FAILED || x == MAP_FAILED) {
		if (w != MAP_FAILED)
			munmap(w, POOL_BYTES);
		if (x != MAP_FAILED)
			munmap(x, POOL_BYTES);
		return "this host allows no executable memory";
	}
	jit_common.write = w;
	jit_common.exec = x;
	b = (struct jit_buf){jit_common.write, jit_common.write + EMU_PAGE_SIZE, false};
	jit_common_write(&b);
	mprotect(jit_common.write, EMU_PAGE_SIZE, PROT_READ);
	parts[0].users = 1;
	atomic_fetch_add(&written, 1);
	return NULL;
}

/* ---- executing new code ---- */

/*
 * A serializing instruction. A CPU may have prefetched the old bytes of an address before it was
 * written, also through another mapping, and must drop them before it executes the address (SDM
 * vol. 3, 9.1.3). IRETQ serializes and, unlike CPUID, does not exit to a hypervisor.
 */
static void serialize(void)
{
	uint64_t tmp;

	__asm__ volatile("lea -128(%%rsp), %%rsp\n\t" /* the red zone */
			 "mov %%ss, %k0\n\t"
			 "push %0\n\t"
			 "lea 136(%%rsp), %0\n\t"
			 "push %0\n\t"
			 "pushfq\n\t"
			 "mov %%cs, %k0\n\t"
			 "push %0\n\t"
			 "lea 1f(%%rip), %0\n\t"
			 "push %0\n\t"
			 "iretq\n"
			 "1:"
			 : "=&r"(tmp)
			 :
			 : "memory", "cc");
}

void emu_jit_settle(void)
{
	static __thread uint32_t seen;
	/* Pairs with the increments after writes of code. */
	uint32_t now = atomic_load_explicit(&written, memory_order_acquire);

	if (unlikely(seen != now)) {
		serialize();
		seen = now;
	}
}

/* ---- parts ---- */

static void relocate(uint8_t *code, const struct jit_reloc *relocs, unsigned int nr,
		     const uint8_t *to)
{
	for (unsigned int i = 0; i < nr; i++) {
		const uint8_t *next = to + (relocs[i].site - code) + 4;
		int32_t d = (int32_t)(relocs[i].to - next);

		memcpy(relocs[i].site, &d, sizeof(d));
	}
}

/* FNV-1a of the code before relocate(). Never 0. */
static uint32_t key_of(const uint8_t *code, uint32_t bytes)
{
	uint32_t h = 0x811c9dc5;

	for (uint32_t i = 0; i < bytes; i++)
		h = (h ^ code[i]) * 0x01000193;
	return h ? h : 1;
}

/* Returns true if the @bytes for @at of part @i are there, or can be appended. */
static bool fits(unsigned int i, uint32_t at, const uint8_t *code, uint32_t bytes)
{
	struct part *p = &parts[i];
	uint8_t *to = part_at(i) + at;

	if (at + bytes > JIT_PART_BYTES)
		return false;
	if (p->end == at) {
		memcpy(to, code, bytes);
		p->end += bytes;
		atomic_fetch_add(&written, 1);
		return true;
	}
	return p->end >= at + bytes && !memcmp(to, code, bytes);
}

static unsigned int most_parts(const struct emu_vcpu *v)
{
	return v->jit.big ? EMU_BIG_PARTS : EMU_JIT_PARTS;
}

uint32_t jit_room(const struct emu_vcpu *v)
{
	/* Without jit.big, all code of a vCPU together fits in one part. So its last, private part
	 * has room for it, regardless of the others. */
	if (!v->jit.big)
		return JIT_PART_BYTES - v->jit.used;
	return v->jit.nr_parts == EMU_BIG_PARTS ? JIT_PART_BYTES - v->jit.at : JIT_PART_BYTES;
}

bool jit_parts_plenty(void)
{
	unsigned int held = 0;

	pthread_mutex_lock(&lock);
	for (unsigned int i = 1; i < nr_parts; i++)
		held += parts[i].users != 0;
	pthread_mutex_unlock(&lock);
	return held < NR_PARTS / 2;
}

/* Take a free part. Returns 0 if there is none. */
static unsigned int part_take(uint32_t key)
{
	for (unsigned int i = 1; i < NR_PARTS; i++)
		if (!parts[i].users) {
			parts[i] = (struct part){.users = 1, .key = key};
			if (i >= nr_parts)
				nr_parts = i + 1;
			return i;
		}
	return 0;
}

/* Find a part that begins with the code at @code. The last part that a vCPU holds is private: then
 * code can always be appended, so it drops its code at the same points regardless of other
 * vCPUs. */
static unsigned int part_find(const struct emu_vcpu *v, uint8_t *code, uint32_t bytes,
			      const struct jit_reloc *relocs, unsigned int nr, uint32_t key)
{
	bool last = v->jit.nr_parts == most_parts(v) - 1;
	unsigned int i;

	for (i = 1; !last && i < nr_parts; i++) {
		if (parts[i].key != key || !parts[i].users)
			continue;
		relocate(code, relocs, nr, part_at(i));
		if (fits(i, 0, code, bytes)) {
			parts[i].users++;
			return i;
		}
	}
	i = part_take(last ? 0 : key);
	if (i) {
		relocate(code, relocs, nr, part_at(i));
		fits(i, 0, code, bytes);
	}
	return i;
}

const uint8_t *jit_place(struct emu_vcpu *v, uint8_t *code, uint32_t bytes,
			 const struct jit_reloc *relocs, unsigned int nr)
{
	unsigned int i = v->jit.nr_parts ? v->jit.parts[v->jit.nr_parts - 1] : 0;
	uint32_t key = key_of(code, bytes);

	if (i)
		relocate(code, relocs, nr, part_at(i) + v->jit.at);
	pthread_mutex_lock(&lock);
	if (!i || !fits(i, v->jit.at, code, bytes)) {
		i = part_find(v, code, bytes, relocs, nr, key);
		if (i) {
			v->jit.parts[v->jit.nr_parts++] = (uint16_t)i;
			v->jit.at = 0;
		}
	}
	pthread_mutex_unlock(&lock);
	if (!i)
		return NULL;
	v->jit.at += bytes;
	v->jit.used += bytes;
	/* Another thread may have written this code. */
	emu_jit_settle();
	return jit_common.exec + (part_at(i) - jit_common.write) + v->jit.at - bytes;
}

void jit_parts_drop(struct emu_vcpu *v)
{
	for (unsigned int k = 0; k < v->jit.nr_parts; k++) {
		struct part *p = &parts[v->jit.parts[k]];
		bool last;

		pthread_mutex_lock(&lock);
		last = p->users == 1;
		if (last)
			p->key = 0; /* no other vCPU gets it from now on */
		else
			p->users--;
		pthread_mutex_unlock(&lock);
		if (!last)
			continue;
		/* Frees the pages; later writes get new ones. */
		madvise(part_at(v->jit.parts[k]), JIT_PART_BYTES, MADV_REMOVE);
		pthread_mutex_lock(&lock);
		*p = (struct part){0};
		pthread_mutex_unlock(&lock);
	}
	v->jit.nr_parts = 0;
	v->jit.at = v->jit.used = 0;
}
