// SPDX-License-Identifier: GPL-2.0-or-later
/* The functions of one ELF file: see symbols.h. */
#include <errno.h>
#include <fcntl.h>
#include <gelf.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli/symbols.h"
#include "service/program/memory.h"
#include "vpmu/util/fail.h"

/*
 * The file may be hostile, so its size must bound memory and time. Names are never copied, because
 * a million symbols may share one long name. Only one symbol table is read, because thousands of
 * tables may overlap.
 */
#define FILE_MAX	   (256u << 20) /* bytes; vpmu-vmm boots no larger image */
#define SYMBOLS_MAX	   (4u << 20)
#define NAMES_MAX	   (256u << 20) /* bytes of copied names */
#define SEGMENTS_MAX	   16		/* of code; linkers make one or two */
#define BUILD_ID_NOTES_MAX 65536	/* bytes of a section; linkers put it into a small one */

struct symbol {
	uint64_t start, end; /* end: of the last byte, exclusive */
	size_t order;	     /* place in the file: the first of equals wins */
	const char *name;    /* in the file's string table, or a copy */
	bool function, global, sized;
};

struct symbols {
	struct symbol *sym;
	size_t nr, cap;
	Elf *elf;     /* owns the names; NULL: they are copies */
	size_t names; /* bytes of copies */
	struct segment code[SEGMENTS_MAX];
	size_t nr_code;
	bool dynamic; /* sym[] is of the dynamic table */
	uint8_t build_id[SYMBOLS_BUILD_ID_MAX];
	size_t build_id_len;
};

static int symbols_add(struct symbols *s, struct symbol new)
{
	if (s->nr == SYMBOLS_MAX)
		return -E2BIG;
	if (s->nr == s->cap) {
		size_t cap = s->cap ? s->cap * 2 : 256;
		struct symbol *more = reallocarray(s->sym, cap, sizeof(*more));

		if (!more)
			return -ENOMEM;
		s->sym = more;
		s->cap = cap;
	}
	new.order = s->nr;
	s->sym[s->nr++] = new;
	return 0;
}

/* Take @sym if it is a function or a label in code. Assembler files often give labels no type. */
static int take_symbol(struct symbols *s, const Elf_Data *names, const GElf_Sym *sym)
{
	int type = GELF_ST_TYPE(sym->st_info);
	uint64_t section_end;
	const char *name;
	Elf_Scn *scn;
	GElf_Shdr sh;

	if ((type != STT_FUNC && type != STT_NOTYPE) || sym->st_name >= names->d_size ||
	    sym->st_shndx == SHN_UNDEF || sym->st_shndx >= SHN_LORESERVE)
		return 0;
	name = (const char *)names->d_buf + sym->st_name;
	if (!*name)
		return 0;
	/* The assembler generates such labels. */
	if (type == STT_NOTYPE && (name[0] == '.' || name[0] == '$'))
		return 0;
	scn = elf_getscn(s->elf, sym->st_shndx);
	if (!scn || !gelf_getshdr(scn, &sh) || !(sh.sh_flags & SHF_EXECINSTR) ||
	    sym->st_value < sh.sh_addr || sym->st_value - sh.sh_addr >= sh.sh_size)
		return 0;
	section_end = sh.sh_addr + sh.sh_size;
	return symbols_add(s,
			   (struct symbol){
				   .start = sym->st_value,
				   /* A symbol of an assembler file may have no size.
				    * symbols_finish() ends it at the next one. */
				   .end = sym->st_size && sym->st_size < section_end - sym->st_value
						  ? sym->st_value + sym->st_size
						  : section_end,
				   .function = type == STT_FUNC,
				   .global = GELF_ST_BIND(sym->st_info) == STB_GLOBAL,
				   .sized = sym->st_size != 0,
				   .name = name,
			   });
}

/* Return the string table of the symbol table @table, or NULL. Its last byte is 0, so every name
 * ends. */
static const Elf_Data *names_of(Elf *elf, const GElf_Shdr *table)
{
	Elf_Scn *scn = elf_getscn(elf, table->sh_link);
	const Elf_Data *d = scn ? elf_rawdata(scn, NULL) : NULL;

	return d && d->d_buf && d->d_size && !((const char *)d->d_buf)[d->d_size - 1] ? d : NULL;
}

static int take_table(struct symbols *s, Elf_Scn *scn, const GElf_Shdr *sh)
{
	const Elf_Data *names = names_of(s->elf, sh);
	Elf_Data *data = names ? elf_getdata(scn, NULL) : NULL;
	size_t n = data && sh->sh_entsize ? sh->sh_size / sh->sh_entsize : 0;
	int ret = 0;

	for (size_t i = 0; i < n && i < INT32_MAX && !ret; i++) {
		GElf_Sym sym;

		if (gelf_getsym(data, (int)i, &sym))
			ret = take_symbol(s, names, &sym);
	}
	return ret;
}

