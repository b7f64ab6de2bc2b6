/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Which file descriptors are VMs and vCPUs of ours. Every ioctl() on KVM asks this table: a look-up
 * takes no lock, allocates nothing and makes no system call.
 *
 * A user holds a reference from fds_get to fds_put, but for KVM_RUN of a vCPU that the thread is
 * bound to (calls.c). A VMM that closes a descriptor which another thread still uses gets what the
 * kernel makes of that; the object is then never freed.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/* Descriptors from here on are not remembered: such a VM is left alone. */
#define FDS_MAX (1 << 20)

enum fds_kind { FDS_NONE = 0, FDS_VM, FDS_VCPU };

/* fds_get - returns the kind of @fd and its object in *@obj; unless FDS_NONE, fds_put must follow.
 * Any number is valid. Any thread. */
enum fds_kind fds_get(int fd, void **obj);
void fds_put(int fd);

/* fds_word - where the table has @fd, which is reserved, for ever; *@value: what is there while @fd
 * is @obj. For a caller that knows why @obj stays without a reference. Any thread. */
const uintptr_t *fds_word(int fd, enum fds_kind kind, const void *obj, uintptr_t *value);

/* fds_reserve - make room for @fd. 0; -ENOMEM; -EMFILE: @fd is too large. Any thread. */
int fds_reserve(int fd);

/* fds_set - remember @obj, aligned to 4 bytes, for @fd, which is reserved. If the table missed that
 * @fd was closed, the object that it had is forgotten, and never freed. Any thread. */
void fds_set(int fd, enum fds_kind kind, void *obj);

/* fds_next - returns the first remembered number from @fd on; -1: none. Any thread. */
int fds_next(unsigned int fd);

/* fds_take - forget @fd. Returns its kind and object; *@busy: a reference is held, so the object
 * must stay. Any thread. */
enum fds_kind fds_take(int fd, void **obj, bool *busy);
