// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The configuration of one VM: its defaults, the checks that concern more than one key, and its
 * policy. Checks of single values are in config.c.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "vpmu/util/fail.h"
#include "vmm/config/config.h"
#include "vmm/config/keys.h"
#include "vmm/engine/platform.h"

int vm_config_init(struct vm_config *vm, const char *where)
{
	*vm = (struct vm_config){
		.vcpus = 1,
		.max_events = VM_MAX_EVENTS,
		.weight = VM_WEIGHT_DEFAULT,
		.memory_bytes = 16u << 20,
		.pmu.model = VPMU_GUEST_INTEL_V5,
		.args = strdup(""),
		.where = strdup(where),
	};
	if (vm->args && vm->where)
		return 0;
	vm_config_fini(vm);
	return -ENOMEM;
}

void vm_config_fini(struct vm_config *vm)
{
	free(vm->image);
	free(vm->args);
	free(vm->kernel);
	free(vm->initrd);
	free(vm->cmdline);
	free(vm->allow);
	free(vm->deny);
	free(vm->console_file);
	free(vm->where);
	*vm = (struct vm_config){0};
}

int vm_config_set(struct vm_config *vm, const char *key, const char *value, char *err,
		  size_t errlen)
{
	struct config_at at = {vm->where, "vm", err, errlen};

	return config_set_vm(vm, &at, key, value);
}

/* ---- the policy ---- */

static bool vm_is_intel(enum vpmu_guest_model model)
{
	return model == VPMU_GUEST_INTEL_V2 || model == VPMU_GUEST_INTEL_V3 ||
	       model == VPMU_GUEST_INTEL_V4 || model == VPMU_GUEST_INTEL_V5;
}

int vm_config_policy(const struct vm_config *vm, const struct vpmu_policy **out,
		     struct vpmu_policy **mem, char *err, size_t errlen)
{
	static const struct vpmu_policy tiers[] = {
		[VPMU_POLICY_STANDARD] = {.tier = VPMU_POLICY_STANDARD},
		[VPMU_POLICY_ARCHITECTURAL] = {.tier = VPMU_POLICY_ARCHITECTURAL},
		[VPMU_POLICY_OFF] = {.tier = VPMU_POLICY_OFF},
	};
	const char *list = vm->allow ? vm->allow : vm->deny;
	struct vpmu_policy *p;
	char why[200] = "";

	*mem = NULL;
	*out = vm->policy == VPMU_POLICY_FULL ? NULL : &tiers[vm->policy];
	if (!list)
		return 0;
	p = calloc(1, sizeof(*p));
	if (!p)
		return fail(-ENOMEM, err, errlen, "%s: out of memory", vm->where);
	p->tier = vm->policy;
	p->action = vm->allow ? VPMU_POLICY_ALLOW : VPMU_POLICY_DENY;
	if (vpmu_policy_add(p, vm_is_intel(vm->pmu.model) ? VPMU_SPACE_INTEL : VPMU_SPACE_AMD, list,
			    why, sizeof(why))) {
		free(p);
		return fail(-EINVAL, err, errlen,
			    strstr(why, "expected") ? "%s: vm %s/%s: %s, or EVENT/MASK/MATCH"
						    : "%s: vm %s/%s: %s; expected event names, "
						      "rHEX or EVENT/MASK/MATCH, comma separated",
			    vm->where, vm->name, vm->allow ? "allow" : "deny", why);
	}
	*out = *mem = p;
	return 0;
}

/* ---- checks of several keys ---- */

#define LEAVE_OUT "no value (leave this key out)"

static int bad_vm(const struct vm_config *vm, const char *key, const char *accepted, char *err,
		  size_t errlen)
{
	return fail(-EINVAL, err, errlen, "%s: vm %s/%s: invalid with pmu = %s; expected %s",
		    vm->where, vm->name, key, vpmu_guest_model_name(vm->pmu.model), accepted);
}

static int check_counters(const struct vm_config *vm, char *err, size_t errlen)
{
	const struct vpmu_guest_cfg *pmu = &vm->pmu;

	switch (pmu->model) {
	case VPMU_GUEST_NONE:
		if (pmu->gp)
			return bad_vm(vm, "gp", LEAVE_OUT, err, errlen);
		break;
	case VPMU_GUEST_INTEL_V2:
	case VPMU_GUEST_INTEL_V3:
	case VPMU_GUEST_INTEL_V4:
	case VPMU_GUEST_INTEL_V5:
		if (pmu->gp == 1 || pmu->gp > 8)
			return bad_vm(vm, "gp",
				      "2 to 8 (guests such as Linux take a PMU with one "
				      "general counter for none)",
				      err, errlen);
		return 0;
	case VPMU_GUEST_AMD_K7:
		if (pmu->gp && pmu->gp != 4)
			return bad_vm(vm, "gp", "4", err, errlen);
		break;
	case VPMU_GUEST_AMD_CORE:
		if (pmu->gp && pmu->gp != 6)
			return bad_vm(vm, "gp", "6", err, errlen);
		break;
	case VPMU_GUEST_AMD_V2:
	case VPMU_GUEST_MODELS:
		if (pmu->gp && (pmu->gp < 4 || pmu->gp > 15))
			return bad_vm(vm, "gp", "4 to 15", err, errlen);
		break;
	}
	return pmu->fixed ? bad_vm(vm, "fixed", LEAVE_OUT, err, errlen) : 0;
}

