/* SPDX-License-Identifier: MIT */
/* A registry round trip from this process: `api_round_trip NAME COUNT` prints median, p99 in us. */
#include <gpushare.h>

#include "gpu_driver.h"

int main(int argc, char **argv)
{
	size_t count = argc == 3 ? strtoul(argv[2], NULL, 0) : 0;
	double *times = calloc(count + 1, sizeof(*times)), median;
	struct gpushare_session *session;
	struct gpushare_info info;

	if (!count || !times) {
		fprintf(stderr, "usage: api_round_trip NAME COUNT\n");
		return 2;
	}
	if (gpushare_open(NULL, &session)) {
		fprintf(stderr, "api_round_trip: %s\n", gpushare_explain());
		return 1;
	}
	for (size_t i = 0; i < count; i++) {
		double started = clock_us();

		if (gpushare_stat(session, argv[1], &info)) {
			fprintf(stderr, "api_round_trip: %s\n", gpushare_explain());
			return 1;
		}
		times[i] = clock_us() - started;
	}
	median = clock_median(times, count);
	printf("%.2f %.2f\n", median, times[count * 99 / 100]);
	free(times);
	return gpushare_close(session) ? 1 : 0;
}
