/* SPDX-License-Identifier: MIT */
#include "lease.h"

#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

struct lease *lease_new(struct leases *leases, uint32_t id, const struct process *peer,
			struct user *user)
{
	struct lease *lease = calloc(1, sizeof(*lease));

	if (!lease)
		return NULL;
	lease->id = id;
	lease->serial = lease->holder = ++leases->ever;
	lease->all = leases;
	lease->peer = *peer;
	lease->user = user;
	lease->who = (struct identity){.uid = peer->uid, .gid = IDENTITY_NO_GROUP};
	if (getrandom(lease->key, sizeof(lease->key), GRND_NONBLOCK) != sizeof(lease->key))
		memset(lease->key, 0, sizeof(lease->key)); /* can't be resumed */
	lease->watch = -1;
	HASH_ADD(hh, leases->by_id, id, sizeof(lease->id), lease);
	if (!lease->hh.tbl) {
		free(lease);
		return NULL;
	}
	leases->count++;
	user_add(user, LIMIT_connections, 1);
	return lease;
}

void lease_haunt(struct leases *leases, struct lease *lease)
{
	lease->ghost = true;
	leases->ghosts++;
	user_take(lease->user, LIMIT_connections, 1);
}

struct lease *lease_find(const struct leases *leases, uint32_t id)
{
	struct lease *found;

	HASH_FIND(hh, leases->by_id, &id, sizeof(id), found);
	return found && !found->ending ? found : NULL;
}

struct lease *lease_find_key(const struct leases *leases, const uint8_t key[GPUSHARE_LEASE_SIZE])
{
	for (struct lease *lease = leases->by_id; lease; lease = lease->hh.next) {
		if (!lease->ending && !memcmp(lease->key, key, sizeof(lease->key)))
			return lease;
	}
	return NULL;
}

struct lease *lease_free(struct leases *leases, struct lease *lease)
{
	HASH_DEL(leases->by_id, lease);
	leases->count--;
	leases->ghosts -= lease->ghost;
	if (!lease->ghost)
		user_take(lease->user, LIMIT_connections, 1);
	identity_finish(&lease->who);
	free(lease);
	return NULL;
}

/* Of an attachment, both in one. */
#define KEY_SIZE (sizeof(uint64_t[2]))
_Static_assert(offsetof(struct attachment, generation) ==
		   offsetof(struct attachment, holder) + sizeof(uint64_t),
	       "one behind the other");

struct attachment *lease_find_generation(const struct lease *lease, uint64_t generation)
{
	const uint64_t key[] = {lease->holder, generation};
	unsigned int hash;
	struct attachment *found;

	if (!lease->attachments)
		return NULL;
	hash = hash_of(key, KEY_SIZE);
	HASH_FIND_BYHASHVALUE(hh, lease->all->attached[HASH_PART(hash)], key, KEY_SIZE, hash,
			      found);
	return found;
}

struct attachment *lease_find_attachment(const struct lease *lease, const char *name,
					 uint64_t generation)
{
	struct attachment *found = lease_find_generation(lease, generation);

	return found && !strcmp(found->name, name) ? found : NULL;
}

/* It may be there already; a new one has no count. NULL: see lease_set(). */
static struct attachment *attachment_of(struct lease *lease, const char *name, uint64_t generation)
{
	struct attachment *attachment = lease_find_generation(lease, generation);
	unsigned int hash;

	if (attachment)
		return strcmp(attachment->name, name) ? NULL : attachment;
	attachment = calloc(1, sizeof(*attachment) + strlen(name) + 1);
	if (!attachment)
		return NULL;
	attachment->holder = lease->holder;
	attachment->generation = generation;
	attachment->told = lease->round;
	strcpy(attachment->name, name);
	hash = hash_of(&attachment->holder, KEY_SIZE);
	HASH_ADD_BYHASHVALUE(hh, lease->all->attached[HASH_PART(hash)], holder, KEY_SIZE, hash,
			     attachment);
	if (attachment->hh.tbl) {
		DL_APPEND(lease->attachments, attachment);
		return attachment;
	}
	free(attachment);
	return NULL;
}

struct attachment *lease_set(struct leases *leases, struct lease *lease, const char *name,
			     uint64_t generation, unsigned int count)
{
	struct attachment *attachment = attachment_of(lease, name, generation);

	if (!attachment)
		return NULL;
	leases->attachments += count;
	leases->attachments -= attachment->count;
	user_add(lease->user, LIMIT_attachments, count);
	user_take(lease->user, LIMIT_attachments, attachment->count);
	attachment->count = count;
	return attachment;
}

void lease_detach(struct leases *leases, struct lease *lease, struct attachment *attachment,
		  unsigned int count)
{
	attachment->count -= count;
	leases->attachments -= count;
	user_take(lease->user, LIMIT_attachments, count);
	if (attachment->count)
		return;
	if (lease->unheard.attachment == attachment)
		lease->unheard.attachment = attachment->next;
	DL_DELETE(lease->attachments, attachment);
	HASH_DEL(leases->attached[HASH_PART(attachment->hh.hashv)], attachment);
	free(attachment);
}
