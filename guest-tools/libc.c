// SPDX-License-Identifier: GPL-2.0-or-later
/* memcpy, memset and memmove, which gcc may call from freestanding code. The tools link them; the
 * kernel must not call them, because they are in the tools' part of the image. */
#include <stddef.h>

void *memcpy(void *to, const void *from, size_t n);
void *memset(void *to, int c, size_t n);
void *memmove(void *to, const void *from, size_t n);

void *memcpy(void *to, const void *from, size_t n)
{
	void *ret = to;

	__asm__ volatile("rep movsb" : "+D"(to), "+S"(from), "+c"(n) : : "memory");
	return ret;
}

void *memset(void *to, int c, size_t n)
{
	void *ret = to;

	__asm__ volatile("rep stosb" : "+D"(to), "+c"(n) : "a"(c) : "memory");
	return ret;
}

void *memmove(void *to, const void *from, size_t n)
{
	char *t = to;
	const char *f = from;

	if (t <= f || t >= f + n)
		return memcpy(to, from, n);
	while (n--) {
		t[n] = f[n];
		__asm__ volatile("" : : : "memory"); /* keep it a loop, not a call of memmove */
	}
	return to;
}
