/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Finds RDPMC in machine code: search.c in a running kernel, vmm/boot/rdpmc.c in an image. Two
 * things must be true of it: code decoded from different starts before it reaches it as an
 * instruction, and SHL RDX,32 follows, as in the kernel's native_read_pmc(). Pure.
 */
#pragma once

#include <Zydis/Zydis.h>
#include <stdbool.h>
#include <stdint.h>

/* RDPMC, and the instruction of the same length that stands for it: IN EAX,33H. */
extern const uint8_t kvm_text_rdpmc[2], kvm_text_in[2];

/* Bytes behind the instruction within which SHL RDX,32 ends. */
#define KVM_TEXT_SHL_WITHIN 12

struct kvm_text {
	const uint8_t *data;
	uint64_t bytes;
	ZydisDecoder decoder;
};

void kvm_text_init(struct kvm_text *t, const uint8_t *data, uint64_t bytes);

/* kvm_text_is_instruction - returns true if most starts before @at reach the bytes there.
 * kvm_text_shl_follows - returns true if SHL RDX,32 soon follows the instruction at @at. */
bool kvm_text_is_instruction(const struct kvm_text *t, uint64_t at);
bool kvm_text_shl_follows(const struct kvm_text *t, uint64_t at);
