// SPDX-License-Identifier: GPL-2.0-or-later
/* Parses names and command lines of processes; see cmdline.h. It must never read beyond the given
 * length. */
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "vpmud/discover/cmdline.h"
#include "vpmu/util/utf8.h"

/* vCPUs have fewer digits; more would not fit into an int. */
#define INDEX_DIGITS 6

bool cmdline_qemu_comm(const char *comm)
{
	return !strncmp(comm, "qemu-system-", 12) || !strncmp(comm, "qemu-kvm", 8);
}

bool cmdline_qemu_argv0(const char *args, size_t len)
{
	size_t n = strnlen(args, len), at = n;
	const char *base;

	while (at && args[at - 1] != '/')
		at--;
	base = args + at;
	n -= at;
	return (n > 12 && !memcmp(base, "qemu-system-", 12)) ||
	       (n == 8 && !memcmp(base, "qemu-kvm", 8)) || (n == 3 && !memcmp(base, "kvm", 3));
}

void cmdline_name(const char *text, size_t len, char name[DISC_NAME_SIZE])
{
	size_t n = 0;

	for (size_t i = 0; i < len;) {
		size_t step = utf8_shown(text + i, len - i);
		char hex[8];

		if (step && text[i] != '\t') {
			if (n + step >= DISC_NAME_SIZE)
				break;
			memcpy(name + n, text + i, step);
			n += step;
			i += step;
			continue;
		}
		if (n + 4 >= DISC_NAME_SIZE)
			break;
		snprintf(hex, sizeof(hex), "\\x%02x", (unsigned char)text[i]);
		memcpy(name + n, hex, 4);
		n += 4;
		i++;
	}
	name[n] = 0;
}

bool cmdline_uuid(const char *text, size_t len, char uuid[DISC_UUID_SIZE])
{
	uuid[0] = 0;
	if (len != DISC_UUID_SIZE - 1)
		return false;
	for (size_t i = 0; i < len; i++) {
		bool dash = i == 8 || i == 13 || i == 18 || i == 23;

		if (dash ? text[i] != '-' : !isxdigit((unsigned char)text[i]))
			return false;
	}
	for (size_t i = 0; i < len; i++)
		uuid[i] = (char)tolower((unsigned char)text[i]);
	uuid[len] = 0;
	return true;
}

static bool cmdline_is(const char *arg, size_t len, const char *what)
{
	return len == strlen(what) && !memcmp(arg, what, len);
}

/*
 * Copy the value of @key in the option list @list, parsed as by QEMU: key=value pairs separated by
 * commas, a doubled comma is a literal one, a first value without a key belongs to @key, and the
 * last one wins. Writes up to DISC_NAME_SIZE bytes to @to and their number to *@len, -1 if there is
 * none.
 */
static void option(const char *list, size_t left, const char *key, char *to, int *len)
{
	size_t key_len = strlen(key);

	*len = -1;
	for (bool first = true; left; first = false) {
		const char *eq = NULL;
		char item[DISC_NAME_SIZE];
		size_t n = 0, at = 0;

		for (; at < left; at++) {
			if (list[at] == ',') {
				if (at + 1 == left || list[at + 1] != ',')
					break;
				at++;
			}
			if (n < sizeof(item)) {
				if (!eq && list[at] == '=')
					eq = item + n;
				item[n++] = list[at];
			}
		}
		if (first && !eq) {
			memcpy(to, item, n);
			*len = (int)n;
		} else if (eq && (size_t)(eq - item) == key_len && !memcmp(item, key, key_len)) {
			*len = (int)(n - key_len - 1);
			memcpy(to, eq + 1, (size_t)*len);
		}
		if (at < left)
			at++; /* the comma */
		list += at;
		left -= at;
	}
}

void cmdline_qemu(const char *args, size_t len, struct qemu_args *out)
{
	const char *opt = "";
	size_t opt_len = 0;

	*out = (struct qemu_args){0};
	for (size_t at = 0; at < len;) {
		const char *arg = args + at, *next = arg;
		size_t n = strnlen(arg, len - at);
		char value[DISC_NAME_SIZE];
		int value_len;

		at += n + 1;
		if (cmdline_is(opt, opt_len, "name")) {
			option(arg, n, "guest", value, &value_len);
			if (value_len > 0)
				cmdline_name(value, (size_t)value_len, out->name);
			opt_len = 0;
		} else if (cmdline_is(opt, opt_len, "uuid")) {
			cmdline_uuid(arg, n, out->uuid);
			opt_len = 0;
		} else if (cmdline_is(opt, opt_len, "machine") || cmdline_is(opt, opt_len, "M")) {
			option(arg, n, "type", value, &value_len);
			if (value_len >= 0)
				out->no_machine = cmdline_is(value, (size_t)value_len, "none");
			opt_len = 0;
		} else if (cmdline_is(opt, opt_len, "append")) {
			opt_len = 0; /* the guest kernel's command line may contain anything */
		} else if (n > 1 && *next == '-') {
			next += next[1] == '-' ? 2 : 1;
			opt_len = n - (size_t)(next - arg);
			opt = next;
		} else {
			opt_len = 0;
		}
	}
}

/* Parse @comm as @before, a number, @after. */
static int numbered(const char *comm, const char *before, const char *after)
{
	size_t n = strlen(before), digits = 0;

	if (strncmp(comm, before, n))
		return CMDLINE_NO_VCPU;
	while (isdigit((unsigned char)comm[n + digits]))
		digits++;
	if (!digits || digits > INDEX_DIGITS || strcmp(comm + n + digits, after))
		return CMDLINE_NO_VCPU;
	return (int)strtoul(comm + n, NULL, 10);
}

int cmdline_vcpu(const char *comm)
{
	static const struct {
		const char *before, *after;
	} names[] = {
		{"CPU ", "/KVM"},    /* QEMU, vpmu-vmm */
		{"CPU ", "/TCG"},    /* QEMU */
		{"fc_vcpu ", ""},    /* Firecracker */
		{"vcpu", ""},	     /* Cloud Hypervisor */
		{"crosvm_vcpu", ""}, /* crosvm */
		{"kvm-vcpu-", ""},   /* kvmtool */
	};

	if (!strcmp(comm, "ALL CPUs/TCG"))
		return CMDLINE_ALL_VCPUS;
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		int index = numbered(comm, names[i].before, names[i].after);

		if (index >= 0)
			return index;
	}
	return CMDLINE_NO_VCPU;
}
