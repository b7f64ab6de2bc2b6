// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * A hostile server of vpmu-vmm beside vpmud: whatever it answers, vpmud's tree has only names that
 * nodes may have, its counts never go back, and its answers are whole. The input is either answers,
 * one a line, with "@" for the number that is expected, or numbers that make answers of the right
 * form with wrong contents.
 */
#include <errno.h>
#include <jansson.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "service/json_memory.h"
#include "service/server.h"
#include "vpmud/peers.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define ROUNDS 12

static const uint8_t *in;
static size_t left;
static sd_event *ev;
static struct tenants *ts;
static struct peers *peers;
static struct server *srv;
static int listener = -1, conn = -1;
static char sock[96];

static void require(bool ok)
{
	if (!ok)
		abort();
}

static unsigned int byte(void)
{
	if (!left)
		return 0;
	left--;
	return *in++;
}

static void turn(void)
{
	for (int i = 0; i < 50 && sd_event_run(ev, 0) > 0; i++)
		;
}

/* ---- answers -------------------------------------------------------------------------------- */

static const char *pick(const char *const *from, size_t n)
{
	return from[byte() % n];
}

static const char *name(void)
{
	static const char *const all[] = {"a", "b", "c", "a b", "", "..", "vm@1", "\xc3\xa9"};

	return pick(all, 8);
}

static const char *path(void)
{
	static const char *const all[] = {"/host",   "/acme", "/acme/web", "/",
					  "/host/x", "x",     "/a/..",	   "/globex"};

	return pick(all, 8);
}

static const char *backend(void)
{
	static const char *const all[] = {"emulator", "emulator", "emulator", "emulator",
					  "kvm",      "kernel",	  "",	      "x"};

	return pick(all, 8);
}

/* Mostly growing. */
static json_t *count(void)
{
	static uint64_t last;
	unsigned int b = byte();

	if (b == 255)
		return json_string("-1");
	if (b == 254)
		return json_integer(7);
	if (b == 253)
		return json_string("18446744073709551615");
	last += b;
	return json_sprintf("%llu", (unsigned long long)(b == 252 ? last / 2 : last));
}

static json_t *value(void)
{
	static const char *const qualities[] = {"", "modelled", "partial", "tsc partial", "good"};
	json_t *n = count();
	json_t *v = json_pack("{s:O, s:O, s:o, s:s, s:b}", "count", n, "enabled-ns", n,
			      "running-ns", byte() < 200 ? json_incref(n) : count(), "quality",
			      byte() < 200 ? "" : pick(qualities, 5), "supported", byte() < 200);

	json_decref(n);
	return v;
}

static json_t *list(void)
{
	json_t *nodes = json_array();

	for (unsigned int i = byte() % 6; i; i--)
		json_array_append_new(
			nodes, json_pack("{s:s, s:s, s:s*, s:s, s:i, s:s}", "kind",
					 byte() < 230 ? "vm" : "tenant", "path", path(), "vm",
					 name(), "backend", backend(), "vcpus",
					 byte() < 250 ? (int)(byte() % 5) : 1 << (byte() % 31),
					 "state", name()));
	return json_pack("{s:o}", "nodes", nodes);
}

static json_t *rows(const json_t *req)
{
	static const char *const kinds[] = {"root", "host", "tenant", "vm", "vcpu", "x"};
	json_t *all = json_array();

	for (unsigned int i = byte() % 8; i; i--) {
		json_t *values = json_array();

		for (unsigned int e = byte() < 240 ? 2 : byte() % 4; e; e--)
			json_array_append_new(values, value());
		json_array_append_new(all,
				      json_pack("{s:i, s:s, s:s, s:s, s:s, s:i, s:b, s:o}", "row",
						(int)(byte() % 16), "backend", backend(), "kind",
						pick(kinds, 6), "path", path(), "vm", name(),
						"vcpu", (int)(byte() % 6) - 1, "gone", byte() > 220,
						"values", values));
	}
	return json_pack("{s:o, s:O?}", "rows", all, "session", json_object_get(req, "session"));
}

