// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Files of whole VMs that lie: every bit of what describes the VM changed, every byte of its RAM's
 * sections, every length, with and without the right CRC. Each is refused in one line with nothing
 * left behind, or is another VM, which runs.
 */
#include "snapshot_bed.h"

TestSuite(snapshot_file, .init = snapshot_setup, .fini = snapshot_teardown);

/* 1: another VM, which ran for a while; 0: refused. */
static int try(const uint8_t *data, size_t len)
{
	int ret = restore(data, len);

	if (ret) {
		cr_assert(*err && !strchr(err, '\n') && strlen(err) < 490, "%d \"%s\"", ret, err);
		cr_assert(ret == -EINVAL || ret == -EOPNOTSUPP || ret == -ENOMEM, "%d %s", ret,
			  err);
		cr_assert(!machine_vms(machine), "%s: and there is a VM", err);
		return 0;
	}
	cr_assert_eq(machine_vm_start(vm, err, sizeof(err)), 0, "%s", err);
	machine_step(machine, 6);
	machine_reap(machine);
	machine_vm_remove(vm);
	return 1;
}

/* Where the sections of @b that describe the VM end. */
static size_t described(const struct bytes *b)
{
	size_t at = SNAP_HEAD;

	while (memcmp(b->data + at, "RAMP", 4))
		at += SNAP_SECTION_HEAD + (b->data[at + 8] | b->data[at + 9] << 8);
	return at;
}

Test(snapshot_file, comes_back)
{
	static const char *const models[] = {"intel-v5", "amd-v2", "none"};

	for (unsigned int i = 0; i < 3; i++) {
		struct bytes again;

		good_file(i ? models[i] : models[0], i ? 1 : 40);
		cr_assert_eq(restore(b.data, b.len), 0, "%s", err);
		cr_assert_str_eq(vm->name, "good");
		cr_assert_str_eq(vm->node->path, "/t");
		cr_assert_str_eq(vm->args, "a b");
		cr_assert_eq(vm->vcpus, 2);
		cr_assert_eq(machine_vm_state(vm), VM_PAUSED);
		cr_assert_eq(save(), 0, "%s", err);
		again = read_file(file_path);
		cr_assert(again.len == b.len && !memcmp(again.data, b.data, b.len),
			  "saved again, it is another file");
		machine_vm_remove(vm);
		free(again.data);
	}
}

/* Every register that kvm_regs and kvm_sregs have comes back. Each has a value of its own, other
 * than those of a new vCPU. */
Test(snapshot_file, every_register_comes_back)
{
	const struct vmm_engine_ops *o = &vmm_emu_ops;
	struct kvm_segment *segs[8];
	struct kvm_sregs s, s2;
	struct kvm_regs r, r2;

	write_image(true);
	make_vm("name=good,vcpus=1,memory=4M,engine=emulator,image=%s", image_path);
	cr_assert_eq(o->get_sregs(vm->vm->vcpus[0].ev, &s), 0);
	segs[0] = &s.cs, segs[1] = &s.ds, segs[2] = &s.es, segs[3] = &s.fs;
	segs[4] = &s.gs, segs[5] = &s.ss, segs[6] = &s.tr, segs[7] = &s.ldt;
	for (unsigned int i = 0; i < 8; i++) {
		segs[i]->base = 0x1111000 * (i + 1);
		segs[i]->limit = 0x1000 + i;
		segs[i]->selector = (uint16_t)(8 * i + 8);
		segs[i]->type = (uint8_t)(i + 1);
		segs[i]->avl = i & 1;
		segs[i]->g = !(i & 1);
	}
	s.gdt.base = 0x5000;
	s.gdt.limit = 0x123;
	s.idt.base = 0x6000;
	s.idt.limit = 0x234;
	s.cr0 = 0x8005003b;
	s.cr2 = 0x7123456789ab;
	s.cr3 = 0x23000;
	s.cr4 = 0x1006a0;
	s.cr8 = 9;
	s.efer = 0xd01;
	s.apic_base |= 0xc00;
	s.interrupt_bitmap[1] = 1ULL << 35;
	cr_assert_eq(o->set_sregs(vm->vm->vcpus[0].ev, &s), 0);
	cr_assert_eq(o->get_regs(vm->vm->vcpus[0].ev, &r), 0);
	for (unsigned int i = 0; i < sizeof(r) / 8 - 1; i++)
		((uint64_t *)&r)[i] = 0x0123456789abcdefULL * (i + 3);
	r.rip = 0x123456;
	r.rflags = 0x8d7; /* what BTC of all arithmetic flags leaves */
	cr_assert_eq(o->set_regs(vm->vm->vcpus[0].ev, &r), 0);
	cr_assert_eq(o->get_sregs(vm->vm->vcpus[0].ev, &s), 0);
	cr_assert_eq(o->get_regs(vm->vm->vcpus[0].ev, &r), 0);
	cr_assert_eq(s.cr2, 0x7123456789ab);
	cr_assert_eq(s.interrupt_bitmap[1], 1ULL << 35);

	cr_assert_eq(save(), 0, "%s", err);
	machine_vm_remove(vm);
	b = read_file(file_path);
	cr_assert_eq(restore(b.data, b.len), 0, "%s", err);
	cr_assert_eq(o->get_sregs(vm->vm->vcpus[0].ev, &s2), 0);
	cr_assert_eq(o->get_regs(vm->vm->vcpus[0].ev, &r2), 0);
	for (size_t i = 0; i < sizeof(s); i++)
		cr_expect_eq(((uint8_t *)&s)[i], ((uint8_t *)&s2)[i], "byte %zu of kvm_sregs", i);
	for (size_t i = 0; i < sizeof(r) / 8; i++)
		cr_expect_eq(((uint64_t *)&r)[i], ((uint64_t *)&r2)[i], "word %zu of kvm_regs", i);
	machine_vm_remove(vm);
}

