// SPDX-License-Identifier: GPL-2.0-or-later
/* vmm/dev/serial.c as the 16550A of a stock kernel, and vmm/dev/power.c. What Linux's driver does
 * to identify the UART, step by step (drivers/tty/serial/8250/8250_port.c). */
#include <criterion/criterion.h>
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "vmm/dev/power.h"
#include "vmm/dev/serial.h"
#include "vmm/engine/platform.h"

enum { THR, IER, IIR, LCR, MCR, LSR, MSR, SCR };

static struct bus bus;
static struct serial s;
static char line[SERIAL_LINE_MAX + 1];
static unsigned int lines, edges;
static bool level;

static void on_line(const char *text, size_t len, void *arg)
{
	memcpy(line, text, len);
	line[len] = 0;
	lines++;
}

static void on_irq(bool l, void *arg)
{
	cr_assert_neq(l, level, "a call without a change");
	level = l;
	edges += l;
}

static void init(void)
{
	serial_init(&s, on_line, on_irq, NULL);
	cr_assert_eq(serial_claim(&s, &bus), 0);
}

static void fini(void)
{
	serial_fini(&s);
}

TestSuite(serial, .init = init, .fini = fini);

static uint8_t in(unsigned int reg)
{
	return (uint8_t)bus_read(&bus, PLATFORM_COM1 + reg, 1);
}

static void out(unsigned int reg, uint8_t value)
{
	bus_write(&bus, PLATFORM_COM1 + reg, 1, value);
}

static long type(const char *text)
{
	return serial_input(&s, text, strlen(text), true);
}

Test(serial, linux_finds_a_16550a)
{
	/* autoconfig(): IER keeps four bits. */
	out(IER, 0);
	cr_assert_eq(in(IER), 0);
	out(IER, 0xff);
	cr_assert_eq(in(IER), 0x0f);
	out(IER, 0);
	/* Loopback: RTS and OUT2 come back as CTS and DCD. */
	out(MCR, 0x10 | 0x0a);
	cr_assert_eq(in(MSR)&0xf0, 0x90);
	out(MCR, 0x10 | 0x05);
	cr_assert_eq(in(MSR)&0xf0, 0x60);
	out(MCR, 0);
	cr_assert_eq(in(MSR), 0xb0);
	/* IIR shows that there are FIFOs, and that they are not those of a later chip. */
	out(LCR, 0xbf);
	out(IIR, 0);
	out(LCR, 0);
	cr_assert_eq(in(IIR), 0x01);
	out(IIR, 1);
	cr_assert_eq(in(IIR) >> 6, 3);
	out(IIR, 0x21);
	cr_assert_eq(in(IIR) >> 5, 6, "not the 64 bytes of a 16750");
	/* The divisor and the scratch register. */
	out(LCR, 0x83);
	out(THR, 0x34);
	out(IER, 0x12);
	cr_assert(in(THR) == 0x34 && in(IER) == 0x12);
	out(LCR, 3);
	cr_assert_eq(in(IER), 0);
	out(SCR, 0xa5);
	cr_assert_eq(in(SCR), 0xa5);
	cr_assert_eq(in(LSR), 0x60);
}

/* serial8250_startup(): an interrupt comes whenever it is enabled while THR is empty. */
Test(serial, transmitter_interrupt)
{
	out(MCR, 0x0b);
	out(IER, 2);
	cr_assert(level);
	cr_assert_eq(in(IIR), 2);
	cr_assert_not(level, "reading IIR takes it back");
	cr_assert_eq(in(IIR), 1);
	out(IER, 0);
	out(IER, 2);
	cr_assert_eq(in(IIR), 2);
	/* Each byte raises it again; sent bytes come out as lines. */
	edges = 0;
	for (const char *p = "hi\r\n"; *p; p++) {
		out(THR, (uint8_t)*p);
		cr_assert(level);
		cr_assert_eq(in(IIR), 2);
	}
	cr_assert_eq(edges, 4);
	cr_assert(lines == 1 && !strcmp(line, "hi"));
	/* Without OUT2 the output is not connected. */
	out(THR, 'x');
	out(MCR, 3);
	cr_assert_not(level);
	cr_assert_eq(in(IIR), 2);
}

