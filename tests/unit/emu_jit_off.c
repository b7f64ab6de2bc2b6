// SPDX-License-Identifier: GPL-2.0-or-later
/* The emulator on hosts that allow no executable memory. A part of test_emu_jit. */
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/unit/emu_bed.h"
#include "service/daemon/contain.h"
#include "vmm/emu/jit/jit.h"

/* 0: the guest computed the right result without translated code. */
static int without(void)
{
	static const uint8_t code[] = {0xb9, 0x10, 0x27, 0,    0,    0x48, 0x01,
				       0xc8, 0xff, 0xc9, 0x75, 0xf9, 0xf4}; /* sums 10000 to 1 */
	struct bed b;

	bed_start(&b, code, code + sizeof(code), false);
	if (!emu_jit_off() || bed_run(&b, 1000000) != VMM_EXIT_HLT || b.r.rax != 50005000 ||
	    ((struct emu_vcpu *)b.v)->jit.nr_parts)
		return 1;
	bed_stop(&b);
	return 0;
}

static int child(void (*before)(void))
{
	pid_t pid = fork();
	int status;

	cr_assert(pid >= 0);
	if (!pid) {
		before();
		_exit(without());
	}
	cr_assert_eq(waitpid(pid, &status, 0), pid);
	cr_assert(WIFEXITED(status), "status %x", status);
	return WEXITSTATUS(status);
}

static void refuse(void)
{
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) || contain_syscalls(NULL, 0))
		_exit(99);
}

static void forbid(void)
{
	if (!vmm_emu_translate(false) || strcmp(vmm_emu_translate(false), "--no-jit"))
		_exit(2);
}

Test(emu_jit_off, executable_memory_is_refused)
{
	int status = child(refuse);

	if (status == 99)
		cr_skip_test("this build or kernel has no filter of system calls");
	cr_assert_eq(status, 0);
}

Test(emu_jit_off, executable_memory_is_not_wanted)
{
	cr_assert_eq(child(forbid), 0);
}
