/* SPDX-License-Identifier: MIT */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
/* cmocka wants the four above first */
#include <cmocka.h>

#include "peer.h"

struct registry *peer_registry;
reply peer_answer;

struct lease *peer_new(uint32_t id, int32_t pid, const char *command)
{
	struct process process = {.pid = pid, .uid = 1000, .started = (uint64_t)pid * 10};
	struct lease *lease;

	strcpy(process.command, command);
	lease = registry_connect(peer_registry, id, &process);
	assert_non_null(lease);
	lease->greeted = true;
	return lease;
}

int peer_set_up(void **state)
{
	(void)state;
	peer_registry = registry_new(NULL);
	return peer_registry ? 0 : -1;
}

int peer_tear_down(void **state)
{
	(void)state;
	peer_registry = registry_free(peer_registry);
	return 0;
}

int peer_ask(struct lease *lease, const request *what)
{
	int status = handle_request(peer_registry, lease, what, &peer_answer);

	assert_int_equal(status, peer_answer.status);
	return status;
}

request peer_share_of(const char *name)
{
	request what = {.which_verb = gpushare_Request_share_tag};
	gpushare_Share *share = &what.verb.share;

	share->has_buffer = true;
	strcpy(share->buffer.name, name);
	share->buffer.size = 100;
	share->buffer.base_offset = 28;
	share->buffer.base_size = 128;
	share->buffer.backing = GPUSHARE_BACKING_IPC;
	share->buffer.address = 0x7f0000001000;
	memset(share->buffer.device_uuid, 0xd, sizeof(share->buffer.device_uuid));
	memset(share->handle, 0xab, sizeof(share->handle));
	return what;
}

uint64_t peer_share(struct lease *lease, const char *name)
{
	request what = peer_share_of(name);

	assert_int_equal(peer_ask(lease, &what), GPUSHARE_OK);
	return peer_answer.body.share.generation;
}

int peer_lookup(struct lease *lease, const char *name, uint32_t wait_ms)
{
	request what = {.which_verb = gpushare_Request_lookup_tag};

	strcpy(what.verb.lookup.name, name);
	what.verb.lookup.wait_ms = wait_ms;
	return peer_ask(lease, &what);
}

int peer_attach(struct lease *lease, const char *name)
{
	request what = {.which_verb = gpushare_Request_attach_tag};

	strcpy(what.verb.attach.name, name);
	return peer_ask(lease, &what);
}

int peer_detach(struct lease *lease, const char *name, uint64_t generation)
{
	request what = {.which_verb = gpushare_Request_detach_tag};

	strcpy(what.verb.detach.name, name);
	what.verb.detach.generation = generation;
	return peer_ask(lease, &what);
}

int peer_withdraw(struct lease *lease, const char *name, uint64_t generation)
{
	request what = {.which_verb = gpushare_Request_withdraw_tag};

	strcpy(what.verb.withdraw.name, name);
	what.verb.withdraw.generation = generation;
	return peer_ask(lease, &what);
}

uint32_t peer_attachers(struct lease *lease, const char *name)
{
	assert_int_equal(peer_lookup(lease, name, 0), GPUSHARE_OK);
	return peer_answer.body.lookup.buffer.attachers;
}

void peer_assert_sentence(const char *part)
{
	if (!strstr(peer_answer.message, part))
		fail_msg("\"%s\" is not in: %s", part, peer_answer.message);
}
