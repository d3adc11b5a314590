/* SPDX-License-Identifier: MIT */
/* Unified buffers used by many threads, and records with hostile addresses. */
#include "unit.h"

#include "api/api_session.h"
#include "api/api_unified.h"
#include "descriptors.h"
#include "stage.h"

#define SIZE ((size_t)3 << 20)
#define THREADS 6
#define ROUNDS 60

static const struct gpushare_alloc_options unified = {.device = -1, .flags = GPUSHARE_FLAG_UNIFIED};
static const struct gpushare_attach_options waiting = {.wait_ms = 20000};

static void owner(void)
{
	struct gpushare_session *session = part_session();
	struct gpushare_buffer *buffer;

	OK(gpushare_alloc_with(session, "one", SIZE, &unified, &buffer));
	memset((void *)(uintptr_t)gpushare_pointer(buffer), 7, SIZE);
	say();
	hear();
	OK(gpushare_close(session));
}

/* Attach in a session of the thread and in one that all threads share. */
static void *come_and_go(void *shared)
{
	struct gpushare_session *sessions[] = {part_session(), shared};
	struct gpushare_buffer *buffers[2];
	struct gpushare_map *map;

	for (int round = 0; round < ROUNDS; round++) {
		for (int i = 0; i < 2; i++)
			OK(gpushare_attach(sessions[i], "one", &waiting, &buffers[i]));
		CHECK(gpushare_pointer(buffers[0]) == gpushare_pointer(buffers[1]));
		OK(gpushare_detach(buffers[round % 2]));
		OK(gpushare_map(buffers[1 - round % 2], 5, 9, GPUSHARE_READ, &map));
		OK(gpushare_detach(buffers[1 - round % 2]));
		CHECK(*(volatile char *)gpushare_map_data(map) == 7);
		OK(gpushare_unmap(map));
	}
	OK(gpushare_close(sessions[0]));
	return NULL;
}

static void many_threads(void)
{
	struct gpushare_session *session;
	pthread_t threads[THREADS];
	struct gpushare_buffer *buffer;
	uint64_t pointer;
	int before;

	hear();
	session = part_session();
	OK(gpushare_attach(session, "one", &waiting, &buffer)); /* opens the driver */
	pointer = gpushare_pointer(buffer);
	OK(gpushare_detach(buffer));
	before = descriptors_open();
	for (int i = 0; i < THREADS; i++)
		CHECK(!pthread_create(&threads[i], NULL, come_and_go, session));
	for (int i = 0; i < THREADS; i++)
		CHECK(!pthread_join(threads[i], NULL));
	CHECK(descriptors_open() == before);
	CHECK(mmap((void *)(uintptr_t)pointer, SIZE, PROT_NONE,
		   MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1,
		   0) == (void *)(uintptr_t)pointer); /* the range is free again */
	OK(gpushare_close(session));
	say();
}

static void many_threads_on_a_file(void)
{
	setenv("GPUSHARE_SIM_HOST_NUMA", "0", 1);
	many_threads();
}

static void owner_of_a_file(void)
{
	setenv("GPUSHARE_SIM_HOST_NUMA", "0", 1);
	owner();
}

/* False records from an owner must not harm a process that attaches the buffer. */
static void lie(struct gpushare_session *session, const char *name, uint64_t address,
		uint64_t base_size)
{
	request ask = {.which_verb = gpushare_Request_share_tag};
	record *what = &ask.verb.share.buffer;
	gpushare_ShareReply answer;
	unsigned int readings;
	int fd = memfd_create("lie", MFD_CLOEXEC | MFD_ALLOW_SEALING);

	CHECK(fd >= 0 && !ftruncate(fd, SIZE));
	ask.verb.share.has_buffer = true;
	strcpy(what->name, name);
	what->size = 1000;
	what->base_size = base_size;
	what->backing = GPUSHARE_BACKING_HOST;
	what->address = address;
	CHECK(part_driver()->cuDeviceGetUuid_v2((cu_uuid *)what->device_uuid, 0) == CU_OK);
	OK(session_ask_passing(session, &ask, gpushare_Reply_share_tag, &answer, sizeof(answer),
			       &readings, fd, NULL));
	close(fd);
}

static void liar(void)
{
	struct gpushare_session *session = part_session();

	lie(session, "nowhere", 0, SIZE);
	lie(session, "loose", UINT64_C(0x3a0000000000), SIZE);
	lie(session, "huge", UINT64_C(0x3a0000000000), UINT64_C(1) << 50);
	lie(session, "far", UINT64_C(0xffffffffffff0000), SIZE);
	say();
	hear();
	OK(gpushare_close(session));
}

static void believer(void)
{
	static const struct gpushare_attach_options alone = {.host_only = 1};
	struct gpushare_session *session;
	struct gpushare_buffer *buffer;
	int before;

	hear();
	session = part_session();
	OK(gpushare_alloc_with(session, "own", SIZE, &unified, &buffer));
	before = descriptors_open();
	FAILS(E_PROTOCOL, "gave no address", gpushare_attach(session, "nowhere", NULL, &buffer));
	FAILS(E_CUDA, "cuMemImport", gpushare_attach(session, "loose", NULL, &buffer));
	FAILS(E_CUDA, "cuMemImport", gpushare_attach(session, "huge", NULL, &buffer));
	FAILS(E_CUDA, "cuMemImport", gpushare_attach(session, "far", NULL, &buffer));
	FAILS(E_NOT_SUPPORTED, "host_only", gpushare_attach(session, "loose", &alone, &buffer));
	FAILS(E_NOT_SUPPORTED, "host_only", gpushare_attach(session, "huge", &alone, &buffer));
	CHECK(descriptors_open() == before);
	OK(gpushare_close(session));
	say();
}

/* After a restart the buffer has a new generation; its mapping is found only under that one. */
static void renamer(void)
{
	struct gpushare_session *session;
	struct gpushare_buffer *buffer;
	struct vmm_mapping mapping;
	uint64_t base, generation;

	hear();
	session = part_session();
	OK(gpushare_alloc_with(session, "anew", SIZE, &unified, &buffer));
	base = gpushare_pointer(buffer);
	generation = buffer->info.generation;
	unified_rename(base, generation + 1, generation + 2);
	CHECK(unified_has(base, generation));
	unified_rename(base, generation, generation + 3);
	CHECK(!unified_has(base, generation) && !unified_use(base, generation, &mapping));
	CHECK(unified_use(base, generation + 3, &mapping) && mapping.pointer == base);
	OK(gpushare_free(buffer));
	CHECK(unified_has(base, generation + 3)); /* from unified_use() above */
	OK(unified_drop(base));
	CHECK(!unified_has(base, generation + 3));
	OK(gpushare_close(session));
	say();
}

static void nobody(void)
{
	say();
	hear();
}

STAGE_MAIN(SCENE(owner, many_threads), SCENE(owner_of_a_file, many_threads_on_a_file),
	   SCENE(liar, believer), SCENE(nobody, renamer))
