// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Every command of the control socket, with every allocation it makes failing in turn: alone, and
 * with all that follow. The answer is "ok" and the command is done whole, on the object that it
 * names; or the answer is ENOMEM, and nothing has changed; nothing leaks (the sanitizer build
 * looks). Each object has a decoy, named as the object with one character missing: jansson's
 * parser drops a character when it cannot grow its buffer. The machine is not launched, so this
 * thread does all the work and every run makes the same allocations.
 */
#include <criterion/criterion.h>
#include <unistd.h>

#include "service/json_memory.h"
#include "../nomem.h"
#include "machine_bed.h"
#include "tests/unit/bz_image.h"
#include "tests/unit/multiboot_image.h"
#include "vmm/emu/internal.h"
#include "vmm/machine/priv.h"

#define ADD(rest)                                                                                  \
	"{\"cmd\":\"vm-add\",\"image\":\"" VPMU_GUEST "\",\"engine\":\"emulator\"," rest "}"

static struct bed b;
static char dir[64];

static void setup(void)
{
	snprintf(dir, sizeof(dir), "/tmp/vpmu-nomem-%d", getpid());
	bed_open(&b, "pcpus=2,slice=2000");
	bed_add(&b, "name=production-web-12,tenant=/acme/web-front-9,vcpus=2,args=spin");
	bed_add(&b, "name=production-web12,tenant=/acme/webfront-9,args=spin");
	for (struct machine_vm *vm = machine_vms(b.machine); vm; vm = vm->next)
		cr_assert_eq(machine_vm_start(vm, NULL, 0), 0);
	machine_step(b.machine, 20);
}

static void teardown(void)
{
	unlink(dir);
	bed_close(&b);
}

TestSuite(nomem, .init = setup, .fini = teardown);

/* ---- jansson ------------------------------------------------------------------------------ */

/* The value of @text when its n-th allocation fails: whole, or none. Returns whether one failed. */
static bool parses_whole_or_not(const char *text, unsigned long n, bool all, json_t *whole)
{
	bool said, any;
	json_t *v;

	nomem_arm(n, all);
	v = json_memory_parse(text, strlen(text), 0, NULL);
	said = json_memory_failed();
	any = nomem_disarm();
	cr_assert_eq(said, any, "%s, allocation %lu: a failure is not told", text, n);
	cr_assert_eq(!v, any, "%s, allocation %lu: half a value, or none", text, n);
	cr_assert(!v || json_equal(v, whole), "%s, allocation %lu: another value", text, n);
	json_decref(v);
	return any;
}

/* Tokens of all lengths: jansson's buffer is full at each of their characters once, at quotation
 * marks and in the middle of escapes among them. */
Test(nomem, no_text_is_parsed_by_halves)
{
	static const char *const units[] = {"a", "\\n", "\\u20ac", "\xc3\xa9", "\\ud83d\\ude00"};
	char text[1200];

	json_memory_init();
	for (size_t u = 0; u < sizeof(units) / sizeof(units[0]); u++)
		for (unsigned int units_in_it = 0; units_in_it < 70; units_in_it++) {
			json_t *whole;
			size_t len = (size_t)sprintf(text, "{\"k\":[1,true,\"");

			for (unsigned int i = 0; i < units_in_it; i++)
				len += (size_t)sprintf(text + len, "%s", units[u]);
			strcpy(text + len, "\"],\"b\":-12.5}");
			whole = json_loads(text, 0, NULL);
			cr_assert_not_null(whole, "%s", text);
			for (int all = 0; all < 2; all++)
				for (unsigned long n = 0; parses_whole_or_not(text, n, all, whole);)
					n++;
			json_decref(whole);
		}
}

/* Small values and then a long token: memory that small values could still use is no help then. */
Test(nomem, no_long_token_is_parsed_by_halves)
{
	char text[2000];

	json_memory_init();
	for (unsigned int small = 0; small < 200; small += 4)
		for (unsigned int longer = 100; longer <= 1200; longer += 100) {
			json_t *whole;
			size_t len = 1;

			text[0] = '[';
			for (unsigned int i = 0; i < small; i++)
				len += (size_t)sprintf(text + len, "1,");
			sprintf(text + len, "\"%0*d\"]", (int)longer, 1);
			whole = json_loads(text, 0, NULL);
			cr_assert_not_null(whole, "%s", text);
			for (unsigned long n = 0; n < 8; n++)
				parses_whole_or_not(text, n, true, whole);
			json_decref(whole);
		}
}

