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
#include "vmm/snapshot/priv.h"
#include "vpmu/guest/save.h"

#define TAG_REGS  0x53474552u /* "REGS" */
#define TAG_SREGS 0x47455253u /* "SREG" */
#define TAG_EXIT  0x54495845u /* "EXIT" */

static int vcpu_bad(const struct vcpu *v, const char *what, char *err, size_t errlen)
{
	return fail(-EINVAL, err, errlen, "vCPU %u: %s", v->id, what);
}

/* Open the next section, which must have tag @tag and version 1. The caller reads all of it. */
static bool open_section(struct vpmu_blob_reader *r, uint32_t tag, struct vpmu_blob_reader *inner)
{
	uint16_t version;

	return vpmu_blob_get_section(r, tag, &version, inner) && version == 1;
}

/* ---- registers ---- */

#define NR_REGS 18

/* In the order of the format. */
static void list_regs(struct kvm_regs *r, __u64 *list[NR_REGS])
{
	__u64 *const all[NR_REGS] = {&r->rax, &r->rbx, &r->rcx, &r->rdx, &r->rsi, &r->rdi,
				     &r->rsp, &r->rbp, &r->r8,	&r->r9,	 &r->r10, &r->r11,
				     &r->r12, &r->r13, &r->r14, &r->r15, &r->rip, &r->rflags};

	memcpy(list, all, sizeof(all));
}

static int save_regs(struct vcpu *v, struct vpmu_blob *b)
{
	size_t section = vpmu_blob_begin(b, TAG_REGS, 1);
	struct kvm_regs regs;
	__u64 *list[NR_REGS];
	int ret = v->vm->ops->get_regs(v->ev, &regs);

	list_regs(&regs, list);
	for (unsigned int i = 0; i < NR_REGS && !ret; i++)
		vpmu_blob_u64(b, *list[i]);
	vpmu_blob_end(b, section);
	return ret;
}

static bool load_regs(struct vpmu_blob_reader *r, struct kvm_regs *regs)
{
	struct vpmu_blob_reader s;
	__u64 *list[NR_REGS];

	if (!open_section(r, TAG_REGS, &s))
		return false;
	memset(regs, 0, sizeof(*regs));
	list_regs(regs, list);
	for (unsigned int i = 0; i < NR_REGS; i++)
		*list[i] = vpmu_blob_get_u64(&s);
	return vpmu_blob_done(&s);
}

static void put_segment(struct vpmu_blob *b, const struct kvm_segment *s)
{
	vpmu_blob_u64(b, s->base);
	vpmu_blob_u32(b, s->limit);
	vpmu_blob_u16(b, s->selector);
	vpmu_blob_u8(b, s->type);
	vpmu_blob_u8(b, s->dpl);
	vpmu_blob_u8(b, s->present);
	vpmu_blob_u8(b, s->db);
	vpmu_blob_u8(b, s->s);
	vpmu_blob_u8(b, s->l);
	vpmu_blob_u8(b, s->g);
	vpmu_blob_u8(b, s->avl);
	vpmu_blob_u8(b, s->unusable);
}

static void get_segment(struct vpmu_blob_reader *r, struct kvm_segment *s)
{
	memset(s, 0, sizeof(*s));
	s->base = vpmu_blob_get_u64(r);
	s->limit = vpmu_blob_get_u32(r);
	s->selector = vpmu_blob_get_u16(r);
	s->type = vpmu_blob_get_u8(r);
	s->dpl = vpmu_blob_get_u8(r);
	s->present = vpmu_blob_get_bool(r);
	s->db = vpmu_blob_get_bool(r);
	s->s = vpmu_blob_get_bool(r);
	s->l = vpmu_blob_get_bool(r);
	s->g = vpmu_blob_get_bool(r);
	s->avl = vpmu_blob_get_bool(r);
	s->unusable = vpmu_blob_get_bool(r);
	if (s->type > 15 || s->dpl > 3)
		r->failed = true;
}

static int save_sregs(struct vcpu *v, struct vpmu_blob *b)
{
	size_t section = vpmu_blob_begin(b, TAG_SREGS, 1);
	struct kvm_sregs s;
	int ret = v->vm->ops->get_sregs(v->ev, &s);

	if (ret)
		return ret;
	put_segment(b, &s.cs);
	put_segment(b, &s.ds);
	put_segment(b, &s.es);
	put_segment(b, &s.fs);
	put_segment(b, &s.gs);
	put_segment(b, &s.ss);
	put_segment(b, &s.tr);
	put_segment(b, &s.ldt);
	vpmu_blob_u64(b, s.gdt.base);
	vpmu_blob_u16(b, s.gdt.limit);
	vpmu_blob_u64(b, s.idt.base);
	vpmu_blob_u16(b, s.idt.limit);
	vpmu_blob_u64(b, s.cr0);
	vpmu_blob_u64(b, s.cr2);
	vpmu_blob_u64(b, s.cr3);
	vpmu_blob_u64(b, s.cr4);
	vpmu_blob_u64(b, s.cr8);
	vpmu_blob_u64(b, s.efer);
	vpmu_blob_u64(b, s.apic_base);
	for (int i = 0; i < 4; i++)
		vpmu_blob_u64(b, s.interrupt_bitmap[i]);
	vpmu_blob_end(b, section);
	return 0;
}

