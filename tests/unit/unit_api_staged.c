/* SPDX-License-Identifier: MIT */
/* Staged buffers, whose names other processes can't see before gpushare_commit(). */
#include "unit.h"

#include "stage.h"

#define SIZE ((size_t)1 << 20)

static const struct gpushare_alloc_options staged = {
    .device = -1, .flags = GPUSHARE_FLAG_KEEP | GPUSHARE_FLAG_STAGED};
static const struct gpushare_alloc_options kept = {.device = -1, .flags = GPUSHARE_FLAG_KEEP};

static int count_one(const struct gpushare_info *info, void *user)
{
	++*(int *)user;
	return 0;
}

static int listed(struct gpushare_session *session)
{
	int count = 0;

	OK(gpushare_list(session, "*", count_one, &count));
	return count;
}

static void fill(struct gpushare_buffer *buffer)
{
	unsigned char byte = 42;

	OK(gpushare_copy_to(buffer, SIZE - 1, &byte, 1));
}

static void make(void)
{
	static const struct gpushare_tag tag = {"dtype", "u8"};
	struct gpushare_session *session = part_session();
	struct gpushare_buffer *buffer;
	struct gpushare_info info;

	OK(gpushare_alloc_with(session, "x", SIZE, &staged, &buffer));
	OK(gpushare_stat(session, "x", &info)); /* visible to the owner's process */
	CHECK(info.flags == (GPUSHARE_FLAG_KEEP | GPUSHARE_FLAG_STAGED));
	CHECK(listed(session) == 1);
	say();
	hear();
	stage_end_registry(); /* must stay hidden after a restart too */
	say();
	hear();
	fill(buffer);
	OK(gpushare_tag(session, "x", &tag, 1));
	say();
	usleep(100000); /* the other process waits for the name by then */
	OK(gpushare_commit(buffer));
	OK(gpushare_commit(buffer));
	gpushare_buffer_info(buffer, &info);
	CHECK(info.flags == GPUSHARE_FLAG_KEEP);
	hear();
	OK(gpushare_close(session));
	say();
}

static void see_nothing(struct gpushare_session *session)
{
	struct gpushare_buffer *buffer;
	struct gpushare_info info;

	FAILS(E_NOT_FOUND, "no buffer is named", gpushare_stat(session, "x", &info));
	FAILS(E_NOT_FOUND, "no buffer is named", gpushare_attach(session, "x", NULL, &buffer));
	FAILS(E_EXISTS, "x", gpushare_alloc_with(session, "x", SIZE, &kept, &buffer));
	FAILS(E_NOT_FOUND, "no buffer is named", gpushare_unlink(session, "x"));
	CHECK(listed(session) == 0);
}

static void look(void)
{
	const struct gpushare_attach_options patient = {.wait_ms = 20000};
	struct gpushare_session *session = part_session();
	struct gpushare_buffer *buffer;
	struct gpushare_info info;
	unsigned char byte = 0;

	hear();
	see_nothing(session);
	say();
	hear();
	see_nothing(session);
	say();
	hear();
	OK(gpushare_attach(session, "x", &patient, &buffer));
	gpushare_buffer_info(buffer, &info);
	CHECK(info.flags == GPUSHARE_FLAG_KEEP && info.tag_count == 1);
	OK(gpushare_copy_from(buffer, SIZE - 1, &byte, 1));
	CHECK(byte == 42 && listed(session) == 1);
	FAILS(E_INVALID, "attached here", gpushare_commit(buffer));
	say();
	hear();
	OK(gpushare_stat(session, "x", &info)); /* it is kept from the commit on */
	OK(gpushare_detach(buffer));
	OK(gpushare_unlink(session, "x"));
	OK(gpushare_close(session));
}

/* The registry loses its records before the commit: the session resyncs first, then commits. */
static void lose_and_commit(void)
{
	struct gpushare_session *session = part_session(), *other = part_session();
	struct gpushare_buffer *buffer, *again;
	struct gpushare_info info;
	char path[4200];

	OK(gpushare_alloc_with(session, "x", SIZE, &staged, &buffer));
	FAILS(E_EXISTS, "is taken by", gpushare_alloc_with(other, "x", SIZE, &kept, &again));
	stage_end_registry();
	snprintf(path, sizeof(path), "%s/registry.state", getenv("GPUSHARE_DIR"));
	CHECK(!unlink(path));
	OK(gpushare_commit(buffer));
	OK(gpushare_stat(other, "x", &info));
	CHECK(info.flags == GPUSHARE_FLAG_KEEP);
	OK(gpushare_unlink(session, "x"));
	OK(gpushare_close(session));
	OK(gpushare_close(other));
}

static void ask_nonsense(void)
{
	struct gpushare_alloc_options both = staged;
	const struct gpushare_share_options later = {.staged = 1};
	struct gpushare_session *session = part_session(), *other = part_session();
	struct gpushare_buffer *buffer, *part;
	struct gpushare_info info;

	both.adopt = 1;
	FAILS(E_INVALID, "STAGED", gpushare_alloc_with(session, "x", SIZE, &both, &buffer));
	FAILS(E_INVALID, "buffer is NULL", gpushare_commit(NULL));
	OK(gpushare_alloc(session, "x", -1, SIZE, &buffer));
	OK(gpushare_commit(buffer)); /* no effect: it is not staged */
	OK(gpushare_share_with(session, "part", gpushare_pointer(buffer), 4096, &later, &part));
	gpushare_buffer_info(part, &info);
	CHECK(info.backing == GPUSHARE_BACKING_IPC && info.flags == GPUSHARE_FLAG_STAGED);
	OK(gpushare_unlink(other, "part")); /* another session of the process */
	FAILS(E_NOT_FOUND, "part", gpushare_commit(part));
	OK(gpushare_close(session));
	OK(gpushare_close(other));
}

STAGE_MAIN(SCENE(make, look, stage_needs_autostart),
	   SCENE(lose_and_commit, NULL, stage_needs_autostart), SCENE(ask_nonsense))
