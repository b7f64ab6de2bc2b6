// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Hostile ini files and --vm options: the first byte chooses. Either is refused with one
 * printable line, or what came of it keeps to the limits that config.h promises.
 */
#include "tests/fuzz/fuzz.h"
#include "vmm/config/config.h"
#include "vmm/engine/ram.h"

/* A valid configuration can be built, and has the given values. */
static void check_policy(const struct vm_config *vm)
{
	const struct vpmu_policy *policy;
	struct vpmu_policy *mem;
	char err[512] = "";

	fuzz_require(!vm->allow || !vm->deny);
	fuzz_require(!vm_config_policy(vm, &policy, &mem, err, sizeof(err)));
	fuzz_require(!policy == (vm->policy == VPMU_POLICY_FULL && !vm->allow && !vm->deny));
	fuzz_require(!mem == (!vm->allow && !vm->deny) && (!mem || mem == policy));
	fuzz_require(!policy || policy->tier == vm->policy);
	fuzz_require(!mem || (mem->nr_events <= VPMU_POLICY_EVENTS_MAX &&
			      mem->action == (vm->allow ? VPMU_POLICY_ALLOW : VPMU_POLICY_DENY)));
	free(mem);
}

static void check_limits(const struct config *c)
{
	const struct host_config *h = &c->host;

	fuzz_require(h->pcpus >= 1 && h->pcpus <= RUNNER_PCPUS_MAX);
	fuzz_require(h->gp <= 16 && h->fixed <= 3 && h->gp + h->fixed >= 1);
	fuzz_require(h->width >= 40 && h->width <= 63);
	fuzz_require(h->slice_insns >= 1 && h->slice_insns <= RUNNER_SLICE_MAX);
	fuzz_require(h->lbr <= HOST_LBR_CALL_STACK);
	fuzz_require(h->migrate_every >= 1 && h->tick_us >= 1 && h->tick_us <= 1000000);
	for (size_t i = 0; i < c->nr_vms; i++) {
		const struct vm_config *vm = &c->vms[i];

		fuzz_require(vm_name_ok(vm->name) && vm->args);
		fuzz_require(!vm->image != !vm->kernel && *(vm->image ? vm->image : vm->kernel));
		fuzz_require(vm->kernel || (!vm->initrd && !vm->cmdline));
		fuzz_require(vm->vcpus >= 1 && vm->vcpus <= VM_VCPUS_MAX);
		fuzz_require(vm->memory_bytes >= VMM_RAM_MIN && vm->memory_bytes <= VMM_RAM_MAX &&
			     vm->memory_bytes % VMM_RAM_ALIGN == 0);
		fuzz_require(vm->pmu.gp <= VPMU_GUEST_MAX_GP &&
			     vm->pmu.fixed <= VPMU_GUEST_MAX_FIXED);
		fuzz_require(vm->pmu.no_lbr == (vm->lbr == VM_LBR_OFF));
		check_policy(vm);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct config c;
	char err[512] = "";
	char *text;
	int ret;

	if (!size)
		return 0;
	text = malloc(size);
	if (!text)
		return 0;
	memcpy(text, data + 1, size - 1);
	text[size - 1] = 0;
	config_init(&c);
	if (data[0] & 1)
		ret = config_vm_option(&c, text, err, sizeof(err));
	else
		ret = config_text(&c, "fuzz.ini", text, size - 1, err, sizeof(err));
	if (!ret)
		ret = config_check(&c, err, sizeof(err));
	if (!ret)
		check_limits(&c);
	fuzz_require(!ret == !*err);
	fuzz_clean_line(err, false);
	config_fini(&c);
	free(text);
	return 0;
}
