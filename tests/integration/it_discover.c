// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * vpmud/discover on this host: a QEMU that gets another vCPU, domains of libvirt's embedded
 * driver, a vpmu-vmm. Other VMs may come and go in that time; a test looks at those of its own
 * names. QEMU executes its guest's firmware by TCG, so neither /dev/kvm nor an image is needed for
 * it.
 */
#include "tests/integration/it_discover_bed.h"

/* ---- QEMU ---- */

/* Two commands of QEMU's protocol QMP on the socket @path: hello, and @command. */
static void monitor(const char *path, const char *command)
{
	struct sockaddr_un sa = {.sun_family = AF_UNIX};
	int fd = socket(AF_UNIX, SOCK_STREAM, 0), answers = 0;
	struct timeval limit = {.tv_sec = HANGS_S};
	char text[512], buf[4096] = "";
	size_t n = 0;

	strcpy(sa.sun_path, path);
	cr_assert(!setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit)));
	cr_assert(!connect(fd, (struct sockaddr *)&sa, sizeof(sa)), "%s: %m", path);
	snprintf(text, sizeof(text), "{\"execute\": \"qmp_capabilities\"}%s", command);
	cr_assert_eq(write(fd, text, strlen(text)), (ssize_t)strlen(text));
	while (answers < 2) {
		ssize_t got = read(fd, buf + n, sizeof(buf) - 1 - n);

		cr_assert_gt(got, 0, "%s: %m", buf);
		n += (size_t)got;
		buf[n] = 0;
		cr_assert(!strstr(buf, "\"error\""), "%s", buf);
		answers = 0;
		for (const char *p = buf; (p = strstr(p, "\"return\"")); p++)
			answers++;
	}
	close(fd);
}

Test(discover, qemu_gets_a_vcpu)
{
	char name[128], mon[256], path[128];
	char *const argv[] = {QEMU,
			      "-accel",
			      "tcg",
			      "-name",
			      name,
			      "-uuid",
			      "00112233-4455-6677-8899-AABBCCDDEEFF",
			      "-smp",
			      "1,maxcpus=2,sockets=2,cores=1,threads=1",
			      "-m",
			      "32",
			      "-display",
			      "none",
			      "-nodefaults",
			      "-qmp",
			      mon,
			      NULL};
	struct disc_vcpu first;

	if (!installed(QEMU)) {
		teardown();
		cr_skip_test("%s is not installed", QEMU);
	}
	snprintf(name, sizeof(name), "guest=%s,debug-threads=on", seen.want);
	snprintf(path, sizeof(path), "%s/mon", dir);
	snprintf(mon, sizeof(mon), "unix:%s,server=on,wait=off", path);
	discover(NULL);
	run(argv);
	wait_until(seen.there && seen.nr_vcpus == 1);
	cr_expect_str_eq(seen.kind, "qemu");
	cr_expect_str_eq(seen.uuid, "00112233-4455-6677-8899-aabbccddeeff");
	cr_expect_eq(seen.pid, child);
	cr_expect_eq(seen.vcpus[0].index, 0);
	cr_expect_neq(seen.vcpus[0].tid, child);
	first = seen.vcpus[0];
	monitor(path, "{\"execute\": \"device_add\", \"arguments\": {\"driver\": "
		      "\"qemu64-x86_64-cpu\", \"id\": \"c1\", \"socket-id\": 1, "
		      "\"core-id\": 0, \"thread-id\": 0}}");
	wait_until(seen.nr_vcpus == 2);
	cr_expect_eq(seen.vcpus[0].tid, first.tid);
	cr_expect_eq(seen.vcpus[0].start_time, first.start_time);
	cr_expect_eq(seen.vcpus[1].index, 1);
	/* Whoever looks only now sees the same. */
	disc_close(d);
	seen.there = false;
	seen.nr_vcpus = 0;
	discover(NULL);
	cr_assert_eq(disc_scan(d), 0);
	cr_expect(seen.there);
	cr_expect_eq(seen.nr_vcpus, 2);
	/* A zombie is gone, too: it is waited for later. */
	end_child();
	wait_until(seen.removed);
	cr_expect_eq(seen.pid, child);
}

/* ---- vpmu-vmm ---- */

