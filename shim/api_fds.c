/* SPDX-License-Identifier: MIT */
/* File descriptors to and from the registry, for one session. */
#include "api_session.h"
#include "client_fds.h"

#include <string.h>

static int fail(const struct client *client, int status)
{
	return api_fail(status, "%s", *client->why ? client->why : status_text(status));
}

int session_deposit(struct gpushare_session *session, int fd,
		    uint8_t out_ticket[GPUSHARE_TICKET_SIZE])
{
	int64_t until_ms = session_deadline(session);
	uint8_t ticket[1][GPUSHARE_TICKET_SIZE];
	int status;

	if (!session_try_client(session, until_ms))
		return session_fail_client(session);
	status = client_deposit(session->client, &fd, 1, ticket);
	if (status)
		fail(session->client, status);
	else
		session_answered(session);
	if (!status)
		memcpy(out_ticket, ticket, sizeof(ticket));
	session_give_client(session);
	return status;
}

int session_withdraw(struct gpushare_session *session, const uint8_t ticket[GPUSHARE_TICKET_SIZE],
		     int *out_fd)
{
	int64_t until_ms = session_deadline(session);
	int status;

	if (!session_try_client(session, until_ms))
		return session_fail_client(session);
	status = client_withdraw(session->client, ticket, out_fd);
	if (status)
		fail(session->client, status);
	else
		session_answered(session);
	session_give_client(session);
	return status;
}
