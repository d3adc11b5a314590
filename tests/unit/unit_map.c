/* SPDX-License-Identifier: MIT */
/* Maps with many threads, with signals, and their argument checks. */
#include "unit.h"

#include "descriptors.h"
#include "stage.h"

#define SIZE ((size_t)3 << 20)
#define THREADS 8
#define ROUNDS 100

static const struct gpushare_attach_options without_cuda = {.host_only = 1, .wait_ms = 20000};

static void owner(void)
{
	const struct gpushare_alloc_options options = {.device = -1, .flags = GPUSHARE_FLAG_VMM};
	struct gpushare_session *session = part_session();
	struct gpushare_buffer *one, *other;

	OK(gpushare_alloc_with(session, "one", SIZE, &options, &one));
	OK(gpushare_alloc_with(session, "other", SIZE, &options, &other));
	say();
	hear();
	OK(gpushare_close(session));
}

struct worker {
	pthread_t thread;
	struct gpushare_buffer *buffers[2];
	pthread_barrier_t *first; /* makes the first copies coincide */
	unsigned char mark;
};

/* Each thread uses its own byte in both buffers. */
static void *work(void *user)
{
	struct worker *worker = user;
	struct gpushare_map *map;

	for (int round = 0; round < ROUNDS; round++) {
		struct gpushare_buffer *buffer = worker->buffers[round % 2];
		volatile unsigned char *data;
		unsigned char byte = 0;

		OK(gpushare_map(buffer, worker->mark, 1, GPUSHARE_READ | GPUSHARE_WRITE, &map));
		data = gpushare_map_data(map);
		CHECK(*data == (round < 2 ? 0 : (unsigned char)(worker->mark + round - 2)));
		*data = (unsigned char)(worker->mark + round);
		OK(gpushare_map_flush(map, 0, 1));
		if (round < 2)
			pthread_barrier_wait(worker->first);
		OK(gpushare_copy_from(buffer, worker->mark, &byte, 1));
		CHECK(byte == (unsigned char)(worker->mark + round));
		OK(gpushare_unmap(map));
	}
	return NULL;
}

/* The first maps coincide, so all threads need Vulkan to start. */
static void many_threads(void)
{
	struct gpushare_session *session;
	struct worker workers[THREADS] = {0};
	struct gpushare_buffer *one, *other;
	pthread_barrier_t first;
	int before;

	hear();
	before = descriptors_open();
	session = part_session();
	OK(gpushare_attach(session, "one", &without_cuda, &one));
	OK(gpushare_attach(session, "other", &without_cuda, &other));
	pthread_barrier_init(&first, NULL, THREADS);
	for (int i = 0; i < THREADS; i++) {
		workers[i].first = &first;
		workers[i].buffers[0] = one;
		workers[i].buffers[1] = other;
		workers[i].mark = (unsigned char)(i + 1);
		CHECK(!pthread_create(&workers[i].thread, NULL, work, &workers[i]));
	}
	for (int i = 0; i < THREADS; i++)
		CHECK(!pthread_join(workers[i].thread, NULL));
	pthread_barrier_destroy(&first);
	OK(gpushare_close(session));
	CHECK(descriptors_open() == before);
	say();
}

/* The program's signal mask is unchanged, and its two sessions share one view. */
static void mapper(void)
{
	struct gpushare_session *first, *second;
	struct gpushare_buffer *here, *there;
	struct gpushare_map *map = NULL, *again = NULL;
	sigset_t before, after;

	hear();
	first = part_session();
	second = part_session();
	sigemptyset(&before);
	sigaddset(&before, SIGUSR1);
	CHECK(!pthread_sigmask(SIG_SETMASK, &before, NULL));
	OK(gpushare_attach(first, "one", &without_cuda, &here));
	OK(gpushare_attach(second, "one", &without_cuda, &there));
	CHECK(here != there && gpushare_size(here) == SIZE);
	OK(gpushare_map(here, 0, SIZE, GPUSHARE_WRITE, &map));
	pthread_sigmask(SIG_SETMASK, NULL, &after);
	CHECK(sigismember(&after, SIGUSR1) && !sigismember(&after, SIGTERM));
	OK(gpushare_map(there, 7, 1, GPUSHARE_READ, &again));
	CHECK((char *)gpushare_map_data(again) == (char *)gpushare_map_data(map) + 7);
	CHECK(gpushare_map_size(again) == 1);
	OK(gpushare_close(first));
	OK(gpushare_close(second));
	memset(gpushare_map_data(map), 9, SIZE);
	CHECK(*(char *)gpushare_map_data(again) == 9);
	OK(gpushare_unmap(map));
	CHECK(*(char *)gpushare_map_data(again) == 9);
	OK(gpushare_unmap(again));
	say();
}

/* NULL for a buffer or a map is refused, or does nothing. */
static void nothing(void)
{
	struct gpushare_map *map = NULL;
	struct gpushare_map_info info;

	FAILS(E_INVALID, "the buffer is NULL", gpushare_map(NULL, 0, 1, GPUSHARE_READ, &map));
	FAILS(E_INVALID, "the map is NULL", gpushare_map_flush(NULL, 0, 1));
	FAILS(E_INVALID, "the map is NULL", gpushare_map_invalidate(NULL, 0, 1));
	FAILS(E_INVALID, "the map is NULL", gpushare_map_info(NULL, &info));
	OK(gpushare_unmap(NULL));
	CHECK(!gpushare_map_data(NULL) && !gpushare_map_size(NULL) && !map);
}

static void asking(void)
{
	struct gpushare_session *session;
	struct gpushare_attach_options wrong = {.host_only = 1, .same_address = 1};
	struct gpushare_buffer *buffer;
	struct gpushare_mirror *mirror;
	struct gpushare_map *map;

	hear();
	session = part_session();
	FAILS(E_INVALID, "host_only", gpushare_attach(session, "one", &wrong, &buffer));
	OK(gpushare_attach(session, "one", &without_cuda, &buffer));
	FAILS(E_NOT_SUPPORTED, "gpushare_map()",
	      gpushare_mirror_open(buffer, 0, 1, GPUSHARE_READ, &mirror));
	FAILS(E_INVALID, "out_map", gpushare_map(buffer, 0, 1, GPUSHARE_READ, NULL));
	FAILS(E_INVALID, "GPUSHARE_WRITE or both", gpushare_map(buffer, 0, 1, 4, &map));
	FAILS(E_RANGE, "past the end", gpushare_map(buffer, SIZE_MAX, 2, GPUSHARE_READ, &map));
	OK(gpushare_map(buffer, 0, 1, GPUSHARE_READ, &map));
	FAILS(E_INVALID, "out_info", gpushare_map_info(map, NULL));
	FAILS(E_RANGE, "'one'", gpushare_map_flush(map, SIZE_MAX, 2));
	OK(gpushare_unmap(map));
	OK(gpushare_close(session));
	say();
}

STAGE_MAIN(SCENE(owner, many_threads), SCENE(owner, mapper), SCENE(nothing), SCENE(owner, asking))
