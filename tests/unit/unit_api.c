/* SPDX-License-Identifier: MIT */
/* The API between two processes: names, sharing, attaching, looking up. */
#include "unit.h"

#include <stdio.h>
#include <unistd.h>

#include "stage.h"

#define SIZE 100000

static struct gpushare_buffer *const UNTOUCHED = (struct gpushare_buffer *)(uintptr_t)16;

/* Share a pattern, keep it until the other part has said so. */
static void keep_weights(void)
{
	struct gpushare_session *session = part_session();
	struct gpushare_buffer *buffer;
	unsigned char *bytes = part_pattern(SIZE, 1);

	OK(gpushare_alloc(session, "weights", -1, SIZE, &buffer));
	OK(gpushare_copy_to(buffer, 0, bytes, SIZE));
	free(bytes);
	say();
	hear();
	/* What the other part has written is here. */
	part_holds(buffer, 0, SIZE, 2);
	OK(gpushare_free(buffer));
	OK(gpushare_close(session));
}

static void change_weights(void)
{
	struct gpushare_session *session = part_session();
	struct gpushare_buffer *buffer, *again;
	struct gpushare_info info, seen;
	unsigned char *bytes = part_pattern(SIZE, 2);

	hear();
	OK(gpushare_attach(session, "weights", NULL, &buffer));
	CHECK(gpushare_size(buffer) == SIZE);
	CHECK(gpushare_device(buffer) == 0);
	CHECK(gpushare_pointer(buffer) != 0);
	part_holds(buffer, 0, SIZE, 1);
	OK(gpushare_attach(session, "weights", NULL, &again));
	CHECK(again == buffer);
	OK(gpushare_buffer_info(buffer, &info));
	CHECK(!strcmp(info.name, "weights"));
	CHECK(info.owner_uid == getuid() && info.owner_pid > 0 && info.owner_pid != getpid());
	CHECK(!strncmp(info.owner_command, "unit_api", 8));
	CHECK(info.backing == GPUSHARE_BACKING_IPC && info.base_size >= SIZE);
	OK(gpushare_stat(session, "weights", &seen));
	CHECK(seen.generation == info.generation && seen.attachers >= 1);
	OK(gpushare_detach(again));
	part_holds(buffer, 0, SIZE, 1);
	OK(gpushare_copy_to(buffer, 0, bytes, SIZE));
	FAILS(E_INVALID, "gpushare_detach", gpushare_free(buffer));
	OK(gpushare_detach(buffer));
	OK(gpushare_stat(session, "weights", &seen));
	CHECK(seen.attachers == 0);
	free(bytes);
	say();
	OK(gpushare_close(session));
}

/* Two names within one allocation, one of them in the middle. */
static void share_parts(void)
{
	const struct driver *driver = part_driver();
	struct gpushare_session *session = part_session();
	struct gpushare_buffer *whole, *middle, *buffer = UNTOUCHED;
	struct gpushare_info info;
	unsigned char *bytes = part_pattern(SIZE, 3);
	cu_deviceptr pointer;
	cu_context before, after;

	CHECK(driver->cuMemAlloc_v2(&pointer, SIZE) == CU_OK);
	CHECK(driver->cuMemcpyHtoD_v2(pointer, bytes, SIZE) == CU_OK);
	CHECK(driver->cuCtxGetCurrent(&before) == CU_OK);
	OK(gpushare_share(session, "whole", pointer, SIZE, &whole));
	OK(gpushare_share(session, "middle", pointer + 1001, 5000, &middle));
	CHECK(driver->cuCtxGetCurrent(&after) == CU_OK && before == after);
	OK(gpushare_buffer_info(middle, &info));
	CHECK(info.base_offset == 1001 && info.size == 5000);
	CHECK(gpushare_pointer(middle) == pointer + 1001);
	FAILS(E_RANGE, "100001", gpushare_share(session, "x", pointer, SIZE + 1, &buffer));
	FAILS(E_RANGE, "1001", gpushare_share(session, "x", pointer + 1001, SIZE, &buffer));
	FAILS(E_RANGE, "1001", gpushare_share(session, "x", pointer + 1001, SIZE_MAX, &buffer));
	FAILS(E_INVALID, "gpushare_free", gpushare_detach(whole));
	CHECK(buffer == UNTOUCHED);
	say();
	hear();
	OK(gpushare_free(middle));
	OK(gpushare_free(whole));
	CHECK(driver->cuMemFree_v2(pointer) == CU_OK);
	OK(gpushare_close(session));
	free(bytes);
}

