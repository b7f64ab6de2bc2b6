// SPDX-License-Identifier: GPL-2.0-or-later
/* The seeds that stock kernels get from vmm/machine/vms.c: a run of the emulator repeats them, and
 * no two kernels of a run have the same. */
#include "bz_image.h"
#include "snapshot_bed.h"

TestSuite(machine_seed, .init = snapshot_setup, .fini = snapshot_teardown);

#define SEED_BYTES BOOT_RNG_SEED_BYTES

/* Boot VM @name, and remove it. @seed is what its kernel finds. */
static void boot(const char *name, uint8_t seed[SEED_BYTES])
{
	const uint8_t *node;

	make_vm("name=%s,memory=64M,engine=emulator,pmu=amd-v2,kernel=%s", name, image_path);
	node = vm->vm->ram.base + LINUX_RNG_SEED;
	cr_assert_eq(get_u32(node + LINUX_SETUP_DATA_TYPE), LINUX_SETUP_RNG_SEED);
	memcpy(seed, node + LINUX_SETUP_DATA_DATA, SEED_BYTES);
	machine_vm_remove(vm);
}

/* The same host again, with another --seed. */
static void again(uint64_t seed)
{
	machine_destroy(machine);
	config.host.seed = seed;
	snapshot_machine();
}

Test(machine_seed, repeats)
{
	uint8_t seed[5][SEED_BYTES], repeated[SEED_BYTES];
	struct bz_vmlinux kernel;
	FILE *out = fopen(image_path, "w");

	bz_vmlinux(&kernel);
	cr_assert(out && fwrite(&kernel, sizeof(kernel), 1, out) == 1 && !fclose(out));
	boot("a", seed[0]);
	boot("a", seed[1]); /* booted again */
	boot("b", seed[2]);
	again(config.host.seed + 1);
	boot("a", seed[3]);
	again(config.host.seed - 1);
	boot("b", seed[4]);
	for (int i = 0; i < 5; i++)
		for (int j = 0; j < i; j++)
			for (int w = 0; w < SEED_BYTES; w += 8)
				cr_assert(memcmp(seed[i] + w, seed[j] + w, 8), "%d and %d", i, j);
	again(config.host.seed);
	for (int i = 0; i < 3; i++) {
		boot(i < 2 ? "a" : "b", repeated);
		cr_assert(!memcmp(repeated, seed[i], SEED_BYTES), "boot %d", i);
	}
}
