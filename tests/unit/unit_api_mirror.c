/* SPDX-License-Identifier: MIT */
/* Mirrors: pinned copies of named buffers, there and back, and what can go wrong on either way. */
#include "unit.h"

#include "filled.h"

#define SIZE ((size_t)100000)
#define BOTH (GPUSHARE_READ | GPUSHARE_WRITE)

static struct gpushare_mirror *const UNTOUCHED = (struct gpushare_mirror *)(uintptr_t)16;

/* Any start, any length: what was mirrored changes and nothing beside it. */
static void go_there_and_back(void)
{
	static const size_t offsets[] = {0, 1, 3, 63, 64, 4095, 4097, SIZE / 2 + 1};
	static const size_t lengths[] = {1, 2, 7, 8, 63, 65, 4096, 4099, SIZE / 2 - 1};
	struct gpushare_session *session = part_session();
	struct gpushare_buffer *buffer = part_filled(session, "x", SIZE, 1);
	unsigned char *wanted = part_pattern(SIZE, 1), *found = malloc(SIZE);

	CHECK(found != NULL);
	for (size_t i = 0; i < sizeof(offsets) / sizeof(*offsets); i++) {
		for (size_t k = 0; k < sizeof(lengths) / sizeof(*lengths); k++) {
			struct gpushare_mirror *mirror;
			unsigned char *data;

			OK(gpushare_mirror_open(buffer, offsets[i], lengths[k], BOTH, &mirror));
			data = gpushare_mirror_data(mirror);
			CHECK(gpushare_mirror_size(mirror) == lengths[k]);
			CHECK(!memcmp(data, wanted + offsets[i], lengths[k]));
			for (size_t at = 0; at < lengths[k]; at++)
				data[at] = wanted[offsets[i] + at] ^= (unsigned char)(at + i + k);
			OK(gpushare_mirror_close(mirror));
			OK(gpushare_copy_from(buffer, 0, found, SIZE));
			CHECK(!memcmp(found, wanted, SIZE));
		}
	}
	free(wanted);
	free(found);
	OK(gpushare_close(session));
}

/* A mirror is a copy: it is as old as its opening, and the last to be written back stays. */
static void mix_mirrors(void)
{
	struct gpushare_session *session = part_session();
	struct gpushare_buffer *buffer = part_filled(session, "x", SIZE, 2);
	struct gpushare_mirror *old, *one, *two, *dropped;
	unsigned char *was = part_pattern(SIZE, 2);

	OK(gpushare_mirror_open(buffer, 0, SIZE, GPUSHARE_READ, &old));
	OK(gpushare_mirror_open(buffer, 0, SIZE, GPUSHARE_WRITE, &one));
	OK(gpushare_mirror_open(buffer, 11, 100, BOTH, &two));
	OK(gpushare_mirror_open(buffer, 0, SIZE, BOTH, &dropped));
	CHECK(gpushare_mirror_data(one) != gpushare_mirror_data(old));
	memset(gpushare_mirror_data(one), 'a', SIZE);
	memset(gpushare_mirror_data(dropped), 'b', SIZE);
	gpushare_mirror_drop(dropped);
	part_holds(buffer, 0, SIZE, 2);
	OK(gpushare_mirror_sync(one));
	((char *)gpushare_mirror_data(one))[SIZE - 1] = 'c';
	CHECK(!memcmp(gpushare_mirror_data(two), was + 11, 100));
	OK(gpushare_mirror_close(one));
	OK(gpushare_mirror_close(two));
	CHECK(!memcmp(gpushare_mirror_data(old), was, SIZE));
	OK(gpushare_mirror_close(old));
	OK(gpushare_mirror_open(buffer, 0, SIZE, GPUSHARE_READ, &one));
	CHECK(!memcmp((char *)gpushare_mirror_data(one) + 11, was + 11, 100));
	CHECK(((char *)gpushare_mirror_data(one))[10] == 'a');
	CHECK(((char *)gpushare_mirror_data(one))[111] == 'a');
	CHECK(((char *)gpushare_mirror_data(one))[SIZE - 1] == 'c');
	/* one that was opened for reading is never written back */
	memset(gpushare_mirror_data(one), 'd', SIZE);
	FAILS(E_INVALID, "GPUSHARE_WRITE", gpushare_mirror_sync(one));
	OK(gpushare_mirror_close(one));
	OK(gpushare_copy_from(buffer, 0, was, 1));
	CHECK(*was == 'a');
	free(was);
	OK(gpushare_close(session));
}

