// SPDX-License-Identifier: GPL-2.0-or-later
/* console-read and console-write (docs/protocol.md), and the console's fields in `list`.
 * machine_vm.user is the console, or NULL (a test without consoles). Control thread; requests are
 * hostile. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "vpmu/util/fail.h"
#include "service/request.h"
#include "vmm/console.h"
#include "vmm/control.h"

#define ANSWER_BYTES	  (32u << 10) /* text of one answer */
#define ANSWER_RAW	  (16u << 10) /* bytes of one answer, two digits each */
#define CONSOLE_WRITE_MAX 1024	      /* bytes of one request */

/* Field "from": a 64-bit number, which is a string of digits. */
static int get_from(const json_t *req, uint64_t *from, char *err, size_t errlen)
{
	const char *text = "0";
	char *end;
	int ret = request_string(req, "from", false, 20, &text, err, errlen);

	if (ret)
		return ret;
	errno = 0;
	*from = strtoull(text, &end, 10);
	if (*text < '0' || *text > '9' || *end || errno)
		return fail(-EINVAL, err, errlen,
			    "from: \"%s\" is invalid; expected \"next\" of the last answer", text);
	return 0;
}

/* The line @text with tabs expanded, since clients do not pass tabs to terminals. NULL: out of
 * memory. */
static json_t *line_string(const char *text, size_t len)
{
	char *out = malloc(8 * len + 1);
	json_t *s;
	size_t n = 0;

	if (!out)
		return NULL;
	for (size_t i = 0; i < len; i++) {
		if (text[i] != '\t') {
			out[n++] = text[i];
			continue;
		}
		do
			out[n++] = ' ';
		while (n % 8);
	}
	s = json_stringn(out, n);
	free(out);
	return s;
}

/* The lines of @text as an array. NULL: out of memory. */
static json_t *line_array(const char *text)
{
	json_t *lines = json_array();

	for (const char *nl; lines && (nl = strchr(text, '\n')); text = nl + 1) {
		if (json_array_append_new(lines, line_string(text, (size_t)(nl - text)))) {
			json_decref(lines);
			lines = NULL;
		}
	}
	return lines;
}

/* Two digits per byte, since a string of JSON is UTF-8. NULL: out of memory. */
static json_t *bytes_string(const uint8_t *bytes, size_t n)
{
	char *out = malloc(2 * n + 1);
	json_t *s;

	if (!out)
		return NULL;
	for (size_t i = 0; i < n; i++)
		sprintf(out + 2 * i, "%02x", bytes[i]);
	s = json_stringn(out, 2 * n);
	free(out);
	return s;
}

/* @raw: the bytes that were sent, instead of lines. */
static int control_console_take(struct console *con, uint64_t from, bool raw,
				const struct machine_vm *vm, json_t *resp, char *err, size_t errlen)
{
	size_t room = raw ? ANSWER_RAW : ANSWER_BYTES;
	char *buf = malloc(room);
	bool over = !vm->vm; /* before reading: the output of an ended VM is complete */
	uint64_t missed = 0;
	long n = !buf  ? -ENOMEM
		 : raw ? console_read_sent(con, &from, &missed, (uint8_t *)buf, room)
		       : console_read(con, &from, &missed, buf, room);
	int ret = n < 0 ? (int)n : 0;

	if (ret == -EINVAL)
		fail(ret, err, errlen, "from: %s; expected \"next\" of the last answer",
		     raw ? "beyond the guest's output" : "not the start of a line");
	else if (ret ||
		 json_object_set_new(resp, raw ? "bytes" : "lines",
				     raw ? bytes_string((uint8_t *)buf, (size_t)n)
					 : line_array(buf)) ||
		 json_object_set_new(resp, "next", json_u64(from)) ||
		 json_object_set_new(resp, "missed", json_u64(missed)) ||
		 json_object_set_new(resp, "input", json_boolean(vm->vm && vm->kernel)) ||
		 json_object_set_new(resp, "end", json_boolean(over && !n)))
		ret = fail(-ENOMEM, err, errlen, "console-read: out of memory");
	free(buf);
	return ret;
}

int control_console_read(void *arg, const json_t *req, json_t *resp, char *err, size_t errlen)
{
	static const char *const fields[] = {"name", "from", "raw", NULL};
	struct control *c = arg;
	struct machine_vm *vm;
	uint64_t from = 0;
	bool raw = false;
	int ret = control_named_vm(c, req, fields, true, &vm, err, errlen);

	if (!ret)
		ret = get_from(req, &from, err, errlen);
	if (!ret)
		ret = request_bool(req, "raw", false, &raw, err, errlen);
	if (ret)
		return ret;
	if (!vm->user)
		return fail(-ENOENT, err, errlen, "vm %s: it has no console", vm->name);
	return control_console_take(vm->user, from, raw && vm->kernel, vm, resp, err, errlen);
}

/* The client keeps the bytes that the guest has no room for, and retries. */
int control_console_write(void *arg, const json_t *req, json_t *resp, char *err, size_t errlen)
{
	static const char *const fields[] = {"name", "text", "keys", NULL};
	struct control *c = arg;
	const char *text = NULL;
	struct machine_vm *vm;
	bool keys = false;
	long n;
	int ret = control_named_vm(c, req, fields, true, &vm, err, errlen);

	if (!ret)
		ret = request_string(req, "text", true, CONSOLE_WRITE_MAX, &text, err, errlen);
	if (!ret)
		ret = request_bool(req, "keys", false, &keys, err, errlen);
	if (ret)
		return ret;
	if (!vm->vm)
		return fail(-ESRCH, err, errlen,
			    "vm %s: it has ended; expected a VM that is running or paused",
			    vm->name);
	n = vm_input(vm->vm, text, strlen(text), !keys);
	if (n == -EOPNOTSUPP)
		return fail(-EOPNOTSUPP, err, errlen,
			    "vm %s: its guest takes no input; expected a VM with a kernel",
			    vm->name);
	if (n < 0 || json_object_set_new(resp, "written", json_u64((uint64_t)n)))
		return fail(-ENOMEM, err, errlen, "console-write: out of memory");
	return 0;
}

void control_console_info(const struct machine_vm *vm, json_t *obj)
{
	struct console_stats s;

	if (!vm->user)
		return;
	console_stats(vm->user, &s);
	if (!s.dropped)
		return;
	json_object_set_new(obj, "console-lines", json_u64(s.lines));
	json_object_set_new(obj, "console-dropped", json_u64(s.dropped));
}
