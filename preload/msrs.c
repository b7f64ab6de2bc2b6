// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * KVM_GET_MSRS and KVM_SET_MSRS: the VMM's words are the model's registers (words.h), all others
 * are KVM's. KVM processes the array in order, and returns the index of the first one that it does
 * not take; the VMM ends if that is not what it expects. So KVM gets the others in their order, its
 * index is translated back, and of the words those before that index count.
 *
 * A reset shows as the registers that a CPU has after it.
 */
#include <errno.h>
#include <string.h>

#include "preload/sys.h"
#include "preload/vm.h"
#include "preload/words.h"
#include "vpmu/guest/guest.h"
#include "vpmu/kvm/quick.h"

#define RESET_RIP    0xfff0u
#define RESET_RFLAGS 2u
#define DEBUGCTL     0x1d9u
#define TSC	     0x010u

#define MSRS_MAX      256u /* KVM refuses so many with E2BIG */
#define REGISTERS_MAX 256u /* vpmu_kvm_vcpu_msrs */

/* A register may be given twice; the last one counts. */
struct msrs_state {
	bool tagged;
	uint64_t tag;
	uint32_t tag_at;
	unsigned int marked;
	bool amd; /* a counter or select under AMD's own number, without a mark */
	size_t n;
	struct msrs_word {
		uint32_t reg, at;
		bool marked;
		uint64_t value;
	} word[REGISTERS_MAX];
};

static void msrs_get_word(struct vcpu *v, struct kvm_msr_entry *e)
{
	uint32_t reg = words_register(process.guest.model, v->gp, e->index);
	uint64_t val = 0;

	if (reg) {
		if (vpmu_kvm_vcpu_get_msr(v->kvm, reg, &val))
			val = 0; /* the model lacks it */
		/* Intel's numbers are those of a VMM that keeps each word in its place. */
		if (e->index == reg)
			val = words_mark(process.guest.model, reg, val);
	}
	e->data = val;
}

/* After the counters: reading one may show that it has wrapped. */
static void msrs_get_tag(struct vcpu *v, struct kvm_msr_entry *e)
{
	uint64_t debugctl;

	if (vpmu_kvm_vcpu_get_msr(v->kvm, DEBUGCTL, &debugctl))
		debugctl = 0;
	e->data = words_tag(process.guest.model, v->gp, e->index, debugctl) |
		  (vpmu_kvm_vcpu_guest(v->kvm)->pmi ? WORDS_PMI : 0);
}

static void msrs_note(struct msrs_state *s, uint32_t reg, uint32_t at, uint64_t value, bool marked)
{
	size_t i = 0;

	while (i < s->n && s->word[i].reg != reg)
		i++;
	if (i == REGISTERS_MAX)
		return;
	if (i < s->n && s->word[i].marked && !marked)
		return;
	s->marked += marked && !(i < s->n && s->word[i].marked);
	s->n += i == s->n;
	s->word[i] = (struct msrs_word){reg, at, marked, value};
}

static void msrs_note_word(struct vcpu *v, struct msrs_state *s, const struct kvm_msr_entry *e,
			   uint32_t at)
{
	enum vpmu_guest_model model = process.guest.model;
	uint32_t reg = words_marked(model, v->gp, e->index, e->data);

	if (words_is_tag(model, e->index)) {
		s->tagged = true;
		s->tag = e->data;
		s->tag_at = at;
	} else if (reg) {
		msrs_note(s, reg, at, e->data & WORDS_VALUE, true);
	} else if ((reg = words_register(model, v->gp, e->index))) {
		s->amd |= words_is_amd(e->index);
		msrs_note(s, reg, at, e->data, false);
	}
}

static bool msrs_zero(const struct msrs_state *s)
{
	for (size_t i = 0; i < s->n; i++)
		if (s->word[i].value)
			return false;
	return true;
}

/* A marked state has all counters and selects, or the VMM has lost some. Without marks and tag, one
 * of AMD's numbers is of a library without marks, and the VMM has moved its counters. */
static bool msrs_whole(const struct vcpu *v, const struct msrs_state *s)
{
	if (!s->marked && !(s->tagged && words_tag_has_marks(s->tag)))
		return s->tagged || !s->amd;
	return s->tagged && words_tag_has_marks(s->tag) && s->marked == 2 * v->gp;
}