/* ---- what must not change ----------------------------------------------------------------- */

static json_t *ask(const char *line)
{
	char *text = server_dispatch(b.control.server, line, strlen(line));
	json_t *answer = text ? json_loads(text, 0, NULL) : NULL;

	cr_assert(!text || answer, "%s -> %s", line, text);
	free(text);
	return answer;
}

/* All that operators can see, without what changes by itself. */
static char *state(void)
{
	static const char *const asks[][2] = {
		{"{\"cmd\":\"list\"}", "nodes"},
		{"{\"cmd\":\"sessions\"}", "sessions"},
		{"{\"cmd\":\"profiles\"}", "profiles"},
		{"{\"cmd\":\"captures\"}", "captures"},
	};
	json_t *all = json_array(), *answer, *list, *e;
	char *text;
	size_t k;

	for (size_t i = 0; i < sizeof(asks) / sizeof(asks[0]); i++) {
		answer = ask(asks[i][0]);
		list = json_object_get(answer, asks[i][1]);
		cr_assert(list, "%s", asks[i][0]);
		json_array_foreach (list, k, e) {
			json_object_del(e, "age-ns");
			json_object_del(e, "start-width-ns");
			/* Without memory a session misses a new VM, and reports it: "dropped". */
			json_object_del(e, "nr-rows");
			json_object_del(e, "id");
		}
		json_array_append(all, list);
		json_decref(answer);
	}
	text = json_dumps(all, JSON_SORT_KEYS);
	json_decref(all);
	return text;
}

static void must(const char *line)
{
	if (line)
		json_decref(bed_ask(&b, true, "%s", line));
}

/* ---- the sweep ------------------------------------------------------------------------------ */

struct step {
	const char *before; /* the command's arguments; NULL: none */
	const char *command;
	const char *undo;    /* after the command was done */
	const char *after;   /* undoes before */
	bool (*whole)(void); /* what the command has made is all there; NULL: state() has it */
	bool early; /* it cannot be taken back: it may be done although the answer is ENOMEM */
};

static bool failed(const json_t *answer)
{
	return !json_is_true(json_object_get(answer, "ok"));
}

/* Returns whether an allocation failed, so that there may be one more. */
static bool try_one(const struct step *s, unsigned long n, bool all, const char *unchanged,
		    const char *done)
{
	unsigned long fails;
	json_t *answer;
	char *now, *text;

	nomem_arm(n, all);
	text = server_dispatch(b.control.server, s->command, strlen(s->command));
	fails = nomem_disarm();
	answer = text ? json_loads(text, JSON_REJECT_DUPLICATES, NULL) : NULL;
	cr_assert(text ? answer != NULL : fails, "%s, allocation %lu: %s", s->command, n, text);
	now = state();
	cr_assert(failed(answer) || !s->whole || s->whole(), "%s, allocation %lu", s->command, n);
	if (!failed(answer))
		cr_assert_str_eq(now, done, "%s, allocation %lu: \"ok\", but\n%s\nis not\n%s",
				 s->command, n, now, done);
	else if (answer)
		cr_assert_eq(json_integer_value(json_object_get(answer, "errno")), ENOMEM,
			     "%s, allocation %lu: %s", s->command, n, text);
	if (failed(answer))
		cr_assert(fails && (!strcmp(now, unchanged) || (s->early && !strcmp(now, done))),
			  "%s, allocation %lu: %s, and\n%s\nis not\n%s", s->command, n, text, now,
			  unchanged);
	if (s->undo && !strcmp(now, done) && strcmp(done, unchanged))
		must(s->undo);
	else if (s->undo && !strcmp(now, done) && !failed(answer))
		must(s->undo);
	json_decref(answer);
	free(now);
	free(text);
	return fails;
}

