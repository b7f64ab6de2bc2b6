// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * cli/stacks.c: stacks add up and print as folded lines. The symbols of image files are in
 * test_cli_symbols.c.
 */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "cli/stacks.h"

static char *text_of(const struct frame *root)
{
	char *text = NULL;
	size_t len;
	FILE *f = open_memstream(&text, &len);

	cr_assert(f);
	stacks_print_folded(root, f);
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
	stacks_add(root, name, k, n);
}

Test(stacks, folded_stacks_add_up_whatever_their_order)
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
		text = text_of(&root);
		cr_expect_str_eq(text, want, "%s", text);
		free(text);
		stacks_free(&root);
		cr_expect_eq(root.nr, 0);
	}
}

Test(stacks, separators_in_names_do_not_make_frames)
{
	const char *name[] = {"vm", "a;b", "c\nd"};
	struct frame root = {0};
	char *text;

	stacks_add(&root, name, 3, 1);
	text = text_of(&root);
	cr_expect_str_eq(text, "vm;a_b;c_d 1\n");
	free(text);
	stacks_free(&root);
}

/*
 * The format that flame graph tools read: every line is frames joined by ';', one blank, a positive
 * count. The counts add up to all samples.
 */
Test(stacks, folded_lines_have_the_format_and_the_sum)
{
	static const char *const part[] = {"web-1", "vcpu0", "f", "g h", "0x1234", "", "[unknown]"};
	struct frame root = {0};
	uint64_t samples = 0, sum = 0;
	char *text, *line, *save;

	srand(7);
	for (int i = 0; i < 5000; i++) {
		const char *name[8];
		size_t n = 1 + (size_t)rand() % 8;
		uint64_t count = 1 + (uint64_t)rand() % 1000;

		for (size_t k = 0; k < n; k++)
			name[k] = part[(size_t)rand() % (sizeof(part) / sizeof(part[0]))];
		stacks_add(&root, name, n, count);
		samples += count;
	}
	text = text_of(&root);
	for (line = strtok_r(text, "\n", &save); line; line = strtok_r(NULL, "\n", &save)) {
		char *blank = strrchr(line, ' '), *end;
		uint64_t count;

		cr_assert(blank, "%s", line);
		count = strtoull(blank + 1, &end, 10);
		cr_assert(end > blank + 1 && !*end && count, "%s", line);
		sum += count;
	}
	cr_expect_eq(sum, samples);
	cr_expect_eq(root.total, samples);
	free(text);
	stacks_free(&root);
}

Test(stacks, an_empty_tree_prints_nothing)
{
	struct frame root = {0};
	char *text = text_of(&root);

	cr_expect_str_eq(text, "");
	free(text);
}
