/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What an emulator VM with interrupt controllers has for all its vCPUs (irqchip_create in
 * vmm/engine/engine.h): its I/O APIC, its clock, and who of its vCPUs is awake. chip.c passes
 * messages from one APIC to another, clock.c has the clock and the vCPUs that wait, mmio.c the
 * registers in memory.
 *
 * Threads. A vCPU is run by one thread. Others only post messages to it: they set bits in its
 * posted words and then look whether it sleeps. It declares that it sleeps and then looks at its
 * posted words. Both use sequentially consistent accesses, so one of the two sees the other.
 *
 * Locks: chip.lock may be held when chip.ioapic_lock is taken, not the other way round. wake() of
 * the waker is called without a lock.
 */
#ifndef VMM_EMU_IRQCHIP_CHIP_H
#define VMM_EMU_IRQCHIP_CHIP_H

#include <pthread.h>
#include <stdatomic.h>

#include "vmm/emu/irqchip/ioapic.h"
#include "vmm/emu/emu.h"

#define EMU_LAPIC_PAGE	0xfee00000ULL
#define EMU_IOAPIC_PAGE 0xfec00000ULL
#define EMU_CHIP_VCPUS	255u /* 8-bit APIC IDs, of which FFH is everybody */

struct emu_chip {
	_Atomic uint64_t now; /* the VM's clock, ns: see emu_chip_now() */
	_Atomic uint64_t due; /* when the next timer of a vCPU that sleeps is due; LAPIC_NEVER */
	pthread_mutex_t lock;
	/* under lock */
	unsigned int awake; /* vCPUs that do not sleep */
	/* waker.time() since when none runs, because all have slept; 0: not so, or no waker. Read
	 * without the lock. */
	_Atomic uint64_t idle_from;
	struct vmm_waker waker;		       /* wake is NULL: none */
	struct emu_vcpu *vcpu[EMU_CHIP_VCPUS]; /* by number; changes only while none runs */
	unsigned int nr;		       /* one more than the largest number */

	pthread_mutex_t ioapic_lock;
	struct ioapic ioapic;
	/* The effort of changes of devices' lines that no vCPU has been charged with yet. The next
	 * one whose IN or OUT is completed is: mostly the one that has driven the line. */
	_Atomic uint64_t line_effort;
};

/* Bits of emu_vcpu.plat.signals. A start-up IPI has its vector from EMU_POST_VECTOR on. */
#define EMU_POST_NMI	1u
#define EMU_POST_INIT	2u
#define EMU_POST_SIPI	4u
#define EMU_POST_VECTOR 8

/* Delivery modes: SDM vol. 3, 11.6.1. */
enum {
	EMU_MODE_FIXED = 0,
	EMU_MODE_LOWEST = 1,
	EMU_MODE_NMI = 4,
	EMU_MODE_INIT = 5,
	EMU_MODE_SIPI = 6
};

/* vCPUs that must be woken when no lock is held any more. */
struct emu_wakes {
	uint64_t bits[4];
	uint32_t effort; /* of sending: whoever caused it is charged */
};

/* ---- chip.c ---- */
int emu_chip_create(struct emu_vm *vm);
void emu_chip_destroy(struct emu_vm *vm);
/* emu_chip_add, emu_chip_remove - @v is made or destroyed. -EINVAL: it cannot have this number.
 */
int emu_chip_add(struct emu_vcpu *v);
void emu_chip_remove(struct emu_vcpu *v);
int emu_chip_line(struct emu_chip *c, unsigned int pin, bool level);
uint32_t emu_chip_ioapic_read(struct emu_chip *c, uint32_t offset);
void emu_chip_ioapic_write(struct emu_vcpu *v, uint32_t offset, uint32_t val);
/* emu_chip_after - call it when the guest has written to @v's local APIC: sends what it sends. */
void emu_chip_after(struct emu_vcpu *v);
/* emu_chip_address - call it when the registers may have changed by which messages find @v. */
void emu_chip_address(struct emu_vcpu *v);
/* emu_chip_take - take what was posted to @v, except INIT and start-up IPIs. */
void emu_chip_take(struct emu_vcpu *v);
/* emu_chip_signals - take an INIT or a start-up IPI. Only at the start of run(). */
void emu_chip_signals(struct emu_vcpu *v);
static inline bool emu_chip_posted(const struct emu_vcpu *v)
{
	return atomic_load_explicit(&v->plat.posted_any, memory_order_relaxed);
}

/* ---- clock.c ---- */
/* emu_chip_now - the VM's clock, as the vCPU that runs sees it behind the last instruction that
 * was folded and @cycles more. No later call of any vCPU returns less. */
uint64_t emu_chip_now(struct emu_vcpu *v, uint64_t cycles);
/* emu_chip_enter - @v begins to run. */
void emu_chip_enter(struct emu_vcpu *v);
/* emu_chip_poll - call it between two chunks: expires timers, takes what was posted. True: run()
 * must return VMM_EXIT_INTR. */
bool emu_chip_poll(struct emu_vcpu *v);
/* emu_chip_limit - how many of @n instructions from the start of @b can be executed without
 * passing the instruction behind which a timer is due. *armed is set if the dispatch loop must be
 * left after system instructions for that. At least 1. Behind emu_chip_poll. */
int64_t emu_chip_limit(struct emu_vcpu *v, const struct emu_block *b, int64_t n, bool *armed);
/* emu_chip_halt - @v has nothing to do: it sleeps from now on, and v->run has the exit. False:
 * something was posted meanwhile, and it does not sleep. */
bool emu_chip_halt(struct emu_vcpu *v);
/* emu_chip_timer - call it when the timer of @v's local APIC may have changed. */
void emu_chip_timer(struct emu_vcpu *v);
/* emu_chip_wake - wake those of @w that sleep. Without a lock. */
void emu_chip_wake(struct emu_chip *c, const struct emu_wakes *w);
/* emu_chip_retire, emu_chip_waker, emu_chip_expire - retire, set_waker and expire of
 * vmm_engine_ops. */
void emu_chip_retire(struct emu_vcpu *v, uint64_t *next);
void emu_chip_waker(struct emu_chip *c, const struct vmm_waker *w);
void emu_chip_expire(struct emu_chip *c, uint64_t *next);
/* emu_chip_base - the VM's clock while no vCPU runs. */
uint64_t emu_chip_base(struct emu_chip *c);

/* ---- mmio.c ---- */
/* emu_device_load, emu_device_store - the guest accesses @bytes at guest-physical @pa, where
 * there is no RAM. Traps. */
uint64_t emu_device_load(struct emu_vcpu *v, uint64_t pa, unsigned int bytes);
int emu_device_store(struct emu_vcpu *v, uint64_t pa, unsigned int bytes, uint64_t x);

/* ---- chip_state.c ---- */
/* What state.c saves of a vCPU. emu_plat_load: false if the section is damaged or out of range. */
struct emu_plat_state {
	bool wait_sipi;
	uint32_t signals, posted[8], posted_level[8];
};
void emu_plat_get(const struct emu_vcpu *v, struct emu_plat_state *s);
void emu_plat_save(const struct emu_plat_state *s, struct vpmu_blob *b);
bool emu_plat_load(struct emu_plat_state *s, struct vpmu_blob_reader *all);
void emu_plat_set(struct emu_vcpu *v, const struct emu_plat_state *s);
int emu_get_vm_state(struct emu_vm *vm, void *buf, size_t *bytes);
int emu_set_vm_state(struct emu_vm *vm, const void *buf, size_t bytes);

#endif
