/* SPDX-License-Identifier: MIT */
/* Mirrors over the ends of things: contexts, buffers, sessions, forked children. */
#include "unit.h"

#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

#include "filled.h"

#define SIZE ((size_t)100000)
#define BOTH (GPUSHARE_READ | GPUSHARE_WRITE)

/* Memory of a context that the program made, and that is destroyed under an open mirror. */
static void lose_context(void)
{
	struct gpushare_session *session = part_session();
	const struct driver *driver = part_driver();
	struct gpushare_buffer *buffer;
	struct gpushare_mirror *mirror, *empty;
	unsigned char *bytes = part_pattern(SIZE, 6);
	cu_context primary, own, current;
	cu_deviceptr pointer;

	CHECK(driver->cuCtxGetCurrent(&primary) == CU_OK && primary);
	CHECK(driver->cuCtxCreate_v2(&own, 0, 0) == CU_OK);
	CHECK(driver->cuMemAlloc_v2(&pointer, SIZE) == CU_OK);
	CHECK(driver->cuMemcpyHtoD_v2(pointer, bytes, SIZE) == CU_OK);
	OK(gpushare_share(session, "x", pointer, SIZE, &buffer));
	CHECK(driver->cuCtxSetCurrent(primary) == CU_OK);
	OK(gpushare_mirror_open(buffer, 0, SIZE, BOTH, &mirror));
	CHECK(driver->cuCtxGetCurrent(&current) == CU_OK && current == primary);
	/* nothing current is as good */
	CHECK(driver->cuCtxPopCurrent_v2(&current) == CU_OK);
	CHECK(driver->cuCtxPopCurrent_v2(&current) == CU_OK);
	OK(gpushare_mirror_sync(mirror));
	CHECK(driver->cuCtxGetCurrent(&current) == CU_OK && !current);
	CHECK(driver->cuCtxDestroy_v2(own) == CU_OK);
	FAILS(E_CUDA, "the mirror is still open", gpushare_mirror_close(mirror));
	CHECK(!memcmp(gpushare_mirror_data(mirror), bytes, SIZE));
	FAILS(E_CUDA, "context", gpushare_mirror_open(buffer, 0, 1, GPUSHARE_READ, &empty));
	gpushare_mirror_drop(mirror);
	free(bytes);
	OK(gpushare_free(buffer));
	OK(gpushare_close(session));
}

static uint32_t attachers(struct gpushare_session *session, const char *name)
{
	struct gpushare_info info;

	OK(gpushare_stat(session, name, &info));
	return info.attachers;
}

static void own_two(void)
{
	struct gpushare_session *session = part_session();
	struct gpushare_buffer *x = part_filled(session, "x", SIZE, 9),
			       *y = part_filled(session, "y", SIZE, 10);
	struct gpushare_mirror *mirror;
	struct gpushare_info info;
	unsigned char *bytes = part_pattern(SIZE, 11);

	say();
	hear();
	/* x was detached there and is held by a mirror alone: it counts until that has gone */
	CHECK(attachers(session, "x") == 1);
	say();
	hear();
	CHECK(attachers(session, "x") == 0);
	part_holds(x, 0, SIZE, 11);
	/* y is freed here while a mirror of it is open: the name goes, the memory waits */
	OK(gpushare_mirror_open(y, 0, SIZE, BOTH, &mirror));
	OK(gpushare_free(y));
	FAILS(E_NOT_FOUND, "y", gpushare_stat(session, "y", &info));
	CHECK(logged("cuMemFree_v2") == 0);
	memcpy(gpushare_mirror_data(mirror), bytes, SIZE);
	OK(gpushare_mirror_close(mirror));
	CHECK(logged("cuMemFree_v2 0") == 1);
	free(bytes);
	OK(gpushare_close(session));
}

static void hold_by_mirror(void)
{
	struct gpushare_session *session;
	struct gpushare_buffer *buffer, *again;
	struct gpushare_mirror *mirror, *second;
	unsigned char *bytes = part_pattern(SIZE, 11);
	uint64_t pointer;

	hear();
	session = part_session();
	OK(gpushare_attach(session, "x", NULL, &buffer));
	pointer = gpushare_pointer(buffer);
	OK(gpushare_mirror_open(buffer, 0, SIZE, BOTH, &mirror));
	OK(gpushare_detach(buffer));
	/* as long as it is held, attaching gives the same, and detaching that changes nothing */
	OK(gpushare_attach(session, "x", NULL, &again));
	CHECK(gpushare_pointer(again) == pointer);
	OK(gpushare_mirror_open(again, 0, 10, BOTH, &second));
	OK(gpushare_mirror_close(mirror));
	OK(gpushare_detach(again));
	OK(gpushare_attach(session, "x", NULL, &again));
	OK(gpushare_mirror_open(again, 0, SIZE, GPUSHARE_WRITE, &mirror));
	OK(gpushare_mirror_close(second));
	memcpy(gpushare_mirror_data(mirror), bytes, SIZE);
	CHECK(attachers(session, "x") == 2);
	OK(gpushare_detach(again));
	OK(gpushare_mirror_sync(mirror));
	say();
	hear();
	OK(gpushare_mirror_close(mirror));
	say();
	free(bytes);
	OK(gpushare_close(session));
}

