/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Shared by history.c and steps_*.c: the steps, and their common parts. */
#ifndef TESTS_MODEL_STEPS_H
#define TESTS_MODEL_STEPS_H

#include "tests/model/history.h"

#define ROOT  0 /* indices of the first accounts */
#define OTHER 1

void say(const struct history *h, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
unsigned int rnd(struct history *h, unsigned int below);
bool chance(struct history *h, unsigned int percent);
/* A random index below @n for which @ok holds, or M_NONE. */
int pick(struct history *h, int n, bool (*ok)(const struct history *h, int i));
int pick_free(bool alive_at_0, const void *first, size_t size, int n);
#define FREE(array)                                                                                \
	pick_free(false, array, sizeof(array[0]), (int)(sizeof(array) / sizeof(array[0])))
bool pcpu_alive(const struct history *h, int i);
bool vcpu_alive(const struct history *h, int i);
bool vcpu_current(const struct history *h, int v);
bool acc_alive(const struct history *h, int i);
bool con_operator(const struct history *h, int i);

/*
 * Around every call of the library, so that test_signal can interrupt exactly those. @con is the
 * consumer that the call makes or removes, or M_NONE; of several, the others are h->touched.
 */
void op_begin(struct history *h, int con);
void op_end(struct history *h);
#define OP(h, con, call)                                                                           \
	({                                                                                         \
		op_begin(h, con);                                                                  \
		__auto_type ret_ = (call);                                                         \
		op_end(h);                                                                         \
		ret_;                                                                              \
	})
#define OP_VOID(h, con, call)                                                                      \
	do {                                                                                       \
		op_begin(h, con);                                                                  \
		call;                                                                              \
		op_end(h);                                                                         \
	} while (0)

/* The library's view of its pCPUs after a call. */
void consumers_changed(struct history *h);
void all_refreshed(struct history *h);

void do_switch(struct history *h, int pcpu, int vcpu);
void flush(struct history *h, int pcpu, bool tick);
void run(struct history *h, int pcpu);
void place(struct history *h, int vcpu, int pcpu);
bool acc_del(struct history *h, int acc);
bool con_del(struct history *h, int con); /* false: of a guest with a vCPU on no pCPU */
void del_all(struct history *h, const int *con, int n);

/* steps_sampling.c */
void alarm_clear(struct history *h, int alarm);
void con_alarms_clear(struct history *h, int con);
void smp_destroy(struct history *h, int smp);
void acc_samplers_destroy(struct history *h, int acc);
typedef void step_fn(struct history *h);
step_fn step_alarm, step_sampler_create, step_sampler_destroy, step_overflow;

/* steps_lbr.c */
struct h_lbr *lbr_chosen(struct history *h, int vcpu); /* the recorded mode; NULL: none */
struct h_lbr *lbr_shown(struct history *h, int vcpu, enum vpmu_lbr_user *user); /* to readers */
void lbr_same(struct history *h, int vcpu, const struct vpmu_lbr_regs *r, const struct h_lbr *want,
	      const char *who);
void lbr_executed(struct history *h, int pcpu, uint64_t cycles);
void lbr_branches(struct history *h, int pcpu);
void lbr_capture(struct history *h); /* after a change of the captured accounts */
void lbr_detach_all(struct history *h, int acc);
step_fn step_lbr_attach, step_lbr_guest, step_lbr_read, step_lbr_memory;

/* steps_guest.c, steps_move.c */
bool vcpu_guest(const struct history *h, int v);
void guest_create(struct history *h, int vcpu);
void guest_fini(struct history *h, int vcpu);
void guest_place(struct history *h, int vcpu, int pcpu);
void guest_service(struct history *h, int vcpu); /* before it is entered */
void guest_acts(struct history *h, int vcpu);
bool guest_looked(const struct history *h, int vcpu); /* due events have been noticed */
void step_guest(struct history *h);
void step_move(struct history *h);
int acc_create(struct history *h, enum acc_kind kind, int parent);
bool acc_vm(const struct history *h, int i);
void vcpu_begin(struct history *h, int vcpu, int own, int group);

/* consumers, of steps_consumer.c, that guests need too */
void key_in_use(struct history *h, int key);
bool slots_full(struct history *h, int key);

step_fn step_pcpu_create, step_pcpu_destroy, step_run, step_flush, step_tick, step_exact,
	step_conservation, step_switch, step_migrate, step_tenant_create, step_account_del,
	step_vm_create, step_vm_destroy, step_i5_probe, step_local_add, step_del, step_disable,
	step_enable, step_add_many, step_del_many;

#endif
