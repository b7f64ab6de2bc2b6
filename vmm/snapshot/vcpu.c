// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Saves and loads the state of a vCPU; called by snapshot.c. Structures of the kernel are encoded
 * field by field, so that the file does not depend on their layout. If a vCPU has ended, only its
 * state and status are saved. Loaded bytes may be hostile, so everything is checked.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "vpmu/util/fail.h"
#include "vpmu/core/blob_io.h"
#include "vmm/snapshot/priv.h"
#include "vpmu/guest/save.h"

#define TAG_REGS  0x53474552u /* "REGS" */
#define TAG_SREGS 0x47455253u /* "SREG" */
#define TAG_EXIT  0x54495845u /* "EXIT" */

static int vcpu_bad(const struct vcpu *v, const char *what, char *err, size_t errlen)
{
	return fail(-EINVAL, err, errlen, "vCPU %u: %s", v->id, what);
}

/* ---- registers ---- */

static void regs_io(struct blob_io *io, void *of)
{
	struct kvm_regs *r = of;

	IO(r->rax), IO(r->rbx), IO(r->rcx), IO(r->rdx), IO(r->rsi), IO(r->rdi), IO(r->rsp);
	IO(r->rbp), IO(r->r8), IO(r->r9), IO(r->r10), IO(r->r11), IO(r->r12), IO(r->r13);
	IO(r->r14), IO(r->r15), IO(r->rip), IO(r->rflags);
}

static void segment_io(struct blob_io *io, struct kvm_segment *s)
{
	IO(s->base), IO(s->limit), IO(s->selector), IO(s->type), IO(s->dpl);
	IO_BOOL(s->present), IO_BOOL(s->db), IO_BOOL(s->s), IO_BOOL(s->l), IO_BOOL(s->g);
	IO_BOOL(s->avl), IO_BOOL(s->unusable);
	if (io->in && (s->type > 15 || s->dpl > 3))
		io->in->failed = true;
}

static void sregs_io(struct blob_io *io, void *of)
{
	struct kvm_sregs *s = of;

	segment_io(io, &s->cs), segment_io(io, &s->ds), segment_io(io, &s->es);
	segment_io(io, &s->fs), segment_io(io, &s->gs), segment_io(io, &s->ss);
	segment_io(io, &s->tr), segment_io(io, &s->ldt);
	IO(s->gdt.base), IO(s->gdt.limit), IO(s->idt.base), IO(s->idt.limit);
	IO(s->cr0), IO(s->cr2), IO(s->cr3), IO(s->cr4), IO(s->cr8), IO(s->efer), IO(s->apic_base);
	IO_EACH(s->interrupt_bitmap);
}

static int save_regs(struct vcpu *v, struct vpmu_blob *b)
{
	struct kvm_sregs sregs;
	struct kvm_regs regs;
	int ret = v->vm->ops->get_regs(v->ev, &regs);

	if (!ret)
		ret = v->vm->ops->get_sregs(v->ev, &sregs);
	if (ret)
		return ret;
	blob_save(b, TAG_REGS, 1, regs_io, &regs);
	blob_save(b, TAG_SREGS, 1, sregs_io, &sregs);
	return 0;
}

static bool load_sregs(struct vpmu_blob_reader *r, struct kvm_sregs *s)
{
	unsigned int queued = 0;

	memset(s, 0, sizeof(*s));
	if (!blob_load(r, TAG_SREGS, 1, sregs_io, s))
		return false;
	for (int i = 0; i < 4; i++)
		queued += (unsigned int)__builtin_popcountll(s->interrupt_bitmap[i]);
	/* One vector can be queued, and vectors below 16 are not interrupts. */
	return queued <= 1 && !(s->interrupt_bitmap[0] & 0xffff);
}

/* ---- the engine's ---- */

static int get_state(void *vcpu, void *buf, size_t *bytes)
{
	const struct vcpu *v = vcpu;

	return v->vm->ops->get_state(v->ev, buf, bytes);
}

/* ---- the last exit: run() completes its instruction with the answer in v->run ---- */

static void exit_io(struct blob_io *io, void *of)
{
	struct vmm_run *run = of;
	uint8_t exit = (uint8_t)run->exit;

	IO(exit);
	run->exit = exit;
	switch (exit) {
	case 0: /* it has not run yet */
	case VMM_EXIT_BUDGET:
	case VMM_EXIT_INTR:
	case VMM_EXIT_ALARM:
	case VMM_EXIT_HLT:
		break;
	case VMM_EXIT_IO:
		IO(run->u.io.port), IO(run->u.io.size), IO_BOOL(run->u.io.in), IO(run->u.io.data);
		if (io->in && run->u.io.size != 1 && run->u.io.size != 2 && run->u.io.size != 4)
			io->in->failed = true;
		break;
	case VMM_EXIT_RDMSR:
	case VMM_EXIT_WRMSR:
		IO(run->u.msr.index), IO(run->u.msr.data), IO_BOOL(run->u.msr.fault);
		break;
	case VMM_EXIT_RDPMC:
		IO(run->u.pmc.index), IO(run->u.pmc.data), IO_BOOL(run->u.pmc.fault);
		break;
	default:
		if (io->in)
			io->in->failed = true;
	}
}

static bool load_exit(struct vpmu_blob_reader *r, struct vmm_run *run)
{
	*run = (struct vmm_run){0};
	return blob_load(r, TAG_EXIT, 1, exit_io, run);
}

