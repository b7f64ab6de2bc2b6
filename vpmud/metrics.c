// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Who gets the metrics, and when; see metrics.h. daemon.c calls it. Of the HTTP process nothing is
 * believed: it may ask, and is answered one text at a time.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "exporter/http.h"
#include "exporter/textfile.h"
#include "exporter/users.h"
#include "exporter/wire.h"
#include "service/clock.h"
#include "service/request.h"
#include "vpmud/metrics.h"
#include "vpmud/metrics_listen.h"
#include "vpmu/util/fail.h"

#define GAP_NS 400000000ULL /* between two texts of one form for the HTTP process */

struct vmetrics {
	const struct metrics_config *c;
	int listen_fd, sock;
	char *unlink;
	pid_t pid;
	struct metrics *metrics; /* NULL: not begun */
	sd_event_source *on_ask, *timer;
	void (*note)(const char *line);
	uint64_t rendered_ns[2];
	bool file_failed, text_failed;
};

static void metrics_say(const struct vmetrics *m, const char *line)
{
	if (m->note)
		m->note(line);
}

/* What is said each time it begins. */
static void metrics_failed(struct vmetrics *m, bool *before, int ret, const char *err)
{
	if (ret && !*before)
		metrics_say(m, err);
	*before = ret != 0;
}

/* ---- the textfile --------------------------------------------------------------------------- */

static void metrics_write_file(struct vmetrics *m)
{
	struct expo e = {.form = EXPO_TEXT};
	char err[600];
	int ret = metrics_render(m->metrics, &e, err, sizeof(err));

	if (!ret && expo_end(&e))
		ret = fail(-ENOMEM, err, sizeof(err), "metrics: out of memory");
	if (!ret)
		ret = textfile_write(m->c->textfile, e.text, e.len, err, sizeof(err));
	metrics_failed(m, &m->file_failed, ret, err);
	expo_fini(&e);
}

static int metrics_on_timer(sd_event_source *s, uint64_t usec, void *arg)
{
	struct vmetrics *m = arg;

	metrics_write_file(m);
	return sd_event_source_set_time_relative(s, m->c->interval * 1000000ULL);
}

/* ---- the HTTP process ----------------------------------------------------------------------- */

/* The text as a file in memory; -errno. */
static int memory_file(const struct expo *e)
{
	int fd = memfd_create("vpmu-metrics", MFD_CLOEXEC), ret;

	if (fd < 0)
		return -errno;
	for (size_t at = 0; at < e->len;) {
		ssize_t n = write(fd, e->text + at, e->len - at);

		if (n <= 0) {
			ret = n ? -errno : -EIO;
			close(fd);
			return ret;
		}
		at += (size_t)n;
	}
	return fd;
}

static void metrics_answer(struct vmetrics *m, const struct wire_ask *q)
{
	struct wire_answer a = {.id = q->id};
	struct expo e = {.form = q->form};
	int fd = -1;

	a.ret = metrics_render(m->metrics, &e, a.why, sizeof(a.why));
	if (!a.ret) { /* the end is the HTTP process's, which has families of its own */
		fd = memory_file(&e);
		if (fd < 0)
			a.ret = fail(fd, a.why, sizeof(a.why), "metrics: a file in memory: %s",
				     strerror(-fd));
	}
	metrics_failed(m, &m->text_failed, a.ret, a.why);
	a.len = e.len;
	expo_fini(&e);
	m->rendered_ns[q->form] = now_ns();
	wire_send(m->sock, &a, sizeof(a), fd);
	if (fd >= 0)
		close(fd);
}

static int on_ask(sd_event_source *s, int sock, uint32_t events, void *arg)
{
	struct vmetrics *m = arg;
	struct wire_answer no = {.ret = -EAGAIN};
	struct wire_ask q;
	int fd, n = wire_recv(sock, &q, sizeof(q), &fd);

	if (fd >= 0)
		close(fd);
	if (n == -EAGAIN)
		return 0;
	if (n <= 0) {
		metrics_say(
			m,
			"metrics: the HTTP process has ended for good; a restart of vpmud brings "
			"it back");
		sd_event_source_set_enabled(s, SD_EVENT_OFF);
		close(m->listen_fd); /* so that clients are refused */
		m->listen_fd = -1;
		return 0;
	}
	if (n != sizeof(q) || !q.id || q.form > EXPO_OPENMETRICS)
		return 0;
	if (now_ns() - m->rendered_ns[q.form] < GAP_NS) {
		no.id = q.id;
		wire_send(sock, &no, sizeof(no), -1);
		return 0;
	}
	metrics_answer(m, &q);
	return 0;
}

/* ---- the command ---------------------------------------------------------------------------- */

/* Each line is a string: clients show no string with a line's end in it. */
static json_t *lines(const struct expo *e)
{
	const char *at = e->text, *end = e->text + e->len;
	json_t *all = json_array();
	int bad = !all;

	while (!bad && at < end) {
		const char *stop = memchr(at, '\n', (size_t)(end - at));

		bad = json_array_append_new(all, json_stringn(at, (size_t)(stop - at)));
		at = stop + 1;
	}
	if (!bad)
		return all;
	json_decref(all);
	return NULL;
}

