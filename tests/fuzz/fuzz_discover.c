// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Hostile command lines, names of threads, stat files and domain XML: the first byte chooses.
 * What comes out may be shown, fits, and a tenant is a path.
 */
#include "tests/fuzz/fuzz.h"
#include "vpmud/discover/cmdline.h"
#include "vpmud/discover/domxml.h"
#include "vpmud/discover/procfile.h"
#include "vpmu/util/utf8.h"

static void check_uuid(const char *uuid)
{
	char again[DISC_UUID_SIZE];

	fuzz_require(!*uuid || (cmdline_uuid(uuid, strlen(uuid), again) && !strcmp(uuid, again)));
}

static void check_name(const char *name)
{
	fuzz_require(strlen(name) < DISC_NAME_SIZE && utf8_text(name) && !strchr(name, '\t'));
}

static void command_line(const char *text, size_t len)
{
	struct qemu_args a;

	cmdline_qemu_argv0(text, len);
	cmdline_qemu(text, len, &a);
	check_name(a.name);
	check_uuid(a.uuid);
}

static void xml(const char *text, size_t len)
{
	struct domxml x;
	char err[256];
	int ret = domxml_parse(text, len, &x, err, sizeof(err));

	fuzz_clean_line(err, false);
	if (ret) {
		fuzz_require(*err);
		return;
	}
	check_name(x.name);
	fuzz_require(x.name[0] && x.uuid[0]);
	check_uuid(x.uuid);
	check_name(x.tenant);
	fuzz_require(!x.tenant[0] || x.tenant[0] == '/');
	fuzz_require(!x.tenant[0] || !*err);
}

/* The part of a domain that its owner can write. */
static void metadata(const char *text, size_t len)
{
	static const char before[] = "<domain xmlns:vpmu='urn:vpmu:1' xmlns:nova='" DOMXML_NOVA
				     "1.1'><name>a</name><uuid>00112233-4455-6677-8899-"
				     "aabbccddeeff</uuid><metadata>";
	static const char after[] = "</metadata></domain>";
	char *all = malloc(sizeof(before) + len + sizeof(after));

	if (!all)
		return;
	memcpy(all, before, sizeof(before) - 1);
	memcpy(all + sizeof(before) - 1, text, len);
	memcpy(all + sizeof(before) - 1 + len, after, sizeof(after) - 1);
	xml(all, sizeof(before) - 1 + len + sizeof(after) - 1);
	free(all);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct proc_stat st;
	char *text;

	if (!size)
		return 0;
	/* Without a NUL behind it where the reader has the length. */
	text = malloc(size);
	if (!text)
		return 0;
	memcpy(text, data + 1, size - 1);
	text[size - 1] = 0;
	switch (data[0] % 4) {
	case 0: {
		char *bare = malloc(size - 1 ? size - 1 : 1);

		if (bare) {
			memcpy(bare, data + 1, size - 1);
			command_line(bare, size - 1);
		}
		free(bare);
		break;
	}
	case 1:
		xml(text, size - 1);
		break;
	case 2:
		metadata(text, size - 1);
		break;
	default:
		if (!procfile_parse_stat(text, &st))
			fuzz_require(strlen(st.comm) < sizeof(st.comm));
		fuzz_require(cmdline_vcpu(text) >= CMDLINE_ALL_VCPUS);
		fuzz_require(procfile_number(text) >= -1);
		break;
	}
	free(text);
	return 0;
}
