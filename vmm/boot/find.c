// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Finds the images that come with vpmu-vmm by name. vmm/config calls this for every "image" that is
 * set. It must not open the image: image_read (boot.c) does.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "vmm/boot/boot.h"

#define PLAIN "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_"

/* The folder of the running program, without the last '/'. */
static bool find_program_folder(char *buf, size_t len)
{
	ssize_t n = readlink("/proc/self/exe", buf, len - 1);

	if (n <= 0)
		return false;
	buf[n] = 0;
	*strrchr(buf, '/') = 0;
	return true;
}

char *image_find(const char *image)
{
	/* as installed, and in a build */
	static const char *const places[] = {"../lib/vpmu", "../guest"};
	char folder[4096], *path;

	if (image[strspn(image, PLAIN)] || !find_program_folder(folder, sizeof(folder)))
		return strdup(image);
	for (size_t i = 0; i < sizeof(places) / sizeof(places[0]); i++) {
		char *real;

		if (asprintf(&path, "%s/%s/%s.elf", folder, places[i], image) < 0)
			return NULL;
		real = realpath(path, NULL);
		free(path);
		if (real || errno == ENOMEM)
			return real;
	}
	return strdup(image);
}
