// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Benchmarks of VMs on KVM: what an MSR exit and a PMI cost beyond the same exits of a program that
 * does nothing but KVM_RUN, and how long and how much vpmu-vmm takes to start a guest. The bare
 * program and vpmu run the same guest, interleaved in one run, since what KVM itself takes differs
 * by a factor of ten between machines. Without a usable /dev/kvm they are skipped, with a line.
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/bench/bench_bed.h"
#include "tests/elf_image.h"
/* The bare program works on a vCPU that was made in the same way, by its file. */
#include "vmm/kvm/kvm_priv.h"
#include "vmm/sched/perfpmu.h"
#include "vpmu/host/perf_priv.h"
#include "vpmu/account.h"
#include "vpmu/guest/abi.h"
#include "vpmu/host.h"
#include "vpmu/pcpu.h"

#define MIB (1u << 20)

/* ---- guests ---- */

#define GUEST(name, text)                                                                          \
	extern const char guest_##name[], guest_##name##_end[];                                    \
	asm(".pushsection .rodata\n"                                                               \
	    "guest_" #name ":\n" text "\nguest_" #name "_end:\n"                                   \
	    ".popsection\n")

/* Reads IA32_PERF_GLOBAL_CTRL without end. */
GUEST(rdmsr, "mov $0x38f, %ecx\n 1: rdmsr\n jmp 1b");

/* The substitute of RDPMC, without end. */
GUEST(in, "1: in $0x33, %eax\n jmp 1b");

/* An IDT with a gate for NMIs; the local APIC in x2APIC mode, LVTPC an NMI; fixed counter 2
 * (reference cycles) on. Then it halts, and reports each NMI to port 80H. (A KVM that interprets
 * CPL 0 looks for an NMI only after some 500 us of a loop.) */
GUEST(pmi,
      "mov $0x300000, %esp\n"
      "lea 2f(%rip), %rax\n mov $" /* handler */
      "0x210020, %edi\n"
      "mov %ax, (%rdi)\n movw $8, 2(%rdi)\n movw $0x8e00, 4(%rdi)\n"
      "shr $16, %rax\n mov %ax, 6(%rdi)\n shr $16, %rax\n mov %eax, 8(%rdi)\n movl $0, 12(%rdi)\n"
      "movw $0xfff, 0x211000\n movl $0x210000, 0x211002\n movl $0, 0x211006\n lidt 0x211000\n"
      "mov $0x1b, %ecx\n rdmsr\n or $0xc00, %eax\n wrmsr\n"
      "mov $0x80f, %ecx\n mov $0x1ff, %eax\n xor %edx, %edx\n wrmsr\n"
      "mov $0x834, %ecx\n mov $0x400, %eax\n xor %edx, %edx\n wrmsr\n"
      "mov $0x38d, %ecx\n mov $0xb00, %eax\n xor %edx, %edx\n wrmsr\n"
      "mov $0x38f, %ecx\n xor %eax, %eax\n mov $4, %edx\n wrmsr\n"
      "xor %eax, %eax\n out %al, $0x81\n"
      "1: hlt\n jmp 1b\n"
      "2: out %al, $0x80\n iretq");

/* Says a line, and spins. */
GUEST(hello, "mov $0x3f8, %edx\n mov $0x78, %al\n out %al, %dx\n mov $0x0a, %al\n out %al, %dx\n"
	     "1: jmp 1b");

struct guest_image {
	Elf64_Ehdr eh;
	Elf64_Phdr ph;
	uint8_t code[512];
};

static void make_image(struct guest_image *f, const char *code, const char *end)
{
	*f = (struct guest_image){
		.eh = elf_program(VPMU_BOOT_IMAGE + offsetof(struct guest_image, code), 1),
		.ph = elf_segment(PF_R | PF_W | PF_X, VPMU_BOOT_IMAGE, 0, sizeof(*f)),
	};
	memcpy(f->code, code, (size_t)(end - code));
}

/* ---- VMs with one vCPU, on this thread ---- */

