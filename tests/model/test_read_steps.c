// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The other way round from test_signal: a consumer changes while somebody reads it. A read runs one
 * instruction at a time, and at one of them, each in its turn, the handler is the owner of the pCPU
 * and a control thread: it charges, disables, enables, deletes, and adds. The read must give a
 * value that the consumer had at some moment of the read (I2). Branch records are written likewise
 * while they are read: the reader must get the words of one write.
 *
 * Plain main with TAP-like output. The pCPU is offline, so that one thread can do everything.
 */
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <ucontext.h>

#include "tests/model/trap.h"
#include "vpmu/account.h"
#include "vpmu/consumer.h"
#include "vpmu/context.h"
#include "vpmu/host.h"
#include "vpmu/pcpu.h"
#include "vpmu/core/rcu.h"
#include "vpmu/emupmu.h"
#include "vpmu/core/taskdata.h"

#define MOMENTS 16

/* AddressSanitizer makes about five instructions of one, and a read of n instructions is n reads.
 */
#if defined(VPMU_FEWER)
#define EVERY 7
#elif defined(__SANITIZE_ADDRESS__)
#define EVERY 3
#else
#define EVERY 1
#endif

static struct {
	struct vpmu_host *host;
	struct vpmu_emupmu pmu;
	struct vpmu_pcpu *p; /* the form of the consumer's calls; NULL: control */
	struct vpmu_pcpu *pcpu;
	struct vpmu_account *tenant, *vm, *vcpu[2];
	struct vpmu_context ctx[2];
	vpmu_key_t key[2];

	struct vpmu_consumer c;
	uint64_t had[MOMENTS]; /* values of c, in order */
	unsigned int nr_had;
	void (*act)(void);
	unsigned long at, step; /* act at the instruction with this number; the number of this one
				 */
	bool acted;
} t;

static void had(void)
{
	struct vpmu_value v;

	vpmu_consumer_read(&t.c, &v);
	t.had[t.nr_had++] = v.count;
}

static void run(int vcpu, uint64_t n)
{
	vpmu_pcpu_switch(t.pcpu, &t.ctx[vcpu]);
	for (int e = 0; e < VPMU_EMU_EVENTS; e++)
		vpmu_emu_add(&t.pmu.own_tally, VPMU_EMU_USR, e, n);
	t.pmu.own_clock_ns += n;
	vpmu_pcpu_flush(t.pcpu);
	had();
}

static struct vpmu_account *account(int i)
{
	return t.p ? t.vcpu[i] : i ? t.tenant : t.vm;
}

/* ---- what happens during a read ---- */

static void end(void)
{
	run(0, 7);
	vpmu_consumer_disable(&t.c, t.p);
	run(0, 100000);
}

static void end_and_begin(void)
{
	vpmu_consumer_disable(&t.c, t.p);
	run(0, 1000);
	vpmu_consumer_enable(&t.c, t.p);
	run(0, 3);
}

static void end_twice(void)
{
	end_and_begin();
	vpmu_consumer_disable(&t.c, t.p);
	run(0, 100000);
}

static void another(void)
{
	vpmu_consumer_del(&t.c, t.p, NULL);
	had();
	run(0, 1000);
	vpmu_consumer_add(&t.c, account(1), t.key[1], t.p);
	run(1, 2);
}

static void none(void)
{
	vpmu_consumer_del(&t.c, t.p, NULL);
	had();
	run(0, 100000);
}

static void end_and_none(void)
{
	end();
	vpmu_consumer_del(&t.c, t.p, NULL);
	had();
}

/* ---- branch records ---- */

#define WORDS (sizeof(struct vpmu_lbr_regs) / sizeof(uint64_t))

static struct vpmu_taskdata records;
static uint64_t writes; /* of records; the number is in each word of them */

static void write_records(void)
{
	uint64_t words[WORDS];
	struct vpmu_lbr_regs r;

	writes++;
	for (size_t i = 0; i < WORDS; i++)
		words[i] = writes;
	memcpy(&r, words, sizeof(r));
	taskdata_write(&records, &r);
}

/* ---- */

static void on_step(int sig, siginfo_t *info, void *context)
{
	ucontext_t *uc = context;

	if (t.acted || t.step++ != t.at)
		return;
	t.act();
	t.acted = true;
	trap_stop(uc);
}

