/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The transmit half of a 16550 UART at COM1 (National PC16550D data sheet, table of registers).
 * Each vCPU of a freestanding guest has one of its own, so that lines of several vCPUs do not mix.
 *
 * What the guest sends is hostile: serial_text makes a line printable UTF-8 before anyone sees it.
 */
#ifndef VMM_DEV_SERIAL_H
#define VMM_DEV_SERIAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "vmm/dev/bus.h"
#include "vpmu/blob.h"

#define SERIAL_LINE_MAX 512 /* longer lines come out in pieces */

/* Receives each line, without its newline: raw bytes of the guest, at most SERIAL_LINE_MAX. */
typedef void (*serial_line_fn)(const char *line, size_t len, void *arg);

struct serial {
	serial_line_fn fn;
	void *arg; /* of fn */
	char line[SERIAL_LINE_MAX];
	unsigned int len;
	uint8_t ier, lcr, mcr, scr, dll, dlm;
};

/* serial_init - as after a reset; lines go to @fn, on the thread that makes the access. */
void serial_init(struct serial *s, serial_line_fn fn, void *arg);

/* serial_claim - put @s onto @bus. -errno of bus_claim. */
int serial_claim(struct serial *s, struct bus *bus);

/* serial_flush - hand out an unfinished line. The vCPU's thread. */
void serial_flush(struct serial *s);

/* serial_save - append a section with the registers and the unfinished line. serial_load - the
 * reverse; false: the section is damaged or no guest can bring it about, nothing changed. */
void serial_save(const struct serial *s, struct vpmu_blob *b);
bool serial_load(struct serial *s, struct vpmu_blob_reader *r);

/*
 * serial_text - @len raw bytes as printable UTF-8 in @out (NUL-terminated, SERIAL_TEXT_MAX bytes).
 * What utf8_shown refuses becomes \xNN, byte by byte. Returns @out. Pure.
 */
#define SERIAL_TEXT_MAX (4 * SERIAL_LINE_MAX + 1)
const char *serial_text(const char *line, size_t len, char out[SERIAL_TEXT_MAX]);

#endif
