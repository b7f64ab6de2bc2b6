// SPDX-License-Identifier: GPL-2.0-or-later
/* vmm/config: valid files and options, and the message of each refusal. */
#include <fcntl.h>

#include "folder_bed.h"
#include "vmm/config/config.h"

static int parse(struct config *c, const char *text, char *err, size_t errlen)
{
	config_init(c);
	*err = 0;
	return config_text(c, "t.ini", text, strlen(text), err, errlen);
}

Test(config, everything)
{
	struct config c;
	char err[512];

	cr_assert_eq(parse(&c,
			   "\xef\xbb\xbf; a comment\r\n"
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
			   "image = other.elf\n",
			   err, sizeof(err)),
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
	config_fini(&c);
}

#define VM	"[vm a]\nimage=i\n"
#define CHARS50 "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"

Test(config, refused)
{
	static const struct {
		int line;
		const char *text;
		const char *where, *says; /* parts of the message */
	} rows[] = {
		/* structure */
		{__LINE__, "pcpus = 1\n", "t.ini:1:", "before any section"},
		{__LINE__, "[host]\n[host]\n", "t.ini:2:", "twice"},
		{__LINE__, "[guest]\n",
		 "t.ini:1:", "[guest] is invalid; expected [host] or [vm NAME]"},
		{__LINE__, "[]\n", "t.ini:1:", "expected [host] or [vm NAME]"},
		{__LINE__, "\n[host\n", "t.ini:2:", "without \"]\""},
		{__LINE__, "[host] pcpus = 1\n", "t.ini:1:", "text after"},
		{__LINE__, "[host]\nnonsense\n", "t.ini:2:", "not understood"},
		{__LINE__, "[host]\npcpus = 1\n  2\n", "t.ini:3:", "not understood"},
		{__LINE__, "[host]\n= 1\n", "t.ini:2:", "no such key"},
		{__LINE__, "[host]\nspeed = 1\n",
		 "t.ini:2:", "host/speed: no such key; expected pcpus"},
		{__LINE__, "[host]\npcpus = 1\npcpus = 2\n", "t.ini:3:", "host/pcpus: given twice"},
		{__LINE__, VM "image=j\n", "t.ini:3:", "vm a/image: given twice"},
		{__LINE__, VM "name=b\n", "t.ini:3:", "expected the name in [vm NAME] only"},
		{__LINE__, VM "colour = red\n", "t.ini:3:", "vm a/colour: no such key"},
		{__LINE__, "[vm " CHARS50 "]\n", "t.ini:1:", "expected up to 49"},
		{__LINE__, "[vm a b]\n", "t.ini:1:", "vm a b/name: \"a b\" is invalid"},
		{__LINE__, "[vm ]\n", "t.ini:1:", "\"\" is invalid"},
		{__LINE__, "[vm ..]\n", "t.ini:1:", "\"..\" is invalid"},
		{__LINE__, "[vm a]\n[vm b]\n", "t.ini:1:", "vm a/image: not given"},
		{__LINE__, "[host]\n[vm a]\n", "t.ini:2:", "vm a/image: not given"},
		{__LINE__, VM "args = " CHARS50 CHARS50 CHARS50 CHARS50 "\n",
		 "t.ini:3:", "expected up to"},
		{__LINE__, VM VM, "t.ini:3:", "vm a: a VM of that name is at t.ini:1 too"},
		/* [host] values */
		{__LINE__, "[host]\npcpus = 0\n", "t.ini:2:", "\"0\" is invalid; expected 1 to 64"},
		{__LINE__, "[host]\npcpus = 65\n", "t.ini:2:", "expected 1 to 64"},
		{__LINE__, "[host]\npcpus = -1\n", "t.ini:2:", "expected 1 to 64"},
		{__LINE__, "[host]\npcpus = +1\n", "t.ini:2:", "expected 1 to 64"},
		{__LINE__, "[host]\npcpus = 1x\n", "t.ini:2:", "expected 1 to 64"},
		{__LINE__, "[host]\npcpus = 0x1\n", "t.ini:2:", "expected 1 to 64"},
		{__LINE__, "[host]\npcpus =\n", "t.ini:2:", "\"\" is invalid; expected 1 to 64"},
		{__LINE__, "[host]\npcpus = 18446744073709551617\n", "t.ini:2:", "1 to 64"},
		{__LINE__, "[host]\npcpus = 4294967297\n", "t.ini:2:", "1 to 64"},
		{__LINE__, "[host]\ngp = 17\n", "t.ini:2:", "0 to 16"},
		{__LINE__, "[host]\nfixed = 4\n", "t.ini:2:", "0 to 3"},
		{__LINE__, "[host]\nwidth = 39\n", "t.ini:2:", "40 to 63"},
		{__LINE__, "[host]\nwidth = 64\n", "t.ini:2:", "40 to 63"},
		{__LINE__, "[host]\nslice = 0\n", "t.ini:2:", "1 to 10000000 instructions"},
		{__LINE__, "[host]\nslice = 10000001\n", "t.ini:2:", "1 to 10000000"},
		{__LINE__, "[host]\nrandom_slices = maybe\n", "t.ini:2:", "yes or no"},
		{__LINE__, "[host]\nseed = 18446744073709551616\n", "t.ini:2:", "0 to 18446"},
		{__LINE__, "[host]\nmigrate = often\n", "t.ini:2:", "none, balance, random"},
		{__LINE__, "[host]\nmigrate = random:0\n", "t.ini:2:", "random:N"},
		{__LINE__, "[host]\nmigrate = random:\n", "t.ini:2:", "random:N"},
		{__LINE__, "[host]\ntick_us = 0\n", "t.ini:2:", "microseconds"},
		{__LINE__, "[host]\nsocket =\n", "t.ini:2:", "1 to 107 bytes"},
		{__LINE__, "[host]\nsocket=" CHARS50 CHARS50 CHARS50 "\n", "t.ini:2:", "107"},
		{__LINE__, "[host]\nskip_idle = 1x\n", "t.ini:2:", "yes or no"},
		{__LINE__, "[host]\nskip_idle = yes\n", "host/skip_idle", "one modelled pCPU"},
		{__LINE__, "[host]\ngp = 0\nfixed = 0\n", "host/gp", "at least one counter"},
		/* [vm] values */
		{__LINE__, VM "tenant = acme\n", "t.ini:3:", "vm a/tenant: \"acme\" is invalid"},
		{__LINE__, VM "tenant = /a/../b\n", "t.ini:3:", "expected a path such as"},
		{__LINE__, VM "tenant = /host\n", "t.ini:3:", "vm a/tenant"},
		{__LINE__, VM "vcpus = 0\n", "t.ini:3:", "1 to 64"},
		{__LINE__, VM "vcpus = 65\n", "t.ini:3:", "1 to 64"},
		{__LINE__, VM "memory = 2M\n", "t.ini:3:", "4M to 64G in steps of 2M"},
		{__LINE__, VM "memory = 5M\n", "t.ini:3:", "4M to 64G"},
		{__LINE__, VM "memory = 65G\n", "t.ini:3:", "4M to 64G"},
		{__LINE__, VM "memory = 16777217\n", "t.ini:3:", "4M to 64G"},
		{__LINE__, VM "memory = 18014398509481984K\n", "t.ini:3:", "4M to 64G"},
		{__LINE__, VM "memory = M\n", "t.ini:3:", "4M to 64G"},
		{__LINE__, VM "memory = 16T\n", "t.ini:3:", "4M to 64G"},
		{__LINE__, VM "memory =\n", "t.ini:3:", "4M to 64G"},
		{__LINE__, VM "pmu = intel-v9\n",
		 "t.ini:3:", "none, intel-v2, intel-v3, intel-v4,"},
		{__LINE__, VM "gp = 0\n", "t.ini:3:", "2 to 8 (Intel)"},
		{__LINE__, VM "pmu = intel-v2\ngp = 1\n",
		 "t.ini:1:", "one general counter for none"},
		{__LINE__, VM "gp = 9\n",
		 "t.ini:1:", "vm a/gp: invalid with pmu = intel-v5; expected 2 to 8"},
		{__LINE__, VM "pmu = amd-v2\ngp = 3\n", "t.ini:1:", "4 to 15"},
		{__LINE__, VM "pmu = amd-v2\ngp = 16\n", "t.ini:1:", "4 to 15"},
		{__LINE__, VM "pmu = amd-v2\nfixed = 1\n", "t.ini:1:", "vm a/fixed"},
		{__LINE__, VM "pmu = none\ngp = 4\n", "t.ini:1:", "vm a/gp"},
		{__LINE__, VM "pmu = none\nfixed = 2\n", "t.ini:1:", "vm a/fixed"},
		{__LINE__, VM "fixed = 5\n", "t.ini:3:", "1 to 4 (Intel only)"},
		{__LINE__, VM "engine = qemu\n", "t.ini:3:", "auto, emulator or kvm"},
		{__LINE__, VM "pmu = amd-k7\ngp = 6\n", "t.ini:1:", "pmu = amd-k7; expected 4"},
		{__LINE__, VM "pmu = amd-core\ngp = 7\n", "t.ini:1:", "pmu = amd-core; expected 6"},
		{__LINE__, VM "pmu = amd-core\nfixed = 3\n", "t.ini:1:", "vm a/fixed"},
		{__LINE__, VM "pmu = intel-v3\ngp = 9\n", "t.ini:1:", "2 to 8"},
		{__LINE__, VM "policy = some\n",
		 "t.ini:3:", "full, standard, architectural or off"},
		{__LINE__, VM "lbr = 3\n", "t.ini:3:", "on or off"},
		{__LINE__, "[host]\nlbr = on\n", "t.ini:2:", "off, branches or call-stack"},
		{__LINE__, VM "pmu = intel-v2\nlbr = on\n",
		 "t.ini:1:", "pmu = intel-v2; expected off"},
		{__LINE__, VM "lbr = on\npolicy = standard\n",
		 "t.ini:1:", "policy = standard; expected off"},
		{__LINE__, VM "allow =\n", "t.ini:3:", "a list of events"},
		{__LINE__, VM "allow = cycles\ndeny = branches\n",
		 "t.ini:1:", "vm a/deny: given with allow; expected only one of them"},
		{__LINE__, VM "deny = cycles\npmu = none\n",
		 "t.ini:1:", "pmu = none; expected no value"},
		{__LINE__, VM "deny = cycles\npolicy = off\n",
		 "t.ini:1:", "policy = off; expected no value"},
		{__LINE__, VM "allow = no-such-event\n", "t.ini:1:", "or EVENT/MASK/MATCH"},
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct config c;
		char err[512];
		int ret = parse(&c, rows[i].text, err, sizeof(err));

		if (!ret)
			ret = config_check(&c, err, sizeof(err));
		cr_assert_eq(ret, -EINVAL, "line %d: accepted", rows[i].line);
		cr_assert(strstr(err, rows[i].where), "line %d: %s", rows[i].line, err);
		cr_assert(strstr(err, rows[i].says), "line %d: %s", rows[i].line, err);
		cr_assert(strstr(err, "expected"), "line %d: %s", rows[i].line, err);
		config_fini(&c);
	}
}

/* libinih cuts lines at its buffer: the longest that arrives whole is valid, the next is not. */
Test(config, line_length)
{
	for (size_t n = 150; n < 260; n++) {
		char text[512] = VM "args = ", err[512];
		size_t start = strlen(VM);
		struct config c;
		int ret;

		memset(text + strlen(text), 'x', n - strlen("args = "));
		text[start + n] = '\n';
		ret = parse(&c, text, err, sizeof(err));
		if (!ret)
			cr_assert_eq(strlen(c.vms[0].args), n - strlen("args = "));
		cr_assert_eq(ret == 0, n <= 198, "%zu: %s", n, err);
		config_fini(&c);
	}
}

Test(config, nul_byte)
{
	static const char text[] = "[host]\npcpus = 1\0 2\n";
	struct config c;
	char err[256];

	config_init(&c);
	cr_assert_eq(config_text(&c, "t.ini", text, sizeof(text) - 1, err, sizeof(err)), -EINVAL);
	cr_assert(strstr(err, "t.ini:2: NUL"), "%s", err);
	config_fini(&c);
}

Test(config, hostile_text_is_not_echoed_raw)
{
	struct config c;
	char err[512];

	cr_assert_eq(parse(&c, "[host]\n\x1b[31m = 1\n", err, sizeof(err)), -EINVAL);
	for (const char *p = err; *p; p++)
		cr_assert_geq((unsigned char)*p, 0x20);
	config_fini(&c);
}

Test(config, options)
{
	struct config c;
	char err[512];

	cr_assert_eq(parse(&c, "[host]\npcpus = 4\nseed = 9\n", err, sizeof(err)), 0);
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
	config_fini(&c);
}

Test(config, options_refused)
{
	static const struct {
		int line;
		const char *option, *says;
	} rows[] = {
		{__LINE__, "", "--vm: \"\" is invalid"},
		{__LINE__, "name", "\"name\" is invalid; expected key=value"},
		{__LINE__, "=x", "key=value"},
		{__LINE__, "name=a,", "\"\" is invalid; expected key=value"},
		{__LINE__, "image=i", "vm/name: not given"},
		{__LINE__, "name=a", "vm a/image: not given"},
		{__LINE__, "name=a,name=b,image=i", "vm/name: given twice"},
		{__LINE__, "name=a,image=i,colour=red", "vm/colour: no such key"},
		{__LINE__, "name=a,image=i,vcpus=x",
		 "vm/vcpus: \"x\" is invalid; expected 1 to 64"},
		{__LINE__, "name=a,image=i,kernel=k", "vm a/image: given with kernel"},
		{__LINE__, "name=a,kernel=k,args=", "vm a/args: given with kernel"},
		{__LINE__, "name=a,image=i,initrd=d", "vm a/initrd: given without kernel"},
		{__LINE__, "name=a,image=i,cmdline=c", "vm a/cmdline: given without kernel"},
		{__LINE__, "name=a,kernel=k,svm=yes,engine=emulator",
		 "vm a/svm: invalid with pmu = intel-v5"},
		{__LINE__, "name=a,image=i,svm=yes,pmu=amd-v2,engine=emulator",
		 "vm a/svm: yes given without kernel"},
		{__LINE__, "name=a,kernel=k,svm=yes,pmu=amd-v2",
		 "vm a/svm: yes given without engine = emulator"},
		{__LINE__, "name=a,kernel=k,vcpus=17", "17 given with kernel; expected 1 to 16"},
		{__LINE__, "name=a,kernel=k,ram=64M,memory=64M", "vm a/ram: given with memory"},
		{__LINE__, "name=a,kernel=k,cmdline=", "vm/cmdline: \"\" is invalid"},
		{__LINE__, "name=a,kernel=", "vm/kernel: \"\" is invalid"},
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct config c;
		char err[512] = "";

		config_init(&c);
		cr_assert_eq(config_vm_option(&c, rows[i].option, err, sizeof(err)), -EINVAL,
			     "line %d: accepted", rows[i].line);
		cr_assert(strstr(err, rows[i].says), "line %d: %s", rows[i].line, err);
		config_fini(&c);
	}
}

Test(config, files, .init = folder_begin, .fini = folder_end)
{
	const char *path = folder_path("/f");
	struct config c;
	char err[512];

	folder_put("/f", VM);
	config_init(&c);
	cr_assert_eq(config_file(&c, path, err, sizeof(err)), 0, "%s", err);
	cr_assert_eq(c.nr_vms, 1);
	config_fini(&c);
	cr_assert_eq(truncate(path, CONFIG_FILE_MAX + 1), 0);
	config_init(&c);
	cr_assert_eq(config_file(&c, path, err, sizeof(err)), -EFBIG);
	unlink(path);
	cr_assert_eq(config_file(&c, path, err, sizeof(err)), -ENOENT);
	cr_assert(strstr(err, path), "%s", err);
	cr_assert_eq(config_file(&c, "/tmp", err, sizeof(err)), -EISDIR);
	config_fini(&c);
}

static const struct vpmu_policy *policy_of(const char *option, struct vpmu_policy **mem)
{
	const struct vpmu_policy *policy;
	struct config c;
	char err[512];

	config_init(&c);
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
Test(config, fifo, .init = folder_begin, .fini = folder_end)
{
	const char *path = folder_path("/fifo");
	struct config c;
	char err[512];
	int fd;

	cr_assert_eq(mkfifo(path, 0600), 0);
	config_init(&c);
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
	config_fini(&c);
}