/* One read, with the act at instruction @at. 1: the read has no such instruction. */
static int one_of_consumer(unsigned long at)
{
	struct vpmu_value v;

	t.nr_had = 0;
	memset(&t.c, 0, sizeof(t.c));
	if (vpmu_consumer_add(&t.c, account(0), t.key[0], t.p))
		return -1;
	run(0, 10);
	t.nr_had = 0;
	had();
	t.at = at;
	t.step = 0;
	t.acted = false;
	trap_flag_on();
	vpmu_consumer_read(&t.c, &v);
	trap_flag_off();
	had();
	if (t.c.account)
		vpmu_consumer_del(&t.c, t.p, NULL);
	for (unsigned int i = 0; i < t.nr_had; i++) {
		if (v.count == t.had[i])
			return !t.acted;
	}
	printf("# instruction %lu of the read: %lu, which the consumer never had\n", at, v.count);
	return -1;
}

/* As one_of_consumer(), of the branch records. */
static int one_of_records(unsigned long at)
{
	struct vpmu_lbr_regs r;
	uint64_t words[WORDS], before = writes;
	bool ok;

	t.at = at;
	t.step = 0;
	t.acted = false;
	trap_flag_on();
	ok = taskdata_read(&records, &r);
	trap_flag_off();
	if (!ok) {
		printf("# instruction %lu of the read: given up\n", at);
		return -1;
	}
	memcpy(words, &r, sizeof(words));
	for (size_t i = 0; i < WORDS; i++) {
		if (words[i] == words[0] && words[i] >= before)
			continue;
		printf("# instruction %lu of the read: word 0 is of write %lu, word %zu of %lu\n",
		       at, words[0], i, words[i]);
		return -1;
	}
	return !t.acted;
}

static int all(const char *what, void (*act)(void), int (*one)(unsigned long at))
{
	unsigned long at = 0;
	int ret;

	t.act = act;
	do {
		ret = one(at);
		at += EVERY;
	} while (!ret);
	if (ret > 0 && at < 30) {
		printf("# a read of %lu instructions\n", at);
		ret = -1;
	}
	printf("%sok - %s, %s, at 1 of %d of %lu instructions of a read\n", ret < 0 ? "not " : "",
	       what,
	       one == one_of_records ? "by the owner"
	       : t.p		     ? "on the pCPU"
				     : "by control",
	       EVERY, at);
	return ret < 0;
}

static int init(void)
{
	t.key[0] = vpmu_key_generic(VPMU_EV_INSTRUCTIONS, VPMU_KEY_USR);
	t.key[1] = vpmu_key_generic(VPMU_EV_BRANCHES, VPMU_KEY_USR);
	t.host = vpmu_host_create();
	if (!t.host || vpmu_emupmu_init(&t.pmu, NULL) ||
	    vpmu_pcpu_create(t.host, &t.pmu.pmu, 0, &t.pcpu) ||
	    vpmu_account_create(vpmu_host_root(t.host), NULL, &t.tenant) ||
	    vpmu_account_create(t.tenant, NULL, &t.vm))
		return -1;
	for (int i = 0; i < 2; i++) {
		if (vpmu_account_create(t.vm, NULL, &t.vcpu[i]) ||
		    vpmu_context_init(&t.ctx[i], t.vcpu[i], t.vm) ||
		    vpmu_context_place(&t.ctx[i], t.pcpu))
			return -1;
	}
	return 0;
}

int main(void)
{
	struct sigaction sa = {.sa_sigaction = on_step, .sa_flags = SA_SIGINFO};
	int failed = 0;

	urcu_memb_register_thread();
	if (init()) {
		printf("not ok - no memory\n");
		return 1;
	}
	sigaction(SIGTRAP, &sa, NULL);
	for (int form = 0; form < 2; form++) {
		t.p = form ? NULL : t.pcpu;
		failed |= all("ends", end, one_of_consumer);
		failed |= all("ends and begins", end_and_begin, one_of_consumer);
		failed |= all("ends twice", end_twice, one_of_consumer);
		failed |= all("is deleted", none, one_of_consumer);
		failed |= all("ends and is deleted", end_and_none, one_of_consumer);
		failed |= all("becomes another", another, one_of_consumer);
	}
	write_records();
	failed |= all("branch records are written", write_records, one_of_records);
	printf("1..13\n");
	vpmu_pcpu_switch(t.pcpu, NULL);
	for (int i = 0; i < 2; i++)
		vpmu_context_fini(&t.ctx[i]);
	vpmu_host_destroy(t.host);
	urcu_memb_unregister_thread();
	return failed;
}
