// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Tracks libvirt's domains and joins each to its process. discover.c calls it when virt.c has
 * messages, process.c for each VM it inspects.
 *
 * A process is a domain if it has the domain's UUID on its command line and libvirt's pid file
 * names it. The UUID alone proves nothing: anybody may start a QEMU with any UUID. A joined process
 * keeps the domain's data until it ends, even if libvirt forgets the domain.
 */
#include <search.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "service/program/memory.h"
#include "vpmud/discover/priv.h"

struct domain {
	struct domxml xml; /* first; xml.uuid and uri are the key */
	size_t uri;
	bool active;
	pid_t pid;	     /* 0: not known */
	bool stale;	     /* not yet in the list being read */
	bool noted;	     /* its invalid metadata was noted */
	struct domain *next; /* list of drop() */
};

static int by_key(const void *a, const void *b)
{
	const struct domain *x = a, *y = b;
	int c = strcmp(x->xml.uuid, y->xml.uuid);

	return c ? c : x->uri < y->uri ? -1 : x->uri > y->uri;
}

static struct domain *domains_find(struct disc *d, const char *uuid, size_t uri)
{
	struct domain key = {.uri = uri};
	void *node;

	memcpy(key.xml.uuid, uuid, DISC_UUID_SIZE);
	node = tfind(&key, &d->domains, by_key);
	return node ? *(struct domain **)node : NULL;
}

static void update(struct disc *d, const struct virt_message *m)
{
	struct domain *dom = domains_find(d, m->xml.uuid, m->uri);
	bool noted = dom && dom->noted;

	if (!dom) {
		dom = xcalloc(1, sizeof(*dom));
		dom->xml = m->xml;
		dom->uri = m->uri;
		xtsearch(dom, &d->domains, by_key);
	}
	dom->xml = m->xml;
	dom->active = m->active;
	dom->pid = m->pid;
	dom->stale = false;
	dom->noted = m->text[0];
	if (m->text[0] && !noted)
		disc_note(d, NULL, 0, "libvirt: %s", m->text);
	/* Domains of a list are joined by the next round; a single changed domain now. */
	if (m->pid && !d->uris[m->uri].listing)
		scan_pid(d, m->pid);
}

/* ---- the end of a list ---- */

struct pick {
	size_t uri;
	bool mark; /* mark all as stale; else collect the stale ones */
	struct domain *first;
};

static void domains_pick(const void *node, VISIT which, void *closure)
{
	struct domain *dom = *(struct domain *const *)node;
	struct pick *p = closure;

	if ((which != postorder && which != leaf) || dom->uri != p->uri)
		return;
	if (p->mark) {
		dom->stale = true;
	} else if (dom->stale) {
		dom->next = p->first;
		p->first = dom;
	}
}

static void domains_drop(struct disc *d, struct domain *dom)
{
	tdelete(dom, &d->domains, by_key);
	free(dom);
}

static void list(struct disc *d, size_t uri, bool begin)
{
	struct pick p = {.uri = uri, .mark = begin};

	twalk_r(d->domains, domains_pick, &p);
	while (p.first) {
		struct domain *dom = p.first;

		p.first = dom->next;
		domains_drop(d, dom);
	}
	d->uris[uri].listing = begin;
}

void domains_init(struct disc *d, const char *const *uris, size_t nr)
{
	d->uris = xcalloc(nr, sizeof(*d->uris));
	for (; d->nr_uris < nr; d->nr_uris++)
		d->uris[d->nr_uris].name = xstrdup(uris[d->nr_uris]);
}

void domains_unavailable(struct disc *d, const char *why)
{
	for (size_t i = 0; i < d->nr_uris; i++) {
		snprintf(d->uris[i].why, sizeof(d->uris[i].why), "%s", why);
		disc_note(d, NULL, 0, "%s: %s", d->uris[i].name, why);
	}
}