Test(serial, receiver)
{
	out(MCR, 0x0b);
	out(IIR, 0x81); /* FIFOs on, interrupt at 8 bytes */
	cr_assert_eq(type("ab"), 2);
	cr_assert_not(level);
	cr_assert_eq(in(LSR), 0x61);
	out(IER, 1);
	cr_assert(level);
	cr_assert_eq(in(IIR), 0xcc, "fewer than 8: a time-out");
	cr_assert_eq(type("cdefgh"), 6);
	cr_assert_eq(in(IIR), 0xc4);
	for (const char *p = "abcdefgh"; *p; p++) {
		cr_assert(level);
		cr_assert_eq(in(THR), *p);
	}
	cr_assert_not(level);
	cr_assert_eq(in(LSR), 0x60);
	cr_assert_eq(in(IIR), 0xc1);
	cr_assert_eq(in(THR), 0, "nothing there");
	/* Without FIFOs one byte at a time, each with an interrupt. */
	out(IIR, 0);
	cr_assert_eq(type("xy"), 2);
	cr_assert_eq(in(IIR), 4);
	cr_assert_eq(in(THR), 'x');
	cr_assert_eq(in(IIR), 4);
	cr_assert_eq(in(THR), 'y');
	cr_assert_eq(in(IIR), 1);
	/* Resetting the FIFO drops its bytes, and not those that wait. */
	out(IIR, 1);
	cr_assert_eq(type("0123456789abcdefghij"), 20);
	out(IIR, 3);
	cr_assert_eq(in(THR), 'g');
	/* The receiver comes before the transmitter. */
	out(IER, 3);
	cr_assert_eq(in(IIR), 0xc4);
	while (in(LSR)&1)
		in(THR);
	cr_assert_eq(in(IIR), 0xc2);
}

/* A guest that does not read costs a bounded amount of memory, and the sender is notified. */
Test(serial, input_is_bounded)
{
	static char much[3 * SERIAL_INPUT_MAX];
	unsigned int n = 0;

	for (size_t i = 0; i < sizeof(much); i++)
		much[i] = (char)('a' + i % 23);
	cr_assert_eq(serial_input(&s, much, sizeof(much), true), SERIAL_INPUT_MAX);
	/* One byte has come out of the queue into the receiver. */
	cr_assert_eq(serial_input(&s, much + SERIAL_INPUT_MAX, 5, true), 1);
	cr_assert_eq(serial_input(&s, "x", 1, true), 0);
	for (; in(LSR)&1; n++)
		cr_assert_eq(in(THR), much[n], "byte %u", n);
	cr_assert_eq(n, SERIAL_INPUT_MAX + 1);
	cr_assert_eq(serial_input(&s, "z", 1, true), 1);
	cr_assert_eq(in(THR), 'z');
}

/* In loopback mode sent bytes are received, no others are, and nothing comes out. */
Test(serial, loopback)
{
	out(MCR, 0x1b);
	out(IER, 5);
	out(THR, 'q');
	cr_assert_eq(type("w"), 1);
	cr_assert_not(level, "the interrupt output is off");
	cr_assert_eq(in(IIR), 4);
	out(THR, 'r'); /* overrun: one byte fits */
	cr_assert_eq(in(IIR), 6);
	cr_assert_eq(in(LSR), 0x63);
	cr_assert_eq(in(LSR), 0x61);
	cr_assert_eq(in(THR), 'q');
	cr_assert_eq(in(LSR), 0x60);
	cr_assert_eq(lines, 0);
	out(MCR, 0x0b);
	cr_assert(level);
	cr_assert_eq(in(THR), 'w');
}

/* A prompt has no newline; it comes out before the answer. */
Test(serial, prompt)
{
	for (const char *p = "login: "; *p; p++)
		out(THR, (uint8_t)*p);
	cr_assert_eq(lines, 0);
	type("me\n");
	cr_assert(lines == 1 && !strcmp(line, "login: "));
}

/* Without an interrupt it only sends, as that of freestanding guests always did. */
Test(serial, only_sends)
{
	struct bus other = {0};
	struct serial t;

	serial_init(&t, on_line, NULL, NULL);
	cr_assert_eq(serial_claim(&t, &other), 0);
	bus_write(&other, PLATFORM_COM1 + IIR, 1, 1);
	bus_write(&other, PLATFORM_COM1 + IER, 1, 0xf);
	bus_write(&other, PLATFORM_COM1 + MCR, 1, 0x1f);
	bus_write(&other, PLATFORM_COM1, 1, 'a');
	cr_assert_eq(bus_read(&other, PLATFORM_COM1 + IIR, 1), 1);
	cr_assert_eq(bus_read(&other, PLATFORM_COM1 + LSR, 1), 0x60);
	cr_assert_eq(bus_read(&other, PLATFORM_COM1 + MSR, 1), 0xb0);
	serial_flush(&t);
	cr_assert(lines == 1 && !strcmp(line, "a"));
	serial_fini(&t);
}

/* vCPUs and the operator at once: no byte is lost or doubled, and the line settles as it should. */
static void *typist(void *arg)
{
	for (unsigned int i = 0; i < 20000;)
		i += serial_input(&s, "k", 1, true) == 1;
	return NULL;
}