Test(discover, vpmu_vmm)
{
	bool kvm = !access("/dev/kvm", R_OK | W_OK);
	char vm[256], path[128];
	char *const argv[] = {VPMU_VMM, "--hold", "--socket", path, "--vm", vm, NULL};

	snprintf(path, sizeof(path), "%s/s", dir);
	snprintf(vm, sizeof(vm), "name=a,image=%s,vcpus=2,engine=%s,args=run -r 0 loop 1000",
		 VPMU_GUEST, kvm ? "kvm" : "emulator");
	discover(NULL);
	run(argv);
	seen.pid = child;
	wait_until(seen.there && seen.socket[0] && (!kvm || seen.nr_vcpus == 2));
	cr_expect_str_eq(seen.kind, "vpmu-vmm");
	cr_expect_str_eq(seen.socket, path);
	if (!kvm)
		printf("# SKIP vCPU threads of the KVM engine: no usable /dev/kvm\n");
	killed = true;
	kill(child, SIGTERM);
	wait_until(seen.removed);
}

/* Its vCPUs have never run: which threads they will have nothing shows, but how many there are. */
Test(discover, vcpus_without_threads)
{
	int kvm = open("/dev/kvm", O_RDWR | O_CLOEXEC), vm;

	if (kvm < 0 || (vm = ioctl(kvm, KVM_CREATE_VM, 0)) < 0) {
		int error = errno;

		teardown();
		cr_skip_test("/dev/kvm: %s", strerror(error));
	}
	close(vm);
	discover(NULL);
	child = fork();
	if (!child) {
		vm = ioctl(kvm, KVM_CREATE_VM, 0);
		if (vm < 0 || ioctl(vm, KVM_CREATE_VCPU, 0) < 0 ||
		    ioctl(vm, KVM_CREATE_VCPU, 1) < 0)
			_exit(1);
		for (;;)
			pause();
	}
	close(kvm);
	seen.pid = child;
	wait_until(seen.there && seen.nr_unknown == 2);
	cr_expect_str_eq(seen.kind, "kvm");
	cr_expect_eq(seen.nr_vcpus, 0);
	end_child();
	wait_until(seen.removed);
}

/* ---- libvirt ---- */

/* libvirt's embedded driver keeps everything below one directory and needs no daemon. */
static void embed_config(void)
{
	char path[128];
	FILE *f;

	snprintf(path, sizeof(path), "%s/etc", dir);
	cr_assert(!mkdir(path, 0755));
	snprintf(path, sizeof(path), "%s/etc/qemu.conf", dir);
	f = fopen(path, "w");
	cr_assert(f);
	fprintf(f, "security_driver = \"none\"\ncgroup_controllers = []\nnamespaces = []\n"
		   "stdio_handler = \"file\"\nremember_owner = 0\n");
	if (!geteuid())
		fprintf(f, "user = \"root\"\ngroup = \"root\"\n");
	fclose(f);
}

static virDomainPtr create(virConnectPtr conn, const char *tenant)
{
	char xml[2048];

	snprintf(xml, sizeof(xml),
		 "<domain type='qemu'><name>%s</name><memory unit='MiB'>32</memory>"
		 "<vcpu current='1'>2</vcpu><metadata><vpmu:tenant xmlns:vpmu='urn:vpmu:1'>%s"
		 "</vpmu:tenant></metadata><os><type arch='x86_64' machine='pc'>hvm</type></os>"
		 "<devices><video><model type='none'/></video><memballoon model='none'/></devices>"
		 "</domain>",
		 seen.want, tenant);
	return virDomainCreateXML(conn, xml, 0);
}

/* Another QEMU claims to be the same domain. libvirt's file has the right one. */
static void impostor(void)
{
	char name[128];
	char *const argv[] = {QEMU,    "-accel",      "tcg", "-name", name,
			      "-uuid", seen.uuid,     "-m",  "32",    "-display",
			      "none",  "-nodefaults", NULL};
	__typeof__(seen) domain = seen;

	memset(&seen, 0, sizeof(seen));
	snprintf(seen.want, sizeof(seen.want), "impostor-%d", getpid());
	snprintf(name, sizeof(name), "guest=%s,debug-threads=on", seen.want);
	strcpy(seen.uuid, domain.uuid);
	notes = 0;
	run(argv);
	seen.pid = child; /* whatever its name is */
	wait_until(seen.there && seen.nr_vcpus == 1);
	for (int i = 0; i < 10; i++)
		cr_assert_geq(sd_event_run(event, UINT64_MAX), 0);
	cr_expect_eq(notes, 1);
	cr_expect_str_eq(seen.kind, "qemu");
	cr_expect_str_eq(seen.tenant, "");
	cr_expect_str_eq(seen.uuid, domain.uuid);
	end_child();
	wait_until(seen.removed);
	waitpid(child, NULL, 0);
	child = 0;
	seen = domain;
}

