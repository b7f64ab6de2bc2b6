/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What a soft VM with interrupt controllers has for all its vCPUs (irqchip_create in
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
#ifndef VMM_SOFT_CHIP_H
#define VMM_SOFT_CHIP_H

#include <pthread.h>
#include <stdatomic.h>

#include "vmm/emu/irqchip/ioapic.h"
#include "vmm/emu/emu.h"

#define SOFT_LAPIC_PAGE	 0xfee00000ULL
#define SOFT_IOAPIC_PAGE 0xfec00000ULL
#define SOFT_CHIP_VCPUS	 255u /* 8-bit APIC IDs, of which FFH is everybody */

struct soft_chip {
	_Atomic uint64_t now; /* the VM's clock, ns: see soft_chip_now() */
	_Atomic uint64_t due; /* when the next timer of a vCPU that sleeps is due; LAPIC_NEVER */
	pthread_mutex_t lock;
	/* under lock */
	unsigned int awake; /* vCPUs that do not sleep */
	/* waker.time() since when none runs, because all have slept; 0: not so, or no waker. Read
	 * without the lock. */
	_Atomic uint64_t idle_from;
	struct vmm_waker waker;			 /* wake is NULL: none */
	struct soft_vcpu *vcpu[SOFT_CHIP_VCPUS]; /* by number; changes only while none runs */
	unsigned int nr;			 /* one more than the largest number */

	pthread_mutex_t ioapic_lock;
	struct ioapic ioapic;
	/* The effort of changes of devices' lines that no vCPU has been charged with yet. The next
	 * one whose IN or OUT is completed is: mostly the one that has driven the line. */
	_Atomic uint64_t line_effort;
};

/* Bits of soft_vcpu.plat.signals. A start-up IPI has its vector from SOFT_POST_VECTOR on. */
#define SOFT_POST_NMI	 1u
#define SOFT_POST_INIT	 2u
#define SOFT_POST_SIPI	 4u
#define SOFT_POST_VECTOR 8

/* Delivery modes: SDM vol. 3, 11.6.1. */
enum {
	SOFT_MODE_FIXED = 0,
	SOFT_MODE_LOWEST = 1,
	SOFT_MODE_NMI = 4,
	SOFT_MODE_INIT = 5,
	SOFT_MODE_SIPI = 6
};

/* vCPUs that must be woken when no lock is held any more. */
struct soft_wakes {
	uint64_t bits[4];
	uint32_t effort; /* of sending: whoever caused it is charged */
};

/* ---- chip.c ---- */
int soft_chip_create(struct soft_vm *vm);
void soft_chip_destroy(struct soft_vm *vm);
/* soft_chip_add, soft_chip_remove - @v is made or destroyed. -EINVAL: it cannot have this number.
 */
int soft_chip_add(struct soft_vcpu *v);
void soft_chip_remove(struct soft_vcpu *v);
int soft_chip_line(struct soft_chip *c, unsigned int pin, bool level);
uint32_t soft_chip_ioapic_read(struct soft_chip *c, uint32_t offset);
void soft_chip_ioapic_write(struct soft_vcpu *v, uint32_t offset, uint32_t val);
/* soft_chip_after - call it when the guest has written to @v's local APIC: sends what it sends. */
void soft_chip_after(struct soft_vcpu *v);
/* soft_chip_address - call it when the registers may have changed by which messages find @v. */
void soft_chip_address(struct soft_vcpu *v);
/* soft_chip_take - take what was posted to @v, except INIT and start-up IPIs. */
void soft_chip_take(struct soft_vcpu *v);
/* soft_chip_signals - take an INIT or a start-up IPI. Only at the start of run(). */
void soft_chip_signals(struct soft_vcpu *v);
static inline bool soft_chip_posted(const struct soft_vcpu *v)
{
	return atomic_load_explicit(&v->plat.posted_any, memory_order_relaxed);
}

/* ---- clock.c ---- */
/* soft_chip_now - the VM's clock, as the vCPU that runs sees it behind the last instruction that
 * was folded and @cycles more. No later call of any vCPU returns less. */
uint64_t soft_chip_now(struct soft_vcpu *v, uint64_t cycles);
/* soft_chip_enter - @v begins to run. */
void soft_chip_enter(struct soft_vcpu *v);
/* soft_chip_poll - call it between two chunks: expires timers, takes what was posted. True: run()
 * must return VMM_EXIT_INTR. */
bool soft_chip_poll(struct soft_vcpu *v);
/* soft_chip_limit - how many of @n instructions from the start of @b can be executed without
 * passing the instruction behind which a timer is due. *armed is set if the dispatch loop must be
 * left after system instructions for that. At least 1. Behind soft_chip_poll. */
int64_t soft_chip_limit(struct soft_vcpu *v, const struct soft_block *b, int64_t n, bool *armed);
/* soft_chip_halt - @v has nothing to do: it sleeps from now on, and v->run has the exit. False:
 * something was posted meanwhile, and it does not sleep. */
bool soft_chip_halt(struct soft_vcpu *v);
/* soft_chip_timer - call it when the timer of @v's local APIC may have changed. */
void soft_chip_timer(struct soft_vcpu *v);
/* soft_chip_wake - wake those of @w that sleep. Without a lock. */
void soft_chip_wake(struct soft_chip *c, const struct soft_wakes *w);
/* soft_chip_retire, soft_chip_waker, soft_chip_expire - retire, set_waker and expire of
 * vmm_engine_ops. */
void soft_chip_retire(struct soft_vcpu *v, uint64_t *next);
void soft_chip_waker(struct soft_chip *c, const struct vmm_waker *w);
void soft_chip_expire(struct soft_chip *c, uint64_t *next);
/* soft_chip_base - the VM's clock while no vCPU runs. */
uint64_t soft_chip_base(struct soft_chip *c);

/* ---- mmio.c ---- */
/* soft_device_load, soft_device_store - the guest accesses @bytes at guest-physical @pa, where
 * there is no RAM. Traps. */
uint64_t soft_device_load(struct soft_vcpu *v, uint64_t pa, unsigned int bytes);
int soft_device_store(struct soft_vcpu *v, uint64_t pa, unsigned int bytes, uint64_t x);

/* ---- chip_state.c ---- */
/* What state.c saves of a vCPU. soft_plat_load: false if the section is damaged or out of range. */
struct soft_plat_state {
	bool wait_sipi;
	uint32_t signals, posted[8], posted_level[8];
};
void soft_plat_get(const struct soft_vcpu *v, struct soft_plat_state *s);
void soft_plat_save(const struct soft_plat_state *s, struct vpmu_blob *b);
bool soft_plat_load(struct soft_plat_state *s, struct vpmu_blob_reader *all);
void soft_plat_set(struct soft_vcpu *v, const struct soft_plat_state *s);
int soft_get_vm_state(struct soft_vm *vm, void *buf, size_t *bytes);
int soft_set_vm_state(struct soft_vm *vm, const void *buf, size_t bytes);

#endif
