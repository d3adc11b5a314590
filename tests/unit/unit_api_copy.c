/* SPDX-License-Identifier: MIT */
/* Copies of CPU-mapped buffers: whether the CPU or the driver makes each, and that its bytes are
 * right. */
#include "unit.h"

#include "filled.h"

#define SIZE ((size_t)300000)
#define BOTH (GPUSHARE_READ | GPUSHARE_WRITE)
#define CPU_TO ((size_t)256 << 10)
#define CPU_FROM ((size_t)4 << 10)
#define NO_DMA "cuMemcpyHtoD:1:1000000,cuMemcpyDtoH:1:1000000"

/* The driver's copies fail, so the CPU has made each copy that succeeds. */
static void choose(void)
{
	struct gpushare_session *session;
	struct gpushare_buffer *buffer;
	struct gpushare_map *map;
	unsigned char *bytes = part_pattern(SIZE, 1), *found = malloc(SIZE);

	CHECK(found != NULL);
	setenv("GPUSHARE_SIM_FAIL", NO_DMA, 1);
	session = part_session();
	buffer = part_made(session, "x", SIZE, GPUSHARE_FLAG_VMM);
	FAILS(E_CUDA, "cuMemcpyHtoD", gpushare_copy_to(buffer, 0, bytes, 1));
	FAILS(E_CUDA, "cuMemcpyDtoH", gpushare_copy_from(buffer, 0, found, 1));
	map = part_map(buffer, BOTH);
	memset(gpushare_map_data(map), 0, SIZE);
	OK(gpushare_copy_to(buffer, 1, bytes, CPU_TO));
	FAILS(E_CUDA, "cuMemcpyHtoD", gpushare_copy_to(buffer, 1, bytes, CPU_TO + 1));
	OK(gpushare_copy_from(buffer, 1, found, CPU_FROM));
	FAILS(E_CUDA, "cuMemcpyDtoH", gpushare_copy_from(buffer, 1, found, CPU_FROM + 1));
	CHECK(!memcmp(found, bytes, CPU_FROM));
	CHECK(!memcmp((char *)gpushare_map_data(map) + 1, bytes, CPU_TO));
	CHECK(!*(char *)gpushare_map_data(map) && !((char *)gpushare_map_data(map))[CPU_TO + 1]);
	FAILS(E_RANGE, "x", gpushare_copy_to(buffer, SIZE - 1, bytes, 2));
	OK(gpushare_copy_to(buffer, SIZE, NULL, 0));
	OK(gpushare_unmap(map));
	FAILS(E_CUDA, "cuMemcpyHtoD", gpushare_copy_to(buffer, 1, bytes, 1));
	free(bytes);
	free(found);
	OK(gpushare_close(session));
}

/* Copy by the CPU and by the driver, at many offsets and lengths, in turn with maps and mirrors of
 * the same bytes. */
static void mix_ways(void)
{
	static const size_t lengths[] = {1,  2,	  3,   7,    8,	   15,	  64,
					 65, 511, 513, 4095, 4097, 50001, CPU_TO + 1};
	struct gpushare_session *session = part_session();
	struct gpushare_buffer *buffer = part_made(session, "x", SIZE, GPUSHARE_FLAG_VMM);
	unsigned char *wanted = part_pattern(SIZE, 2), *found = malloc(SIZE), *data;
	struct gpushare_map *map = part_map(buffer, BOTH), *second = part_map(buffer, BOTH);

	CHECK(found != NULL);
	data = gpushare_map_data(map);
	OK(gpushare_copy_to(buffer, 0, wanted, SIZE));
	for (size_t i = 0; i < sizeof(lengths) / sizeof(*lengths); i++) {
		for (size_t at = 0; at < 130; at += 13) {
			size_t length = lengths[i];
			struct gpushare_mirror *mirror;

			OK(gpushare_copy_from(buffer, at, found, length));
			CHECK(!memcmp(found, wanted + at, length));
			for (size_t k = 0; k < length; k++)
				wanted[at + k] ^= (unsigned char)(k + i + at);
			OK(gpushare_copy_to(buffer, at, wanted + at, length));
			CHECK(!memcmp(data, wanted, SIZE));
			data[at] = wanted[at] = (unsigned char)at;
			OK(gpushare_map_flush(map, at, 1));
			OK(gpushare_mirror_open(buffer, at, length, BOTH, &mirror));
			CHECK(!memcmp(gpushare_mirror_data(mirror), wanted + at, length));
			*(unsigned char *)gpushare_mirror_data(mirror) = wanted[at] = 0x77;
			OK(gpushare_mirror_close(mirror));
			CHECK(*((unsigned char *)gpushare_map_data(second) + at) == 0x77);
		}
	}
	OK(gpushare_unmap(map));
	OK(gpushare_copy_from(buffer, 0, found, SIZE));
	CHECK(!memcmp(found, wanted, SIZE));
	OK(gpushare_unmap(second));
	free(wanted);
	free(found);
	OK(gpushare_close(session));
}

