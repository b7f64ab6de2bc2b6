// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Files of whole VMs that request more than their VM may have, or that belong elsewhere: only the
 * operator's values count.
 */
#include "bz_image.h"
#include "snapshot_bed.h"

TestSuite(snapshot_trust, .init = snapshot_setup, .fini = snapshot_teardown);

/* ---- a file that asks for more than its VM had --------------------------------------------------
 */

static void put_pair(struct vpmu_blob *b, const char *key, const char *value)
{
	vpmu_blob_u16(b, (uint16_t)strlen(key));
	vpmu_blob_bytes(b, key, strlen(key));
	vpmu_blob_u16(b, (uint16_t)strlen(value));
	vpmu_blob_bytes(b, value, strlen(value));
}

/* @b with a CONF section in which the keys of @edit (key, value, ..., NULL) are replaced or added;
 * a value "" takes the key away. The CRC is right. */
static struct bytes forged(struct bytes b, const char *const *edit)
{
	size_t at = SNAP_HEAD, bytes, section;
	struct vpmu_blob_reader r = {.data = b.data, .len = b.len, .at = at + 8};
	struct vpmu_blob out = {0};
	char key[4096], value[4096];
	uint16_t n;

	bytes = vpmu_blob_get_u32(&r);
	r = (struct vpmu_blob_reader){.data = b.data + at + SNAP_SECTION_HEAD, .len = bytes};
	vpmu_blob_bytes(&out, b.data, SNAP_HEAD);
	section = vpmu_blob_begin(&out, SNAP_CONF, 1);
	while (r.at < r.len) {
		bool replaced = false;

		n = vpmu_blob_get_u16(&r);
		vpmu_blob_get_bytes(&r, key, n);
		key[n] = 0;
		n = vpmu_blob_get_u16(&r);
		vpmu_blob_get_bytes(&r, value, n);
		value[n] = 0;
		for (const char *const *e = edit; *e; e += 2)
			replaced |= !strcmp(*e, key);
		if (!replaced)
			put_pair(&out, key, value);
	}
	for (const char *const *e = edit; *e; e += 2)
		if (*e[1])
			put_pair(&out, e[0], e[1]);
	vpmu_blob_end(&out, section);
	at += SNAP_SECTION_HEAD + bytes;
	vpmu_blob_bytes(&out, b.data + at, b.len - at);
	cr_assert(!out.failed);
	fix_crc(out.data, out.len);
	return (struct bytes){out.data, out.len};
}

/* An honest file of a VM that was given little. */
static struct bytes poor_file(void)
{
	static const char *const conf[] = {"policy", "architectural", "tenant", "/mallory",
					   "deny",   "branches",      NULL};

	return forged(*good_file("intel-v4", 10), conf);
}

Test(snapshot_trust, a_file_asks_for_more)
{
	static const char *const rich[] = {"policy",  "full", "memory", "64G", "tenant",
					   "/victim", "deny", "",	NULL};
	static const char *const list[] = {"allow", "branches", "deny", "", NULL};
	static const char *const kvm[] = {"engine", "kvm", NULL};
	static const char *const any[] = {"engine", "auto", NULL};
	static const struct {
		int line;
		const char *const *edit; /* NULL: the honest file */
		struct snapshot_said said;
		const char *says; /* of the refusal; NULL: loaded */
		const char *tenant;
		const char *deny; /* beside the file's policy, architectural */
	} cases[] = {
		{__LINE__, NULL, {.tenant = "/mallory"}, .tenant = "/mallory", .deny = "branches"},
		{__LINE__, NULL, {.trust = true}, .tenant = "/mallory", .deny = "branches"},
		{__LINE__, NULL, {.name = "x"}, .says = "the file requests tenant=/mallory; "},
		/* The file's policy is a limit, too, and the narrower one counts. */
		{__LINE__,
		 NULL,
		 {.tenant = "/b", .policy = "full"},
		 .tenant = "/b",
		 .deny = "branches"},
		{__LINE__,
		 NULL,
		 {.tenant = "/b", .deny = "loads"},
		 .tenant = "/b",
		 .deny = "loads"},
		{__LINE__, NULL, {.tenant = "/b", .memory = "2M"}, .says = "\"2M\" is invalid"},
		{__LINE__, NULL, {.tenant = "/b", .policy = "some"}, .says = "\"some\" is invalid"},
		/* On KVM the host's kernel works on the file's state. */
		{__LINE__, kvm, {.tenant = "/b"}, .says = "the file requests engine=kvm; "},
		{__LINE__,
		 kvm,
		 {.tenant = "/b", .engine = "emulator"},
		 .says = "engine: emulator is invalid; expected kvm, that of the file"},
		{__LINE__,
		 any,
		 {.trust = true},
		 .says = "engine auto is invalid; expected emulator or kvm"},
		/* From "architectural, 4M, /mallory" into "full, 64G, /victim". */
		{__LINE__,
		 rich,
		 {.name = "x"},
		 .says = "the file requests policy=full memory=65536M tenant=/victim; expected "},
		{__LINE__,
		 rich,
		 {.tenant = "/mallory"},
		 .says = "the file requests policy=full memory=65536M; "},
		{__LINE__,
		 rich,
		 {.tenant = "/mallory", .policy = "architectural"},
		 .says = "the file requests memory=65536M; "},
		{__LINE__,
		 rich,
		 {.tenant = "/a", .policy = "full", .memory = "4M"},
		 .says = "the file requests memory=65536M; "},
		{__LINE__,
		 rich,
		 {.trust = true, .memory = "4M"},
		 .says = "the file requests memory=65536M; "},
		/* A list of allowed events takes the place of the policy. */
		{__LINE__, list, {.tenant = "/a"}, .says = "the file requests allow=branches; "},
		{__LINE__,
		 list,
		 {.trust = true, .policy = "architectural"},
		 .says = "the file requests allow=branches; "},
	};
	struct bytes poor = poor_file();

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct bytes f = cases[i].edit ? forged(poor, cases[i].edit) : poor;
		int ret = restore_as(f.data, f.len, &cases[i].said);

		if (cases[i].says) {
			cr_assert_neq(ret, 0, "line %d", cases[i].line);
			cr_assert(strstr(err, cases[i].says), "line %d: %s", cases[i].line, err);
			cr_assert_null(machine_vms(machine), "line %d", cases[i].line);
		} else {
			cr_assert_eq(ret, 0, "line %d: %s", cases[i].line, err);
			cr_assert_str_eq(vm->node->parent->path, cases[i].tenant, "line %d",
					 cases[i].line);
			cr_assert_eq(vm->policy, VPMU_POLICY_ARCHITECTURAL, "line %d",
				     cases[i].line);
			cr_assert_str_eq(vm->deny, cases[i].deny, "line %d", cases[i].line);
			machine_vm_remove(vm);
		}
		if (f.data != poor.data)
			free(f.data);
	}
	free(poor.data);
}

