// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * get_vm_state and set_vm_state: the I/O APIC and the clock of an emulator VM; and the section of
 * state.c for a vCPU that has them. Loaded bytes are untrusted.
 */
#include <errno.h>
#include <string.h>

#include "vmm/emu/irqchip/chip.h"
#include "vmm/emu/internal.h"
#include "vpmu/core/blob_io.h"

#define TAG_CLOCK 0x4b434c43u /* "CLCK" */
#define TAG_PLAT  0x54414c50u /* "PLAT" */
#define FORMAT	  1

/* Beyond the reach of any clock: half the range of a TSC. */
#define CLOCK_MAX (1ULL << 63)

static void clock_io(struct blob_io *io, void *now)
{
	IO(*(uint64_t *)now);
}

int emu_get_vm_state(struct vmm_engine_vm *evm, void *buf, size_t *bytes)
{
	struct emu_vm *vm = emu_to_vm(evm);
	struct vpmu_blob b = {0};
	uint64_t now;

	if (!vm->chip)
		return -ENXIO;
	now = emu_chip_base(vm->chip);
	blob_save(&b, TAG_CLOCK, FORMAT, clock_io, &now);
	pthread_mutex_lock(&vm->chip->ioapic_lock);
	ioapic_save(&vm->chip->ioapic, &b);
	pthread_mutex_unlock(&vm->chip->ioapic_lock);
	return blob_out(&b, 0, buf, bytes);
}

int emu_set_vm_state(struct vmm_engine_vm *evm, const void *buf, size_t bytes)
{
	struct emu_vm *vm = emu_to_vm(evm);
	struct vpmu_blob_reader all = {.data = buf, .len = bytes};
	struct emu_chip *c = vm->chip;
	struct ioapic a;
	uint64_t now;

	if (!c)
		return -ENXIO;
	if (!blob_load(&all, TAG_CLOCK, FORMAT, clock_io, &now) || now >= CLOCK_MAX ||
	    !ioapic_load(&a, &all) || !vpmu_blob_done(&all))
		return -EINVAL;
	pthread_mutex_lock(&c->lock);
	atomic_store(&c->now, now);
	for (unsigned int i = 0; i < c->nr; i++)
		if (c->vcpu[i])
			c->vcpu[i]->plat.ahead = now - c->vcpu[i]->cycles;
	pthread_mutex_unlock(&c->lock);
	pthread_mutex_lock(&c->ioapic_lock);
	c->ioapic = a;
	pthread_mutex_unlock(&c->ioapic_lock);
	return 0;
}

void emu_plat_get(const struct emu_vcpu *v, struct emu_plat_state *s)
{
	s->wait_sipi = v->plat.wait_sipi;
	s->signals = atomic_load(&v->plat.signals);
	for (int i = 0; i < 8; i++) {
		s->posted[i] = atomic_load(&v->plat.posted[i]);
		s->posted_level[i] = atomic_load(&v->plat.posted_level[i]);
	}
}

static void plat_io(struct blob_io *io, void *of)
{
	struct emu_plat_state *s = of;

	IO_BOOL(s->wait_sipi), IO(s->signals);
	for (int i = 0; i < 8; i++)
		IO(s->posted[i]), IO(s->posted_level[i]);
}

void emu_plat_save(const struct emu_plat_state *s, struct vpmu_blob *b)
{
	blob_save(b, TAG_PLAT, FORMAT, plat_io, s);
}

bool emu_plat_load(struct emu_plat_state *s, struct vpmu_blob_reader *all)
{
	bool read = blob_load(all, TAG_PLAT, FORMAT, plat_io, s);
	uint32_t vector = s->signals >> EMU_POST_VECTOR;

	return read && vector <= 0xff && (!vector || (s->signals & EMU_POST_SIPI)) &&
	       !(s->signals & 0xf8);
}

void emu_plat_set(struct emu_vcpu *v, const struct emu_plat_state *s)
{
	uint32_t any = s->signals;

	v->plat.wait_sipi = s->wait_sipi;
	atomic_store(&v->plat.signals, s->signals);
	for (int i = 0; i < 8; i++) {
		atomic_store(&v->plat.posted[i], s->posted[i]);
		atomic_store(&v->plat.posted_level[i], s->posted_level[i]);
		any |= s->posted[i] | s->posted_level[i];
	}
	atomic_store(&v->plat.posted_any, any != 0);
	v->plat.ahead = emu_chip_base(v->chip) - v->cycles;
	emu_chip_address(v);
	emu_chip_timer(v);
}