/* Mirrors that are open when their session is closed write nothing back and leave nothing. */
static void close_over_mirrors(void)
{
	struct gpushare_session *session = part_session(), *other = part_session();
	struct gpushare_buffer *x = part_filled(session, "x", SIZE, 12), *there;
	struct gpushare_mirror *mirror, *held;

	OK(gpushare_attach(other, "x", NULL, &there));
	OK(gpushare_mirror_open(there, 0, SIZE, BOTH, &mirror));
	OK(gpushare_mirror_open(there, 1, 5, BOTH, &held));
	memset(gpushare_mirror_data(mirror), 'z', SIZE);
	OK(gpushare_detach(there));
	OK(gpushare_close(other));
	part_holds(x, 0, SIZE, 12);
	CHECK(attachers(session, "x") == 0);
	CHECK(logged("cuMemHostAlloc 0") == 2 && logged("cuMemFreeHost 0") == 2);
	OK(gpushare_mirror_open(x, 0, SIZE, BOTH, &mirror));
	OK(gpushare_free(x));
	OK(gpushare_close(session));
	CHECK(logged("cuMemFree_v2 0") == 1);
}

/* The program frees what it has named, under an open mirror. */
static void free_under_mirror(void)
{
	struct gpushare_session *session = part_session();
	const struct driver *driver = part_driver();
	struct gpushare_buffer *buffer;
	struct gpushare_mirror *mirror;
	unsigned char *bytes = part_pattern(SIZE, 14);
	cu_deviceptr pointer;

	CHECK(driver->cuMemAlloc_v2(&pointer, SIZE) == CU_OK);
	CHECK(driver->cuMemcpyHtoD_v2(pointer, bytes, SIZE) == CU_OK);
	OK(gpushare_share(session, "x", pointer, SIZE, &buffer));
	OK(gpushare_mirror_open(buffer, 0, SIZE, BOTH, &mirror));
	CHECK(driver->cuMemFree_v2(pointer) == CU_OK);
	FAILS(E_CUDA, "the mirror is still open", gpushare_mirror_close(mirror));
	CHECK(!memcmp(gpushare_mirror_data(mirror), bytes, SIZE));
	gpushare_mirror_drop(mirror);
	free(bytes);
	OK(gpushare_close(session));
}

#define THREADS 4

static struct gpushare_session *shared;

/* Each has its own bytes of the buffer; attaching, mirroring and detaching go on beside each other. */
static void *use_mirrors(void *argument)
{
	size_t number = (size_t)(uintptr_t)argument, part = SIZE / THREADS;

	for (unsigned int round = 0; round < 100; round++) {
		struct gpushare_buffer *buffer;
		struct gpushare_mirror *mirror;
		size_t length = part - round;

		OK(gpushare_attach(shared, "x", NULL, &buffer));
		OK(gpushare_mirror_open(buffer, number * part, length, GPUSHARE_WRITE, &mirror));
		OK(gpushare_detach(buffer));
		memset(gpushare_mirror_data(mirror), (int)(round + number), length);
		OK(gpushare_mirror_close(mirror));
	}
	return NULL;
}

static void run_threads(void)
{
	pthread_t threads[THREADS];
	unsigned char found[SIZE];
	struct gpushare_buffer *buffer;

	hear();
	shared = part_session();
	for (size_t i = 0; i < THREADS; i++)
		CHECK(!pthread_create(&threads[i], NULL, use_mirrors, (void *)(uintptr_t)i));
	for (size_t i = 0; i < THREADS; i++)
		CHECK(!pthread_join(threads[i], NULL));
	CHECK(attachers(shared, "x") == 0);
	OK(gpushare_attach(shared, "x", NULL, &buffer));
	OK(gpushare_copy_from(buffer, 0, found, SIZE));
	for (size_t i = 0; i < SIZE; i++) {
		size_t number = i / (SIZE / THREADS), at = i % (SIZE / THREADS);
		size_t last = SIZE / THREADS - 1 - at; /* the last round that reached it */

		CHECK(found[i] == (unsigned char)(number + (last < 99 ? last : 99)));
	}
	say();
	OK(gpushare_close(shared));
}

static void own_one(void)
{
	struct gpushare_session *session = part_session();

	part_filled(session, "x", SIZE, 15);
	say();
	hear();
	OK(gpushare_close(session));
}

STAGE_MAIN(SCENE(lose_context), SCENE(own_two, hold_by_mirror, logged_begin),
	   SCENE(close_over_mirrors, NULL, logged_begin), SCENE(free_under_mirror),
	   SCENE(own_one, run_threads))
