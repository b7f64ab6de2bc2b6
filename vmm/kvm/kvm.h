/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The interface of the KVM engine beyond vmm/engine/engine.h, for tests and `check`. Other users
 * need only vmm_kvm_ops.
 */
#pragma once

#include <signal.h>

#include "vmm/engine/engine.h"

/*
 * The signal that takes a vCPU thread out of KVM_RUN (kick). The engine installs a handler that
 * does nothing, without SA_RESTART, and unblocks the signal in each thread that calls run().
 * Nothing else in the process may use it. A delayed one may interrupt a slow system call of that
 * thread (EINTR).
 */
#define VMM_KVM_KICK_SIGNAL (SIGRTMIN + 4)

/* No slot of guest RAM may reach into the last 2 MiB below 4 GiB: KVM's own pages are there (vm.c).
 */
#define VMM_KVM_RESERVED 0xffe00000ull

/* vmm_kvm_open_path - vmm_kvm_ops.open with another device file than /dev/kvm. */
int vmm_kvm_open_path(const char *path, struct vmm_engine **e, char *why, size_t why_len);
