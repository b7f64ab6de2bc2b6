/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * libvirt, loaded on demand: vpmud also runs on hosts without it. virt_worker.c calls it. The list
 * must contain only functions that read.
 */
#pragma once

#include <libvirt/libvirt.h>
#include <libvirt/virterror.h>

/* X(function): each is a function of libvirt, and a pointer of its type in struct virt_lib. */
#define VIRT_FUNCTIONS(X)                                                                          \
	X(virInitialize)                                                                           \
	X(virSetErrorFunc)                                                                         \
	X(virGetLastErrorMessage)                                                                  \
	X(virGetLastErrorCode)                                                                     \
	X(virEventRegisterDefaultImpl)                                                             \
	X(virEventRunDefaultImpl)                                                                  \
	X(virConnectOpenReadOnly)                                                                  \
	X(virConnectClose)                                                                         \
	X(virConnectSetKeepAlive)                                                                  \
	X(virConnectRegisterCloseCallback)                                                         \
	X(virConnectUnregisterCloseCallback)                                                       \
	X(virConnectDomainEventRegisterAny)                                                        \
	X(virConnectDomainEventDeregisterAny)                                                      \
	X(virConnectListAllDomains)                                                                \
	X(virDomainLookupByUUIDString)                                                             \
	X(virDomainGetUUIDString)                                                                  \
	X(virDomainGetXMLDesc)                                                                     \
	X(virDomainIsActive)                                                                       \
	X(virDomainFree)

struct virt_lib {
#define X(f) __typeof__(&f) f;
	VIRT_FUNCTIONS(X)
#undef X
};

/*
 * virt_lib_load - load libvirt once, with a thread that runs its event loop as long as the process
 * lives. Returns NULL and one line in @err if it is missing. Any thread.
 */
const struct virt_lib *virt_lib_load(char *err, size_t errlen);