static char *made(const json_t *req, const char *cmd)
{
	static unsigned int sessions;
	json_t *resp;
	char *text;

	if (!strcmp(cmd, "list"))
		resp = list();
	else if (!strcmp(cmd, "attach"))
		resp = json_pack("{s:o}", "session", json_sprintf("@%u", ++sessions % 7));
	else if (!strcmp(cmd, "read") || !strcmp(cmd, "detach"))
		resp = rows(req);
	else
		resp = json_object();
	if (!resp) /* it is no UTF-8 */
		resp = json_object();
	json_object_set_new(resp, "ok", json_boolean(byte() < 245));
	json_object_set(resp, "id", json_object_get(req, "id"));
	if (byte() == 255)
		json_object_set_new(resp, "id",
				    byte() & 1 ? json_string("end") : json_integer(byte()));
	text = json_dumps(resp, JSON_COMPACT);
	json_decref(resp);
	return text;
}

/* The next line of the input. */
static char *given(const json_t *req)
{
	long long id = json_integer_value(json_object_get(req, "id"));
	const uint8_t *nl = left ? memchr(in, '\n', left) : NULL;
	size_t len = nl ? (size_t)(nl - in) : left, n = 0;
	char *text = malloc(len * 20 + 1);

	for (size_t i = 0; text && i < len; i++) {
		if (in[i] == '@')
			n += (size_t)sprintf(text + n, "%lld", id);
		else
			text[n++] = (char)in[i];
	}
	if (text)
		text[n] = '\0';
	in += len + (nl != NULL);
	left -= len + (nl != NULL);
	return text;
}

static char *hello(const json_t *req)
{
	json_t *resp = json_pack("{s:b, s:O, s:s, s:i}", "ok", 1, "id", json_object_get(req, "id"),
				 "server", "vpmu-vmm", "protocol", SERVER_PROTOCOL);
	char *text = json_dumps(resp, JSON_COMPACT);

	json_decref(resp);
	return text;
}

static void answer(const char *line, size_t len, bool raw)
{
	json_t *req = json_loadb(line, len, 0, NULL);
	const char *cmd = json_string_value(json_object_get(req, "cmd"));
	char *text;

	require(cmd && json_is_integer(json_object_get(req, "id")));
	if (!strcmp(cmd, "hello"))
		text = hello(req);
	else
		text = raw && byte() < 200 ? given(req) : made(req, cmd);
	json_decref(req);
	if (!text)
		return;
	if (send(conn, text, strlen(text), MSG_NOSIGNAL | MSG_DONTWAIT) > 0)
		send(conn, "\n", 1, MSG_NOSIGNAL | MSG_DONTWAIT);
	free(text);
}

