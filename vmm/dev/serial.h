/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A 16550A UART at COM1 (National PC16550D data sheet, table of registers): output leaves at once
 * and as whole lines; input waits in a queue of SERIAL_INPUT_MAX bytes.
 *
 * Each vCPU of a freestanding guest has its own, without an interrupt, so that lines of several
 * vCPUs do not mix. It only sends: it has no FIFOs, no loopback mode and no input. A VM that boots
 * a stock kernel has one for all vCPUs, with an interrupt. Modem lines never change: there are no
 * modem status interrupts.
 *
 * Output is hostile: serial_text makes a line printable UTF-8 before it is shown.
 */
#pragma once

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "vmm/dev/bus.h"
#include "vpmu/core/blob.h"

#define SERIAL_LINE_MAX	 512  /* longer lines are split */
#define SERIAL_INPUT_MAX 4096 /* bytes that wait for the guest, besides those in its FIFO */
#define SERIAL_FIFO	 16

/* Receives each line, without its newline: raw bytes of the guest, up to SERIAL_LINE_MAX. */
typedef void (*serial_line_fn)(const char *line, size_t len, void *arg);

/* Receives each byte that the guest sends, at once. Called with the UART's lock held. */
typedef void (*serial_byte_fn)(uint8_t byte, void *arg);

/* The interrupt output changes to @level. Called with the UART's lock held. */
typedef void (*serial_irq_fn)(bool level, void *arg);

struct serial_input; /* bytes that wait for room in the FIFO */

struct serial {
	pthread_mutex_t lock; /* protects everything below */
	serial_line_fn fn;
	serial_irq_fn irq;   /* NULL: it only sends */
	serial_byte_fn sent; /* NULL: only lines are wanted. Set after serial_init */
	void *arg;	     /* of fn, irq and sent */
	char line[SERIAL_LINE_MAX];
	unsigned int len;
	uint8_t ier, lcr, mcr, scr, dll, dlm;
	uint8_t fcr;   /* FIFO enable, and the receiver's trigger level */
	bool thre;     /* the interrupt "transmitter empty" is pending */
	bool overrun;  /* reported once in LSR */
	bool level;    /* of the interrupt output */
	uint8_t nr_rx; /* bytes in rx, the oldest first */
	uint8_t rx[SERIAL_FIFO];
	struct serial_input *input; /* NULL: no input so far */
};

/*
 * serial_init - as after a reset; lines go to @fn, on the thread that makes the access. @irq may be
 * NULL. serial_fini - free its memory; it must not be in use.
 */
void serial_init(struct serial *s, serial_line_fn fn, serial_irq_fn irq, void *arg);
void serial_fini(struct serial *s);

/* serial_claim - put @s onto @bus. -errno of bus_claim. */
int serial_claim(struct serial *s, struct bus *bus);

/* serial_flush - hand out an unfinished line. Any thread. */
void serial_flush(struct serial *s);

/* serial_input - @n bytes arrive for the guest, at a UART that has an interrupt. @flush: an
 * unfinished line is handed out first, since it may be the prompt for this input. Returns the
 * number of bytes taken, or -ENOMEM. Any thread. */
long serial_input(struct serial *s, const void *data, size_t n, bool flush);

/* serial_save - append a section with the registers and the unfinished line; of a UART with an
 * interrupt also its FIFO and the input that waits. serial_load - the reverse, into a UART of the
 * same kind that is not in use yet; the interrupt output is restored without a call of
 * serial_irq_fn. -EINVAL: the section is damaged or no guest can cause that state (nothing
 * changed); -ENOMEM. */
void serial_save(struct serial *s, struct vpmu_blob *b);
int serial_load(struct serial *s, struct vpmu_blob_reader *r);

/*
 * serial_text - @len raw bytes as printable UTF-8 in @out (NUL-terminated, SERIAL_TEXT_MAX bytes).
 * Bytes that utf8_shown refuses become \xNN. Returns @out. Pure.
 */
#define SERIAL_TEXT_MAX (4 * SERIAL_LINE_MAX + 1)
const char *serial_text(const char *line, size_t len, char out[SERIAL_TEXT_MAX]);