static void refuse_mirrors(void)
{
	const struct gpushare_attach_options any = {0};
	struct gpushare_session *session = part_session();
	struct gpushare_buffer *buffer = part_filled(session, "x", SIZE, 3), *other;
	struct gpushare_mirror *mirror = UNTOUCHED;

	FAILS(E_INVALID, "buffer is NULL",
	      gpushare_mirror_open(NULL, 0, 1, GPUSHARE_READ, &mirror));
	FAILS(E_INVALID, "out_mirror", gpushare_mirror_open(buffer, 0, 1, GPUSHARE_READ, NULL));
	FAILS(E_INVALID, "0x0", gpushare_mirror_open(buffer, 0, 1, 0, &mirror));
	FAILS(E_INVALID, "0x5", gpushare_mirror_open(buffer, 0, 1, 5, &mirror));
	FAILS(E_RANGE, "100000", gpushare_mirror_open(buffer, SIZE, 1, GPUSHARE_READ, &mirror));
	FAILS(E_RANGE, "x", gpushare_mirror_open(buffer, 1, SIZE, GPUSHARE_WRITE, &mirror));
	FAILS(E_RANGE, "x", gpushare_mirror_open(buffer, 2, SIZE_MAX, GPUSHARE_READ, &mirror));
	FAILS(E_RANGE, "x", gpushare_mirror_open(buffer, SIZE + 1, 0, GPUSHARE_READ, &mirror));
	CHECK(mirror == UNTOUCHED);
	FAILS(E_INVALID, "NULL", gpushare_mirror_sync(NULL));
	OK(gpushare_mirror_close(NULL));
	gpushare_mirror_drop(NULL);
	CHECK(!gpushare_mirror_data(NULL) && !gpushare_mirror_size(NULL));
	/* of nothing: allowed anywhere within, and no pinned memory */
	OK(gpushare_mirror_open(buffer, SIZE, 0, BOTH, &mirror));
	CHECK(gpushare_mirror_data(mirror) && !gpushare_mirror_size(mirror));
	OK(gpushare_mirror_sync(mirror));
	OK(gpushare_mirror_close(mirror));
	CHECK(logged("cuMemHostAlloc") == 0);
	/* attached here too: a mirror of either is one of the same bytes */
	OK(gpushare_attach(session, "x", &any, &other));
	OK(gpushare_mirror_open(other, 5, 1, GPUSHARE_WRITE, &mirror));
	*(char *)gpushare_mirror_data(mirror) = '!';
	OK(gpushare_mirror_close(mirror));
	OK(gpushare_mirror_open(buffer, 5, 1, GPUSHARE_READ, &mirror));
	CHECK(*(char *)gpushare_mirror_data(mirror) == '!');
	OK(gpushare_mirror_close(mirror));
	OK(gpushare_close(session));
}

/* Each call that a mirror makes fails once: said by name, and the copy is not lost by that. */
static void fail_mirrors(void)
{
	struct gpushare_session *session;
	struct gpushare_buffer *buffer;
	struct gpushare_mirror *mirror = UNTOUCHED;

	setenv("GPUSHARE_SIM_FAIL",
	       "cuMemHostAlloc:1:1:2,cuMemcpyDtoH:1:1,cuMemcpyHtoD:2:1,cuStreamSynchronize:2:1", 1);
	session = part_session();
	buffer = part_filled(session, "x", SIZE, 4);
	FAILS(E_NO_MEMORY, "77824 bytes of pinned host memory to mirror 'x'",
	      gpushare_mirror_open(buffer, 0, 77777, BOTH, &mirror));
	FAILS(E_CUDA, "cuMemcpyDtoH", gpushare_mirror_open(buffer, 0, 77777, BOTH, &mirror));
	CHECK(mirror == UNTOUCHED);
	OK(gpushare_mirror_open(buffer, 0, 77777, BOTH, &mirror));
	memset(gpushare_mirror_data(mirror), 'm', 77777);
	FAILS(E_CUDA, "the mirror is still open", gpushare_mirror_close(mirror));
	FAILS(E_CUDA, "cuMemcpyHtoD", gpushare_mirror_sync(mirror));
	CHECK(gpushare_mirror_size(mirror) == 77777);
	CHECK(((char *)gpushare_mirror_data(mirror))[77776] == 'm');
	OK(gpushare_mirror_close(mirror));
	OK(gpushare_mirror_open(buffer, 77776, 2, GPUSHARE_READ, &mirror));
	CHECK(((char *)gpushare_mirror_data(mirror))[0] == 'm');
	CHECK(((char *)gpushare_mirror_data(mirror))[1] != 'm');
	OK(gpushare_mirror_close(mirror));
	CHECK(logged("cuMemHostAlloc 0") == 1 && logged("cuMemHostAlloc 2") == 1);
	OK(gpushare_close(session));
	CHECK(logged("cuMemFreeHost 0") == 1);
}