struct kvm_vm {
	struct vm_sched sched;	  /* first */
	struct vpmu_hostpmu *pmu; /* perf events of this thread */
	struct vcpu_env env;
	struct vpmu_account *account, *vcpu;
	struct vm *vm;
	struct vcpu *v;
	_Atomic bool hurry;
};

static struct vmm_engine *engine;
static struct vpmu_host *host;
static unsigned int next_pcpu;

static int vcpu_init(struct vm_sched *s, struct vcpu *v, struct vpmu_hostpmu **pmu, char *err,
		     size_t errlen)
{
	static struct perfpmu_opts conf;
	struct kvm_vm *k = (struct kvm_vm *)s;
	int ret = perfpmu_ops.create(v, &conf, &k->pmu, err, errlen);

	if (!ret)
		ret = vpmu_pcpu_create(host, k->pmu, next_pcpu++, &k->env.pcpu);
	*pmu = k->pmu;
	return ret;
}

static void vcpu_fini(struct vm_sched *s, struct vcpu *v)
{
	struct kvm_vm *k = (struct kvm_vm *)s;

	vpmu_pcpu_destroy(k->env.pcpu);
	perfpmu_ops.destroy(k->pmu);
}

static void remove_vm(struct vm_sched *s, struct vm *vm)
{
	struct kvm_vm *k = (struct kvm_vm *)s;

	vpmu_guest_fini(k->v->guest);
	vpmu_pcpu_switch(k->env.pcpu, NULL);
	vpmu_pcpu_offline(k->env.pcpu);
}

static void wake(struct vm_sched *s, struct vcpu *v)
{
}

static const struct vm_sched_ops sched_ops = {
	.vcpu_init = vcpu_init, .vcpu_fini = vcpu_fini, .remove = remove_vm, .wake = wake};

static void quiet(struct vm *vm, unsigned int vcpu, const char *line, size_t len, void *arg)
{
}

static void ended(struct vm *vm, void *arg)
{
}

static void kvm_open(struct kvm_vm *k, const char *code, const char *end, bool irqchip)
{
	static struct guest_image f;
	struct image img = {.name = "bench", .data = (uint8_t *)&f, .bytes = sizeof(f)};
	struct vm_opts o = {
		.name = "bench",
		.vcpus = 1,
		.memory_bytes = 16 * MIB,
		.image = &img,
		.pmu = {.model = VPMU_GUEST_INTEL_V5},
		.ops = &vmm_kvm_ops,
		.engine = engine,
		.irqchip = irqchip,
		.sched = &k->sched,
		.console = quiet,
		.ended = ended,
	};
	char err[512] = "out of memory";

	memset(k, 0, sizeof(*k));
	make_image(&f, code, end);
	k->sched.ops = &sched_ops;
	must(!vpmu_account_create(vpmu_host_root(host), NULL, &k->account) &&
		     !vpmu_account_create(k->account, NULL, &k->vcpu),
	     "VM", err);
	o.account = k->account;
	o.vcpu_accounts = &k->vcpu;
	must(!vm_create(&o, &k->vm, err, sizeof(err)), "VM", err);
	k->v = &k->vm->vcpus[0];
	k->env.hurry = &k->hurry;
	perfpmu_ops.set_thread(k->pmu, gettid());
	vpmu_pcpu_online(k->env.pcpu);
	must(!vpmu_context_place(&k->v->ctx, k->env.pcpu), "vCPU", err);
	vpmu_guest_placed(k->v->guest, k->env.pcpu);
	vpmu_pcpu_switch(k->env.pcpu, &k->v->ctx);
}

static void kvm_close(struct kvm_vm *k)
{
	vm_destroy(k->vm);
	vpmu_account_del(k->vcpu);
	vpmu_account_del(k->account);
}

static bool begin(const char *name)
{
	char why[300] = "";

	if (vmm_kvm_ops.open(&engine, why, sizeof(why))) {
		printf("%s: SKIPPED: %s\n", name, why);
		return false;
	}
	host = vpmu_host_create();
	must(host, "host", "out of memory");
	return true;
}