/* ---- all of it ---- */

int snap_save_vcpu(struct vcpu *v, struct vpmu_blob *b, char *err, size_t errlen)
{
	int ret;

	vpmu_blob_u32(b, v->id);
	vpmu_blob_u8(b, (uint8_t)v->state);
	vpmu_blob_u32(b, v->status);
	if (v->state != VCPU_READY)
		return 0;
	ret = save_regs(v, b);
	if (!ret)
		ret = snap_save_engine(get_state, v, b);
	if (ret == -EBUSY)
		return fail(ret, err, errlen,
			    "vCPU %u: engine %s cannot save it inside of a string instruction; try "
			    "again",
			    v->id, v->vm->ops->name);
	if (ret)
		return fail(ret, err, errlen, "vCPU %u: engine %s: %s", v->id, v->vm->ops->name,
			    strerror(-ret));
	blob_save(b, TAG_EXIT, 1, exit_io, &v->run);
	if (!v->vm->devices)
		serial_save(&v->serial, b);
	ret = vpmu_guest_save(v->guest, b);
	if (ret)
		return fail(ret, err, errlen, "vCPU %u: PMU: %s", v->id, strerror(-ret));
	return b->failed ? fail(-ENOMEM, err, errlen, "vCPU %u: out of memory", v->id) : 0;
}

static int load_engine(struct vcpu *v, struct vpmu_blob_reader *r, char *err, size_t errlen)
{
	const struct vmm_engine_ops *ops = v->vm->ops;
	struct vpmu_blob_reader engine;
	struct kvm_sregs sregs;
	struct kvm_regs regs;
	int ret;

	memset(&regs, 0, sizeof(regs));
	if (!blob_load(r, TAG_REGS, 1, regs_io, &regs))
		return vcpu_bad(v, "its registers are damaged", err, errlen);
	if (!load_sregs(r, &sregs))
		return vcpu_bad(v, "its system registers are damaged or out of range", err, errlen);
	if (!vpmu_blob_get_section(r, SNAP_ENGINE, 1, &engine))
		return vcpu_bad(v, "its state of the engine is damaged", err, errlen);
	ret = ops->set_sregs(v->ev, &sregs);
	if (ret)
		return vcpu_bad(v, "no guest can have its system registers", err, errlen);
	ret = ops->set_regs(v->ev, &regs);
	if (ret)
		return vcpu_bad(v, "no guest can have its registers", err, errlen);
	ret = ops->set_state(v->ev, engine.data, engine.len);
	if (ret == -EINVAL)
		return vcpu_bad(v, "no guest can have its state of the engine", err, errlen);
	if (ret == -EOPNOTSUPP)
		return vcpu_bad(
			v,
			"this host's CPU lacks an extension of the guest's CPU (SSE3 to AVX-512)",
			err, errlen);
	return ret ? fail(ret, err, errlen, "vCPU %u: engine %s: %s", v->id, ops->name,
			  strerror(-ret))
		   : 0;
}

/* Check that saving the loaded vCPU gives the bytes of @r: none of them was ignored. Not possible
 * if real time passes in the engine's vCPUs: there each load function checks its part, and the
 * kernel the engine's. */
static int vcpu_check_same(struct vcpu *v, const struct vpmu_blob_reader *r, char *err,
			   size_t errlen)
{
	struct vpmu_blob b = {0};
	int ret = v->vm->ops->can & VMM_CAN_TALLY ? snap_save_vcpu(v, &b, err, errlen) : 0;

	if (!ret && b.len && (b.len != r->len || memcmp(b.data, r->data, b.len)))
		ret = vcpu_bad(v, "no guest can have its registers", err, errlen);
	vpmu_blob_fini(&b);
	return ret;
}

int snap_load_vcpu(struct vcpu *v, struct vpmu_blob_reader *r, char *err, size_t errlen)
{
	uint32_t id = vpmu_blob_get_u32(r);
	unsigned int state = vpmu_blob_get_u8(r);
	uint64_t next;
	char why[200];
	int ret;

	v->status = vpmu_blob_get_u32(r);
	if (r->failed || id != v->id)
		return vcpu_bad(v, "the section is damaged or is that of another vCPU", err,
				errlen);
	if (state != VCPU_READY && state != VCPU_EXITED && state != VCPU_HALTED)
		return vcpu_bad(v, "its state is neither running nor ended", err, errlen);
	v->state = state;
	/* The VM's clock must not wait for it. */
	if (state != VCPU_READY && v->vm->irqchip && v->vm->ops->can & VMM_CAN_WAKE)
		v->vm->ops->retire(v->ev, &next);
	if (state == VCPU_READY) {
		ret = load_engine(v, r, err, errlen);
		if (ret)
			return ret;
		if (!load_exit(r, &v->run))
			return vcpu_bad(v, "its last exit is damaged or out of range", err, errlen);
		if (!v->vm->devices && serial_load(&v->serial, r))
			return vcpu_bad(v, "its serial line is damaged or out of range", err,
					errlen);
		ret = vpmu_guest_load(v->guest, r, why, sizeof(why));
		if (ret)
			return fail(ret, err, errlen, "vCPU %u: %s", v->id, why);
	}
	return vpmu_blob_done(r) ? vcpu_check_same(v, r, err, errlen)
				 : vcpu_bad(v, "there are bytes after its end", err, errlen);
}
