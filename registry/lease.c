/* SPDX-License-Identifier: MIT */
#include "lease.h"

#include <stdlib.h>
#include <string.h>

struct lease *lease_new(struct leases *leases, uint32_t id, const struct process *peer)
{
	struct lease *lease = calloc(1, sizeof(*lease));

	if (!lease)
		return NULL;
	lease->id = id;
	lease->peer = *peer;
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

struct lease *lease_free(struct leases *leases, struct lease *lease)
{
	HASH_DEL(leases->by_id, lease);
	leases->count--;
	free(lease);
	return NULL;
}

struct attachment *lease_find_attachment(const struct lease *lease, const char *name,
					 uint64_t generation)
{
	struct attachment *found;

	HASH_FIND(hh, lease->attachments, &generation, sizeof(generation), found);
	return found && !strcmp(found->name, name) ? found : NULL;
}

bool lease_attach(struct leases *leases, struct lease *lease, const char *name, uint64_t generation,
		  bool own)
{
	struct attachment *attachment = lease_find_attachment(lease, name, generation);

	if (!attachment) {
		attachment = calloc(1, sizeof(*attachment) + strlen(name) + 1);
		if (!attachment)
			return false;
		attachment->generation = generation;
		attachment->own = own;
		strcpy(attachment->name, name);
		HASH_ADD(hh, lease->attachments, generation, sizeof(generation), attachment);
		if (!attachment->hh.tbl) {
			free(attachment);
			return false;
		}
	}
	attachment->count++;
	leases->attachments++;
	return true;
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
