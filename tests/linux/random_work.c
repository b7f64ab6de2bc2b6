// SPDX-License-Identifier: GPL-2.0-or-later
/* Random numbers, and work that is counted; see random.h. */
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "random.h"

uint64_t state;

uint64_t rnd(void)
{
	/* xorshift64*; its low bits are the weaker ones */
	state ^= state >> 12;
	state ^= state << 25;
	state ^= state >> 27;
	return (state * 0x2545f4914f6cdd1dULL) >> 16;
}

unsigned int below(unsigned int n)
{
	return (unsigned int)(rnd() % n);
}

bool one_in(unsigned int n)
{
	return !below(n);
}

volatile unsigned int sink[1024];

void work(void)
{
	switch (below(4)) {
	case 0:
		loop(1 + below(20000));
		break;
	case 1:
		for (unsigned int i = below(1024); i < 1024; i++)
			sink[(i * 17) & 1023] += i;
		break;
	case 2:
		for (unsigned int i = below(20); i; i--)
			syscall(SYS_getppid);
		break;
	default: {
		volatile char *p = mmap(NULL, 4 * PAGE, PROT_READ | PROT_WRITE,
					MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

		if (p != MAP_FAILED) {
			p[below(4 * PAGE)] = 1;
			munmap((void *)p, 4 * PAGE);
		}
	}
	}
}
