/* SPDX-License-Identifier: MIT */
/* Calls that the API refuses, with the words of its errors; a session whose registry has ended. */
#include "unit.h"

#include "protocol.h"
#include "stage.h"

#define SIZE 100000

static struct gpushare_buffer *const UNTOUCHED = (struct gpushare_buffer *)(uintptr_t)16;

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

/* A callback of gpushare_list() may make other calls of the session. */
static int ask_again(const struct gpushare_info *info, void *session)
{
	struct gpushare_info again;

	OK(gpushare_stat(session, info->name, &again));
	CHECK(again.generation == info->generation);
	return 1;
}

static void ask_within(void)
{
	struct gpushare_session *session = part_session();
	struct gpushare_buffer *buffer;
	char glob[GPUSHARE_NAME_MAX + 2];

	OK(gpushare_alloc(session, "even/04", 0, 512, &buffer));
	FAILS(E_CANCELLED, "even/04", gpushare_list(session, "even/*", ask_again, session));
	memset(glob, '*', sizeof(glob) - 1);
	glob[sizeof(glob) - 1] = '\0';
	FAILS(E_INVALID, "256", gpushare_list(session, glob, ask_again, session));
	OK(gpushare_close(session));
}

static int stop(const struct gpushare_holder *holder, void *user)
{
	return 1;
}

static void give_bad_tags(void)
{
	struct gpushare_tag tags[GPUSHARE_TAGS_MAX + 1] = {{"a", "1"}};
	struct gpushare_session *session = part_session();
	struct gpushare_buffer *buffer;
	size_t count = 99;

	OK(gpushare_alloc(session, "x", -1, 4096, &buffer));
	FAILS(E_NAME, "a b", gpushare_tag(session, "a b", tags, 1));
	FAILS(E_INVALID, "session is NULL", gpushare_tag(NULL, "x", tags, 1));
	FAILS(E_INVALID, "tags is NULL", gpushare_tag(session, "x", NULL, 1));
	OK(gpushare_tag(session, "x", NULL, 0));
	FAILS(E_LIMIT, "at most 4", gpushare_tag(session, "x", tags, GPUSHARE_TAGS_MAX + 1));
	FAILS(E_INVALID, "key of tag 2", gpushare_tag(session, "x", tags, 2));
	memset(tags[1].key, 'k', sizeof(tags[1].key)); /* no NUL */
	FAILS(E_INVALID, "tag 2 for 'x' is too long", gpushare_tag(session, "x", tags, 2));
	memset(tags[0].value, 'v', sizeof(tags[0].value));
	FAILS(E_INVALID, "too long", gpushare_tag(session, "x", tags, 1));
	FAILS(E_INVALID, "out_tags is NULL", gpushare_tags(buffer, NULL, &count));
	FAILS(E_INVALID, "out_count is NULL", gpushare_tags(buffer, tags, NULL));
	FAILS(E_INVALID, "buffer is NULL", gpushare_tags(NULL, tags, &count));
	FAILS(E_INVALID, "visit is NULL", gpushare_holders(session, "x", 0, NULL, NULL));
	FAILS(E_NAME, "NULL", gpushare_holders(session, NULL, 0, stop, NULL));
	FAILS(E_NOT_FOUND, "another buffer", gpushare_holders(session, "x", 1u << 30, stop, NULL));
	OK(gpushare_unlink(session, "x"));
	FAILS(E_NOT_FOUND, "x", gpushare_tags(buffer, tags, &count));
	CHECK(count == 99);
	OK(gpushare_close(session));
}

static void ask_of_the_registry(void)
{
	struct gpushare_session *session = part_session();
	struct gpushare_buffer *buffer;
	struct gpushare_registry_info info;
	enum gpushare_state state;

	OK(gpushare_alloc(session, "x", -1, SIZE, &buffer));
	FAILS(E_INVALID, "buffer is NULL", gpushare_state(NULL, &state));
	FAILS(E_INVALID, "out_state is NULL", gpushare_state(buffer, NULL));
	FAILS(E_INVALID, "out_info is NULL", gpushare_stat_registry(session, NULL));
	FAILS(E_INVALID, "session is NULL", gpushare_stat_registry(NULL, &info));
	FAILS(E_INVALID, "visit is NULL", gpushare_list_deferred(session, NULL, NULL, NULL));
	OK(gpushare_state(buffer, &state));
	CHECK(state == GPUSHARE_STATE_SHARED);
	OK(gpushare_unlink(session, "x"));
	OK(gpushare_state(buffer, &state));
	CHECK(state == GPUSHARE_STATE_WITHDRAWN);
	OK(gpushare_stat_registry(session, &info));
	CHECK(info.names == 0 && info.connections == 1 && info.requests > 3 &&
	      info.started_unix_ns);
	CHECK(!strcmp(gpushare_state_text(GPUSHARE_STATE_REPLACED), "replaced"));
	CHECK(!strcmp(gpushare_state_text((enum gpushare_state)0), "unknown"));
	OK(gpushare_close(session));
}

static void lose_registry(void)
{
	const struct gpushare_open_options options = {.timeout_ms = 2000, .no_autostart = 1};
	struct gpushare_session *session = NULL, *manual = NULL;
	struct gpushare_buffer *buffer, *other = UNTOUCHED;
	struct gpushare_info info;
	char left[128];

	FAILS(E_NO_REGISTRY, "autostart is off", gpushare_open(&options, &session));
	CHECK(!session);
	session = part_session();
	OK(gpushare_open(&options, &manual));
	OK(gpushare_alloc(session, "x", 0, SIZE, &buffer));
	OK(gpushare_attach(manual, "x", NULL, &other));
	stage_end_registry();
	FAILS(E_NO_REGISTRY, "", gpushare_stat(manual, "x", &info));
	/* Attached and allocated memory stays usable and can be released without a registry. */
	OK(gpushare_copy_from(other, 0, &info, sizeof(info)));
	OK(gpushare_detach(other));
	CHECK(stage_registry() == 0); /* `manual` must not start one */
	OK(gpushare_free(buffer));
	CHECK(stage_registry() >
	      0); /* the free started one: it could know the name from the state file */
	FAILS(E_NOT_FOUND, "", gpushare_stat(manual, "x", &info));
	OK(gpushare_alloc(session, "x", 0, SIZE, &buffer));
	OK(gpushare_stat(manual, "x", &info));
	OK(gpushare_close(manual));
	stage_end_registry();
	snprintf(left, sizeof(left), "%s/" GPUSHARE_STATE, getenv("GPUSHARE_DIR"));
	CHECK(!unlink(left));
	OK(gpushare_close(session));
	CHECK(stage_registry() == 0); /* without that file, a new one could not know the name */
}

STAGE_MAIN(SCENE(give_bad_names), SCENE(give_nothing), SCENE(share_the_unshareable),
	   SCENE(ask_within), SCENE(give_bad_tags), SCENE(ask_of_the_registry),
	   SCENE(lose_registry, NULL, stage_needs_autostart))