static bool load_sregs(struct vpmu_blob_reader *r, struct kvm_sregs *s)
{
	struct vpmu_blob_reader in;
	unsigned int queued = 0;

	if (!open_section(r, TAG_SREGS, &in))
		return false;
	memset(s, 0, sizeof(*s));
	get_segment(&in, &s->cs);
	get_segment(&in, &s->ds);
	get_segment(&in, &s->es);
	get_segment(&in, &s->fs);
	get_segment(&in, &s->gs);
	get_segment(&in, &s->ss);
	get_segment(&in, &s->tr);
	get_segment(&in, &s->ldt);
	s->gdt.base = vpmu_blob_get_u64(&in);
	s->gdt.limit = vpmu_blob_get_u16(&in);
	s->idt.base = vpmu_blob_get_u64(&in);
	s->idt.limit = vpmu_blob_get_u16(&in);
	s->cr0 = vpmu_blob_get_u64(&in);
	s->cr2 = vpmu_blob_get_u64(&in);
	s->cr3 = vpmu_blob_get_u64(&in);
	s->cr4 = vpmu_blob_get_u64(&in);
	s->cr8 = vpmu_blob_get_u64(&in);
	s->efer = vpmu_blob_get_u64(&in);
	s->apic_base = vpmu_blob_get_u64(&in);
	for (int i = 0; i < 4; i++) {
		s->interrupt_bitmap[i] = vpmu_blob_get_u64(&in);
		queued += (unsigned int)__builtin_popcountll(s->interrupt_bitmap[i]);
	}
	/* One vector can be queued, and vectors below 16 are not interrupts. */
	return vpmu_blob_done(&in) && queued <= 1 && !(s->interrupt_bitmap[0] & 0xffff);
}

/* ---- the engine's ---- */

static int get_state(void *vcpu, void *buf, size_t *bytes)
{
	const struct vcpu *v = vcpu;

	return v->vm->ops->get_state(v->ev, buf, bytes);
}

/* ---- the last exit: run() completes its instruction with the answer in v->run ---- */

static void save_exit(const struct vcpu *v, struct vpmu_blob *b)
{
	size_t section = vpmu_blob_begin(b, TAG_EXIT, 1);
	const struct vmm_run *run = &v->run;

	vpmu_blob_u8(b, (uint8_t)run->exit);
	switch (run->exit) {
	case VMM_EXIT_IO:
		vpmu_blob_u16(b, run->u.io.port);
		vpmu_blob_u8(b, run->u.io.size);
		vpmu_blob_u8(b, run->u.io.in);
		vpmu_blob_u32(b, run->u.io.data);
		break;
	case VMM_EXIT_RDMSR:
	case VMM_EXIT_WRMSR:
		vpmu_blob_u32(b, run->u.msr.index);
		vpmu_blob_u64(b, run->u.msr.data);
		vpmu_blob_u8(b, run->u.msr.fault);
		break;
	case VMM_EXIT_RDPMC:
		vpmu_blob_u32(b, run->u.pmc.index);
		vpmu_blob_u64(b, run->u.pmc.data);
		vpmu_blob_u8(b, run->u.pmc.fault);
		break;
	default:
		break;
	}
	vpmu_blob_end(b, section);
}

static bool load_exit(struct vpmu_blob_reader *r, struct vmm_run *run)
{
	struct vpmu_blob_reader s;
	unsigned int exit;

	if (!open_section(r, TAG_EXIT, &s))
		return false;
	*run = (struct vmm_run){0};
	exit = vpmu_blob_get_u8(&s);
	run->exit = exit;
	switch (exit) {
	case 0: /* it has not run yet */
	case VMM_EXIT_BUDGET:
	case VMM_EXIT_INTR:
	case VMM_EXIT_ALARM:
	case VMM_EXIT_HLT:
		break;
	case VMM_EXIT_IO:
		run->u.io.port = vpmu_blob_get_u16(&s);
		run->u.io.size = vpmu_blob_get_u8(&s);
		run->u.io.in = vpmu_blob_get_bool(&s);
		run->u.io.data = vpmu_blob_get_u32(&s);
		if (run->u.io.size != 1 && run->u.io.size != 2 && run->u.io.size != 4)
			return false;
		break;
	case VMM_EXIT_RDMSR:
	case VMM_EXIT_WRMSR:
		run->u.msr.index = vpmu_blob_get_u32(&s);
		run->u.msr.data = vpmu_blob_get_u64(&s);
		run->u.msr.fault = vpmu_blob_get_bool(&s);
		break;
	case VMM_EXIT_RDPMC:
		run->u.pmc.index = vpmu_blob_get_u32(&s);
		run->u.pmc.data = vpmu_blob_get_u64(&s);
		run->u.pmc.fault = vpmu_blob_get_bool(&s);
		break;
	default:
		return false;
	}
	return vpmu_blob_done(&s);
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
		ret = save_sregs(v, b);
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
	save_exit(v, b);
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

	if (!load_regs(r, &regs))
		return vcpu_bad(v, "its registers are damaged", err, errlen);
	if (!load_sregs(r, &sregs))
		return vcpu_bad(v, "its system registers are damaged or out of range", err, errlen);
	if (!open_section(r, SNAP_ENGINE, &engine))
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
		if (!v->vm->devices && !serial_load(&v->serial, r))
			return vcpu_bad(v, "its serial line is damaged or out of range", err,
					errlen);
		ret = vpmu_guest_load(v->guest, r, why, sizeof(why));
		if (ret)
			return fail(ret, err, errlen, "vCPU %u: %s", v->id, why);
	}
	return vpmu_blob_done(r) ? vcpu_check_same(v, r, err, errlen)
				 : vcpu_bad(v, "there are bytes after its end", err, errlen);
}
