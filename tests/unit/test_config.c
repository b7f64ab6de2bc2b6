// SPDX-License-Identifier: GPL-2.0-or-later
/* vmm/config: valid files and options, and the message of each refusal. */
#include <fcntl.h>

#include "folder_bed.h"
#include "vmm/config/config.h"

static struct config c;
static char err[512];

static void end(void)
{
	config_fini(&c);
}

static void end_folder(void)
{
	end();
	folder_end();
}

TestSuite(config, .fini = end);

/* Nothing is configured, and there was no error. */
static void begin(void)
{
	config_fini(&c);
	config_init(&c);
	*err = 0;
}

static int parse(const char *text)
{
	begin();
	return config_text(&c, "t.ini", text, strlen(text), err, sizeof(err));
}

Test(config, everything)
{
	cr_assert_eq(parse("\xef\xbb\xbf; a comment\r\n"
			   "# another\n"
			   "[host] ; trailing\n"
			   "pcpus = 4\n"
			   "\tgp = 2\n"
			   "fixed=1\n"
			   "width : 56\n"
			   "slice = 12345 ; instructions\n"
			   "random_slices = yes\n"
			   "seed = 18446744073709551615\n"
			   "migrate = random:7\n"
			   "tick_us = 500\n"
			   "lbr = call-stack\n"
			   "socket = /tmp/x.sock\n"
			   "cgroup_root = /sys/fs/cgroup/vpmu\n"
			   "\n"
			   "[vm web-1]\n"
			   "tenant = /acme/web\n"
			   "vcpus = 3\n"
			   "memory = 64M\n"
			   "image = guest.elf\n"
			   "args = stat sieve 10000\n"
			   "pmu = amd-v2\n"
			   "gp = 12\n"
			   "engine = emulator\n"
			   "policy = standard\n"
			   "lbr = off\n"
			   "[vm b]\n"
			   "image = other.elf\n"),
		     0, "%s", err);
	cr_assert_eq(c.host.pcpus, 4);
	cr_assert_eq(c.host.gp, 2);
	cr_assert_eq(c.host.fixed, 1);
	cr_assert_eq(c.host.width, 56);
	cr_assert_eq(c.host.slice_insns, 12345);
	cr_assert(c.host.random_slices);
	cr_assert_eq(c.host.seed, UINT64_MAX);
	cr_assert_eq(c.host.migrate, RUNNER_MIGRATE_RANDOM);
	cr_assert_eq(c.host.migrate_every, 7);
	cr_assert_eq(c.host.tick_us, 500);
	cr_assert_str_eq(c.host.socket, "/tmp/x.sock");
	cr_assert_str_eq(c.host.cgroup_root, "/sys/fs/cgroup/vpmu");
	cr_assert_eq(c.nr_vms, 2);
	cr_assert_str_eq(c.vms[0].name, "web-1");
	cr_assert_str_eq(c.vms[0].tenant, "/acme/web");
	cr_assert_eq(c.vms[0].vcpus, 3);
	cr_assert_eq(c.vms[0].memory_bytes, 64ULL << 20);
	cr_assert_str_eq(c.vms[0].image, "guest.elf");
	cr_assert_str_eq(c.vms[0].args, "stat sieve 10000");
	cr_assert_eq(c.vms[0].pmu.model, VPMU_GUEST_AMD_V2);
	cr_assert_eq(c.vms[0].pmu.gp, 12);
	cr_assert_eq(c.vms[0].engine, VM_ENGINE_EMU);
	cr_assert_eq(c.vms[0].policy, VPMU_POLICY_STANDARD);
	cr_assert_eq(c.vms[0].lbr, VM_LBR_OFF);
	cr_assert(c.vms[0].pmu.no_lbr);
	cr_assert_eq(c.host.lbr, HOST_LBR_CALL_STACK);
	/* defaults */
	cr_assert_str_eq(c.vms[1].name, "b");
	cr_assert_str_empty(c.vms[1].tenant);
	cr_assert_eq(c.vms[1].vcpus, 1);
	cr_assert_eq(c.vms[1].memory_bytes, 16ULL << 20);
	cr_assert_str_empty(c.vms[1].args);
	cr_assert_eq(c.vms[1].pmu.model, VPMU_GUEST_INTEL_V5);
	cr_assert_eq(c.vms[1].engine, VM_ENGINE_AUTO);
	cr_assert_eq(c.vms[1].policy, VPMU_POLICY_FULL);
	cr_assert_eq(c.vms[1].lbr, VM_LBR_DEFAULT);
	cr_assert_not(c.vms[1].pmu.no_lbr);
	cr_assert_null(c.vms[1].allow);
	cr_assert_null(c.vms[1].deny);
	cr_assert_eq(config_check(&c, err, sizeof(err)), 0, "%s", err);
}

