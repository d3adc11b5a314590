/* SPDX-License-Identifier: MIT */
#include "session.h"

#include <stdlib.h>
#include <string.h>

struct session *session_new(struct sessions *sessions, uint32_t id, const struct process *peer,
			    struct user *user)
{
	struct session *session = calloc(1, sizeof(*session));

	if (!session)
		return NULL;
	session->id = id;
	session->serial = session->holder = ++sessions->ever;
	session->all = sessions;
	session->peer = *peer;
	session->user = user;
	session->who = (struct identity){.uid = peer->uid, .gid = IDENTITY_NO_GROUP};
	session->watch = -1;
	HASH_ADD(hh, sessions->by_id, id, sizeof(session->id), session);
	if (!session->hh.tbl) {
		free(session);
		return NULL;
	}
	sessions->count++;
	user_add(user, LIMIT_connections, 1);
	return session;
}

void session_disconnect(struct sessions *sessions, struct session *session)
{
	session->disconnected = true;
	sessions->disconnected++;
	user_take(session->user, LIMIT_connections, 1);
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
	for (struct session *session = sessions->by_id; session; session = session->hh.next) {
		if (!session->ending && !memcmp(session->key, key, sizeof(session->key)))
			return session;
	}
	return NULL;
}

struct session *session_free(struct sessions *sessions, struct session *session)
{
	HASH_DEL(sessions->by_id, session);
	sessions->count--;
	sessions->disconnected -= session->disconnected;
	if (!session->disconnected)
		user_take(session->user, LIMIT_connections, 1);
	identity_finish(&session->who);
	free(session);
	return NULL;
}

/* Of an attachment, both in one. */
#define KEY_SIZE (sizeof(uint64_t[2]))
_Static_assert(offsetof(struct attachment, generation) ==
		   offsetof(struct attachment, holder) + sizeof(uint64_t),
	       "one behind the other");

struct attachment *session_find_generation(const struct session *session, uint64_t generation)
{
	const uint64_t key[] = {session->holder, generation};
	unsigned int hash;
	struct attachment *found;

	if (!session->attachments)
		return NULL;
	hash = hash_of(key, KEY_SIZE);
	HASH_FIND_BYHASHVALUE(hh, session->all->attached[HASH_PART(hash)], key, KEY_SIZE, hash,
			      found);
	return found;
}

struct attachment *session_find_attachment(const struct session *session, const char *name,
					   uint64_t generation)
{
	struct attachment *found = session_find_generation(session, generation);

	return found && !strcmp(found->name, name) ? found : NULL;
}

/* It may be there already; a new one has no count. NULL: see session_set(). */
static struct attachment *attachment_of(struct session *session, const char *name,
					uint64_t generation)
{
	struct attachment *attachment = session_find_generation(session, generation);
	unsigned int hash;

	if (attachment)
		return strcmp(attachment->name, name) ? NULL : attachment;
	attachment = calloc(1, sizeof(*attachment) + strlen(name) + 1);
	if (!attachment)
		return NULL;
	attachment->holder = session->holder;
	attachment->generation = generation;
	attachment->told = session->round;
	strcpy(attachment->name, name);
	hash = hash_of(&attachment->holder, KEY_SIZE);
	HASH_ADD_BYHASHVALUE(hh, session->all->attached[HASH_PART(hash)], holder, KEY_SIZE, hash,
			     attachment);
	if (attachment->hh.tbl) {
		DL_APPEND(session->attachments, attachment);
		return attachment;
	}
	free(attachment);
	return NULL;
}

struct attachment *session_set(struct sessions *sessions, struct session *session, const char *name,
			       uint64_t generation, unsigned int count)
{
	struct attachment *attachment = attachment_of(session, name, generation);

	if (!attachment)
		return NULL;
	sessions->attachments += count;
	sessions->attachments -= attachment->count;
	user_add(session->user, LIMIT_attachments, count);
	user_take(session->user, LIMIT_attachments, attachment->count);
	attachment->count = count;
	return attachment;
}

void session_detach(struct sessions *sessions, struct session *session,
		    struct attachment *attachment, unsigned int count)
{
	attachment->count -= count;
	sessions->attachments -= count;
	user_take(session->user, LIMIT_attachments, count);
	if (attachment->count)
		return;
	if (session->unheard.attachment == attachment)
		session->unheard.attachment = attachment->next;
	DL_DELETE(session->attachments, attachment);
	HASH_DEL(sessions->attached[HASH_PART(attachment->hh.hashv)], attachment);
}
