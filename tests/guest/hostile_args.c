// SPDX-License-Identifier: GPL-2.0-or-later
/* Arguments of torture, leak and victim; see hostile.h. */
#include "guest-tools/layout.h"
#include "tests/guest/hostile.h"

bool args_torture_parse(const char *s, struct args_torture *a, char *err)
{
	const struct option options[] = {
		{"-j", NULL, option_on, &a->json, 0, 0},
	};

	*a = (struct args_torture){.seed = 1, .ops = 10000};
	return args_options(&s, "torture", OPTIONS(options), err) &&
	       args_number(&s, "SEED", 0, UINT64_MAX, &a->seed, err) &&
	       args_number(&s, "N", 1, ARGS_OPS_MAX, &a->ops, err) && args_end(s, err);
}

static bool args_address_ok(uint64_t va, char *err)
{
	if (va >= UEXEC_MIN && va <= UEXEC_MAX && va % GUEST_PAGE == 0)
		return true;
	text_format(err, ARGS_ERR_MAX,
		    "address 0x%lx is invalid; expected 0x%x to 0x%x in steps of 0x%x", va,
		    UEXEC_MIN, UEXEC_MAX, GUEST_PAGE);
	return false;
}

bool args_leak_parse(const char *s, struct args_leak *a, char *err)
{
	const struct option options[] = {
		{"--spin", "N", option_u64, &a->spin, 1, ARGS_OPS_MAX},
		{"--at", "ADDRESS", option_u64, &a->address, 0, UINT64_MAX},
		{"-j", NULL, option_on, &a->json, 0, 0},
	};

	*a = (struct args_leak){.rounds = 10, .spin = 100000, .address = UEXEC_MIN};
	return args_options(&s, "leak", OPTIONS(options), err) &&
	       args_number(&s, "ROUNDS", 1, ARGS_OPS_MAX, &a->rounds, err) && args_end(s, err) &&
	       args_address_ok(a->address, err);
}

bool args_victim_parse(const char *s, struct args_victim *a, char *err)
{
	*a = (struct args_victim){.address = 0x20000000};
	return args_number(&s, "ADDRESS", 0, UINT64_MAX, &a->address, err) &&
	       args_number(&s, "ROUNDS", 0, ARGS_OPS_MAX, &a->rounds, err) && args_end(s, err) &&
	       args_address_ok(a->address, err);
}
