// SPDX-License-Identifier: GPL-2.0-or-later
/* A part of test_discover: users of KVM other than QEMU, vpmu-vmm, and the cgroups of VMs. */
#include "discover_bed.h"

static void kvm_process(int pid, const char *comm, int vcpus)
{
	bed_process(&(struct bed_process){.pid = pid, .comm = comm, .cmdline = comm});
	bed_link(pid, 3, "/dev/kvm");
	bed_link(pid, 4, "anon_inode:kvm-vm");
	for (int i = 0; i < vcpus; i++) {
		char to[40];

		snprintf(to, sizeof(to), "anon_inode:kvm-vcpu:%d", i);
		bed_link(pid, 10 + i, to);
	}
}

#if defined(__x86_64__)
#define IOCTL "16"
#else
#define IOCTL "29"
#endif
#define RUNS(fd) IOCTL " " fd " 0xae80 0x0 0x0 0x55d5b5110290 0x0 0x7fe2ce157530 0x7fe2d00ded6b\n"

Test(discover, firecracker)
{
	kvm_process(10, "firecracker", 2);
	bed_thread(10, 11, "fc_vcpu 0", 1001, 0, NULL);
	bed_thread(10, 12, "fc_vcpu 1", 1002, 0, NULL);
	bed_thread(10, 13, "fc_api", 1003, 0, NULL);
	expect_seen(VM_LINE("added", "kvm firecracker-10", "10/1000", "0:11/1001,1:12/1002"));
	/* It ends its VM, and lives on. */
	unlink(bed_path("proc/10/fd/4"));
	expect_seen(VM_LINE("removed", "kvm firecracker-10", "10/1000", "0:11/1001,1:12/1002"));
}

/* A VM appears in a process that was there before: its memory map grows. */
Test(discover, kvm_is_opened_late)
{
	bed_process(&(struct bed_process){.pid = 10, .comm = "vmm", .cmdline = "vmm"});
	for (int i = 0; i < 4; i++)
		expect_seen("");
	kvm_process(10, "vmm", 1);
	bed_process(&(struct bed_process){
		.pid = 10, .comm = "vmm", .cmdline = "vmm", .vsize = 1 << 30});
	bed_thread(10, 11, "vcpu0", 1001, 0, NULL);
	expect_seen(VM_LINE("added", "kvm vmm-10", "10/1000", "0:11/1001"));
}

Test(discover, kvm_users_that_have_no_vm)
{
	bed_process(&(struct bed_process){.pid = 10, .comm = "a", .cmdline = "a"});
	bed_link(10, 3, "/dev/kvm");
	bed_process(&(struct bed_process){.pid = 20, .comm = "b", .cmdline = "b"});
	bed_link(20, 3, "/tmp/anon_inode:kvm-vm");
	bed_process(&(struct bed_process){.pid = 30, .comm = "c", .cmdline = "c"});
	bed_link(30, 3, "anon_inode:kvm-vmx");
	expect_seen("");
}

/* Unnamed threads are recognized by the vCPU that they run. */
Test(discover, vcpus_by_system_call)
{
	kvm_process(10, "vmm", 3);
	bed_thread(10, 11, "vmm", 1001, 0, RUNS("0xb"));
	bed_thread(10, 12, "vmm", 1002, 0, RUNS("0xa"));
	bed_thread(10, 13, "vmm", 1003, 0, "running\n");
	/* Made by the kernel, with its maker's system call and without a stack. */
	bed_thread(10, 14, "kvm-nx-lpage-re", 1004, 0,
		   IOCTL " 0xc 0xae80 0x0 0x0 0x55d5b5110290 0x0 0x0 0x0\n");
	/* Other calls, other descriptors. */
	bed_thread(10, 15, "vmm", 1005, 0, IOCTL " 0xc 0xae81 0x0 0x0 0x5 0x0 0x7f 0x7f\n");
	bed_thread(10, 16, "vmm", 1006, 0, "0 0xc 0xae80 0x0 0x0 0x5 0x0 0x7f 0x7f\n");
	bed_thread(10, 17, "vmm", 1007, 0, RUNS("0x3"));
	expect_seen(VM_LINE("added", "kvm vmm-10", "10/1000", "0:12/1002,1:11/1001"));
	/* A known thread stays known while it runs; and the last one shows itself. */
	bed_thread(10, 12, "vmm", 1002, 0, "running\n");
	bed_thread(10, 13, "vmm", 1003, 0, RUNS("0xc"));
	expect_seen(VM_LINE("changed", "kvm vmm-10", "10/1000", "0:12/1002,1:11/1001,2:13/1003"));
	/* But not for another thread of the same tid, and not without the vCPU. */
	bed_thread(10, 12, "vmm", 8888, 0, "running\n");
	unlink(bed_path("proc/10/fd/11"));
	expect_seen(VM_LINE("changed", "kvm vmm-10", "10/1000", "2:13/1003"));
}

