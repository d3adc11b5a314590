/* SPDX-License-Identifier: MIT */
#ifndef GPUSHARE_TESTS_ORDERED_H
#define GPUSHARE_TESTS_ORDERED_H
/* Order requests of peers (peer.h) about a buffer, and the buffer's stream-sync page. */
#include "order/order.h"
#include "peer.h"

int ordered_ask(struct session *session, const char *name, uint64_t generation, uint32_t roles);
/* Give up `roles`. `final` is stored in the consumer's slot first, as order_slot.final of
 * protocol/order_page.h. */
int ordered_leave(struct session *session, const char *name, uint64_t generation, uint32_t roles,
		  uint64_t final);
/* Resume `roles`, with slot `slot`, on the page with `id`, and send the page's descriptor `fd`. */
int ordered_bring(struct session *session, const char *name, uint64_t generation, uint32_t roles,
		  uint64_t id, uint32_t slot, int fd);
struct order_page *ordered_page(uint64_t generation);

#endif
