/* SPDX-License-Identifier: MIT */
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "raw.h"

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define IS_INSTRUMENTED true
#else
#define IS_INSTRUMENTED false
#endif

long long raw_now_ms(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * 1000LL + now.tv_nsec / 1000000;
}

bool raw_is_emulated(void)
{
	const char *emulator = getenv("EMULATOR");

	return emulator && *emulator;
}

int raw_slack_ms(void)
{
	return IS_INSTRUMENTED || raw_is_emulated() ? 1500 : RAW_SLACK_MS;
}

int raw_limit_ms(int ms)
{
	return ms + raw_slack_ms();
}

void raw_set_limit(int ms)
{
	char text[16];

	snprintf(text, sizeof(text), "%d", raw_limit_ms(ms));
	setenv("GPUSHARE_TIMEOUT_MS", text, 1);
}

void raw_sleep_ms(int ms)
{
	poll(NULL, 0, ms);
}