static void sweep(const struct step *s)
{
	char *unchanged, *done;

	must(s->before);
	/* Once, so that what only the first time makes is there. */
	must(s->command);
	must(s->undo);
	unchanged = state();
	must(s->command);
	done = state();
	must(s->undo);
	for (int all = 0; all < 2; all++)
		for (unsigned long n = 0; try_one(s, n, all, unchanged, done); n++)
			cr_assert_lt(n, 100000, "%s", s->command);
	must(s->after);
	free(unchanged);
	free(done);
}

#define NAME   "\"name\":\"long-name-of-mine-1\""
#define DECOY  "\"name\":\"longname-of-mine-1\""
#define ATTACH "{\"cmd\":\"attach\",\"events\":\"instructions,cycles:u\",\"target\":\"/acme\","

Test(nomem, looking)
{
	static const struct step steps[] = {
		{.command = "{\"cmd\":\"hello\",\"id\":\"a-longer-id-than-16\"}"},
		{.command = "{\"cmd\":\"list\"}"},
		{.command = "{\"cmd\":\"events\"}"},
		{.command = "{\"cmd\":\"sharing\"}"},
		{.command = "{\"cmd\":\"conservation\"}"},
		{.command = "{\"cmd\":\"check\"}"},
		{.command = "{\"cmd\":\"sessions\",\"id\":7}"},
		{.command = "{\"cmd\":\"profiles\"}"},
		{.command = "{\"cmd\":\"captures\"}"},
		{.command = "{\"cmd\":\"lbr-read\",\"target\":\"/\"}"},
	};

	for (size_t i = 0; i < sizeof(steps) / sizeof(steps[0]); i++)
		sweep(&steps[i]);
}

Test(nomem, tenants)
{
	static const struct step steps[] = {
		{.command = "{\"cmd\":\"tenant-add\",\"path\":\"/other/a-longer-name/x\"}",
		 .early = true,
		 .undo = "{\"cmd\":\"tenant-remove\",\"path\":\"/other/a-longer-name/x\"}",
		 .before = "{\"cmd\":\"tenant-add\",\"path\":\"/other/a-longer-name\"}",
		 .after = "{\"cmd\":\"tenant-remove\",\"path\":\"/other/a-longer-name\"}"},
		{.before = "{\"cmd\":\"tenant-add\",\"path\":\"/other-long-name-1\"}",
		 .command = "{\"cmd\":\"tenant-remove\",\"path\":\"/other-long-name-1\"}",
		 .early = true,
		 .undo = "{\"cmd\":\"tenant-add\",\"path\":\"/other-long-name-1\"}"},
	};

	must("{\"cmd\":\"tenant-add\",\"path\":\"/otherlong-name-1\"}");
	for (size_t i = 0; i < sizeof(steps) / sizeof(steps[0]); i++)
		sweep(&steps[i]);
}

Test(nomem, sessions)
{
	static const struct step steps[] = {
		{.command = ATTACH NAME ",\"keep\":true,\"scope\":\"vm\"}",
		 .undo = "{\"cmd\":\"detach\",\"session\":\"long-name-of-mine-1\"}"},
		{.command = ATTACH NAME ",\"scope\":\"vcpu\"}",
		 .undo = "{\"cmd\":\"detach\",\"session\":\"long-name-of-mine-1\"}"},
		{.before = ATTACH NAME "}",
		 .command = "{\"cmd\":\"reattach\",\"session\":\"long-name-of-mine-1\"}",
		 .after = "{\"cmd\":\"detach\",\"session\":\"long-name-of-mine-1\"}"},
		{.before = ATTACH NAME ",\"keep\":true,\"scope\":\"tenant\"}",
		 .command = "{\"cmd\":\"read\",\"session\":\"long-name-of-mine-1\"}"},
		{.command = "{\"cmd\":\"detach\",\"session\":\"long-name-of-mine-1\"}",
		 .undo = ATTACH NAME ",\"keep\":true,\"scope\":\"tenant\"}",
		 .after = "{\"cmd\":\"detach\",\"session\":\"long-name-of-mine-1\"}"},
	};

	must(ATTACH DECOY "}");
	for (size_t i = 0; i < sizeof(steps) / sizeof(steps[0]); i++)
		sweep(&steps[i]);
}

