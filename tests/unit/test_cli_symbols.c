// SPDX-License-Identifier: GPL-2.0-or-later
/* Names of functions from image files, which are as their owners made them. */
#include <elf.h>
#include <fcntl.h>
#include <sys/resource.h>

#include "folder_bed.h"
#include "cli/symbols.h"

#define TEXT	    0x200000ULL
#define TEXT_BYTES  0x100000ULL
#define NR_SECTIONS 4 /* none, text, symbols, names */

static char path[64];
static struct symbols *s;

static void begin(void)
{
	folder_begin();
	strcpy(path, folder_path("/file"));
}

static void end(void)
{
	symbols_free(s);
	folder_end();
}

TestSuite(cli_symbols, .init = begin, .fini = end);

/* An ELF file of @nr symbols and @names. Returns its bytes, malloc'd. */
static unsigned char *make_elf(const Elf64_Sym *sym, size_t nr, const char *names,
			       size_t names_bytes, size_t *bytes)
{
	const size_t sections = sizeof(Elf64_Ehdr);
	const size_t symbols = sections + NR_SECTIONS * sizeof(Elf64_Shdr);
	const size_t strings = symbols + nr * sizeof(*sym);
	const Elf64_Ehdr eh = {
		.e_ident = {ELFMAG0, ELFMAG1, ELFMAG2, ELFMAG3, ELFCLASS64, ELFDATA2LSB,
			    EV_CURRENT},
		.e_type = ET_EXEC,
		.e_machine = EM_X86_64,
		.e_version = EV_CURRENT,
		.e_shoff = sections,
		.e_ehsize = sizeof(eh),
		.e_shentsize = sizeof(Elf64_Shdr),
		.e_shnum = NR_SECTIONS,
	};
	const Elf64_Shdr sh[NR_SECTIONS] = {
		{0},
		{.sh_type = SHT_NOBITS,
		 .sh_flags = SHF_ALLOC | SHF_EXECINSTR,
		 .sh_addr = TEXT,
		 .sh_size = TEXT_BYTES},
		{.sh_type = SHT_SYMTAB,
		 .sh_offset = symbols,
		 .sh_size = nr * sizeof(*sym),
		 .sh_link = 3,
		 .sh_addralign = 8,
		 .sh_entsize = sizeof(*sym)},
		{.sh_type = SHT_STRTAB,
		 .sh_offset = strings,
		 .sh_size = names_bytes,
		 .sh_addralign = 1},
	};
	unsigned char *file = malloc(strings + names_bytes);

	cr_assert(file);
	memcpy(file, &eh, sizeof(eh));
	memcpy(file + sections, sh, sizeof(sh));
	memcpy(file + symbols, sym, nr * sizeof(*sym));
	memcpy(file + strings, names, names_bytes);
	*bytes = strings + names_bytes;
	return file;
}

static void write_elf(const Elf64_Sym *sym, size_t nr, const char *names, size_t names_bytes)
{
	size_t bytes;
	unsigned char *file = make_elf(sym, nr, names, names_bytes, &bytes);

	folder_put_bytes("/file", file, bytes);
	free(file);
}

static int load(void)
{
	char err[300] = "";
	int ret;

	symbols_free(s);
	s = NULL;
	ret = symbols_load(path, &s, err, sizeof(err));
	cr_expect(!ret == !*err && !strchr(err, '\n'), "%d: %s", ret, err);
	return ret;
}

#define FUNCTION(name, value, size)                                                                \
	{                                                                                          \
		name, ELF64_ST_INFO(STB_GLOBAL, STT_FUNC), 0, 1, value, size                       \
	}

static const char two_names[] = "\0first\0second";
static const Elf64_Sym two[] = {{0}, FUNCTION(1, TEXT, 16), FUNCTION(7, TEXT + 64, 16)};

static void expect_at(uint64_t address, const char *want, uint64_t want_off)
{
	uint64_t offset = 0;
	const char *name = symbols_find(s, address, &offset);

	if (!want)
		cr_expect_null(name, "%#lx: %s", address, name);
	else
		cr_expect(name && !strcmp(name, want) && offset == want_off, "%#lx: %s+%lu",
			  address, name ? name : "nothing", offset);
}

