// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * See devices.h. Decides how the VM ends: done if the guest powers off or resets; failed if its
 * kernel has reported a panic before a reset. VMs are not restarted.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "vmm/engine/platform.h"
#include "vmm/vm/vm.h"

/* First line of a Linux panic at any log level (kernel/panic.c). */
#define PANIC "Kernel panic - not syncing: "

static void devices_console_line(const char *line, size_t len, void *arg)
{
	struct vm_devices *d = arg;
	const char *panic = memmem(line, len, PANIC, strlen(PANIC));
	char text[SERIAL_TEXT_MAX];
	size_t n;

	d->vm->console(d->vm, 0, line, len, d->vm->arg);
	if (!panic || *d->panic)
		return;
	panic += strlen(PANIC);
	serial_text(panic, len - (size_t)(panic - line), text);
	n = strlen(text);
	if (n > VM_PANIC_MAX - 1)
		n = VM_PANIC_MAX - 1;
	while (n && ((unsigned char)text[n] & 0xc0) == 0x80) /* inside a character */
		n--;
	memcpy(d->panic, text, n);
}

static void devices_byte(uint8_t byte, void *arg)
{
	struct vm *vm = ((struct vm_devices *)arg)->vm;

	vm->sent(vm, byte, vm->arg);
}

static void serial_irq(bool level, void *arg)
{
	struct vm *vm = ((struct vm_devices *)arg)->vm;

	vm->ops->irq_line(vm->evm, PLATFORM_COM1_GSI, level);
}

/* The panic's text, or "". Takes the lock under which devices_console_line writes it. */
static void said(struct vm_devices *d, char text[VM_PANIC_MAX])
{
	pthread_mutex_lock(&d->serial.lock);
	memcpy(text, d->panic, VM_PANIC_MAX);
	pthread_mutex_unlock(&d->serial.lock);
}

static void off(void *arg)
{
	struct vm_devices *d = arg;

	serial_flush(&d->serial);
	vm_end(d->vm, VM_HOW_OFF);
}

void vm_devices_exited(struct vm_devices *d)
{
	serial_flush(&d->serial);
	vm_end(d->vm, VM_HOW_EXITED);
}

bool vm_devices_panicked(struct vm_devices *d)
{
	char panic[VM_PANIC_MAX];

	serial_flush(&d->serial);
	said(d, panic);
	if (*panic)
		vm_fail(d->vm, "kernel panic: %s", panic);
	return *panic;
}

static void reset(void *arg)
{
	struct vm_devices *d = arg;

	if (!vm_devices_panicked(d))
		vm_end(d->vm, VM_HOW_RESET);
}

struct vm_devices *vm_devices_new(struct vm *vm)
{
	struct vm_devices *d = calloc(1, sizeof(*d));

	if (!d)
		return NULL;
	d->vm = vm;
	serial_init(&d->serial, devices_console_line, serial_irq, d);
	d->serial.sent = vm->sent ? devices_byte : NULL;
	d->power = (struct power){.off = off, .reset = reset, .arg = d};
	return d;
}

void vm_devices_free(struct vm_devices *d)
{
	if (!d)
		return;
	serial_fini(&d->serial);
	free(d);
}

int vm_devices_claim(struct vm_devices *d, struct bus *bus)
{
	int ret = serial_claim(&d->serial, bus);

	if (!ret)
		ret = power_claim(&d->power, bus);
	return ret ? ret : pci_claim(&d->pci, bus);
}

/* ---- snapshots ---- */

#define TAG 0x53564544u /* "DEVS" */

void vm_devices_save(struct vm_devices *d, struct vpmu_blob *b)
{
	size_t section = vpmu_blob_begin(b, TAG, 1);
	char panic[VM_PANIC_MAX];

	said(d, panic);
	vpmu_blob_u16(b, (uint16_t)strlen(panic));
	vpmu_blob_bytes(b, panic, strlen(panic));
	serial_save(&d->serial, b);
	pci_save(&d->pci, b);
	vpmu_blob_end(b, section);
}

/* Returns true if devices_console_line could have stored @text. */
static bool devices_printable(const char *text, size_t len)
{
	char again[SERIAL_TEXT_MAX];

	return !strcmp(serial_text(text, len, again), text);
}

int vm_devices_load(struct vm_devices *d, struct vpmu_blob_reader *r)
{
	struct vpmu_blob_reader in;
	char panic[VM_PANIC_MAX] = "";
	uint16_t len;
	int ret;

	if (!vpmu_blob_get_section(r, TAG, 1, &in))
		return -EINVAL;
	len = vpmu_blob_get_u16(&in);
	if (len >= VM_PANIC_MAX)
		return -EINVAL;
	vpmu_blob_get_bytes(&in, panic, len);
	ret = devices_printable(panic, len) ? serial_load(&d->serial, &in) : -EINVAL;
	if (ret)
		return ret;
	if (!pci_load(&d->pci, &in) || !vpmu_blob_done(&in))
		return -EINVAL;
	pthread_mutex_lock(&d->serial.lock);
	memcpy(d->panic, panic, VM_PANIC_MAX);
	pthread_mutex_unlock(&d->serial.lock);
	return 0;
}
