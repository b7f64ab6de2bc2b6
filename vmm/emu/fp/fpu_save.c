// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The registers of x87 and SSE in get_state and set_state: a section of its own, which state.c
 * writes and reads.
 */
#include <string.h>

#include "vmm/emu/fp/fpu.h"
#include "vpmu/core/blob.h"

#define TAG	0x20555046u /* "FPU " */
#define VERSION 1

void emu_fpu_save(const struct emu_fpu *f, struct vpmu_blob *b)
{
	size_t section = vpmu_blob_begin(b, TAG, VERSION);

	vpmu_blob_u16(b, f->fx.fcw);
	vpmu_blob_u16(b, f->fx.fsw);
	vpmu_blob_u8(b, f->fx.ftw);
	vpmu_blob_u16(b, f->fop);
	vpmu_blob_u64(b, f->fip);
	vpmu_blob_u64(b, f->fdp);
	vpmu_blob_u16(b, f->fcs);
	vpmu_blob_u16(b, f->fds);
	vpmu_blob_u32(b, f->mxcsr);
	for (int i = 0; i < 8; i++) {
		vpmu_blob_u64(b, f->fx.st[i].q[0]);
		vpmu_blob_u16(b, f->fx.st[i].w[4]);
	}
	for (int i = 0; i < 16; i++) {
		vpmu_blob_u64(b, f->fx.xmm[i].q[0]);
		vpmu_blob_u64(b, f->fx.xmm[i].q[1]);
	}
	vpmu_blob_end(b, section);
}

bool emu_fpu_load(struct emu_fpu *f, struct vpmu_blob_reader *all)
{
	struct vpmu_blob_reader r;
	struct emu_fx fx;
	uint16_t version;

	memset(f, 0, sizeof(*f));
	if (!vpmu_blob_get_section(all, TAG, &version, &r) || version != VERSION)
		return false;
	f->fx.fcw = vpmu_blob_get_u16(&r);
	f->fx.fsw = vpmu_blob_get_u16(&r);
	f->fx.ftw = vpmu_blob_get_u8(&r);
	f->fop = vpmu_blob_get_u16(&r);
	f->fip = vpmu_blob_get_u64(&r);
	f->fdp = vpmu_blob_get_u64(&r);
	f->fcs = vpmu_blob_get_u16(&r);
	f->fds = vpmu_blob_get_u16(&r);
	f->mxcsr = vpmu_blob_get_u32(&r);
	for (int i = 0; i < 8; i++) {
		f->fx.st[i].q[0] = vpmu_blob_get_u64(&r);
		f->fx.st[i].w[4] = vpmu_blob_get_u16(&r);
	}
	for (int i = 0; i < 16; i++) {
		f->fx.xmm[i].q[0] = vpmu_blob_get_u64(&r);
		f->fx.xmm[i].q[1] = vpmu_blob_get_u64(&r);
	}
	if (!vpmu_blob_done(&r) || f->fop > 0x7ff)
		return false;
	/* Registers are valid if FXRSTOR and FXSAVE do not change them. */
	fx = f->fx;
	emu_fpu_settle(f);
	return fx.fcw == f->fx.fcw && fx.fsw == f->fx.fsw && fx.ftw == f->fx.ftw;
}