static int symbols_by_start(const void *a, const void *b)
{
	const struct symbol *x = a, *y = b;

	if (x->start != y->start)
		return x->start < y->start ? -1 : 1;
	if (x->function != y->function)
		return x->function ? -1 : 1;
	if (x->global != y->global)
		return x->global ? -1 : 1;
	return x->order < y->order ? -1 : 1;
}

/* Sort the symbols, keep one per address, and end each at the start of the next. */
static void symbols_finish(struct symbols *s)
{
	size_t to = 0;

	if (s->nr)
		qsort(s->sym, s->nr, sizeof(*s->sym), symbols_by_start);
	for (size_t i = 0; i < s->nr; i++) {
		/* A label inside a function of known size belongs to that function. */
		bool inside = to && !s->sym[i].function && s->sym[to - 1].sized &&
			      s->sym[i].start < s->sym[to - 1].end;

		if (inside || (to && s->sym[to - 1].start == s->sym[i].start)) {
			if (s->names)
				free((char *)s->sym[i].name);
			continue;
		}
		if (to && s->sym[to - 1].end > s->sym[i].start)
			s->sym[to - 1].end = s->sym[i].start;
		s->sym[to++] = s->sym[i];
	}
	s->nr = to;
}

/* Returns 0, or -EINVAL if they are unreadable. */
static int take_segments(struct symbols *s)
{
	size_t n;

	if (elf_getphdrnum(s->elf, &n))
		return -EINVAL;
	for (size_t i = 0; i < n && i < INT32_MAX && s->nr_code < SEGMENTS_MAX; i++) {
		GElf_Phdr ph;

		if (!gelf_getphdr(s->elf, (int)i, &ph))
			return -EINVAL;
		if (ph.p_type == PT_LOAD && ph.p_flags & PF_X)
			s->code[s->nr_code++] = (struct segment){
				.address = ph.p_vaddr, .len = ph.p_memsz, .offset = ph.p_offset};
	}
	return 0;
}

/* Return the first section of type @type, and its header. */
static Elf_Scn *section_of(Elf *elf, GElf_Word type, GElf_Shdr *sh)
{
	Elf_Scn *scn = NULL;

	do
		scn = elf_nextscn(elf, scn);
	while (scn && (!gelf_getshdr(scn, sh) || sh->sh_type != type));
	return scn;
}

static int read_symbols(struct symbols *s, GElf_Word type)
{
	GElf_Shdr sh = {0};
	Elf_Scn *scn = section_of(s->elf, type, &sh);

	return scn ? take_table(s, scn, &sh) : 0;
}

/* Read the symbols and segments of @fd. Returns 0 or -errno. */
static int read_elf(struct symbols *s, int fd)
{
	struct stat st;
	int ret;

	if (fstat(fd, &st) || !S_ISREG(st.st_mode))
		return -EINVAL;
	if (st.st_size > FILE_MAX)
		return -EFBIG;
	elf_version(EV_CURRENT);
	s->elf = elf_begin(fd, ELF_C_READ, NULL);
	if (!s->elf || elf_kind(s->elf) != ELF_K_ELF)
		return -ENOEXEC;
	ret = read_symbols(s, SHT_SYMTAB);
	return !ret && take_segments(s) ? -EILSEQ : ret;
}

static int read_file(struct symbols *s, int fd, const char *path, char *err, size_t errlen)
{
	int ret = read_elf(s, fd);

	/* Everything that is needed has been read, so the file can be closed. */
	if (s->elf)
		elf_cntl(s->elf, ELF_C_FDDONE);
	switch (ret) {
	case 0:
		return s->nr ? 0 : fail(-ENODATA, err, errlen, "%s: no symbols", path);
	case -EINVAL:
		return fail(ret, err, errlen, "%s: not a regular file", path);
	case -EFBIG:
		return fail(ret, err, errlen, "%s: larger than %u MiB", path, FILE_MAX >> 20);
	case -ENOEXEC:
		return fail(ret, err, errlen, "%s: not an ELF file", path);
	case -EILSEQ:
		return fail(-ENOEXEC, err, errlen, "%s: its segments cannot be read", path);
	default:
		return fail(ret, err, errlen, "%s: %s", path,
			    ret == -E2BIG ? "too many symbols" : strerror(-ret));
	}
}

