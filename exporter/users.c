// SPDX-License-Identifier: GPL-2.0-or-later
/* Users of the metrics' HTTP server; see users.h. The file is the administrator's; the names and
 * passwords to check are untrusted. */
#include <crypt.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "exporter/users.h"
#include "service/program/memory.h"
#include "vpmu/util/fail.h"

#define FILE_MAX (USERS_MAX * USERS_LINE_MAX)
#define SECOND	 1000000000ULL

struct user {
	char *name, *hash, *right; /* @right: the password, once it was given */
};

struct users {
	size_t nr;
	struct user user[USERS_MAX];
	uint64_t second; /* now_ns / SECOND of the last hash */
	unsigned int hashed;
	struct crypt_data crypt;
};

static int users_add(struct users *u, const char *where, unsigned int line, char *text, char *err,
		     size_t errlen)
{
	char *colon = strchr(text, ':');
	int salt;

	if (!*text || *text == '#')
		return 0;
	if (u->nr == USERS_MAX)
		return fail(-EINVAL, err, errlen, "%s:%u: more than %d users", where, line,
			    USERS_MAX);
	if (!colon || colon == text || !colon[1])
		return fail(-EINVAL, err, errlen,
			    "%s:%u: not a user; expected NAME:HASH, as from mkpasswd -m yescrypt",
			    where, line);
	*colon = '\0';
	salt = crypt_checksalt(colon + 1);
	if (salt != CRYPT_SALT_OK)
		return fail(-EINVAL, err, errlen,
			    "%s:%u: the hash method of %.40s is invalid; expected yescrypt, bcrypt "
			    "or SHA-512 (man 5 crypt)",
			    where, line, text);
	for (size_t i = 0; i < u->nr; i++)
		if (!strcmp(u->user[i].name, text))
			return fail(-EINVAL, err, errlen, "%s:%u: user %.40s given twice", where,
				    line, text);
	u->user[u->nr].name = xstrdup(text);
	u->user[u->nr++].hash = xstrdup(colon + 1);
	return 0;
}

int users_text(const char *name, const char *text, size_t len, struct users **out, char *err,
	       size_t errlen)
{
	struct users *u = xcalloc(1, sizeof(*u));
	const char *end = text + len, *stop;
	char line[USERS_LINE_MAX];
	int ret = 0;

	for (unsigned int nr = 1; !ret && text < end; nr++, text = stop + 1) {
		stop = memchr(text, '\n', (size_t)(end - text));
		if (!stop)
			stop = end;
		if ((size_t)(stop - text) >= sizeof(line) ||
		    memchr(text, '\0', (size_t)(stop - text))) {
			ret = fail(-EINVAL, err, errlen,
				   "%s:%u: expected a line of text with up to %d bytes", name, nr,
				   USERS_LINE_MAX - 1);
			break;
		}
		memcpy(line, text, (size_t)(stop - text));
		line[stop - text] = '\0';
		ret = users_add(u, name, nr, line, err, errlen);
	}
	if (!ret && !u->nr)
		ret = fail(-EINVAL, err, errlen, "%s: no user given; expected lines NAME:HASH",
			   name);
	if (ret) {
		users_free(u);
		return ret;
	}
	*out = u;
	return 0;
}

/* users_read() wipes its stack frame. */
static __attribute__((noinline)) int users_file(const char *path, struct users **out, char *err,
						size_t errlen)
{
	char text[FILE_MAX];
	struct stat st;
	ssize_t n = 0;
	size_t len = 0;
	int fd = open(path, O_RDONLY | O_CLOEXEC), ret;

	if (fd < 0 || fstat(fd, &st)) {
		ret = fail(-errno, err, errlen, "%s: %s", path, strerror(errno));
		goto out;
	}
	if (!S_ISREG(st.st_mode) || st.st_mode & (S_IWOTH | S_IROTH)) {
		ret = fail(-EPERM, err, errlen,
			   "%s: expected a file that only its user and group may read and write",
			   path);
		goto out;
	}
	while (len < sizeof(text) && (n = read(fd, text + len, sizeof(text) - len)) > 0)
		len += (size_t)n;
	if (n < 0)
		ret = fail(-errno, err, errlen, "%s: %s", path, strerror(errno));
	else if (len == sizeof(text))
		ret = fail(-EINVAL, err, errlen, "%s: file too large; expected less than %d bytes",
			   path, FILE_MAX);
	else
		ret = users_text(path, text, len, out, err, errlen);
out:
	if (fd >= 0)
		close(fd);
	return ret;
}

/* Wipe copies that returned functions left on the stack, including vector registers that the
 * dynamic linker saved there. memcpy() in small pieces clears such registers, too. */
static __attribute__((noinline)) void wipe_stack(void)
{
	static const char nothing[256];
	char below[FILE_MAX + 16384];

	for (size_t i = 0; i < sizeof(below); i += sizeof(nothing)) {
		memcpy(below + i, nothing, sizeof(nothing));
		__asm__ volatile("" : : "r"(below) : "memory"); /* not optimized away */
	}
}

/* The memory lives as long as the process, which needs no copy of a hash on the stack. */
int users_read(const char *path, struct users **out, char *err, size_t errlen)
{
	int ret = users_file(path, out, err, errlen);

	wipe_stack();
	return ret;
}

static void users_forget(char *secret)
{
	if (secret)
		explicit_bzero(secret, strlen(secret));
	free(secret);
}

void users_free(struct users *u)
{
	for (size_t i = 0; u && i < u->nr; i++) {
		free(u->user[i].name);
		users_forget(u->user[i].hash);
		users_forget(u->user[i].right);
	}
	free(u);
}

/* Compare two texts in a time that does not reveal where they differ. */
static bool users_same(const char *a, const char *b)
{
	size_t n = strlen(a), m = strlen(b);
	unsigned char diff = n != m;

	for (size_t i = 0; i < n && i < m; i++)
		diff |= (unsigned char)(a[i] ^ b[i]);
	return !diff;
}

int users_check(struct users *u, const char *name, const char *password, uint64_t now_ns)
{
	struct user *found = NULL;
	const char *hash;
	bool right;

	for (size_t i = 0; i < u->nr; i++)
		if (!strcmp(u->user[i].name, name))
			found = &u->user[i];
	if (strlen(password) >= USERS_LINE_MAX)
		return 0;
	if (found && found->right && users_same(found->right, password))
		return 1;
	if (u->second != now_ns / SECOND)
		u->hashed = 0;
	u->second = now_ns / SECOND;
	if (u->hashed++ >= USERS_HASHES_PS)
		return -EAGAIN;
	/* An unknown user takes as long as a known one. */
	hash = crypt_r(password, found ? found->hash : u->user[0].hash, &u->crypt);
	right = found && hash && users_same(hash, found->hash);
	explicit_bzero(&u->crypt, sizeof(u->crypt));
	if (!right)
		return 0;
	users_forget(found->right);
	found->right = xstrdup(password);
	return 1;
}