#define PROFILE "{\"cmd\":\"profile-start\",\"event\":\"instructions\",\"period\":1000,"

Test(nomem, profiles)
{
	static const struct step steps[] = {
		{.command = PROFILE NAME "}",
		 .undo = "{\"cmd\":\"profile-stop\",\"profile\":\"long-name-of-mine-1\"}"},
		{.command = PROFILE NAME ",\"lbr\":true,\"target\":\"/acme\"}",
		 .undo = "{\"cmd\":\"profile-stop\",\"profile\":\"long-name-of-mine-1\"}"},
		{.before = PROFILE NAME ",\"lbr\":true,\"target\":\"production-web-12\"}",
		 .command = "{\"cmd\":\"profile-read\",\"profile\":\"long-name-of-mine-1\"}"},
		{.command = "{\"cmd\":\"profile-stop\",\"profile\":\"long-name-of-mine-1\"}",
		 .undo = PROFILE NAME ",\"lbr\":true,\"target\":\"production-web-12\"}",
		 .after = "{\"cmd\":\"profile-stop\",\"profile\":\"long-name-of-mine-1\"}"},
	};

	must(PROFILE DECOY "}");
	for (size_t i = 0; i < sizeof(steps) / sizeof(steps[0]); i++) {
		machine_step(b.machine, 20);
		sweep(&steps[i]);
	}
}

#define CAPTURE "{\"cmd\":\"lbr-attach\",\"target\":\"production-web-12\","

Test(nomem, captures)
{
	static const struct step steps[] = {
		{.command = CAPTURE NAME "}",
		 .undo = "{\"cmd\":\"lbr-detach\",\"capture\":\"long-name-of-mine-1\"}"},
		{.before = CAPTURE NAME "}", .command = "{\"cmd\":\"lbr-read\",\"target\":\"/\"}"},
		{.command = "{\"cmd\":\"lbr-detach\",\"capture\":\"long-name-of-mine-1\"}",
		 .undo = CAPTURE NAME "}",
		 .after = "{\"cmd\":\"lbr-detach\",\"capture\":\"long-name-of-mine-1\"}"},
	};

	must(CAPTURE DECOY "}");
	for (size_t i = 0; i < sizeof(steps) / sizeof(steps[0]); i++) {
		machine_step(b.machine, 20);
		sweep(&steps[i]);
	}
}

#define VM                                                                                         \
	ADD("\"name\":\"staging-web-1\",\"tenant\":\"/acme/web-front-9\",\"vcpus\":2,"             \
	    "\"args\":\"spin\",\"deny\":\"branches\"")

Test(nomem, vms)
{
	static const struct step steps[] = {
		{.command = VM, .undo = "{\"cmd\":\"vm-remove\",\"name\":\"staging-web-1\"}"},
		{.before = VM,
		 .command = "{\"cmd\":\"vm-remove\",\"name\":\"staging-web-1\"}",
		 .undo = VM},
		{.command = "{\"cmd\":\"vm-set\",\"name\":\"staging-web-1\",\"weight\":300}",
		 .early = true},
		{.command = "{\"cmd\":\"tenant-set\",\"path\":\"/acme/web-front-9\",\"weight\":300,"
			    "\"max_events\":20}",
		 .early = true},
		{.command = "{\"cmd\":\"pause\",\"name\":\"staging-web-1\"}",
		 .early = true,
		 .after = "{\"cmd\":\"vm-remove\",\"name\":\"staging-web-1\"}"},
	};

	must(ADD("\"name\":\"stagingweb-1\",\"tenant\":\"/acme/webfront-9\""));
	/* Operators watch at the same time, so that VMs come and go in sessions and profiles as
	 * well. */
	must(ATTACH NAME ",\"scope\":\"vcpu\"}");
	must(PROFILE NAME ",\"lbr\":true,\"target\":\"/acme\"}");
	for (size_t i = 0; i < sizeof(steps) / sizeof(steps[0]); i++) {
		machine_step(b.machine, 20);
		sweep(&steps[i]);
	}
}

