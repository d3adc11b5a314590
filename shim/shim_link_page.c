/* SPDX-License-Identifier: MIT */
#include "shim_link_page.h"

#include <stdio.h>
#include <string.h>

#include "order.h"
#include "shim_line.h"

static int ask(const struct link_page *page, const uint8_t ticket[GPUSHARE_TICKET_SIZE], char *why,
	       size_t why_size)
{
	gpushare_Order *order = &line_ask(gpushare_Request_order_tag)->verb.order;
	int status;

	memcpy(order->name, page->name, sizeof(order->name));
	order->generation = page->generation;
	order->roles = ORDER_PUBLISHES;
	order->again = page->id;
	if (ticket)
		memcpy(order->ticket, ticket, GPUSHARE_TICKET_SIZE);
	status = line_call(0, why, why_size);
	if (!status && line.client->reply.which_body != gpushare_Reply_order_tag) {
		snprintf(why, why_size, "the registry answered another question");
		status = GPUSHARE_E_PROTOCOL;
	}
	return status;
}

static int give_back(const struct link_page *page, char *why, size_t why_size)
{
	uint8_t ticket[1][GPUSHARE_TICKET_SIZE];
	int status = line_deposit(page->fd, ticket, why, why_size);

	return status ? status : ask(page, ticket[0], why, why_size);
}

/* *out_moved: the registry ended in between, and its ticket with it. */
static int ask_once(const struct link_page *page, struct link_page_answer *out, bool *out_moved,
		    char *why, size_t why_size)
{
	const gpushare_OrderReply *answer;
	unsigned int connection;
	int status = ask(page, NULL, why, why_size);

	*out_moved = false;
	answer = &line.client->reply.body.order;
	if (!status && page->id && !answer->id && page->fd >= 0)
		status = give_back(page, why, why_size);
	if (status)
		return status;
	connection = line.client->connections;
	out->id = answer->id;
	if (page->id)
		return GPUSHARE_OK;
	status = line_fetch(answer->ticket, &out->fd, why, why_size);
	*out_moved = status && line_has_moved(connection);
	return status;
}

int link_page(const struct link_page *page, int64_t until_ms, struct link_page_answer *out_answer,
	      char *why, size_t why_size)
{
	struct link_page_answer answer = {.fd = -1};
	struct client_endings endings = {0};
	int status = line_enter_by(until_ms, why, why_size);
	bool moved;

	if (status)
		return status;
	do
		status = ask_once(page, &answer, &moved, why, why_size);
	while (moved && line_outlives(&endings));
	answer.connection = line.client->connections;
	line_leave();
	*out_answer = answer;
	return status;
}
