/* SPDX-License-Identifier: MIT */
#include "configured.h"

#include "unit.h"

static void start(const char *lines, const char *const more[])
{
	const char *extra[8] = {"--config", raw_in_folder("registry.conf")};
	FILE *file = fopen(extra[1], "w");
	int count = 2;

	while (more && *more)
		extra[count++] = *more++;
	assert_non_null(file);
	assert_true(fputs(lines, file) >= 0);
	assert_int_equal(fclose(file), 0);
	raw_daemon_start(&raw_here, extra);
}

void configured_start_with(const char *lines, const char *const more[])
{
	assert_int_equal(raw_make_folder(NULL), 0);
	start(lines, more);
}

void configured_start(const char *lines)
{
	configured_start_with(lines, NULL);
}

static uint64_t count_of(const gpushare_Count *counts, pb_size_t count, const char *what)
{
	for (pb_size_t i = 0; i < count; i++) {
		if (!strcmp(counts[i].what, what))
			return counts[i].count;
	}
	fail_msg("%s is not counted", what);
	return 0;
}

uint64_t configured_drops(int fd, const char *why)
{
	gpushare_StatReply stat = raw_stat(fd);

	return count_of(stat.by_drop, stat.by_drop_count, why);
}

void configured_await_drops(int fd, const char *why, uint64_t wanted)
{
	long long begin = raw_now_ms();
	uint64_t now;

	while ((now = configured_drops(fd, why)) != wanted) {
		if (now > wanted || raw_now_ms() - begin > RAW_TIMEOUT_MS)
			fail_msg("%llu dropped as %s, not %llu", (unsigned long long)now, why,
				 (unsigned long long)wanted);
		raw_sleep_ms(10);
	}
}

uint64_t configured_limits(int fd, const char *key)
{
	gpushare_StatReply stat = raw_stat(fd);

	return count_of(stat.by_limit, stat.by_limit_count, key);
}

static bool has(const char *path, const char *words)
{
	char text[8192] = "";
	FILE *file = fopen(path, "r");

	if (!file)
		return false;
	text[fread(text, 1, sizeof(text) - 1, file)] = '\0';
	fclose(file);
	return strstr(text, words);
}

void configured_await(const char *name, const char *words)
{
	long long begun_ms = raw_now_ms();

	while (!has(raw_in_folder(name), words)) {
		assert_in_range(raw_now_ms() - begun_ms, 0, RAW_TIMEOUT_MS);
		raw_sleep_ms(5);
	}
}
