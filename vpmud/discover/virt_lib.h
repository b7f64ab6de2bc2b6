/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * libvirt, loaded when it is wanted: vpmud runs on hosts that do not have it. Only what reads is
 * here. virt_worker.c calls it.
 */
#ifndef VPMUD_DISCOVER_VIRT_LIB_H
#define VPMUD_DISCOVER_VIRT_LIB_H

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
 * virt_lib_load - libvirt, with a thread that runs its event loop for as long as the process lives.
 * NULL: it is not there, and @err says why in one line. Any thread; it is loaded once.
 */
const struct virt_lib *virt_lib_load(char *err, size_t errlen);

#endif
