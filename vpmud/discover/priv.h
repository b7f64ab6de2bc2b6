/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Inside of vpmud/discover: the state that its files share. scan.c walks /proc and owns the table
 * of processes; process.c and threads.c look at one process; cgroup2.c finds its cgroup;
 * domains.c knows what libvirt says; vm.c holds what is reported. Nobody outside of this folder
 * includes this file.
 */
#ifndef VPMUD_DISCOVER_PRIV_H
#define VPMUD_DISCOVER_PRIV_H

#include <dirent.h>
#include <stdbool.h>

#include "vpmud/discover/cmdline.h"
#include "vpmud/discover/discover.h"
#include "vpmud/discover/domxml.h"
#include "vpmud/discover/procfile.h"
#include "vpmud/discover/virt.h"

/* Limits of one look at one process; what is beyond them is not looked at, and a note says so. */
#define LOOK_ARGS_MAX	 (256 * 1024) /* bytes of a command line */
#define LOOK_FILES_MAX	 4096	      /* open files */
#define LOOK_THREADS_MAX 4096

enum proc_kind { PROC_NEW, PROC_OTHER, PROC_KERNEL, PROC_QEMU, PROC_VMM };

/* Causes of notes; each is noted once for a process, or once for the host. */
enum note_cause {
	NOTE_FILES_DENIED = 1 << 0,
	NOTE_FILES_MANY = 1 << 1,
	NOTE_THREADS_MANY = 1 << 2,
	NOTE_THREADS_UNKNOWN = 1 << 3,
	NOTE_THREADS_SHARED = 1 << 4,
	NOTE_THREADS_TWICE = 1 << 5,
	NOTE_CGROUP = 1 << 6,
	NOTE_ERROR = 1 << 7,
	NOTE_MEMORY = 1 << 8,
	NOTE_DOMAIN = 1 << 9,
};

/* A process of the last rounds. */
struct proc {
	pid_t pid;
	uint64_t start_time;
	char comm[64];
	uint64_t vsize;	   /* at the last look at its files */
	uint64_t since;	   /* the round that found it */
	uint64_t seen;	   /* the last round that met it */
	uint64_t next;	   /* the round of the next look at its files */
	unsigned int wait; /* rounds between such looks */
	unsigned int noted;
	enum proc_kind kind;
	bool args_read;
	struct qemu_args *args; /* PROC_QEMU; NULL: not read yet */
	char *socket;		/* PROC_VMM; NULL: not known */
	struct domxml
		*domain;     /* libvirt's words about this process, also when it is gone; or NULL */
	struct proc *unseen; /* list of scan.c's sweep() */
	struct disc_vm *vm;  /* as reported, vm.c owns what it consists of; NULL: none */
};

/* The descriptors of KVM that a process has. */
struct kvm_files {
	bool vm; /* at least one VM */
	size_t nr;
	struct {
		int fd, index;
	} vcpu[LOOK_FILES_MAX];
	size_t nr_sockets;
	uint64_t sockets[LOOK_FILES_MAX]; /* inodes */
};

/* What disc_libvirt says of a URI. */
struct libvirt_uri {
	char *name;
	bool connected; /* its domains are known */
	char why[320];	/* it is not; empty: nothing has been heard yet */
};

struct disc {
	sd_event *event;
	sd_event_source *timer;
	struct disc_ops ops;
	void *arg;
	uint64_t poll_us;

	int proc; /* the directory /proc */
	char *proc_path;
	DIR *walk;	  /* the round that is going on */
	uint64_t round;	  /* counts from 1 */
	bool all;	  /* this round looks at every process */
	uint64_t entries; /* of /proc, met so far */
	uint64_t began;	  /* the round; CLOCK_MONOTONIC, µs */
	void *procs;	  /* tsearch tree of struct proc by pid */
	uint64_t work;	  /* files read since the last rest */
	int error;	  /* of this round: the first that is not a process's end */
	unsigned int noted;
	unsigned int notes; /* that processes may still cause */

	int cgroup; /* the root of cgroup2, or -1 */