static uint32_t msrs_bad(const struct vcpu *v, uint32_t at, const char *why)
{
	say("vCPU %u: %s; the VM cannot go on here", v->id, why);
	return at;
}

/* Write the registers. Returns the index of the first entry that is refused, or @end. */
static uint32_t msrs_apply(struct vcpu *v, struct msrs_state *s, uint32_t end)
{
	uint32_t order[REGISTERS_MAX]; /* in which they can be set */
	size_t n = REGISTERS_MAX;
	char why[200];

	if (!s->n)
		return end;
	v->carried |= s->tagged;
	/* A CPU after its reset has zeros nearly everywhere, and QEMU writes zeros everywhere. */
	if (msrs_zero(s) && (!s->tagged || !s->tag)) {
		vpmu_kvm_vcpu_reset(v->kvm);
		return end;
	}
	if (s->tagged && words_tag_check(process.guest.model, v->gp, s->tag, why, sizeof(why)))
		return msrs_bad(v, s->tag_at, why);
	if (!msrs_whole(v, s))
		return msrs_bad(v, s->word[0].at,
				"the VMM has saved only a part of the PMU's state");
	if (!words_is_intel(process.guest.model) && words_tag_debugctl(s->tag))
		msrs_note(s, DEBUGCTL, s->tag_at, words_tag_debugctl(s->tag), false);
	if (s->tagged)
		vpmu_kvm_vcpu_reset(v->kvm); /* a whole state */
	vpmu_kvm_vcpu_msrs(v->kvm, order, &n);
	for (size_t i = 0; i < n && i < REGISTERS_MAX; i++) {
		for (size_t k = 0; k < s->n; k++) {
			if (s->word[k].reg != order[i])
				continue;
			if (vpmu_kvm_vcpu_set_msr(v->kvm, order[i], s->word[k].value))
				return msrs_bad(v, s->word[k].at,
						"the PMU's state is not one that a guest can have");
		}
	}
	if (s->tagged && s->tag & WORDS_PMI)
		vpmu_kvm_vcpu_guest(v->kvm)->pmi = true;
	return end;
}

static bool msrs_dead_amd(uint32_t msr)
{
	bool v2 = process.real_22[0] & 1;
	unsigned int gp = v2 ? process.real_22[1] & 0xf : 6;

	if (msr >= 0xc0010200)
		return !process.real_core || (msr - 0xc0010200) / 2 >= gp;
	return msr - 0xc0000300 < 4 && !v2;
}

/* True if CPUID showed @msr to the VMM of a refused VM, but no PMU answers it: it reads 0. */
static bool msrs_dead_word(const struct vcpu *v, uint32_t msr)
{
	unsigned int gp = process.real_0a[0] >> 8 & 0xff, fixed = process.real_0a[3] & 31;

	if (!atomic_load(&process.shown) || !words_has(msr))
		return false;
	if (v->vm->opened)
		return true;
	if (msr > WORDS_TAG)
		return !words_is_intel(process.guest.model) && msrs_dead_amd(msr);
	if (!(process.real_0a[0] & 0xff))
		return true;
	/* KVM's own vPMU is on: its registers are KVM's. */
	return (msr - 0xc1 < WORDS_GP && msr - 0xc1 >= gp) ||
	       (msr - 0x186 < WORDS_GP && msr - 0x186 >= gp) ||
	       (msr - 0x309 < WORDS_FIXED && msr - 0x309 >= fixed);
}

static bool msrs_is_ours(const struct vcpu *v, bool on, uint32_t msr)
{
	return on ? words_has(msr) : msrs_dead_word(v, msr);
}

/* Another thread than the one that runs the vCPU must not touch its PMU. */
static bool msrs_foreign(struct vcpu *v)
{
	return v->kvm && kvm_bound_elsewhere(v->kvm);
}

/*
 * The index at which the state of a VM that was migrated or loaded is refused, or @end: KVM would
 * take what a VM without this PMU gets, or it would be dropped.
 *
 * QEMU 11.1 saves and sets no PMU if the CPU is not of the host's vendor. A PMU would stay as it
 * is, and the guest would lose its counters. QEMU sets the TSC together with all words, and to 0 or
 * 1 after a reset. With the guard's feature (cpuid.c) the guest has come from a VM with this PMU.
 */
