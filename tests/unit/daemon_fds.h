/* SPDX-License-Identifier: MIT */
#ifndef GPUSHARE_TESTS_UNIT_DAEMON_FDS_H
#define GPUSHARE_TESTS_UNIT_DAEMON_FDS_H

/* How many descriptors the daemon of raw_here has. */
int daemon_fds(void);

#endif