static bool all_have_svm(void)
{
	const struct machine_vm *vm = machine_vm_find(b.machine, "kernel-web-1");

	for (unsigned int i = 0; vm && i < vm->vm->nr_vcpus; i++)
		if (!emu_to_vcpu(vm->vm->vcpus[i].ev)->svm)
			return false;
	return vm;
}

/* VMs that boot a kernel: a bzImage, which is unpacked, and a multiboot image; with SVM, and saved
 * and restored. */
Test(nomem, kernels)
{
	char files[3][128], command[2][700], save[256], restore[256];
	struct bz_vmlinux vmlinux;
	struct mb_image multiboot;
	struct image bz;

	bz_vmlinux(&vmlinux);
	mb_image(&multiboot);
	cr_assert(bz_image(BZ_GZIP, &vmlinux, sizeof(vmlinux), &bz));
	for (unsigned int i = 0; i < 3; i++) {
		const void *data = i == 0   ? (const void *)bz.data
				   : i == 1 ? (const void *)&multiboot
					    : (const void *)"initrd";
		size_t bytes = i == 0 ? bz.bytes : i == 1 ? sizeof(multiboot) : 6;
		FILE *out;

		snprintf(files[i], sizeof(files[i]), "%s.kernel%u", dir, i);
		out = fopen(files[i], "w");
		cr_assert(out && fwrite(data, 1, bytes, out) == bytes && !fclose(out));
	}
	image_free(&bz);
	for (unsigned int i = 0; i < 2; i++) {
		struct step s = {.command = command[i],
				 .undo = "{\"cmd\":\"vm-remove\",\"name\":\"kernel-web-1\"}",
				 .whole = i ? all_have_svm : NULL};

		snprintf(command[i], sizeof(command[i]),
			 "{\"cmd\":\"vm-add\",\"kernel\":\"%s\",\"initrd\":\"%s\",\"engine\":"
			 "\"emulator\",\"name\":\"kernel-web-1\",\"tenant\":\"/acme/web-front-9\","
			 "\"vcpus\":2,\"memory\":\"32M\",\"cmdline\":\"quiet\"%s}",
			 files[i], files[2], i ? ",\"pmu\":\"amd-v2\",\"svm\":\"yes\"" : "");
		sweep(&s);
	}
	must(command[0]);
	must("{\"cmd\":\"pause\",\"name\":\"kernel-web-1\"}");
	snprintf(save, sizeof(save),
		 "{\"cmd\":\"vm-save\",\"name\":\"kernel-web-1\",\"file\":\"%s\"}", dir);
	snprintf(
		restore, sizeof(restore),
		"{\"cmd\":\"vm-restore\",\"file\":\"%s\",\"name\":\"kernel-web-2\",\"trust\":true}",
		dir);
	sweep(&(struct step){.command = save, .early = true});
	sweep(&(struct step){.command = restore,
			     .undo = "{\"cmd\":\"vm-remove\",\"name\":\"kernel-web-2\"}"});
	for (unsigned int i = 0; i < 3; i++)
		unlink(files[i]);
}

Test(nomem, snapshots)
{
	char save[256], restore[256];
	struct step steps[] = {
		{.command = save, .early = true},
		{.command = restore, .undo = "{\"cmd\":\"vm-remove\",\"name\":\"moved-vm-no-1\"}"},
	};

	snprintf(save, sizeof(save),
		 "{\"cmd\":\"vm-save\",\"name\":\"production-web-12\",\"file\":\"%s\"}", dir);
	snprintf(restore, sizeof(restore),
		 "{\"cmd\":\"vm-restore\",\"file\":\"%s\",\"name\":\"moved-vm-no-1\",\"trust\":"
		 "true}",
		 dir);
	must("{\"cmd\":\"pause\",\"name\":\"production-web-12\"}");
	for (size_t i = 0; i < sizeof(steps) / sizeof(steps[0]); i++)
		sweep(&steps[i]);
}
