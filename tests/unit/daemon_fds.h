/* SPDX-License-Identifier: MIT */
#ifndef GPUSHARE_TESTS_UNIT_DAEMON_FDS_H
#define GPUSHARE_TESTS_UNIT_DAEMON_FDS_H

/* How many descriptors the daemon of raw_here has, but for listeners that it opened anew: it does that, and
 * keeps the old ones, where a busy machine is late to answer it. Waits while it asks itself whether it is
 * heard (probe.h). */
int daemon_fds(void);

#endif
