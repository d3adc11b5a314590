/* SPDX-License-Identifier: MIT */
#include "unit.h"

#include "fuzz/freed.h"
#include "peer.h"
#include "raw_fds.h"

struct registry *peer_registry;
reply peer_answer;
int peer_goes = -1, peer_came = -1;

#define PIECES_MOST 10000 /* then the request counts as one that never ends */

struct session *peer_new(uint32_t id, int32_t pid, const char *command)
{
	struct process process = {.pid = pid, .uid = 1000, .started = (uint64_t)pid * 10};
	struct session *session;

	strcpy(process.command, command);
	session = registry_connect(peer_registry, id, &process);
	assert_non_null(session);
	session->greeted = true;
	return session;
}

int peer_set_up(void **state)
{
	peer_registry = registry_new();
	return peer_registry ? 0 : -1;
}

int peer_tear_down(void **state)
{
	registry_free(peer_registry);
	peer_registry = NULL;
	return 0;
}

void peer_end(struct session *session)
{
	state_leave(&peer_registry->state, session);
	registry_end(peer_registry, INT64_MAX);
}

int peer_ask(struct session *session, const request *what)
{
	struct users *users = &peer_registry->state.users;
	struct passing passing = {.came = NULL};
	struct ask ask = {.session = session, .request = *what};
	int status, fd = peer_goes;

	peer_goes = peer_came = -1;
	if (fd >= 0 && !(passing.came = fdref_new(users, session->user, fd))) {
		close(fd);
		return peer_answer.status = GPUSHARE_E_NO_MEMORY;
	}
	peer_registry->passing = &passing;
	do /* how many pieces there are depends on the machine */
		status = handle_request(peer_registry, &ask);
	while (status == HANDLE_MORE && ++ask.waits < PIECES_MOST);
	peer_answer = peer_registry->reply;
	peer_registry->passing = NULL;
	peer_came = passing.goes ? passing.goes->fd : -1;
	if (passing.came)
		fdref_release(users, passing.came);
	if (passing.goes)
		fdref_release(users, passing.goes);
	assert_int_equal(status, peer_answer.status);
	return status;
}

static int say(struct session *session, request what)
{
	return peer_ask(session, &what);
}

uint64_t peer_share(struct session *session, const char *name)
{
	assert_int_equal(say(session, raw_share(name)), GPUSHARE_OK);
	return peer_answer.body.share.generation;
}

int peer_attach(struct session *session, const char *name)
{
	return say(session, raw_attach(name));
}

int peer_withdraw(struct session *session, const char *name, uint64_t generation)
{
	return say(session, raw_withdraw(name, generation));
}
