/* SPDX-License-Identifier: MIT */
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/sysinfo.h>
#include <time.h>

#include "raw.h"

long long raw_now_ms(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * 1000LL + now.tv_nsec / 1000000;
}

int raw_slack_ms(void)
{
	FILE *file = fopen("/proc/loadavg", "re");
	double load = 0;
	int now = 0;

	if (file && fscanf(file, "%lf %*f %*f %d", &load, &now) == 2 && now - 1 > load)
		load = now - 1; /* but us; the minute's mean is late where a crowd has just begun */
	if (file)
		fclose(file);
	return 250 * (int)load / get_nprocs();
}

#define MOST_MS 1000 /* more would only be waited for */

int raw_limit_ms(int ms)
{
	static int slack = -1;

	if (slack < 0)
		slack = raw_slack_ms();
	slack = slack < MOST_MS ? slack : MOST_MS;
	return ms + slack;
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