/* Pinned memory is used again, and there is never more of it than mirrors were open at once. */
static void use_again(void)
{
	struct gpushare_session *session = part_session();
	struct gpushare_buffer *buffer = part_filled(session, "x", SIZE, 5);
	struct gpushare_mirror *one, *two, *three;

	OK(gpushare_mirror_open(buffer, 0, 50000, GPUSHARE_READ, &one));
	OK(gpushare_mirror_open(buffer, 0, 9000, GPUSHARE_READ, &two));
	OK(gpushare_mirror_close(one));
	OK(gpushare_mirror_close(two));
	CHECK(logged("cuMemHostAlloc 0") == 2);
	for (size_t length = 1; length <= 50000; length *= 3) {
		OK(gpushare_mirror_open(buffer, 0, length, GPUSHARE_READ, &one));
		OK(gpushare_mirror_open(buffer, 1, length % 9001, GPUSHARE_READ, &two));
		OK(gpushare_mirror_close(one));
		OK(gpushare_mirror_close(two));
	}
	CHECK(logged("cuMemHostAlloc 0") == 2 && logged("cuMemFreeHost") == 0);
	OK(gpushare_mirror_open(buffer, 0, SIZE, GPUSHARE_READ, &three));
	CHECK(logged("cuMemHostAlloc 0") == 3 && logged("cuMemFreeHost 0") == 2);
	OK(gpushare_mirror_close(three));
	OK(gpushare_close(session));
	CHECK(logged("cuMemFreeHost 0") == 3);
}

/* The scope's end publishes nothing; a sync does, and what comes after it on the GPU sees it. */
static int compose(struct gpushare_buffer *buffer, const char *text, bool enough)
{
	gpushare_mirror_scope struct gpushare_mirror *mirror = NULL;
	int status = gpushare_mirror_open(buffer, 0, strlen(text) + 1, GPUSHARE_WRITE, &mirror);

	if (status)
		return status;
	strcpy(gpushare_mirror_data(mirror), text);
	if (!enough)
		return GPUSHARE_E_CANCELLED;
	return gpushare_mirror_sync(mirror);
}

static void end_with_scope(void)
{
	struct gpushare_session *session = part_session();
	const struct driver *driver = part_driver();
	struct gpushare_buffer *buffer = part_filled(session, "x", SIZE, 13);
	cu_deviceptr elsewhere;
	char found[16] = "";

	CHECK(compose(buffer, "half done", false) == GPUSHARE_E_CANCELLED);
	part_holds(buffer, 0, SIZE, 13);
	OK(compose(buffer, "hello world", true));
	CHECK(driver->cuMemAlloc_v2(&elsewhere, 12) == CU_OK);
	CHECK(driver->cuMemcpyDtoD_v2(elsewhere, gpushare_pointer(buffer), 12) == CU_OK);
	CHECK(driver->cuMemcpyDtoH_v2(found, elsewhere, 12) == CU_OK);
	CHECK(!strcmp(found, "hello world"));
	CHECK(driver->cuMemFree_v2(elsewhere) == CU_OK);
	OK(gpushare_close(session));
}

STAGE_MAIN(SCENE(go_there_and_back), SCENE(mix_mirrors), SCENE(refuse_mirrors, NULL, logged_begin),
	   SCENE(fail_mirrors, NULL, logged_begin), SCENE(use_again, NULL, logged_begin),
	   SCENE(end_with_scope))
