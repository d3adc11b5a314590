/* SPDX-License-Identifier: MIT */
#ifndef GPUSHARE_TOOLS_ELF_FILE_H
#define GPUSHARE_TOOLS_ELF_FILE_H
/* A program or library as it lies on disk: what loads it, what it needs, how it comes to CUDA. Any
 * bytes may come; none outside the file are read. */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define ELF_FILE_NEEDED_MAX 64
#define ELF_FILE_TEXT_MAX 1024

struct elf_file {
	uint16_t machine;
	uint16_t type; /* ET_EXEC, ET_DYN */
	bool is_64;
	bool has_dynamic;
	char interpreter[ELF_FILE_TEXT_MAX]; /* the loader; "": none */
	char rpath[ELF_FILE_TEXT_MAX], runpath[ELF_FILE_TEXT_MAX];
	char needed[ELF_FILE_NEEDED_MAX][128];
	size_t needed_count;
	bool has_runtime;   /* holds the CUDA runtime's own text and way to the driver */
	bool has_tables;    /* that is NVIDIA's: it asks for the driver's export tables */
	bool names_driver;  /* has "libcuda.so" as a text, to load it by */
	bool calls_dlmopen; /* a name in its dynamic strings */
	bool calls_dlvsym;
};

enum elf_file_status {
	ELF_FILE_OK,
	ELF_FILE_UNREADABLE, /* errno says why */
	ELF_FILE_NOT_ELF,
	ELF_FILE_BROKEN, /* it begins like one */
};

/* What is set in *out where that isn't ELF_FILE_OK means nothing; of another byte order or 32 bits
 * only `machine`, `type` and `is_64` are set. */
enum elf_file_status elf_file_read(const char *path, struct elf_file *out);
/* The same of bytes in memory. */
enum elf_file_status elf_file_parse(const unsigned char *bytes, size_t size, struct elf_file *out);
/* "x86-64"; "machine 12" of one that is not known. */
const char *elf_file_machine(uint16_t machine);
/* This program's own. */
uint16_t elf_file_own_machine(void);
/* The needed library whose name begins so; NULL: none. */
const char *elf_file_needs(const struct elf_file *file, const char *prefix);

#endif
