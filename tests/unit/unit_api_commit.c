/* SPDX-License-Identifier: MIT */
/* A buffer that two threads commit at once: neither is told more than the registry has said. */
#include "unit.h"

#include <pthread.h>
#include <stdio.h>
#include <unistd.h>

#include "api/api_session.h"
#include "raw.h"
#include "scripted.h"
#include "stage.h"

#define TIMEOUT_MS 500

static struct gpushare_session *session;
static struct gpushare_buffer *buffer;

static void begin(void)
{
	const struct gpushare_open_options options = {.timeout_ms = TIMEOUT_MS};
	const struct gpushare_alloc_options staged = {
	    .flags = GPUSHARE_FLAG_KEEP | GPUSHARE_FLAG_STAGED, .device = -1};

	scripted = (struct scripted){.generation = 100};
	strcpy(scripted.directory, getenv("GPUSHARE_DIR"));
	setenv("GPUSHARE_AUTOSTART", "0", 1);
	scripted_start();
	OK(gpushare_open(&options, &session));
	OK(gpushare_alloc_with(session, "w", (size_t)2 << 20, &staged, &buffer));
}

static unsigned int commits(void)
{
	unsigned int count;

	scripted_lock();
	count = scripted.asked[gpushare_Request_commit_tag];
	scripted_unlock();
	return count;
}

static void *commit_too(void *out_status)
{
	*(int *)out_status = gpushare_commit(buffer);
	return NULL;
}

static pthread_t begin_other(int *out_status)
{
	pthread_t other;

	CHECK(!pthread_create(&other, NULL, commit_too, out_status));
	return other;
}

static void is_staged(bool staged)
{
	struct gpushare_info info;

	OK(gpushare_buffer_info(buffer, &info));
	CHECK(!!(info.flags & GPUSHARE_FLAG_STAGED) == staged);
}

static void unanswered(void)
{
	long long until_ms = raw_now_ms() + RAW_TIMEOUT_MS;
	pthread_t other;
	int status;

	begin();
	scripted.mute_at = gpushare_Request_commit_tag;
	other = begin_other(&status);
	while (!commits() && raw_now_ms() < until_ms)
		usleep(1000);
	CHECK(gpushare_commit(buffer) == GPUSHARE_E_TIMED_OUT);
	CHECK(!pthread_join(other, NULL) && status == GPUSHARE_E_TIMED_OUT);
	is_staged(true);
	scripted.mute_at = 0;
	OK(gpushare_commit(buffer));
	is_staged(false);
	OK(gpushare_close(session));
}

/* One question is enough for both. */
static void answered_late(void)
{
	long long began_ms;
	pthread_t other;
	int status;

	begin();
	scripted.nap_ms = TIMEOUT_MS / 2;
	began_ms = raw_now_ms();
	other = begin_other(&status);
	usleep(50000);
	OK(gpushare_commit(buffer));
	CHECK(raw_now_ms() - began_ms >= TIMEOUT_MS / 2); /* not before it can have been answered */
	CHECK(!pthread_join(other, NULL) && !status && commits() == 1);
	is_staged(false);
	scripted.nap_ms = 0;
	OK(gpushare_close(session));
}

STAGE_MAIN_SCRIPTED(SCENE(unanswered), SCENE(answered_late))
