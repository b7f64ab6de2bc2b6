// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * vpmud/discover and libvirt: domain XML, and libvirt's own test driver as the host, with domains
 * that are no processes; the processes are files of discover_bed.h. test:///default is one host for
 * all connections of this process: discovery gets events of the test's actions. The files that say
 * which process a domain is, which that driver has not, are the test's.
 */
#include <libvirt/libvirt.h>
#include <libvirt/virterror.h>

#include "discover_bed.h"
#include "vpmud/discover/domxml.h"
#include "vpmud/discover/virt.h"

char *__real_virt_pid_dir(const char *uri);
char *__wrap_virt_pid_dir(const char *uri);
char *__wrap_virt_pid_dir(const char *uri)
{
	return strncmp(uri, "test:", 5) ? __real_virt_pid_dir(uri) : strdup(bed_path("pids"));
}

/* ---- XML ---- */

#define DOM(inside)                                                                                \
	"<domain type='kvm' id='3'><name>web-1</name><uuid>00112233-4455-6677-8899-AABBCCDDEEFF"   \
	"</uuid><metadata>" inside "</metadata></domain>"
#define OURS(text) "<vpmu:tenant xmlns:vpmu='urn:vpmu:1'>" text "</vpmu:tenant>"
#define NOVA_ID	   "8c1a1a2f1e3b4bb0a7b3c5f2ad1e9f00"
#define NOVA(v, id)                                                                                \
	"<nova:instance xmlns:nova='http://openstack.org/xmlns/libvirt/nova/" v "'><nova:name>x"   \
	"</nova:name><nova:owner><nova:user uuid='1'>u</nova:user><nova:project uuid='" id "'>p"   \
	"</nova:project></nova:owner></nova:instance>"

Test(domxml, tenants)
{
	static const struct {
		int line;
		const char *xml;
		int ret;
		const char *tenant;
		bool noted;
	} rows[] = {
		{__LINE__, DOM(""), 0, "", false},
		{__LINE__, DOM(OURS("/acme/web")), 0, "/acme/web", false},
		{__LINE__, DOM(OURS("\n  /acme/web \n")), 0, "/acme/web", false},
		{__LINE__, DOM(OURS("<![CDATA[/acme]]>")), 0, "/acme", false},
		{__LINE__, DOM(OURS("acme")), 0, "", true},
		{__LINE__, DOM(OURS("")), 0, "", true},
		{__LINE__, DOM(OURS("/a&#x1b;")), -EINVAL, "", true},
		{__LINE__, DOM(OURS("/a&#x202e;b")), 0, "", true},
		{__LINE__, DOM(OURS("/a&#9;b")), 0, "", true},
		{__LINE__, DOM("<tenant>/acme</tenant>"), 0, "", false},
		{__LINE__, DOM("<v:tenant xmlns:v='urn:vpmu:2'>/acme</v:tenant>"), 0, "", false},
		{__LINE__, DOM("<tenant xmlns='urn:vpmu:1'>/acme</tenant>"), 0, "/acme", false},
		{__LINE__, DOM(NOVA("1.0", NOVA_ID)), 0, "/" NOVA_ID, false},
		{__LINE__, DOM(NOVA("1.1", NOVA_ID)), 0, "/" NOVA_ID, false},
		{__LINE__, DOM(NOVA("1.1", UUID)), 0, "/" UUID, false},
		{__LINE__, DOM(NOVA("1.1", "../../etc/passwd/../../etc/passwd")), 0, "", true},
		{__LINE__, DOM(NOVA("1.1", "")), 0, "", true},
		{__LINE__, DOM(NOVA("1.1", NOVA_ID) OURS("/acme")), 0, "/acme", false},
		{__LINE__, DOM(NOVA("1.1", NOVA_ID) OURS("acme")), 0, "", true},
		{__LINE__,
		 "<domain><name>web-1</name><uuid>" UUID
		 "</uuid><x><metadata>" OURS("/evil") "</metadata></x></domain>",
		 0, "", false},
		{__LINE__, "", -EINVAL, "", true},
		{__LINE__, "<domain>", -EINVAL, "", true},
		{__LINE__, "<domain/>", -EINVAL, "", true},
		{__LINE__, "<network><name>a</name><uuid>" UUID "</uuid></network>", -EINVAL, "",
		 true},
		{__LINE__, "<domain><name>a</name></domain>", -EINVAL, "", true},
		{__LINE__, "<domain><name/><uuid>" UUID "</uuid></domain>", -EINVAL, "", true},
		{__LINE__, "<domain><name>a</name><uuid>1</uuid></domain>", -EINVAL, "", true},
		{__LINE__, "<!DOCTYPE d [<!ENTITY e '/evil'>]>" DOM(OURS("&e;")), -EINVAL, "",
		 true},
		{__LINE__,
		 "<!DOCTYPE d [<!ENTITY e SYSTEM 'file:///etc/passwd'>]>" DOM(OURS("&e;")), -EINVAL,
		 "", true},
		{__LINE__, "<!DOCTYPE domain SYSTEM 'http://127.0.0.1/d.dtd'>" DOM(""), -EINVAL, "",
		 true},
		{__LINE__, DOM(OURS("&e;")), -EINVAL, "", true},
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct domxml x;
		char err[256];
		int ret = domxml_parse(rows[i].xml, strlen(rows[i].xml), &x, err, sizeof(err));

		cr_expect_eq(ret, rows[i].ret, "line %d: %d %s", rows[i].line, ret, err);
		cr_expect_eq(!err[0], !rows[i].noted, "line %d: '%s'", rows[i].line, err);
		if (ret)
			continue;
		cr_expect_str_eq(x.tenant, rows[i].tenant, "line %d: '%s'", rows[i].line, x.tenant);
		cr_expect_str_eq(x.name, "web-1");
		cr_expect_str_eq(x.uuid, UUID);
	}
}

