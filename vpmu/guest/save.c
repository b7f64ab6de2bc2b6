// SPDX-License-Identifier: LGPL-2.1-or-later
/*
 * Serialization of a vCPU's PMU, for vmm/snapshot. docs/internals/snapshot.md specifies the format.
 *
 * The input is untrusted. save_decode reads it into a struct saved. save_check writes the saved
 * registers to a scratch guest of the same configuration with the model's own write functions, so a
 * snapshot can hold only values that a guest can write. State that only hardware writes (counts,
 * times, overflow bits, branch records) is checked here. The guest itself must not change before
 * all checks have passed.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>

#include "vpmu/core/blob.h"
#include "vpmu/guest/abi.h"
#include "vpmu/guest/internal.h"
#include "vpmu/guest/save.h"

#define SECTION_TAG	0x47554d50u /* "PMUG" */
#define SECTION_VERSION 1

#define TIME_MAX (1ULL << 62) /* 146 years, so that adding to a saved time cannot wrap */

struct saved_ctr {
	uint64_t evtsel, value, enabled_ns, running_ns;
	uint8_t quality;
	bool lost;
};

struct saved {
	uint8_t model, gp, fixed, lbr_max;
	bool rdpmc, no_lbr;
	struct saved_ctr ctr[VPMU_GUEST_MAX_CTRS];
	uint64_t fixed_ctrl, global_ctrl, global_status, debugctl;
	bool pmi;
	uint64_t denied, denied_last;
	uint8_t lbr_depth;
	uint64_t lbr_ctl, lbr_enable;
	bool has_records;
	struct vpmu_lbr_regs lbr; /* newest record at e[count - 1]; apply_records sets ctl, depth */
};

/* ---- saving ---------------------------------------------------------------------------------- */

static void put_records(struct vpmu_blob *b, const struct vpmu_lbr_regs *r)
{
	uint8_t n = r->count < r->depth ? r->count : r->depth;

	vpmu_blob_u8(b, n);
	vpmu_blob_u64(b, r->cycles);
	vpmu_blob_u64(b, r->total);
	for (unsigned int i = n; i-- > 0;) {
		const struct vpmu_lbr_entry *e = vpmu_lbr_nth(r, i);

		vpmu_blob_u64(b, e->from);
		vpmu_blob_u64(b, e->to);
		vpmu_blob_u64(b, e->info);
	}
}

int vpmu_guest_save(struct vpmu_guest *g, struct vpmu_blob *b)
{
	struct vpmu_lbr_regs lbr;
	size_t section;
	unsigned int i;
	int ret = -ENOENT;

	if (g->pcpu)
		return -EBUSY; /* while it is placed, consumers hold part of its counts */
	if (g->lbr_max)
		ret = vpmu_lbr_guest_get(g->ctx, NULL, &lbr);
	if (ret && ret != -ENOENT)
		return ret;
	section = vpmu_blob_begin(b, SECTION_TAG, SECTION_VERSION);
	vpmu_blob_u8(b, (uint8_t)g->cfg.model);
	vpmu_blob_u8(b, (uint8_t)g->cfg.gp);
	vpmu_blob_u8(b, (uint8_t)g->cfg.fixed);
	vpmu_blob_u8(b, (uint8_t)g->lbr_max);
	vpmu_blob_u8(b, g->cfg.rdpmc);
	vpmu_blob_u8(b, g->cfg.no_lbr);
	guest_for_each_ctr(i, g->ctrs)
	{
		const struct vpmu_guest_ctr *c = &g->ctr[i];

		if (i < FIXED0)
			vpmu_blob_u64(b, c->evtsel);
		vpmu_blob_u64(b, c->value);
		vpmu_blob_u64(b, c->enabled_ns);
		vpmu_blob_u64(b, c->running_ns);
		vpmu_blob_u8(b, c->quality);
		vpmu_blob_u8(b, c->lost);
	}
	vpmu_blob_u64(b, g->fixed_ctrl);
	vpmu_blob_u64(b, g->global_ctrl);
	vpmu_blob_u64(b, g->global_status);
	vpmu_blob_u64(b, g->debugctl);
	vpmu_blob_u8(b, g->pmi);
	vpmu_blob_u64(b, g->denied);
	vpmu_blob_u64(b, g->denied_last);
	vpmu_blob_u8(b, (uint8_t)g->lbr_depth);
	vpmu_blob_u64(b, g->lbr_ctl);
	vpmu_blob_u64(b, g->lbr_enable);
	vpmu_blob_u8(b, !ret);
	if (!ret)
		put_records(b, &lbr);
	vpmu_blob_end(b, section);
	return b->failed ? -ENOMEM : 0;
}

/* ---- reading --------------------------------------------------------------------------------- */