#define VM	"[vm a]\nimage=i\n"
#define CHARS50 "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"

Test(config, refused)
{
	static const struct {
		const char *text;
		const char *where, *says; /* parts of the message */
	} rows[] = {
		/* structure */
		{"pcpus = 1\n", "t.ini:1:", "before any section"},
		{"[host]\n[host]\n", "t.ini:2:", "twice"},
		{"[guest]\n", "t.ini:1:", "[guest] is invalid; expected [host] or [vm NAME]"},
		{"[]\n", "t.ini:1:", "expected [host] or [vm NAME]"},
		{"\n[host\n", "t.ini:2:", "without \"]\""},
		{"[host] pcpus = 1\n", "t.ini:1:", "text after"},
		{"[host]\nnonsense\n", "t.ini:2:", "not understood"},
		{"[host]\npcpus = 1\n  2\n", "t.ini:3:", "not understood"},
		{"[host]\n= 1\n", "t.ini:2:", "no such key"},
		{"[host]\nspeed = 1\n", "t.ini:2:", "host/speed: no such key; expected pcpus"},
		{"[host]\npcpus = 1\npcpus = 2\n", "t.ini:3:", "host/pcpus: given twice"},
		{VM "image=j\n", "t.ini:3:", "vm a/image: given twice"},
		{VM "name=b\n", "t.ini:3:", "expected the name in [vm NAME] only"},
		{VM "colour = red\n", "t.ini:3:", "vm a/colour: no such key"},
		{"[vm " CHARS50 "]\n", "t.ini:1:", "expected up to 49"},
		{"[vm a b]\n", "t.ini:1:", "vm a b/name: \"a b\" is invalid"},
		{"[vm ]\n", "t.ini:1:", "\"\" is invalid"},
		{"[vm ..]\n", "t.ini:1:", "\"..\" is invalid"},
		{"[vm a]\n[vm b]\n", "t.ini:1:", "vm a/image: not given"},
		{"[host]\n[vm a]\n", "t.ini:2:", "vm a/image: not given"},
		{VM "args = " CHARS50 CHARS50 CHARS50 CHARS50 "\n", "t.ini:3:", "expected up to"},
		{VM VM, "t.ini:3:", "vm a: a VM of that name is at t.ini:1 too"},
		/* [host] values */
		{"[host]\npcpus = 0\n", "t.ini:2:", "\"0\" is invalid; expected 1 to 64"},
		{"[host]\npcpus = 65\n", "t.ini:2:", "expected 1 to 64"},
		{"[host]\npcpus = -1\n", "t.ini:2:", "expected 1 to 64"},
		{"[host]\npcpus = +1\n", "t.ini:2:", "expected 1 to 64"},
		{"[host]\npcpus = 1x\n", "t.ini:2:", "expected 1 to 64"},
		{"[host]\npcpus = 0x1\n", "t.ini:2:", "expected 1 to 64"},
		{"[host]\npcpus =\n", "t.ini:2:", "\"\" is invalid; expected 1 to 64"},
		{"[host]\npcpus = 18446744073709551617\n", "t.ini:2:", "1 to 64"},
		{"[host]\npcpus = 4294967297\n", "t.ini:2:", "1 to 64"},
		{"[host]\ngp = 17\n", "t.ini:2:", "0 to 16"},
		{"[host]\nfixed = 4\n", "t.ini:2:", "0 to 3"},
		{"[host]\nwidth = 39\n", "t.ini:2:", "40 to 63"},
		{"[host]\nwidth = 64\n", "t.ini:2:", "40 to 63"},
		{"[host]\nslice = 0\n", "t.ini:2:", "1 to 10000000 instructions"},
		{"[host]\nslice = 10000001\n", "t.ini:2:", "1 to 10000000"},
		{"[host]\nrandom_slices = maybe\n", "t.ini:2:", "yes or no"},
		{"[host]\nseed = 18446744073709551616\n", "t.ini:2:", "0 to 18446"},
		{"[host]\nmigrate = often\n", "t.ini:2:", "none, balance, random"},
		{"[host]\nmigrate = random:0\n", "t.ini:2:", "random:N"},
		{"[host]\nmigrate = random:\n", "t.ini:2:", "random:N"},
		{"[host]\ntick_us = 0\n", "t.ini:2:", "microseconds"},
		{"[host]\nsocket =\n", "t.ini:2:", "1 to 107 bytes"},
		{"[host]\nsocket=" CHARS50 CHARS50 CHARS50 "\n", "t.ini:2:", "107"},
		{"[host]\nskip_idle = 1x\n", "t.ini:2:", "yes or no"},
		{"[host]\nskip_idle = yes\n", "host/skip_idle", "one modelled pCPU"},
		{"[host]\ngp = 0\nfixed = 0\n", "host/gp", "at least one counter"},
		/* [vm] values */
		{VM "tenant = acme\n", "t.ini:3:", "vm a/tenant: \"acme\" is invalid"},
		{VM "tenant = /a/../b\n", "t.ini:3:", "expected a path such as"},
		{VM "tenant = /host\n", "t.ini:3:", "vm a/tenant"},
		{VM "vcpus = 0\n", "t.ini:3:", "1 to 64"},
		{VM "vcpus = 65\n", "t.ini:3:", "1 to 64"},
		{VM "memory = 2M\n", "t.ini:3:", "4M to 64G in steps of 2M"},
		{VM "memory = 5M\n", "t.ini:3:", "4M to 64G"},
		{VM "memory = 65G\n", "t.ini:3:", "4M to 64G"},
		{VM "memory = 16777217\n", "t.ini:3:", "4M to 64G"},
		{VM "memory = 18014398509481984K\n", "t.ini:3:", "4M to 64G"},
		{VM "memory = M\n", "t.ini:3:", "4M to 64G"},
		{VM "memory = 16T\n", "t.ini:3:", "4M to 64G"},
		{VM "memory =\n", "t.ini:3:", "4M to 64G"},
		{VM "pmu = intel-v9\n", "t.ini:3:", "none, intel-v2, intel-v3, intel-v4,"},
		{VM "gp = 0\n", "t.ini:3:", "2 to 8 (Intel)"},
		{VM "pmu = intel-v2\ngp = 1\n", "t.ini:1:", "one general counter for none"},
		{VM "gp = 9\n",
		 "t.ini:1:", "vm a/gp: invalid with pmu = intel-v5; expected 2 to 8"},
		{VM "pmu = amd-v2\ngp = 3\n", "t.ini:1:", "4 to 15"},
		{VM "pmu = amd-v2\ngp = 16\n", "t.ini:1:", "4 to 15"},
		{VM "pmu = amd-v2\nfixed = 1\n", "t.ini:1:", "vm a/fixed"},
		{VM "pmu = none\ngp = 4\n", "t.ini:1:", "vm a/gp"},
		{VM "pmu = none\nfixed = 2\n", "t.ini:1:", "vm a/fixed"},
		{VM "fixed = 5\n", "t.ini:3:", "1 to 4 (Intel only)"},
		{VM "engine = qemu\n", "t.ini:3:", "auto, emulator or kvm"},
		{VM "pmu = amd-k7\ngp = 6\n", "t.ini:1:", "pmu = amd-k7; expected 4"},
		{VM "pmu = amd-core\ngp = 7\n", "t.ini:1:", "pmu = amd-core; expected 6"},
		{VM "pmu = amd-core\nfixed = 3\n", "t.ini:1:", "vm a/fixed"},
		{VM "pmu = intel-v3\ngp = 9\n", "t.ini:1:", "2 to 8"},
		{VM "policy = some\n", "t.ini:3:", "full, standard, architectural or off"},
		{VM "lbr = 3\n", "t.ini:3:", "on or off"},
		{"[host]\nlbr = on\n", "t.ini:2:", "off, branches or call-stack"},
		{VM "pmu = intel-v2\nlbr = on\n", "t.ini:1:", "pmu = intel-v2; expected off"},
		{VM "lbr = on\npolicy = standard\n", "t.ini:1:", "policy = standard; expected off"},
		{VM "allow =\n", "t.ini:3:", "a list of events"},
		{VM "allow = cycles\ndeny = branches\n",
		 "t.ini:1:", "vm a/deny: given with allow; expected only one of them"},
		{VM "deny = cycles\npmu = none\n", "t.ini:1:", "pmu = none; expected no value"},
		{VM "deny = cycles\npolicy = off\n", "t.ini:1:", "policy = off; expected no value"},
		{VM "allow = no-such-event\n", "t.ini:1:", "or EVENT/MASK/MATCH"},
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		int ret = parse(rows[i].text);

		if (!ret)
			ret = config_check(&c, err, sizeof(err));
		cr_assert_eq(ret, -EINVAL, "%s: accepted", rows[i].text);
		cr_assert(strstr(err, rows[i].where), "%s: %s", rows[i].text, err);
		cr_assert(strstr(err, rows[i].says), "%s: %s", rows[i].text, err);
		cr_assert(strstr(err, "expected"), "%s: %s", rows[i].text, err);
	}
}

