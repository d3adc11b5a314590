/* SPDX-License-Identifier: MIT */
#ifndef GPUSHARE_TESTS_API_UNIFIED_H
#define GPUSHARE_TESTS_API_UNIFIED_H
/* Verbs of api_app for memory that the CPU can use at the device pointer. They use its slots:
 * include this file after these are defined. */
#include <sys/mman.h>

/* cpuput=SLOT,OFFSET,VALUE and cpubyte=SLOT,OFFSET: write or read a byte by the CPU, at
 * gpushare_pointer() */
VERB(cpuput, 3, 3)
{
	volatile unsigned char *data = (void *)(uintptr_t)gpushare_pointer(*buffer_of(argument[0]));

	data[script_number(argument[1])] = (unsigned char)script_number(argument[2]);
}

VERB(cpubyte, 2, 2)
{
	const volatile unsigned char *data =
	    (const void *)(uintptr_t)gpushare_pointer(*buffer_of(argument[0]));

	printf("cpubyte %s: %d\n", argument[0], data[script_number(argument[1])]);
}

static int read_by_cpu(void *to, uint64_t from, size_t size)
{
	memcpy(to, (const void *)(uintptr_t)from, size);
	return 0;
}

/* cpuwalk=SLOT: follow by the CPU the list that link= wrote */
VERB(cpuwalk, 1, 1)
{
	printf("cpuwalk %s: %ld\n", argument[0],
	       nodes_walk(gpushare_pointer(*buffer_of(argument[0])), read_by_cpu));
}

/* pointer=SLOT,FILE: save its address to FILE. In another process, block=FILE maps a page at that
 * address, and at=SLOT,FILE prints whether SLOT is there. */
VERB(pointer, 2, 2)
{
	uint64_t pointer = gpushare_pointer(*buffer_of(argument[0]));

	script_save(argument[1], &pointer, sizeof(pointer));
}

static uint64_t pointer_from(const char *path)
{
	FILE *file = fopen(path, "rb");
	uint64_t pointer;

	if (!file || fread(&pointer, sizeof(pointer), 1, file) != 1)
		script_stop("no pointer");
	fclose(file);
	return pointer;
}

VERB(block, 1, 1)
{
	void *wanted = (void *)(uintptr_t)pointer_from(argument[0]);

	if (mmap(wanted, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1,
		 0) != wanted)
		script_stop("block: it is taken");
}

VERB(at, 2, 2)
{
	printf("at %s: %s\n", argument[0],
	       gpushare_pointer(*buffer_of(argument[0])) == pointer_from(argument[1])
		   ? "there"
		   : "elsewhere");
}

/* mapat=MAP,FILE: as at=, for a map */
VERB(mapat, 2, 2)
{
	printf("mapat %s: %s\n", argument[0],
	       (uintptr_t)gpushare_map_data(*map_of(argument[0])) == pointer_from(argument[1])
		   ? "there"
		   : "elsewhere");
}

/* array=SLOT,NAME,COUNT,SIZE,OPTIONS */
VERB(array, 5, 5)
{
	struct gpushare_alloc_options options = keep_options(argument[4]);

	say("array", argument[1],
	    gpushare_alloc_array(session, argument[1], strtoull(argument[2], NULL, 0),
				 strtoull(argument[3], NULL, 0), &options, buffer_of(argument[0])));
}

/* another: open another session and use it from now on */
VERB(another, 0, 0)
{
	static struct gpushare_session *earlier[8]; /* they stay open */
	static size_t used;

	if (used == sizeof(earlier) / sizeof(*earlier))
		script_stop("another: no room");
	earlier[used++] = session;
	say("another", "", gpushare_open(NULL, &session));
}

/* backing=NAME */
VERB(backing, 1, 1)
{
	struct gpushare_info info;
	int status = gpushare_stat(session, argument[0], &info);

	if (status)
		say("backing", argument[0], status);
	else
		printf("backing %s: %d, %llu of %llu\n", argument[0], (int)info.backing,
		       (unsigned long long)info.size, (unsigned long long)info.base_size);
}

#endif
