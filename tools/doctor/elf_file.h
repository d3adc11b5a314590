/* SPDX-License-Identifier: MIT */
#ifndef GPUSHARE_TOOLS_ELF_FILE_H
#define GPUSHARE_TOOLS_ELF_FILE_H
/* Examine a program or library file without loading it: which loader it names, and by its strings,
 * how it uses CUDA. The file may contain any bytes: the parser never reads past its end. */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define ELF_FILE_TEXT_MAX 1024

struct elf_file {
	uint16_t machine;
	bool is_64;
	bool has_dynamic;
	char interpreter[ELF_FILE_TEXT_MAX]; /* the loader; "": none */
	char runtime[64];  /* the CUDA runtime's library that the file names; "": none */
	bool has_runtime;  /* contains strings of the CUDA runtime */
	bool has_tables;   /* the runtime is NVIDIA's: it uses the driver's export tables */
	bool names_driver; /* contains the string "libcuda.so", so it may load the driver */
	bool calls_dlmopen;
	bool calls_dlvsym;
};

enum elf_file_status {
	ELF_FILE_OK,
	ELF_FILE_UNREADABLE, /* errno says why */
	ELF_FILE_NOT_ELF,
	ELF_FILE_BROKEN, /* begins like ELF, but is truncated or inconsistent */
};

/* *out is valid only if the result is ELF_FILE_OK. For a file with 32 bits or another byte order,
 * only `machine` and `is_64` are set. */
enum elf_file_status elf_file_read(const char *path, struct elf_file *out);
/* elf_file_read() of bytes in memory. */
enum elf_file_status elf_file_parse(const unsigned char *bytes, size_t size, struct elf_file *out);
/* The machine's name, such as "x86-64"; for an unknown one "machine 12". */
const char *elf_file_machine(uint16_t machine);
/* The machine of this program. */
uint16_t elf_file_own_machine(void);

#endif
