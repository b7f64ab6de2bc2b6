// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * vpmu-fleet: many hosts that are not there, for a real Prometheus, and clients as they should not
 * be.
 *
 *   vpmu-fleet config PORT HOSTS SECONDS     a configuration of Prometheus that scrapes them
 *   vpmu-fleet serve PORT HOSTS VMS EVENTS   a vpmud's text for GET /HOST/metrics, by the writer
 * that vpmud has; each read of it has greater counts vpmu-fleet slow PORT CLIENTS             each
 * sends a byte of a request every half second; prints how many the server has cut off, at the end
 * of the last vpmu-fleet idle PORT CLIENTS             the same, but they send nothing
 *
 * docs/fleet.md has results. Only tests and measurements use it: it is a poor HTTP server.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "exporter/exposition.h"
#include "vpmu/util/clock.h"

#define TENANTS 10 /* of a host */

static unsigned int hosts, vms, events;

static const char *const event_name[] = {
	"instructions", "cycles",	 "ref-cycles",	     "cache-misses",
	"branches",	"branch-misses", "context-switches", "page-faults",
};

static void die(const char *what)
{
	fprintf(stderr, "vpmu-fleet: %s: %s\n", what, strerror(errno));
	exit(1);
}

/* ---- hosts ---------------------------------------------------------------------------------- */

/* The counts of VM @vm on host @host: its rate is its own, and the same each time. */
static uint64_t count(unsigned int host, unsigned int vm, unsigned int event, uint64_t ns)
{
	uint64_t rate = 1000 + (host * 7919 + vm * 104729 + event * 1299709) % 1000000;

	return ns / 1000000 * rate;
}

static const char *labels(char buf[256], const char *what, const char *name, int event)
{
	size_t used = 0;

	*buf = '\0';
	if (name)
		expo_label(buf, 256, &used, what, name);
	expo_label(buf, 256, &used, "backend", "bpf");
	if (event >= 0)
		expo_label(buf, 256, &used, "event", event_name[event]);
	return buf;
}

static void vm_name(char name[64], unsigned int host, unsigned int vm)
{
	snprintf(name, 64, "instance-%08x", host * vms + vm);
}

static void domain_families(struct expo *e, unsigned int host, uint64_t ns)
{
	char l[256], name[64], more[512];

	expo_family(e, "vpmu_domain", EXPO_INFO, NULL, "A VM, and its tenant.");
	for (unsigned int v = 0; v < vms; v++) {
		vm_name(name, host, v);
		snprintf(more, sizeof(more),
			 "%s,uuid=\"%08x-0000-4000-8000-%012x\",tenant=\"/t%u\",cgroup=\"/"
			 "machine.slice/machine-qemu-%u.scope\"",
			 labels(l, "domain", name, -1), host, v, (host + v) % TENANTS, v);
		expo_u64(e, more, 1, 0);
	}
	expo_family(e, "vpmu_domain_run_seconds", EXPO_COUNTER, "seconds", "CPU time.");
	for (unsigned int v = 0; v < vms; v++) {
		vm_name(name, host, v);
		expo_ns(e, labels(l, "domain", name, -1), ns, 0);
	}
	for (int times = 0; times < 2; times++) {
		expo_family(e, times ? "vpmu_domain_events_running_seconds" : "vpmu_domain_events",
			    EXPO_COUNTER, times ? "seconds" : NULL, "Events.");
		for (unsigned int v = 0; v < vms; v++) {
			vm_name(name, host, v);
			for (unsigned int i = 0; i < events; i++) {
				labels(l, "domain", name, (int)i);
				if (times)
					expo_ns(e, l, ns, 0);
				else
					expo_u64(e, l, count(host, v, i, ns), 0);
			}
		}
	}
}

/* @tenants 0: the host. */
static void sum_families(struct expo *e, const char *what, unsigned int tenants, unsigned int host,
			 uint64_t ns)
{
	char l[256], name[64], run[64], counts[64], running[80];

	snprintf(run, sizeof(run), "vpmu_%s_run_seconds", what);
	snprintf(counts, sizeof(counts), "vpmu_%s_events", what);
	snprintf(running, sizeof(running), "vpmu_%s_events_running_seconds", what);
	for (int f = 0; f < 3; f++) {
		expo_family(e,
			    f == 0   ? run
			    : f == 1 ? counts
				     : running,
			    EXPO_COUNTER, f == 1 ? NULL : "seconds", "Sums.");
		for (unsigned int t = 0; t < (tenants ? tenants : 1); t++) {
			snprintf(name, sizeof(name), "/t%u", t);
			for (unsigned int i = 0; i < (f ? events : 1); i++) {
				labels(l, what, tenants ? name : NULL, f ? (int)i : -1);
				if (f == 1)
					expo_u64(e, l, 10 * count(host, t, i, ns), 0);
				else
					expo_ns(e, l, 10 * ns, 0);
			}
		}
	}
}

static void text(struct expo *e, unsigned int host)
{
	static uint64_t began;
	uint64_t ns = clock_ns(CLOCK_REALTIME);

	if (!began)
		began = ns - 1000000000;
	ns -= began;
	expo_family(e, "vpmu_build", EXPO_INFO, NULL, "Simulated.");
	expo_u64(e, "version=\"fleet\"", 1, 0);
	expo_family(e, "vpmu_backend_up", EXPO_GAUGE, NULL, "Simulated.");
	expo_u64(e, "backend=\"bpf\"", 1, 0);
	sum_families(e, "host", 0, host, ns);
	sum_families(e, "tenant", TENANTS, host, ns);
	domain_families(e, host, ns);
}