/* Entities that double ten times over must cost neither time nor memory. */
Test(domxml, a_billion_laughs)
{
	char xml[4096] = "<!DOCTYPE d [<!ENTITY e0 'ha'>", err[256];
	struct domxml x;

	for (int i = 1; i < 30; i++)
		sprintf(xml + strlen(xml), "<!ENTITY e%d '&e%d;&e%d;'>", i, i - 1, i - 1);
	strcat(xml, "]><domain><name>&e29;</name><uuid>" UUID "</uuid></domain>");
	cr_expect_eq(domxml_parse(xml, strlen(xml), &x, err, sizeof(err)), -EINVAL);
}

/* @nr times @text with its number, in the start tag of an element, with @more in the element. */
static char *many(size_t nr, const char *text, const char *more)
{
	char *xml = malloc(1000 + nr * 40 + strlen(more)), *p = xml;

	p += sprintf(p, "<domain><name>a</name><uuid>" UUID "</uuid><metadata>" OURS(
				"/a") "<!-- ' \" --><y><![CDATA[<'\"]]><?p '\"?></y><x");
	for (size_t i = 0; i < nr; i++)
		p += sprintf(p, text, (unsigned int)i);
	sprintf(p, ">%s</x></metadata></domain>", more);
	return xml;
}

/* libxml2's work grows with the square of these. Without a limit the last ones take minutes. */
Test(domxml, too_much)
{
	static const struct {
		int line;
		size_t nr;
		const char *text, *more;
		int ret;
	} rows[] = {
		{__LINE__, 256, " a%u='>\"'", "", 0},
		{__LINE__, 257, " a%u='='", "", -EINVAL},
		{__LINE__, 1, " xmlns:a%u='u'", "<a0:b xmlns:xmlns='v'/>", 0},
		{__LINE__, 120000, " a%u=''", "", -EINVAL},
		{__LINE__, 120000, " xmlns:a%u='u'", "", -EINVAL},
		{__LINE__, 40000, "><b%u c='\"' d=\"'\"/></x><x", "", 0},
		{__LINE__, 40000, "><b xmlns:a%u='u'/></x><x", "", -EINVAL},
	};
	struct domxml x;
	char err[256];

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		char *xml = many(rows[i].nr, rows[i].text, rows[i].more);
		int ret = domxml_parse(xml, strlen(xml), &x, err, sizeof(err));

		cr_expect_eq(ret, rows[i].ret, "line %d: %d %s", rows[i].line, ret, err);
		cr_expect_str_eq(x.tenant, ret ? "" : "/a", "line %d", rows[i].line);
		free(xml);
	}
}

