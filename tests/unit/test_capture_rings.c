// SPDX-License-Identifier: GPL-2.0-or-later
/* service/sample_ring.c with many producers at once; profiles in an event loop; clients that
 * go. */
#include <pthread.h>
#include <stdatomic.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "capture_bed.h"
#include "service/profile.h"

#define PRODUCERS 4
#define EACH	  200000

static struct sample_rings *rings;
static atomic_bool done;
static uint64_t next_ip[PRODUCERS], taken, out_of_order, torn;

static void *produce(void *arg)
{
	const uint64_t who = (uint64_t)(uintptr_t)arg;
	struct vpmu_lbr_regs lbr = {
		.ctl = VPMU_LBR_EN | VPMU_LBR_CALL_STACK, .depth = 32, .head = 3, .count = 4};

	for (uint64_t i = 0; i < EACH; i++) {
		struct sample_record r = {.vcpu = who, .ip = i, .periods = 1, .cpl = 3};

		for (int k = 0; k < 4; k++)
			lbr.e[k].from = who << 32 | i;
		sample_rings_put(rings, 5, &r, &lbr); /* all of them into one ring */
	}
	return NULL;
}

static void take(const struct sample_record *r, void *arg)
{
	/* Lost ones leave gaps, but nothing comes twice, late, or mixed with another. */
	out_of_order += r->ip < next_ip[r->vcpu];
	next_ip[r->vcpu] = r->ip + 1;
	torn += r->nr_from != 4 || !r->chained || r->cpl != 3;
	for (unsigned int i = 0; i < r->nr_from; i++)
		torn += r->from[i] != (r->vcpu << 32 | r->ip);
	taken += r->periods;
}

static void *consume(void *arg)
{
	while (!atomic_load(&done))
		sample_rings_drain(rings, take, NULL);
	while (sample_rings_drain(rings, take, NULL))
		;
	sample_rings_drain(rings, take, NULL);
	return NULL;
}

Test(rings, many_producers_one_ring)
{
	pthread_t p[PRODUCERS], c;

	rings = sample_rings_create(true);
	cr_assert(rings);
	pthread_create(&c, NULL, consume, NULL);
	for (uintptr_t i = 0; i < PRODUCERS; i++)
		pthread_create(&p[i], NULL, produce, (void *)i);
	for (int i = 0; i < PRODUCERS; i++)
		pthread_join(p[i], NULL);
	atomic_store(&done, true);
	pthread_join(c, NULL);
	cr_expect_eq(taken + sample_rings_lost(rings), (uint64_t)PRODUCERS * EACH,
		     "%llu taken, %llu lost", (unsigned long long)taken,
		     (unsigned long long)sample_rings_lost(rings));
	cr_expect(taken >= SAMPLE_CHAIN_SLOTS, "some got through");
	cr_expect_eq(out_of_order, 0);
	cr_expect_eq(torn, 0);
	sample_rings_free(rings);
}

/* ---- in the event loop ---------------------------------------------------------------------- */

static sd_event *ev;
static char sock[64];

static void setup(void)
{
	snprintf(sock, sizeof(sock), "/tmp/vpmu-test-%d/s.sock", getpid());
	cr_assert_geq(sd_event_new(&ev), 0);
	bed_server(ev, sock);
}

static void teardown(void)
{
	bed_fini();
	sd_event_unref(ev);
	*strrchr(sock, '/') = '\0';
	rmdir(sock);
}

/* Run the loop at least so long, and until there is nothing left to do in it. */
static void run_for_ms(unsigned int ms)
{
	struct timespec now, start;
	int busy;

	clock_gettime(CLOCK_MONOTONIC, &start);
	do {
		busy = sd_event_run(ev, 1000);
		clock_gettime(CLOCK_MONOTONIC, &now);
	} while (busy > 0 ||
		 (now.tv_sec - start.tv_sec) * 1000 + (now.tv_nsec - start.tv_nsec) / 1000000 <
			 (long)ms);
}

