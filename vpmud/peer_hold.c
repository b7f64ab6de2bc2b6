// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Requests of vpmud's clients that a server has a part in. Counts are asked for before they are
 * read, and what only the server of a VM can do is passed on to it. The client waits meanwhile, and
 * nobody else. A client may never reach more of a server by vpmud than its rights here.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "service/clock.h"
#include "service/request.h"
#include "vpmud/peer_priv.h"
#include "vpmu/util/fail.h"

#define TRIES 3 /* a VM may have come while the counts were asked for */

/* ---- waiting for counts --------------------------------------------------------------------- */

struct waiting {
	struct peers *p;
	struct later *l;
	struct barrier *b;
	const vpmu_key_t *keys; /* NULL: of all sessions, and they are attached only */
	unsigned int tries;
};

static bool peer_hold_counts(struct peer *e, void *arg)
{
	const struct waiting *w = arg;

	/* One that has no VMs does not matter. */
	return e->nr_nodes && (w->keys ? peer_counts_for(e, w->keys) : peer_attaching(e));
}

static void wait_lost(void *arg)
{
	struct waiting *w = arg;

	barrier_cancel(w->p, w->b);
	free(w);
}

static void wait_done(void *arg);

static void peer_hold_ask(const struct waiting *w)
{
	for (unsigned int i = 0; i < PEERS_MAX && w->keys; i++) {
		struct peer *e = w->p->peer[i];

		if (e && e->link && !e->late)
			peer_read(e, w->keys);
	}
}

/* Ask for the counts if that is wanted, and wait for all answers. False: there are none to come. */
static bool peer_hold_wait_for(struct waiting *w)
{
	peer_hold_ask(w);
	w->b = peers_barrier(w->p, peer_hold_counts, w, wait_done, w);
	return w->b != NULL;
}

static bool unread(const struct waiting *w)
{
	for (unsigned int i = 0; i < PEERS_MAX && w->keys; i++) {
		const struct peer *e = w->p->peer[i];

		if (e && e->link && e->nr_nodes && !e->late && peer_unread(e, w->keys))
			return true;
	}
	return false;
}

static void wait_done(void *arg)
{
	struct waiting *w = arg;
	struct later *l = w->l;

	if (unread(w) && w->tries++ < TRIES && peer_hold_wait_for(w))
		return;
	free(w);
	server_go_on(l);
}

static bool hold_counts(struct peers *p, struct later *l, const vpmu_key_t *keys)
{
	struct waiting *w = calloc(1, sizeof(*w));

	if (!w)
		return false;
	*w = (struct waiting){.p = p, .l = l, .keys = keys};
	if (!peer_hold_wait_for(w)) {
		free(w);
		return false;
	}
	server_on_lost(l, wait_lost, w);
	return true;
}

/* ---- counts for vpmud itself ---------------------------------------------------------------- */

struct peers_fresh {
	struct waiting w; /* its @l is not used */
	void (*done)(void *arg);
	void *arg;
};

static void fresh_done(void *arg)
{
	struct peers_fresh *f = arg;

	if (unread(&f->w) && f->w.tries++ < TRIES) {
		peer_hold_ask(&f->w);
		f->w.b = peers_barrier(f->w.p, peer_hold_counts, &f->w, fresh_done, f);
		if (f->w.b)
			return;
	}
	f->done(f->arg);
	free(f);
}

struct peers_fresh *peers_fresh(struct peers *p, const vpmu_key_t *keys, void (*done)(void *arg),
				void *arg)
{
	struct peers_fresh *f = calloc(1, sizeof(*f));

	if (!f)
		return NULL;
	*f = (struct peers_fresh){.w = {.p = p, .keys = keys}, .done = done, .arg = arg};
	peer_hold_ask(&f->w);
	f->w.b = peers_barrier(p, peer_hold_counts, &f->w, fresh_done, f);
	if (f->w.b)
		return f;
	free(f);
	return NULL;
}

void peers_fresh_cancel(struct peers_fresh *f)
{
	if (f)
		barrier_cancel(f->w.p, f->w.b);
	free(f);
}

/* ---- passing on ----------------------------------------------------------------------------- */

struct forward {
	LIST_ENTRY(forward) next;
	struct peers *p;
	struct later *l;
	struct link *link; /* of its own: a command may take long */
	struct barrier *b;
	json_t *answer;
	uint64_t until_ns; /* 0: for ever */
	bool changes;	   /* the tree may have changed */
	char path[108];
	char vm[TENANT_VM_NAME_MAX + 1],
		there[TENANT_VM_NAME_MAX + 1]; /* its name here and there */
};

