/* SPDX-License-Identifier: MIT */
#ifndef GPUSHARE_TESTS_UNIT_LISTENER_H
#define GPUSHARE_TESTS_UNIT_LISTENER_H
/* Who listens at the events.sock of raw_here. */

/* Connected, no word said. */
int listener_dial(void);
/* Both sides have greeted. */
int listener_greet(void);

#endif
