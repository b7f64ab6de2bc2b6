// SPDX-License-Identifier: GPL-2.0-or-later
/* A program whose profile is known: it is in one function all the time. */

static volatile unsigned long turns;

__attribute__((noinline)) static void spin_here(void)
{
	for (;;)
		turns++;
}

int main(void)
{
	spin_here();
	return 0;
}
