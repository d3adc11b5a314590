/* SPDX-License-Identifier: MIT */
/* Streams between nodes: bytes, and the end. */
#include "unit.h"

#include <sys/socket.h>

#include "../../tools/node/stream.h"

struct pair {
	int listener;
	struct stream *puller, *node;
};

static void connect_pair(struct pair *pair)
{
	char why[NODES_WHY_MAX], text[64];
	struct address address;
	int port;

	assert_true(address_parse("tcp://127.0.0.1:0", &address));
	assert_true(address_look_up(&address, why));
	pair->listener = stream_listen(&address, &port, why);
	assert_true(pair->listener >= 0);
	snprintf(text, sizeof(text), "tcp://127.0.0.1:%d", port);
	assert_true(address_parse(text, &address));
	assert_true(address_look_up(&address, why));
	pair->puller = stream_dial(&address, "", why);
	assert_non_null(pair->puller);
	pair->node = stream_of(accept(pair->listener, NULL, NULL), NULL, why);
	assert_non_null(pair->node);
}

static void test_peer_closes(void **state)
{
	char byte = 7;
	struct pair pair;

	connect_pair(&pair);
	assert_int_equal(stream_send(pair.puller, &byte, 1), 0);
	assert_true(stream_is_ready(pair.node, 1000));
	byte = 0;
	assert_int_equal(stream_receive(pair.node, &byte, 1), 0);
	assert_int_equal(byte, 7);
	assert_false(stream_is_ready(pair.puller, 0));
	stream_free(pair.node);
	assert_string_equal(stream_error_text(stream_receive(pair.puller, &byte, 1)),
			    "the connection was closed");
	stream_free(pair.puller);
	close(pair.listener);
}

UNIT_MAIN(UNIT(test_peer_closes))