static void finish(void)
{
	vpmu_host_destroy(host);
	vmm_kvm_ops.close(engine);
}

/* KVM_RUN on the vCPU's file, and nothing else. Returns the exit's reason; 0: a signal ended it. */
static uint32_t bare_run(struct kvm_vm *k)
{
	struct vmm_engine_vcpu *ev = k->v->ev;

	if (ioctl(ev->fd, KVM_RUN, 0)) {
		must(errno == EINTR, "KVM_RUN", strerror(errno));
		return 0;
	}
	return ev->kr->exit_reason;
}

/* By how much case 0 exceeds case 1, in ns: the ratio is that of the rounds. */
static double beyond(const struct bench_set *set)
{
	return (bench_ratio(set, 0, 1) - 1) * set->c[1].ns;
}

/* ---- kvm_msr_exit ---- */

/* One slice is VCPU_SLICE_EXITS_MAX exits. */
static void msr_vpmu(void *arg, uint64_t n)
{
	struct kvm_vm *k = arg;
	struct vcpu_used used = {0};

	for (uint64_t i = 0; i < n; i += VCPU_SLICE_EXITS_MAX)
		must(vcpu_run_slice(k->v, &k->env, UINT64_MAX, &used) == VCPU_SLICE_BUDGET,
		     "kvm_msr_exit", "the slice ended early");
}

static void msr_bare(void *arg, uint64_t n)
{
	struct kvm_vm *k = arg;

	for (uint64_t i = 0; i < n; i++) {
		must(bare_run(k) == KVM_EXIT_X86_RDMSR, "kvm_msr_exit", "another exit");
		k->v->ev->kr->msr.data = 0;
		k->v->ev->kr->msr.error = 0;
	}
}

int bench_kvm_msr_exit(void)
{
	struct kvm_vm vpmu, bare;
	struct bench_set set = {
		.nr = 2,
		.rounds = 300,
		.slow = true,
		.c = {{.fn = msr_vpmu, .arg = &vpmu, .n = VCPU_SLICE_EXITS_MAX, .no_warm = true},
		      {.fn = msr_bare, .arg = &bare, .n = VCPU_SLICE_EXITS_MAX, .no_warm = true}}};

	if (!begin("kvm_msr_exit"))
		return 0;
	kvm_open(&vpmu, guest_rdmsr, guest_rdmsr_end, false);
	kvm_open(&bare, guest_rdmsr, guest_rdmsr_end, false);
	bench_measure(&set);
	bench_report("kvm_msr_exit", beyond(&set), "ns", 300, false,
		     json_pack("{s:f, s:f}", "exit_ns", set.c[0].ns, "bare_exit_ns", set.c[1].ns));
	bench_free(&set);
	kvm_close(&bare);
	kvm_close(&vpmu);
	finish();
	return 0;
}

/* ---- kvm_sampling ---- */

#define FIXED_CTR2 0x30b

static void raise_alarm(void)
{
	syscall(SYS_tgkill, getpid(), gettid(), VMM_ALARM_SIGNAL);
}

/* A guest's writes to arm its counter again: it overflows after a tick. kvm_msr_exit has what
 * that costs, so both programs do it. The timer would take the vCPU out a second time. */
static void arm_counter(struct kvm_vm *k)
{
	must(!vpmu_guest_wrmsr(k->v->guest, FIXED_CTR2, 0xffffffffffffULL), "kvm_sampling",
	     "WRMSR");
	k->v->ev->port.pmi_masked = false; /* as by a write to IA32_PERF_GLOBAL_OVF_CTRL */
	vpmu_perf_timer_arm((struct vpmu_hostpmu_perf *)k->pmu, 0, 0);
}

/* An alarm takes the vCPU out, the counter has overflowed, the PMI is delivered, and the guest has
 * it. */
