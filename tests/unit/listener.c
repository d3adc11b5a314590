/* SPDX-License-Identifier: MIT */
#include "unit.h"

#include "listener.h"
#include "raw.h"

void listener_dial(struct listener *listener)
{
	memset(listener, 0, sizeof(*listener));
	listener->fd = raw_connect(&raw_here);
}

void listener_ask(struct listener *listener)
{
	request subscribe = {.which_verb = gpushare_Request_subscribe_tag};

	assert_true(raw_send(listener->fd, ++listener->id, &subscribe));
}

const notice *listener_hear(struct listener *listener, int timeout_ms)
{
	gpushare_SubscribeReply *came = &listener->answer.body.subscribe;

	if (listener->told == came->notices_count) {
		listener_ask(listener);
		listener->told = came->notices_count = 0;
		if (!raw_receive(listener->fd, listener->id, &listener->answer, timeout_ms))
			return NULL;
		assert_int_equal(listener->answer.status, GPUSHARE_OK);
		assert_int_equal(listener->answer.which_body, gpushare_Reply_subscribe_tag);
		assert_true(came->notices_count > 0);
	}
	return &came->notices[listener->told++];
}

void listener_open(struct listener *listener)
{
	const notice *first;

	listener_dial(listener);
	first = listener_hear(listener, RAW_TIMEOUT_MS);
	assert_non_null(first);
	assert_int_equal(first->kind, 0);
}

void listener_close(struct listener *listener)
{
	close(listener->fd);
}