static uint32_t msrs_misplaced(const struct vcpu *v, bool on, const struct kvm_msrs *m,
			       uint32_t end)
{
	uint32_t tsc = end;
	bool words = false;

	for (uint32_t i = 0; i < end; i++) {
		const struct kvm_msr_entry *e = &m->entries[i];

		if (!on && words_is_state(e->index, e->data))
			return msrs_bad(v, i,
					"the state has a PMU of vpmu-preload, this VM has none");
		words |= words_has(e->index);
		if (e->index == TSC && e->data > 1)
			tsc = i;
	}
	if (words || tsc == end || !atomic_load(&v->loaded) || (!on && !v->guard))
		return end;
	return msrs_bad(v, tsc, "the VMM has not saved the PMU's state");
}

/* Under v->lock. @end: how many there are. @at has room for the indexes of those that are KVM's,
 * @rest for themselves. */
static int msrs_do(struct vcpu *v, unsigned long request, struct kvm_msrs *m, uint32_t end,
		   struct kvm_msrs *rest, uint32_t *at)
{
	bool on = v->kvm && v->vm->state == PRE_ON, get = request == KVM_GET_MSRS;
	struct msrs_state s = {0};
	int rc = 0;

	if (!get)
		end = msrs_misplaced(v, on, m, end);
	rest->nmsrs = 0;
	rest->pad = m->pad;
	for (uint32_t i = 0; i < end; i++) {
		if (msrs_is_ours(v, on, m->entries[i].index))
			continue;
		at[rest->nmsrs] = i;
		rest->entries[rest->nmsrs++] = m->entries[i];
	}
	if (rest->nmsrs)
		rc = sys_ioctl(vcpu_fd(v), request, rest);
	if (rc < 0)
		return rc;
	if ((uint32_t)rc < rest->nmsrs)
		end = at[rc];
	for (uint32_t i = 0; get && i < (uint32_t)rc && i < rest->nmsrs; i++)
		m->entries[at[i]].data = rest->entries[i].data;
	for (uint32_t i = 0; i < end; i++) {
		struct kvm_msr_entry *e = &m->entries[i];

		if (!msrs_is_ours(v, on, e->index))
			continue;
		if (get && on)
			msrs_get_word(v, e);
		else if (get)
			e->data = 0;
		else if (on)
			msrs_note_word(v, &s, e, i);
	}
	for (uint32_t i = 0; get && on && i < end; i++)
		if (words_is_tag(process.guest.model, m->entries[i].index))
			msrs_get_tag(v, &m->entries[i]);
	if (!get && on)
		end = msrs_apply(v, &s, end);
	return (int)end;
}

/* No memory is needed: QEMU ends when it cannot read MSRs. */
int msrs_access(struct vcpu *v, unsigned long request, struct kvm_msrs *m)
{
	union {
		struct kvm_msrs head;
		char room[sizeof(struct kvm_msrs) + MSRS_MAX * sizeof(struct kvm_msr_entry)];
	} rest;
	/* Once: another thread of the VMM could change it after the comparison. */
	uint32_t at[MSRS_MAX], n = __atomic_load_n(&m->nmsrs, __ATOMIC_RELAXED);
	int rc;

	if (n >= MSRS_MAX)
		return sys_ioctl(vcpu_fd(v), request, m);
	pthread_mutex_lock(&v->lock);
	rc = msrs_foreign(v) ? -EBUSY : msrs_do(v, request, m, n, &rest.head, at);
	pthread_mutex_unlock(&v->lock);
	return rc;
}

void msrs_regs(struct vcpu *v, const struct kvm_regs *r)
{
	bool reset = r->rip == RESET_RIP && r->rflags == RESET_RFLAGS;

	atomic_store(&v->loaded, !reset);
	if (!reset || !v->kvm || v->vm->state != PRE_ON)
		return;
	pthread_mutex_lock(&v->lock);
	if (!msrs_foreign(v))
		vpmu_kvm_vcpu_reset(v->kvm);
	pthread_mutex_unlock(&v->lock);
	/* A CPU that is added later is reset alone; the machine's first one never is. */
	if (v->id)
		return;
	pthread_mutex_lock(&v->vm->lock);
	vpmu_kvm_vm_reset(v->vm->kvm);
	pthread_mutex_unlock(&v->vm->lock);
}
