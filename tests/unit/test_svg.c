// SPDX-License-Identifier: GPL-2.0-or-later
/* cgroup/cli/flame.c, svg.c, symbols.c: stacks add up, SVG is well-formed whatever names hold, and
 * names are those of the image. */
#include <criterion/criterion.h>
#include <elf.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cgroup/cli/flame.h"
#include "cgroup/cli/symbols.h"

static char *text_of(const struct frame *root, int svg, const char *title)
{
	char *text = NULL;
	size_t len;
	FILE *f = open_memstream(&text, &len);

	cr_assert(f);
	if (svg)
		flame_svg(root, title, "a <note> & more", f);
	else
		flame_folded(root, f);
	fclose(f);
	return text;
}

static void add(struct frame *root, const char *stack, uint64_t n)
{
	const char *name[64];
	char copy[1024];
	size_t k = 0;

	strcpy(copy, stack);
	for (char *p = strtok(copy, " "); p; p = strtok(NULL, " "))
		name[k++] = p;
	cr_assert_eq(flame_add(root, name, k, n), 0);
}

Test(flame, folded_stacks_add_up_whatever_their_order)
{
	static const char *const stacks[] = {"vm vcpu0 main f g", "vm vcpu0 main",
					     "vm vcpu1 main f",	  "a vcpu0 z",
					     "vm vcpu0 main f g", "vm vcpu0 main e"};
	static const char want[] = "a;vcpu0;z 4\n"
				   "vm;vcpu0;main 2\n"
				   "vm;vcpu0;main;e 6\n"
				   "vm;vcpu0;main;f;g 6\n"
				   "vm;vcpu1;main;f 3\n";

	for (int back = 0; back < 2; back++) {
		struct frame root = {0};
		char *text;

		for (size_t i = 0; i < 6; i++) {
			size_t k = back ? 5 - i : i;

			add(&root, stacks[k], k + 1);
		}
		cr_expect_eq(root.total, 21);
		text = text_of(&root, 0, "");
		cr_expect_str_eq(text, want, "%s", text);
		free(text);
		flame_free(&root);
		cr_expect_eq(root.nr, 0);
	}
}

Test(flame, separators_in_names_do_not_make_frames)
{
	const char *name[] = {"vm", "a;b", "c\nd"};
	struct frame root = {0};
	char *text;

	flame_add(&root, name, 3, 1);
	text = text_of(&root, 0, "");
	cr_expect_str_eq(text, "vm;a_b;c_d 1\n");
	free(text);
	flame_free(&root);
}

/* 0: well-formed for xmllint; -1: it is not installed. */
static int xmllint(const char *text)
{
	FILE *f;
	int ret;

	if (system("command -v xmllint >/dev/null 2>&1"))
		return -1;
	f = popen("xmllint --noout - 2>&1", "w");
	cr_assert(f);
	fputs(text, f);
	ret = pclose(f);
	return WEXITSTATUS(ret);
}

static size_t count(const char *text, const char *what)
{
	size_t n = 0;

	while ((text = strstr(text, what))) {
		n++;
		text++;
	}
	return n;
}

Test(svg, is_well_formed_and_the_same_every_time)
{
	const char *name[] = {"web-1", "vcpu0", "operator<<", "a&b\"'", "\x01\x1b[31m\xff\xc3(",
			      "0x1234"};
	struct frame root = {0};
	char *text, *again;

	cr_assert_eq(flame_add(&root, name, 6, 10), 0);
	add(&root, "web-1 vcpu1 f", 30);
	text = text_of(&root, 1, "title <&>");
	again = text_of(&root, 1, "title <&>");
	cr_expect_str_eq(text, again);
	for (const char *c = text; *c; c++)
		cr_assert(*c == '\n' || (*c >= 0x20 && *c < 0x7f), "byte %d", *c);
	cr_expect_leq(xmllint(text), 0, "%s", text);
	cr_expect(strstr(text, "<title>operator&lt;&lt; (10 samples, 25.00%)</title>"), "%s", text);
	cr_expect(strstr(text, "a&amp;b&quot;&#39;"));
	cr_expect(strstr(text, "title &lt;&amp;&gt;"));
	cr_expect(strstr(text, "<title>all (40 samples, 100.00%)</title>"));
	cr_expect_eq(count(text, "<g>"), 1 + 1 + 2 + 1 + 4, "one for each frame");
	cr_expect_eq(count(text, "<script"), 0);
	free(text);
	free(again);
	flame_free(&root);
}

/* x and width of the frame called @name. */
static void box(const char *text, const char *name, double *x, double *w, unsigned int *y)
{
	char title[100];
	const char *at;

	snprintf(title, sizeof(title), "<title>%s (", name);
	at = strstr(text, title);
	cr_assert(at, "%s", name);
	at = strstr(at, "<rect");
	cr_assert_eq(sscanf(at, "<rect x=\"%lf\" y=\"%u\" width=\"%lf\"", x, y, w), 3);
}