/* libinih cuts lines at its buffer: the longest that arrives whole is valid, the next is not. */
Test(config, line_length)
{
	for (size_t n = 150; n < 260; n++) {
		char text[512] = VM "args = ";
		size_t start = strlen(VM);
		int ret;

		memset(text + strlen(text), 'x', n - strlen("args = "));
		text[start + n] = '\n';
		ret = parse(text);
		if (!ret)
			cr_assert_eq(strlen(c.vms[0].args), n - strlen("args = "));
		cr_assert_eq(ret == 0, n <= 198, "%zu: %s", n, err);
	}
}

Test(config, nul_byte)
{
	static const char text[] = "[host]\npcpus = 1\0 2\n";

	begin();
	cr_assert_eq(config_text(&c, "t.ini", text, sizeof(text) - 1, err, sizeof(err)), -EINVAL);
	cr_assert(strstr(err, "t.ini:2: NUL"), "%s", err);
}

Test(config, hostile_text_is_not_echoed_raw)
{
	cr_assert_eq(parse("[host]\n\x1b[31m = 1\n"), -EINVAL);
	for (const char *p = err; *p; p++)
		cr_assert_geq((unsigned char)*p, 0x20);
}

Test(config, options)
{
	cr_assert_eq(parse("[host]\npcpus = 4\nseed = 9\n"), 0);
	cr_assert_eq(config_host_option(&c, "--pcpus", "pcpus", "2", err, sizeof(err)), 0);
	cr_assert_eq(c.host.pcpus, 2); /* overrides the file */
	cr_assert_eq(c.host.seed, 9);
	cr_assert_eq(config_host_option(&c, "--pcpus", "pcpus", "no", err, sizeof(err)), -EINVAL);
	cr_assert(strstr(err, "--pcpus: host/pcpus: \"no\" is invalid"), "%s", err);

	cr_assert_eq(config_vm_option(&c,
				      "name=web,tenant=/a,vcpus=2,memory=32M,image=g.elf,"
				      "args=stat -e a,,b x=y,pmu=intel-v2,engine=kvm",
				      err, sizeof(err)),
		     0, "%s", err);
	cr_assert_eq(c.nr_vms, 1);
	cr_assert_str_eq(c.vms[0].name, "web");
	cr_assert_str_eq(c.vms[0].args, "stat -e a,b x=y");
	cr_assert_eq(c.vms[0].engine, VM_ENGINE_KVM);
	cr_assert_eq(config_vm_option(&c,
				      "name=l1,kernel=vmlinuz,initrd=disk,ram=512M,vcpus=16,"
				      "cmdline=console=ttyS0,,115200 panic=-1",
				      err, sizeof(err)),
		     0, "%s", err);
	cr_assert_str_eq(c.vms[1].kernel, "vmlinuz");
	cr_assert_str_eq(c.vms[1].initrd, "disk");
	cr_assert_str_eq(c.vms[1].cmdline, "console=ttyS0,115200 panic=-1");
	cr_assert_null(c.vms[1].image);
	cr_assert_eq(c.vms[1].memory_bytes, 512u << 20);
}

