// SPDX-License-Identifier: GPL-2.0-or-later
/* The question to vpmud, see conf.h. */
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "preload/conf.h"
#include "vpmu/totals.h"
#include "vpmu/util/fail.h"

/* A vpmud that is busy closes connections, or lets them wait. */
#define ASK_ATTEMPTS   20
#define ASK_PAUSE_NS   100000000L
#define ASK_ATTEMPT_MS 2000

/* Read @len bytes. 0 or -errno; -ECONNRESET: vpmud has closed the connection. */
static int ask_read(int fd, void *buf, size_t len)
{
	struct pollfd p = {.fd = fd, .events = POLLIN};

	for (size_t have = 0; have < len;) {
		int ready = poll(&p, 1, ASK_ATTEMPT_MS);
		ssize_t n;

		if (ready < 0 && errno == EINTR)
			continue;
		if (ready <= 0)
			return ready ? -errno : -ETIMEDOUT;
		n = recv(fd, (char *)buf + have, len - have, 0);
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return n ? -errno : -ECONNRESET;
		have += (size_t)n;
	}
	return 0;
}

/* One attempt: the text of the answer. */
static int ask_once(const struct sockaddr_un *at, char text[VPMU_TOTALS_CONFIG_MAX + 1])
{
	const struct vpmu_totals_request q = {.version = VPMU_TOTALS_VERSION,
					      .what = VPMU_TOTALS_CONFIG};
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0), ret = 0;
	struct vpmu_totals_reply r = {0};
	const struct timeval limit = {.tv_sec = ASK_ATTEMPT_MS / 1000};

	if (fd < 0)
		return -errno;
	/* connect() waits as long as a vpmud that hangs leaves its queue full. */
	if (setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof(limit)) ||
	    connect(fd, (const struct sockaddr *)at, sizeof(*at)) ||
	    send(fd, &q, sizeof(q), MSG_NOSIGNAL) != (ssize_t)sizeof(q))
		ret = errno == EAGAIN ? -ETIMEDOUT : -errno;
	if (!ret)
		ret = ask_read(fd, &r, sizeof(r));
	if (!ret && r.error)
		ret = -EREMOTEIO;
	if (!ret && r.slot > VPMU_TOTALS_CONFIG_MAX)
		ret = -EPROTO;
	if (!ret)
		ret = ask_read(fd, text, r.slot);
	text[ret ? 0 : r.slot] = '\0';
	close(fd);
	return ret;
}

/* Keys of a newer vpmud are none of ours. */
static int ask_take(struct conf *c, char *text, char *err, size_t errlen)
{
	char *line;
	int ret = 0;

	while (!ret && (line = strsep(&text, "\n"))) {
		char *value = strchr(line, '=');

		if (!value)
			continue;
		*value++ = '\0';
		ret = strcmp(line, conf_key_name(CONF_VPMUD))
			      ? conf_set(c, "vpmud", line, value, err, errlen)
			      : -ENOENT;
		if (ret == -ENOENT)
			ret = 0;
	}
	return ret == -EINVAL ? -EPROTO : ret;
}

int ask_vpmud(const char *path, struct conf *c, char *err, size_t errlen)
{
	const struct timespec pause = {.tv_nsec = ASK_PAUSE_NS};
	struct sockaddr_un at = {.sun_family = AF_UNIX};
	char text[VPMU_TOTALS_CONFIG_MAX + 1];
	int ret = -ENOENT;

	if (!*path || strlen(path) >= sizeof(at.sun_path))
		return -ENOENT;
	strcpy(at.sun_path, path);
	for (int i = 0; i < ASK_ATTEMPTS; i++) {
		ret = ask_once(&at, text);
		if (!ret)
			return ask_take(c, text, err, errlen);
		if (ret == -ENOENT || ret == -ECONNREFUSED || ret == -EACCES)
			return -ENOENT;
		if (ret == -ENOMEM || ret == -EPROTO || ret == -ETIMEDOUT)
			break;
		nanosleep(&pause, NULL);
	}
	if (ret == -ENOMEM)
		return fail(ret, err, errlen, "out of memory");
	if (ret == -EPROTO)
		return fail(ret, err, errlen, "vpmud at %s: its answer is invalid", path);
	return fail(-ETIMEDOUT, err, errlen,
		    "vpmud at %s does not answer (%s): the configuration is qemu.conf's", path,
		    strerror(-ret));
}