Test(loop, rings_are_emptied_without_a_read, .init = setup, .fini = teardown)
{
	json_t *a;

	bed_vm(test_tenant(&h, "/acme"), "web-1", 1);
	must("{'cmd':'profile-start','event':'instructions','period':1}");
	for (int round = 0; round < 3; round++) {
		for (int i = 0; i < SAMPLE_RING_SLOTS; i++)
			test_run(&h, 0, &vcpu->v, 1);
		run_for_ms(2 * PROFILE_DRAIN_MS + 50);
	}
	a = must("{'cmd':'profile-stop','profile':'@1'}");
	cr_expect_eq(num(a, "lost"), 0);
	cr_expect_eq(num(a, "samples"), 3 * SAMPLE_RING_SLOTS);
	/* The timer is off now, and on again with the next one. */
	run_for_ms(2 * PROFILE_DRAIN_MS);
	must("{'cmd':'profile-start','event':'instructions','period':1}");
	for (int i = 0; i < SAMPLE_RING_SLOTS; i++)
		test_run(&h, 0, &vcpu->v, 1);
	run_for_ms(2 * PROFILE_DRAIN_MS);
	for (int i = 0; i < SAMPLE_RING_SLOTS; i++)
		test_run(&h, 0, &vcpu->v, 1);
	cr_expect_eq(num(must("{'cmd':'profile-stop','profile':'@2'}"), "lost"), 0);
}

static int dial(const char *request)
{
	struct sockaddr_un addr = {.sun_family = AF_UNIX};
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0);
	char buf[4096];

	strcpy(addr.sun_path, sock);
	cr_assert_eq(connect(fd, (struct sockaddr *)&addr, sizeof(addr)), 0);
	cr_assert_eq(send(fd, request, strlen(request), MSG_NOSIGNAL), (ssize_t)strlen(request));
	run_for_ms(20);
	cr_assert_gt(recv(fd, buf, sizeof(buf), 0), 0);
	return fd;
}

Test(loop, what_a_client_started_ends_with_it, .init = setup, .fini = teardown)
{
	int fd[4];
	json_t *a;

	fd[0] = dial("{\"cmd\":\"profile-start\",\"event\":\"loads\"}\n");
	fd[1] = dial(
		"{\"cmd\":\"profile-start\",\"event\":\"loads\",\"name\":\"p\",\"keep\":true}\n");
	fd[2] = dial("{\"cmd\":\"lbr-attach\",\"target\":\"/\"}\n");
	fd[3] = dial("{\"cmd\":\"lbr-attach\",\"target\":\"/\",\"name\":\"c\",\"keep\":true}\n");
	a = must("{'cmd':'profiles'}");
	cr_expect_eq(size_of(a, "profiles"), 2);
	for (int i = 0; i < 4; i++)
		close(fd[i]);
	run_for_ms(20);
	a = must("{'cmd':'profiles'}");
	cr_assert_eq(size_of(a, "profiles"), 1);
	cr_expect_str_eq(str(nth(a, "profiles", 0), "profile"), "p");
	a = must("{'cmd':'captures'}");
	cr_assert_eq(size_of(a, "captures"), 1);
	cr_expect_str_eq(str(nth(a, "captures", 0), "capture"), "c");
}

Test(loop, who_samples_or_captures_is_not_idle, .init = setup, .fini = teardown)
{
	int fd[SERVER_CLIENTS_MAX + 1];
	char c;

	fd[0] = dial("{\"cmd\":\"profile-start\",\"event\":\"loads\"}\n");
	fd[1] = dial("{\"cmd\":\"lbr-attach\",\"target\":\"/\"}\n");
	for (int i = 2; i < SERVER_CLIENTS_MAX; i++)
		fd[i] = dial("{\"cmd\":\"sharing\"}\n");
	run_for_ms(SERVER_IDLE_MS + 50);
	fd[SERVER_CLIENTS_MAX] = dial("{\"cmd\":\"sharing\"}\n");
	cr_expect_eq(recv(fd[0], &c, 1, 0), -1, "still there");
	cr_expect_eq(recv(fd[1], &c, 1, 0), -1, "still there");
	cr_expect_eq(recv(fd[2], &c, 1, 0), 0, "closed");
	for (int i = 0; i <= SERVER_CLIENTS_MAX; i++)
		close(fd[i]);
	run_for_ms(20);
}