/* The last vCPU is the last thread that has run a guest. Two would be a guess. */
Test(discover, vcpus_by_elimination)
{
	kvm_process(10, "vmm", 2);
	bed_thread(10, 11, "vmm", 1001, 5, "running\n");
	bed_thread(10, 12, "vmm", 1002, 5, "running\n");
	expect_seen(VM_LINE("added", "kvm vmm-10", "10/1000", ""));
	bed_thread(10, 12, "vmm", 1002, 5, RUNS("0xa"));
	expect_seen(VM_LINE("changed", "kvm vmm-10", "10/1000", "0:12/1002,1:11/1001"));
}

Test(discover, vcpus_that_stay_unknown_are_noted_once)
{
	kvm_process(10, "vmm", 2);
	bed_thread(10, 11, "vmm", 1001, 0, "running\n");
	bed_scan();
	for (int i = 0; i < 3; i++)
		expect_seen("");
	expect_seen("note process 10: it is not known yet which threads run 2 of its 2 vCPUs; "
		    "QEMU's -name debug-threads=on shows it at once\n");
	for (int i = 0; i < 40; i++)
		expect_seen("");
}

Test(discover, qemu_without_names_of_threads)
{
	bed_process(&(struct bed_process){.pid = 10, .cmdline = "qemu-system-x86_64 -name web"});
	bed_link(10, 9, "anon_inode:kvm-vm");
	bed_link(10, 10, "anon_inode:kvm-vcpu:0");
	bed_thread(10, 11, "qemu-system-x86", 1001, 0, RUNS("0xa"));
	expect_seen(VM_LINE("added", "qemu web", "10/1000", "0:11/1001"));
}

/* ---- vpmu-vmm ---- */

Test(discover, vpmu_vmm_and_its_socket)
{
	static const char unix_sockets[] =
		"Num       RefCount Protocol Flags    Type St Inode Path\n"
		"0000000000000000: 00000002 00000000 00010000 0001 01 700 /run/other.sock\n"
		"0000000000000000: 00000003 00000000 00000000 0001 03 701 /run/client.sock\n"
		"0000000000000000: 00000002 00000000 00010000 0001 01 702 @abstract\n"
		"0000000000000000: 00000002 00000000 00010000 0001 01 703\n"
		"0000000000000000: 00000002 00000000 00010000 0001 01 704 a b/vpmu.sock\n";

	/* Its VMs are not queried: their name is its process's, their place its
	 * cgroup. */
	bed_mkdir(bed_path("cgroup/acme"));
	bed_process(&(struct bed_process){.pid = 10,
					  .comm = "vpmu-vmm",
					  .cmdline = "vpmu-vmm --vm name=web,tenant=/globex",
					  .cgroup = "0::/acme\n"});
	bed_mkdir(bed_path("proc/10/net"));
	bed_write(bed_path("proc/10/net/unix"), unix_sockets, sizeof(unix_sockets) - 1);
	cr_assert(!symlink("/home/me", bed_path("proc/10/cwd")));
	bed_thread(10, 11, "CPU 0/KVM", 1001, 0, NULL);
	bed_thread(10, 12, "CPU 1/KVM", 1002, 0, NULL);
	expect_seen("added vpmu-vmm vpmu-vmm-10 uuid=- id=10/1000 cgroup=/acme tenant=- socket=- "
		    "vcpus=0:11/1001,1:12/1002\n");
	for (int i = 701; i <= 704; i++) {
		char to[32];

		snprintf(to, sizeof(to), "socket:[%d]", i);
		bed_link(10, i, to);
	}
	/* It is looked for again, but not each time. */
	for (int i = 0; i < 2; i++) {
		const char *got = bed_scan();

		if (!*got)
			continue;
		cr_expect_str_eq(got, "changed vpmu-vmm vpmu-vmm-10 uuid=- id=10/1000 cgroup=/acme "
				      "tenant=- socket=/home/me/a b/vpmu.sock "
				      "vcpus=0:11/1001,1:12/1002\n");
		return;
	}
	cr_assert_fail("the socket is not found");
}

