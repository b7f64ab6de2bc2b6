// SPDX-License-Identifier: GPL-2.0-or-later
#include <stdio.h>

#include "vmm/dev/serial.h"
#include "vpmu/guest/abi.h"

/* Registers, as offsets from the base port. */
enum { REG_THR, REG_IER, REG_IIR, REG_LCR, REG_MCR, REG_LSR, REG_MSR, REG_SCR };

#define LCR_DLAB      0x80 /* THR and IER are the divisor latch */
#define IIR_NONE      0x01 /* no interrupt pending */
#define LSR_TX_READY  0x60 /* THR and shift register empty */
#define MSR_CONNECTED 0xb0 /* DCD, DSR, CTS */

bool serial_claims(uint16_t port)
{
	return port >= VPMU_PORT_COM1 && port <= VPMU_PORT_COM1 + REG_SCR;
}

void serial_flush(struct serial *s, serial_line_fn fn, void *arg)
{
	if (s->len)
		fn(s->line, s->len, arg);
	s->len = 0;
}

static void transmit(struct serial *s, uint8_t byte, serial_line_fn fn, void *arg)
{
	if (byte == '\n') {
		fn(s->line, s->len, arg);
		s->len = 0;
		return;
	}
	if (byte == '\r')
		return;
	if (s->len == sizeof(s->line))
		serial_flush(s, fn, arg);
	s->line[s->len++] = (char)byte;
}

void serial_out(struct serial *s, uint16_t port, uint8_t value, serial_line_fn fn, void *arg)
{
	switch (port - VPMU_PORT_COM1) {
	case REG_THR:
		if (s->lcr & LCR_DLAB)
			s->dll = value;
		else
			transmit(s, value, fn, arg);
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

uint8_t serial_in(const struct serial *s, uint16_t port)
{
	switch (port - VPMU_PORT_COM1) {
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

/*
 * Length of the UTF-8 character at @p (@left bytes) when it may be shown, 0 when not: the ranges
 * of RFC 3629 section 4, without the control characters U+0000-1F and U+007F-9F.
 */
static size_t printable(const unsigned char *p, size_t left)
{
	size_t len;
	unsigned int min = 0x80, max = 0xbf; /* of the second byte */

	if (p[0] < 0x80)
		return p[0] == '\t' || (p[0] >= 0x20 && p[0] != 0x7f);
	if (p[0] >= 0xc2 && p[0] <= 0xdf)
		len = 2;
	else if (p[0] >= 0xe0 && p[0] <= 0xef)
		len = 3;
	else if (p[0] >= 0xf0 && p[0] <= 0xf4)
		len = 4;
	else
		return 0;
	if (len > left)
		return 0;
	switch (p[0]) {
	case 0xc2:
		min = 0xa0; /* C1 controls */
		break;
	case 0xe0:
		min = 0xa0; /* overlong */
		break;
	case 0xed:
		max = 0x9f; /* surrogates */
		break;
	case 0xf0:
		min = 0x90; /* overlong */
		break;
	case 0xf4:
		max = 0x8f; /* beyond U+10FFFF */
		break;
	}
	if (p[1] < min || p[1] > max)
		return 0;
	for (size_t i = 2; i < len; i++)
		if (p[i] < 0x80 || p[i] > 0xbf)
			return 0;
	return len;
}

const char *serial_text(const char *line, size_t len, char out[SERIAL_TEXT_MAX])
{
	const unsigned char *p = (const unsigned char *)line;
	char *o = out;

	for (size_t i = 0; i < len;) {
		size_t n = printable(p + i, len - i);

		if (!n)
			o += sprintf(o, "\\x%02x", p[i++]);
		while (n--)
			*o++ = (char)p[i++];
	}
	*o = 0;
	return out;
}
