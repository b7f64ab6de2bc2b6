/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What fuzzers share: checks, patches to good inputs, guest RAM, lines that an input gets. */
#ifndef TESTS_FUZZ_FUZZ_H
#define TESTS_FUZZ_FUZZ_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
size_t LLVMFuzzerMutate(uint8_t *data, size_t size, size_t max);

#define CHECK(cond, ...)                                                                           \
	do {                                                                                       \
		if (!(cond)) {                                                                     \
			fprintf(stderr, __VA_ARGS__);                                              \
			fputc('\n', stderr);                                                       \
			abort();                                                                   \
		}                                                                                  \
	} while (0)

static inline void fuzz_require(bool ok)
{
	if (!ok)
		abort();
}

/* A line that people are shown; of ASCII only, or with other characters' bytes. */
static inline void fuzz_clean_line(const char *text, bool ascii)
{
	for (const char *p = text; *p; p++)
		CHECK((unsigned char)*p >= ' ' && (unsigned char)*p <= (ascii ? '~' : 0xff) &&
			      *p != 0x7f,
		      "not one clean line: %s", text);
}

/* Patches to the @bytes at @to: offset (2 bytes), length 1..8, bytes. */
static inline void fuzz_patch(void *to, size_t bytes, const uint8_t *data, size_t size)
{
	while (size >= 3) {
		size_t at = (data[0] | data[1] << 8) % bytes, n = data[2] % 8 + 1;

		data += 3;
		size -= 3;
		for (size_t i = 0; i < n && i < size && at + i < bytes; i++)
			((uint8_t *)to)[at + i] = data[i];
		data += n < size ? n : size;
		size -= n < size ? n : size;
	}
}

/* Guest RAM, zeros, with guard pages around it. It stays as long as the process. */
static inline uint8_t *fuzz_ram(size_t bytes)
{
	uint8_t *ram = mmap(NULL, bytes + 8192, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	CHECK(ram != MAP_FAILED && !mprotect(ram + 4096, bytes, PROT_READ | PROT_WRITE), "RAM");
	return ram + 4096;
}

/* A custom mutator: mostly one of the @nr @lines, at the start of a line of the input. */
static inline size_t fuzz_add_line(const char *const *lines, size_t nr, uint8_t *data, size_t size,
				   size_t max, unsigned int seed)
{
	const char *line = lines[seed / 4 % nr];
	size_t len = strlen(line), at;

	if (seed % 4 == 0 || size + len > max)
		return LLVMFuzzerMutate(data, size, max);
	at = size ? (seed >> 8) % (size + 1) : 0;
	while (at && at < size && data[at - 1] != '\n')
		at++;
	memmove(data + at + len, data + at, size - at);
	memcpy(data + at, line, len);
	return size + len;
}

#endif
