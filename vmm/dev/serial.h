/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The transmit half of a 16550 at COM1 (National PC16550D data sheet, table of registers), one
 * per vCPU, so that lines of several vCPUs do not mix. What the guest sends is hostile: lines go
 * out as printable UTF-8, everything else as \xNN.
 */
#ifndef VMM_DEV_SERIAL_H
#define VMM_DEV_SERIAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SERIAL_LINE_MAX 512 /* longer lines go out in pieces */

struct serial {
	char line[SERIAL_LINE_MAX];
	unsigned int len;
	uint8_t ier, lcr, mcr, scr, dll, dlm;
};

/* Receives each line, without its newline: raw bytes of the guest, at most SERIAL_LINE_MAX. */
typedef void (*serial_line_fn)(const char *line, size_t len, void *arg);

/* serial_claims - whether @port is one of the device's. Pure. */
bool serial_claims(uint16_t port);

/* serial_out / serial_in - one byte to/from @port of the device. The vCPU's thread. */
void serial_out(struct serial *s, uint16_t port, uint8_t value, serial_line_fn fn, void *arg);
uint8_t serial_in(const struct serial *s, uint16_t port);

/* serial_flush - hand out an unfinished line. The vCPU's thread. */
void serial_flush(struct serial *s, serial_line_fn fn, void *arg);

/*
 * serial_text - @len raw bytes as printable UTF-8 in @out (NUL-terminated, SERIAL_TEXT_MAX
 * bytes): control characters and what is not UTF-8 as \xNN. Returns @out. Pure.
 */
#define SERIAL_TEXT_MAX (4 * SERIAL_LINE_MAX + 1)
const char *serial_text(const char *line, size_t len, char out[SERIAL_TEXT_MAX]);

#endif
