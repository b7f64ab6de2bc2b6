/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * State shared by the files of vpmud/discover, and included by them only. scan.c walks /proc and
 * owns the table of processes; process.c, files.c and threads.c inspect one process; cgroup2.c
 * finds its cgroup; domains.c tracks libvirt's domains; vm.c handles reported VMs.
 */
#pragma once

#include <dirent.h>
#include <stdbool.h>

#include "vpmud/discover/cmdline.h"
#include "vpmud/discover/discover.h"
#include "vpmud/discover/domxml.h"
#include "vpmud/discover/procfile.h"
#include "vpmud/discover/virt.h"

/* Limits when inspecting one process; the rest is skipped, with a note. */
#define LOOK_ARGS_MAX	 (256 * 1024) /* bytes of a command line */
#define LOOK_FILES_MAX	 4096	      /* open files */
#define LOOK_THREADS_MAX 4096

enum proc_kind { PROC_NEW, PROC_OTHER, PROC_KERNEL, PROC_QEMU, PROC_VMM };

/* Causes of notes; each is noted once per process, or once for the host. */
enum note_cause {
	NOTE_FILES_DENIED = 1 << 0,
	NOTE_FILES_MANY = 1 << 1,
	NOTE_THREADS_MANY = 1 << 2,
	NOTE_THREADS_UNKNOWN = 1 << 3,
	NOTE_THREADS_SHARED = 1 << 4,
	NOTE_THREADS_TWICE = 1 << 5,
	NOTE_CGROUP = 1 << 6,
	NOTE_ERROR = 1 << 7,
	NOTE_DOMAIN = 1 << 8,
};

/* A known process. */
struct proc {
	pid_t pid;
	uint64_t start_time;
	char comm[64];
	uint64_t vsize;	   /* when its files were last read */
	uint64_t since;	   /* the round that found it */
	uint64_t seen;	   /* the last round that found it */
	uint64_t next;	   /* the round that reads its files next */
	unsigned int wait; /* rounds between such reads */
	unsigned int noted;
	enum proc_kind kind;
	bool args_read;
	struct qemu_args *args; /* PROC_QEMU; NULL: not read yet */
	char *socket;		/* PROC_VMM; NULL: not known */
	struct domxml *domain;	/* libvirt's data, kept after the domain is gone; or NULL */
	struct proc *unseen;	/* list of scan.c's sweep() */
	struct disc_vm *vm;	/* as reported, freed by vm.c; NULL: none */
};

/* A process's KVM descriptors. */
struct kvm_files {
	bool vm; /* at least one VM */
	size_t nr;
	struct {
		int fd, index;
	} vcpu[LOOK_FILES_MAX];
	size_t nr_sockets;
	uint64_t sockets[LOOK_FILES_MAX]; /* inodes */
};

/* State of a URI for disc_libvirt(). */
struct libvirt_uri {
	char *name;
	bool listing;	/* a list of all its domains is being read */
	bool connected; /* its domains are known */
	char why[320];	/* the error if not; empty: no answer yet */
};

struct disc {
	sd_event *event;
	sd_event_source *timer;
	struct disc_ops ops;
	void *arg;
	uint64_t poll_us;

	int proc; /* the directory /proc */
	char *proc_path;
	DIR *walk;	  /* the current round; NULL: none */
	uint64_t round;	  /* counts from 1 */
	bool all;	  /* this round inspects every process */
	uint64_t entries; /* of /proc, read so far */
	uint64_t began;	  /* start of the round; CLOCK_MONOTONIC, µs */
	void *procs;	  /* tsearch tree of struct proc by pid */
	uint64_t work;	  /* files read since the last pause */
	int error;	  /* of this round: the first other than the end of a process */
	unsigned int noted;
	unsigned int notes; /* notes left that processes may cause */

	int cgroup; /* the root of cgroup2, or -1 */

