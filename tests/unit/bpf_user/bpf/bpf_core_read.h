/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Stands in for libbpf's header of this name: the structs of btf.h are the kernel's. */
#ifndef TESTS_UNIT_BPF_USER_BPF_BPF_CORE_READ_H
#define TESTS_UNIT_BPF_USER_BPF_BPF_CORE_READ_H

#include <stddef.h>

#define bpf_core_field_exists(type, member)	(offsetof(type, member) + 1 != 0)
#define bpf_core_field_offset(type, member)	offsetof(type, member)
#define bpf_core_type_id_kernel(type)		((__u32)sizeof(type))
#define bpf_core_enum_value_exists(type, value) ((value) + 1 != 0)
#define bpf_core_enum_value(type, value)	(value)

#endif