static int check_policy(const struct vm_config *vm, char *err, size_t errlen)
{
	const char *list = vm->allow ? "allow" : vm->deny ? "deny" : NULL;
	const struct vpmu_policy *policy;
	struct vpmu_policy *mem;
	int ret;

	if (vm->allow && vm->deny)
		return fail(-EINVAL, err, errlen,
			    "%s: vm %s/deny: given with allow; expected only one of them",
			    vm->where, vm->name);
	if (list && vm->pmu.model == VPMU_GUEST_NONE)
		return bad_vm(vm, list, LEAVE_OUT, err, errlen);
	if (list && vm->policy == VPMU_POLICY_OFF)
		return fail(-EINVAL, err, errlen,
			    "%s: vm %s/%s: invalid with policy = off; expected " LEAVE_OUT,
			    vm->where, vm->name, list);
	ret = vm_config_policy(vm, &policy, &mem, err, errlen);
	if (ret)
		return ret;
	free(mem);
	if (vm->lbr != VM_LBR_ON)
		return 0;
	if (vm->pmu.model != VPMU_GUEST_INTEL_V5 && vm->pmu.model != VPMU_GUEST_AMD_V2)
		return bad_vm(vm, "lbr", "off", err, errlen);
	if (vm->policy != VPMU_POLICY_FULL)
		return fail(-EINVAL, err, errlen,
			    "%s: vm %s/lbr: invalid with policy = %s; expected off", vm->where,
			    vm->name, vpmu_policy_tier_name(vm->policy));
	return 0;
}

/* Check the keys of what the VM boots: an image or a kernel. */
static int check_boot(const struct vm_config *vm, char *err, size_t errlen)
{
	static const char *const of_image[] = {"image", "args"};
	static const char *const of_kernel[] = {"initrd", "cmdline", "rdpmc"};

	if (!vm->image && !vm->kernel)
		return fail(-EINVAL, err, errlen,
			    "%s: vm %s/image: not given; expected guest, or the path of an image; "
			    "or give kernel",
			    vm->where, vm->name);
	for (unsigned int i = 0; i < (vm->kernel ? 2 : 3); i++) {
		const char *key = vm->kernel ? of_image[i] : of_kernel[i];

		if (config_vm_given(vm, key))
			return fail(-EINVAL, err, errlen,
				    "%s: vm %s/%s: given %s kernel; expected " LEAVE_OUT, vm->where,
				    vm->name, key, vm->kernel ? "with" : "without");
	}
	if (vm->kernel && vm->vcpus > PLATFORM_VCPUS_MAX)
		return fail(-EINVAL, err, errlen,
			    "%s: vm %s/vcpus: %u given with kernel; expected 1 to %u", vm->where,
			    vm->name, vm->vcpus, PLATFORM_VCPUS_MAX);
	if (config_vm_given(vm, "memory") && config_vm_given(vm, "ram"))
		return fail(-EINVAL, err, errlen,
			    "%s: vm %s/ram: given with memory; expected only one of these aliases",
			    vm->where, vm->name);
	return 0;
}

static int check_svm(const struct vm_config *vm, char *err, size_t errlen)
{
	if (!vm->svm)
		return 0;
	if (vm->pmu.model != VPMU_GUEST_AMD_K7 && vm->pmu.model != VPMU_GUEST_AMD_CORE &&
	    vm->pmu.model != VPMU_GUEST_AMD_V2)
		return bad_vm(vm, "svm", "no (only AMD's models can have it)", err, errlen);
	if (!vm->kernel || vm->engine != VM_ENGINE_EMU)
		return fail(-EINVAL, err, errlen,
			    "%s: vm %s/svm: yes given without %s; expected it with kernel and "
			    "engine = emulator",
			    vm->where, vm->name, vm->kernel ? "engine = emulator" : "kernel");
	return 0;
}

int vm_config_check(const struct vm_config *vm, char *err, size_t errlen)
{
	int ret;

	if (!*vm->name)
		return fail(-EINVAL, err, errlen, "%s: vm/name: not given; expected %s", vm->where,
			    VM_NAME_ACCEPTED);
	ret = check_boot(vm, err, errlen);
	if (!ret)
		ret = check_counters(vm, err, errlen);
	if (!ret)
		ret = check_svm(vm, err, errlen);
	return ret ? ret : check_policy(vm, err, errlen);
}