/* Mark @u as unconnected. @note starts with the URI, which is stripped. */
static void unconnected(struct libvirt_uri *u, const char *note)
{
	const char *why = strstr(note, u->name);

	why = why && *u->name ? why + strlen(u->name) + 2 : note;
	snprintf(u->why, sizeof(u->why), "%s", why);
	u->connected = u->listing = false;
}

struct count {
	size_t uri, active;
};

static void domains_count(const void *node, VISIT which, void *closure)
{
	const struct domain *dom = *(struct domain *const *)node;
	struct count *c = closure;

	if (which == postorder || which == leaf)
		c->active += dom->uri == c->uri && dom->active;
}

void disc_libvirt(const struct disc *d,
		  void (*fn)(const char *uri, bool connected, const char *text, void *arg),
		  void *arg)
{
	char text[64];

	for (size_t i = 0; i < d->nr_uris; i++) {
		const struct libvirt_uri *u = &d->uris[i];
		struct count c = {.uri = i};

		twalk_r(d->domains, domains_count, &c);
		snprintf(text, sizeof(text), "connected; domains that run: %zu", c.active);
		fn(u->name, u->connected,
		   u->connected ? text
		   : *u->why	? u->why
				: "no answer yet",
		   arg);
	}
}

void domains_take(struct disc *d)
{
	struct virt_message *m = virt_take(d->virt), *next;
	struct domain *dom;

	for (; m; m = next) {
		next = m->next;
		switch (m->what) {
		case VIRT_BEGIN:
		case VIRT_END:
			list(d, m->uri, m->what == VIRT_BEGIN);
			d->uris[m->uri].connected = true;
			break;
		case VIRT_DOMAIN:
			update(d, m);
			break;
		case VIRT_GONE:
			dom = domains_find(d, m->xml.uuid, m->uri);
			if (dom)
				domains_drop(d, dom);
			break;
		case VIRT_LINK:
			unconnected(&d->uris[m->uri], m->text);
			/* fall through */
		case VIRT_NOTE:
			disc_note(d, NULL, 0, "%s", m->text);
			break;
		}
		free(m);
	}
}

/* ---- joining processes to domains - */

/* Return true if @p is the active domain @dom, whose UUID it has. */
static bool is_domain(struct disc *d, struct proc *p, const struct domain *dom)
{
	struct proc *other;

	if (dom->pid == p->pid)
		return true;
	other = dom->pid ? scan_find(d, dom->pid) : NULL;
	if (other && other->vm && other->vm->uuid && !strcmp(other->vm->uuid, dom->xml.uuid))
		disc_note(d, p, NOTE_DOMAIN,
			  "process %d has the UUID of libvirt's domain %s, and so has process %d; "
			  "libvirt names the latter as the domain",
			  (int)p->pid, dom->xml.name, (int)other->pid);
	else if (!dom->pid)
		disc_note(d, p, NOTE_DOMAIN,
			  "process %d has the UUID of libvirt's domain %s, and libvirt has no file "
			  "with the process of the domain; it is not taken for the domain",
			  (int)p->pid, dom->xml.name);
	return false;
}

void domains_join(struct disc *d, struct proc *p, struct disc_vm *vm)
{
	for (size_t i = 0; vm->uuid && i < d->nr_uris; i++) {
		struct domain *dom = domains_find(d, vm->uuid, i);

		if (!dom || !dom->active || !is_domain(d, p, dom))
			continue;
		if (!p->domain)
			p->domain = xmalloc(sizeof(*p->domain));
		*p->domain = dom->xml;
		break;
	}
	if (!p->domain)
		return;
	vm->kind = "libvirt";
	vm_set(&vm->name, p->domain->name);
	if (p->domain->tenant[0])
		vm_set(&vm->tenant, p->domain->tenant);
}

void domains_free(struct disc *d)
{
	tdestroy(d->domains, free);
	d->domains = NULL;
	for (size_t i = 0; i < d->nr_uris; i++)
		free(d->uris[i].name);
	free(d->uris);
}
