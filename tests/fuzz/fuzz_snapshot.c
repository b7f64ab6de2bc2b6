// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Hostile snapshots: the section of one vCPU's PMU, and files of whole VMs. The bytes are the
 * input, or a good snapshot with the input's patches, so that deep checks are met without a corpus;
 * the CRC of a file is made right. A refused file must have changed nothing; one that is loaded
 * must be exactly as its bytes, must run, and must then be a state that can move again - a guest
 * that brings itself into one that cannot would be tied to its host.
 */
#include <fcntl.h>
#include <unistd.h>
#include <zlib.h>

#include "tests/elf_image.h"
#include "tests/fuzz/fuzz_machine.h"
#include "tests/unit/bz_image.h"
#include "tests/unit/guest_bed.h"
#include "vpmu/guest/save.h"

/* Patches: offset (3 bytes), how many (1..8), bytes. Most go below @deep. */
static void patch(uint8_t *to, size_t len, size_t deep, const uint8_t *data, size_t size)
{
	while (size >= 5) {
		size_t at = data[0] | (size_t)data[1] << 8 | (size_t)data[2] << 16;
		size_t n = data[3] % 8 + 1;

		at %= data[3] & 0x80 ? len : deep;
		data += 4;
		size -= 4;
		for (; n-- && size && at < len; at++, data++, size--)
			to[at] = *data;
	}
}

/* ---- the PMU of a vCPU -------------------------------------------------------------------------
 */

static const struct vpmu_policy policy = {.tier = VPMU_POLICY_ARCHITECTURAL};

static const struct vpmu_guest_cfg cfgs[] = {
	{.model = VPMU_GUEST_INTEL_V2},
	{.model = VPMU_GUEST_INTEL_V3, .gp = 4, .fixed = 2},
	{.model = VPMU_GUEST_INTEL_V4},
	{.model = VPMU_GUEST_INTEL_V5, .fixed = 4},
	{.model = VPMU_GUEST_INTEL_V5, .policy = &policy},
	{.model = VPMU_GUEST_AMD_K7},
	{.model = VPMU_GUEST_AMD_CORE},
	{.model = VPMU_GUEST_AMD_V2},
	{.model = VPMU_GUEST_NONE},
};

#define NR_CFGS (sizeof(cfgs) / sizeof(cfgs[0]))

static struct vpmu_blob guest_saved(struct bed *b)
{
	struct vpmu_blob blob = {0};

	CHECK(!vpmu_guest_save(b->g, &blob), "cannot be saved");
	return blob;
}

/* Registers in use, branch records made: the base of patches. */
static void guest_busy(struct bed *b)
{
	struct vpmu_emu_tally *t;

	vpmu_guest_wrmsr(b->g, 0x186, 0x5300c0);
	vpmu_guest_wrmsr(b->g, 0xc0010000, 0x5300c0);
	vpmu_guest_wrmsr(b->g, 0x38d, 0xb);
	vpmu_guest_wrmsr(b->g, 0x38f, 0x100000001ULL);
	vpmu_guest_wrmsr(b->g, 0xc1, -20ULL);
	vpmu_guest_wrmsr(b->g, 0xc0010004, -20ULL);
	vpmu_guest_wrmsr(b->g, 0x14ce, VPMU_LBR_EN | VPMU_LBR_USR | VPMU_LBR_TYPES);
	vpmu_guest_wrmsr(b->g, 0xc000010f, 0x40);
	bed_enter(b, 0);
	bed_exec(b, VPMU_EMU_USR, VPMU_EMU_INSTRUCTIONS, 100);
	bed_time(b, 100);
	t = b->sp[0].tally;
	for (uint64_t i = 0; (t->lbr.ctl & VPMU_LBR_EN) && i < 5; i++) {
		t->lbr.head = (uint8_t)(t->lbr.head + 1) % VPMU_LBR_DEPTH_MAX;
		t->lbr.e[t->lbr.head] = (struct vpmu_lbr_entry){0x400000 + i, 0x500000 + i, 1};
		t->lbr.count++;
		t->lbr.total++;
	}
	bed_unplace(b);
}