int vmetrics_command(void *arg, const json_t *req, json_t *resp, char *err, size_t errlen)
{
	static const char *const fields[] = {"openmetrics", NULL};
	struct vmetrics *m = arg;
	struct expo e = {.form = EXPO_TEXT};
	bool open = false;
	int ret = request_fields(req, fields, err, errlen);

	if (!ret)
		ret = request_bool(req, "openmetrics", false, &open, err, errlen);
	if (ret)
		return ret;
	if (!m || !m->metrics)
		return fail(-ENOENT, err, errlen,
			    "metrics: vpmud.conf has no section [metrics] with events");
	e.form = open ? EXPO_OPENMETRICS : EXPO_TEXT;
	ret = metrics_render(m->metrics, &e, err, errlen);
	if (!ret && (expo_end(&e) || json_object_set_new(resp, "lines", lines(&e))))
		ret = fail(-ENOMEM, err, errlen, "metrics: out of memory");
	expo_fini(&e);
	return ret;
}

/* ---- life ----------------------------------------------------------------------------------- */

/* A file of the configuration, as text. */
static int metrics_read_text(const char *path, char **out, char *err, size_t errlen)
{
	enum { PEM_MAX = 1 << 20 };
	char *text = malloc(PEM_MAX);
	size_t n = 0;
	FILE *f;

	if (!text)
		return fail(-ENOMEM, err, errlen, "metrics: out of memory");
	f = fopen(path, "re");
	if (f)
		n = fread(text, 1, PEM_MAX, f);
	if (!f || ferror(f) || n == PEM_MAX) {
		int ret = f && n == PEM_MAX ? -EFBIG : -errno;

		if (f)
			fclose(f);
		free(text);
		return fail(ret, err, errlen, "metrics: %s: %s", path, strerror(-ret));
	}
	fclose(f);
	text[n] = '\0';
	*out = text;
	return 0;
}

static void metrics_forget(char *secret)
{
	if (secret)
		explicit_bzero(secret, strlen(secret));
	free(secret);
}

/* The process has the key and the hashes; vpmud forgets them. */
static int start_http(struct vmetrics *m, char *err, size_t errlen)
{
	struct http_opts o = {.listen_fd = m->listen_fd};
	char *cert = NULL, *key = NULL;
	int ret = 0;

	if (m->c->users)
		ret = users_read(m->c->users, &o.users, err, errlen);
	if (!ret && m->c->tls_cert)
		ret = metrics_read_text(m->c->tls_cert, &cert, err, errlen);
	if (!ret && m->c->tls_key)
		ret = metrics_read_text(m->c->tls_key, &key, err, errlen);
	o.cert = cert;
	o.key = key;
	if (!ret)
		ret = http_start(&o, &m->sock, &m->pid, err, errlen);
	users_free(o.users);
	free(cert);
	metrics_forget(key);
	return ret;
}

int vmetrics_create(const struct metrics_config *c, int listen_fd, gid_t gid, struct vmetrics **out,
		    char *err, size_t errlen)
{
	struct vmetrics *m;
	int ret = 0;

	*out = NULL;
	if (!c->there) {
		if (listen_fd)
			close(listen_fd);
		return 0;
	}
	m = calloc(1, sizeof(*m));
	if (!m)
		return fail(-ENOMEM, err, errlen, "metrics: out of memory");
	m->c = c;
	m->sock = -1;
	m->listen_fd = listen_fd ? listen_fd : -1;
	if (!listen_fd && c->listen)
		ret = metrics_listen(c->listen, gid, &m->listen_fd, &m->unlink, err, errlen);
	if (!ret && m->listen_fd >= 0)
		ret = start_http(m, err, errlen);
	if (ret) {
		vmetrics_destroy(m);
		return ret;
	}
	*out = m;
	return 0;
}

int vmetrics_begin(struct vmetrics *m, sd_event *ev, struct metrics_opts *o,
		   void (*note)(const char *line), char *err, size_t errlen)
{
	int ret;

	m->note = note;
	o->events = m->c->events;
	o->created = m->c->created;
	o->max_vms = m->c->max_domains;
	o->max_tenants = m->c->max_tenants;
	o->keep_gone_sec = m->c->keep_gone;
	ret = metrics_create(o, &m->metrics, err, errlen);
	if (ret)
		return ret;
	if (*err)
		note(err);
	if (m->sock >= 0)
		ret = sd_event_add_io(ev, &m->on_ask, m->sock, EPOLLIN, on_ask, m);
	if (ret >= 0 && m->c->textfile)
		ret = sd_event_add_time_relative(ev, &m->timer, CLOCK_MONOTONIC, 0, 0,
						 metrics_on_timer, m);
	if (ret >= 0 && m->timer)
		ret = sd_event_source_set_enabled(m->timer, SD_EVENT_ON);
	return ret < 0 ? fail(ret, err, errlen, "metrics: %s", strerror(-ret)) : 0;
}

void vmetrics_destroy(struct vmetrics *m)
{
	if (!m)
		return;
	sd_event_source_disable_unref(m->on_ask);
	sd_event_source_disable_unref(m->timer);
	metrics_destroy(m->metrics);
	if (m->sock >= 0)
		http_stop(m->sock, m->pid);
	if (m->listen_fd >= 0)
		close(m->listen_fd);
	if (m->unlink)
		unlink(m->unlink);
	free(m->unlink);
	free(m);
}