/* Behind the first error nothing is parsed: there libxml2 and the limits could see other tags. */
Test(domxml, it_ends_at_the_first_error)
{
	char *xml = malloc(2 << 20), *p = xml, err[256];
	struct domxml x;

	p += sprintf(p,
		     "<domain><n></n '><x"); /* the limits see a text in quotes that does not end */
	for (unsigned int i = 0; i < 120000; i++)
		p += sprintf(p, " a%u=\"\"", i);
	strcpy(p, "/></domain>");
	cr_expect_eq(domxml_parse(xml, strlen(xml), &x, err, sizeof(err)), -EINVAL);
	cr_expect(strstr(err, "not well-formed"), "%s", err);
	free(xml);
}

Test(domxml, names_that_cannot_be_shown)
{
	static const char xml[] = "<domain><name>a&#x202e;b</name><uuid>" UUID "</uuid></domain>";
	struct domxml x;
	char err[256];

	cr_assert_eq(domxml_parse(xml, strlen(xml), &x, err, sizeof(err)), 0);
	cr_expect_str_eq(x.name, "a\\xe2\\x80\\xaeb");
}

Test(virt, where_pids_are)
{
	static const struct {
		int line;
		const char *uri, *dir;
	} rows[] = {
		{__LINE__, "qemu:///system", "/run/libvirt/qemu"},
		{__LINE__, "qemu+unix:///system?socket=/x/y", "/run/libvirt/qemu"},
		{__LINE__, "qemu:///session", "/run/user/7/libvirt/qemu/run"},
		{__LINE__, "qemu:///session?socket=/run/user/8/libvirt/libvirt-sock",
		 "/run/user/8/libvirt/qemu/run"},
		{__LINE__, "qemu:///embed?root=/var/lib/a", "/var/lib/a/run/qemu"},
		{__LINE__, "qemu:///embed?x=1&root=/a%20b&y=2", "/a b/run/qemu"},
		{__LINE__, "qemu:///embed?rooted=/a", NULL},
		{__LINE__, "qemu+ssh://elsewhere/system", NULL},
		{__LINE__, "test:///default", NULL},
		{__LINE__, "lxc:///system", NULL},
		{__LINE__, "", NULL},
		{__LINE__, "not a uri %", NULL},
	};

	setenv("XDG_RUNTIME_DIR", "/run/user/7", 1);
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		char *dir = __real_virt_pid_dir(rows[i].uri);

		cr_expect(dir == rows[i].dir || (dir && rows[i].dir && !strcmp(dir, rows[i].dir)),
			  "line %d: %s", rows[i].line, dir);
		free(dir);
	}
}

/* ---- the test driver ---- */

static virConnectPtr host;
static virDomainPtr doms[4]; /* those of define() */
static size_t nr_doms;
static char *all; /* reports since setup */
static size_t all_len;

static void silent(void *arg, virErrorPtr error)
{
}

static void start(void)
{
	static const char *const uris[] = {"test:///default"};

	bed_init();
	bed_mkdir(bed_path("pids"));
	virSetErrorFunc(NULL, silent);
	host = virConnectOpen(uris[0]);
	cr_assert(host);
	all = calloc(1, 1);
	bed_open(&(struct disc_opts){.proc = bed_path("proc"),
				     .cgroup_root = bed_path("cgroup"),
				     .libvirt_uris = uris,
				     .nr_uris = 1,
				     .poll_ms = 10});
}

static void stop(void)
{
	bed_stop();
	while (nr_doms)
		virDomainFree(doms[--nr_doms]);
	virConnectClose(host);
	free(all);
}

TestSuite(libvirt, .init = start, .fini = stop);

static unsigned int nr_notes; /* of them all */

static void turn(void)
{
	const char *got;

	cr_assert_geq(sd_event_run(bed.event, UINT64_MAX), 0);
	got = bed_seen();
	for (const char *p = got; (p = strstr(p, "note ")); p++)
		nr_notes++;
	all = realloc(all, all_len + strlen(got) + 1);
	strcpy(all + all_len, got);
	all_len += strlen(got);
}

