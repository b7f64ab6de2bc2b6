// SPDX-License-Identifier: GPL-2.0-or-later
/* Saves and restores the state of vpmud; see persist.h. daemon.c calls it. No client may get an
 * answer about a session that is not in the file, unless writing fails. */
#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <limits.h>
#include <linux/magic.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "service/clock.h"
#include "service/program/memory.h"
#include "service/request.h"
#include "service/session_save.h"
#include "vpmu/util/files.h"
#include "vpmud/daemon.h"
#include "vpmud/persist.h"
#include "vpmu/event/event.h"
#include "vpmu/util/fail.h"

#define STATE_MAX (256u << 20) /* bytes */
#define SCHEMA	  4
#define SHARE	  10	  /* writing takes less than 1/SHARE of the time */
#define AGAIN_US  1000000 /* retry interval after a failed write */
#define BUSY_US	  100000  /* interval between checks of the pins */
#define BUSY_MAX  300	  /* number of such checks */

struct persist {
	char *path;
	json_t *saved; /* from the previous vpmud; sessions hold strings of it */
	void (*note)(const char *line);
	struct bpf_backend *kernel;
	struct sessions *sessions;
	struct tree *tree;
	uint64_t generation_sessions, generation_nodes; /* in the file */
	uint64_t after_us;				/* the next write */
	bool failed;
};

/* ---- the state file ------------------------------------------------------------------------- */

/* Atomically replace the file @path by @state; if it fails, the old file is unchanged. A
 * half-written file must never be read. */
static int state_write(const char *path, const json_t *state, char *err, size_t errlen)
{
	char next[PATH_MAX], *text;
	int ret;

	if (snprintf(next, sizeof(next), "%s.new", path) >= (int)sizeof(next))
		return fail(-ENAMETOOLONG, err, errlen, "state file %s: name too long", path);
	/* One write: jansson would write token by token and drop the errno. */
	text = json_dumps(state, JSON_COMPACT);
	/* No fsync: pinned counts do not survive a power cut, either. */
	ret = replace_file(path, next, 0600, false, text, strlen(text));
	free(text);
	return ret ? fail(ret, err, errlen, "state file %s: cannot be written: %s", path,
			  strerror(-ret))
		   : 0;
}

/* Read the object in file @path to *@out; NULL and 0: there is no file. Others must not be able to
 * write to it. */
static int state_read(const char *path, json_t **out, char *err, size_t errlen)
{
	int fd = open(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC), ret = 0;
	json_error_t why;
	struct stat st;

	*out = NULL;
	if (fd < 0)
		return errno == ENOENT ? 0
				       : fail(-errno, err, errlen, "state file %s: %s", path,
					      strerror(errno));
	if (fstat(fd, &st))
		ret = fail(-errno, err, errlen, "state file %s: %s", path, strerror(errno));
	else if (!S_ISREG(st.st_mode) || st.st_uid != geteuid() || st.st_mode & 022)
		ret = fail(-EPERM, err, errlen,
			   "state file %s: not a file that only this user may write", path);
	else if (st.st_size > STATE_MAX)
		ret = fail(-EFBIG, err, errlen, "state file %s: longer than %u bytes", path,
			   STATE_MAX);
	if (!ret) {
		*out = json_loadfd(fd, JSON_REJECT_DUPLICATES, &why);
		if (!json_is_object(*out)) {
			json_decref(*out);
			*out = NULL;
			ret = fail(-EINVAL, err, errlen, "state file %s: no state of vpmud: %s",
				   path, why.text);
		}
	}
	close(fd);
	return ret;
}

/* ---- bases of counts ------------------------------------------------------------------------ */

_Static_assert(sizeof(struct bpf_backend_base) == SESSION_BASE_WORDS * sizeof(uint64_t),
	       "a base has words that are not saved");

static void base_get(const struct vpmu_counting *c, size_t i, uint64_t base[SESSION_BASE_WORDS])
{
	struct bpf_backend_base b;

	bpf_backend_base_get(c, i, &b);
	memcpy(base, &b, sizeof(b));
}

static int base_set(struct vpmu_counting *c, size_t i, const uint64_t base[SESSION_BASE_WORDS])
{
	struct bpf_backend_base b;

	memcpy(&b, base, sizeof(b));
	return bpf_backend_base_set(c, i, &b);
}

static uint64_t begun_ns;   /* CLOCK_BOOTTIME: before this vpmud had any node */
static uint64_t written_ns; /* that of the file; 0: not known */

static uint64_t base_lacks(const struct vpmu_counting *c, const struct node *n)
{
	uint64_t now = clock_ns(CLOCK_BOOTTIME);

	/* The former vpmud has counted it, but its row came after the file was written. */
	if (bpf_backend_taken(c->node))
		return written_ns < now ? now - written_ns : now;
	return n->owed || n->kind >= NODE_VM ? now - begun_ns : 0;
}

