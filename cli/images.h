/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Finds names for addresses: of guests, from the image files that the server reports for its VMs or
 * from a kernel's list of symbols; of the host's kernel; and of the host's processes (processes.h).
 * Names are as good as those files: an
 * address stays a number if it is outside of every function, such as in code that the guest loaded
 * itself, or if the image is unreadable.
 */
#pragma once

#include <stdint.h>

#include "cli/client.h"
#include "cli/processes.h"
#include "cli/symbols.h"

struct images;

/* images_load - request the images of the server's VMs. A file's symbols are read on first use; an
 * unreadable file causes one error line. NULL after an error was printed. */
struct images *images_load(struct client *c);
/* images_refresh - request them again. VMs that are gone are kept. -1 after an error was
 * printed. */
int images_refresh(struct images *im, struct client *c);
/* images_free - NULL is allowed. */
void images_free(struct images *im);

/* images_guest_file - use the copy of a guest's /proc/kallsyms in @arg, "FILE" for all VMs or
 * "VM=FILE". -1 after an error was printed. */
int images_guest_file(struct images *im, const char *arg);

/* Return the function at @address, and its offset in it; NULL: unknown. images_image - from the
 * VM's image. images_guest_kernel - from --guestkallsyms, else from the image. images_host_kernel -
 * from this host's /proc/kallsyms. */
const char *images_image(struct images *im, const char *vm, uint64_t address, uint64_t *offset);
const char *images_guest_kernel(struct images *im, const char *vm, uint64_t address,
				uint64_t *offset);
const char *images_host_kernel(struct images *im, uint64_t address, uint64_t *offset);

/* images_processes - the processes of the server's host. images_look - processes_look() of them. */
struct processes *images_processes(const struct images *im);
void images_look(struct images *im);

/* images_path - the image of @vm as reported by the server; NULL: none. It belongs to @im. */
const char *images_path(const struct images *im, const char *vm);

/* images_tenant - the path of the tenant that has @vm, as images_path. */
const char *images_tenant(const struct images *im, const char *vm);

/* images_is_thread - returns true if the server counts @vm as threads of the host (backend bpf). */
bool images_is_thread(const struct images *im, const char *vm);

/* images_segment - as symbols_segment(), for the image of @vm. */
bool images_segment(struct images *im, const char *vm, size_t i, struct segment *out);

/* images_pid - the process of @vm as reported by the server; 0: none. */
unsigned int images_pid(const struct images *im, const char *vm);

/* images_spell - write @name, with *@offset if not NULL ("fib+0x12"), or @address in hex if @name
 * is NULL, to @buf; returns @buf. The text is printable ASCII without blanks. */
#define ADDRESS_LEN 256
const char *images_spell(const char *name, const uint64_t *offset, uint64_t address,
			 char buf[ADDRESS_LEN]);
