// SPDX-License-Identifier: GPL-2.0-or-later
/* Where a guest's samples must be, see guest_truth.h. */
#include <fcntl.h>
#include <gelf.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "guest-tools/flow.h"
#include "guest-tools/workloads.h"
#include "guest_truth.h"
#include "machine_bed.h"

/*
 * Stands for sys_null_call (user.S): as many instructions of the same lengths, the second one where
 * that has SYSCALL.
 */
#define ECHO_SYSCALL 5
#define ECHO_BYTES   8
uint64_t guest_truth_echo(uint64_t arg);
__asm__(".text\n.globl guest_truth_echo\n.type guest_truth_echo, @function\n"
	"guest_truth_echo:\n	movl $0, %eax\n	movl %edi, %eax\n	ret\n");

uint64_t guest_symbol(const char *elf, const char *name)
{
	int fd = open(elf, O_RDONLY | O_CLOEXEC);
	uint64_t address = 0;
	Elf_Scn *scn = NULL;
	GElf_Shdr sh;
	Elf *e;

	bed_must(fd >= 0, "%s", elf);
	elf_version(EV_CURRENT);
	e = elf_begin(fd, ELF_C_READ, NULL);
	while ((scn = elf_nextscn(e, scn)) && gelf_getshdr(scn, &sh)) {
		Elf_Data *data = sh.sh_type == SHT_SYMTAB ? elf_getdata(scn, NULL) : NULL;
		GElf_Sym sym;

		for (int i = 0; data && gelf_getsym(data, i, &sym); i++) {
			const char *s = elf_strptr(e, sh.sh_link, sym.st_name);

			if (s && !strcmp(s, name))
				address = sym.st_value;
		}
	}
	elf_end(e);
	close(fd);
	bed_must(address, "%s: no symbol %s", elf, name);
	return address;
}

void guest_truth_open(struct guest_truth *t, const char *elf, const char *workload, uint64_t n)
{
	const struct workload *w = workload_find(workload, strlen(workload));
	size_t bytes = (workload_mem_bytes(w, n) + 63) & ~63ULL;
	void *mem = aligned_alloc(64, bytes ? bytes : 64);
	const uint64_t args[6] = {n, (uint64_t)(uintptr_t)mem, bytes,
				  (uint64_t)(uintptr_t)guest_truth_echo};
	bool flow = !strcmp(workload, "chain") || !strcmp(workload, "branches");
	/* Each object has one section of code, so all of it is as far away as one function. */
	uint64_t move =
		flow ? guest_symbol(elf, "workload_chain") - (uint64_t)(uintptr_t)workload_chain
		     : guest_symbol(elf, "workload_loop") - (uint64_t)(uintptr_t)workload_loop;
	uint64_t echo = (uint64_t)(uintptr_t)guest_truth_echo;
	uint64_t call = guest_symbol(elf, "user_call"), entry = guest_symbol(elf, "syscall_entry");
	uint64_t null_call = guest_symbol(elf, "sys_null_call");
	struct truth_steps steps = {0};
	struct truth truth;
	int rc = truth_steps((const void *)(uintptr_t)w->fn, args, &truth, &steps);

	bed_must(rc == 0, "%s: %s", workload, strerror(-rc));
	*t = (struct guest_truth){.workload = workload, .n = n, .nr = steps.nr + 2};
	t->step = calloc(t->nr, sizeof(*t->step));
	t->step[0].what = TRUTH_BRANCH | TRUTH_TAKEN | TRUTH_STORE;
	for (size_t i = 0; i < steps.nr; i++) {
		uint64_t rip = steps.s[i].rip, off = rip - echo;

		t->step[i].next = off < ECHO_BYTES ? null_call + off : rip + move;
		t->step[i].cpl = 3;
		t->step[i + 1].what = steps.s[i].what;
		if (i && steps.s[i - 1].rip - echo == ECHO_SYSCALL) {
			t->step[i].what = TRUTH_BRANCH | TRUTH_TAKEN;
			t->step[i].next = entry;
			t->step[i].cpl = 0;
		}
	}
	t->step[t->nr - 2].next = call + 2;
	t->step[t->nr - 2].cpl = 3;
	t->step[t->nr - 1].what = TRUTH_BRANCH | TRUTH_TAKEN;
	t->step[t->nr - 1].next = entry;
	free(steps.s);
	free(mem);
}

void guest_truth_close(struct guest_truth *t)
{
	free(t->step);
	t->step = NULL;
}

unsigned int guest_truth_mask(const char *event)
{
	static const struct {
		const char *event;
		unsigned int mask;
	} events[] = {
		{"instructions:u", 0},
		{"branches:u", TRUTH_BRANCH},
		{"branches-taken:u", TRUTH_TAKEN},
		{"loads:u", TRUTH_LOAD},
		{"stores:u", TRUTH_STORE},
	};

	for (size_t i = 0; i < sizeof(events) / sizeof(events[0]); i++)
		if (!strcmp(event, events[i].event))
			return events[i].mask;
	bed_must(false, "%s", event);
}

uint64_t guest_truth_count(const struct guest_truth *t, unsigned int mask)
{
	uint64_t count = 0;

	for (size_t i = 0; i < t->nr; i++)
		count += !mask || t->step[i].what & mask;
	return count;
}

const struct guest_step *guest_truth_at(const struct guest_truth *t, unsigned int mask,
					uint64_t count)
{
	if (!mask)
		return count && count <= t->nr ? &t->step[count - 1] : NULL;
	for (size_t i = 0; i < t->nr; i++)
		if (t->step[i].what & mask && !--count)
			return &t->step[i];
	return NULL;
}
