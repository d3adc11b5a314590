/* SPDX-License-Identifier: MIT */
#include "shim_link_page.h"

#include <stdio.h>
#include <string.h>

#include "order_page.h"
#include "shim_line.h"

/* `fd`: the page that this process has, to give it back to the registry; else -1. */
static int ask(const struct link_page *page, int fd, char *why, size_t why_size)
{
	gpushare_Order *order = &line_ask(gpushare_Request_order_tag)->verb.order;
	int status;

	memcpy(order->name, page->name, sizeof(order->name));
	order->generation = page->generation;
	order->roles = ORDER_PUBLISHES;
	order->again = page->id;
	line.client->goes = fd;
	status = line_call(why, why_size);
	if (!status && line.client->reply.which_body != gpushare_Reply_order_tag) {
		snprintf(why, why_size, "the registry answered another question");
		status = GPUSHARE_E_PROTOCOL;
	}
	return status;
}

int link_page(const struct link_page *page, int64_t until_ms, struct link_page_answer *out_answer,
	      char *why, size_t why_size)
{
	struct link_page_answer answer = {.fd = -1};
	int status = line_enter_by(until_ms, why, why_size);

	if (status)
		return status;
	status = ask(page, -1, why, why_size);
	answer.id = line.client->reply.body.order.id;
	if (!status && page->id && !answer.id && page->fd >= 0) {
		status = ask(page, page->fd, why, why_size);
		answer.id = line.client->reply.body.order.id;
	}
	if (!status)
		answer.fd = client_take_fd(line.client);
	answer.connection = line.client->connections;
	line_leave();
	*out_answer = answer;
	return status;
}