	struct virt *virt; /* NULL: without libvirt */
	size_t nr_uris;
	struct libvirt_uri *uris;
	sd_event_source *virt_source;
	bool virt_started;
	void *domains; /* tsearch tree of domains.c */

	char args[LOOK_ARGS_MAX];
	struct kvm_files files;
	struct disc_vcpu vcpus[LOOK_THREADS_MAX];
};

/* ---- discover.c ---- */

/* disc_note - report a line, once per @cause: of @p, or of the host if @p is NULL. With @cause 0
 * the caller prevents repetition. */
void disc_note(struct disc *d, struct proc *p, enum note_cause cause, const char *fmt, ...)
	__attribute__((format(printf, 4, 5)));

/* ---- scan.c ---- */

/* scan_some - continue the round until @limit files have been read. Returns true when the round is
 * over. */
bool scan_some(struct disc *d, uint64_t limit);

/* scan_restart - begin a new round, also over what the current one has not reached. @all: inspect
 * every process, even if it is not due. */
int scan_restart(struct disc *d, bool all);

/* scan_failed_round - note that the directory /proc could not be read. */
void scan_failed_round(struct disc *d, int err);

/* scan_pid - inspect one process now. */
void scan_pid(struct disc *d, pid_t pid);

/* scan_find - return the known process @pid, or NULL. */
struct proc *scan_find(struct disc *d, pid_t pid);

/* scan_free - free all processes without a report. */
void scan_free(struct disc *d);

/* ---- process.c ---- */

/*
 * process_look - inspect process @p: @dir is its directory in /proc, @st its stat file. *@out is a
 * new VM, or NULL if it is none. Returns 0 or -errno; procfile_gone(): it ended.
 */
int process_look(struct disc *d, struct proc *p, int dir, const struct proc_stat *st,
		 struct disc_vm **out);

/* process_due - returns true if process_look() may find something new. */
bool process_due(const struct disc *d, const struct proc *p, const struct proc_stat *st);

/* process_forget - discard all data of @p: it runs another program now. */
void process_forget(struct proc *p);

/* ---- files.c ---- */

/* files_look - fill d->files from the open files of the process at @dir. Returns 0, or -errno
 * (-EACCES: no permission). */
int files_look(struct disc *d, struct proc *p, int dir);

/* files_listening - find the path of the first listening socket of d->files, malloc()ed; *@path is
 * NULL if there is none. Returns 0 or a read error. */
int files_listening(struct disc *d, int dir, char **path);

/* ---- threads.c ---- */

/*
 * threads_look - fill d->vcpus with the vCPU threads of the process at @dir, sorted, and *@nr. With
 * @files, d->files is used to find threads whose names do not identify them.
 */
int threads_look(struct disc *d, struct proc *p, int dir, bool files, size_t *nr);

/* ---- cgroup2.c ---- */

/* cgroup2_of - set the cgroup of @vm from the process at @dir. @qemu: strip libvirt's
 * subdirectories of a VM. */
int cgroup2_of(struct disc *d, struct proc *p, int dir, bool qemu, struct disc_vm *vm);

/* ---- domains.c ---- */

/* domains_init - copy the URIs. */
void domains_init(struct disc *d, const char *const *uris, size_t nr);

/* domains_unavailable - note for each URI why it will never be connected. */
void domains_unavailable(struct disc *d, const char *why);

/* domains_take - process the messages of libvirt's threads, and inspect the processes concerned. */
void domains_take(struct disc *d);

/* domains_join - if @vm, process @p, is a libvirt domain, add libvirt's data to it. */
void domains_join(struct disc *d, struct proc *p, struct disc_vm *vm);

/* domains_free - free all domains. */
void domains_free(struct disc *d);

/* ---- vm.c ---- */

/* vm_free - free @vm with its members; NULL is allowed. */
void vm_free(struct disc_vm *vm);

/* vm_set - replace the string at @field by a copy of @text, which may be NULL. */
void vm_set(const char **field, const char *text);

bool vm_equal(const struct disc_vm *a, const struct disc_vm *b);
