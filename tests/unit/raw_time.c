/* SPDX-License-Identifier: MIT */
#include <poll.h>
#include <stdio.h>
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

	if (file && fscanf(file, "%lf %*f %*f %d", &load, &now) == 2 && now > load)
		load = now; /* the minute's mean is late where a crowd has just begun */
	if (file)
		fclose(file);
	return 250 * (int)load / get_nprocs();
}

void raw_sleep_ms(int ms)
{
	poll(NULL, 0, ms);
}