/* Answer what was asked. */
static void serve(bool raw)
{
	static char buf[1 << 17];
	int fd = accept4(listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
	ssize_t n;

	if (fd >= 0) {
		if (conn >= 0)
			close(conn);
		conn = fd;
	}
	n = conn >= 0 ? recv(conn, buf, sizeof(buf), 0) : 0;
	for (char *line = buf, *nl; n > 0 && (nl = memchr(line, '\n', (size_t)(buf + n - line)));
	     line = nl + 1)
		answer(line, (size_t)(nl - line), raw);
}

/* ---- what must hold ------------------------------------------------------------------------- */

static json_t *ask(const char *line)
{
	char *text = server_dispatch(srv, line, strlen(line));
	json_t *obj;

	require(text);
	obj = json_loads(text, JSON_REJECT_DUPLICATES, NULL);
	require(obj && json_is_boolean(json_object_get(obj, "ok")));
	free(text);
	return obj;
}

static void look_at_nodes(void)
{
	json_t *obj = ask("{\"cmd\":\"list\"}"), *n;
	size_t i;

	json_array_foreach (json_object_get(obj, "nodes"), i, n) {
		const char *kind = json_string_value(json_object_get(n, "kind"));
		const char *at = json_string_value(json_object_get(n, "path"));

		if (!strcmp(kind, "vm")) {
			const char *vm = json_string_value(json_object_get(n, "vm"));

			require(tenant_vm_name_ok(vm, NULL, 0));
			require(!strcmp(json_string_value(json_object_get(n, "backend")),
					"emulator"));
			require(!strcmp(at, "/host") || tenant_path_ok(at, NULL, 0));
		} else if (!strcmp(kind, "tenant")) {
			require(tenant_path_ok(at, NULL, 0));
		}
	}
	json_decref(obj);
}

#define SEEN 256
static struct {
	uint64_t count;
	bool there;
} seen[SEEN];

static void look_at_counts(const char *line)
{
	json_t *obj = ask(line), *row;
	size_t i;

	json_array_foreach (json_object_get(obj, "rows"), i, row) {
		json_int_t id = json_integer_value(json_object_get(row, "row"));
		const char *text = json_string_value(json_object_get(
			json_array_get(json_object_get(row, "values"), 0), "count"));
		uint64_t n = strtoull(text, NULL, 10);

		if (json_object_get(row, "error")) {
			require(!n);
			continue;
		}
		/* A sum of counts up to 2^64 - 1 may wrap. */
		if (id >= SEEN || n > UINT64_MAX / 4)
			continue;
		require(!seen[id].there || n >= seen[id].count || seen[id].count > UINT64_MAX / 8);
		seen[id].there = true;
		seen[id].count = n;
	}
	json_decref(obj);
}

static void begin(void)
{
	const struct peers_opts o = {.places = sock, .uid = geteuid()};
	const struct server_opts so = {.name = "vpmud", .raw_space = VPMU_SPACE_INTEL};
	struct sockaddr_un addr = {.sun_family = AF_UNIX};
	char err[200];

	json_memory_init();
	memset(seen, 0, sizeof(seen));
	snprintf(sock, sizeof(sock), "/tmp/fuzz-peers-%d.sock", getpid());
	unlink(sock);
	strcpy(addr.sun_path, sock);
	listener = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	require(listener >= 0 && !bind(listener, (struct sockaddr *)&addr, sizeof(addr)) &&
		!listen(listener, 4));
	require(sd_event_new(&ev) >= 0 && !tenants_create(NULL, &ts, err, sizeof(err)));
	require(!server_create(ts, NULL, &so, &srv, err, sizeof(err)));
	require(peers_create(ev, ts, &o, &peers) >= 0);
}

static void end(void)
{
	server_destroy(srv);
	peers_stop(peers);
	tenants_destroy(ts);
	peers_destroy(peers);
	sd_event_unref(ev);
	close(listener);
	if (conn >= 0)
		close(conn);
	conn = -1;
	unlink(sock);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	bool raw;

	in = data;
	left = size;
	raw = byte() & 1;
	begin();
	json_decref(
		ask("{\"cmd\":\"attach\",\"events\":\"instructions,cycles\",\"scope\":\"tenant\","
		    "\"name\":\"t\",\"keep\":true}"));
	json_decref(ask("{\"cmd\":\"attach\",\"events\":\"instructions,cycles\",\"scope\":\"vcpu\","
			"\"name\":\"v\",\"keep\":true}"));
	for (int i = 0; i < ROUNDS && left; i++) {
		peers_look(peers);
		turn();
		serve(raw);
		turn();
		look_at_nodes();
		look_at_counts("{\"cmd\":\"read\",\"session\":\"t\"}");
		json_decref(ask("{\"cmd\":\"read\",\"session\":\"v\"}"));
		if (byte() == 7)
			json_decref(
				ask("{\"cmd\":\"attach\",\"events\":\"loads\",\"scope\":\"vm\"}"));
	}
	end();
	return 0;
}