static void pmi_vpmu(void *arg, uint64_t n)
{
	struct kvm_vm *k = arg;
	struct vcpu_used used = {0};

	for (uint64_t i = 0; i < n; i++) {
		arm_counter(k);
		raise_alarm();
		do
			must(vcpu_run_slice(k->v, &k->env, UINT64_MAX, &used) == VCPU_SLICE_INTR,
			     "kvm_sampling", "the slice did not end");
		while (k->v->run.exit != VMM_EXIT_IO);
		must(k->v->run.u.io.port == 0x80, "kvm_sampling", "another exit");
	}
}

/* The same by the calls alone that it takes: the signal ends KVM_RUN, the guest's LVTPC says that
 * the PMI is an NMI, and KVM delivers it. */
static void pmi_bare(void *arg, uint64_t n)
{
	struct kvm_vm *k = arg;
	struct vmm_engine_vcpu *ev = k->v->ev;
	struct kvm_lapic_state lapic;

	for (uint64_t i = 0; i < n; i++) {
		arm_counter(k);
		kvm_alarms_to(ev->kr);
		raise_alarm();
		must(!bare_run(k), "kvm_sampling", "no signal");
		kvm_alarms_to(NULL);
		kvm_alarm_take(ev->kr);
		ev->kr->immediate_exit = 0;
		must(!ioctl(ev->fd, KVM_GET_LAPIC, &lapic) && lapic.regs[0x341] == 4, "LVTPC",
		     "is no NMI");
		must(!ioctl(ev->fd, KVM_NMI, 0), "KVM_NMI", strerror(errno));
		must(bare_run(k) == KVM_EXIT_IO && ev->kr->io.port == 0x80, "kvm_sampling",
		     "another exit");
	}
}

/* To the guest's loop: MSRs are answered by the model. */
static void boot_pmi(struct kvm_vm *k)
{
	const struct kvm_cpuid_entry2 *cpuid;
	struct vcpu_used used = {0};
	size_t n;

	/* CPUID of freestanding guests shows no local APIC on KVM; this one has one. */
	vmm_kvm_ops.supported_cpuid(engine, &cpuid, &n);
	must(!vmm_kvm_ops.set_cpuid(k->v->ev, cpuid, n), "kvm_sampling", "CPUID");
	atomic_store(&k->hurry, true);
	do
		must(vcpu_run_slice(k->v, &k->env, UINT64_MAX, &used) == VCPU_SLICE_INTR,
		     "kvm_sampling", k->vm->reason);
	while (k->v->run.exit != VMM_EXIT_IO || k->v->run.u.io.port != 0x81);
}

int bench_kvm_sampling(void)
{
	struct kvm_vm vpmu, bare;
	struct bench_set set = {.nr = 2,
				.rounds = 300,
				.slow = true,
				.c = {{.fn = pmi_vpmu, .arg = &vpmu, .n = 20, .no_warm = true},
				      {.fn = pmi_bare, .arg = &bare, .n = 20, .no_warm = true}}};

	if (!begin("kvm_sampling"))
		return 0;
	kvm_open(&vpmu, guest_pmi, guest_pmi_end, true);
	kvm_open(&bare, guest_pmi, guest_pmi_end, true);
	boot_pmi(&vpmu);
	boot_pmi(&bare);
	bench_measure(&set);
	bench_report("kvm_sampling", beyond(&set) / 1000, "us", 3, false,
		     json_pack("{s:f, s:f}", "pmi_us", set.c[0].ns / 1000, "bare_us",
			       set.c[1].ns / 1000));
	bench_free(&set);
	kvm_close(&bare);
	kvm_close(&vpmu);
	finish();
	return 0;
}

/* ---- kvm_rdpmc: how a stock kernel's RDPMC could leave its guest ---- */

static const uint64_t rdpmc_site = VPMU_BOOT_IMAGE + offsetof(struct guest_image, code);