static void forward_free(struct forward *f)
{
	LIST_REMOVE(f, next);
	barrier_cancel(f->p, f->b);
	link_close(f->link);
	json_decref(f->answer);
	free(f);
}

static void forward_lost(void *arg)
{
	forward_free(arg);
}

static void forward_fail(struct forward *f, int ret, const char *why)
{
	struct later *l = f->l;
	char line[400];

	fail(ret, line, sizeof(line), "the server at %s: %s", f->path, why);
	forward_free(f);
	server_answer(l, ret, NULL, line);
}

/* The VM has another name here. */
static void rename_rows(const struct forward *f, json_t *resp)
{
	json_t *row;
	size_t i;

	json_array_foreach (json_object_get(resp, "rows"), i, row)
		if (json_object_get(row, "vm"))
			json_object_set_new(row, "vm", json_string(f->vm));
}

static void forward_done(void *arg)
{
	struct forward *f = arg;
	struct later *l = f->l;
	json_t *answer = json_incref(f->answer);
	json_int_t nr = json_integer_value(json_object_get(answer, "errno"));
	const char *text = json_string_value(json_object_get(answer, "error"));
	char line[400];

	f->b = NULL; /* it is being freed by who called us */
	if (json_is_true(json_object_get(answer, "ok"))) {
		json_object_del(answer, "id");
		rename_rows(f, answer);
		forward_free(f);
		server_answer(l, 0, answer, NULL);
	} else {
		fail(0, line, sizeof(line), "%s", text ? text : "the server does not say why");
		forward_free(f);
		server_answer(l, nr > 0 && nr < 4096 ? (int)-nr : -EPROTO, NULL, line);
	}
	json_decref(answer);
}

static void peer_hold_on_answer(void *arg, const json_t *answer)
{
	struct forward *f = arg;

	if (!answer)
		return;
	f->answer = json_incref((json_t *)answer);
	link_fail(f->link, "done");
}

static bool is_peer(struct peer *e, void *arg)
{
	return e == arg;
}

static void on_link_ended(void *arg, const char *why)
{
	struct forward *f = arg;
	struct peer *e = peer_at(f->p, f->path);
	char text[240];

	snprintf(text, sizeof(text), "%s", why);
	link_close(f->link);
	f->link = NULL;
	if (!f->answer) {
		forward_fail(f, -EPIPE, text);
		return;
	}
	/* Whoever asks next sees what has changed. */
	if (f->changes && e && !e->late) {
		peer_ask_all(e);
		f->b = peers_barrier(f->p, is_peer, e, forward_done, f);
		if (f->b)
			return;
	}
	forward_done(f);
}

void peer_forward_late(struct peers *p, uint64_t now)
{
	struct forward *f, *next;

	for (f = LIST_FIRST(&p->forwards); f; f = next) {
		next = LIST_NEXT(f, next);
		if (f->until_ns && now > f->until_ns && !f->answer)
			forward_fail(f, -ETIMEDOUT,
				     "it does not answer; it may still do what was asked later");
	}
}

void peers_forget_forwards(struct peers *p)
{
	while (!LIST_EMPTY(&p->forwards))
		forward_free(LIST_FIRST(&p->forwards));
}

/* Pass @req on, which is about the VM that field @key names. 1: it waits. */
static int forward(struct peers *p, const struct peer_vm *vm, const json_t *req, const char *key,
		   struct later *l, char *err, size_t errlen)
{
	const struct peer *e = vm->peer;
	const char *cmd = json_string_value(json_object_get(req, "cmd"));
	struct forward *f = calloc(1, sizeof(*f));
	const struct link_opts o = {
		.ev = p->ev, .buffered = &p->buffered, .ended = on_link_ended, .arg = f};
	json_t *out = json_copy((json_t *)req);
	char why[240] = "out of memory";
	int ret = -ENOMEM;

	if (!f || !out || json_object_set_new(out, key, json_string(vm->name)))
		goto fail;
	*f = (struct forward){.p = p, .l = l};
	f->changes = strcmp(cmd, "console-read") && strcmp(cmd, "lbr-read");
	if (strcmp(cmd, "vm-save"))
		f->until_ns = now_ns() + p->late_ns;
	snprintf(f->path, sizeof(f->path), "%s", e->path);
	snprintf(f->vm, sizeof(f->vm), "%s", vm->node->name);
	snprintf(f->there, sizeof(f->there), "%s", vm->name);
	if (e->late) {
		ret = fail(-ETIMEDOUT, why, sizeof(why), "it does not answer");
		goto fail;
	}
	ret = link_open(&o, e->path, p->uid, &f->link, why, sizeof(why));
	if (ret)
		goto fail;
	if (link_pid(f->link) != link_pid(e->link)) {
		ret = fail(-ESTALE, why, sizeof(why), "another one has taken its place");
		goto fail;
	}
	ret = link_ask(f->link, out, peer_hold_on_answer, f);
	out = NULL;
	if (ret) {
		snprintf(why, sizeof(why), "%s", strerror(-ret));
		goto fail;
	}
	LIST_INSERT_HEAD(&p->forwards, f, next);
	server_on_lost(l, forward_lost, f);
	return 1;
fail:
	if (f)
		link_close(f->link);
	free(f);
	json_decref(out);
	return fail(ret, err, errlen, "the server at %s: %s", e->path, why);
}

