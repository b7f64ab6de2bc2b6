/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Names of addresses, of guests from the image files that the server says its VMs run or from a
 * kernel's list of symbols, and of the host's kernel. The names are as
 * good as those files: an address stays a number if it is outside of every function, if the guest
 * loaded other code, or if the image cannot be read.
 */
#ifndef CLI_IMAGES_H
#define CLI_IMAGES_H

#include <stdint.h>

#include "cli/client.h"
#include "cli/symbols.h"

struct images;

/* images_load - ask the server for the images of its VMs. A file's symbols are read when they are
 * first needed; a file that cannot be read is an error line, once. NULL after an error was printed.
 */
struct images *images_load(struct client *c);
/* images_refresh - ask again. VMs that are gone stay known. -1 after an error was printed. */
int images_refresh(struct images *im, struct client *c);
/* images_free - NULL is allowed. */
void images_free(struct images *im);

/* images_guest_file - take the names of guest kernels from @arg, "FILE" for all VMs or "VM=FILE": a
 * copy of the guest's /proc/kallsyms. -1 after an error was printed. */
int images_guest_file(struct images *im, const char *arg);

/* The function that @address is in, and the bytes from its start; NULL: not known.
 * images_image - by the VM's image. images_guest_kernel - by --guestkallsyms, else by the image.
 * images_host_kernel - by this host's /proc/kallsyms. */
const char *images_image(struct images *im, const char *vm, uint64_t address, uint64_t *offset);
const char *images_guest_kernel(struct images *im, const char *vm, uint64_t address,
				uint64_t *offset);
const char *images_host_kernel(struct images *im, uint64_t address, uint64_t *offset);

/* images_path - the image of @vm as the server says it; NULL: it says none. It belongs to @im. */
const char *images_path(const struct images *im, const char *vm);

/* images_tenant - the path of the tenant that has @vm, as images_path. */
const char *images_tenant(const struct images *im, const char *vm);

/* images_segment - as symbols_segment, of the image of @vm. */
bool images_segment(struct images *im, const char *vm, size_t i, struct segment *out);

/* images_pid - the process of @vm as the server says it; 0: it says none. */
unsigned int images_pid(const struct images *im, const char *vm);

/* images_spell - write @name, with *@offset if that is given ("fib+0x12"), or @address in hex if
 * @name is NULL, to @buf; returns @buf. It has printable ASCII only, and no blanks. */
#define ADDRESS_LEN 256
const char *images_spell(const char *name, const uint64_t *offset, uint64_t address,
			 char buf[ADDRESS_LEN]);

#endif
