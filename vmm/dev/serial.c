// SPDX-License-Identifier: GPL-2.0-or-later
/* The UART's registers and interrupt, its snapshot section, and making lines printable. See
 * serial.h. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "vmm/dev/serial.h"
#include "vpmu/core/blob_io.h"
#include "vpmu/guest/abi.h"
#include "vpmu/util/utf8.h"

/* Registers, as offsets from the base port. FCR is the write side of IIR. */
enum { REG_THR, REG_IER, REG_IIR, REG_LCR, REG_MCR, REG_LSR, REG_MSR, REG_SCR, REGS };

#define IER_RX	  0x01
#define IER_TX	  0x02
#define IER_LSR	  0x04
#define IER_BITS  0x0f
#define FCR_ON	  0x01
#define FCR_RESET 0x02 /* of the receiver */
#define FCR_KEPT  0xc1 /* FCR_ON and the trigger level */
#define LCR_DLAB  0x80 /* THR and IER are the divisor latch */
#define MCR_RTS	  0x02
#define MCR_OUT2  0x08 /* on PCs: the interrupt output is connected */
#define MCR_LOOP  0x10
#define MCR_BITS  0x1f

/* IIR: pending interrupts, the highest priority first. */
#define IIR_LSR	    0x06
#define IIR_RX	    0x04
#define IIR_TIMEOUT 0x0c /* bytes wait, fewer than the trigger level */
#define IIR_TX	    0x02
#define IIR_NONE    0x01
#define IIR_FIFOS   0xc0

#define LSR_DATA      0x01
#define LSR_OVERRUN   0x02
#define LSR_TX_READY  0x60 /* THR and shift register empty */
#define MSR_CONNECTED 0xb0 /* DCD, DSR, CTS */

/* Bytes that wait: from tail to head, which count all bytes since the start. */
struct serial_input {
	uint64_t head, tail;
	uint8_t ring[SERIAL_INPUT_MAX];
};

void serial_init(struct serial *s, serial_line_fn fn, serial_irq_fn irq, void *arg)
{
	*s = (struct serial){.fn = fn, .irq = irq, .arg = arg};
	pthread_mutex_init(&s->lock, NULL);
}

void serial_fini(struct serial *s)
{
	/* A UART that was never initialized is zero. */
	if (s->fn)
		pthread_mutex_destroy(&s->lock);
	free(s->input);
	*s = (struct serial){0};
}

/* Under lock, as are all static functions below. */
static void dev_serial_flush(struct serial *s)
{
	if (s->len)
		s->fn(s->line, s->len, s->arg);
	s->len = 0;
}

void serial_flush(struct serial *s)
{
	pthread_mutex_lock(&s->lock);
	dev_serial_flush(s);
	pthread_mutex_unlock(&s->lock);
}

/* ---- interrupts ---- */

/* Bytes in the FIFO that make the receiver's interrupt pending. */
static unsigned int trigger(const struct serial *s)
{
	static const uint8_t levels[] = {1, 4, 8, 14};

	return s->fcr & FCR_ON ? levels[s->fcr >> 6] : 1;
}

static uint8_t serial_pending(const struct serial *s)
{
	if (!s->irq)
		return IIR_NONE;
	if (s->ier & IER_LSR && s->overrun)
		return IIR_LSR;
	if (s->ier & IER_RX && s->nr_rx >= trigger(s))
		return IIR_RX;
	/* The timeout of four character times has always expired. */
	if (s->ier & IER_RX && s->nr_rx)
		return IIR_TIMEOUT;
	if (s->ier & IER_TX && s->thre)
		return IIR_TX;
	return IIR_NONE;
}

/* In loopback mode the outputs are inactive, also OUT2. */
static bool level_of(const struct serial *s)
{
	return serial_pending(s) != IIR_NONE && (s->mcr & (MCR_OUT2 | MCR_LOOP)) == MCR_OUT2;
}

static void update_irq(struct serial *s)
{
	bool level = level_of(s);

	if (!s->irq || level == s->level)
		return;
	s->level = level;
	s->irq(level, s->arg);
}

/* ---- receiving ---- */

static bool loopback(const struct serial *s)
{
	return s->irq && s->mcr & MCR_LOOP;
}

static unsigned int fifo_room(const struct serial *s)
{
	unsigned int size = s->fcr & FCR_ON ? SERIAL_FIFO : 1;

	return s->nr_rx < size ? size - s->nr_rx : 0;
}

