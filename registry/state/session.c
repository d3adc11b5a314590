/* SPDX-License-Identifier: MIT */
#include "state/session.h"

#include <stdlib.h>
#include <string.h>

#include "state/entry.h"

static int compare(const void *key, const struct tree_node *node)
{
	uint64_t a = *(const uint64_t *)key, b = TREE_OF(struct attachment, node, node)->generation;

	return (a > b) - (a < b);
}

struct session *session_new(struct sessions *sessions, uint32_t id, const struct process *peer,
			    struct user *user)
{
	struct session *session = calloc(1, sizeof(*session));

	if (!session)
		return NULL;
	session->id = id;
	sessions->ever++;
	session->attachments.compare = compare;
	session->peer = *peer;
	session->user = user;
	session->who = (struct identity){.uid = peer->uid, .gid = IDENTITY_NO_GROUP};
	session->watch = -1;
	HASH_ADD(hh, sessions->by_id, id, sizeof(session->id), session);
	if (!session->hh.tbl) {
		free(session);
		return NULL;
	}
	user_add(user, LIMIT_connections, 1);
	return session;
}

void session_disconnect(struct sessions *sessions, struct session *session)
{
	session->disconnected = true;
	sessions->disconnected++;
	user_take(session->user, LIMIT_connections, 1);
}

bool session_has_nothing(const struct session *session)
{
	return !session->entries && !session->attachments.root && !session->participants;
}

struct session *session_find(const struct sessions *sessions, uint32_t id)
{
	struct session *found;

	HASH_FIND(hh, sessions->by_id, &id, sizeof(id), found);
	return found && !found->ending ? found : NULL;
}

struct session *session_find_key(const struct sessions *sessions,
				 const uint8_t key[GPUSHARE_SESSION_KEY_SIZE])
{
	static const uint8_t none[GPUSHARE_SESSION_KEY_SIZE];

	if (!memcmp(key, none, sizeof(none)))
		return NULL;
	for (struct session *session = sessions->by_id; session; session = session->hh.next) {
		if (!session->ending && !memcmp(session->key, key, sizeof(session->key)))
			return session;
	}
	return NULL;
}

void session_free(struct sessions *sessions, struct session *session)
{
	HASH_DEL(sessions->by_id, session);
	sessions->disconnected--;
	identity_finish(&session->who);
	free(session->list_rest);
	free(session);
}

struct attachment *session_find_attachment(const struct session *session, uint64_t generation)
{
	return TREE_FOUND(struct attachment, node, tree_find(&session->attachments, &generation));
}

struct attachment *session_next(const struct session *session, uint64_t generation)
{
	return TREE_FOUND(struct attachment, node, tree_above(&session->attachments, &generation));
}

static struct attachment *attachment_new(struct session *session, const char *name,
					 uint64_t generation)
{
	struct attachment *attachment = calloc(1, sizeof(*attachment) + strlen(name) + 1);

	if (!attachment)
		return NULL;
	attachment->generation = generation;
	attachment->synced = session->round;
	strcpy(attachment->name, name);
	tree_insert(&session->attachments, &attachment->node, &generation);
	return attachment;
}

struct attachment *session_set(struct session *session, const char *name, uint64_t generation,
			       unsigned int count)
{
	struct attachment *attachment = session_find_attachment(session, generation);

	if (!attachment)
		attachment = attachment_new(session, name, generation);
	if (!attachment)
		return NULL;
	user_take(session->user, LIMIT_attachments, attachment->count);
	user_add(session->user, LIMIT_attachments, count);
	attachment->count = count;
	if (!count)
		tree_remove(&session->attachments, &attachment->node, &generation);
	return attachment;
}

#define ALL (ACCESS_SEE | ACCESS_READ | ACCESS_WRITE | ACCESS_OWN)

unsigned int access_grants(uint32_t owner_uid, uint32_t owner_gid, unsigned int mode,
			   const struct identity *who)
{
	unsigned int bits = mode, rights = 0;

	if (who->uid == 0)
		return ALL;
	if (who->uid == owner_uid) {
		rights = ACCESS_SEE | ACCESS_OWN;
		bits >>= 6;
	} else if (identity_is_in(who, owner_gid)) {
		bits >>= 3;
	}
	if (bits & 4)
		rights |= ACCESS_SEE | ACCESS_READ;
	if (bits & 2)
		rights |= ACCESS_SEE | ACCESS_WRITE;
	return rights;
}

unsigned int access_of(const struct session *session, const struct entry *entry)
{
	if (entry->session && entry->session->ending && !entry_stays(entry->info.flags))
		return 0;
	if (entry->session == session || (session->peer.uid == entry_owner(entry)->uid &&
					  process_is_same(&session->peer, entry_owner(entry))))
		return ALL;
	if (entry_is_staged(entry->info.flags))
		return 0;
	return access_rights(entry, &session->who);
}

unsigned int access_rights(const struct entry *entry, const struct identity *who)
{
	return access_grants(entry_owner(entry)->uid, entry->info.owner_gid, entry->info.mode, who);
}

bool access_sees(const struct session *session, const struct entry *entry)
{
	return access_of(session, entry) & ACCESS_SEE;
}
