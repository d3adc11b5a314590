/* SPDX-License-Identifier: MIT */
#ifndef GPUSHARE_TESTS_UNIT_DESCRIPTORS_H
#define GPUSHARE_TESTS_UNIT_DESCRIPTORS_H

/* How many file descriptors this process has open, plus a constant ("." and ".." are counted too).
 * Only compare results of this function with each other. */
int descriptors_open(void);

#endif
