/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * State that the vCPUs of an emulator VM with interrupt controllers share (irqchip_create in
 * vmm/engine/engine.h): the I/O APIC, the clock, and the set of vCPUs that are awake. chip.c passes
 * messages from one APIC to another, clock.c has the clock and the halted vCPUs, mmio.c the
 * registers in memory.
 *
 * Threads. A vCPU is run by one thread. Others only post messages to it: they set bits in its
 * posted words and then read asleep. The vCPU sets asleep and then reads its posted words. Both use
 * sequentially consistent accesses, so at least one of the two sees the other's store.
 *
 * Locks: chip.lock may be held when chip.ioapic_lock is taken, not the other way round. wake() of
 * the waker is called without a lock.
 */
#pragma once

#include <pthread.h>
#include <stdatomic.h>

#include "vmm/emu/irqchip/ioapic.h"
#include "vmm/emu/emu.h"

#define EMU_LAPIC_PAGE	0xfee00000ULL
#define EMU_IOAPIC_PAGE 0xfec00000ULL
#define EMU_CHIP_VCPUS	255u /* 8-bit APIC IDs; FFH is the broadcast */

struct emu_chip {
	_Atomic uint64_t now; /* the VM's clock, ns: see emu_chip_now() */
	_Atomic uint64_t due; /* when the next timer of a sleeping vCPU is due, or LAPIC_NEVER */
	pthread_mutex_t lock;
	/* under lock */
	unsigned int awake; /* vCPUs that do not sleep */
	/* waker.time() at which the last vCPU fell asleep, until a vCPU runs again; else, or
	 * without a waker, 0. Read without the lock. */
	_Atomic uint64_t idle_from;
	struct vmm_waker waker;		       /* wake is NULL: none */
	struct emu_vcpu *vcpu[EMU_CHIP_VCPUS]; /* by number; changes only while no vCPU runs */
	unsigned int nr;		       /* one more than the largest number */

	pthread_mutex_t ioapic_lock;
	struct ioapic ioapic;
	/* Effort of changes of devices' lines that is not charged yet. The next vCPU that completes
	 * an IN or OUT is charged: usually the one that has driven the line. */
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

/* vCPUs to wake once no lock is held. */
struct emu_wakes {
	uint64_t bits[4];
	uint32_t effort; /* of sending; charged to the sender */
};

/* ---- chip.c ---- */
int emu_chip_create(struct emu_vm *vm);
void emu_chip_destroy(struct emu_vm *vm);
/* emu_chip_add, emu_chip_remove - @v is created or destroyed. Returns -EINVAL if the VM cannot have
 * a vCPU of this number. */
int emu_chip_add(struct emu_vcpu *v);
void emu_chip_remove(struct emu_vcpu *v);
int emu_chip_line(struct emu_chip *c, unsigned int pin, bool level);
uint32_t emu_chip_ioapic_read(struct emu_chip *c, uint32_t offset);
void emu_chip_ioapic_write(struct emu_vcpu *v, uint32_t offset, uint32_t val);
/* emu_chip_after - call it when the guest has written to @v's local APIC: passes on the messages
 * that result. */
void emu_chip_after(struct emu_vcpu *v);
/* emu_chip_address - call it when the registers that address @v's APIC may have changed. */
void emu_chip_address(struct emu_vcpu *v);
/* emu_chip_take - take the messages posted to @v, except INIT and start-up IPIs. */
void emu_chip_take(struct emu_vcpu *v);
/* emu_chip_signals - take an INIT or a start-up IPI. Only at the start of run(). */
void emu_chip_signals(struct emu_vcpu *v);
static inline bool emu_chip_posted(const struct emu_vcpu *v)
{
	return atomic_load_explicit(&v->plat.posted_any, memory_order_relaxed);
}

/* ---- clock.c ---- */
/* emu_chip_now - the VM's clock in ns, as seen by the running vCPU @cycles after the last folded
 * instruction. No later call of any vCPU returns less. */
uint64_t emu_chip_now(struct emu_vcpu *v, uint64_t cycles);
/* emu_chip_enter - @v begins to run. */
void emu_chip_enter(struct emu_vcpu *v);
/* emu_chip_poll - call it between two chunks: expires timers, takes posted messages. Returns true
 * if run() must return VMM_EXIT_INTR. */
bool emu_chip_poll(struct emu_vcpu *v);
/* emu_chip_limit - return the number of instructions, 1..@n, that can be executed from the start of
 * @b without passing the instruction after which a timer is due. Sets *armed if the dispatch loop
 * must be left after system instructions for that. Call it after emu_chip_poll. */
int64_t emu_chip_limit(struct emu_vcpu *v, const struct emu_block *b, int64_t n, bool *armed);
/* emu_chip_halt - @v is halted: it sleeps from now on, and v->run has the exit. Returns false, and
 * @v stays awake, if something was posted. */
bool emu_chip_halt(struct emu_vcpu *v);
/* emu_chip_timer - call it when the timer of @v's local APIC may have changed. */
void emu_chip_timer(struct emu_vcpu *v);
/* emu_chip_wake - wake the sleeping vCPUs of @w. Call it without a lock. */
void emu_chip_wake(struct emu_chip *c, const struct emu_wakes *w);
/* emu_chip_retire, emu_chip_waker, emu_chip_expire - retire, set_waker and expire of
 * vmm_engine_ops. */
void emu_chip_retire(struct emu_vcpu *v, uint64_t *next);
void emu_chip_waker(struct emu_chip *c, const struct vmm_waker *w);
void emu_chip_expire(struct emu_chip *c, uint64_t *next);
/* emu_chip_end_idle - a vCPU is awake from now on: the time that all have slept is part of the
 * clock. Only under the lock. */
void emu_chip_end_idle(struct emu_chip *c);
/* emu_chip_base - the VM's clock while no vCPU runs. */
uint64_t emu_chip_base(struct emu_chip *c);

/* ---- mmio.c ---- */
/* emu_device_load, emu_device_store - the guest accesses @bytes at guest-physical @pa, where
 * there is no RAM. Traps. */
uint64_t emu_device_load(struct emu_vcpu *v, uint64_t pa, unsigned int bytes);
int emu_device_store(struct emu_vcpu *v, uint64_t pa, unsigned int bytes, uint64_t x);

/* ---- chip_state.c ---- */
/* State of a vCPU that state.c saves. emu_plat_load returns false if the section is damaged or out
 * of range. */
struct emu_plat_state {
	bool wait_sipi;
	uint32_t signals, posted[8], posted_level[8];
};
void emu_plat_get(const struct emu_vcpu *v, struct emu_plat_state *s);
void emu_plat_save(const struct emu_plat_state *s, struct vpmu_blob *b);
bool emu_plat_load(struct emu_plat_state *s, struct vpmu_blob_reader *all);
void emu_plat_set(struct emu_vcpu *v, const struct emu_plat_state *s);
int emu_get_vm_state(struct vmm_engine_vm *evm, void *buf, size_t *bytes);
int emu_set_vm_state(struct vmm_engine_vm *evm, const void *buf, size_t bytes);
