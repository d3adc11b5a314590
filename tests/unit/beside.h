/* SPDX-License-Identifier: MIT */
#ifndef GPUSHARE_TESTS_UNIT_BESIDE_H
#define GPUSHARE_TESTS_UNIT_BESIDE_H
/* Libraries that were built with the tests. After cmocka.h. */
#include <dlfcn.h>

/* dlopen `path`, as seen from the folder of the tests: "../sim/libcuda.so.1", "bin/lib_race.so".
 * RTLD_LOCAL; fails the test. What is loaded so is also what its soname stands for from then on. */
void *beside_load(const char *path);

#endif
