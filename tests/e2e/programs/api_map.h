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
VERB(map, 5, 6)
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
VERB(mapped, 1, 1)
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
VERB(store, 3, 3)
{
	volatile unsigned char *data = gpushare_map_data(*map_of(argument[0]));

	data[script_number(argument[1])] = (unsigned char)script_number(argument[2]);
}

VERB(load, 2, 2)
{
	const volatile unsigned char *data = gpushare_map_data(*map_of(argument[0]));

	printf("load %s: %d\n", argument[0], data[script_number(argument[1])]);
}

static const volatile unsigned char *map_address;

/* address=SLOT: print whether the map has an address here, and remember that address. peek=OFFSET
 * reads from the remembered address, even in a child where there is no map. */
VERB(address, 1, 1)
{
	const void *data = gpushare_map_data(*map_of(argument[0]));

	printf("address %s: %s\n", argument[0], data ? "there" : "none");
	if (data)
		map_address = data;
}

VERB(peek, 1, 1)
{
	printf("peek: %d\n", map_address[script_number(argument[0])]);
}

/* apart=SLOT,SLOT: print the distance of their addresses */
VERB(apart, 2, 2)
{
	const char *one = gpushare_map_data(*map_of(argument[0]));
	const char *other = gpushare_map_data(*map_of(argument[1]));

	printf("apart: %td\n", other - one);
}

VERB(flush, 3, 3)
{
	say("flush", argument[0],
	    gpushare_map_flush(*map_of(argument[0]), script_number(argument[1]),
			       script_number(argument[2])));
}

VERB(invalidate, 3, 3)
{
	say("invalidate", argument[0],
	    gpushare_map_invalidate(*map_of(argument[0]), script_number(argument[1]),
				    script_number(argument[2])));
}

VERB(unmap, 1, 1)
{
	say("unmap", argument[0], gpushare_unmap(*map_of(argument[0])));
}

/* fdlimit=MORE: allow at most MORE more file descriptors from now on */
VERB(fdlimit, 1, 1)
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
VERB(sum, 1, 1)
{
	struct gpushare_buffer *buffer = *buffer_of(argument[0]);
	uint64_t sum = 0;
	int status = gpushare_read(buffer, 0, gpushare_size(buffer), add_bytes, &sum);

	if (status)
		say("sum", argument[0], status);
	else
		printf("sum %s: %llu\n", argument[0], (unsigned long long)sum);
}

VERB(ones, 1, 1)
{
	struct gpushare_buffer *buffer = *buffer_of(argument[0]);

	say("ones", argument[0], gpushare_write(buffer, 0, gpushare_size(buffer), give_ones, NULL));
}

/* where=BUFFER: print whether it has an address, and its device */
VERB(where, 1, 1)
{
	const struct gpushare_buffer *buffer = *buffer_of(argument[0]);

	printf("where %s: %s, device %d\n", argument[0],
	       gpushare_pointer(buffer) ? "an address" : "no address", gpushare_device(buffer));
}

#endif
