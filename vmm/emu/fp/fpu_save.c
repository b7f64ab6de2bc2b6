// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The registers of x87, SSE, AVX and AVX-512 in get_state and set_state: three sections of their
 * own, which state.c writes and reads. The second one is absent after a reset and while only x87
 * and SSE are in use, the third one while AVX-512 is not in use.
 */
#include <string.h>

#include "vmm/emu/fp/fpu.h"
#include "vpmu/core/blob_io.h"

#define TAG	 0x20555046u /* "FPU " */
#define VERSION	 1
#define XTAG	 0x56415358u /* "XSAV" */
#define XVERSION 1
#define ZTAG	 0x204d4d5au /* "ZMM " */
#define ZVERSION 1

static void fpu_io(struct blob_io *io, void *of)
{
	struct emu_fpu *f = of;

	IO(f->fx.fcw), IO(f->fx.fsw), IO(f->fx.ftw), IO(f->fop), IO(f->fip), IO(f->fdp);
	IO(f->fcs), IO(f->fds), IO(f->mxcsr);
	for (int i = 0; i < 8; i++)
		IO(f->fx.st[i].q[0]), IO(f->fx.st[i].w[4]);
	for (int i = 0; i < 16; i++)
		IO(f->fx.xmm[i].q[0]), IO(f->fx.xmm[i].q[1]);
}

static void xsave_io(struct blob_io *io, void *of)
{
	struct emu_fpu *f = of;

	IO(f->xcr0);
	for (int i = 0; i < 16; i++)
		IO(f->ymm_high[i].q[0]), IO(f->ymm_high[i].q[1]);
}

static void zmm_io(struct blob_io *io, void *of)
{
	struct emu_fpu *f = of;

	IO_EACH(f->k);
	for (int i = 0; i < 16; i++) {
		for (int j = 0; j < 2; j++)
			IO_EACH(f->zmm_high[i][j].q);
		for (int j = 0; j < 4; j++)
			IO_EACH(f->zmm_hi16[i][j].q);
	}
}

static bool zmm_differs(const struct emu_fpu *f)
{
	static const struct emu_fpu zero;

	return memcmp(f->zmm_high, zero.zmm_high, sizeof(zero.zmm_high)) ||
	       memcmp(f->zmm_hi16, zero.zmm_hi16, sizeof(zero.zmm_hi16)) ||
	       memcmp(f->k, zero.k, sizeof(zero.k));
}

/* Returns true if the second section has something to say. */
static bool xsave_differs(const struct emu_fpu *f)
{
	static const union emu_xmm zero[16];

	return f->xcr0 != 1 || memcmp(f->ymm_high, zero, sizeof(zero)) != 0;
}

void emu_fpu_save(const struct emu_fpu *f, struct vpmu_blob *b)
{
	blob_save(b, TAG, VERSION, fpu_io, f);
	if (xsave_differs(f))
		blob_save(b, XTAG, XVERSION, xsave_io, f);
	if (zmm_differs(f))
		blob_save(b, ZTAG, ZVERSION, zmm_io, f);
}

bool emu_fpu_load(struct emu_fpu *f, struct vpmu_blob_reader *all)
{
	struct vpmu_blob_reader next;
	struct emu_fx fx;

	memset(f, 0, sizeof(*f));
	if (!blob_load(all, TAG, VERSION, fpu_io, f) || f->fop > 0x7ff)
		return false;
	f->xcr0 = 1;
	next = *all;
	if (blob_load(&next, XTAG, XVERSION, xsave_io, f)) {
		if (!xsave_differs(f))
			return false;
		*all = next;
	}
	next = *all;
	if (blob_load(&next, ZTAG, ZVERSION, zmm_io, f)) {
		if (!zmm_differs(f))
			return false;
		*all = next;
	}
	/* Registers are valid if FXRSTOR and FXSAVE do not change them. */
	fx = f->fx;
	emu_fpu_settle(f);
	return fx.fcw == f->fx.fcw && fx.fsw == f->fx.fsw && fx.ftw == f->fx.ftw;
}