/* Let the event loop turn until @what has been reported; forget the reports before. */
static void wait_seen(const char *what)
{
	char *at;

	while (!(at = strstr(all, what)))
		turn();
	all_len = strlen(at + strlen(what));
	memmove(all, at + strlen(what), all_len + 1);
}

static virDomainPtr define(const char *name, const char *uuid, const char *metadata, bool run)
{
	char xml[1024];
	virDomainPtr dom;

	snprintf(xml, sizeof(xml),
		 "<domain type='test'><name>%s</name><uuid>%s</uuid><metadata>%s</metadata>"
		 "<memory>1024</memory><os><type>hvm</type></os></domain>",
		 name, uuid, metadata);
	dom = run ? virDomainCreateXML(host, xml, 0) : virDomainDefineXML(host, xml);
	cr_assert(dom, "%s", virGetLastErrorMessage());
	return doms[nr_doms++] = dom;
}

/* Write libvirt's file of the domain @name with process @pid. */
static void pid_file(const char *name, int pid)
{
	char text[16];

	bed_write(bed_path("pids/%s.pid", name), text, (size_t)sprintf(text, "%d\n", pid));
}

#define WEB "qemu-system-x86_64 -name guest=as-qemu-says -uuid " UUID
#define LINE(kind, name, tenant)                                                                   \
	kind " " name " uuid=" UUID " id=10/1000 cgroup=/ tenant=" tenant                          \
	     " socket=- vcpus=0:11/1001,1:12/1002\n"

static char rows[1024];

static void add_row(const char *uri, bool connected, const char *text, void *arg)
{
	size_t len = strlen(rows);

	snprintf(rows + len, sizeof(rows) - len, "%s %s %s\n", uri, connected ? "yes" : "no", text);
}

/* The line of vpmu check about libvirt. */
static void expect_row(const char *want)
{
	rows[0] = '\0';
	disc_libvirt(bed.d, add_row, NULL);
	cr_expect(strncmp(rows, want, strlen(want)) == 0, "%s", rows);
}

/* A domain is there before discovery, and its name and tenant are libvirt's. */
Test(libvirt, a_domain_that_runs_already)
{
	pid_file("web", 10);
	define("web", UUID, OURS("/acme/web"), true);
	expect_row("test:///default no no answer yet\n");
	bed_qemu(10, 1000, WEB);
	wait_seen(LINE("libvirt", "web", "/acme/web"));
	expect_row("test:///default yes connected; domains that run: ");
	bed_end(10);
	wait_seen("removed " LINE("libvirt", "web", "/acme/web"));
}

/* It starts, its tenant changes, it ends, is forgotten, and starts again as another process. */
Test(libvirt, events)
{
	virDomainPtr dom = define("web", UUID, "", false);

	pid_file("web", 10);
	bed_qemu(10, 1000, WEB);
	/* Not active: the command line proves nothing. */
	wait_seen("added " LINE("qemu", "as-qemu-says", "-"));
	cr_assert_eq(virDomainCreate(dom), 0);
	wait_seen("changed " LINE("libvirt", "web", "-"));
	cr_assert_eq(virDomainSetMetadata(dom, VIR_DOMAIN_METADATA_ELEMENT, "<tenant>/new</tenant>",
					  "vpmu", "urn:vpmu:1", VIR_DOMAIN_AFFECT_LIVE),
		     0);
	wait_seen("changed " LINE("libvirt", "web", "/new"));
	/* libvirt forgets the domain before its process ends: the process is still its. */
	cr_assert_eq(virDomainUndefine(dom), 0);
	cr_assert_eq(virDomainDestroy(dom), 0);
	pid_file("other", 20);
	dom = define("other", "00112233-4455-6677-8899-aabbccddee00", "", true);
	bed_qemu(20, 1000, "qemu-system-x86_64 -uuid 00112233-4455-6677-8899-aabbccddee00");
	wait_seen("libvirt other ");
	cr_expect(!strstr(all, "id=10/1000"), "%s", all);
	bed_end(10);
	wait_seen("removed " LINE("libvirt", "web", "/new"));
	/* Again, transient. */
	pid_file("web2", 30);
	dom = define("web2", UUID, NOVA("1.1", NOVA_ID), true);
	bed_qemu(30, 5000, WEB);
	wait_seen("libvirt web2 uuid=" UUID " id=30/5000 cgroup=/ tenant=/" NOVA_ID " ");
}