Test(svg, widths_are_shares_and_children_stand_on_their_parents)
{
	struct frame root = {0};
	double ax, aw, bx, bw, fx, fw;
	unsigned int ay, by, fy;
	char *text;

	add(&root, "a vcpu0 f", 25);
	add(&root, "b vcpu0", 75);
	text = text_of(&root, 1, "t");
	box(text, "a", &ax, &aw, &ay);
	box(text, "b", &bx, &bw, &by);
	box(text, "f", &fx, &fw, &fy);
	cr_expect_float_eq(aw * 3, bw, 0.1);
	cr_expect_float_eq(ax + aw, bx, 0.1);
	cr_expect_float_eq(fx, ax, 0.01);
	cr_expect_float_eq(fw, aw, 0.01);
	cr_expect_eq(ay, by);
	cr_expect_lt(fy, ay, "flames go up");
	free(text);
	flame_free(&root);
}

Test(svg, nothing_sampled_is_a_picture_too)
{
	struct frame root = {0};
	char *text = text_of(&root, 1, "t");

	cr_expect(strstr(text, "no samples"));
	cr_expect_leq(xmllint(text), 0);
	free(text);
}

Test(svg, frames_too_small_to_see_are_left_out)
{
	struct frame root = {0};
	char *text, name[32];

	for (int i = 0; i < 20000; i++) {
		snprintf(name, sizeof(name), "vm vcpu0 f%d", i);
		add(&root, name, 1);
	}
	add(&root, "vm vcpu0 big", 20000);
	text = text_of(&root, 1, "t");
	cr_expect_eq(count(text, "<g>"), 4);
	free(text);
	flame_free(&root);
}

/* ---- symbols ------------------------------------------------------------------------------ */

static char path[64];

/* Write @len bytes to a file and load it. */
static int load(const void *data, size_t len, struct symbols **s, char *err)
{
	int fd, ret;

	strcpy(path, "/tmp/vpmu-test-XXXXXX");
	fd = mkstemp(path);
	cr_assert_geq(fd, 0);
	cr_assert_eq(write(fd, data, len), (ssize_t)len);
	close(fd);
	ret = symbols_load(path, s, err, 200);
	unlink(path);
	return ret;
}

/* An image with a section of code at 0x1000..0x2000, one of data behind it, and symbols. */
struct image {
	Elf64_Ehdr eh;
	Elf64_Shdr sh[5];
	Elf64_Sym sym[12];
	char names[128];
};

static unsigned int name_of(struct image *im, const char *name)
{
	size_t at = 1;

	while (im->names[at])
		at += strlen(&im->names[at]) + 1;
	strcpy(&im->names[at], name);
	return (unsigned int)at;
}

static void image_init(struct image *im)
{
	static const struct {
		const char *name;
		int bind, type;
		unsigned int section;
		uint64_t value, size;
	} syms[] = {
		{"_start", STB_GLOBAL, STT_NOTYPE, 1, 0x1000, 0},
		{"f", STB_GLOBAL, STT_FUNC, 1, 0x1100, 0x80},
		{"label", STB_LOCAL, STT_NOTYPE, 1, 0x1110, 0},	   /* inside of f */
		{"f_alias", STB_LOCAL, STT_FUNC, 1, 0x1100, 0x80}, /* f is the global one */
		{"__text_mark", STB_GLOBAL, STT_NOTYPE, 1, 0x1100, 0},
		{"g", STB_LOCAL, STT_FUNC, 1, 0x1200, 0},    /* no size: to h */
		{"h", STB_GLOBAL, STT_NOTYPE, 1, 0x1300, 0}, /* to the end of the section */
		{"variable", STB_GLOBAL, STT_OBJECT, 2, 0x2000, 8},
		{"data_label", STB_GLOBAL, STT_NOTYPE, 2, 0x2010, 0},
		{"absent", STB_GLOBAL, STT_FUNC, 0, 0x1400, 8},
		{".Lx", STB_LOCAL, STT_NOTYPE, 1, 0x1310, 0},
	};

	memset(im, 0, sizeof(*im));
	memcpy(im->eh.e_ident, ELFMAG, SELFMAG);
	im->eh.e_ident[EI_CLASS] = ELFCLASS64;
	im->eh.e_ident[EI_DATA] = ELFDATA2LSB;
	im->eh.e_ident[EI_VERSION] = EV_CURRENT;
	im->eh.e_type = ET_EXEC;
	im->eh.e_machine = EM_X86_64;
	im->eh.e_version = EV_CURRENT;
	im->eh.e_ehsize = sizeof(im->eh);
	im->eh.e_shoff = offsetof(struct image, sh);
	im->eh.e_shentsize = sizeof(im->sh[0]);
	im->eh.e_shnum = 5;
	im->eh.e_shstrndx = 4;
	im->sh[1] = (Elf64_Shdr){.sh_type = SHT_NOBITS,
				 .sh_flags = SHF_ALLOC | SHF_EXECINSTR,
				 .sh_addr = 0x1000,
				 .sh_size = 0x1000};
	im->sh[2] = (Elf64_Shdr){.sh_type = SHT_NOBITS,
				 .sh_flags = SHF_ALLOC | SHF_WRITE,
				 .sh_addr = 0x2000,
				 .sh_size = 0x1000};
	im->sh[3] = (Elf64_Shdr){.sh_type = SHT_SYMTAB,
				 .sh_offset = offsetof(struct image, sym),
				 .sh_size = sizeof(im->sym),
				 .sh_link = 4,
				 .sh_entsize = sizeof(im->sym[0])};
	im->sh[4] = (Elf64_Shdr){.sh_type = SHT_STRTAB,
				 .sh_offset = offsetof(struct image, names),
				 .sh_size = sizeof(im->names)};
	for (size_t i = 0; i < sizeof(syms) / sizeof(syms[0]); i++)
		im->sym[i + 1] = (Elf64_Sym){
			.st_name = name_of(im, syms[i].name),
			.st_info = ELF64_ST_INFO(syms[i].bind, syms[i].type),
			.st_shndx = (Elf64_Half)syms[i].section,
			.st_value = syms[i].value,
			.st_size = syms[i].size,
		};
}

