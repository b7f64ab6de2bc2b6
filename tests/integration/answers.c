// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * A server with its answers in a file, for tests of the vpmu command: answers of servers that do
 * not exist here, and wrong ones. Usage: vpmu-answers SOCKET FILE
 *
 * Each line of FILE is "CMD ANSWER". A request of command CMD gets the next answer of that command;
 * the last one is repeated. "@" instead of an answer closes the connection; "+MS ANSWER" is sent
 * that many milliseconds later. A command that is not in the file gets an error. FILE.asked has the
 * command of each request, and its events. One client at a time; runs until it is killed.
 */
#include <errno.h>
#include <jansson.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#define LINES_MAX 64

static struct answer {
	char *cmd, *text;
	int used;
} answers[LINES_MAX];
static size_t nr_answers;

static int read_answers(const char *path)
{
	FILE *f = fopen(path, "re");
	char *line = NULL;
	size_t room = 0;

	if (!f)
		return -1;
	while (nr_answers < LINES_MAX && getline(&line, &room, f) > 0) {
		char *blank = strchr(line, ' ');

		if (!blank)
			continue;
		*blank = '\0';
		blank[1 + strcspn(blank + 1, "\n")] = '\0';
		answers[nr_answers].cmd = strdup(line);
		answers[nr_answers++].text = strdup(blank + 1);
	}
	free(line);
	fclose(f);
	return 0;
}

/* The next answer to @cmd that has not been used, or the last one. NULL: there is none. */
static const char *answer_to(const char *cmd)
{
	struct answer *last = NULL;

	for (size_t i = 0; i < nr_answers; i++) {
		if (strcmp(answers[i].cmd, cmd) != 0)
			continue;
		last = &answers[i];
		if (!last->used)
			break;
	}
	if (!last)
		return "{\"ok\":false,\"errno\":38,\"error\":\"no such command\"}";
	last->used = 1;
	return last->text;
}

/* Wait for the time in @text. Returns the rest of @text. */
static const char *wait_first(const char *text)
{
	char *end;

	if (*text != '+')
		return text;
	usleep((useconds_t)strtoul(text + 1, &end, 10) * 1000);
	return end + 1;
}

static void serve(FILE *in, int fd, FILE *asked)
{
	char *line = NULL;
	size_t room = 0;

	while (getline(&line, &room, in) > 0) {
		json_t *req = json_loads(line, 0, NULL);
		const char *cmd = json_string_value(json_object_get(req, "cmd"));
		const char *events = json_string_value(json_object_get(req, "events"));
		const char *text = wait_first(answer_to(cmd ? cmd : ""));

		fprintf(asked, "%s%s%s\n", cmd ? cmd : "?", events ? " " : "",
			events ? events : "");
		fflush(asked);
		if (strcmp(text, "@") != 0)
			dprintf(fd, "%s\n", text);
		json_decref(req);
		if (strcmp(text, "@") == 0)
			break;
	}
	free(line);
}

int main(int argc, char **argv)
{
	struct sockaddr_un addr = {.sun_family = AF_UNIX};
	int s = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	char name[4096];
	FILE *asked;

	if (argc != 3 || s < 0 || strlen(argv[1]) + 4 >= sizeof(addr.sun_path) ||
	    read_answers(argv[2])) {
		fprintf(stderr, "usage: vpmu-answers SOCKET FILE\n");
		return 2;
	}
	snprintf(name, sizeof(name), "%s.asked", argv[2]);
	asked = fopen(name, "we");
	if (!asked) {
		fprintf(stderr, "%s: %s\n", name, strerror(errno));
		return 1;
	}
	signal(SIGPIPE, SIG_IGN); /* a client may go at any time */
	/* It gets its name when it listens: the test waits for the name. */
	snprintf(addr.sun_path, sizeof(addr.sun_path), "%s.new", argv[1]);
	unlink(addr.sun_path);
	if (bind(s, (struct sockaddr *)&addr, sizeof(addr)) || listen(s, 8) ||
	    rename(addr.sun_path, argv[1])) {
		fprintf(stderr, "%s: %s\n", argv[1], strerror(errno));
		return 1;
	}
	for (;;) {
		int fd = accept(s, NULL, NULL);
		FILE *in = fd < 0 ? NULL : fdopen(fd, "r");

		if (!in)
			return 1;
		serve(in, fd, asked);
		fclose(in);
	}
}