Test(libvirt, bad_metadata_is_noted_once)
{
	virDomainPtr dom;

	pid_file("web", 10);
	pid_file("last", 20);
	dom = define("web", UUID, OURS("acme"), true);
	bed_qemu(10, 1000, WEB);
	wait_seen("note libvirt: domain web: metadata: tenant: expected a path as /acme/web of up "
		  "to 255 printable bytes\n");
	wait_seen(LINE("libvirt", "web", "-"));
	cr_assert_eq(virDomainSuspend(dom), 0);
	cr_assert_eq(virDomainResume(dom), 0);
	dom = define("last", "00112233-4455-6677-8899-aabbccddee00", OURS("/x"), true);
	bed_qemu(20, 1000, "qemu-system-x86_64 -uuid 00112233-4455-6677-8899-aabbccddee00");
	wait_seen("libvirt last ");
	cr_expect_eq(nr_notes, 1);
	expect_row("test:///default yes ");
}

/* Anybody can start a QEMU with the UUID of somebody's domain: only libvirt's file proves the
 * identity.
 */
Test(libvirt, two_processes_claim_a_domain)
{
	virDomainPtr dom = define("web", UUID, OURS("/acme"), false);

	pid_file("web", 10);

	bed_qemu(10, 1000, WEB);
	wait_seen("added " LINE("qemu", "as-qemu-says", "-"));
	bed_qemu(20, 1000, WEB);
	wait_seen("added qemu as-qemu-says uuid=" UUID " id=20/1000");
	cr_assert_eq(virDomainCreate(dom), 0);
	/* Which one is looked at first is open. */
	while (!strstr(all, "has the UUID of libvirt's domain web, and so has process 10; libvirt "
			    "names the latter as the domain\n") ||
	       !strstr(all, "changed " LINE("libvirt", "web", "/acme")))
		turn();
	for (int i = 0; i < 20; i++)
		turn();
	cr_expect(!strstr(all, "changed qemu") && !strstr(all, "id=20/1000"), "%s", all);
}

Test(libvirt, a_uuid_alone_is_no_domain)
{
	virDomainPtr dom;

	bed_qemu(10, 1000, WEB);
	dom = define("web", UUID, OURS("/acme"), true);
	while (!strstr(all, "libvirt web ") && !strstr(all, "it is not taken for the domain\n"))
		turn();
	for (int i = 0; i < 20; i++)
		turn();
	cr_assert(!strstr(all, "libvirt web"), "%s", all);
	cr_expect(strstr(all, "note process 10 has the UUID of libvirt's domain web, and libvirt "
			      "has no file with the process of the domain; it is not taken "
			      "for the domain\n"),
		  "%s", all);
	/* The file is read with the domain's next event. */
	pid_file("web", 10);
	cr_assert_eq(virDomainSuspend(dom), 0);
	wait_seen("changed " LINE("libvirt", "web", "/acme"));
}

/* ---- without a connection ---- */

static void fails(const char *uri, const char *note)
{
	char row[160];

	disc_close(bed.d);
	bed_open(&(struct disc_opts){.proc = bed_path("proc"),
				     .cgroup_root = bed_path("cgroup"),
				     .libvirt_uris = &uri,
				     .nr_uris = 1,
				     .poll_ms = 10});
	wait_seen(note);
	snprintf(row, sizeof(row), "%s no %sno connection; it is tried again: ", uri,
		 *uri ? "" : "libvirt: : ");
	expect_row(row);
	bed_qemu(10, 1000, WEB);
	wait_seen("added " LINE("qemu", "as-qemu-says", "-"));
	bed_end(10);
	wait_seen("removed");
}

Test(libvirt, no_such_driver)
{
	fails("nonsense:///system",
	      "note libvirt: nonsense:///system: no connection; it is tried again: ");
	fails("", "note libvirt: : no connection; it is tried again: ");
	fails("qemu:///session?socket=/nowhere/s",
	      "note libvirt: qemu:///session?socket=/nowhere/s: no connection; it is tried "
	      "again: ");
}
