/* SPDX-License-Identifier: MIT */
#ifndef GPUSHARE_TESTS_SIM_DRIVER_PEER_H
#define GPUSHARE_TESTS_SIM_DRIVER_PEER_H
#include <stdint.h>

#pragma GCC visibility push(hidden)
uint64_t peer_start(int pid);
int peer_open(int pid, int fd);
#pragma GCC visibility pop

#endif
