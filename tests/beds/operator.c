// SPDX-License-Identifier: GPL-2.0-or-later
/* The operator of operator.h: processes, their output, and its fields. */
#include "tests/beds/operator.h"

#include <signal.h>
#include <stdio.h>
#include <sys/wait.h>

#include "tests/beds/bed.h"

#define VPMUD  "/bed/vpmud"
#define VPMU   "/bed/vpmu"
#define CONFIG "/tmp/vpmud.conf"

enum { MAX_OUTPUT = 65536, MAX_ARGUMENTS = 32 };

/* Returns true if vpmud @pid still runs. */
static bool lives(pid_t pid)
{
	int status;

	return waitpid(pid, &status, WNOHANG) == 0;
}

pid_t vpmud_start(const char *config)
{
	FILE *f = fopen(CONFIG, "we");
	int status = 1;
	pid_t pid;

	if (access(VPMUD, X_OK))
		cr_skip_test("this bed has no vpmud");
	cr_assert(f && fputs(config, f) >= 0 && !fclose(f), "%s: %s", CONFIG, strerror(errno));
	pid = fork();
	cr_assert(pid >= 0, "fork: %s", strerror(errno));
	if (pid == 0) {
		execl(VPMUD, "vpmud", "-c", CONFIG, NULL);
		_exit(127);
	}
	while (status) {
		usleep(10000);
		cr_assert(lives(pid), "vpmud has ended");
		ask("list", &status);
	}
	return pid;
}

static int end(pid_t vpmud, int sig)
{
	int status;

	cr_assert(!kill(vpmud, sig));
	cr_assert_eq(waitpid(vpmud, &status, 0), vpmud);
	return status;
}

void vpmud_kill(pid_t vpmud)
{
	cr_assert(WIFSIGNALED(end(vpmud, SIGKILL)));
}

void vpmud_stop(pid_t vpmud)
{
	cr_assert_eq(end(vpmud, SIGTERM), 0);
}

const char *ask(const char *arguments, int *status)
{
	static char out[MAX_OUTPUT];
	char text[512], *rest = text, *argv[MAX_ARGUMENTS + 2] = {"vpmu"};
	int fd[2], n = 1;
	size_t len = 0;
	ssize_t got;
	pid_t pid;

	cr_assert_lt(snprintf(text, sizeof(text), "%s", arguments), (int)sizeof(text));
	while (n <= MAX_ARGUMENTS && (argv[n] = strsep(&rest, " ")))
		n++;
	cr_assert(!pipe2(fd, O_CLOEXEC), "pipe: %s", strerror(errno));
	pid = fork();
	cr_assert(pid >= 0, "fork: %s", strerror(errno));
	if (pid == 0) {
		dup2(fd[1], STDOUT_FILENO);
		dup2(fd[1], STDERR_FILENO);
		execv(VPMU, argv);
		_exit(127);
	}
	close(fd[1]);
	while ((got = read(fd[0], out + len, sizeof(out) - 1 - len)) > 0)
		len += (size_t)got;
	cr_assert_lt(len, sizeof(out) - 1, "vpmu %s: too much output", arguments);
	close(fd[0]);
	out[len] = '\0';
	cr_assert_eq(waitpid(pid, status, 0), pid);
	*status = WIFEXITED(*status) ? WEXITSTATUS(*status) : 128;
	return out;
}

const char *asked(const char *arguments)
{
	int status;
	const char *out = ask(arguments, &status);

	cr_assert_eq(status, 0, "vpmu %s: exit status %d: %s", arguments, status, out);
	return out;
}

/* Copy the line of @text and return what follows; NULL: there is none. */
static const char *next_line(const char *text, char line[1024])
{
	size_t len = strcspn(text, "\n");

	if (!*text)
		return NULL;
	snprintf(line, 1024, "%.*s", (int)len, text);
	return text + len + (text[len] == '\n');
}

bool has_line(const char *text, const char *a, const char *b, const char *c)
{
	const char *const words[] = {a, b, c};
	char line[1024];

	while ((text = next_line(text, line))) {
		const char *p = line;

		for (size_t i = 0; p && i < 3 && words[i]; i++) {
			p = strstr(p, words[i]);
			p = p ? p + strlen(words[i]) : NULL;
		}
		if (p)
			return true;
	}
	return false;
}

uint64_t cell(const char *csv, const char *event, const char *tenant, const char *vm,
	      const char *vcpu)
{
	enum { COUNT, UNIT, EVENT, TENANT, VM, VCPU, FIELDS };
	const char *all = csv;
	unsigned int found = 0;
	char line[1024], *end;
	uint64_t v = 0;

	while ((csv = next_line(csv, line))) {
		char *f[FIELDS] = {NULL}, *rest = line;

		for (int i = 0; i < FIELDS; i++)
			f[i] = strsep(&rest, ",");
		if (!f[VCPU] || strcmp(f[EVENT], event) || strcmp(f[TENANT], tenant) ||
		    strcmp(f[VM], vm) || strcmp(f[VCPU], vcpu))
			continue;
		found++;
		v = strtoull(f[COUNT], &end, 10);
		if (!strcmp(f[COUNT], "<not counted>"))
			v = UINT64_MAX;
		else
			cr_assert(end != f[COUNT] && !*end, "%s of %s: %s", event, tenant,
				  f[COUNT]);
	}
	cr_assert_eq(found, 1u, "%u rows for %s of %s, VM \"%s\", vCPU \"%s\" in\n%s", found, event,
		     tenant, vm, vcpu, all);
	return v;
}