Test(discover, libvirt_embedded)
{
	char uri[128], err[256] = "";
	virConnectPtr conn;
	virDomainPtr dom;
	char **why = NULL;
	int taints;
	pid_t pid;

	if (!installed(QEMU)) {
		teardown();
		cr_skip_test("%s is not installed", QEMU);
	}
	setenv("LIBVIRT_LOG_OUTPUTS", "4:file:/dev/null", 0);
	snprintf(uri, sizeof(uri), "qemu:///embed?root=%s", dir);
	embed_config();
	/* The embedded driver begins with the first connection, and needs an event loop then. */
	cr_assert(virt_lib_load(err, sizeof(err)), "%s", err);
#if defined(__SANITIZE_ADDRESS__)
	__lsan_disable(); /* the driver leaks when it cannot be initialized */
#endif
	conn = virConnectOpen(uri);
#if defined(__SANITIZE_ADDRESS__)
	__lsan_enable();
#endif
	if (!conn) {
		teardown();
		cr_skip_test("libvirt: %s: %s", uri, virGetLastErrorMessage());
	}
	discover(uri);
	dom = create(conn, "/acme/web");
	if (!dom) {
		teardown();
		cr_skip_test("libvirt: a domain does not start: %s", virGetLastErrorMessage());
	}
	wait_until(seen.there && !strcmp(seen.kind, "libvirt") && seen.nr_vcpus == 1);
	cr_expect_str_eq(seen.tenant, "/acme/web");
	pid = seen.pid;
	/* A vCPU is plugged. */
	cr_expect_eq(virDomainSetVcpus(dom, 2), 0, "%s", virGetLastErrorMessage());
	wait_until(seen.nr_vcpus == 2);
	cr_expect_eq(seen.vcpus[1].index, 1);
	/* Looking does not taint it. */
	taints = virDomainGetMessages(dom, &why, VIR_DOMAIN_MESSAGE_TAINTING);
	for (int i = 0; i < taints; i++) {
		cr_expect(!geteuid() && strstr(why[i], "privileges"), "%s", why[i]);
		free(why[i]);
	}
	free(why);
	impostor();
	/* Another tenant, while it runs. */
	cr_expect_eq(virDomainSetMetadata(dom, VIR_DOMAIN_METADATA_ELEMENT,
					  "<tenant>/other</tenant>", "vpmu", "urn:vpmu:1",
					  VIR_DOMAIN_AFFECT_LIVE),
		     0);
	wait_until(!strcmp(seen.tenant, "/other"));
	/* Found by a later start. */
	disc_close(d);
	memset(seen.tenant, 0, sizeof(seen.tenant));
	seen.there = false;
	seen.pid = 0;
	discover(uri);
	wait_until(seen.there && !strcmp(seen.tenant, "/other"));
	cr_expect_eq(seen.pid, pid);
	/* It ends, and its last report has its tenant. */
	seen.removed = 0;
	seen.pid = 0;
	cr_expect_eq(virDomainDestroy(dom), 0);
	wait_until(seen.removed);
	cr_expect_eq(seen.pid, pid);
	cr_expect_str_eq(seen.tenant, "/other");
	/* Again: another process. */
	virDomainFree(dom);
	seen.pid = 0;
	dom = create(conn, "/acme/web");
	cr_assert(dom);
	wait_until(seen.there && !strcmp(seen.kind, "libvirt") && seen.nr_vcpus == 1);
	cr_expect_str_eq(seen.tenant, "/acme/web");
	cr_expect_neq(seen.pid, pid);
	seen.removed = 0;
	cr_expect_eq(virDomainDestroy(dom), 0);
	wait_until(seen.removed);
	virDomainFree(dom);
	virConnectClose(conn);
}

