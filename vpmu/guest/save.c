// SPDX-License-Identifier: LGPL-2.1-or-later
/*
 * Serialization of a vCPU's PMU, for vmm/snapshot. docs/internals/snapshot.md specifies the format.
 *
 * The input is untrusted. vpmu_guest_load reads it into a struct of its own. save_check writes the
 * saved registers to a scratch guest of the same configuration with the model's own write
 * functions, so a snapshot can hold only values that a guest can write. State that only hardware
 * writes (counts, times, overflow bits, branch records) is checked here. The guest itself must not
 * change before all checks have passed.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "vpmu/core/blob_io.h"
#include "vpmu/guest/abi.h"
#include "vpmu/guest/internal.h"
#include "vpmu/guest/save.h"

#define SECTION_TAG	0x47554d50u /* "PMUG" */
#define SECTION_VERSION 1

#define TIME_MAX (1ULL << 62) /* 146 years, so that adding to a saved time cannot wrap */

/* ---- both directions ------------------------------------------------------------------------- */

/* The settings that the layout of the section depends on, and more that must be the same. */
#define CONF_BYTES 6

struct conf_byte {
	const char *what;
	uint8_t value;
};

static void save_conf(const struct vpmu_guest *g, struct conf_byte conf[CONF_BYTES])
{
	const struct conf_byte of_guest[CONF_BYTES] = {
		{"model", (uint8_t)g->cfg.model}, {"gp", (uint8_t)g->cfg.gp},
		{"fixed", (uint8_t)g->cfg.fixed}, {"depth of branch records", (uint8_t)g->lbr_max},
		{"rdpmc", g->cfg.rdpmc},	  {"no_lbr", g->cfg.no_lbr},
	};

	memcpy(conf, of_guest, sizeof(of_guest));
}

static void save_io(struct blob_io *io, struct vpmu_guest *g)
{
	uint8_t depth = (uint8_t)g->lbr_depth;
	unsigned int i;

	guest_for_each_ctr(i, g->ctrs)
	{
		struct vpmu_guest_ctr *c = &g->ctr[i];

		if (i < FIXED0)
			IO(c->evtsel);
		IO(c->value), IO(c->enabled_ns), IO(c->running_ns), IO(c->quality);
		IO_BOOL(c->lost);
	}
	IO(g->fixed_ctrl), IO(g->global_ctrl), IO(g->global_status), IO(g->debugctl);
	IO_BOOL(g->pmi), IO(g->denied), IO(g->denied_last);
	IO(depth), IO(g->lbr_ctl), IO(g->lbr_enable);
	g->lbr_depth = depth;
}

/* Branch records, oldest first: the newest is at e[count - 1]. */
static void save_io_records(struct blob_io *io, struct vpmu_lbr_regs *r)
{
	IO(r->count), IO(r->cycles), IO(r->total);
	if (r->count > VPMU_LBR_DEPTH_MAX) {
		io->in->failed = true;
		return;
	}
	r->head = r->count ? r->count - 1 : 0;
	for (unsigned int i = 0; i < r->count; i++)
		IO(r->e[i].from), IO(r->e[i].to), IO(r->e[i].info);
}

/* ---- saving ---------------------------------------------------------------------------------- */

/* Unroll the ring of records as save_io_records expects it. */
static struct vpmu_lbr_regs save_unroll(const struct vpmu_lbr_regs *r)
{
	struct vpmu_lbr_regs flat = *r;

	flat.count = r->count < r->depth ? r->count : r->depth;
	for (unsigned int i = 0; i < flat.count; i++)
		flat.e[flat.count - 1 - i] = *vpmu_lbr_nth(r, i);
	return flat;
}

