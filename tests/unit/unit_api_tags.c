/* SPDX-License-Identifier: MIT */
/* gpushare_tag(), gpushare_tags(), gpushare_holders() and all that gpushare_stat_registry() tells. */
#include "unit.h"

#include <stdio.h>
#include <unistd.h>

#include "stage.h"

static struct gpushare_session *session;
static struct gpushare_buffer *buffer;

/* "a=1 b=2" */
static bool tags_are(struct gpushare_buffer *of, const char *wanted)
{
	struct gpushare_tag tags[GPUSHARE_TAGS_MAX];
	char text[1024] = "";
	size_t count = 99, length = 0;

	OK(gpushare_tags(of, tags, &count));
	for (size_t i = 0; i < count; i++)
		length += (size_t)snprintf(text + length, sizeof(text) - length, "%s%s=%s",
					   i ? " " : "", tags[i].key, tags[i].value);
	return !strcmp(text, wanted);
}

static void tell(void)
{
	static const struct gpushare_tag tags[] = {{"dtype", "f16"}, {"shape", "2,3"}};
	static const struct gpushare_tag other[] = {{"dtype", ""}, {"step", "7"}};
	struct gpushare_info info;

	session = part_session();
	OK(gpushare_alloc(session, "x", -1, 4096, &buffer));
	CHECK(tags_are(buffer, ""));
	OK(gpushare_tag(session, "x", tags, 2));
	say();
	hear();
	CHECK(tags_are(buffer, "shape=2,3 step=9"));
	OK(gpushare_tag(session, "x", other, 2));
	OK(gpushare_stat(session, "x", &info));
	CHECK(info.tag_count == 2 && !strcmp(info.tags[1].key, "step") &&
	      !strcmp(info.tags[1].value, "7") && !*info.tags[2].key);
	stage_end_registry(); /* its records know of them */
	CHECK(tags_are(buffer, "shape=2,3 step=7"));
	say();
	hear();
	OK(gpushare_close(session));
}

static int see_holder(const struct gpushare_holder *holder, void *user)
{
	CHECK(holder->uid == getuid() && holder->started && *holder->command);
	if (!holder->own && holder->pid == getpid())
		*(uint32_t *)user += holder->count;
	return 0;
}

static int stop(const struct gpushare_holder *holder, void *user)
{
	(void)holder;
	(void)user;
	return 1;
}

static void look(void)
{
	static const struct gpushare_tag tags[] = {{"dtype", ""}, {"step", "9"}};
	struct gpushare_info info;
	uint32_t count = 0;

	hear();
	session = part_session();
	OK(gpushare_attach(session, "x", NULL, &buffer));
	OK(gpushare_buffer_info(buffer, &info));
	CHECK(info.tag_count == 2 && !strcmp(info.tags[0].value, "f16"));
	CHECK(tags_are(buffer, "dtype=f16 shape=2,3"));
	OK(gpushare_holders(session, "x", 0, see_holder, &count));
	OK(gpushare_holders(session, "x", info.generation, see_holder, &count));
	CHECK(count == 2);
	FAILS(E_CANCELLED, "ended by its caller", gpushare_holders(session, "x", 0, stop, NULL));
	FAILS(E_NOT_FOUND, "another buffer", gpushare_holders(session, "x", 1u << 30, stop, NULL));
	FAILS(E_NOT_FOUND, "y", gpushare_holders(session, "y", 0, stop, NULL));
	OK(gpushare_tag(session, "x", tags, 2));
	say();
	hear();
	CHECK(tags_are(buffer, "shape=2,3 step=7"));
	OK(gpushare_close(session));
	say();
}

static void arguments(void)
{
	struct gpushare_tag tags[GPUSHARE_TAGS_MAX + 1] = {{"a", "1"}};
	size_t count = 99;

	session = part_session();
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
	FAILS(E_NAME, "NULL", gpushare_holders(session, NULL, 0, see_holder, NULL));
	OK(gpushare_unlink(session, "x"));
	FAILS(E_NOT_FOUND, "x", gpushare_tags(buffer, tags, &count));
	CHECK(count == 99);
	OK(gpushare_close(session));
}

static uint64_t counted(const struct gpushare_count *counts, const char *what)
{
	for (int i = 0; i < GPUSHARE_COUNTS_MAX && *counts[i].what; i++)
		if (!strcmp(counts[i].what, what))
			return counts[i].count;
	return UINT64_MAX;
}

static void numbers(void)
{
	static struct gpushare_registry_info info;

	session = part_session();
	OK(gpushare_alloc(session, "x", -1, 4096, &buffer));
	FAILS(E_EXISTS, "x", gpushare_alloc(session, "x", -1, 4096, &buffer));
	OK(gpushare_stat_registry(session, &info));
	CHECK(!strcmp(info.version, GPUSHARE_VERSION) && info.pid == stage_registry());
	CHECK(counted(info.by_verb, "share") == 2 && counted(info.by_verb, "hello") >= 1);
	CHECK(counted(info.by_status, "E_EXISTS") == 1);
	CHECK(counted(info.by_backing, "ipc") == 1 && counted(info.by_backing, "vmm") == 0);
	CHECK(info.by_backing[0].bytes == (2u << 20) && info.kept_limit && !info.kept_bytes);
	OK(gpushare_close(session));
}

STAGE_MAIN(SCENE(tell, look, stage_needs_autostart), SCENE(arguments), SCENE(numbers))