struct error {
	char *text;
	size_t len;
};

static int save_bad(const struct error *e, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));

static int save_bad(const struct error *e, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	if (e->len)
		vsnprintf(e->text, e->len, fmt, ap);
	va_end(ap);
	return -EINVAL;
}

static int differs(const struct error *e, const char *what, uint64_t got, uint64_t want)
{
	if (got == want)
		return 0;
	return save_bad(e, "PMU: %s is %" PRIu64 ", but %" PRIu64 " in this VM's configuration",
			what, got, want);
}

static void get_records(struct vpmu_blob_reader *r, struct vpmu_lbr_regs *lbr)
{
	*lbr = (struct vpmu_lbr_regs){0};
	lbr->count = vpmu_blob_get_u8(r);
	lbr->cycles = vpmu_blob_get_u64(r);
	lbr->total = vpmu_blob_get_u64(r);
	if (lbr->count > VPMU_LBR_DEPTH_MAX) {
		r->failed = true;
		return;
	}
	lbr->head = lbr->count ? lbr->count - 1 : 0;
	for (unsigned int i = 0; i < lbr->count; i++) {
		lbr->e[i].from = vpmu_blob_get_u64(r);
		lbr->e[i].to = vpmu_blob_get_u64(r);
		lbr->e[i].info = vpmu_blob_get_u64(r);
	}
}

/* Read the section into *s. Its configuration must be that of @g, because the number of counters in
 * the section depends on it. */
static int save_decode(const struct vpmu_guest *g, struct vpmu_blob_reader *b, struct saved *s,
		       const struct error *e)
{
	struct vpmu_blob_reader r;
	uint16_t version;
	unsigned int i;
	int ret;

	*s = (struct saved){0};
	if (!vpmu_blob_get_section(b, SECTION_TAG, &version, &r))
		return save_bad(e, "PMU: the section is missing or cut off");
	if (version != SECTION_VERSION)
		return save_bad(e, "PMU: section of version %u; expected %u", version,
				SECTION_VERSION);
	s->model = vpmu_blob_get_u8(&r);
	s->gp = vpmu_blob_get_u8(&r);
	s->fixed = vpmu_blob_get_u8(&r);
	s->lbr_max = vpmu_blob_get_u8(&r);
	s->rdpmc = vpmu_blob_get_bool(&r);
	s->no_lbr = vpmu_blob_get_bool(&r);
	ret = differs(e, "model", s->model, g->cfg.model);
	if (!ret)
		ret = differs(e, "gp", s->gp, g->cfg.gp);
	if (!ret)
		ret = differs(e, "fixed", s->fixed, g->cfg.fixed);
	if (!ret)
		ret = differs(e, "depth of branch records", s->lbr_max, g->lbr_max);
	if (!ret)
		ret = differs(e, "rdpmc", s->rdpmc, g->cfg.rdpmc);
	if (!ret)
		ret = differs(e, "no_lbr", s->no_lbr, g->cfg.no_lbr);
	if (ret)
		return ret;
	guest_for_each_ctr(i, g->ctrs)
	{
		struct saved_ctr *c = &s->ctr[i];

		if (i < FIXED0)
			c->evtsel = vpmu_blob_get_u64(&r);
		c->value = vpmu_blob_get_u64(&r);
		c->enabled_ns = vpmu_blob_get_u64(&r);
		c->running_ns = vpmu_blob_get_u64(&r);
		c->quality = vpmu_blob_get_u8(&r);
		c->lost = vpmu_blob_get_bool(&r);
	}
	s->fixed_ctrl = vpmu_blob_get_u64(&r);
	s->global_ctrl = vpmu_blob_get_u64(&r);
	s->global_status = vpmu_blob_get_u64(&r);
	s->debugctl = vpmu_blob_get_u64(&r);
	s->pmi = vpmu_blob_get_bool(&r);
	s->denied = vpmu_blob_get_u64(&r);
	s->denied_last = vpmu_blob_get_u64(&r);
	s->lbr_depth = vpmu_blob_get_u8(&r);
	s->lbr_ctl = vpmu_blob_get_u64(&r);
	s->lbr_enable = vpmu_blob_get_u64(&r);
	s->has_records = vpmu_blob_get_bool(&r);
	if (s->has_records)
		get_records(&r, &s->lbr);
	if (!vpmu_blob_done(&r))
		return save_bad(
			e, "PMU: the length of the section does not fit its contents, or a flag "
			   "is neither 0 nor 1");
	return 0;
}

/* ---- checking -------------------------------------------------------------------------------- */

/*
 * Write @val to @msr of the scratch guest, and check that *field, where the model keeps the value,
 * then holds it. If it does already, nothing is written, because the model may lack the register.
 */