Test(cli_symbols, found)
{
	write_elf(two, 3, two_names, sizeof(two_names));
	cr_assert_eq(load(), 0);
	unlink(path); /* it is not needed any more */
	expect_at(TEXT - 1, NULL, 0);
	expect_at(TEXT, "first", 0);
	expect_at(TEXT + 15, "first", 15);
	expect_at(TEXT + 16, NULL, 0);
	expect_at(TEXT + 79, "second", 15);
	expect_at(UINT64_MAX, NULL, 0);
}

/* Where @name stands in the string table @names. */
static unsigned int name_at(const char *names, size_t bytes, const char *name)
{
	size_t at = 1;

	while (at < bytes && strcmp(names + at, name) != 0)
		at += strlen(names + at) + 1;
	cr_assert_lt(at, bytes, "%s", name);
	return (unsigned int)at;
}

/* Which symbols name an address: functions and labels of code, one per address. */
Test(cli_symbols, which_symbol_names_an_address)
{
	static const char names[] =
		"\0_start\0f\0label\0f_alias\0mark\0g\0h\0variable\0absent\0.Lx";
	static const struct {
		const char *name;
		int bind, type;
		unsigned int section; /* 1: code; 2: not code */
		uint64_t at, size;
	} row[] = {
		{"_start", STB_GLOBAL, STT_NOTYPE, 1, 0x0, 0},
		{"f", STB_GLOBAL, STT_FUNC, 1, 0x100, 0x80},
		{"label", STB_LOCAL, STT_NOTYPE, 1, 0x110, 0},	  /* inside of f */
		{"f_alias", STB_LOCAL, STT_FUNC, 1, 0x100, 0x80}, /* the global name wins */
		{"mark", STB_GLOBAL, STT_NOTYPE, 1, 0x100, 0},	  /* the function wins */
		{"g", STB_LOCAL, STT_FUNC, 1, 0x200, 0},	  /* no size: up to h */
		{"h", STB_GLOBAL, STT_NOTYPE, 1, 0x300, 0},	  /* to the section's end */
		{"variable", STB_GLOBAL, STT_OBJECT, 1, 0x400, 8},
		{"label", STB_GLOBAL, STT_NOTYPE, 2, 0x410, 0},
		{"absent", STB_GLOBAL, STT_FUNC, 0, 0x420, 8},
		{".Lx", STB_LOCAL, STT_NOTYPE, 1, 0x310, 0},
	};
	Elf64_Sym sym[1 + sizeof(row) / sizeof(row[0])] = {{0}};

	for (size_t i = 0; i < sizeof(row) / sizeof(row[0]); i++)
		sym[i + 1] = (Elf64_Sym){
			.st_name = name_at(names, sizeof(names), row[i].name),
			.st_info = ELF64_ST_INFO(row[i].bind, row[i].type),
			.st_shndx = (Elf64_Half)row[i].section,
			.st_value = TEXT + row[i].at,
			.st_size = row[i].size,
		};
	write_elf(sym, sizeof(sym) / sizeof(sym[0]), names, sizeof(names));
	cr_assert_eq(load(), 0);
	expect_at(TEXT - 1, NULL, 0);
	expect_at(TEXT, "_start", 0);
	expect_at(TEXT + 0xff, "_start", 0xff);
	expect_at(TEXT + 0x100, "f", 0);
	expect_at(TEXT + 0x115, "f", 0x15);
	expect_at(TEXT + 0x17f, "f", 0x7f);
	expect_at(TEXT + 0x180, NULL, 0);
	expect_at(TEXT + 0x2ff, "g", 0xff);
	expect_at(TEXT + 0x300, "h", 0);
	expect_at(TEXT + 0x423, "h", 0x123);
	expect_at(TEXT + TEXT_BYTES - 1, "h", TEXT_BYTES - 1 - 0x300);
	expect_at(TEXT + TEXT_BYTES, NULL, 0);
	expect_at(~0ULL, NULL, 0);
}

