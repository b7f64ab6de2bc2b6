// SPDX-License-Identifier: LGPL-2.1-or-later
/*
 * See text.h. The bytes 0F 33 also occur inside other instructions and in data, about once in 64
 * KiB. Rewriting those would corrupt the guest. x86 code decoded from a wrong start soon
 * resynchronizes. So nearly all of many starts before a real instruction reach it, and nearly none
 * reach bytes inside another instruction.
 */
#include <string.h>

#include "vpmu/kvm/port.h"
#include "vpmu/kvm/text.h"

const uint8_t kvm_text_rdpmc[2] = {0x0f, 0x33};
const uint8_t kvm_text_in[2] = {0xe5, KVM_PORT_RDPMC};

/* SHL RDX,32, with which the kernel joins the two halves. */
static const uint8_t shl_rdx[4] = {0x48, 0xc1, 0xe2, 0x20};

/* Decode from each byte that is SETTLE to STARTS bytes before the candidate. */
#define STARTS 96
#define SETTLE 32
/* This percentage of starts must reach it, of at least VOTES_MIN that decode. */
#define AGREE_PERCENT 70
#define VOTES_MIN     16
/* SHL RDX,32 ends within this many bytes behind it. */
#define SHL_WITHIN KVM_TEXT_SHL_WITHIN

void kvm_text_init(struct kvm_text *t, const uint8_t *data, uint64_t bytes)
{
	t->data = data;
	t->bytes = bytes;
	ZydisDecoderInit(&t->decoder, ZYDIS_MACHINE_MODE_LONG_64, ZYDIS_STACK_WIDTH_64);
}

/* Decode from @start until @at is reached or passed. Returns the end of the last instruction; 0:
 * invalid bytes. */
static uint64_t text_decode(const struct kvm_text *t, uint64_t start, uint64_t at)
{
	ZydisDecodedInstruction insn;

	while (start < at) {
		if (!ZYAN_SUCCESS(ZydisDecoderDecodeInstruction(&t->decoder, NULL, t->data + start,
								t->bytes - start, &insn)))
			return 0;
		start += insn.length;
	}
	return start;
}

/* Displacements and the like need not be instructions: a start there that does not decode has no
 * vote. */
bool kvm_text_is_instruction(const struct kvm_text *t, uint64_t at)
{
	unsigned int votes = 0, met = 0;

	for (uint64_t back = SETTLE; back <= STARTS && back <= at; back++) {
		uint64_t end = text_decode(t, at - back, at);

		votes += end != 0;
		met += end == at;
	}
	/* At the beginning of the text there are too few starts. */
	return votes >= VOTES_MIN && met * 100 >= votes * AGREE_PERCENT;
}

bool kvm_text_shl_follows(const struct kvm_text *t, uint64_t at)
{
	uint64_t end = at + sizeof(kvm_text_rdpmc) + SHL_WITHIN;
	ZydisDecodedInstruction insn;

	for (at += sizeof(kvm_text_rdpmc); at + sizeof(shl_rdx) <= end && at < t->bytes;
	     at += insn.length) {
		if (t->bytes - at >= sizeof(shl_rdx) &&
		    !memcmp(t->data + at, shl_rdx, sizeof(shl_rdx)))
			return true;
		if (!ZYAN_SUCCESS(ZydisDecoderDecodeInstruction(&t->decoder, NULL, t->data + at,
								t->bytes - at, &insn)))
			return false;
	}
	return false;
}
