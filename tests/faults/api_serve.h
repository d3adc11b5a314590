/* SPDX-License-Identifier: MIT */
#ifndef TESTS_FAULTS_API_SERVE_H
#define TESTS_FAULTS_API_SERVE_H
/*
 * The other processes, which run until they are killed: `api_faults serve FILE`. FILE is created
 * when they are ready. `publish` also publishes "other" and repeatedly allocates and frees "seen".
 * `hold` attaches any buffer called "mine" until that name ends.
 */
#include "api_check.h"

#define MOMENT_US 5000

static void touch(const char *path)
{
	FILE *file = fopen(path, "w");

	must(file && !fclose(file), path);
}

/* Share three buffers with the pattern of 7, and an event. Return the buffer "other". */
static struct gpushare_buffer *serve_all(void)
{
	static const struct {
		const char *name;
		uint32_t flags;
	} all[] = {
	    {"othervmm", GPUSHARE_FLAG_VMM}, {"otherhost", GPUSHARE_FLAG_UNIFIED}, {"other", 0}};
	struct gpushare_buffer *buffer = NULL;
	struct gpushare_event *event;

	MUST(gpushare_open(NULL, &session));
	for (size_t i = 0; i < sizeof(all) / sizeof(*all); i++) {
		struct gpushare_alloc_options options = {.device = -1, .flags = all[i].flags};

		MUST(gpushare_alloc_with(session, all[i].name, SIZE, &options, &buffer));
		fill(buffer, 7);
	}
	MUST(gpushare_event_create(session, "step", -1, 0, &event));
	MUST(gpushare_event_record(event, NULL));
	return buffer;
}

static void serve(const char *ready)
{
	serve_all();
	touch(ready);
	for (;;)
		pause();
}

static void serve_published(const char *ready)
{
	struct gpushare_buffer *other = serve_all(), *seen;

	MUST(gpushare_publish_host(other, NULL));
	touch(ready);
	for (;;) {
		MUST(gpushare_alloc(session, "seen", -1, SIZE, &seen));
		usleep(MOMENT_US);
		MUST(gpushare_free(seen));
		MUST(gpushare_publish_host(other, NULL));
		usleep(MOMENT_US);
	}
}

static void hold_one(void)
{
	const struct gpushare_attach_options options = {.wait_ms = 0};
	struct gpushare_buffer *buffer;
	struct gpushare_info is, then;

	if (gpushare_attach(session, "mine", &options, &buffer))
		return;
	must(gpushare_buffer_info(buffer, &then) == 0, "info");
	while (!gpushare_stat(session, "mine", &is) && is.generation == then.generation)
		usleep(MOMENT_US);
	MUST(gpushare_detach(buffer));
}

static void serve_held(const char *ready)
{
	MUST(gpushare_open(NULL, &session));
	touch(ready);
	for (;;) {
		hold_one();
		usleep(MOMENT_US);
	}
}

static void serve_as(const char *what, const char *ready)
{
	if (!strcmp(what, "serve"))
		serve(ready);
	if (!strcmp(what, "publish"))
		serve_published(ready);
	if (!strcmp(what, "hold"))
		serve_held(ready);
}

#endif