/* A table of many symbols is small in the file when they share one long name. */
Test(cli_symbols, shared_name_is_no_memory_bomb)
{
	enum { NR = 20000, NAME = 100000, MIB_MAX = 256 };
	Elf64_Sym *sym = calloc(NR, sizeof(*sym));
	char *names = malloc(NAME);
	struct rusage before, after;

	cr_assert(sym && names);
	memset(names, 'n', NAME);
	names[0] = names[NAME - 1] = 0;
	for (size_t i = 0; i < NR; i++)
		sym[i] = (Elf64_Sym)FUNCTION(1, TEXT + i, 1);
	write_elf(sym, NR, names, NAME);
	getrusage(RUSAGE_SELF, &before);
	cr_assert_eq(load(), 0);
	getrusage(RUSAGE_SELF, &after);
	cr_expect(after.ru_maxrss - before.ru_maxrss < MIB_MAX * 1024, "%ld KiB",
		  after.ru_maxrss - before.ru_maxrss);
	expect_at(TEXT + NR - 1, names + 1, 0);
	free(sym);
	free(names);
}

Test(cli_symbols, names_without_end)
{
	static const char names[] = {0, 'a', 'b'};
	const Elf64_Sym sym = FUNCTION(1, TEXT, 1);

	write_elf(&sym, 1, names, sizeof(names));
	cr_expect_eq(load(), -ENODATA);
}

Test(cli_symbols, wild_symbols)
{
	const Elf64_Sym sym[] = {
		FUNCTION(UINT32_MAX, TEXT, 1), FUNCTION(sizeof(two_names), TEXT, 1),
		FUNCTION(1, UINT64_MAX, 16),   FUNCTION(1, TEXT + TEXT_BYTES, 16),
		FUNCTION(1, TEXT, UINT64_MAX), FUNCTION(7, TEXT + 8, UINT64_MAX - TEXT),
		{1, 2, 0, 60000, TEXT + 9, 1}, /* no such section */
	};

	write_elf(sym, sizeof(sym) / sizeof(*sym), two_names, sizeof(two_names));
	cr_assert_eq(load(), 0);
	/* Such a symbol never covers addresses before it. */
	expect_at(TEXT - 1, NULL, 0);
	expect_at(TEXT + 8, "second", 0);
}

Test(cli_symbols, no_image)
{
	cr_expect_eq(load(), -ENOENT);
	cr_assert_eq(mkfifo(path, 0600), 0);
	cr_expect_eq(load(), -EINVAL);
	unlink(path);
	cr_assert_eq(symlink("/dev/zero", path), 0);
	cr_expect_eq(load(), -EINVAL);
	unlink(path);
	folder_put_bytes("/file", "#!/bin/sh\n", 10);
	cr_expect_eq(load(), -ENOEXEC);
	cr_assert_eq(truncate(path, 0), 0);
	cr_expect_eq(load(), -ENOEXEC);
	/* Nothing of it is on the disk. */
	cr_assert_eq(truncate(path, 1LL << 40), 0);
	cr_expect_eq(load(), -EFBIG);
}

/* Every length, every byte changed: symbols or an error, nothing else. */
Test(cli_symbols, damaged)
{
	size_t bytes;
	unsigned char *file = make_elf(two, 3, two_names, sizeof(two_names), &bytes);

	for (size_t i = 0; i < 2 * bytes; i++) {
		uint64_t offset;

		if (i < bytes) {
			folder_put_bytes("/file", file, i);
		} else {
			file[i - bytes] ^= 0xff;
			folder_put_bytes("/file", file, bytes);
			file[i - bytes] ^= 0xff;
		}
		if (load())
			continue;
		for (uint64_t a = TEXT - 2; a < TEXT + 100; a++) {
			const char *name = symbols_find(s, a, &offset);

			cr_expect(!name || strlen(name) < sizeof(two_names));
		}
	}
	free(file);
}
