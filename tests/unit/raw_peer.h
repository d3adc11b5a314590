/* SPDX-License-Identifier: MIT */
#ifndef GPUSHARE_TESTS_UNIT_RAW_PEER_H
#define GPUSHARE_TESTS_UNIT_RAW_PEER_H
/* Peers of raw_here that are other processes, and other users where the test is root. The test has their
 * sockets and asks for them; the kernel tells the registry who connected. */
#include "raw_fds.h"

/* Connected, hello said, by a process that is `uid` (0: as the test) and in `group` besides (0: none). */
int raw_peer(uint32_t uid, uint32_t group);
/* Greeted, and no hello said. */
int raw_peer_greeted(uint32_t uid);
pid_t raw_peer_pid(int peer);
/* The same process comes again, by the key of that connection, which is closed: the new one. raw_answer has
 * what it was told. */
int raw_peer_back(int peer);
/* Another connection of the same process, greeted. */
int raw_peer_beside(int peer);
/* The process is killed, and its connection ends. */
void raw_peer_end(int peer);
/* Ends those that are left. */
void raw_peers_end(void);
int raw_peers_tear_down(void **state); /* raw_tear_down() after that */

#endif
