/* SPDX-License-Identifier: MIT */
/*
 * An unmodified program that holds SIZE bytes of GPU memory until SIGTERM, or for SECONDS (default
 * 120).
 */
#include <signal.h>
#include <unistd.h>

#include "gpu_driver.h"

static void stop(int signal)
{
}

int main(int argc, char **argv)
{
	size_t size = argc > 1 ? strtoul(argv[1], NULL, 0) : 0;
	time_t seconds = argc > 2 ? atoi(argv[2]) : 120;
	struct sigaction action = {.sa_handler = stop};
	sigset_t term, before;
	cu_deviceptr pointer;

	if (!size) {
		fprintf(stderr, "usage: app_hold SIZE [SECONDS]\n");
		return 2;
	}
	sigemptyset(&term);
	sigaddset(&term, SIGTERM);
	sigprocmask(SIG_BLOCK, &term, &before);
	sigaction(SIGTERM, &action, NULL);
	gpu_start();
	gpu_must(gpu.cuMemAlloc_v2(&pointer, size), "cuMemAlloc");
	gpu_must(gpu.cuMemsetD8_v2(pointer, 0xa5, size), "cuMemsetD8");
	printf("ready\n");
	fflush(stdout);
	sigtimedwait(&term, NULL, &(struct timespec){.tv_sec = seconds});
	gpu_must(gpu.cuMemFree_v2(pointer), "cuMemFree");
	return 0;
}