/* RAM that was never touched, or is zero, is not in the file. */
Test(snapshot_file, zero_pages_are_left_out)
{
	good_file("intel-v5", 10);
	cr_assert_lt(b.len, 100000, "%zu bytes of a VM that uses some pages of 4 MiB", b.len);
}

static void put_le(uint8_t *to, uint64_t x, unsigned int bytes)
{
	for (unsigned int i = 0; i < bytes; i++)
		to[i] = (uint8_t)(x >> 8 * i);
}

/* Nobody writes such a file: all of RAM is in it, and zero. The VM has no memory for it. */
Test(snapshot_file, zero_pages_take_no_memory)
{
	const size_t ram = 4 << 20, run = SNAP_RUN_PAGES * SNAP_PAGE;
	size_t at = described(good_file("none", 10)), len = at, resident = 0;
	unsigned char in_core[1024];
	uint8_t *f = calloc(1, at + ram + 4096);

	cr_assert(f);
	memcpy(f, b.data, at);
	for (size_t gpa = 0; gpa < ram; gpa += run) {
		put_le(f + len, SNAP_RAMP, 4);
		f[len + 4] = 1;
		put_le(f + len + 8, 8 + run, 4);
		put_le(f + len + 12, gpa, 8);
		len += SNAP_SECTION_HEAD + 8 + run;
	}
	put_le(f + len, SNAP_END, 4);
	f[len + 4] = 1;
	put_le(f + len + 8, 8, 4);
	put_le(f + len + 12, ram / SNAP_PAGE, 8);
	len += SNAP_SECTION_HEAD + 8 + 4;
	fix_crc(f, len);
	cr_assert_eq(restore(f, len), 0, "%s", err);
	cr_assert_eq(vmm_ram_bytes(&vm->vm->ram), ram);
	cr_assert_eq(mincore(vm->vm->ram.base, ram, in_core), 0);
	for (size_t i = 0; i < ram / SNAP_PAGE; i++)
		resident += in_core[i] & 1;
	cr_expect_eq(resident, 0, "%zu pages", resident);
	machine_vm_remove(vm);
	free(f);
}

/* The plain build shows which bits are refused. For AddressSanitizer a bit of each byte is enough.
 */
#ifdef VPMU_FEWER
enum { EVERY_BIT = 7 };
#else
enum { EVERY_BIT = 1 };
#endif

Test(snapshot_file, every_bit_of_the_description)
{
	size_t end = described(good_file("intel-v5", 40));
	unsigned int taken = 0, refused = 0;
	uint8_t *copy = malloc(b.len);

	for (size_t bit = 0; bit < 8 * end; bit += EVERY_BIT) {
		memcpy(copy, b.data, b.len);
		copy[bit / 8] ^= (uint8_t)(1u << bit % 8);
		if (bit % 8 < EVERY_BIT)
			cr_assert(!try(copy, b.len), "wrong CRC, byte %zu", bit / 8);
		fix_crc(copy, b.len);
		if (try(copy, b.len))
			taken++;
		else
			refused++;
	}
	fprintf(stderr, "# %zu bytes: %u flipped bits refused, %u make another VM (%u ended)\n",
		end, refused, taken, vms_ended);
	cr_assert(taken > 1000 && refused > 1000);
	free(copy);
}