/* The VM's rights at its destination are set there and in no file, however it is trusted. */
Test(snapshot_trust, what_belongs_to_the_operator)
{
	static const char *const forgeries[][3] = {
		{"weight", "10000", NULL},     {"tenant_weight", "10000", NULL},
		{"max_events", "56", NULL},    {"tenant_max_events", "56", NULL},
		{"console", "/tmp/x/y", NULL}, {"svm", "yes", NULL},
	};
	const struct snapshot_said trusted = {.trust = true};
	const struct snapshot_said said = {.trust = true,
					   .weight = "200",
					   .tenant_weight = "300",
					   .max_events = "3",
					   .tenant_max_events = "4"};
	const struct snapshot_said wrong = {.trust = true, .max_events = "57"};

	good_file("intel-v4", 10);
	for (size_t i = 0; i < sizeof(forgeries) / sizeof(forgeries[0]); i++) {
		struct bytes f = forged(b, forgeries[i]);

		cr_expect_eq(restore_as(f.data, f.len, &trusted), -EINVAL);
		cr_expect(strstr(err, forgeries[i][0]) && strstr(err, "no snapshot has"), "%s",
			  err);
		cr_assert_null(machine_vms(machine));
		free(f.data);
	}
	cr_expect_eq(restore_as(b.data, b.len, &wrong), -EINVAL);
	cr_expect(strstr(err, "\"57\" is invalid; expected 1 to 56"), "%s", err);
	cr_assert_eq(restore_as(b.data, b.len, &trusted), 0, "%s", err);
	cr_expect_eq(vm->weight, VM_WEIGHT_DEFAULT);
	cr_expect_eq(vm->max_events, VM_MAX_EVENTS);
	cr_expect_eq(machine_tenant_weight(vm), VM_WEIGHT_DEFAULT);
	machine_vm_remove(vm);
	cr_assert_eq(restore_as(b.data, b.len, &said), 0, "%s", err);
	cr_expect_eq(vm->weight, 200);
	cr_expect_eq(share_weight(&vm->vm->share), 200);
	cr_expect_eq(vm->vm->quota.max, 3);
	cr_expect_eq(machine_tenant_weight(vm), 300);
	cr_expect_eq(machine_tenant_max_events(vm), 4);
	machine_vm_remove(vm);
}

/* A full VM is narrowed to the operator's policy, and goes on. */
Test(snapshot_trust, a_policy_is_narrowed)
{
	const struct snapshot_said said = {.tenant = "/t", .policy = "standard"};

	good_file("intel-v4", 10);
	cr_assert_eq(restore_as(b.data, b.len, &(struct snapshot_said){.tenant = "/t"}), -EPERM);
	cr_assert(strstr(err, "the file requests policy=full; "), "%s", err);
	cr_assert_eq(restore_as(b.data, b.len, &said), 0, "%s", err);
	cr_assert_eq(vm->policy, VPMU_POLICY_STANDARD);
	cr_assert_eq(machine_vm_start(vm, err, sizeof(err)), 0);
	cr_assert_gt(machine_step(machine, 20), 0);
	machine_vm_remove(vm);
}

