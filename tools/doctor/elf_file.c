/* SPDX-License-Identifier: MIT */
#include "elf_file.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#if defined(__x86_64__)
#define OWN_MACHINE EM_X86_64
#else
#define OWN_MACHINE EM_AARCH64
#endif

/* X(e_machine, name) */
#define MACHINES(X) \
	X(EM_X86_64, "x86-64") \
	X(EM_386, "32-bit x86") \
	X(EM_AARCH64, "aarch64") \
	X(EM_ARM, "32-bit ARM") \
	X(EM_PPC64, "POWER") \
	X(EM_RISCV, "RISC-V")

struct bytes {
	const unsigned char *at;
	size_t size;
};

/* Return the `size` bytes at `offset`, or NULL if the file is too short. */
static const void *part(const struct bytes *file, uint64_t offset, uint64_t size)
{
	if (offset > file->size || size > file->size - offset)
		return NULL;
	return file->at + offset;
}

/* Return the string at `offset`, or NULL if it doesn't end within the file. */
static const char *text(const struct bytes *file, uint64_t offset)
{
	if (offset >= file->size || !memchr(file->at + offset, '\0', file->size - offset))
		return NULL;
	return (const char *)file->at + offset;
}

static bool header_at(const struct bytes *file, const Elf64_Ehdr *header, size_t index,
		      Elf64_Phdr *out)
{
	const void *from;

	if (header->e_phentsize != sizeof(*out))
		return false;
	from = part(file, header->e_phoff + index * sizeof(*out), sizeof(*out));
	if (!from || header->e_phoff > file->size)
		return false;
	memcpy(out, from, sizeof(*out));
	return true;
}

static bool read_interpreter(const struct bytes *file, const Elf64_Phdr *found,
			     struct elf_file *out)
{
	const char *name = text(file, found->p_offset);

	if (!name || !*name)
		return false;
	snprintf(out->interpreter, sizeof(out->interpreter), "%s", name);
	return true;
}

#define HOLDS(file, literal) (memmem((file)->at, (file)->size, literal, sizeof(literal)) != NULL)

/* Even a stripped CUDA runtime contains its errors' names, and the names of the two driver
 * functions by which it finds the others. A name after "\0" must begin a string. */
static void look_for_cuda(const struct bytes *file, struct elf_file *out)
{
	static const char runtime[] = "\0libcudart.so"; /* a version may follow */
	const char *named = memmem(file->at, file->size, runtime, sizeof(runtime) - 1);

	if (named)
		snprintf(out->runtime, sizeof(out->runtime), "%.*s",
			 (int)(file->at + file->size - (const unsigned char *)named - 1),
			 named + 1);
	out->names_driver = HOLDS(file, "libcuda.so.1") || HOLDS(file, "\0libcuda.so");
	out->has_runtime = out->names_driver && HOLDS(file, "cuGetProcAddress") &&
			   HOLDS(file, "cudaErrorMemoryAllocation");
	out->has_tables = out->has_runtime && HOLDS(file, "cuGetExportTable");
	out->calls_dlmopen = HOLDS(file, "\0dlmopen");
	out->calls_dlvsym = HOLDS(file, "\0dlvsym");
}

enum elf_file_status elf_file_parse(const unsigned char *bytes, size_t size, struct elf_file *out)
{
	const struct bytes file = {bytes, size};
	Elf64_Ehdr header;
	Elf64_Phdr each;
	bool good = true;

	*out = (struct elf_file){.machine = EM_NONE};
	if (size < SELFMAG || memcmp(bytes, ELFMAG, SELFMAG) != 0)
		return ELF_FILE_NOT_ELF;
	if (size < sizeof(Elf32_Ehdr))
		return ELF_FILE_BROKEN;
	out->is_64 = bytes[EI_CLASS] == ELFCLASS64;
	memcpy(&out->machine, bytes + offsetof(Elf64_Ehdr, e_machine), sizeof(out->machine));
	if (!out->is_64 || bytes[EI_DATA] != ELFDATA2LSB)
		return ELF_FILE_OK;
	if (size < sizeof(header))
		return ELF_FILE_BROKEN;
	memcpy(&header, bytes, sizeof(header));
	for (size_t i = 0; i < header.e_phnum && good; i++) {
		if (!header_at(&file, &header, i, &each))
			return ELF_FILE_BROKEN;
		if (each.p_type == PT_INTERP)
			good = read_interpreter(&file, &each, out);
		else if (each.p_type == PT_DYNAMIC)
			out->has_dynamic = true;
	}
	if (!good)
		return ELF_FILE_BROKEN;
	look_for_cuda(&file, out);
	return ELF_FILE_OK;
}

enum elf_file_status elf_file_read(const char *path, struct elf_file *out)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK), error;
	enum elf_file_status status;
	struct stat is;
	void *bytes;

	if (fd < 0)
		return ELF_FILE_UNREADABLE;
	if (fstat(fd, &is) || !S_ISREG(is.st_mode) || !is.st_size) {
		close(fd);
		errno = S_ISDIR(is.st_mode) ? EISDIR : EINVAL;
		return is.st_size || !S_ISREG(is.st_mode) ? ELF_FILE_UNREADABLE : ELF_FILE_NOT_ELF;
	}
	bytes = mmap(NULL, (size_t)is.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
	error = errno;
	close(fd);
	if (bytes == MAP_FAILED) {
		errno = error;
		return ELF_FILE_UNREADABLE;
	}
	status = elf_file_parse(bytes, (size_t)is.st_size, out);
	munmap(bytes, (size_t)is.st_size);
	return status;
}

const char *elf_file_machine(uint16_t machine)
{
	static char unknown[32];

	switch (machine) {
#define X(number, name) \
	case number: \
		return name;
		MACHINES(X)
#undef X
	}
	snprintf(unknown, sizeof(unknown), "machine %u", (unsigned int)machine);
	return unknown;
}

uint16_t elf_file_own_machine(void)
{
	return OWN_MACHINE;
}