static void guest_runs(struct bed *b, const uint8_t *data, size_t size)
{
	uint64_t val;

	bed_enter(b, 0);
	for (unsigned int i = 0; i < 4; i++) {
		bed_exec(b, VPMU_EMU_USR, VPMU_EMU_INSTRUCTIONS, 1000);
		bed_exec(b, VPMU_EMU_OS, VPMU_EMU_BRANCHES, 300);
		bed_time(b, 1000);
		vpmu_pcpu_overflow(b->pcpu[0]);
		if (vpmu_guest_pending(b->g))
			vpmu_guest_service(b->g);
	}
	for (uint32_t n = 0; n < 32; n++) {
		vpmu_guest_rdmsr(b->g, 0x1500 + n, &val);
		vpmu_guest_rdmsr(b->g, 0xc0010300 + n, &val);
		vpmu_guest_rdmsr(b->g, 0xc0010200 + n, &val);
		vpmu_guest_rdmsr(b->g, 0x38d + n % 8, &val);
		if (n < size)
			vpmu_guest_wrmsr(b->g, 0xc1 + data[n] % 8, data[n]);
	}
	bed_unplace(b);
}

static void fuzz_guest(const uint8_t *data, size_t size)
{
	static struct bed bed;
	static bool made;
	const struct vpmu_guest_cfg *cfg;
	struct vpmu_blob_reader r;
	struct vpmu_blob before, after;
	uint8_t *copy;
	char err[200] = "";
	size_t len;
	int ret;

	if (!made)
		bed_host(&bed, NULL);
	made = true;
	cfg = &cfgs[data[0] % NR_CFGS];
	CHECK(!bed_vcpu(&bed, cfg), "configuration");
	guest_busy(&bed);
	before = guest_saved(&bed);
	if (data[0] & 0x80) {
		len = size - 1;
		copy = malloc(len ? len : 1);
		memcpy(copy, data + 1, len);
	} else {
		len = before.len;
		copy = malloc(len);
		memcpy(copy, before.data, len);
		patch(copy, len, len, data + 1, size - 1);
	}
	r = (struct vpmu_blob_reader){.data = copy, .len = len};
	ret = vpmu_guest_load(bed.g, &r, err, sizeof(err));
	after = guest_saved(&bed);
	if (ret) {
		CHECK(*err, "refused without a word");
		CHECK(after.len == before.len && !memcmp(after.data, before.data, after.len),
		      "refused (%s), but something changed", err);
	} else {
		CHECK(after.len == r.at && !memcmp(after.data, copy, after.len),
		      "taken as something else");
		vpmu_blob_fini(&after);
		guest_runs(&bed, data, size);
		after = guest_saved(&bed);
		r = (struct vpmu_blob_reader){.data = after.data, .len = after.len};
		CHECK(!vpmu_guest_load(bed.g, &r, err, sizeof(err)), "cannot move again: %s", err);
	}
	vpmu_blob_fini(&before);
	vpmu_blob_fini(&after);
	free(copy);
	bed_vcpu_fini(&bed);
	urcu_memb_barrier(); /* memory that waits for a grace period is no leak */
}

/* ---- whole VMs ---------------------------------------------------------------------------------
 */

static uint8_t *file;
/* A file of a VM with an image, and one of a VM with a kernel. */
static struct good {
	uint8_t *data;
	size_t bytes, deep; /* of the file; where its RAM begins */
} goods[2];

static void on_console(const struct machine_vm *vm, unsigned int vcpu, const char *line, size_t len,
		       void *arg)
{
}

/* Programs the PMU, records branches, prints, without end. */
static const uint8_t guest_code[] = {
	0xb9, 0x86, 0x01, 0x00, 0x00, 0xb8, 0xc0, 0x00, 0x53, 0x00, 0x31, 0xd2, 0x0f, 0x30, 0xb9,
	0xce, 0x14, 0x00, 0x00, 0xb8, 0x07, 0x00, 0x7f, 0x00, 0x0f, 0x30, 0x66, 0xba, 0xf8, 0x03,
	0xb0, 0x78, 0xee, 0xb9, 0x00, 0x01, 0x00, 0x00, 0xff, 0xc9, 0x75, 0xfc, 0xeb, 0xee,
};

static int image_fd(void)
{
	struct {
		Elf64_Ehdr eh;
		Elf64_Phdr ph;
		uint8_t code[sizeof(guest_code)];
	} f = {
		.eh = elf_program(VPMU_BOOT_IMAGE + offsetof(__typeof__(f), code), 1),
		.ph = elf_segment(PF_R | PF_X, VPMU_BOOT_IMAGE, 0, sizeof(f)),
	};
	int fd = memfd_create("image", MFD_CLOEXEC);

	memcpy(f.code, guest_code, sizeof(guest_code));
	CHECK(write(fd, &f, sizeof(f)) == sizeof(f), "image");
	return fd;
}

