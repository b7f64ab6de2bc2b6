/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * For tests of the BPF backend on the running kernel: a backend, cgroups of the test's own, workers
 * in them, and perf events of the test's own to compare with. A test that includes this is skipped
 * by one line where BPF, perf events or cgroup2 may not be used.
 */
#ifndef TESTS_INTEGRATION_CGROUP_BED_H
#define TESTS_INTEGRATION_CGROUP_BED_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "cgroup/cgroup.h"

/* The key of enum perf_sw_ids @id. */
#define SW(id)                                                                                     \
	((vpmu_key_t)VPMU_SPACE_SOFTWARE << VPMU_KEY_SPACE_SHIFT | (id) | VPMU_KEY_USR |           \
	 VPMU_KEY_OS | VPMU_KEY_GUEST | VPMU_KEY_HOST)

/* bed_open - a backend, and a cgroup of the test's own; @o may be NULL. Skips the test when there
 * can be none. bed_begin - the cgroup only. bed_reopen - one more backend. */
struct bpf_backend *bed_open(const struct bpf_backend_opts *o);
void bed_begin(void);
struct bpf_backend *bed_reopen(const struct bpf_backend_opts *o);
/* bed_leave - free the countings of @k and close it: what has pins counts on. bed_close - detach
 * them before. bed_done - bed_close, and bed_end. */
void bed_leave(struct bpf_backend *k);
void bed_close(struct bpf_backend *k);
void bed_done(struct bpf_backend *k);
/* bed_two_cpus - skips the test on one CPU. */
void bed_two_cpus(void);
/* bed_system - a shell command, which must succeed. */
void bed_system(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

/* bed_controllers - if no controller is switched on for the root's children, switch one on, as
 * systemd does on every host. Before that the kernel does not report moves between them. */
void bed_controllers(void);

/* bed_top - the test's own cgroup, from the root of the hierarchy; NULL after bed_end. bed_mount -
 * where that is; NULL: nowhere. */
const char *bed_mount(void);
const char *bed_top(void);
/* bed_cgroup - make a cgroup below the test's own, which is made and removed as needed; its id.
 * bed_rmdir - what still runs in it goes to the test's own cgroup first. */
uint64_t bed_cgroup(const char *name);
void bed_rmdir(const char *name);
/* bed_open_cgroup - a descriptor of its directory, which the caller closes. */
int bed_open_cgroup(const char *name);
/* bed_move - @pid runs in cgroup @name from now on. */
void bed_move(pid_t pid, const char *name);
/* bed_end - kill all workers and all else in the test's cgroups, and remove these. What a test that
 * was killed has left is removed by the next bed_open. */
void bed_end(void);

/* bed_first - from now on, the calling process runs before all that bed_fork() starts, if this user
 * may do that. Otherwise a test of some hundred steps waits for a CPU at each, while its workers
 * burn them. */
void bed_first(void);

/* bed_run_on - @pid (0: the caller) runs on @cpu only. */
void bed_run_on(pid_t pid, int cpu);

/* bed_share - memory of @bytes that child processes share, all 0. */
void *bed_share(size_t bytes);
/* bed_wait - until process @pid, which must not end before, has set *@ready. */
void bed_wait(pid_t pid, const int *ready);

/* bed_fork - as fork(), but the child is killed when its parent ends. An assertion that fails in
 * the child is printed and ends the child with status 1: Criterion's runner listens to the test's
 * own process only. */
pid_t bed_fork(void);

/* bed_spawn - a child that runs @fn until it is killed. It has been in @cgroup since before @fn. */
pid_t bed_spawn(const char *cgroup, void (*fn)(void *arg), void *arg);
void bed_kill(pid_t pid);

/* The workers' jobs, all without end. */
void work_faults(void *arg);
void work_switches(void *arg);
void work_migrations(void *arg);
void work_sleeps(void *arg);

/* bed_job - a worker in @cgroup that takes @faults page faults at each bed_job_go, which waits for
 * their end; bed_job itself also until the worker sleeps. bed_start_time - what
 * bpf_backend_bind_task wants. */
bool bed_asleep(pid_t pid);
pid_t bed_job(const char *cgroup, size_t faults);
void bed_job_go(void);
uint64_t bed_start_time(pid_t tid);

/* bed_counters - events of the test's own for @key on all CPUs; bed_counters_in - the same of the
 * tasks in a cgroup, as perf stat --for-each-cgroup has them; false: not possible.
 * bed_counters_read - their sum. */
struct bed_counters {
	int fd[64];
	unsigned int nr;
};
void bed_counters(struct bed_counters *c, vpmu_key_t key);
bool bed_counters_in(struct bed_counters *c, const char *cgroup, vpmu_key_t key);
uint64_t bed_counters_read(const struct bed_counters *c);
void bed_counters_close(struct bed_counters *c);

/* bed_counting - a counting of @n with a copy of @keys and values of its own, put before @next.
 * bed_read - flush and read a list. bed_value - the same of one; its first value's count. */
struct vpmu_counting *bed_counting(struct vpmu_backend_node *n, const vpmu_key_t *keys, size_t nr,
				   struct vpmu_counting *next);
void bed_counting_free(struct vpmu_counting *list);
void bed_attach(struct vpmu_counting *list);
void bed_detach(struct vpmu_counting *list);
void bed_read(struct vpmu_counting *list);
uint64_t bed_value(struct vpmu_counting *c);

/* bed_conserved - that nothing is lost on any CPU; returns how many CPUs and keys were compared. */
unsigned int bed_conserved(struct vpmu_backend *s);

/* bed_unseen - how many switches and moves the kernel has not shown: then values may be partial. */
uint64_t bed_unseen(struct bpf_backend *k);

/* bed_pin_dir - @dir becomes a path for pins in a BPF file system of the test's own, until the
 * test's end. Skips the test if there can be none. */
#define BED_PIN_DIR 80
void bed_pin_dir(char dir[BED_PIN_DIR]);

/* bed_node - a node; bed_tenant - one that cgroup @name is bound to, which it makes; bed_bind_task
 * - a thread is bound to @n. */
struct vpmu_backend_node *bed_node(struct vpmu_backend_node *parent);
struct vpmu_backend_node *bed_tenant(struct vpmu_backend_node *parent, const char *name);
void bed_bind_task(struct vpmu_backend_node *n, pid_t tid);

#endif