static void attach_parts(void)
{
	struct gpushare_session *session = part_session();
	struct gpushare_buffer *whole, *middle, *buffer = UNTOUCHED;
	unsigned char found[5000], *bytes = part_pattern(SIZE, 3);

	hear();
	OK(gpushare_attach(session, "whole", NULL, &whole));
	OK(gpushare_attach(session, "middle", NULL, &middle));
	CHECK(gpushare_pointer(middle) == gpushare_pointer(whole) + 1001);
	OK(gpushare_copy_from(middle, 0, found, sizeof(found)));
	CHECK(!memcmp(found, bytes + 1001, sizeof(found)));
	/* Memory of another process has its name there. */
	FAILS(E_NOT_SHAREABLE, "share it there",
	      gpushare_share(session, "mine", gpushare_pointer(whole), 10, &buffer));
	OK(gpushare_detach(whole));
	OK(gpushare_copy_from(middle, 0, found, sizeof(found)));
	CHECK(!memcmp(found, bytes + 1001, sizeof(found)));
	OK(gpushare_detach(middle));
	say();
	OK(gpushare_close(session));
	free(bytes);
}

static void attach_own(void)
{
	struct gpushare_session *owner = part_session(), *session = part_session();
	struct gpushare_buffer *shared, *buffer, *again;

	OK(gpushare_alloc(owner, "own", 0, SIZE, &shared));
	OK(gpushare_attach(owner, "own", NULL, &buffer));
	CHECK(buffer != shared && gpushare_pointer(buffer) == gpushare_pointer(shared));
	OK(gpushare_attach(session, "own", NULL, &again));
	CHECK(gpushare_pointer(again) == gpushare_pointer(shared));
	OK(gpushare_detach(again));
	OK(gpushare_detach(buffer));
	OK(gpushare_close(session));
	/* The rest goes with the session. */
	OK(gpushare_attach(owner, "own", NULL, &buffer));
	OK(gpushare_close(owner));
}

static void give_bad_names(void)
{
	static const char *const names[] = {"", "my weights", "a:b", "caf\xc3\xa9", "tab\t"};
	struct gpushare_session *session = part_session();
	struct gpushare_buffer *buffer = UNTOUCHED;
	struct gpushare_info info;
	char name[GPUSHARE_NAME_MAX + 2];

	for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++) {
		FAILS(E_NAME, *names[i] ? "A-Z a-z 0-9" : "at least one byte",
		      gpushare_share(session, names[i], 4096, 1, &buffer));
		FAILS(E_NAME, names[i], gpushare_attach(session, names[i], NULL, &buffer));
		FAILS(E_NAME, "", gpushare_alloc(session, names[i], 0, 1, &buffer));
		FAILS(E_NAME, "", gpushare_unlink(session, names[i]));
		FAILS(E_NAME, "", gpushare_stat(session, names[i], &info));
	}
	memset(name, 'n', sizeof(name) - 1);
	name[sizeof(name) - 1] = '\0';
	FAILS(E_NAME, "255", gpushare_alloc(session, name, 0, 1, &buffer));
	FAILS(E_NAME, "NULL", gpushare_attach(session, NULL, NULL, &buffer));
	CHECK(buffer == UNTOUCHED);
	name[GPUSHARE_NAME_MAX] = '\0';
	OK(gpushare_alloc(session, name, 0, 1, &buffer));
	OK(gpushare_stat(session, name, &info));
	CHECK(!strcmp(info.name, name));
	OK(gpushare_close(session));
}