/* A kernel that does the same, with interrupts on and a byte that it has not read. */
static int kernel_fd(void)
{
	static struct bz_vmlinux k;
	int fd = memfd_create("kernel", MFD_CLOEXEC);

	bz_vmlinux(&k);
	memcpy(k.text + 0x40, guest_code, sizeof(guest_code));
	CHECK(write(fd, &k, sizeof(k)) == sizeof(k), "kernel");
	return fd;
}

/* A VM of these keys has run for a while: its file. */
static void make_good(struct good *g, const char *keys, int fd, const char *input)
{
	struct machine_vm *vm = add_vm(keys, fd, input);

	CHECK(machine_step(machine, 20) == 20, "the good VM does not run");
	g->bytes = write_vm(vm);
	machine_vm_remove(vm);
	close(fd);
	g->data = malloc(g->bytes);
	read_file(g->data, g->bytes);
	for (g->deep = SNAP_HEAD; memcmp(g->data + g->deep, "RAMP", 4);)
		g->deep += SNAP_SECTION_HEAD + (g->data[g->deep + 8] | g->data[g->deep + 9] << 8);
}

static void make_goods(void)
{
	make_machine(300);
	file = malloc(FILE_MAX);
	make_good(&goods[0], "vcpus=2,memory=4M,image", image_fd(), NULL);
	make_good(&goods[1], "vcpus=2,memory=32M,kernel", kernel_fd(), "xy");
}

static void run(struct machine_vm *vm)
{
	char err[500];

	CHECK(!machine_vm_start(vm, err, sizeof(err)), "%s", err);
	machine_step(machine, 8);
	machine_reap(machine);
}

static void fuzz_file(const uint8_t *data, size_t size)
{
	struct machine_vm *vm = NULL;
	const struct good *g;
	char err[500] = "";
	size_t len;
	uint32_t crc;
	int ret;

	if (!machine)
		make_goods();
	g = &goods[data[0] >> 4 & 1];
	if (data[0] & 0x80) {
		len = size - 1 < FILE_MAX - 4 ? size - 1 : FILE_MAX - 4;
		memcpy(file, data + 1, len);
		len += 4;
	} else {
		len = g->bytes;
		memcpy(file, g->data, len);
		patch(file, len, g->deep, data + 1, size - 1);
		if (data[0] & 0x40 && size > 3)
			len = 4 + (data[1] | data[2] << 8) % (len - 4);
	}
	if (!(data[0] & 0x20)) {
		crc = (uint32_t)crc32_z(0, file, len - 4);
		for (int i = 0; i < 4; i++)
			file[len - 4 + i] = (uint8_t)(crc >> 8 * i);
	}
	CHECK(!ftruncate(file_fd, 0) && pwrite(file_fd, file, len, 0) == (ssize_t)len, "file");
	ret = snapshot_restore(machine, file_fd, "snapshot", &said, &vm, err, sizeof(err));
	CHECK(!ret == !*err, "%d \"%s\"", ret, err);
	CHECK(!ret == !!machine_vms(machine), "refused, and there is a VM: %s", err);
	if (ret)
		return;
	run(vm);
	if (vm->vm && !vm_failing(vm->vm)) {
		write_vm(vm);
		machine_vm_remove(vm);
		ret = snapshot_restore(machine, file_fd, "snapshot", &said, &vm, err, sizeof(err));
		CHECK(!ret, "cannot move again: %s", err);
		run(vm);
	}
	machine_vm_remove(vm);
	/* libFuzzer looks for leaks after this run: on a busy machine call_rcu may be late. */
	urcu_memb_barrier();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static unsigned int runs;

	if (!runs++) {
		urcu_memb_register_thread();
		atexit(urcu_memb_barrier); /* what waits at exit is no leak, but looks like one */
	}
	if (size < 2)
		return 0;
	if (data[0] & 1)
		fuzz_guest(data + 1, size - 1);
	else
		fuzz_file(data + 1, size - 1);
	if (!(runs % 512))
		urcu_memb_barrier();
	return 0;
}