int symbols_load(const char *path, struct symbols **out, char *err, size_t errlen)
{
	struct symbols *s = calloc(1, sizeof(*s));
	int fd, ret;

	if (!s)
		return fail(-ENOMEM, err, errlen, "%s: out of memory", path);
	fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
	if (fd < 0) {
		ret = fail(-errno, err, errlen, "%s: %s", path, strerror(errno));
	} else {
		ret = read_file(s, fd, path, err, errlen);
		close(fd);
	}
	if (ret) {
		symbols_free(s);
		return ret;
	}
	symbols_finish(s);
	*out = s;
	return 0;
}

/* Take the first note that is a build id. */
static void take_build_id(struct symbols *s)
{
	GElf_Shdr sh = {0};
	Elf_Scn *scn = NULL;

	while ((scn = elf_nextscn(s->elf, scn))) {
		Elf_Data *data;
		size_t at = 0, name, desc;
		GElf_Nhdr note;

		if (!gelf_getshdr(scn, &sh) || sh.sh_type != SHT_NOTE ||
		    sh.sh_size > BUILD_ID_NOTES_MAX)
			continue;
		data = elf_getdata(scn, NULL);
		while (data && data->d_buf && (at = gelf_getnote(data, at, &note, &name, &desc))) {
			if (note.n_type != NT_GNU_BUILD_ID || note.n_namesz != sizeof("GNU") ||
			    memcmp((char *)data->d_buf + name, "GNU", sizeof("GNU")) ||
			    note.n_descsz > SYMBOLS_BUILD_ID_MAX)
				continue;
			memcpy(s->build_id, (char *)data->d_buf + desc, note.n_descsz);
			s->build_id_len = note.n_descsz;
			return;
		}
	}
}

int symbols_load_fd(int fd, struct symbols **out)
{
	struct symbols *s = calloc(1, sizeof(*s));
	int ret = s ? read_elf(s, fd) : -ENOMEM;

	if (!ret && !s->nr) {
		s->dynamic = true;
		ret = read_symbols(s, SHT_DYNSYM);
	}
	if (!ret) {
		take_build_id(s);
		symbols_finish(s);
		*out = s;
	} else {
		symbols_free(s);
	}
	return ret;
}

/* ---- functions by address only ----------------------------------------------------------------
 */

struct symbols *symbols_new(void)
{
	return xcalloc(1, sizeof(struct symbols));
}

int symbols_add_function(struct symbols *s, uint64_t start, const char *name)
{
	int ret = symbols_add(s,
			      (struct symbol){.start = start, .end = UINT64_MAX, .function = true});

	if (ret)
		return ret;
	s->sym[s->nr - 1].name = xstrdup(name);
	s->names += strlen(name) + 1;
	return s->names > NAMES_MAX ? -E2BIG : 0;
}

bool symbols_end(struct symbols *s, uint64_t last_bytes)
{
	struct symbol *last;

	symbols_finish(s);
	if (!s->nr)
		return false;
	last = &s->sym[s->nr - 1];
	if (last->start < UINT64_MAX - last_bytes)
		last->end = last->start + last_bytes;
	return true;
}

/* ---- use ------------------------------------------------------------------------------------ */

void symbols_free(struct symbols *s)
{
	if (!s)
		return;
	if (s->elf)
		elf_end(s->elf);
	for (size_t i = 0; s->names && i < s->nr; i++)
		free((char *)s->sym[i].name);
	free(s->sym);
	free(s);
}

const char *symbols_find(const struct symbols *s, uint64_t address, uint64_t *offset)
{
	size_t low = 0, high = s->nr;

	while (low < high) { /* find the last symbol that starts at or before @address */
		size_t mid = (low + high) / 2;

		if (s->sym[mid].start <= address)
			low = mid + 1;
		else
			high = mid;
	}
	if (!low || address >= s->sym[low - 1].end)
		return NULL;
	*offset = address - s->sym[low - 1].start;
	return s->sym[low - 1].name;
}

bool symbols_segment(const struct symbols *s, size_t i, struct segment *out)
{
	if (i >= s->nr_code)
		return false;
	*out = s->code[i];
	return true;
}

uint64_t symbols_linked(const struct symbols *s, uint64_t offset)
{
	for (size_t i = 0; i < s->nr_code; i++)
		if (offset >= s->code[i].offset && offset - s->code[i].offset < s->code[i].len)
			return s->code[i].address + (offset - s->code[i].offset);
	return SYMBOLS_NOWHERE;
}

bool symbols_are_own(const struct symbols *s)
{
	return s->nr && !s->dynamic;
}

size_t symbols_build_id(const struct symbols *s, uint8_t id[SYMBOLS_BUILD_ID_MAX])
{
	memcpy(id, s->build_id, s->build_id_len);
	return s->build_id_len;
}
