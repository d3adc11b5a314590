/* SPDX-License-Identifier: MIT */
#ifndef GPUSHARE_TESTS_UNIT_RAW_PEER_H
#define GPUSHARE_TESTS_UNIT_RAW_PEER_H
/* Peers of raw_here in processes of their own, and of other users if the test is root. Each process
 * connects, so SO_PEERCRED shows it to the registry. The test gets the socket and sends the
 * requests. */
#include "raw_fds.h"

/* Start a process of user `uid` (0: the test's) with supplementary group `group` (0: none). Connect
 * it and send Hello; return its socket. */
int raw_peer(uint32_t uid, uint32_t group);
/* The same without Hello and group. */
int raw_peer_greeted(uint32_t uid);
pid_t raw_peer_pid(int peer);
/* Reconnect the same process with the session key of `peer`, then close `peer`. Return the new
 * socket; the Hello's answer is in raw_answer. */
int raw_peer_back(int peer);
/* Open another connection of the same process and greet. */
int raw_peer_beside(int peer);
/* Kill the process and close its connection. */
void raw_peer_end(int peer);
/* End all peers. */
void raw_peers_end(void);
int raw_peers_tear_down(void **state); /* raw_peers_end(), then raw_tear_down() */

#endif
