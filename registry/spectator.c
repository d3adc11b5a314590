/* SPDX-License-Identifier: MIT */
#include "spectator.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "access.h"
#include "clock.h"

#define SERIAL_ROOM 11 /* of a Notice's serial: a tag, and ten bytes of a number */

struct spectator *spectator_new(int fd, uint32_t id, const struct identity *who)
{
	struct spectator *spectator = calloc(1, sizeof(*spectator));
	uint8_t greeting[SP_GREETING_SIZE];

	if (!spectator)
		return NULL;
	spectator->fd = fd;
	spectator->id = id;
	spectator->who = *who;
	spectator->begun_ns = clock_ns();
	/* A new socket takes that; one that does not is found out when it says nothing. */
	sp_greeting(greeting, SP_PUB);
	(void)!send(fd, greeting, sizeof(greeting), MSG_NOSIGNAL | MSG_DONTWAIT);
	return spectator;
}

static struct spectator_event take(struct spectator *spectator)
{
	struct spectator_event oldest = spectator->waiting[spectator->first];

	spectator->first = (spectator->first + 1) % LIMIT_EVENTS;
	spectator->count--;
	return oldest;
}

struct spectator *spectator_free(struct spectator *spectator)
{
	while (spectator->count)
		event_release(take(spectator).event);
	identity_finish(&spectator->who);
	close(spectator->fd);
	free(spectator->frame);
	free(spectator);
	return NULL;
}

bool spectator_hear(struct spectator *spectator)
{
	size_t left = SP_GREETING_SIZE - spectator->heard;
	uint8_t talk;
	ssize_t got = recv(spectator->fd, left ? spectator->greeting + spectator->heard : &talk,
			   left ? left : sizeof(talk), MSG_DONTWAIT);

	if (got < 0)
		return errno == EAGAIN || errno == EINTR;
	if (!got || !left)
		return false;
	spectator->heard += (size_t)got;
	return !spectator_is_greeted(spectator) || sp_greeting_is(spectator->greeting, SP_SUB);
}

static bool may_see(const struct spectator *spectator, const struct event *event)
{
	const struct known info = {
	    .owner_uid = event->uid, .owner_gid = event->gid, .mode = event->mode};

	return !event->is_about || access_rights(&info, &spectator->who) & ACCESS_SEE;
}

/* The oldest makes room; what is on its way is not among them. */
void spectator_tell(struct spectator *spectator, struct event *event)
{
	if (!may_see(spectator, event)) {
		spectator->hidden++;
		return;
	}
	if (spectator->count == LIMIT_EVENTS)
		event_release(take(spectator).event);
	event->users++;
	spectator->waiting[(spectator->first + spectator->count++) % LIMIT_EVENTS] =
	    (struct spectator_event){event, event->serial - spectator->hidden};
}

/* Of two values of one field the last one counts: what it may not see leaves no gap. */
static size_t put_serial(uint8_t *to, uint64_t serial)
{
	size_t size = 0;

	to[size++] = gpushare_Notice_serial_tag << 3;
	for (; serial > 0x7f; serial >>= 7)
		to[size++] = (uint8_t)(serial | 0x80);
	to[size++] = (uint8_t)serial;
	return size;
}

/* From what waits. False: nothing does, or there is no memory for it now. */
static bool next_frame(struct spectator *spectator)
{
	uint8_t header[SP_HEADER_SIZE + SP_ID_SIZE];
	struct spectator_event next;
	size_t size;

	if (!spectator->count)
		return false;
	next = spectator->waiting[spectator->first];
	spectator->frame = malloc(SP_HEADER_SIZE + next.event->size + SERIAL_ROOM);
	if (!spectator->frame)
		return false;
	take(spectator);
	size = next.event->size;
	memcpy(spectator->frame + SP_HEADER_SIZE, next.event->bytes, size);
	size += put_serial(spectator->frame + SP_HEADER_SIZE + size, next.serial);
	sp_header(header, 0, size - SP_ID_SIZE); /* PUB's have no id */
	memcpy(spectator->frame, header, SP_HEADER_SIZE);
	spectator->size = SP_HEADER_SIZE + size;
	event_release(next.event);
	return true;
}

bool spectator_send(struct spectator *spectator)
{
	bool was_full = spectator->is_full;

	spectator->is_full = false;
	while (spectator->frame || next_frame(spectator)) {
		ssize_t sent = send(spectator->fd, spectator->frame + spectator->sent,
				    spectator->size - spectator->sent, MSG_NOSIGNAL | MSG_DONTWAIT);

		if (sent < 0 && errno == EINTR)
			continue;
		spectator->is_full = sent < 0 && errno == EAGAIN;
		if (spectator->is_full && !was_full)
			spectator->full_ns = clock_ns();
		if (sent < 0)
			return spectator->is_full;
		was_full = false;
		spectator->sent += (size_t)sent;
		if (spectator->sent < spectator->size)
			continue;
		free(spectator->frame);
		spectator->frame = NULL;
		spectator->sent = 0;
	}
	return true;
}