/* In a snapshot: registers, FIFO, input that waits, the interrupt; hostile bytes change nothing. */
Test(serial, snapshot)
{
	static char long_input[100];
	struct vpmu_blob b = {0}, again = {0};
	struct vpmu_blob_reader r;
	struct serial t;
	uint8_t *copy;

	memset(long_input, 'z', sizeof(long_input) - 1);
	out(IIR, 0xc1);
	out(MCR, 0x0b);
	out(IER, 3);
	out(SCR, 0x5a);
	out(THR, 'h');
	out(THR, 'i');
	cr_assert_eq(type(long_input), 99); /* hands out "hi" */
	out(THR, '!');
	cr_assert(level);
	serial_save(&s, &b);
	cr_assert_not(b.failed);

	for (size_t i = 0; i < b.len; i++) {
		serial_init(&t, on_line, on_irq, NULL);
		r = (struct vpmu_blob_reader){.data = b.data, .len = i};
		cr_assert_eq(serial_load(&t, &r), -EINVAL, "length %zu", i);
		serial_fini(&t);
	}
	copy = malloc(b.len);
	for (size_t i = 0; i < 8 * b.len; i++) {
		serial_init(&t, on_line, on_irq, NULL);
		memcpy(copy, b.data, b.len);
		copy[i / 8] ^= (uint8_t)(1u << i % 8);
		r = (struct vpmu_blob_reader){.data = copy, .len = b.len};
		if (!serial_load(&t, &r)) {
			serial_save(&t, &again);
			cr_assert(again.len == b.len && !memcmp(again.data, copy, b.len),
				  "bit %zu: taken as something else", i);
			vpmu_blob_fini(&again);
		}
		serial_fini(&t);
	}
	free(copy);

	/* The other one goes on: its line is still active, and all of the input comes. */
	serial_init(&t, on_line, on_irq, NULL);
	r = (struct vpmu_blob_reader){.data = b.data, .len = b.len};
	cr_assert(!serial_load(&t, &r) && vpmu_blob_done(&r));
	vpmu_blob_fini(&b);
	serial_fini(&s);
	memset(&bus, 0, sizeof(bus));
	cr_assert_eq(serial_claim(&t, &bus), 0);
	cr_assert_eq(in(SCR), 0x5a);
	cr_assert_eq(in(IIR)&0xf, 4);
	for (int i = 0; i < 99; i++)
		cr_assert_eq(in(THR), 'z', "byte %d", i);
	cr_assert_eq(in(LSR), 0x60);
	out(IER, 0);
	cr_assert_not(level);
	out(THR, '\n');
	cr_assert_str_eq(line, "!");
	serial_fini(&t);
}

Test(serial, threads)
{
	unsigned int n = 0;
	pthread_t t;

	out(MCR, 0x0b);
	out(IIR, 1);
	out(IER, 1);
	cr_assert_eq(pthread_create(&t, NULL, typist, NULL), 0);
	while (n < 20000)
		if (in(LSR)&1)
			n += in(THR) == 'k';
	pthread_join(t, NULL);
	cr_assert_eq(in(LSR), 0x60);
	cr_assert_not(level);
}

/* ---- power ---- */

static unsigned int offs, resets;

static void on_off(void *arg)
{
	offs++;
}

static void on_reset(void *arg)
{
	resets++;
}

Test(power, ports)
{
	struct power p = {.off = on_off, .reset = on_reset};
	struct bus b = {0};

	cr_assert_eq(power_claim(&p, &b), 0);
	/* Only soft off, and only with SLP_EN. */
	for (unsigned int v = 0; v < 256; v++) {
		offs = 0;
		bus_write(&b, 0x600, 1, v);
		cr_assert_eq(offs, (v & 0x20) && (v >> 2 & 7) == 5, "%x", v);
	}
	offs = 0;
	bus_write(&b, 0x601, 1, 0x34);
	cr_assert_eq(offs, 0);
	cr_assert_eq(bus_read(&b, 0x600, 2), 0);
	/* As a word it is two bytes, of which the first is sleep control. */
	bus_write(&b, 0x600, 2, 0x34);
	cr_assert_eq(offs, 1);

	/* The reset register is a byte. A PCI address over it is something else: test_pci.c. */
	bus_write(&b, 0xcf9, 1, 2);
	cr_assert_eq(resets, 0);
	bus_write(&b, 0xcf8, 2, 0xffff);
	bus_write(&b, 0xcf8, 1, 0xff);
	bus_write(&b, 0xcfa, 1, 0xff);
	cr_assert_eq(resets, 0);
	cr_assert_eq(bus_read(&b, 0xcf8, 2), 0xffff);
	bus_write(&b, 0xcf9, 1, 6);
	cr_assert_eq(resets, 1);

	cr_assert_eq(bus_read(&b, 0x64, 1) & 2, 0, "its input buffer is empty");
	bus_write(&b, 0x64, 1, 0xff);
	cr_assert_eq(resets, 1);
	bus_write(&b, 0x64, 1, 0xfe);
	cr_assert_eq(resets, 2);
	cr_assert_eq(offs, 1);
}
