// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * typist SCRIPT COMMAND...: executes COMMAND on a terminal of its own, and acts by the words of
 * SCRIPT: +TEXT waits until the output has TEXT behind what was found before =TEXT
 * types TEXT, ^] types Ctrl-], ^C Ctrl-C, !SIGNAL sends one of INT TERM HUP QUIT TSTP CONT,
 * "stopped" waits until the command is, "settings" adds to the output whether the terminal has the
 * settings that it had before. Prints the output, then a line with the status, and the settings
 * after the end.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <termios.h>
#include <time.h>
#include <unistd.h>

#define LIMIT_S 600

static char output[1 << 20];
static size_t len, seen;
static int terminal, slave;
static pid_t pid;
static int status;
static bool ended;
static struct termios before;

static void give_up(const char *what)
{
	fwrite(output, 1, len, stdout);
	printf("\ntypist: %s\n", what);
	if (pid > 0 && !ended)
		kill(pid, SIGKILL);
	exit(1);
}

static const char *settings(void)
{
	struct termios t;

	if (tcgetattr(slave, &t))
		return "gone";
	return t.c_iflag == before.c_iflag && t.c_oflag == before.c_oflag &&
			       t.c_cflag == before.c_cflag && t.c_lflag == before.c_lflag
		       ? "restored"
		       : "changed";
}

static void read_output(int ms)
{
	struct pollfd p = {.fd = terminal, .events = POLLIN};

	if (poll(&p, 1, ms) > 0) {
		ssize_t n = read(terminal, output + len, sizeof(output) - 1 - len);

		if (n > 0)
			len += (size_t)n;
	}
}

static void type(const char *text, size_t n)
{
	if (write(terminal, text, n) != (ssize_t)n)
		give_up("cannot type");
}

static bool act(const char *word)
{
	static const struct {
		const char *name;
		int sig;
	} signals[] = {{"INT", SIGINT},	  {"TERM", SIGTERM}, {"HUP", SIGHUP},
		       {"QUIT", SIGQUIT}, {"TSTP", SIGTSTP}, {"CONT", SIGCONT}};
	int st;

	if (*word == '+') {
		char *at = memmem(output + seen, len - seen, word + 1, strlen(word + 1));

		if (at)
			seen = (size_t)(at - output) + strlen(word + 1);
		return at;
	}
	if (!strcmp(word, "stopped"))
		return waitpid(pid, &st, WUNTRACED | WNOHANG) == pid && WIFSTOPPED(st);
	if (!strcmp(word, "end"))
		return ended = waitpid(pid, &status, WNOHANG) == pid;
	if (!strcmp(word, "settings"))
		len += (size_t)sprintf(output + len, "(%s)", settings());
	else if (!strcmp(word, "^]"))
		type("\035", 1);
	else if (!strcmp(word, "^C"))
		type("\003", 1);
	else if (*word == '=')
		type(word + 1, strlen(word + 1));
	for (size_t i = 0; *word == '!' && i < sizeof(signals) / sizeof(*signals); i++)
		if (!strcmp(word + 1, signals[i].name))
			kill(pid, signals[i].sig);
	return true;
}

int main(int argc, char **argv)
{
	time_t limit = time(NULL) + LIMIT_S;

	if (argc < 3)
		return 2;
	terminal = posix_openpt(O_RDWR | O_NOCTTY);
	if (terminal < 0 || grantpt(terminal) || unlockpt(terminal))
		return 1;
	slave = open(ptsname(terminal), O_RDWR | O_NOCTTY);
	if (slave < 0 || tcgetattr(slave, &before))
		return 1;
	/* As a shell: the leader of a session, with the command as the foreground group. A group
	 * without such a parent cannot be stopped by SIGTSTP. */
	pid = fork();
	if (pid > 0)
		return waitpid(pid, &status, 0) == pid && WIFEXITED(status) ? WEXITSTATUS(status)
									    : 1;
	setsid();
	ioctl(slave, TIOCSCTTY, 0);
	signal(SIGTTOU, SIG_IGN);
	pid = fork();
	if (pid == 0) {
		setpgid(0, 0);
		tcsetpgrp(slave, getpid());
		signal(SIGTTOU, SIG_DFL);
		dup2(slave, 0);
		dup2(slave, 1);
		dup2(slave, 2);
		close(slave);
		close(terminal);
		execvp(argv[2], argv + 2);
		_exit(127);
	}
	for (char *word = strtok(argv[1], " "); word; word = strtok(NULL, " ")) {
		while (!act(word)) {
			siginfo_t info = {.si_pid = 0};

			read_output(20);
			waitid(P_PID, (id_t)pid, &info, WEXITED | WNOHANG | WNOWAIT);
			if (info.si_pid && !act(word)) {
				ended = waitpid(pid, &status, 0) == pid;
				give_up(word);
			}
			if (time(NULL) > limit || len > sizeof(output) - 4096)
				give_up(word);
		}
	}
	while (!ended && !act("end")) {
		read_output(20);
		if (time(NULL) > limit)
			give_up("end");
	}
	read_output(0);
	fwrite(output, 1, len, stdout);
	if (WIFSIGNALED(status))
		printf("\nsignal %d, %s\n", WTERMSIG(status), settings());
	else
		printf("\nstatus %d, %s\n", WEXITSTATUS(status), settings());
	return 0;
}