Test(config, options_refused)
{
	static const struct {
		const char *option, *says;
	} rows[] = {
		{"", "--vm: \"\" is invalid"},
		{"name", "\"name\" is invalid; expected key=value"},
		{"=x", "key=value"},
		{"name=a,", "\"\" is invalid; expected key=value"},
		{"image=i", "vm/name: not given"},
		{"name=a", "vm a/image: not given"},
		{"name=a,name=b,image=i", "vm/name: given twice"},
		{"name=a,image=i,colour=red", "vm/colour: no such key"},
		{"name=a,image=i,vcpus=x", "vm/vcpus: \"x\" is invalid; expected 1 to 64"},
		{"name=a,image=i,kernel=k", "vm a/image: given with kernel"},
		{"name=a,kernel=k,args=", "vm a/args: given with kernel"},
		{"name=a,image=i,initrd=d", "vm a/initrd: given without kernel"},
		{"name=a,image=i,cmdline=c", "vm a/cmdline: given without kernel"},
		{"name=a,kernel=k,svm=yes,engine=emulator",
		 "vm a/svm: invalid with pmu = intel-v5"},
		{"name=a,image=i,svm=yes,pmu=amd-v2,engine=emulator",
		 "vm a/svm: yes given without kernel"},
		{"name=a,kernel=k,svm=yes,pmu=amd-v2",
		 "vm a/svm: yes given without engine = emulator"},
		{"name=a,kernel=k,vcpus=17", "17 given with kernel; expected 1 to 16"},
		{"name=a,kernel=k,ram=64M,memory=64M", "vm a/ram: given with memory"},
		{"name=a,kernel=k,cmdline=", "vm/cmdline: \"\" is invalid"},
		{"name=a,kernel=", "vm/kernel: \"\" is invalid"},
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		begin();
		cr_assert_eq(config_vm_option(&c, rows[i].option, err, sizeof(err)), -EINVAL,
			     "%s: accepted", rows[i].option);
		cr_assert(strstr(err, rows[i].says), "%s: %s", rows[i].option, err);
	}
}