/* Move bytes that wait into the FIFO. In loopback mode the input is disconnected. */
static void fill_fifo(struct serial *s)
{
	struct serial_input *in = s->input;

	while (in && in->tail != in->head && fifo_room(s) && !loopback(s))
		s->rx[s->nr_rx++] = in->ring[in->tail++ % SERIAL_INPUT_MAX];
}

static uint8_t serial_receive(struct serial *s)
{
	uint8_t byte = 0;

	if (s->nr_rx) {
		byte = s->rx[0];
		memmove(s->rx, s->rx + 1, --s->nr_rx);
	}
	fill_fifo(s);
	return byte;
}

static void set_fcr(struct serial *s, uint8_t value)
{
	if (!s->irq)
		return;
	/* Bits 7:6 count only with bit 0 set; turning FIFOs on or off empties them. */
	if ((value ^ s->fcr) & FCR_ON || (value & FCR_ON && value & FCR_RESET))
		s->nr_rx = 0;
	s->fcr = value & FCR_ON ? value & FCR_KEPT : 0;
	fill_fifo(s);
}

long serial_input(struct serial *s, const void *data, size_t n, bool flush)
{
	size_t room;

	pthread_mutex_lock(&s->lock);
	if (flush)
		dev_serial_flush(s);
	if (!s->input)
		s->input = calloc(1, sizeof(*s->input));
	if (!s->input) {
		pthread_mutex_unlock(&s->lock);
		return -ENOMEM;
	}
	room = SERIAL_INPUT_MAX - (size_t)(s->input->head - s->input->tail);
	if (n > room)
		n = room;
	for (size_t i = 0; i < n; i++)
		s->input->ring[s->input->head++ % SERIAL_INPUT_MAX] = ((const uint8_t *)data)[i];
	fill_fifo(s);
	update_irq(s);
	pthread_mutex_unlock(&s->lock);
	return (long)n;
}

/* ---- sending ---- */

static void serial_transmit(struct serial *s, uint8_t byte)
{
	s->thre = true; /* it is empty again at once */
	if (loopback(s)) {
		if (fifo_room(s))
			s->rx[s->nr_rx++] = byte;
		else
			s->overrun = true;
		return;
	}
	if (s->sent)
		s->sent(byte, s->arg);
	if (byte == '\n') {
		s->fn(s->line, s->len, s->arg);
		s->len = 0;
		return;
	}
	if (byte == '\r')
		return;
	if (s->len == sizeof(s->line))
		dev_serial_flush(s);
	s->line[s->len++] = (char)byte;
}

/* ---- registers ---- */

static void serial_write(void *dev, uint64_t reg, unsigned int size, uint64_t data)
{
	struct serial *s = dev;
	uint8_t value = (uint8_t)data;

	pthread_mutex_lock(&s->lock);
	switch (reg) {
	case REG_THR:
		if (s->lcr & LCR_DLAB)
			s->dll = value;
		else
			serial_transmit(s, value);
		break;
	case REG_IER:
		if (s->lcr & LCR_DLAB) {
			s->dlm = value;
			break;
		}
		/* Enabling the interrupt while THR is empty raises it. */
		if (value & ~s->ier & IER_TX)
			s->thre = true;
		s->ier = value & IER_BITS;
		break;
	case REG_IIR:
		set_fcr(s, value);
		break;
	case REG_LCR:
		s->lcr = value;
		break;
	case REG_MCR:
		s->mcr = value & MCR_BITS;
		fill_fifo(s);
		break;
	case REG_SCR:
		s->scr = value;
		break;
	}
	update_irq(s);
	pthread_mutex_unlock(&s->lock);
}

static uint8_t read_iir(struct serial *s)
{
	uint8_t iir = serial_pending(s);

	if (iir == IIR_TX)
		s->thre = false;
	return s->fcr & FCR_ON ? iir | IIR_FIFOS : iir;
}

static uint8_t read_lsr(struct serial *s)
{
	uint8_t lsr = (uint8_t)(LSR_TX_READY | (s->nr_rx ? LSR_DATA : 0) |
				(s->overrun ? LSR_OVERRUN : 0));

	s->overrun = false;
	return lsr;
}

/* In loopback mode the modem's inputs are its outputs: DTR is DSR, RTS CTS, OUT1 RI, OUT2 DCD. */
static uint8_t serial_read_msr(const struct serial *s)
{
	if (!loopback(s))
		return MSR_CONNECTED;
	return (uint8_t)((s->mcr & 0x0c) << 4 | (s->mcr & 1) << 5 | (s->mcr & MCR_RTS) << 3);
}