static void give_nothing(void)
{
	struct gpushare_session *session = part_session();
	struct gpushare_buffer *buffer = UNTOUCHED;
	struct gpushare_info info;
	char byte;

	FAILS(E_INVALID, "out_session", gpushare_open(NULL, NULL));
	FAILS(E_INVALID, "gpushare_open", gpushare_share(NULL, "x", 4096, 1, &buffer));
	FAILS(E_INVALID, "is 0", gpushare_share(session, "x", 4096, 0, &buffer));
	FAILS(E_INVALID, "NULL", gpushare_share(session, "x", 0, 1, &buffer));
	FAILS(E_INVALID, "out_buffer", gpushare_share(session, "x", 4096, 1, NULL));
	FAILS(E_INVALID, "is 0", gpushare_alloc(session, "x", 0, 0, &buffer));
	FAILS(E_INVALID, "1 GPU", gpushare_alloc(session, "x", 1, 1, &buffer));
	FAILS(E_INVALID, "device -2", gpushare_alloc(session, "x", -2, 1, &buffer));
	FAILS(E_INVALID, "out_buffer", gpushare_attach(session, "x", NULL, NULL));
	FAILS(E_INVALID, "out_info", gpushare_stat(session, "x", NULL));
	FAILS(E_INVALID, "visit", gpushare_list(session, NULL, NULL, NULL));
	FAILS(E_INVALID, "buffer", gpushare_buffer_info(NULL, &info));
	FAILS(E_INVALID, "buffer", gpushare_copy_from(NULL, 0, &byte, 1));
	CHECK(buffer == UNTOUCHED);
	OK(gpushare_detach(NULL));
	OK(gpushare_free(NULL));
	OK(gpushare_close(NULL));
	CHECK(gpushare_pointer(NULL) == 0 && gpushare_size(NULL) == 0 &&
	      gpushare_device(NULL) == -1);
	CHECK(!strcmp(gpushare_version(), GPUSHARE_VERSION));
	CHECK(!strcmp(gpushare_status_text(GPUSHARE_E_EXISTS), "the name is taken"));
	CHECK(*gpushare_status_text(12345));
	OK(gpushare_close(session));
}

static void share_the_unshareable(void)
{
	const struct driver *driver = part_driver();
	struct gpushare_session *session = part_session();
	struct gpushare_buffer *buffer = UNTOUCHED;
	cu_deviceptr managed, ordered;
	void *pinned;
	char local;

	CHECK(driver->cuMemAllocManaged(&managed, SIZE, CU_MANAGED_GLOBAL) == CU_OK);
	CHECK(driver->cuMemAllocAsync(&ordered, SIZE, NULL) == CU_OK);
	CHECK(driver->cuMemHostAlloc(&pinned, SIZE, 0) == CU_OK);
	FAILS(E_NOT_SHAREABLE, "managed", gpushare_share(session, "x", managed, 10, &buffer));
	FAILS(E_NOT_SHAREABLE, "cudaMalloc", gpushare_share(session, "x", ordered, 10, &buffer));
	FAILS(E_NOT_SHAREABLE, "host memory",
	      gpushare_share(session, "x", (uintptr_t)pinned, 10, &buffer));
	FAILS(E_NOT_SHAREABLE, "no address that CUDA knows",
	      gpushare_share(session, "x", (uintptr_t)&local, 1, &buffer));
	CHECK(buffer == UNTOUCHED);
	OK(gpushare_close(session));
}

static void take_a_name(void)
{
	struct gpushare_session *session = part_session();
	struct gpushare_buffer *buffer;
	unsigned char *bytes = part_pattern(SIZE, 4);

	OK(gpushare_alloc(session, "weights/layer.0", 0, SIZE, &buffer));
	OK(gpushare_copy_to(buffer, 0, bytes, SIZE));
	free(bytes);
	say();
	hear();
	/* Unlinked by the other part: the memory stays, and freeing goes on as if nothing was. */
	part_holds(buffer, 0, SIZE, 4);
	FAILS(E_NOT_FOUND, "", gpushare_unlink(session, "weights/layer.0"));
	OK(gpushare_free(buffer));
	OK(gpushare_close(session));
}