/* JSON could not carry it: `list` would fail for everybody. */
Test(snapshot_trust, an_image_that_is_no_text)
{
	static const char *const bad[] = {"/a\xff", "/a\xe2\x80\xae", "/\xc2\x9b",
					  "/a\nb",  "/\xc0\xaf",      "/\xed\xa0\x80"};

	good_file("intel-v4", 10);
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		const char *const edit[] = {"image", bad[i], NULL};
		struct bytes f = forged(b, edit);

		cr_assert_eq(restore(f.data, f.len), -EINVAL, "%zu", i);
		cr_assert(strstr(err, "not UTF-8, or control characters"), "%s", err);
		free(f.data);
	}
}

/* ---- where files are ----------------------------------------------------------------------------
 */

/* The message names both engines that can save. */
Test(snapshot_trust, engine_that_cannot_save)
{
	const struct vmm_engine_ops *was;
	struct vmm_engine_ops ops;

	good_file("intel-v4", 10);
	cr_assert_eq(restore(b.data, b.len), 0, "%s", err);
	was = vm->vm->ops;
	ops = *was;
	ops.can &= ~(unsigned int)VMM_CAN_SAVE;
	vm->vm->ops = &ops;
	cr_assert_eq(save(), -EOPNOTSUPP);
	cr_assert(strstr(err, "engine emulator cannot save its VMs; expected emulator or kvm"),
		  "%s", err);
	vm->vm->ops = was;
	machine_vm_remove(vm);
}

/* A VM with svm = yes is refused before it is paused, and runs on. Without it the same VM is saved.
 */
Test(snapshot_trust, svm_cannot_be_saved)
{
	struct bz_vmlinux kernel;
	struct image img;
	FILE *out = fopen(image_path, "w");

	bz_vmlinux(&kernel);
	memcpy(kernel.text + 0x40, (const uint8_t[]){0xeb, 0xfe}, 2); /* jmp itself */
	cr_assert(out && bz_image(BZ_GZIP, &kernel, sizeof(kernel), &img));
	cr_assert(fwrite(img.data, img.bytes, 1, out) == 1 && !fclose(out));
	image_free(&img);
	for (int svm = 0; svm < 2; svm++) {
		make_vm("name=k%d,memory=64M,engine=emulator,pmu=amd-v2,svm=%s,kernel=%s", svm,
			svm ? "yes" : "no", image_path);
		cr_assert_eq(machine_vm_start(vm, err, sizeof(err)), 0);
		cr_assert_eq(machine_step(machine, 10), 10);
		cr_assert_eq(save(), svm ? -EOPNOTSUPP : 0, "%s", err);
		if (svm) {
			cr_assert(strstr(err, "vm k1: svm = yes: the state of SVM cannot be saved"),
				  "%s", err);
			cr_assert_neq(access(file_path, F_OK), 0);
			cr_assert_eq(vm_state(vm->vm), VM_RUNNING);
			cr_assert_eq(machine_step(machine, 10), 10);
		}
		machine_vm_remove(vm);
		unlink(file_path);
	}
}

/* Nothing outside of the directory is opened or written, whatever the name says. */
Test(snapshot_trust, names_that_lead_out)
{
	static const char *const names[] = {
		"../snap",  "..",   ".",    "",	     "sub/../../snap", "/etc/passwd", "sub//snap",
		"out/snap", "sub/", "link", "sub/.", "sub/..",	       "dir",
	};
	char path[200];
	struct stat st;
	int at, fd;

	good_file("intel-v4", 10);
	cr_assert_eq(restore(b.data, b.len), 0, "%s", err);
	snprintf(path, sizeof(path), "%s/sub", dir);
	cr_assert_eq(mkdir(path, 0700), 0);
	snprintf(path, sizeof(path), "%s/sub/dir", dir);
	cr_assert_eq(mkdir(path, 0700), 0);
	snprintf(path, sizeof(path), "%s/sub/out", dir);
	cr_assert_eq(symlink(dir, path), 0);
	snprintf(path, sizeof(path), "%s/sub/link", dir);
	cr_assert_eq(symlink(file_path, path), 0);
	snprintf(path, sizeof(path), "%s/sub", dir);
	at = open(path, O_RDONLY | O_DIRECTORY);
	cr_assert_eq(unlink(file_path), 0);
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		cr_assert_lt(snapshot_save(vm, at, names[i], err, sizeof(err)), 0, "%s", names[i]);
		cr_assert_neq(stat(file_path, &st), 0, "%s", names[i]);
	}
	cr_assert_eq(save(), 0, "%s", err);
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		cr_assert_lt(snapshot_open(at, names[i], err, sizeof(err)), 0, "%s", names[i]);
	close(at);
	at = open(dir, O_RDONLY | O_DIRECTORY);
	cr_assert_eq(snapshot_save(vm, at, "sub/dir/a", err, sizeof(err)), 0, "%s", err);
	fd = snapshot_open(at, "sub/dir/a", err, sizeof(err));
	cr_assert(fd >= 0, "%s", err);
	close(fd);
	close(at);
	machine_vm_remove(vm);
	snprintf(path, sizeof(path), "rm -r %s/sub", dir);
	cr_assert_eq(system(path), 0);
}
