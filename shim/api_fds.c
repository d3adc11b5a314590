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
	uint8_t ticket[1][GPUSHARE_TICKET_SIZE];
	int status;

	pthread_mutex_lock(&session->lock);
	status = client_deposit(session->client, &fd, 1, ticket);
	if (status)
		fail(session->client, status);
	else
		memcpy(out_ticket, ticket, sizeof(ticket));
	pthread_mutex_unlock(&session->lock);
	return status;
}

int session_withdraw(struct gpushare_session *session, const uint8_t ticket[GPUSHARE_TICKET_SIZE],
		     int *out_fd)
{
	int status;

	pthread_mutex_lock(&session->lock);
	status = client_withdraw(session->client, ticket, out_fd);
	if (status)
		fail(session->client, status);
	pthread_mutex_unlock(&session->lock);
	return status;
}