static void want_that_name(void)
{
	struct gpushare_session *session = part_session();
	struct gpushare_buffer *buffer = UNTOUCHED, *attached;
	struct gpushare_info info;

	hear();
	FAILS(E_EXISTS, "unit_api", gpushare_alloc(session, "weights/layer.0", 0, 10, &buffer));
	FAILS(E_EXISTS, "weights/layer.0",
	      gpushare_alloc(session, "weights/layer.0", 0, 10, &buffer));
	FAILS(E_NOT_FOUND, "weights/layer.1",
	      gpushare_attach(session, "weights/layer.1", NULL, &buffer));
	FAILS(E_NOT_FOUND, "weihgts/layer.0", gpushare_stat(session, "weihgts/layer.0", &info));
	CHECK(buffer == UNTOUCHED);
	OK(gpushare_attach(session, "weights/layer.0", NULL, &attached));
	OK(gpushare_unlink(session, "weights/layer.0"));
	FAILS(E_NOT_FOUND, "unlinked", gpushare_stat(session, "weights/layer.0", &info));
	part_holds(attached, 0, SIZE, 4);
	OK(gpushare_alloc(session, "weights/layer.0", 0, 10, &buffer));
	OK(gpushare_detach(attached));
	OK(gpushare_free(buffer));
	say();
	OK(gpushare_close(session));
}

struct seen {
	char names[64][GPUSHARE_NAME_MAX + 1];
	int count, stop_at;
	struct gpushare_session *session;
};

static int see(const struct gpushare_info *info, void *user)
{
	struct seen *seen = user;
	struct gpushare_info again;

	strcpy(seen->names[seen->count++], info->name);
	/* The session is free for other calls meanwhile. */
	OK(gpushare_stat(seen->session, info->name, &again));
	CHECK(again.generation == info->generation);
	return seen->count == seen->stop_at;
}

static void list_names(void)
{
	struct gpushare_session *session = part_session();
	static struct seen seen;
	struct gpushare_buffer *buffers[40];
	char name[32], glob[GPUSHARE_NAME_MAX + 2];

	for (int i = 0; i < 40; i++) {
		snprintf(name, sizeof(name), "%s/%02d", i % 2 ? "odd" : "even", i);
		OK(gpushare_alloc(session, name, 0, 512, &buffers[i]));
	}
	seen.session = session;
	OK(gpushare_list(session, NULL, see, &seen));
	CHECK(seen.count == 40);
	for (int i = 1; i < seen.count; i++)
		CHECK(strcmp(seen.names[i - 1], seen.names[i]) < 0);
	seen.count = 0;
	OK(gpushare_list(session, "o*3", see, &seen));
	CHECK(seen.count == 4 && !strcmp(seen.names[0], "odd/03") &&
	      !strcmp(seen.names[3], "odd/33"));
	seen.count = 0;
	OK(gpushare_list(session, "none*", see, &seen));
	CHECK(seen.count == 0);
	seen.stop_at = 3;
	FAILS(E_CANCELLED, "even/04", gpushare_list(session, "even/*", see, &seen));
	CHECK(seen.count == 3);
	memset(glob, '*', sizeof(glob) - 1);
	glob[sizeof(glob) - 1] = '\0';
	FAILS(E_INVALID, "256", gpushare_list(session, glob, see, &seen));
	OK(gpushare_close(session));
}

STAGE_MAIN(SCENE(keep_weights, change_weights), SCENE(share_parts, attach_parts), SCENE(attach_own),
	   SCENE(give_bad_names), SCENE(give_nothing), SCENE(share_the_unshareable),
	   SCENE(take_a_name, want_that_name), SCENE(list_names))
