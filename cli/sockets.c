// SPDX-License-Identifier: GPL-2.0-or-later
/* Finds sockets of servers; see sockets.h. */
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "cli/sockets.h"
#include "vpmu/util/utf8.h"

#define SHOWN_MAX 8 /* more are only counted */

_Static_assert(SOCKET_PATH_MAX == sizeof(((struct sockaddr_un *)0)->sun_path), "a path too long");

/* vpmud first: it covers the whole host. */
size_t sockets_usual(char place[SOCKETS_USUAL][SOCKET_PATH_MAX])
{
	const char *xdg = getenv("XDG_RUNTIME_DIR");
	size_t n = 0;

	snprintf(place[n++], SOCKET_PATH_MAX, "/run/vpmu/vpmud.sock");
	snprintf(place[n++], SOCKET_PATH_MAX, "/run/vpmu/vpmu-vmm.sock");
	if (xdg && *xdg == '/')
		snprintf(place[n++], SOCKET_PATH_MAX, "%s/vpmu/vpmu-vmm.sock", xdg);
	snprintf(place[n++], SOCKET_PATH_MAX, "/tmp/vpmu-%u/vpmu-vmm.sock", geteuid());
	return n;
}

bool socket_trusted(const char *path)
{
	char dir[128];
	struct stat st;

	if (strncmp(path, "/tmp/", 5) != 0)
		return true;
	snprintf(dir, sizeof(dir), "%.*s", (int)(strrchr(path, '/') - path), path);
	return lstat(dir, &st) || (S_ISDIR(st.st_mode) && st.st_uid == geteuid());
}

/* Return true if a server listens at @path and we may connect. A busy server counts. */
static bool listens(const char *path)
{
	struct sockaddr_un addr = {.sun_family = AF_UNIX};
	int fd;
	bool ok;

	if (strlen(path) >= sizeof(addr.sun_path) || !socket_trusted(path))
		return false;
	strcpy(addr.sun_path, path);
	fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0)
		return false;
	ok = !connect(fd, (struct sockaddr *)&addr, sizeof(addr)) || errno == EAGAIN;
	close(fd);
	return ok;
}

static int sockets_has_name(const struct dirent *d)
{
	size_t len = strlen(d->d_name);

	return len > 5 && !strcmp(d->d_name + len - 5, ".sock");
}

void sockets_found(const char *but, char text[SOCKETS_FOUND])
{
	char place[SOCKETS_USUAL][SOCKET_PATH_MAX], last[SOCKET_PATH_MAX] = "";
	size_t n = sockets_usual(place), nr = 0, len = 0;

	*text = '\0';
	for (size_t i = 0; i < n; i++) {
		struct dirent **list = NULL;
		int found;

		strrchr(place[i], '/')[1] = '\0'; /* the directory */
		if (!strcmp(place[i], last))
			continue;
		strcpy(last, place[i]);
		/* Not glob(): that of glibc 2.41 frees twice when memory runs out. */
		found = scandir(place[i], &list, sockets_has_name, alphasort);
		for (int k = 0; k < found; k++) {
			char path[SOCKET_PATH_MAX];
			size_t bytes = strlen(place[i]) + strlen(list[k]->d_name) + 1;
			bool fits = bytes <= sizeof(path);

			if (fits)
				strcpy(stpcpy(path, place[i]), list[k]->d_name);
			free(list[k]);
			if (!fits || (but && !strcmp(path, but)) || !utf8_text(path) ||
			    !listens(path))
				continue;
			if (nr++ < SHOWN_MAX)
				len += (size_t)snprintf(text + len, SOCKETS_FOUND - len, "%s%s",
							nr > 1 ? ", " : "; found ", path);
		}
		free(list);
	}
	if (nr > SHOWN_MAX)
		len += (size_t)snprintf(text + len, SOCKETS_FOUND - len, " and %zu more",
					nr - SHOWN_MAX);
	if (nr)
		snprintf(text + len, SOCKETS_FOUND - len, ": choose one with -S PATH");
}