int vpmu_guest_save(struct vpmu_guest *g, struct vpmu_blob *b)
{
	struct blob_io out = {.out = b}, *io = &out;
	struct conf_byte conf[CONF_BYTES];
	struct vpmu_lbr_regs lbr;
	bool has_records;
	size_t section;
	int ret = -ENOENT;

	if (g->pcpu)
		return -EBUSY; /* while it is placed, consumers hold part of its counts */
	if (g->lbr_max)
		ret = vpmu_lbr_guest_get(g->ctx, NULL, &lbr);
	if (ret && ret != -ENOENT)
		return ret;
	has_records = !ret;
	section = vpmu_blob_begin(b, SECTION_TAG, SECTION_VERSION);
	save_conf(g, conf);
	for (int i = 0; i < CONF_BYTES; i++)
		IO(conf[i].value);
	save_io(io, g);
	IO_BOOL(has_records);
	if (has_records) {
		lbr = save_unroll(&lbr);
		save_io_records(io, &lbr);
	}
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

/* Check the head of the section, and make *@r a reader of what follows: save_io's fields. */
static int save_head(const struct vpmu_guest *g, struct vpmu_blob_reader *b,
		     struct vpmu_blob_reader *r, const struct error *e)
{
	struct conf_byte conf[CONF_BYTES];

	if (!vpmu_blob_get_section(b, SECTION_TAG, SECTION_VERSION, r))
		return save_bad(
			e, "PMU: the section is missing, cut off or of another version than %u",
			SECTION_VERSION);
	save_conf(g, conf);
	for (int i = 0; i < CONF_BYTES; i++) {
		uint8_t got = vpmu_blob_get_u8(r);

		if (got != conf[i].value)
			return save_bad(e, "PMU: %s is %u, but %u in this VM's configuration",
					conf[i].what, got, conf[i].value);
	}
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
		     const struct vpmu_guest_ctr *c)
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
			 const struct vpmu_guest *s, const struct vpmu_lbr_regs *r)
{
	bool intel = vpmu_guest_is_intel(scratch);
	uint64_t info = VPMU_LBR_INFO_CYC | VPMU_LBR_INFO_TYPE | VPMU_LBR_INFO_CYC_VALID;

	if (!intel)
		info |= LBR_INFO_INVALID | LBR_INFO_SPEC | LBR_INFO_MISPRED;
	if (!s->lbr_max)
		return save_bad(
			e, "PMU: branch records are given, but this VM's configuration has none");
	if (r->count > s->lbr_depth)
		return save_bad(e, "PMU: %u branch records given; expected up to %u", r->count,
				s->lbr_depth);
	if (!r->count && !(scratch->ops->lbr(scratch) & VPMU_LBR_EN))
		return save_bad(e, "PMU: an empty set of branch records is given, but the guest "
				   "records nothing");
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

static int save_check_lbr(struct vpmu_guest *scratch, const struct error *e,
			  const struct vpmu_guest *s)
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

/* Check that a guest can reach the state *s with the records @r, NULL: none. -EINVAL if not. On
 * success @scratch has its registers. */
static int save_check(struct vpmu_guest *scratch, const struct error *e, const struct vpmu_guest *s,
		      const struct vpmu_lbr_regs *r)
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
	if (!ret && r)
		ret = check_records(scratch, e, s, r);
	if (!ret && s->pmi && !scratch->ops)
		ret = save_bad(e, "PMU: a PMI is due, but this VM has no PMU");
	return ret;
}

/* ---- loading --------------------------------------------------------------------------------- */

/* This can fail, so it must precede any change of @g. @r: NULL: there are none; @ctl: the filter by
 * the registers. */
static int apply_records(struct vpmu_guest *g, struct vpmu_lbr_regs *r, uint8_t depth, uint32_t ctl,
			 const struct error *e)
{
	int ret;

	if (!r) {
		if (g->lbr_max)
			vpmu_lbr_guest_close(g->ctx, NULL);
		return 0;
	}
	r->ctl = ctl;
	r->depth = depth;
	ret = vpmu_lbr_guest_open(g->ctx, NULL, depth);
	if (!ret)
		ret = vpmu_lbr_guest_set(g->ctx, NULL, r);
	if (ret)
		save_bad(e, "PMU: branch records: error %d", -ret);
	return ret;
}

int vpmu_guest_load(struct vpmu_guest *g, struct vpmu_blob_reader *b, char *err, size_t errlen)
{
	struct vpmu_guest scratch, s = {.ctrs = g->ctrs, .lbr_max = g->lbr_max};
	const struct error e = {err, errlen};
	struct vpmu_lbr_regs lbr = {0}, *records;
	struct vpmu_blob_reader r, checked;
	struct blob_io in = {.in = &r}, *io = &in;
	bool has_records;
	int ret;

	if (g->pcpu) {
		save_bad(&e, "PMU: the vCPU is placed on a pCPU");
		return -EBUSY;
	}
	ret = save_head(g, b, &r, &e);
	if (ret)
		return ret;
	checked = r;
	save_io(io, &s);
	IO_BOOL(has_records);
	records = has_records ? &lbr : NULL;
	if (records)
		save_io_records(io, records);
	if (!vpmu_blob_done(&r))
		return save_bad(&e, "PMU: the length of the section does not fit its contents, or "
				    "a flag is neither 0 nor 1");
	if (vpmu_guest_init(&scratch, &g->cfg, g->ctx, g->pmu))
		return save_bad(&e, "PMU: this VM's configuration is not valid");
	scratch.ctx = NULL; /* registers only, so no vpmu_guest_fini is needed */
	ret = save_check(&scratch, &e, &s, records);
	if (!ret)
		ret = apply_records(g, records, (uint8_t)s.lbr_depth,
				    scratch.lbr_max ? scratch.ops->lbr(&scratch) : 0, &e);
	if (ret)
		return ret;
	in.in = &checked; /* read the same bytes again, now to the guest itself */
	save_io(io, g);
	g->overflowed = 0;
	if (g->ops)
		guest_derive(g, g->ctrs);
	return 0;
}