/* ---- what becomes of a request -------------------------------------------------------------- */

/* How commands name the VM that they are about. */
static const struct verb {
	const char *cmd, *key;
	bool passed_on; /* else it is refused, with where to ask */
	bool ours;	/* else it is a command of every server, which also has its targets here */
} verbs[] = {
	{"pause", "name", true, true},		{"resume", "name", true, true},
	{"vm-set", "name", true, true},		{"vm-remove", "name", true, true},
	{"vm-save", "name", true, true},	{"console-read", "name", true, true},
	{"console-write", "name", true, true},	{"lbr-read", "target", true, false},
	{"lbr-attach", "target", false, false}, {"profile-start", "target", false, false},
};

#define NR_VERBS (sizeof(verbs) / sizeof(verbs[0]))

static const struct verb *verb_of(const char *cmd)
{
	for (size_t i = 0; i < NR_VERBS; i++)
		if (!strcmp(verbs[i].cmd, cmd))
			return &verbs[i];
	return NULL;
}

static struct node *peer_hold_named_vm(const struct peers *p, const json_t *req, const char *key,
				       const struct access *who)
{
	const char *name = json_string_value(json_object_get(req, key));
	struct node *vm = name && *name != '/' ? tenant_vm_find(p->ts, name) : NULL;

	return vm && access_sees(who, vm->path) ? vm : NULL;
}

static int hold_verb(struct peers *p, const struct verb *v, const json_t *req,
		     const struct access *who, struct later *l, char *err, size_t errlen)
{
	const struct node *node = peer_hold_named_vm(p, req, v->key, who);
	const struct peer_vm *vm = node && peers_has(p, node) ? node->user : NULL;

	if (!vm)
		return 0;
	if (!access_admin(who) && v->passed_on)
		return fail(-EACCES, err, errlen, "%s: of this VM for administrators only", v->cmd);
	if (!v->passed_on)
		return fail(-EOPNOTSUPP, err, errlen,
			    "%s: VM %s is a vpmu-vmm's, which has its records and samples: ask the "
			    "server at %s (-S)",
			    v->key, vm->node->name, vm->peer->path);
	return forward(p, vm, req, v->key, l, err, errlen);
}

int peers_hold(struct peers *p, struct sessions *ss, const json_t *req, const struct access *who,
	       bool ready, struct later *l, char *err, size_t errlen)
{
	const char *cmd = json_string_value(json_object_get(req, "cmd"));
	const struct verb *v = verb_of(cmd);
	const struct registered *e;
	const char *name;

	if (ready)
		return !strcmp(cmd, "attach") && hold_counts(p, l, NULL);
	if (v)
		return hold_verb(p, v, req, who, l, err, errlen);
	if (!strcmp(cmd, "conservation"))
		return peer_compare(p, l);
	if (strcmp(cmd, "read") && strcmp(cmd, "detach"))
		return 0;
	name = json_string_value(json_object_get(req, "session"));
	e = name ? registry_find(sessions_registry(ss), name, who) : NULL;
	return e && hold_counts(p, l, ((const struct session *)e)->keys);
}

/* A VM that is no server's, or none at all. */
static int cmd_verb(void *arg, const json_t *req, json_t *resp, char *err, size_t errlen)
{
	const struct peers *p = arg;
	const char *cmd = json_string_value(json_object_get(req, "cmd")), *name = NULL;
	int ret = request_string(req, "name", true, TENANT_VM_NAME_MAX, &name, err, errlen);

	if (ret)
		return ret;
	if (!tenant_vm_find(p->ts, name))
		return fail(-ENOENT, err, errlen,
			    "name: no VM \"%s\"; `vpmu list` shows what there is", name);
	return fail(-EOPNOTSUPP, err, errlen,
		    "%s: VM %s is no vpmu-vmm's; those with a server in `vpmu list` are accepted",
		    cmd, name);
}

int peers_register(struct peers *p, struct server *s)
{
	int ret = 0;

	for (size_t i = 0; i < NR_VERBS && !ret; i++)
		if (verbs[i].ours)
			ret = server_register(s, verbs[i].cmd, cmd_verb, p);
	return ret;
}