/* Both ways take the guest's registers, for ECX and the address, and give it EAX and EDX. */
static void answer_rdpmc(struct vmm_engine_vcpu *ev, unsigned int insn_bytes)
{
	struct kvm_regs regs;

	must(!ioctl(ev->fd, KVM_GET_REGS, &regs) && regs.rip == rdpmc_site, "kvm_rdpmc",
	     "the guest is elsewhere");
	regs.rax = regs.rdx = 1;
	regs.rip += insn_bytes;
	must(!ioctl(ev->fd, KVM_SET_REGS, &regs), "KVM_SET_REGS", strerror(errno));
}

static void rdpmc_by_in(void *arg, uint64_t n)
{
	struct kvm_vm *k = arg;
	struct vmm_engine_vcpu *ev = k->v->ev;

	for (uint64_t i = 0; i < n; i++) {
		must(bare_run(k) == KVM_EXIT_IO && ev->kr->io.port == 0x33, "kvm_rdpmc",
		     "another exit");
		memset((uint8_t *)ev->kr + ev->kr->io.data_offset, 0, 4);
		answer_rdpmc(ev, 0); /* KVM goes on behind the IN itself */
	}
}

static void rdpmc_by_breakpoint(void *arg, uint64_t n)
{
	struct kvm_vm *k = arg;

	for (uint64_t i = 0; i < n; i++) {
		must(bare_run(k) == KVM_EXIT_DEBUG, "kvm_rdpmc", "another exit");
		answer_rdpmc(k->v->ev, 2);
	}
}

int bench_kvm_rdpmc(void)
{
	/* DR7: breakpoint 0 on, for execution (SDM vol. 3, 18.2.4). */
	struct kvm_guest_debug debug = {.control = KVM_GUESTDBG_ENABLE | KVM_GUESTDBG_USE_HW_BP,
					.arch.debugreg = {[0] = rdpmc_site, [7] = 0x402}};
	struct kvm_vm in, bp;
	struct kvm_regs regs;
	bool step = false;
	struct bench_set set = {
		.nr = 2,
		.rounds = 100,
		.slow = true,
		.c = {{.fn = rdpmc_by_in, .arg = &in, .n = 100, .no_warm = true},
		      {.fn = rdpmc_by_breakpoint, .arg = &bp, .n = 100, .no_warm = true}}};

	if (!begin("kvm_rdpmc"))
		return 0;
	kvm_open(&in, guest_in, guest_in_end, false);
	kvm_open(&bp, guest_in, guest_in_end, false);
	if (!ioctl(bp.v->ev->fd, KVM_SET_GUEST_DEBUG, &debug) && bare_run(&bp) == KVM_EXIT_IO) {
		/* Emulated CPUs may know no breakpoints in guests (QEMU's SVM loads DR7 and looks
		 * at it no more). A single step leaves the guest by the same #DB, with the
		 * debug registers in use: from the JMP it stops before the IN, as a breakpoint
		 * would. */
		debug.control |= KVM_GUESTDBG_SINGLESTEP;
		must(!ioctl(bp.v->ev->fd, KVM_GET_REGS, &regs), "KVM_GET_REGS", strerror(errno));
		regs.rip = rdpmc_site + 2;
		bp.v->ev->kr->immediate_exit = 1; /* only completes the IN */
		bare_run(&bp);
		bp.v->ev->kr->immediate_exit = 0;
		must(!ioctl(bp.v->ev->fd, KVM_SET_REGS, &regs), "KVM_SET_REGS", strerror(errno));
		step = !ioctl(bp.v->ev->fd, KVM_SET_GUEST_DEBUG, &debug);
		if (step && bare_run(&bp) == KVM_EXIT_DEBUG)
			answer_rdpmc(bp.v->ev, 2);
	}
	if (bp.v->ev->kr->exit_reason != KVM_EXIT_DEBUG) {
		printf("kvm_rdpmc: SKIPPED: this KVM has no breakpoints\n");
	} else {
		bench_measure(&set);
		bench_report("kvm_rdpmc", bench_ratio(&set, 1, 0), "x", 0, false,
			     json_pack("{s:f, s:f}", step ? "step_us" : "breakpoint_us",
				       set.c[1].ns / 1000, "in_us", set.c[0].ns / 1000));
		bench_free(&set);
	}
	kvm_close(&bp);
	kvm_close(&in);
	finish();
	return 0;
}