/* rHEX events and cgroups without VMs: must match the server's options (daemon_server.c). */
static struct session_bases bases = {
	.backend = "bpf", .get = base_get, .set = base_set, .host_too = true, .lacks = base_lacks};

/* ---- reading -------------------------------------------------------------------------------- */

const char *persist_pin_dir(const struct vpmud_config *c, void (*note)(const char *line))
{
	struct statfs fs;

	if (c->pin_dir)
		return strcmp(c->pin_dir, "none") ? c->pin_dir : NULL;
	if (!statfs("/sys/fs/bpf", &fs) && (unsigned long)fs.f_type == BPF_FS_MAGIC)
		return "/sys/fs/bpf/vpmu";
	note("counts end with vpmud: /sys/fs/bpf is no BPF file system (mount -t bpf bpf "
	     "/sys/fs/bpf)");
	return NULL;
}

bool persist_busy(unsigned int times)
{
	sigset_t pending;

	if (!times)
		daemon_say("another process uses the pins and may be ending; waiting up to 30 s");
	usleep(BUSY_US);
	sigpending(&pending);
	return times < BUSY_MAX && !sigismember(&pending, SIGTERM) &&
	       !sigismember(&pending, SIGINT);
}

/* Load the previous vpmud's state if it belongs to the counts in the kernel. */
static void persist_load(struct persist *k)
{
	const char *epoch;
	char err[300], mine[24];

	if (state_read(k->path, &k->saved, err, sizeof(err)))
		k->note(err);
	if (!k->saved)
		return;
	snprintf(mine, sizeof(mine), "%llu", (unsigned long long)bpf_backend_epoch(k->kernel));
	epoch = json_string_value(json_object_get(k->saved, "epoch"));
	if (epoch && !strcmp(epoch, mine) &&
	    json_integer_value(json_object_get(k->saved, "schema")) == SCHEMA) {
		written_ns = (uint64_t)json_integer_value(json_object_get(k->saved, "written"));
		return;
	}
	if (json_array_size(json_object_get(k->saved, "sessions")))
		k->note("the sessions of the former vpmud are of counts that are gone, or of "
			"another version; they have ended");
	json_decref(k->saved);
	k->saved = NULL;
}

struct persist *persist_create(const char *socket, struct bpf_backend *kernel,
			       void (*note)(const char *line))
{
	struct persist *k = xcalloc(1, sizeof(*k));

	begun_ns = clock_ns(CLOCK_BOOTTIME);
	k->path = xasprintf("%s.state", socket);
	k->kernel = kernel;
	k->note = note;
	persist_load(k);
	return k;
}

void persist_destroy(struct persist *k)
{
	if (!k)
		return;
	json_decref(k->saved);
	free(k->path);
	free(k);
}

const json_t *persist_tree(const struct persist *k)
{
	return json_object_get(k->saved, "tree");
}

static void persist_on_note(void *arg, const char *line)
{
	((struct persist *)arg)->note(line);
}

void persist_begin(struct persist *k, struct sessions *ss, struct tree *tree)
{
	k->sessions = ss;
	k->tree = tree;
	bases.raw_space = vpmu_event_host_space();
	if (k->saved)
		sessions_restore(ss, json_object_get(k->saved, "sessions"), &bases, persist_on_note,
				 k);
}

/* ---- writing -------------------------------------------------------------------------------- */

int persist_now(struct persist *k)
{
	uint64_t written = clock_ns(CLOCK_BOOTTIME), begin = now_us();
	uint64_t sessions = sessions_generation(k->sessions);
	uint64_t nodes = tenants_generation(sessions_tenants(k->sessions));
	char err[300] = "";
	json_t *state;
	int ret;

	state = json_pack("{s:i, s:o, s:I, s:o, s:o}", "schema", SCHEMA, "epoch",
			  json_u64(bpf_backend_epoch(k->kernel)), "written", (json_int_t)written,
			  "tree", tree_save(k->tree), "sessions",
			  sessions_save(k->sessions, &bases));
	ret = state_write(k->path, state, err, sizeof(err));
	json_decref(state);
	if (ret && !k->failed)
		k->note(err);
	if (!ret && k->failed)
		k->note("the state file is written again");
	k->failed = ret != 0;
	k->after_us = now_us() + (ret ? AGAIN_US : SHARE * (now_us() - begin));
	if (!ret) {
		k->generation_sessions = sessions;
		k->generation_nodes = nodes;
	}
	return ret;
}

void persist_sessions(struct persist *k)
{
	if (sessions_generation(k->sessions) != k->generation_sessions &&
	    (!k->failed || now_us() >= k->after_us))
		persist_now(k);
}

void persist_all(struct persist *k)
{
	persist_sessions(k);
	if (tenants_generation(sessions_tenants(k->sessions)) != k->generation_nodes &&
	    now_us() >= k->after_us)
		persist_now(k);
}
