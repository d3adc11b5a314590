/* SPDX-License-Identifier: MIT */
/* What the doctor reads from ELF files: complete, truncated and corrupted ones. */
#include "unit.h"

#include <elf.h>

#include "../../tools/doctor/elf_file.h"

#define BASE 0x400000
#define DYNAMIC 2048 /* offsets in the file */
#define TEXT 3072
#define SIZE 4096

/* A program as a linker makes it, as far as the doctor reads it. */
struct made {
	_Alignas(16) unsigned char bytes[SIZE];
	size_t text;
};

static void add_text(struct made *made, const char *string)
{
	strcpy((char *)made->bytes + TEXT + made->text, string);
	made->text += strlen(string) + 1;
}

static void set_part(struct made *made, int index, uint32_t type, uint64_t offset, uint64_t size)
{
	const Elf64_Phdr part = {
	    .p_type = type,
	    .p_offset = offset,
	    .p_vaddr = BASE + offset,
	    .p_filesz = size,
	    .p_memsz = size,
	};

	memcpy(made->bytes + sizeof(Elf64_Ehdr) + (size_t)index * sizeof(part), &part,
	       sizeof(part));
}

static struct made *make(const char *interpreter)
{
	struct made *made = calloc(1, sizeof(*made));
	Elf64_Ehdr header = {
	    .e_ident = {ELFMAG0, ELFMAG1, ELFMAG2, ELFMAG3, ELFCLASS64, ELFDATA2LSB, EV_CURRENT},
	    .e_type = ET_DYN,
	    .e_machine = elf_file_own_machine(),
	    .e_phoff = sizeof(header),
	    .e_phentsize = sizeof(Elf64_Phdr),
	    .e_phnum = 3,
	};

	assert_non_null(made);
	memcpy(made->bytes, &header, sizeof(header));
	made->text = 1;
	set_part(made, 0, PT_LOAD, 0, SIZE);
	set_part(made, 1, PT_DYNAMIC, DYNAMIC, 1024);
	if (interpreter) {
		strcpy((char *)made->bytes + 512, interpreter);
		set_part(made, 2, PT_INTERP, 512, strlen(interpreter) + 1);
	}
	return made;
}

static struct elf_file read_all(struct made *made)
{
	struct elf_file file;

	assert_int_equal(elf_file_parse(made->bytes, SIZE, &file), ELF_FILE_OK);
	return file;
}

static void how_it_comes_to_cuda(void **state)
{
	struct made *made = make("/lib/ld.so");

	add_text(made, "cudaErrorMemoryAllocation"); /* also in programs that only print errors */
	assert_false(read_all(made).has_runtime);
	add_text(made, "libcuda.so.1");
	assert_true(read_all(made).names_driver);
	assert_false(read_all(made).has_runtime);
	add_text(made, "cuGetProcAddress");
	assert_true(read_all(made).has_runtime);
	free(made);
	made = make("/lib/ld.so");
	add_text(made, "notlibcuda.so");
	assert_false(read_all(made).names_driver);
	add_text(made, "libcuda.so");
	assert_true(read_all(made).names_driver);
	add_text(made, "my_dlmopen");
	assert_false(read_all(made).calls_dlmopen);
	add_text(made, "dlvsym");
	assert_true(read_all(made).calls_dlvsym);
	add_text(made, "dlmopen");
	assert_true(read_all(made).calls_dlmopen);
	add_text(made, "mylibcudart.so.12");
	assert_string_equal(read_all(made).runtime, "");
	add_text(made, "libcudart.so.12");
	assert_string_equal(read_all(made).runtime, "libcudart.so.12");
	memset(made->bytes + SIZE - 20, 'x', 20); /* a name that ends with the file */
	memcpy(made->bytes + SIZE - 20, "\0libcudart.so", 13);
	memset(made->bytes + TEXT, 0, 512);
	assert_string_equal(read_all(made).runtime, "libcudart.soxxxxxxx");
	free(made);
}

static void what_points_outside_is_broken(void **state)
{
	struct made *made = make("/lib/ld.so");
	Elf64_Ehdr *header = (Elf64_Ehdr *)made->bytes;
	struct elf_file file;

	header->e_phoff = UINT64_MAX - 8;
	assert_int_equal(elf_file_parse(made->bytes, SIZE, &file), ELF_FILE_BROKEN);
	header->e_phoff = SIZE - 8;
	assert_int_equal(elf_file_parse(made->bytes, SIZE, &file), ELF_FILE_BROKEN);
	header->e_phoff = sizeof(*header);
	header->e_phentsize = 8;
	assert_int_equal(elf_file_parse(made->bytes, SIZE, &file), ELF_FILE_BROKEN);
	header->e_phentsize = sizeof(Elf64_Phdr);
	set_part(made, 2, PT_INTERP, SIZE + 1, 5);
	assert_int_equal(elf_file_parse(made->bytes, SIZE, &file), ELF_FILE_BROKEN);
	set_part(made, 2, PT_INTERP, 512, 5);
	free(made);
}

/* Sanitizers see any read past the end. */
static void cut_off_anywhere(void **state)
{
	struct made *made = make("/lib/ld.so");
	struct elf_file file;

	add_text(made, "libcudart.so.12");
	for (size_t size = 0; size < SIZE; size += size < 256 ? 1 : 13) {
		unsigned char *exact = malloc(size + !size);

		memcpy(exact, made->bytes, size);
		assert_in_range(elf_file_parse(exact, size, &file), ELF_FILE_OK, ELF_FILE_BROKEN);
		if (size < SELFMAG)
			assert_int_equal(elf_file_parse(exact, size, &file), ELF_FILE_NOT_ELF);
		free(exact);
	}
	free(made);
}

static void bent_anywhere(void **state)
{
	struct made *made = make("/lib/ld.so");
	unsigned char *exact = malloc(SIZE);
	unsigned int read = 0, seed = 20240607;
	struct elf_file file;

	add_text(made, "libcudart.so.12");
	for (int round = 0; round < 20000; round++) {
		memcpy(exact, made->bytes, SIZE);
		for (int i = 0; i < 1 + round % 4; i++) {
			size_t at = (size_t)rand_r(&seed) % 3;

			at = at == 0   ? (size_t)rand_r(&seed) % 240
			     : at == 1 ? DYNAMIC + (size_t)rand_r(&seed) % 64
				       : (size_t)rand_r(&seed) % SIZE;
			exact[at] = (unsigned char)rand_r(&seed);
		}
		read += elf_file_parse(exact, SIZE, &file) == ELF_FILE_OK;
	}
	assert_in_range(read, 1000, 19000); /* else the corruption did nothing, or too much */
	free(exact);
	free(made);
}

UNIT_MAIN(UNIT(how_it_comes_to_cuda), UNIT(what_points_outside_is_broken), UNIT(cut_off_anywhere),
	  UNIT(bent_anywhere))
