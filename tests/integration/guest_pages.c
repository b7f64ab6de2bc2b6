// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * A VMM on vpmu/kvm.h whose vCPU is counted by vpmud, for vpmud_pages.sh:
 *
 *   vpmu-guest-pages SOCKET    a VM of one vCPU, run by this thread
 *
 * Its vCPU's account has a consumer of page faults. Reads commands from standard input and answers
 * each with one line:
 *
 *   start      begin to count, in place of the last time: "0", or the error's number
 *   run        run the vCPU for a while, so that ticks come: "SHARED EVENTS", the keys on vpmud's
 *              page and the perf events that the library has open
 *   faults N   take N page faults, run the vCPU once: "COUNT PERF GAP": since the start, by the
 *              consumer and by a perf event of this program; the ns without a counter
 */
#include <dirent.h>
#include <stdbool.h>
#include <sys/prctl.h>

#include "tests/integration/guest_faults.h"
#include "vpmu/consumer.h"
#include "vpmu/guest/guest.h"
#include "vpmu/host.h"
#include "vpmu/kvm.h"
#include "vpmu/pcpu.h"

#define FAULTS                                                                                     \
	vpmu_key_make(VPMU_SPACE_SOFTWARE, PERF_COUNT_SW_PAGE_FAULTS,                              \
		      VPMU_KEY_USR | VPMU_KEY_OS | VPMU_KEY_GUEST | VPMU_KEY_HOST)

static struct vpmu_kvm_vm *vm;
static struct vpmu_kvm_vcpu *v;
static struct vpmu_consumer *consumer;
static int vcpu;
static uint64_t perf_base;

static void vm_make(const char *socket)
{
	static struct vpmu_guest_cfg cfg = {.model = VPMU_GUEST_AMD_CORE};
	struct vpmu_kvm_vcpu_opts vo = {.size = sizeof(vo)};
	char why[300] = "";
	int kvm, fd = guest_vm(&kvm);
	struct vpmu_kvm_vm_opts o = {.size = sizeof(o),
				     .fd = fd,
				     .flags = VPMU_KVM_NO_IRQCHIP,
				     .guest = &cfg,
				     .host = vpmu_host_create(),
				     .vpmud = socket};

	if (vpmu_kvm_vm_open(&o, &vm, why, sizeof(why))) {
		errno = ENOENT; /* a KVM without MSR filters */
		die(why);
	}
	vcpu = ioctl(fd, KVM_CREATE_VCPU, 0);
	vo.fd = vcpu;
	vo.run = mmap(NULL, (size_t)ioctl(kvm, KVM_GET_VCPU_MMAP_SIZE, 0), PROT_READ | PROT_WRITE,
		      MAP_SHARED, vcpu, 0);
	if (vcpu < 0 || vo.run == MAP_FAILED)
		die("KVM");
	if (vpmu_kvm_vcpu_open(vm, &vo, &v, why, sizeof(why)))
		die(why);
	guest_begin(vcpu);
}

static void vm_run(void)
{
	enum vpmu_kvm_next next;
	int rc;

	do {
		rc = vpmu_kvm_enter(v);
		if (rc)
			die("enter");
		rc = ioctl(vcpu, KVM_RUN, 0);
		next = vpmu_kvm_leave(v, rc < 0 ? -errno : rc);
	} while (next != VPMU_KVM_EXIT);
}

static struct vpmu_value consumer_value(void)
{
	struct vpmu_value value;

	vpmu_pcpu_flush(vpmu_kvm_vcpu_guest(v)->pcpu);
	vpmu_consumer_read(consumer, &value);
	return value;
}

static int start(void)
{
	struct vpmu_pcpu *pcpu = vpmu_kvm_vcpu_guest(v)->pcpu;
	int rc;

	if (consumer) {
		vpmu_consumer_del(consumer, pcpu, NULL);
		vpmu_rcu_free(consumer);
	}
	consumer = calloc(1, sizeof(*consumer));
	rc = consumer ? vpmu_consumer_add(consumer, vpmu_kvm_vcpu_account(v), FAULTS, pcpu) : -1;
	vm_run();
	perf_base = faults_by_perf() - consumer_value().count;
	return -rc;
}

/* Open perf events, but for that of this program. */
static unsigned int events(void)
{
	DIR *dir = opendir("/proc/self/fd");
	unsigned int n = 0;
	struct dirent *e;
	char to[64];

	while (dir && (e = readdir(dir))) {
		ssize_t len = readlinkat(dirfd(dir), e->d_name, to, sizeof(to) - 1);

		to[len > 0 ? len : 0] = 0;
		n += strstr(to, "[perf_event]") != NULL;
	}
	closedir(dir);
	return n - 1;
}

static void faults(unsigned int n)
{
	struct vpmu_value value;
	uint64_t by_perf;

	faults_take(n);
	vm_run();
	value = consumer_value();
	by_perf = faults_by_perf();
	printf("%lu %lu %lu\n", value.count, (by_perf - perf_base),
	       (value.enabled_ns - value.running_ns));
}

/* The library's alarms interrupt system calls. */
static bool next_line(char *line, int size)
{
	while (!fgets(line, size, stdin)) {
		if (feof(stdin) || errno != EINTR)
			return false;
		clearerr(stdin);
	}
	return true;
}

int main(int argc, char **argv)
{
	struct vpmu_kvm_report r;
	char line[128], word[32];
	unsigned int n;

	if (argc != 2)
		return 2;
	prctl(PR_SET_NAME, "CPU 0/KVM"); /* as QEMU names it: vpmud finds the thread by that */
	vm_make(argv[1]);
	vm_run();
	setvbuf(stdout, NULL, _IOLBF, 0);
	printf("ready\n");
	while (next_line(line, sizeof(line))) {
		n = 0;
		if (sscanf(line, "%31s %u", word, &n) < 1)
			continue;
		if (!strcmp(word, "start")) {
			printf("%d\n", start());
		} else if (!strcmp(word, "run")) {
			for (unsigned int i = 0; i < 10; i++) {
				usleep(5000);
				vm_run();
			}
			vpmu_kvm_vcpu_report(v, &r);
			printf("%u %u\n", r.shared, events());
		} else if (!strcmp(word, "faults")) {
			faults(n);
		}
	}
	return 0;
}
