// SPDX-License-Identifier: GPL-2.0-or-later
/* Starts another kernel at once, in a guest of the nested bed: nested-kexec KERNEL INITRD CMDLINE
 */
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/reboot.h>
#include <sys/syscall.h>
#include <unistd.h>

int main(int argc, char **argv)
{
	int kernel, initrd;

	if (argc != 4) {
		fprintf(stderr, "usage: nested-kexec KERNEL INITRD CMDLINE\n");
		return 2;
	}
	kernel = open(argv[1], O_RDONLY | O_CLOEXEC);
	initrd = open(argv[2], O_RDONLY | O_CLOEXEC);
	if (kernel < 0 || initrd < 0) {
		perror("nested-kexec: open");
		return 1;
	}
	if (syscall(SYS_kexec_file_load, kernel, initrd, strlen(argv[3]) + 1, argv[3], 0ul)) {
		perror("nested-kexec: kexec_file_load");
		return 1;
	}
	reboot(0x45584543); /* LINUX_REBOOT_CMD_KEXEC */
	perror("nested-kexec: reboot");
	return 1;
}
