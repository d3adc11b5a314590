/* SPDX-License-Identifier: MIT */
#include "vault.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/random.h>
#include <unistd.h>

#include "clock.h"
#include "registry.h"
#include "watch.h"

/* pid, uid and start time: who a guest is. */
#define WHO_SIZE offsetof(struct process, command)
_Static_assert(WHO_SIZE == 16, "no padding, which would not compare");

void vault_init(struct vault *vault, struct registry *registry)
{
	*vault = (struct vault){
	    .registry = registry,
	    .guest_limit = LIMIT_FDS_PER_PROCESS,
	    .ticket_ns = LIMIT_TICKET_MS * NS_PER_MS,
	    .wake = -1,
	};
}

static void wake(const struct vault *vault)
{
	if (vault->wake >= 0)
		eventfd_write(vault->wake, 1);
}

void vault_release(struct vault *vault, struct held *held)
{
	if (--held->references)
		return;
	held->next = vault->unneeded;
	vault->unneeded = held;
	wake(vault);
}

struct held *vault_take_unneeded(struct vault *vault)
{
	struct held *list = vault->unneeded;

	for (const struct held *held = list; held; held = held->next) {
		vault->count--;
		if (held->user)
			user_take(held->user, LIMIT_descriptors, 1);
	}
	vault->unneeded = NULL;
	return list;
}

void held_close(struct held *list)
{
	while (list) {
		struct held *next = list->next;

		close(list->fd);
		free(list);
		list = next;
	}
}

static struct guest *guest_find(const struct vault *vault, const struct process *peer)
{
	struct guest *found;

	HASH_FIND(hh, vault->guests, peer, WHO_SIZE, found);
	return found;
}

/* The guest of that process, who may be new here. NULL: out of memory. */
static struct guest *guest_of(struct vault *vault, const struct process *peer)
{
	struct guest *guest = guest_find(vault, peer);

	if (guest)
		return guest;
	guest = calloc(1, sizeof(*guest));
	if (!guest)
		return NULL;
	guest->peer = *peer;
	guest->id = ++vault->last_id;
	guest->watch = -1;
	HASH_ADD_KEYPTR(hh, vault->guests, &guest->peer, WHO_SIZE, guest);
	if (guest->hh.tbl)
		return guest;
	free(guest);
	return NULL;
}

static void guest_part(struct vault *vault, struct guest *guest)
{
	if (guest->connections || guest->tickets)
		return;
	HASH_DEL(vault->guests, guest);
	watch_remove(guest->watch);
	free(guest);
}

static void ticket_free(struct vault *vault, struct ticket *ticket)
{
	HASH_DEL(vault->by_key, ticket);
	DL_DELETE(vault->by_age, ticket);
	ticket->guest->tickets--;
	free(ticket);
}

/* With its descriptor, unless somebody else has that too. */
static void ticket_drop(struct vault *vault, struct ticket *ticket)
{
	struct guest *guest = ticket->guest;

	vault_release(vault, ticket->held);
	ticket_free(vault, ticket);
	guest_part(vault, guest);
}

/* One reference more, and a ticket for it. NULL: no memory, or no random bytes. */
static struct ticket *ticket_new(struct vault *vault, struct guest *guest, struct held *held,
				 enum ticket_use use, int64_t now_ns)
{
	struct ticket *ticket = calloc(1, sizeof(*ticket));

	if (!ticket)
		return NULL;
	ticket->use = use;
	ticket->guest = guest;
	ticket->held = held;
	ticket->deadline_ns = now_ns + vault->ticket_ns;
	if (getrandom(ticket->key, sizeof(ticket->key), GRND_NONBLOCK) != sizeof(ticket->key))
		goto fail;
	HASH_ADD(hh, vault->by_key, key, sizeof(ticket->key), ticket);
	if (!ticket->hh.tbl)
		goto fail;
	DL_APPEND(vault->by_age, ticket);
	guest->tickets++;
	held->references++;
	wake(vault);
	return ticket;
fail:
	free(ticket);
	return NULL;
}

static struct ticket *ticket_find(const struct vault *vault, const struct guest *guest,
				  const uint8_t key[GPUSHARE_TICKET_SIZE], enum ticket_use use)
{
	struct ticket *found;

	HASH_FIND(hh, vault->by_key, key, GPUSHARE_TICKET_SIZE, found);
	return found && found->guest == guest && found->use == use ? found : NULL;
}

/* Its reference becomes the caller's. */
static struct held *ticket_use(struct vault *vault, struct ticket *ticket)
{
	struct held *held = ticket->held;

	ticket_free(vault, ticket);
	return held;
}

struct guest *vault_enter(struct vault *vault, const struct process *peer)
{
	struct guest *guest = guest_of(vault, peer);

	if (guest)
		guest->connections++;
	return guest;
}

void vault_leave(struct vault *vault, struct guest *guest)
{
	guest->connections--;
	guest_part(vault, guest);
}

void vault_bury(struct vault *vault, uint32_t guest_id)
{
	struct ticket *ticket, *after;

	for (struct guest *guest = vault->guests; guest; guest = guest->hh.next)
		guest->ended |= guest->id == guest_id;
	DL_FOREACH_SAFE(vault->by_age, ticket, after)
	{
		if (ticket->guest->id == guest_id)
			ticket_drop(vault, ticket);
	}
}

