// SPDX-License-Identifier: GPL-2.0-or-later
/* The UART's registers, its snapshot section, and making lines printable. See serial.h. */
#include <stdio.h>

#include "vmm/dev/serial.h"
#include "vpmu/guest/abi.h"
#include "vpmu/util/utf8.h"

/* Registers, as offsets from the base port. */
enum { REG_THR, REG_IER, REG_IIR, REG_LCR, REG_MCR, REG_LSR, REG_MSR, REG_SCR, REGS };

#define LCR_DLAB      0x80 /* THR and IER are the divisor latch */
#define IIR_NONE      0x01 /* no interrupt pending */
#define LSR_TX_READY  0x60 /* THR and shift register empty */
#define MSR_CONNECTED 0xb0 /* DCD, DSR, CTS */

void serial_init(struct serial *s, serial_line_fn fn, void *arg)
{
	*s = (struct serial){.fn = fn, .arg = arg};
}

void serial_flush(struct serial *s)
{
	if (s->len)
		s->fn(s->line, s->len, s->arg);
	s->len = 0;
}

static void transmit(struct serial *s, uint8_t byte)
{
	if (byte == '\n') {
		s->fn(s->line, s->len, s->arg);
		s->len = 0;
		return;
	}
	if (byte == '\r')
		return;
	if (s->len == sizeof(s->line))
		serial_flush(s);
	s->line[s->len++] = (char)byte;
}

static void serial_write(void *dev, uint64_t reg, unsigned int size, uint64_t data)
{
	struct serial *s = dev;
	uint8_t value = (uint8_t)data;

	switch (reg) {
	case REG_THR:
		if (s->lcr & LCR_DLAB)
			s->dll = value;
		else
			transmit(s, value);
		break;
	case REG_IER:
		if (s->lcr & LCR_DLAB)
			s->dlm = value;
		else
			s->ier = value & 0xf;
		break;
	case REG_LCR:
		s->lcr = value;
		break;
	case REG_MCR:
		s->mcr = value & 0x1f;
		break;
	case REG_SCR:
		s->scr = value;
		break;
	}
}

static uint64_t serial_read(void *dev, uint64_t reg, unsigned int size)
{
	const struct serial *s = dev;

	switch (reg) {
	case REG_THR: /* RBR: nothing is ever received */
		return s->lcr & LCR_DLAB ? s->dll : 0;
	case REG_IER:
		return s->lcr & LCR_DLAB ? s->dlm : s->ier;
	case REG_IIR:
		return IIR_NONE;
	case REG_LCR:
		return s->lcr;
	case REG_MCR:
		return s->mcr;
	case REG_LSR:
		return LSR_TX_READY;
	case REG_MSR:
		return MSR_CONNECTED;
	default:
		return s->scr;
	}
}

int serial_claim(struct serial *s, struct bus *bus)
{
	static const struct bus_device ops = {
		.sizes = 1, .read = serial_read, .write = serial_write};

	return bus_claim(bus, VPMU_PORT_COM1, REGS, &ops, s);
}

/* ---- snapshots ---- */

#define TAG 0x4c524553u /* "SERL" */

void serial_save(const struct serial *s, struct vpmu_blob *b)
{
	size_t section = vpmu_blob_begin(b, TAG, 1);

	vpmu_blob_u8(b, s->ier);
	vpmu_blob_u8(b, s->lcr);
	vpmu_blob_u8(b, s->mcr);
	vpmu_blob_u8(b, s->scr);
	vpmu_blob_u8(b, s->dll);
	vpmu_blob_u8(b, s->dlm);
	vpmu_blob_u16(b, (uint16_t)s->len);
	vpmu_blob_bytes(b, s->line, s->len);
	vpmu_blob_end(b, section);
}

bool serial_load(struct serial *s, struct vpmu_blob_reader *r)
{
	struct serial n = {.fn = s->fn, .arg = s->arg};
	struct vpmu_blob_reader in;
	uint16_t version;

	if (!vpmu_blob_get_section(r, TAG, &version, &in) || version != 1)
		return false;
	n.ier = vpmu_blob_get_u8(&in);
	n.lcr = vpmu_blob_get_u8(&in);
	n.mcr = vpmu_blob_get_u8(&in);
	n.scr = vpmu_blob_get_u8(&in);
	n.dll = vpmu_blob_get_u8(&in);
	n.dlm = vpmu_blob_get_u8(&in);
	n.len = vpmu_blob_get_u16(&in);
	if (n.len > SERIAL_LINE_MAX || n.ier > 0xf || n.mcr > 0x1f)
		return false;
	vpmu_blob_get_bytes(&in, n.line, n.len);
	if (!vpmu_blob_done(&in))
		return false;
	*s = n;
	return true;
}

/* ---- text ---- */

const char *serial_text(const char *line, size_t len, char out[SERIAL_TEXT_MAX])
{
	const char *p = line;
	char *o = out;

	for (size_t i = 0; i < len;) {
		size_t n = utf8_shown(p + i, len - i);

		if (!n)
			o += sprintf(o, "\\x%02x", (unsigned char)p[i++]);
		while (n--)
			*o++ = p[i++];
	}
	*o = 0;
	return out;
}
