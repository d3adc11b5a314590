/* SPDX-License-Identifier: MIT */
#ifndef GPUSHARE_TESTS_API_MAP_H
#define GPUSHARE_TESTS_API_MAP_H
/* Verbs of api_app for maps. They use its slots: include this file after these are defined. */

#include "script_child.h"

static struct gpushare_map **map_of(const char *slot)
{
	return &maps[(unsigned char)slot[0] & 127];
}

/* map=SLOT,BUFFER,OFFSET,LENGTH,r|w|rw[,coherent] */
static void do_map(char **argument, int count)
{
	const struct gpushare_map_options options = {.need_coherent = count > 5};
	unsigned int access = (strchr(argument[4], 'r') ? GPUSHARE_READ : 0) |
			      (strchr(argument[4], 'w') ? GPUSHARE_WRITE : 0);
	struct gpushare_buffer *buffer = *buffer_of(argument[1]);
	uint64_t offset = script_number(argument[2]), length = script_number(argument[3]);

	if (count > 5)
		say("map", argument[0],
		    gpushare_map_with(buffer, offset, length, access, &options,
				      map_of(argument[0])));
	else
		say("map", argument[0],
		    gpushare_map(buffer, offset, length, access, map_of(argument[0])));
}

/* mapped=SLOT: print the map's size, backend, caching, coherence and atom */
static void do_mapped(char **argument, int count)
{
	static const char *const cachings[] = {
#define X(name, value, text) [value] = text,
	    GPUSHARE_CACHINGS(X)
#undef X
	};
	struct gpushare_map *map = *map_of(argument[0]);
	struct gpushare_map_info info;
	int status = gpushare_map_info(map, &info);

	if (status)
		say("mapped", argument[0], status);
	else
		printf("mapped %s: %zu bytes by %s, %s, %scoherent, atom %zu\n", argument[0],
		       gpushare_map_size(map), info.backend, cachings[info.caching],
		       info.coherent ? "" : "not ", info.atom_size);
}

/* store=SLOT,OFFSET,VALUE and load=SLOT,OFFSET: write or read a byte by the CPU */
static void do_store(char **argument, int count)
{
	volatile unsigned char *data = gpushare_map_data(*map_of(argument[0]));

	data[script_number(argument[1])] = (unsigned char)script_number(argument[2]);
}

static void do_load(char **argument, int count)
{
	const volatile unsigned char *data = gpushare_map_data(*map_of(argument[0]));

	printf("load %s: %d\n", argument[0], data[script_number(argument[1])]);
}

static const volatile unsigned char *map_address;

/* address=SLOT: print whether the map has an address here, and remember that address. peek=OFFSET
 * reads from the remembered address, even in a child where there is no map. */
static void do_address(char **argument, int count)
{
	const void *data = gpushare_map_data(*map_of(argument[0]));

	printf("address %s: %s\n", argument[0], data ? "there" : "none");
	if (data)
		map_address = data;
}

static void do_peek(char **argument, int count)
{
	printf("peek: %d\n", map_address[script_number(argument[0])]);
}

/* apart=SLOT,SLOT: print the distance of their addresses */
static void do_apart(char **argument, int count)
{
	const char *one = gpushare_map_data(*map_of(argument[0]));
	const char *other = gpushare_map_data(*map_of(argument[1]));

	printf("apart: %td\n", other - one);
}

static void do_flush(char **argument, int count)
{
	say("flush", argument[0],
	    gpushare_map_flush(*map_of(argument[0]), script_number(argument[1]),
			       script_number(argument[2])));
}

static void do_invalidate(char **argument, int count)
{
	say("invalidate", argument[0],
	    gpushare_map_invalidate(*map_of(argument[0]), script_number(argument[1]),
				    script_number(argument[2])));
}

static void do_unmap(char **argument, int count)
{
	say("unmap", argument[0], gpushare_unmap(*map_of(argument[0])));
}

/* fdlimit=MORE: allow at most MORE more file descriptors from now on */
static void do_fdlimit(char **argument, int count)
{
	int next = dup(0);
	struct rlimit limit = {.rlim_max = 1024};

	limit.rlim_cur = (rlim_t)next + script_number(argument[0]);
	close(next);
	if (next < 0 || setrlimit(RLIMIT_NOFILE, &limit))
		script_stop("fdlimit failed");
}

static int add_bytes(const void *data, size_t size, void *sum)
{
	for (size_t i = 0; i < size; i++)
		*(uint64_t *)sum += ((const unsigned char *)data)[i];
	return 0;
}

static int give_ones(void *data, size_t size, void *user)
{
	memset(data, 1, size);
	return 0;
}

/* sum=BUFFER: add up all its bytes by gpushare_read(); ones=BUFFER: set all to 1 by
 * gpushare_write() */
static void do_sum(char **argument, int count)
{
	struct gpushare_buffer *buffer = *buffer_of(argument[0]);
	uint64_t sum = 0;
	int status = gpushare_read(buffer, 0, gpushare_size(buffer), add_bytes, &sum);

	if (status)
		say("sum", argument[0], status);
	else
		printf("sum %s: %llu\n", argument[0], (unsigned long long)sum);
}

static void do_ones(char **argument, int count)
{
	struct gpushare_buffer *buffer = *buffer_of(argument[0]);

	say("ones", argument[0], gpushare_write(buffer, 0, gpushare_size(buffer), give_ones, NULL));
}

/* where=BUFFER: print whether it has an address, and its device */
static void do_where(char **argument, int count)
{
	const struct gpushare_buffer *buffer = *buffer_of(argument[0]);

	printf("where %s: %s, device %d\n", argument[0],
	       gpushare_pointer(buffer) ? "an address" : "no address", gpushare_device(buffer));
}

static const struct script_verb map_verbs[] = {
    {"map", 5, 6, do_map},     {"mapped", 1, 1, do_mapped},   {"store", 3, 3, do_store},
    {"load", 2, 2, do_load},   {"address", 1, 1, do_address}, {"peek", 1, 1, do_peek},
    {"apart", 2, 2, do_apart}, {"flush", 3, 3, do_flush},     {"invalidate", 3, 3, do_invalidate},
    {"unmap", 1, 1, do_unmap}, {"fdlimit", 1, 1, do_fdlimit}, {"sum", 1, 1, do_sum},
    {"ones", 1, 1, do_ones},   {"where", 1, 1, do_where},     {NULL, 0, 0, NULL},
};

#endif
