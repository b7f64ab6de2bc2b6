// SPDX-License-Identifier: GPL-2.0-or-later
/* libFuzzer: event lists as a client of the control socket may send them. What parses must come
 * back whole from its name; any other has one clean line of error. */
#include "tests/fuzz/fuzz.h"
#include "vpmu/event/event.h"

#define MAX_EVENTS 8

static void check_parsed(vpmu_key_t key, const char *given, enum vpmu_space raw_space)
{
	char name[VPMU_EVENT_NAME_MAX];
	vpmu_key_t again;

	if (!vpmu_key_valid(key))
		abort();
	vpmu_event_name(key, name);
	if (vpmu_event_parse(name, VPMU_SPACE_AMD, &again, NULL, 0) || again != key)
		abort();
	if (vpmu_event_parse(given, raw_space, &again, NULL, 0) || again != key)
		abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	vpmu_key_t keys[MAX_EVENTS];
	char *names[MAX_EVENTS] = {NULL};
	char err[160] = "";
	enum vpmu_space raw_space;
	size_t n, i;
	char *list;

	if (!size)
		return 0;
	raw_space = data[0] & 1	     ? VPMU_SPACE_INTEL
		    : data[0] & 0x10 ? VPMU_SPACE_ARM
				     : VPMU_SPACE_AMD;
	n = data[0] >> 1 & 7;
	list = strndup((const char *)data + 1, size - 1);
	if (!list)
		return 0;

	if (!vpmu_event_parse_list(list, raw_space, keys, names, &n, err, sizeof(err))) {
		for (i = 0; i < n; i++) {
			check_parsed(keys[i], names[i], raw_space);
			free(names[i]);
		}
	} else {
		if (n || !err[0])
			abort();
		fuzz_clean_line(err, true);
		for (i = 0; i < MAX_EVENTS; i++) {
			if (names[i])
				abort();
		}
	}
	free(list);
	return 0;
}