/* GPU work that is launched after a copy to the buffer sees the copy. */
static void launch_after(void)
{
	struct gpushare_session *session = part_session();
	const struct driver *driver = part_driver();
	struct gpushare_buffer *buffer = part_made(session, "x", SIZE, GPUSHARE_FLAG_VMM);
	struct gpushare_map *map = part_map(buffer, GPUSHARE_WRITE);
	cu_deviceptr elsewhere;
	char found[16] = "";

	CHECK(driver->cuMemAlloc_v2(&elsewhere, 16) == CU_OK);
	CHECK(driver->cuMemsetD8_v2(gpushare_pointer(buffer), 'a', SIZE) == CU_OK);
	OK(gpushare_copy_to(buffer, 3, "hello", 5));
	CHECK(driver->cuMemcpyDtoD_v2(elsewhere, gpushare_pointer(buffer), 15) == CU_OK);
	CHECK(driver->cuMemsetD8_v2(gpushare_pointer(buffer) + 4, 'b', 1) == CU_OK);
	CHECK(driver->cuMemcpyDtoH_v2(found, elsewhere, 15) == CU_OK);
	CHECK(!strcmp(found, "aaahelloaaaaaaa"));
	OK(gpushare_copy_from(buffer, 2, found, 4));
	CHECK(!memcmp(found, "ahbl", 4));
	CHECK(driver->cuMemFree_v2(elsewhere) == CU_OK);
	OK(gpushare_unmap(map));
	OK(gpushare_close(session));
}

/* The owner's side of copy_anothers(): its buffers end while the other part has them attached. */
static void own_and_go(void)
{
	struct gpushare_session *session = part_session();
	struct gpushare_buffer *x = part_made(session, "x", SIZE, GPUSHARE_FLAG_VMM);
	struct gpushare_buffer *r = part_made(session, "r", SIZE, GPUSHARE_FLAG_READONLY);
	unsigned char *bytes = part_pattern(SIZE, 5);

	OK(gpushare_copy_to(x, 0, bytes, SIZE));
	OK(gpushare_copy_to(r, 0, bytes, SIZE));
	free(bytes);
	say();
	hear();
	part_holds(x, 7, 3, 8);
	OK(gpushare_free(x));
	OK(gpushare_close(session));
	say();
}

static void copy_anothers(void)
{
	struct gpushare_session *session;
	struct gpushare_buffer *x, *r;
	struct gpushare_map *map, *reading;
	unsigned char *bytes = part_pattern(SIZE, 5), *more = part_pattern(SIZE, 8), found[600];

	setenv("GPUSHARE_SIM_FAIL", NO_DMA, 1);
	session = part_session();
	hear();
	OK(gpushare_attach(session, "x", NULL, &x));
	OK(gpushare_attach(session, "r", NULL, &r));
	map = part_map(x, BOTH);
	reading = part_map(r, GPUSHARE_READ);
	OK(gpushare_copy_from(x, 11, found, 500));
	CHECK(!memcmp(found, bytes + 11, 500));
	OK(gpushare_copy_from(r, SIZE - 33, found, 33));
	CHECK(!memcmp(found, bytes + SIZE - 33, 33));
	FAILS(E_READ_ONLY, "r", gpushare_copy_to(r, 0, found, 1));
	OK(gpushare_copy_to(x, 7, more, 3));
	say();
	hear();
	/* The owner has freed the buffer, but its memory stays while it is attached. */
	OK(gpushare_copy_from(x, 7, found, 3));
	CHECK(!memcmp(found, more, 3));
	OK(gpushare_detach(x));
	CHECK(!memcmp((char *)gpushare_map_data(map) + 7, more, 3));
	OK(gpushare_unmap(map));
	OK(gpushare_unmap(reading));
	free(bytes);
	free(more);
	OK(gpushare_close(session));
}

STAGE_MAIN(SCENE(choose), SCENE(mix_ways), SCENE(launch_after), SCENE(own_and_go, copy_anothers))