Test(config, files, .init = folder_begin, .fini = end_folder)
{
	const char *path = folder_path("/f");

	folder_put("/f", VM);
	begin();
	cr_assert_eq(config_file(&c, path, err, sizeof(err)), 0, "%s", err);
	cr_assert_eq(c.nr_vms, 1);
	cr_assert_eq(truncate(path, CONFIG_FILE_MAX + 1), 0);
	begin();
	cr_assert_eq(config_file(&c, path, err, sizeof(err)), -EFBIG);
	unlink(path);
	cr_assert_eq(config_file(&c, path, err, sizeof(err)), -ENOENT);
	cr_assert(strstr(err, path), "%s", err);
	cr_assert_eq(config_file(&c, "/tmp", err, sizeof(err)), -EISDIR);
}

static const struct vpmu_policy *policy_of(const char *option, struct vpmu_policy **mem)
{
	const struct vpmu_policy *policy;

	begin();
	cr_assert_eq(config_vm_option(&c, option, err, sizeof(err)), 0, "%s: %s", option, err);
	cr_assert_eq(vm_config_policy(&c.vms[0], &policy, mem, err, sizeof(err)), 0, "%s", err);
	config_fini(&c);
	return policy;
}

Test(config, policies)
{
	const struct vpmu_policy *policy;
	struct vpmu_policy *mem;

	/* Without lists nothing is allocated. */
	cr_assert_null(policy_of("name=a,image=i", &mem));
	cr_assert_null(mem);
	policy = policy_of("name=a,image=i,policy=architectural", &mem);
	cr_assert_null(mem);
	cr_assert_eq(policy->tier, VPMU_POLICY_ARCHITECTURAL);
	cr_assert_eq(policy->action, VPMU_POLICY_NO_LIST);

	policy = policy_of("name=a,image=i,policy=standard,allow=r00c0,,r00c4", &mem);
	cr_assert_eq(policy, mem);
	cr_assert_eq(policy->tier, VPMU_POLICY_STANDARD);
	cr_assert_eq(policy->action, VPMU_POLICY_ALLOW);
	cr_assert_eq(policy->nr_events, 2);
	cr_assert_eq(policy->events[0].event, 0xc0);
	free(mem);

	/* Raw events are the vendor's of the model: AMD's have four more event bits. */
	policy = policy_of("name=a,image=i,pmu=amd-v2,deny=r1000000c0", &mem);
	cr_assert_eq(policy, mem);
	cr_assert_eq(policy->action, VPMU_POLICY_DENY);
	cr_assert_eq(policy->nr_events, 1);
	cr_assert_eq(policy->events[0].event, 0x1c0);
	free(mem);
}

/* A FIFO without a writer does not make us wait. */
Test(config, fifo, .init = folder_begin, .fini = end_folder)
{
	const char *path = folder_path("/fifo");
	int fd;

	cr_assert_eq(mkfifo(path, 0600), 0);
	begin();
	cr_assert_eq(config_file(&c, path, err, sizeof(err)), -EINVAL);
	cr_assert(strstr(err, "empty pipe"), "%s", err);
	/* One with a writer is read to its end. */
	fd = open(path, O_RDWR);
	cr_assert_geq(fd, 0);
	cr_assert_eq(write(fd, VM, strlen(VM)), (ssize_t)strlen(VM));
	if (!fork()) {
		usleep(100000);
		_exit(0); /* and with it the last writer */
	}
	close(fd);
	cr_assert_eq(config_file(&c, path, err, sizeof(err)), 0, "%s", err);
	cr_assert_eq(c.nr_vms, 1);
}