void vault_end_lease(struct vault *vault, uint32_t lease)
{
	struct ticket *ticket, *after;

	DL_FOREACH_SAFE(vault->by_age, ticket, after)
	{
		if (ticket->use == TICKET_FETCH && ticket->lease == lease)
			ticket_drop(vault, ticket);
	}
}

struct held *vault_keep(struct vault *vault, struct user *user, int fd)
{
	struct held *held = calloc(1, sizeof(*held));

	if (!held)
		return NULL;
	held->fd = fd;
	held->references = 1;
	held->user = user;
	vault->count++;
	if (user)
		user_add(user, LIMIT_descriptors, 1);
	return held;
}

static struct ticket *deposit_one(struct vault *vault, struct guest *guest, struct user *user,
				  int fd, int64_t now_ns)
{
	struct held *held = calloc(1, sizeof(*held));
	struct ticket *ticket;

	if (!held)
		return NULL;
	held->fd = fd;
	held->user = user;
	ticket = ticket_new(vault, guest, held, TICKET_SHARE, now_ns);
	if (!ticket)
		free(held);
	return ticket;
}

/* As if they had never been taken in: the descriptors stay the caller's. */
static void deposit_undo(struct vault *vault, struct guest *guest,
			 uint8_t (*tickets)[GPUSHARE_TICKET_SIZE], size_t count)
{
	while (count-- > 0)
		free(ticket_use(vault, ticket_find(vault, guest, tickets[count], TICKET_SHARE)));
}

int vault_deposit(struct vault *vault, struct guest *guest, const int *fds, size_t count,
		  int64_t now_ns, uint8_t (*out_tickets)[GPUSHARE_TICKET_SIZE])
{
	struct user *user = user_of(&vault->registry->users, guest->peer.uid);

	if (guest->ended)
		return GPUSHARE_E_OWNER_GONE;
	if (!user)
		return GPUSHARE_E_NO_MEMORY;
	if (guest->tickets + count > vault->guest_limit ||
	    vault->registry->users.held[LIMIT_connections] + vault->count + count >
		vault->registry->limits.together ||
	    limit_check(vault->registry, user, LIMIT_descriptors, count, NULL))
		return GPUSHARE_E_LIMIT;
	for (size_t i = 0; i < count; i++) {
		struct ticket *ticket = deposit_one(vault, guest, user, fds[i], now_ns);

		if (!ticket) {
			deposit_undo(vault, guest, out_tickets, i);
			return GPUSHARE_E_NO_MEMORY;
		}
		memcpy(out_tickets[i], ticket->key, sizeof(ticket->key));
	}
	vault->count += count;
	user_add(user, LIMIT_descriptors, count);
	return GPUSHARE_OK;
}

struct held *vault_claim(struct vault *vault, const struct process *peer,
			 const uint8_t ticket[GPUSHARE_TICKET_SIZE])
{
	struct guest *guest = guest_find(vault, peer);
	struct ticket *found = guest ? ticket_find(vault, guest, ticket, TICKET_SHARE) : NULL;
	struct held *held;

	if (!found)
		return NULL;
	held = ticket_use(vault, found);
	guest_part(vault, guest);
	return held;
}

int vault_offer(struct vault *vault, const struct process *peer, uint32_t lease, struct held *held,
		int64_t now_ns, uint8_t out_ticket[GPUSHARE_TICKET_SIZE])
{
	struct guest *guest = guest_of(vault, peer);
	struct ticket *ticket = NULL;
	bool full = guest && guest->tickets >= vault->guest_limit;

	if (guest && !full)
		ticket = ticket_new(vault, guest, held, TICKET_FETCH, now_ns);
	if (ticket) {
		ticket->lease = lease;
		memcpy(out_ticket, ticket->key, sizeof(ticket->key));
		return GPUSHARE_OK;
	}
	if (guest)
		guest_part(vault, guest);
	return full ? GPUSHARE_E_LIMIT : GPUSHARE_E_NO_MEMORY;
}

bool vault_redeem(struct vault *vault, const struct guest *guest,
		  uint8_t (*tickets)[GPUSHARE_TICKET_SIZE], size_t count, struct held **out_held)
{
	for (size_t i = 0; i < count; i++) {
		if (!ticket_find(vault, guest, tickets[i], TICKET_FETCH))
			return false;
		for (size_t j = 0; j < i; j++) {
			if (!memcmp(tickets[i], tickets[j], sizeof(tickets[i])))
				return false;
		}
	}
	for (size_t i = 0; i < count; i++)
		out_held[i] =
		    ticket_use(vault, ticket_find(vault, guest, tickets[i], TICKET_FETCH));
	return true;
}

int64_t vault_expire(struct vault *vault, int64_t now_ns)
{
	while (vault->by_age && vault->by_age->deadline_ns <= now_ns)
		ticket_drop(vault, vault->by_age);
	return vault->by_age ? vault->by_age->deadline_ns : INT64_MAX;
}

void vault_finish(struct vault *vault)
{
	vault_expire(vault, INT64_MAX);
	held_close(vault_take_unneeded(vault));
}
