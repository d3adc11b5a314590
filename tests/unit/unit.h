/* SPDX-License-Identifier: MIT */
#ifndef GPUSHARE_TESTS_UNIT_H
#define GPUSHARE_TESTS_UNIT_H
/* cmocka, with the headers that it wants before it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#endif
