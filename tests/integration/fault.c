// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * One call that fails, preloaded (LD_PRELOAD) into a command: the FAULT_AT-th of the process after
 * its start. FAULT=memory: an allocation, also one of the C library and of other libraries.
 * FAULT=files: opening for writing, writing, syncing, naming or closing a regular file.
 * FAULT=opens: opening for reading. With FAULT_WHEN, a path, they are counted while that exists.
 * The file FAULT_COUNT gets the number of such calls when the process ends. With FAULT_ABORT the
 * process is aborted there, for a debugger. For processes of one thread only.
 */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

void *__libc_malloc(size_t size);
void *__libc_calloc(size_t n, size_t size);
void *__libc_realloc(void *p, size_t size);
void *__libc_memalign(size_t align, size_t size);

static bool memory, files, opens, stop;
static const char *when;
static unsigned long at, count;

static bool fails(bool on, int error)
{
	if (!on || (when && access(when, F_OK)) || ++count != at)
		return false;
	if (stop)
		abort();
	errno = error;
	return true;
}

__attribute__((constructor)) static void begin(void)
{
	const char *what = getenv("FAULT"), *n = getenv("FAULT_AT");

	when = getenv("FAULT_WHEN");
	at = n ? strtoul(n, NULL, 10) : 0;
	memory = what && !strcmp(what, "memory");
	files = what && !strcmp(what, "files");
	opens = what && !strcmp(what, "opens");
	stop = getenv("FAULT_ABORT") != NULL;
}

__attribute__((destructor)) static void end(void)
{
	const char *path = getenv("FAULT_COUNT");
	unsigned long n = count;
	FILE *f;

	memory = files = opens = false;
	f = path ? fopen(path, "w") : NULL;
	if (f) {
		fprintf(f, "%lu\n", n);
		fclose(f);
	}
}

/* ---- memory --------------------------------------------------------------------------------- */

void *malloc(size_t size)
{
	return fails(memory, ENOMEM) ? NULL : __libc_malloc(size);
}

void *calloc(size_t n, size_t size)
{
	return fails(memory, ENOMEM) ? NULL : __libc_calloc(n, size);
}

void *realloc(void *p, size_t size)
{
	return fails(memory, ENOMEM) ? NULL : __libc_realloc(p, size);
}

void *reallocarray(void *p, size_t n, size_t size)
{
	if (size && n > SIZE_MAX / size) {
		errno = ENOMEM;
		return NULL;
	}
	return realloc(p, n * size);
}

int posix_memalign(void **p, size_t align, size_t size)
{
	if (fails(memory, ENOMEM))
		return ENOMEM;
	*p = __libc_memalign(align, size);
	return *p ? 0 : ENOMEM;
}

void *aligned_alloc(size_t align, size_t size)
{
	return fails(memory, ENOMEM) ? NULL : __libc_memalign(align, size);
}

/* ---- files ---------------------------------------------------------------------------------- */

#define NEXT(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))

/* Returns true if @fd writes to a regular file. */
static bool regular(int fd)
{
	struct stat st;

	return files && fd > 2 && (fcntl(fd, F_GETFL) & O_ACCMODE) != O_RDONLY && !fstat(fd, &st) &&
	       S_ISREG(st.st_mode);
}

static mode_t mode_of(int flags, va_list ap)
{
	return flags & (O_CREAT | O_TMPFILE) ? va_arg(ap, mode_t) : 0;
}

int open(const char *path, int flags, ...)
{
	va_list ap;
	mode_t mode;

	va_start(ap, flags);
	mode = mode_of(flags, ap);
	va_end(ap);
	return fails(flags & (O_WRONLY | O_RDWR) ? files : opens, EMFILE)
		       ? -1
		       : NEXT(open)(path, flags, mode);
}

int mkostemp(char *name, int flags)
{
	return fails(files, EACCES) ? -1 : NEXT(mkostemp)(name, flags);
}

FILE *fdopen(int fd, const char *mode)
{
	return fails(files, ENOMEM) ? NULL : NEXT(fdopen)(fd, mode);
}

FILE *fopen(const char *path, const char *mode)
{
	return fails(*mode == 'r' ? opens : files, EMFILE) ? NULL : NEXT(fopen)(path, mode);
}

ssize_t write(int fd, const void *buf, size_t n)
{
	return regular(fd) && fails(files, ENOSPC) ? -1 : NEXT(write)(fd, buf, n);
}

int fsync(int fd)
{
	return fails(files, EIO) ? -1 : NEXT(fsync)(fd);
}

int fchmod(int fd, mode_t mode)
{
	return fails(files, EPERM) ? -1 : NEXT(fchmod)(fd, mode);
}

int rename(const char *from, const char *to)
{
	return fails(files, EROFS) ? -1 : NEXT(rename)(from, to);
}

int linkat(int a, const char *from, int b, const char *to, int flags)
{
	return fails(files, EDQUOT) ? -1 : NEXT(linkat)(a, from, b, to, flags);
}

/* A network's file system may report a full disk only now. The file is closed. */
int close(int fd)
{
	bool fail = regular(fd) && fails(files, ENOSPC);
	int ret = NEXT(close)(fd);

	errno = fail ? ENOSPC : errno;
	return fail ? -1 : ret;
}

int fclose(FILE *f)
{
	bool fail = files && regular(fileno(f)) && fails(files, ENOSPC);
	int ret = NEXT(fclose)(f);

	errno = fail ? ENOSPC : errno;
	return fail ? EOF : ret;
}