/* A session's libvirtd of a user other than root, with everything below @dir. */
static pid_t libvirtd(const char *user)
{
	pid_t pid = fork();
	char path[128];

	cr_assert_geq(pid, 0);
	if (pid)
		return pid;
	if (!geteuid() && (setgid(65534) || setuid(65534)))
		_exit(126);
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	setenv("HOME", user, 1);
	snprintf(path, sizeof(path), "%s/run", user);
	setenv("XDG_RUNTIME_DIR", path, 1);
	unsetenv("XDG_CONFIG_HOME");
	unsetenv("XDG_CACHE_HOME");
	dup2(open("/dev/null", O_RDWR), 0);
	dup2(0, 1);
	dup2(0, 2);
	execlp("libvirtd", "libvirtd", NULL);
	_exit(127);
}

/* The daemon is killed while its domain runs, and comes again. */
Test(discover, libvirt_connection_is_lost)
{
	char user[96], path[128], uri[256], virtlogd[32] = "", err[256] = "";
	virConnectPtr conn = NULL;
	virDomainPtr dom;
	pid_t server, pid;
	FILE *f;

	if (!installed(QEMU) || !installed("libvirtd")) {
		teardown();
		cr_skip_test("%s or libvirtd is not installed", QEMU);
	}
	/* libvirt writes to connections that are lost. vpmud ignores it as well. */
	signal(SIGPIPE, SIG_IGN);
	setenv("LIBVIRT_LOG_OUTPUTS", "4:file:/dev/null", 0);
	snprintf(user, sizeof(user), "%s/u", dir);
	snprintf(path, sizeof(path), "%s/run", user);
	cr_assert(!mkdir(user, 0700) && !mkdir(path, 0700));
	if (!geteuid())
		cr_assert(!chmod(dir, 0755) && !chown(user, 65534, 65534) &&
			  !chown(path, 65534, 65534));
	snprintf(uri, sizeof(uri), "qemu:///session?socket=%s/run/libvirt/libvirt-sock", user);
	/* Discovery is there first, and waits for the daemon. The test's own connection needs
	 * libvirt's event loop, too. */
	cr_assert(virt_lib_load(err, sizeof(err)), "%s", err);
	discover(uri);
	server = libvirtd(user);
	child = server;
	while (!(conn = virConnectOpen(uri)) && !waitpid(server, NULL, WNOHANG))
		usleep(10000);
	if (!conn) {
		child = 0; /* it has been waited for */
		teardown();
		cr_skip_test("libvirtd does not start");
	}
	dom = create(conn, "/acme/web");
	if (!dom) {
		teardown();
		cr_skip_test("libvirt: a domain does not start: %s", virGetLastErrorMessage());
	}
	wait_until(seen.there && !strcmp(seen.kind, "libvirt") && seen.nr_vcpus == 1);
	cr_expect_str_eq(seen.tenant, "/acme/web");
	pid = seen.pid;
	/* The VM runs on, unchanged. */
	lost = again = 0;
	end_child();
	waitpid(server, NULL, 0);
	virDomainFree(dom);
	virConnectClose(conn);
	wait_until(lost);
	for (int i = 0; i < 20; i++)
		cr_assert_geq(sd_event_run(event, UINT64_MAX), 0);
	cr_expect(seen.there);
	cr_expect_str_eq(seen.tenant, "/acme/web");
	server = libvirtd(user);
	child = server;
	killed = false;
	wait_until(again);
	cr_expect_eq(lost, 1);
	conn = virConnectOpen(uri);
	cr_assert(conn, "%s", virGetLastErrorMessage());
	dom = virDomainLookupByName(conn, seen.want);
	cr_assert(dom, "%s", virGetLastErrorMessage());
	cr_expect_eq(virDomainSetMetadata(dom, VIR_DOMAIN_METADATA_ELEMENT,
					  "<tenant>/other</tenant>", "vpmu", "urn:vpmu:1",
					  VIR_DOMAIN_AFFECT_LIVE),
		     0, "%s", virGetLastErrorMessage());
	wait_until(!strcmp(seen.tenant, "/other"));
	cr_expect_eq(seen.pid, pid);
	cr_expect_eq(virDomainDestroy(dom), 0);
	wait_until(seen.removed);
	virDomainFree(dom);
	virConnectClose(conn);
	/* libvirtd has started a daemon for logs. */
	snprintf(path, sizeof(path), "%s/run/libvirt/virtlogd.pid", user);
	f = fopen(path, "r");
	if (f && fgets(virtlogd, sizeof(virtlogd), f) && atoi(virtlogd) > 1)
		kill(atoi(virtlogd), SIGTERM);
	if (f)
		fclose(f);
}