/* ---- cgroups ---- */

Test(discover, cgroups)
{
	static const struct {
		int line;
		const char *file, *shown, *dir;
	} rows[] = {
		{__LINE__, "0::/a/b\n", "/a/b", "cgroup/a/b"},
		{__LINE__, "9:name=systemd:/x\n1:cpu:/\n0::/a\n", "/a", "cgroup/a"},
		{__LINE__, "0::/\n", "/", "cgroup"},
		{__LINE__, "0::/machine.slice/m.scope/libvirt/emulator\n", "/machine.slice/m.scope",
		 "cgroup/machine.slice/m.scope"},
		{__LINE__, "0::/machine/qemu-1-a.libvirt-qemu/emulator\n",
		 "/machine/qemu-1-a.libvirt-qemu", "cgroup/machine/qemu-1-a.libvirt-qemu"},
		{__LINE__, "0::/a/emulator\n", "/a/emulator", NULL},
		{__LINE__, "0::/gone (deleted)\n", "/gone (deleted)", NULL},
		{__LINE__, "0::/../b\n", "-", NULL},
		{__LINE__, "0::/a\x1b\n", "-", NULL},
		{__LINE__, "0::/cut", "-", NULL},
		{__LINE__, "1:cpu:/\n", "-", NULL},
		{__LINE__, "", "-", NULL},
	};

	bed_mkdir(bed_path("cgroup/a"));
	bed_mkdir(bed_path("cgroup/a/b"));
	bed_mkdir(bed_path("cgroup/machine.slice"));
	bed_mkdir(bed_path("cgroup/machine.slice/m.scope"));
	bed_mkdir(bed_path("cgroup/machine"));
	bed_mkdir(bed_path("cgroup/machine/qemu-1-a.libvirt-qemu"));
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		char want[256];
		const char *got;

		bed_qemu(10, 1000 + i, QEMU_WEB);
		bed_write(bed_path("proc/10/cgroup"), rows[i].file, strlen(rows[i].file));
		snprintf(want, sizeof(want), " cgroup=%s tenant", rows[i].shown);
		got = bed_scan();
		cr_expect(strstr(got, want), "line %d: got %s", rows[i].line, got);
		bed_end(10);
		bed_scan();
	}
	/* It is moved. */
	bed_qemu(10, 1, "qemu-system-x86_64");
	bed_scan();
	bed_write(bed_path("proc/10/cgroup"), "0::/a\n", 6);
	expect_seen("changed qemu qemu-10 uuid=- id=10/1 cgroup=/a tenant=- socket=- "
		    "vcpus=0:11/2,1:12/3\n");
}

static uint64_t last_cgroup_id;

static void take_id(void *arg, const struct disc_vm *vm)
{
	last_cgroup_id = vm->cgroup_id;
}

Test(discover, cgroup_ids)
{
	struct disc_ops ops = {take_id, take_id, take_id, bed_note};
	struct stat st;

	bed_mkdir(bed_path("cgroup/a"));
	bed_qemu(10, 1, QEMU_WEB);
	bed_write(bed_path("proc/10/cgroup"), "0::/a\n", 6);
	disc_close(bed.d);
	cr_assert_eq(disc_open(bed.event,
			       &(struct disc_opts){.proc = bed_path("proc"),
						   .cgroup_root = bed_path("cgroup")},
			       &ops, NULL, &bed.d),
		     0);
	bed_scan();
	cr_assert(!stat(bed_path("cgroup/a"), &st));
	cr_expect_eq(last_cgroup_id, st.st_ino);
	/* Removed and made again: another cgroup of the same name. */
	cr_assert(!rename(bed_path("cgroup/a"), bed_path("cgroup/b")));
	bed_scan();
	cr_expect_eq(last_cgroup_id, 0);
	bed_mkdir(bed_path("cgroup/a"));
	bed_scan();
	cr_assert(!stat(bed_path("cgroup/a"), &st));
	cr_expect_eq(last_cgroup_id, st.st_ino);
}

Test(discover, cgroup2_is_missing)
{
	struct disc_opts o = {.proc = "/proc", .cgroup_root = "/nonexistent"};

	disc_close(bed.d);
	bed_open(&o);
	cr_expect_str_eq(bed_seen(), "note /nonexistent: No such file or directory; VMs are shown "
				     "without the ids of their cgroups\n");
}