/* ---- kvm_boot ---- */

#define BOOTS 40

/* Resident memory of process @pid, in KiB: its own, and with the files it maps. The
 * largest anonymous mapping of exactly the guest's size is the guest's RAM, and is left out. */
static bool resident(pid_t pid, unsigned long *own, unsigned long *all)
{
	char path[64], line[300];
	unsigned long from, to, kb, anon = 0, rss = 0;
	bool guest = false;
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%d/smaps", (int)pid);
	f = fopen(path, "re");
	if (!f)
		return false;
	*own = *all = 0;
	while (fgets(line, sizeof(line), f)) {
		if (sscanf(line, "%lx-%lx ", &from, &to) == 2)
			guest = to - from == 16 * MIB;
		else if (sscanf(line, "Rss: %lu", &kb) == 1)
			rss = kb;
		else if (sscanf(line, "Anonymous: %lu", &kb) == 1)
			anon = kb;
		else if (!strncmp(line, "VmFlags:", 8) && !guest) {
			*own += anon;
			*all += rss;
		}
	}
	fclose(f);
	return true;
}

struct started {
	double ms;
	unsigned long own, all;
};

/* From the exec of vpmu-vmm to the line that the guest's first instructions print. */
static bool start_one(const char *vmm, const char *vm, struct started *s)
{
	int out[2];
	char line[64];
	double from;
	ssize_t n;
	pid_t pid;

	must(!pipe(out), "kvm_boot", strerror(errno));
	from = 1e3 * clock_s(CLOCK_MONOTONIC);
	pid = fork();
	must(pid >= 0, "kvm_boot", strerror(errno));
	if (!pid) {
		dup2(out[1], STDOUT_FILENO);
		close(out[0]);
		execl(vmm, vmm, "--no-socket", "--console", "stdout", "--vm", vm, NULL);
		_exit(127);
	}
	close(out[1]);
	n = read(out[0], line, sizeof(line) - 1);
	s->ms = 1e3 * clock_s(CLOCK_MONOTONIC) - from;
	line[n > 0 ? n : 0] = 0;
	must(strstr(line, "] x"), "kvm_boot", n > 0 ? line : "vpmu-vmm ended");
	n = resident(pid, &s->own, &s->all);
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	close(out[0]);
	return n;
}

int bench_kvm_boot(void)
{
	unsigned int n = bench_rounds(BOOTS);
	char path[] = "/tmp/vpmu-bench-XXXXXX", vm[200];
	struct started s[BOOTS];
	struct guest_image f;
	double ms[BOOTS];
	int fd;

	if (!begin("kvm_boot"))
		return 0;
	finish();
	make_image(&f, guest_hello, guest_hello_end);
	fd = mkstemp(path);
	must(fd >= 0 && write(fd, &f, sizeof(f)) == sizeof(f), "kvm_boot", strerror(errno));
	close(fd);
	snprintf(vm, sizeof(vm), "name=b,image=%s,engine=kvm", path);
	for (unsigned int i = 0; i < n; i++) {
		if (!start_one(VPMU_BENCH_VMM, vm, &s[i])) {
			unlink(path);
			must(false, "kvm_boot", "no /proc/PID/smaps");
		}
		ms[i] = s[i].ms;
	}
	unlink(path);
	qsort(ms, n, sizeof(ms[0]), by_value);
	bench_report("kvm_boot", ms[n / 4], "ms", 20, false,
		     json_pack("{s:i, s:f}", "starts", (int)n, "median_ms", ms[n / 2]));
	bench_report("kvm_boot_memory", (double)s[n - 1].own / 1024, "MiB", 5, false,
		     json_pack("{s:f}", "with_mapped_files_mib", (double)s[n - 1].all / 1024));
	return 0;
}
