/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Names of guest addresses, from the image files that the server says its VMs run. The names are as
 * good as those files: an address stays a number if it is outside of every function, if the guest
 * loaded other code, or if the image cannot be read.
 */
#ifndef CLI_IMAGES_H
#define CLI_IMAGES_H

#include <stdint.h>

#include "cgroup/cli/client.h"

struct images;

/* images_load - ask the server for the images of its VMs. A file's symbols are read when they are
 * first needed; a file that cannot be read is an error line, once. NULL after an error was printed.
 */
struct images *images_load(struct client *c);
/* images_refresh - ask again. VMs that are gone stay known. -1 after an error was printed. */
int images_refresh(struct images *im, struct client *c);
/* images_free - NULL is allowed. */
void images_free(struct images *im);

/* images_function - write the name of the function of @vm that @address is in to @buf, or the
 * address in hex; returns @buf. @vm NULL: in hex. The name has printable ASCII only, and no blanks.
 */
#define ADDRESS_LEN 256
const char *images_function(struct images *im, const char *vm, uint64_t address,
			    char buf[ADDRESS_LEN]);
/* images_place - as images_function, with the offset: "fib+0x12". */
const char *images_place(struct images *im, const char *vm, uint64_t address,
			 char buf[ADDRESS_LEN]);

#endif