static uint8_t read_register(struct serial *s, uint64_t reg)
{
	switch (reg) {
	case REG_THR: /* RBR */
		return s->lcr & LCR_DLAB ? s->dll : serial_receive(s);
	case REG_IER:
		return s->lcr & LCR_DLAB ? s->dlm : s->ier;
	case REG_IIR:
		return read_iir(s);
	case REG_LCR:
		return s->lcr;
	case REG_MCR:
		return s->mcr;
	case REG_LSR:
		return read_lsr(s);
	case REG_MSR:
		return serial_read_msr(s);
	default:
		return s->scr;
	}
}

static uint64_t serial_read(void *dev, uint64_t reg, unsigned int size)
{
	struct serial *s = dev;
	uint8_t value;

	pthread_mutex_lock(&s->lock);
	value = read_register(s, reg);
	update_irq(s);
	pthread_mutex_unlock(&s->lock);
	return value;
}

int serial_claim(struct serial *s, struct bus *bus)
{
	static const struct bus_device ops = {
		.sizes = 1, .read = serial_read, .write = serial_write};

	return bus_claim(bus, VPMU_PORT_COM1, REGS, &ops, s);
}

/* ---- snapshots ---- */

#define TAG 0x4c524553u /* "SERL" */

/* A UART with an interrupt also has a receiver, and input in *s->input. */
static void serial_io(struct blob_io *io, struct serial *s)
{
	struct serial_input *in = s->input;
	uint16_t len = (uint16_t)s->len, waits = in ? (uint16_t)(in->head - in->tail) : 0;

	IO(s->ier), IO(s->lcr), IO(s->mcr), IO(s->scr), IO(s->dll), IO(s->dlm), IO(len);
	if (len > SERIAL_LINE_MAX || s->ier > IER_BITS || s->mcr > MCR_BITS)
		goto bad;
	s->len = len;
	blob_io_bytes(io, s->line, len);
	if (!s->irq)
		return;
	IO(s->fcr), IO_BOOL(s->thre), IO_BOOL(s->overrun), IO(s->nr_rx);
	if (s->fcr & ~(s->fcr & FCR_ON ? FCR_KEPT : 0) ||
	    s->nr_rx > (s->fcr & FCR_ON ? SERIAL_FIFO : 1))
		goto bad;
	blob_io_bytes(io, s->rx, s->nr_rx);
	IO(waits);
	/* Input only waits while the FIFO has no room. */
	if (waits > SERIAL_INPUT_MAX || (waits && fifo_room(s) && !loopback(s)))
		goto bad;
	if (io->in)
		*in = (struct serial_input){.head = waits};
	for (unsigned int i = 0; i < waits; i++)
		IO(in->ring[(in->tail + i) % SERIAL_INPUT_MAX]);
	return;
bad:
	if (io->in)
		io->in->failed = true;
}

void serial_save(struct serial *s, struct vpmu_blob *b)
{
	size_t section = vpmu_blob_begin(b, TAG, s->irq ? 2 : 1);

	pthread_mutex_lock(&s->lock);
	serial_io(&(struct blob_io){.out = b}, s);
	pthread_mutex_unlock(&s->lock);
	vpmu_blob_end(b, section);
}

int serial_load(struct serial *s, struct vpmu_blob_reader *r)
{
	struct serial_input *in = s->irq ? calloc(1, sizeof(*in)) : NULL;
	struct serial n = {.irq = s->irq, .input = in};
	struct vpmu_blob_reader first, again;

	if (s->irq && !in)
		return -ENOMEM;
	if (!vpmu_blob_get_section(r, TAG, s->irq ? 2 : 1, &first))
		goto bad;
	again = first;
	serial_io(&(struct blob_io){.in = &first}, &n);
	if (!vpmu_blob_done(&first))
		goto bad;
	pthread_mutex_lock(&s->lock);
	free(s->input);
	s->input = in;
	serial_io(&(struct blob_io){.in = &again}, s); /* checked: it cannot fail */
	s->level = level_of(s);
	pthread_mutex_unlock(&s->lock);
	return 0;
bad:
	free(in);
	return -EINVAL;
}

/* ---- text ---- */

const char *serial_text(const char *line, size_t len, char out[SERIAL_TEXT_MAX])
{
	static const char hex[] = "0123456789abcdef";
	const char *p = line;
	char *o = out;

	for (size_t i = 0; i < len;) {
		size_t n = utf8_shown(p + i, len - i);

		if (!n) { /* sprintf would take longer than the guest's exit */
			unsigned char byte = (unsigned char)p[i++];

			*o++ = '\\', *o++ = 'x', *o++ = hex[byte >> 4], *o++ = hex[byte & 15];
		}
		while (n--)
			*o++ = p[i++];
	}
	*o = 0;
	return out;
}