static void write_all(int fd, const char *at, size_t len)
{
	while (len) {
		ssize_t n = write(fd, at, len);

		if (n <= 0)
			return;
		at += n;
		len -= (size_t)n;
	}
}

/* A connection: request after request, until it ends. */
static void *serve_one(void *arg)
{
	int fd = (int)(intptr_t)arg;
	char buf[4096], head[200];
	size_t used = 0;
	ssize_t n;

	while ((n = read(fd, buf + used, sizeof(buf) - 1 - used)) > 0) {
		struct expo e = {.form = EXPO_TEXT};
		unsigned int host;

		used += (size_t)n;
		buf[used] = '\0';
		if (!strstr(buf, "\r\n\r\n"))
			continue;
		if (sscanf(buf, "GET /%u/metrics ", &host) != 1 || host >= hosts)
			break;
		used = 0;
		text(&e, host);
		if (expo_end(&e))
			break;
		snprintf(head, sizeof(head),
			 "HTTP/1.1 200 OK\r\nContent-Type: %s\r\nContent-Length: %zu\r\n\r\n",
			 expo_content_type(EXPO_TEXT), e.len);
		write_all(fd, head, strlen(head));
		write_all(fd, e.text, e.len);
		expo_fini(&e);
	}
	close(fd);
	return NULL;
}

static void address(struct sockaddr_in *a, const char *port)
{
	*a = (struct sockaddr_in){.sin_family = AF_INET,
				  .sin_port = htons((uint16_t)atoi(port)),
				  .sin_addr = {htonl(INADDR_LOOPBACK)}};
}

static void serve(const char *port)
{
	struct sockaddr_in a;
	int one = 1, fd = socket(AF_INET, SOCK_STREAM, 0);
	pthread_attr_t small;

	address(&a, port);
	if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one)) ||
	    bind(fd, (struct sockaddr *)&a, sizeof(a)) || listen(fd, 4096))
		die("listen");
	pthread_attr_init(&small);
	pthread_attr_setstacksize(&small, 65536);
	pthread_attr_setdetachstate(&small, PTHREAD_CREATE_DETACHED);
	for (;;) {
		int c = accept(fd, NULL, NULL);
		pthread_t t;

		if (c < 0)
			die("accept");
		if (pthread_create(&t, &small, serve_one, (void *)(intptr_t)c))
			close(c);
	}
}

static void config(const char *port, const char *seconds)
{
	printf("global: {scrape_interval: %ss, scrape_timeout: %ss, evaluation_interval: %ss}\n"
	       "rule_files: [\"*.rules.yml\"]\nscrape_configs:\n  - job_name: vpmu\n"
	       "    relabel_configs:\n      - {source_labels: [instance], regex: 'h([0-9]+)', "
	       "target_label: __metrics_path__, replacement: '/$1/metrics'}\n"
	       "    static_configs:\n",
	       seconds, seconds, seconds);
	for (unsigned int h = 0; h < hosts; h++)
		printf("      - {targets: ['127.0.0.1:%s'], labels: {instance: h%u}}\n", port, h);
}

/* ---- clients -------------------------------------------------------------------------------- */

static void slow(const char *port, unsigned int n, bool idle)
{
	struct pollfd *p = calloc(n, sizeof(*p));
	struct sockaddr_in a;
	unsigned int left = n, cut = 0;
	char buf[4096];

	if (!p)
		die("memory");
	address(&a, port);
	for (unsigned int i = 0; i < n; i++) {
		p[i].fd = socket(AF_INET, SOCK_STREAM, 0);
		p[i].events = POLLIN;
		if (p[i].fd < 0 || connect(p[i].fd, (struct sockaddr *)&a, sizeof(a)))
			die("connect");
		if (!idle)
			write_all(p[i].fd, "GET /metrics HTTP/1.1\r\nX-", 25);
	}
	while (left) {
		if (poll(p, n, 500) < 0)
			die("poll");
		for (unsigned int i = 0; i < n; i++) {
			ssize_t got = 1;

			if (p[i].fd < 0)
				continue;
			if (p[i].revents)
				got = read(p[i].fd, buf, sizeof(buf));
			if (got > 0 && (idle || send(p[i].fd, "x", 1, MSG_NOSIGNAL) == 1))
				continue;
			close(p[i].fd);
			p[i].fd = -1;
			left--;
			cut++;
		}
	}
	printf("%u\n", cut);
	free(p);
}

int main(int argc, char **argv)
{
	signal(SIGPIPE, SIG_IGN);
	if (argc == 4 && (!strcmp(argv[1], "slow") || !strcmp(argv[1], "idle"))) {
		slow(argv[2], (unsigned int)atoi(argv[3]), argv[1][0] == 'i');
		return 0;
	}
	if (argc == 5 && !strcmp(argv[1], "config")) {
		hosts = (unsigned int)atoi(argv[3]);
		config(argv[2], argv[4]);
		return 0;
	}
	if (argc == 6 && !strcmp(argv[1], "serve")) {
		hosts = (unsigned int)atoi(argv[3]);
		vms = (unsigned int)atoi(argv[4]);
		events = (unsigned int)atoi(argv[5]);
		if (events >= 1 && events <= sizeof(event_name) / sizeof(event_name[0]))
			serve(argv[2]);
	}
	fprintf(stderr, "vpmu-fleet: see the head of tests/ecosystem/fleet.c\n");
	return 2;
}
