/* SPDX-License-Identifier: MIT */
/* Mirrors are pinned copies of named buffers. The tests copy in both directions, fail each step,
 * and end contexts, buffers and sessions under open mirrors. */
#include "unit.h"

#include "filled.h"

#define SIZE ((size_t)100000)
#define BOTH (GPUSHARE_READ | GPUSHARE_WRITE)

static struct gpushare_mirror *const UNTOUCHED = (struct gpushare_mirror *)(uintptr_t)16;

/* Any offset and length: the mirrored bytes change and the bytes beside them don't. */
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

/* A mirror shows the buffer as of its opening. Of several written back, the last one wins. */
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
	/* a mirror opened for reading is never written back */
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
	/* an empty mirror is allowed up to the buffer's end and needs no pinned memory */
	OK(gpushare_mirror_open(buffer, SIZE, 0, BOTH, &mirror));
	CHECK(gpushare_mirror_data(mirror) && !gpushare_mirror_size(mirror));
	OK(gpushare_mirror_sync(mirror));
	OK(gpushare_mirror_close(mirror));
	CHECK(logged("cuMemHostAlloc") == 0);
	/* the buffer and its attachment in the same process mirror the same bytes */
	OK(gpushare_attach(session, "x", &any, &other));
	OK(gpushare_mirror_open(other, 5, 1, GPUSHARE_WRITE, &mirror));
	*(char *)gpushare_mirror_data(mirror) = '!';
	OK(gpushare_mirror_close(mirror));
	OK(gpushare_mirror_open(buffer, 5, 1, GPUSHARE_READ, &mirror));
	CHECK(*(char *)gpushare_mirror_data(mirror) == '!');
	OK(gpushare_mirror_close(mirror));
	OK(gpushare_close(session));
}

/* Each driver call fails once. The error names the call, and the mirror keeps its bytes. */
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

/* Pinned memory is reused. There is never more of it than mirrors were open at once. */
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

/* Leaving the scope drops the mirror; only the sync writes back, and later GPU work sees it. */
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

/* The memory belongs to a context that the program made and destroys under an open mirror. */
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
	/* also without a current context */
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
	/* the other process detached x, but its mirror still counts as an attachment */
	CHECK(part_attachers(session, "x") == 1);
	say();
	hear();
	CHECK(part_attachers(session, "x") == 0);
	part_holds(x, 0, SIZE, 11);
	/* y is freed here under an open mirror: the name is withdrawn at once, the memory freed
	 * later */
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
	/* while the mirror holds the buffer, attaching returns the same pointer and detaching
	 * keeps it */
	OK(gpushare_attach(session, "x", NULL, &again));
	CHECK(gpushare_pointer(again) == pointer);
	OK(gpushare_mirror_open(again, 0, 10, BOTH, &second));
	OK(gpushare_mirror_close(mirror));
	OK(gpushare_detach(again));
	OK(gpushare_attach(session, "x", NULL, &again));
	OK(gpushare_mirror_open(again, 0, SIZE, GPUSHARE_WRITE, &mirror));
	OK(gpushare_mirror_close(second));
	memcpy(gpushare_mirror_data(mirror), bytes, SIZE);
	CHECK(part_attachers(session, "x") == 2);
	OK(gpushare_detach(again));
	OK(gpushare_mirror_sync(mirror));
	say();
	hear();
	OK(gpushare_mirror_close(mirror));
	say();
	free(bytes);
	OK(gpushare_close(session));
}

/* Closing the session drops its open mirrors without writing them back. */
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
	CHECK(part_attachers(session, "x") == 0);
	CHECK(logged("cuMemHostAlloc 0") == 2 && logged("cuMemFreeHost 0") == 2);
	OK(gpushare_mirror_open(x, 0, SIZE, BOTH, &mirror));
	OK(gpushare_free(x));
	OK(gpushare_close(session));
	CHECK(logged("cuMemFree_v2 0") == 1);
}

/* The program frees the shared memory itself under an open mirror. */
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

/* Each thread uses its own bytes of the buffer. Attaches, mirrors and detaches overlap. */
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
	CHECK(part_attachers(shared, "x") == 0);
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

STAGE_MAIN(SCENE(go_there_and_back), SCENE(mix_mirrors), SCENE(refuse_mirrors, NULL, logged_begin),
	   SCENE(fail_mirrors, NULL, logged_begin), SCENE(use_again, NULL, logged_begin),
	   SCENE(end_with_scope), SCENE(lose_context), SCENE(own_two, hold_by_mirror, logged_begin),
	   SCENE(close_over_mirrors, NULL, logged_begin), SCENE(free_under_mirror),
	   SCENE(own_one, run_threads))