Test(symbols, addresses_have_the_names_of_their_functions)
{
	static const struct {
		int line;
		uint64_t address;
		const char *name; /* NULL: none */
		uint64_t offset;
	} row[] = {
		{__LINE__, 0xfff, NULL, 0},	    {__LINE__, 0x1000, "_start", 0},
		{__LINE__, 0x10ff, "_start", 0xff}, {__LINE__, 0x1100, "f", 0},
		{__LINE__, 0x1115, "f", 0x15},	    {__LINE__, 0x117f, "f", 0x7f},
		{__LINE__, 0x1180, NULL, 0},	    {__LINE__, 0x1200, "g", 0},
		{__LINE__, 0x12ff, "g", 0xff},	    {__LINE__, 0x1300, "h", 0},
		{__LINE__, 0x1fff, "h", 0xcff},	    {__LINE__, 0x2000, NULL, 0},
		{__LINE__, 0x2010, NULL, 0},	    {__LINE__, ~0ULL, NULL, 0},
	};
	struct symbols *s = NULL;
	struct image im;
	char err[200] = "";

	image_init(&im);
	cr_assert_eq(load(&im, sizeof(im), &s, err), 0, "%s", err);
	for (size_t i = 0; i < sizeof(row) / sizeof(row[0]); i++) {
		uint64_t offset = 0;
		const char *name = symbols_find(s, row[i].address, &offset);

		cr_expect(!name == !row[i].name && (!name || strcmp(name, row[i].name) == 0),
			  "line %d: %s", row[i].line, name ? name : "(none)");
		cr_expect_eq(offset, row[i].offset, "line %d", row[i].line);
	}
	symbols_free(s);
}

Test(symbols, files_that_are_none_are_said)
{
	struct symbols *s = NULL;
	struct image im;
	char err[200];

	cr_expect_eq(load("#!/bin/sh\n", 10, &s, err), -ENOEXEC);
	cr_expect(strstr(err, "no ELF file"), "%s", err);
	cr_expect_eq(symbols_load("/nowhere/x", &s, err, sizeof(err)), -ENOENT);
	cr_expect(strstr(err, "/nowhere/x: No such file"), "%s", err);
	cr_expect_lt(symbols_load("/", &s, err, sizeof(err)), 0);
	cr_expect(strstr(err, "/: "), "%s", err);
	image_init(&im);
	im.sh[3].sh_size = sizeof(im.sym[0]);
	cr_expect_eq(load(&im, sizeof(im), &s, err), -ENODATA);
	cr_expect(strstr(err, "no symbols"), "%s", err);
}

/* Whatever bytes: an error or symbols, never a crash. */
Test(symbols, damaged_files)
{
	struct image im;
	char err[200];

	srand(2);
	for (int round = 0; round < 3000; round++) {
		size_t len = sizeof(im);
		struct symbols *s = NULL;
		uint64_t offset;

		image_init(&im);
		for (int i = 0; i < 1 + rand() % 4; i++)
			((unsigned char *)&im)[16 + (size_t)rand() % (sizeof(im) - 16)] =
				(unsigned char)(rand() % 3 ? rand() : 0xff);
		if (rand() % 4 == 0)
			len = (size_t)rand() % len;
		if (load(&im, len, &s, err))
			continue;
		for (uint64_t a = 0xf00; a < 0x2100; a += 7)
			symbols_find(s, a, &offset);
		symbols_free(s);
	}
}
