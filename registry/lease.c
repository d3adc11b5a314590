/* SPDX-License-Identifier: MIT */
#include "lease.h"

#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

struct lease *lease_new(struct leases *leases, uint32_t id, const struct process *peer)
{
	struct lease *lease = calloc(1, sizeof(*lease));

	if (!lease)
		return NULL;
	lease->id = id;
	lease->peer = *peer;
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
	return lease;
}

struct lease *lease_find(const struct leases *leases, uint32_t id)
{
	struct lease *found;

	HASH_FIND(hh, leases->by_id, &id, sizeof(id), found);
	return found;
}

struct lease *lease_find_key(const struct leases *leases, const uint8_t key[GPUSHARE_LEASE_SIZE])
{
	for (struct lease *lease = leases->by_id; lease; lease = lease->hh.next) {
		if (!memcmp(lease->key, key, sizeof(lease->key)))
			return lease;
	}
	return NULL;
}

struct lease *lease_free(struct leases *leases, struct lease *lease)
{
	HASH_DEL(leases->by_id, lease);
	leases->count--;
	leases->ghosts -= lease->ghost;
	identity_finish(&lease->who);
	free(lease);
	return NULL;
}

struct attachment *lease_find_generation(const struct lease *lease, uint64_t generation)
{
	struct attachment *found;

	HASH_FIND(hh, lease->attachments, &generation, sizeof(generation), found);
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

	if (attachment)
		return strcmp(attachment->name, name) ? NULL : attachment;
	attachment = calloc(1, sizeof(*attachment) + strlen(name) + 1);
	if (!attachment)
		return NULL;
	attachment->generation = generation;
	attachment->told = lease->retelling;
	strcpy(attachment->name, name);
	HASH_ADD(hh, lease->attachments, generation, sizeof(generation), attachment);
	if (attachment->hh.tbl)
		return attachment;
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
	attachment->count = count;
	return attachment;
}

void lease_detach(struct leases *leases, struct lease *lease, struct attachment *attachment,
		  unsigned int count)
{
	attachment->count -= count;
	leases->attachments -= count;
	if (attachment->count)
		return;
	HASH_DEL(lease->attachments, attachment);
	free(attachment);
}
