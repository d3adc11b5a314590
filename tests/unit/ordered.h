/* SPDX-License-Identifier: MIT */
#ifndef GPUSHARE_TESTS_ORDERED_H
#define GPUSHARE_TESTS_ORDERED_H
/* What peers (peer.h) ask about the order of a buffer, and what its page says. */
#include "order/order.h"
#include "peer.h"

int ordered_ask(struct session *session, const char *name, uint64_t generation, uint32_t roles);
/* `final`: what a consumer says in its slot, see protocol/order_page.h. */
int ordered_leave(struct session *session, const char *name, uint64_t generation, uint32_t roles,
		  uint64_t final);
/* It brings the page `fd`, whose id that is, with what it was to it. */
int ordered_bring(struct session *session, const char *name, uint64_t generation, uint32_t roles,
		  uint64_t id, uint32_t slot, int fd);
struct order_page *ordered_page(uint64_t generation);

#endif