static int replay(struct vpmu_guest *scratch, const struct error *e, const char *what, uint32_t msr,
		  uint64_t val, const uint64_t *field)
{
	if (*field == val)
		return 0;
	if (vpmu_guest_wrmsr(scratch, msr, val) || *field != val)
		return save_bad(e,
				"PMU: %s is 0x%" PRIx64 ", which a guest of model %s cannot write",
				what, val, vpmu_guest_model_name(scratch->cfg.model));
	return 0;
}

static int check_ctr(struct vpmu_guest *scratch, const struct error *e, unsigned int i,
		     const struct saved_ctr *c)
{
	bool intel = vpmu_guest_is_intel(scratch);
	uint32_t sel = i < 4 ? 0xc0010000 + i : 0xc0010200 + 2 * i;
	char what[32];

	snprintf(what, sizeof(what), "event select %u", i);
	if (c->value & ~scratch->width_mask)
		return save_bad(e, "PMU: counter %u is 0x%" PRIx64 ", wider than %u bits", i,
				c->value, scratch->ops->width);
	if (c->running_ns > c->enabled_ns || c->enabled_ns > TIME_MAX)
		return save_bad(
			e, "PMU: counter %u was enabled for %" PRIu64 " ns and ran for %" PRIu64, i,
			c->enabled_ns, c->running_ns);
	if (c->quality > VPMU_Q_TSC && c->quality != VPMU_PV_UNSUPPORTED)
		return save_bad(e, "PMU: counter %u has quality %u; expected 0 to %u, %u", i,
				c->quality, VPMU_Q_TSC, VPMU_PV_UNSUPPORTED);
	if (i >= FIXED0)
		return 0;
	return replay(scratch, e, what, intel ? 0x186 + i : sel, c->evtsel,
		      &scratch->ctr[i].evtsel);
}

/* Every model with a status register has overflow bits. All other set bits must be writable by a
 * guest. */
static int save_check_status(struct vpmu_guest *scratch, const struct error *e, uint64_t status)
{
	bool has = scratch->ops && scratch->ops->global;
	uint64_t rest = has ? status & ~guest_global_mask(scratch) : status;

	return replay(scratch, e, "status", vpmu_guest_is_intel(scratch) ? 0x391 : 0xc0000303, rest,
		      &scratch->global_status);
}

/* True if the model's registers can hold address @a, i.e. it is sign-extended from 48 bits (Intel;
 * SDM vol. 4, 1500H: #GP otherwise) or 58 bits (AMD; APM vol. 2, 13.1.1.9). */
static bool save_address_ok(bool intel, uint64_t a)
{
	unsigned int above = intel ? 16 : 6;

	return (uint64_t)((int64_t)(a << above) >> above) == a;
}

static int check_records(const struct vpmu_guest *scratch, const struct error *e,
			 const struct saved *s)
{
	const struct vpmu_lbr_regs *r = &s->lbr;
	bool intel = vpmu_guest_is_intel(scratch);
	uint64_t info = VPMU_LBR_INFO_CYC | VPMU_LBR_INFO_TYPE | VPMU_LBR_INFO_CYC_VALID;

	if (!intel)
		info |= LBR_INFO_INVALID | LBR_INFO_SPEC | LBR_INFO_MISPRED;
	if (!s->has_records)
		return 0;
	if (!s->lbr_max)
		return save_bad(
			e, "PMU: branch records are given, but this VM's configuration has none");
	if (r->count > s->lbr_depth)
		return save_bad(e, "PMU: %u branch records given; expected up to %u", r->count,
				s->lbr_depth);
	if (!r->count && !(scratch->ops->lbr(scratch) & VPMU_LBR_EN))
		return save_bad(
			e, "PMU: an empty set of branch records is given, but the guest records "
			   "nothing");
	for (unsigned int i = 0; i < r->count; i++) {
		const struct vpmu_lbr_entry *x = &r->e[i];

		if (!save_address_ok(intel, x->from) || !save_address_ok(intel, x->to) ||
		    (x->info & ~info))
			return save_bad(e,
					"PMU: branch record from 0x%" PRIx64 " to 0x%" PRIx64
					", info 0x%" PRIx64 ": a CPU cannot make this record",
					x->from, x->to, x->info);
	}
	return 0;
}

