/* SPDX-License-Identifier: MIT */
#ifndef GPUSHARE_TESTS_SIM_SIM_CHILD_H
#define GPUSHARE_TESTS_SIM_SIM_CHILD_H
/*
 * For tests of the simulator: each case runs in its own child process, with its own environment and
 * an uninitialised library. Include after cmocka.h.
 */
#include <dlfcn.h>
#include <libgen.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define MIB ((size_t)1 << 20)

/* For use in a child: a false condition ends the child and fails the parent's test. */
#define CHECK(condition) \
	do { \
		if (!(condition)) { \
			fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition); \
			_exit(1); \
		} \
	} while (0)

/* The libraries lie beside the tests: build/tests/unit_sim_vulkan, build/sim/libcuda.so.1. A later
 * dlopen("libcuda.so.1") finds the library that was loaded here. */
static void *child_load(const char *name)
{
	char path[PATH_MAX], self[PATH_MAX] = "";

	CHECK(readlink("/proc/self/exe", self, sizeof(self) - 1) > 0);
	snprintf(path, sizeof(path), "%.2000s/../sim/%s", dirname(self), name);
	void *handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
	if (!handle)
		fprintf(stderr, "%s\n", dlerror());
	CHECK(handle);
	return handle;
}

/* `settings`: "NAME=value" strings, then NULL. The caller's values of the variables below are
 * removed first. */
static void child_run(void (*body)(void), char **settings)
{
	static const char *const ours[] = {
	    "GPUSHARE_SIM_FAIL",	"GPUSHARE_SIM_LACKS",	"GPUSHARE_SIM_LOG",
	    "GPUSHARE_SIM_MEMORY",	"GPUSHARE_SIM_DEVICES", "GPUSHARE_SIM_CUDART",
	    "GPUSHARE_SIM_VULKAN",	"GPUSHARE_SIM_DMABUF",	"CUDA_VISIBLE_DEVICES",
	    "GPUSHARE_SIM_CONNECTIONS",
	};
	int status = -1;
	pid_t child = fork();

	assert_true(child >= 0);
	if (child == 0) {
		for (size_t i = 0; i < sizeof(ours) / sizeof(ours[0]); i++)
			unsetenv(ours[i]);
		for (; *settings; settings++)
			putenv(*settings);
		body();
		_exit(0);
	}
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(status, 0);
}

#define IN_CHILD(body, ...) child_run(body, (char *[]){__VA_ARGS__ __VA_OPT__(, ) NULL})

#endif