Test(snapshot_file, every_byte_of_ram_sections)
{
	size_t at = described(good_file("amd-v2", 1));
	unsigned int taken = 0, refused = 0;
	uint8_t *copy = malloc(b.len);

	while (at < b.len) {
		uint32_t bytes = 0, step;

		memcpy(copy, b.data, b.len);
		memcpy(&bytes, b.data + at + 8, 4);
		/* heads and addresses all, of the pages some; the end all */
		for (size_t i = 0; i < SNAP_SECTION_HEAD + bytes && at + i < b.len - 4; i += step) {
			step = i < 20 || memcmp(b.data + at, "RAMP", 4) ? 1 : 97;
			for (unsigned int x = 1; x < 256; x = 2 * x + 1) {
				copy[at + i] = b.data[at + i] ^ (uint8_t)x;
				fix_crc(copy, b.len);
				if (try(copy, b.len))
					taken++;
				else
					refused++;
			}
			copy[at + i] = b.data[at + i];
		}
		at += SNAP_SECTION_HEAD + bytes;
		if (at + 4 >= b.len)
			break;
	}
	fprintf(stderr, "# %u changes refused, %u make another VM\n", refused, taken);
	cr_assert(taken > 100 && refused > 100);
	free(copy);
}

Test(snapshot_file, every_length)
{
	uint8_t *longer = calloc(1, good_file("intel-v4", 1)->len + 8);

	for (size_t len = 0; len < b.len; len += len < 4000 || b.len - len < 200 ? 1 : 61) {
		cr_assert(!try(b.data, len), "cut to %zu of %zu", len, b.len);
		if (len >= 4) { /* as if it ended there */
			memcpy(longer, b.data, len);
			fix_crc(longer, len);
			cr_assert(!try(longer, len), "cut to %zu of %zu, with a CRC", len, b.len);
		}
	}
	memcpy(longer, b.data, b.len);
	for (size_t more = 1; more <= 8; more++)
		cr_assert(!try(longer, b.len + more));
	cr_assert(try(longer, b.len));
	free(longer);
}

/* ---- RAM sections that reach where they must not ---- */

Test(snapshot_file, ram_addresses)
{
	static const struct {
		int line;
		uint64_t gpa;
		bool ok;
	} rows[] = {
		{__LINE__, 0, true},
		{__LINE__, 1, false},
		{__LINE__, 0x800, false},
		{__LINE__, 4 << 20, false},
		{__LINE__, (4 << 20) - 4096, false}, /* its pages do not fit there */
		{__LINE__, ~0ULL << 12, false},
		{__LINE__, 1ULL << 63, false},
		{__LINE__, 1ULL << 40, false},
		{__LINE__, 3 << 20, false}, /* the next section is below it */
	};
	size_t at = described(good_file("intel-v5", 1));

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		put_le(b.data + at + 12, rows[i].gpa, 8);
		fix_crc(b.data, b.len);
		cr_assert_eq(try(b.data, b.len), rows[i].ok, "line %d", rows[i].line);
	}
}

/* A VM of which a vCPU has ended goes on without it; one of which all have is none. */
Test(snapshot_file, ended_vcpus)
{
	size_t at = SNAP_HEAD, rest, drop;

	good_file("intel-v5", 4);
	for (unsigned int n = 1; n <= 2; n++) {
		/* the next vCPU's section becomes {id, exited, status 0} */
		do
			at += SNAP_SECTION_HEAD + (b.data[at + 8] | b.data[at + 9] << 8);
		while (memcmp(b.data + at, "VCPU", 4));
		drop = (size_t)(b.data[at + 8] | b.data[at + 9] << 8) - 9;
		rest = b.len - (at + SNAP_SECTION_HEAD + 9 + drop);
		b.data[at + SNAP_SECTION_HEAD + 4] = VCPU_EXITED;
		put_le(b.data + at + 8, 9, 4);
		memmove(b.data + at + SNAP_SECTION_HEAD + 9,
			b.data + at + SNAP_SECTION_HEAD + 9 + drop, rest);
		b.len -= drop;
		fix_crc(b.data, b.len);
		if (n == 2)
			break;
		cr_assert_eq(restore(b.data, b.len), 0, "%s", err);
		cr_assert_eq(atomic_load(&vm->vm->live), 1);
		cr_assert_eq(machine_vm_start(vm, err, sizeof(err)), 0);
		cr_assert_eq(machine_step(machine, 10), 10);
		machine_vm_remove(vm);
	}
	cr_assert_eq(restore(b.data, b.len), -EINVAL);
	cr_assert(strstr(err, "every vCPU of the snapshot has ended"), "%s", err);
}
