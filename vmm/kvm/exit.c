// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Translates KVM's exits to those of vmm/engine/engine.h, and the caller's answers back. An exit
 * that cannot be handled becomes one line with RIP and the reason.
 */
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "vmm/kvm/kvm_priv.h"

static bool exit_fail(struct vmm_engine_vcpu *v, struct vmm_run *run, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));

static bool exit_fail(struct vmm_engine_vcpu *v, struct vmm_run *run, const char *fmt, ...)
{
	struct kvm_regs regs = {0};
	char what[160];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(what, sizeof(what), fmt, ap);
	va_end(ap);
	kvm_ioctl(v->fd, KVM_GET_REGS, &regs);
	run->exit = VMM_EXIT_ERROR;
	run->u.error.rip = regs.rip;
	snprintf(run->u.error.msg, sizeof(run->u.error.msg), "RIP 0x%" PRIx64 ": %s",
		 (uint64_t)regs.rip, what);
	return true;
}

static const char *internal_error_name(uint32_t suberror)
{
	switch (suberror) {
	case KVM_INTERNAL_ERROR_EMULATION:
		return "it cannot emulate an instruction";
	case KVM_INTERNAL_ERROR_SIMUL_EX:
		return "an exception while it delivered another event";
	case KVM_INTERNAL_ERROR_DELIVERY_EV:
		return "an exit while it delivered an event";
	case KVM_INTERNAL_ERROR_UNEXPECTED_EXIT_REASON:
		return "the CPU gave an unknown exit reason";
	default:
		return "no further reason";
	}
}

/* The bytes KVM could not emulate, " (0f 0b ...)", if it reports them (api.rst,
 * KVM_INTERNAL_ERROR_EMULATION_FLAG_INSTRUCTION_BYTES). */
static void failed_bytes(const struct kvm_run *kr, char *buf, size_t len)
{
	unsigned int i, n = kr->emulation_failure.insn_size;
	size_t used = 0;

	buf[0] = '\0';
	if (kr->internal.suberror != KVM_INTERNAL_ERROR_EMULATION ||
	    kr->emulation_failure.ndata < 1 ||
	    !(kr->emulation_failure.flags & KVM_INTERNAL_ERROR_EMULATION_FLAG_INSTRUCTION_BYTES))
		return;
	if (n > sizeof(kr->emulation_failure.insn_bytes))
		n = sizeof(kr->emulation_failure.insn_bytes);
	for (i = 0; i < n && used + 5 < len; i++)
		used += (size_t)snprintf(buf + used, len - used, "%s%02x", i ? " " : " (",
					 kr->emulation_failure.insn_bytes[i]);
	if (i)
		snprintf(buf + used, len - used, ")");
}

static uint8_t *io_element(struct vmm_engine_vcpu *v)
{
	const struct kvm_run *kr = v->kr;

	return (uint8_t *)v->kr + kr->io.data_offset + (size_t)v->io_done * kr->io.size;
}

void kvm_exit_next_io(struct vmm_engine_vcpu *v, struct vmm_run *run)
{
	const struct kvm_run *kr = v->kr;

	run->exit = VMM_EXIT_IO;
	run->u.io.port = kr->io.port;
	run->u.io.size = kr->io.size;
	run->u.io.in = kr->io.direction == KVM_EXIT_IO_IN;
	run->u.io.data = 0;
	if (!run->u.io.in)
		memcpy(&run->u.io.data, io_element(v), kr->io.size);
	v->pending = KVM_PENDING_IO;
}

