// SPDX-License-Identifier: GPL-2.0-or-later
/* The operator's terminal; see console.h. */
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <termios.h>
#include <unistd.h>

#include "cli/console.h"

static struct termios before, during;
static volatile sig_atomic_t changed;

bool console_terminal(void)
{
	return isatty(STDIN_FILENO) && isatty(STDOUT_FILENO);
}

/* A signal whose default action ends or stops the process: it does so with the terminal as it was.
 * After a stop the process continues here. All calls are async-signal-safe. */
static void on_signal(int sig)
{
	struct sigaction ours, usual = {.sa_handler = SIG_DFL};
	int saved = errno;
	sigset_t set, old;

	if (changed)
		tcsetattr(STDIN_FILENO, TCSANOW, &before);
	sigaction(sig, &usual, &ours);
	sigemptyset(&set);
	sigaddset(&set, sig);
	raise(sig);
	sigprocmask(SIG_UNBLOCK, &set, &old);
	sigprocmask(SIG_SETMASK, &old, NULL);
	sigaction(sig, &ours, NULL);
	if (changed)
		tcsetattr(STDIN_FILENO, TCSANOW, &during);
	errno = saved;
}

void console_terminal_restore(void)
{
	if (changed)
		tcsetattr(STDIN_FILENO, TCSANOW, &before);
	changed = false;
}

bool console_terminal_start(bool raw)
{
	static const int signals[] = {SIGHUP, SIGQUIT, SIGTSTP, SIGALRM, SIGUSR1, SIGUSR2};
	struct sigaction act = {.sa_handler = on_signal, .sa_flags = SA_RESTART};

	if (tcgetattr(STDIN_FILENO, &before))
		return false;
	during = before;
	if (raw)
		cfmakeraw(&during);
	else
		during.c_lflag &= ~(tcflag_t)(ICANON | ECHO);
	sigfillset(&act.sa_mask);
	for (size_t i = 0; i < sizeof(signals) / sizeof(*signals); i++) {
		struct sigaction is;

		/* What is ignored, as SIGHUP by nohup, stays so. */
		if (!sigaction(signals[i], NULL, &is) && is.sa_handler == SIG_DFL)
			sigaction(signals[i], &act, NULL);
	}
	atexit(console_terminal_restore);
	changed = true;
	if (tcsetattr(STDIN_FILENO, TCSANOW, &during)) {
		changed = false;
		return false;
	}
	return true;
}
