/* SPDX-License-Identifier: MIT */
#include <poll.h>
#include <time.h>

#include "raw.h"

long long raw_now_ms(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * 1000LL + now.tv_nsec / 1000000;
}

void raw_sleep_ms(int ms)
{
	poll(NULL, 0, ms);
}
