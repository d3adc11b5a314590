/* SPDX-License-Identifier: MIT */
/* Streams between nodes: calls on one that has ended. */
#include "unit.h"

#include "../../tools/common/tool.h"
#include "../../tools/node/stream.h"

struct pair {
	struct listener *listener;
	struct stream *puller, *node;
};

static void connect_pair(struct pair *pair)
{
	char why[NODES_WHY_MAX], text[64];
	struct address address;

	assert_true(address_parse("tcp://127.0.0.1:0", &address));
	assert_true(listener_open(&address, "", &pair->listener, why));
	snprintf(text, sizeof(text), "tcp://127.0.0.1:%d", listener_port(pair->listener));
	assert_true(address_parse(text, &address));
	assert_true(stream_dial(&address, "", &pair->puller, why));
	assert_true(listener_accept(pair->listener, &pair->node, why));
}

static void free_pair(struct pair *pair)
{
	stream_free(pair->puller);
	stream_free(pair->node);
	listener_free(pair->listener);
}

/* As if another thread had closed it just before. */
static void test_calls_after_close(void **state)
{
	char bytes[100] = {0};
	struct pair pair;
	uint64_t began_ms;
	size_t got;

	connect_pair(&pair);
	assert_int_equal(stream_send(pair.puller, bytes, sizeof(bytes)), 0);
	assert_int_equal(stream_receive(pair.node, bytes, sizeof(bytes)), 0);
	stream_close(pair.node);
	began_ms = tool_now_ms();
	assert_string_equal(
	    stream_error_text(stream_receive_some(pair.node, bytes, sizeof(bytes), &got)),
	    "the connection was closed");
	assert_string_equal(stream_error_text(stream_send(pair.node, bytes, sizeof(bytes))),
			    "the connection was closed");
	assert_true(tool_now_ms() - began_ms < 5000);
	free_pair(&pair);
}

static void test_peer_closes(void **state)
{
	char byte;
	struct pair pair;

	connect_pair(&pair);
	stream_close(pair.node);
	assert_string_equal(stream_error_text(stream_receive(pair.puller, &byte, 1)),
			    "the connection was closed");
	free_pair(&pair);
}

UNIT_MAIN(UNIT(test_calls_after_close), UNIT(test_peer_closes))
