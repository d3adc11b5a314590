/* SPDX-License-Identifier: MIT */
#ifndef GPUSHARE_TESTS_UNIT_BESIDE_H
#define GPUSHARE_TESTS_UNIT_BESIDE_H
/* Loads libraries that were built with the tests. Include it after cmocka.h. */
#include <dlfcn.h>

/* dlopen() `path` with RTLD_LOCAL; on failure, fail the test. `path` is relative to the folder of
 * the test programs: "../sim/libcuda.so.1", "bin/lib_race.so". Later dlopen() calls for the
 * library's soname return this library. */
void *beside_load(const char *path);

#endif