void kvm_exit_complete(struct vmm_engine_vcpu *v, const struct vmm_run *run)
{
	struct kvm_run *kr = v->kr;

	switch (v->pending) {
	case KVM_PENDING_IO:
		if (kr->io.direction == KVM_EXIT_IO_IN)
			memcpy(io_element(v), &run->u.io.data, kr->io.size);
		v->pending = ++v->io_done < kr->io.count ? KVM_PENDING_IO_NEXT : KVM_PENDING_NONE;
		return;
	case KVM_PENDING_RDMSR:
		kr->msr.data = run->u.msr.data;
		kr->msr.error = run->u.msr.fault;
		break;
	case KVM_PENDING_WRMSR:
		kr->msr.error = run->u.msr.fault;
		if (!run->u.msr.fault)
			kvm_port_wrote(&v->port, kr->msr.index);
		break;
	case KVM_PENDING_RDPMC:
		kvm_port_rdpmc_complete(&v->port, run->u.pmc.fault ? 0 : run->u.pmc.data);
		break;
	case KVM_PENDING_IO_NEXT:
	case KVM_PENDING_NONE:
		return;
	}
	v->pending = KVM_PENDING_NONE;
}

static bool translate_msr(struct vmm_engine_vcpu *v, struct vmm_run *run)
{
	const struct kvm_run *kr = v->kr;
	bool write = kr->exit_reason == KVM_EXIT_X86_WRMSR;

	run->exit = write ? VMM_EXIT_WRMSR : VMM_EXIT_RDMSR;
	run->u.msr.index = kr->msr.index;
	run->u.msr.data = write ? kr->msr.data : 0;
	run->u.msr.fault = false;
	v->pending = write ? KVM_PENDING_WRMSR : KVM_PENDING_RDMSR;
	return true;
}

/* From 3 to 4 GiB a PC has device addresses (vmm/vm/ram.h). KVM handles those of its devices. Loads
 * from the others return ones, and stores are lost. Linux 7 reads a register of AMD's chipsets
 * there. */
static bool nothing_answers(struct vmm_engine_vcpu *v)
{
	struct kvm_run *kr = v->kr;

	if (!v->vm->irqchip || kr->mmio.phys_addr < 3ULL << 30 || kr->mmio.phys_addr >> 32)
		return false;
	if (!kr->mmio.is_write)
		memset(kr->mmio.data, 0xff, sizeof(kr->mmio.data));
	return true;
}

bool kvm_exit_translate(struct vmm_engine_vcpu *v, struct vmm_run *run)
{
	const struct kvm_run *kr = v->kr;
	char bytes[64];

	switch (kr->exit_reason) {
	case KVM_EXIT_IO:
		v->io_done = 0;
		if (atomic_load_explicit(&v->vm->port.nr_sites, memory_order_relaxed) &&
		    kvm_port_is_rdpmc(&v->port, &run->u.pmc.index)) {
			run->exit = VMM_EXIT_RDPMC;
			v->pending = KVM_PENDING_RDPMC;
		} else {
			kvm_exit_next_io(v, run);
		}
		return true;
	case KVM_EXIT_X86_RDMSR:
	case KVM_EXIT_X86_WRMSR:
		return translate_msr(v, run);
	case KVM_EXIT_IRQ_WINDOW_OPEN:
		return false;
	case KVM_EXIT_HLT:
		run->exit = VMM_EXIT_HLT;
		return true;
	case KVM_EXIT_SHUTDOWN:
		run->exit = VMM_EXIT_SHUTDOWN;
		return true;
	case KVM_EXIT_MMIO:
		if (nothing_answers(v))
			return false;
		return exit_fail(v, run,
				 "%u-byte %s guest-physical 0x%llx, where there is no memory",
				 kr->mmio.len, kr->mmio.is_write ? "write to" : "read of",
				 (unsigned long long)kr->mmio.phys_addr);
	case KVM_EXIT_INTERNAL_ERROR:
		failed_bytes(kr, bytes, sizeof(bytes));
		return exit_fail(v, run, "KVM internal error %u: %s%s", kr->internal.suberror,
				 internal_error_name(kr->internal.suberror), bytes);
	case KVM_EXIT_FAIL_ENTRY:
		return exit_fail(v, run, "the CPU refused to enter the guest, reason 0x%llx",
				 (unsigned long long)kr->fail_entry.hardware_entry_failure_reason);
	case KVM_EXIT_EXCEPTION:
		return exit_fail(v, run, "exception %u left to user space", kr->ex.exception);
	default:
		return exit_fail(v, run, "KVM exit reason %u, which nothing asked for",
				 kr->exit_reason);
	}
}