	struct virt *virt; /* NULL: without libvirt */
	size_t nr_uris;
	struct libvirt_uri *uris;
	sd_event_source *virt_source;
	bool virt_started;
	void *domains; /* tsearch tree of domains.c */
	bool listing;  /* a list of all domains is being read */

	char args[LOOK_ARGS_MAX];
	struct kvm_files files;
	struct disc_vcpu vcpus[LOOK_THREADS_MAX];
};

/* ---- discover.c ---- */

/* disc_note - report a line, once for each @cause: of @p, or of the host if @p is NULL. With @cause
 * 0 the caller sees to it that it is not repeated. */
void disc_note(struct disc *d, struct proc *p, enum note_cause cause, const char *fmt, ...)
	__attribute__((format(printf, 4, 5)));

/* ---- scan.c ---- */

/* scan_some - go on with the round until @limit files have been read. True: the round is over. */
bool scan_some(struct disc *d, uint64_t limit);

/* scan_restart - begin a new round; what the last one has not reached yet comes in this one. @all:
 * look at every process, also at those whose turn it is not. */
int scan_restart(struct disc *d, bool all);

/* scan_pid - look at one process now. */
void scan_pid(struct disc *d, pid_t pid);

/* scan_find - process @pid as it was met last, or NULL. */
struct proc *scan_find(struct disc *d, pid_t pid);

/* scan_free - forget all processes, without a report. */
void scan_free(struct disc *d);

/* ---- process.c ---- */

/*
 * process_look - look at process @p, whose directory is @dir and whose stat file said @st. *@out is
 * a new VM, or NULL if it is none. Returns 0 or -errno; procfile_gone(): it ended.
 */
int process_look(struct disc *d, struct proc *p, int dir, const struct proc_stat *st,
		 struct disc_vm **out);

/* process_due - whether process_look() may find something that it did not find before. */
bool process_due(const struct disc *d, const struct proc *p, const struct proc_stat *st);

/* process_forget - what is known of @p was of another program. */
void process_forget(struct proc *p);

/* ---- files.c ---- */

/* files_look - fill d->files from the open files of the process at @dir. -EACCES: not permitted. */
int files_look(struct disc *d, struct proc *p, int dir);

/* files_listening - the path of the first socket of d->files that listens, malloc()ed, or NULL.
 * -ENOMEM and what reading says otherwise. */
int files_listening(struct disc *d, int dir, char **path);

/* ---- threads.c ---- */

/*
 * threads_look - fill d->vcpus with the vCPU threads of the process at @dir, sorted, and *@nr. With
 * @files also those are found that have no telling name, by d->files.
 */
int threads_look(struct disc *d, struct proc *p, int dir, bool files, size_t *nr);

/* ---- cgroup2.c ---- */

/* cgroup2_open - the descriptor of cgroup2's root: @root, or what /proc says. -ENOENT: none. */
int cgroup2_open(const char *root, int proc);

/* cgroup2_of - the cgroup of the process at @dir, as @vm has it. @qemu: take libvirt's directories
 * of one VM for one. */
int cgroup2_of(struct disc *d, struct proc *p, int dir, bool qemu, struct disc_vm *vm);

/* ---- domains.c ---- */

/* domains_init - what the URIs are. -ENOMEM; domains_free frees it in any case. */
int domains_init(struct disc *d, const char *const *uris, size_t nr);

/* domains_take - read what libvirt's threads have found out, and look at the processes concerned.
 */
void domains_take(struct disc *d);

/* domains_join - if libvirt knows @vm, which is process @p, say so in @vm. 0 or -ENOMEM. */
int domains_join(struct disc *d, struct proc *p, struct disc_vm *vm);

/* domains_free - forget all domains. */
void domains_free(struct disc *d);

/* ---- vm.c ---- */

/* vm_free - @vm and all that it points to; NULL is accepted. */
void vm_free(struct disc_vm *vm);

/* vm_set - replace the string at @field by a copy of @text, which may be NULL. */
int vm_set(const char **field, const char *text);

bool vm_equal(const struct disc_vm *a, const struct disc_vm *b);

#endif