static int save_check_lbr(struct vpmu_guest *scratch, const struct error *e, const struct saved *s)
{
	bool intel = vpmu_guest_is_intel(scratch);
	uint64_t depth = scratch->lbr_depth;
	int ret = 0;

	if (s->lbr_depth != depth && (!intel || vpmu_guest_wrmsr(scratch, 0x14cf, s->lbr_depth) ||
				      scratch->lbr_depth != s->lbr_depth))
		return save_bad(
			e, "PMU: branch record depth %u, which a guest of model %s cannot write",
			s->lbr_depth, vpmu_guest_model_name(scratch->cfg.model));
	ret = replay(scratch, e, "branch record control", intel ? 0x14ce : 0xc000010e, s->lbr_ctl,
		     &scratch->lbr_ctl);
	if (!ret)
		ret = replay(scratch, e, "DBG_EXTN_CFG", 0xc000010f, s->lbr_enable,
			     &scratch->lbr_enable);
	return ret;
}

/* Check that a guest can reach the state *s: -EINVAL if not. On success @scratch has its registers.
 */
static int save_check(struct vpmu_guest *scratch, const struct error *e, const struct saved *s)
{
	bool intel = vpmu_guest_is_intel(scratch);
	unsigned int i;
	int ret = 0;

	guest_for_each_ctr(i, scratch->ctrs)
	{
		ret = check_ctr(scratch, e, i, &s->ctr[i]);
		if (ret)
			return ret;
	}
	ret = replay(scratch, e, "IA32_FIXED_CTR_CTRL", 0x38d, s->fixed_ctrl, &scratch->fixed_ctrl);
	if (!ret)
		ret = replay(scratch, e, "global control", intel ? 0x38f : 0xc0000301,
			     s->global_ctrl, &scratch->global_ctrl);
	if (!ret)
		ret = replay(scratch, e, "DEBUGCTL", 0x1d9, s->debugctl, &scratch->debugctl);
	if (!ret)
		ret = save_check_status(scratch, e, s->global_status);
	if (!ret)
		ret = save_check_lbr(scratch, e, s);
	if (!ret)
		ret = check_records(scratch, e, s);
	if (!ret && s->pmi && !scratch->ops)
		ret = save_bad(e, "PMU: a PMI is due, but this VM has no PMU");
	return ret;
}

/* ---- loading --------------------------------------------------------------------------------- */

static void save_apply(struct vpmu_guest *g, const struct saved *s)
{
	unsigned int i;

	guest_for_each_ctr(i, g->ctrs)
	{
		struct vpmu_guest_ctr *c = &g->ctr[i];
		const struct saved_ctr *from = &s->ctr[i];

		c->evtsel = from->evtsel;
		c->value = from->value;
		c->enabled_ns = from->enabled_ns;
		c->running_ns = from->running_ns;
		c->quality = from->quality;
		c->lost = from->lost;
	}
	g->fixed_ctrl = s->fixed_ctrl;
	g->global_ctrl = s->global_ctrl;
	g->global_status = s->global_status;
	g->debugctl = s->debugctl;
	g->overflowed = 0;
	g->pmi = s->pmi;
	g->denied = s->denied;
	g->denied_last = s->denied_last;
	g->lbr_depth = s->lbr_depth;
	g->lbr_ctl = s->lbr_ctl;
	g->lbr_enable = s->lbr_enable;
	if (g->ops)
		guest_derive(g, g->ctrs);
}

/* This can fail, so it must precede save_apply. @ctl: the filter by the registers. */
static int apply_records(struct vpmu_guest *g, const struct saved *s, uint32_t ctl,
			 const struct error *e)
{
	struct vpmu_lbr_regs r = s->lbr;
	int ret;

	if (!s->has_records) {
		if (g->lbr_max)
			vpmu_lbr_guest_close(g->ctx, NULL);
		return 0;
	}
	r.ctl = ctl;
	r.depth = s->lbr_depth;
	ret = vpmu_lbr_guest_open(g->ctx, NULL, r.depth);
	if (!ret)
		ret = vpmu_lbr_guest_set(g->ctx, NULL, &r);
	if (ret)
		save_bad(e, "PMU: branch records: error %d", -ret);
	return ret;
}

int vpmu_guest_load(struct vpmu_guest *g, struct vpmu_blob_reader *b, char *err, size_t errlen)
{
	const struct error e = {err, errlen};
	struct vpmu_guest scratch;
	struct saved s;
	int ret;

	if (g->pcpu) {
		save_bad(&e, "PMU: the vCPU is placed on a pCPU");
		return -EBUSY;
	}
	ret = save_decode(g, b, &s, &e);
	if (ret)
		return ret;
	if (vpmu_guest_init(&scratch, &g->cfg, g->ctx, g->pmu))
		return save_bad(&e, "PMU: this VM's configuration is not valid");
	scratch.ctx = NULL; /* registers only, so no vpmu_guest_fini is needed */
	ret = save_check(&scratch, &e, &s);
	if (!ret)
		ret = apply_records(g, &s, scratch.lbr_max ? scratch.ops->lbr(&scratch) : 0, &e);
	if (!ret)
		save_apply(g, &s);
	return ret;
}
