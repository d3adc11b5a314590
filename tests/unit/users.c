/* SPDX-License-Identifier: MIT */
#include "unit.h"

#include "users.h"

struct session *owner, *member, *other, *root;
static uint32_t next_id;

struct session *user(uint32_t uid, const uint32_t *group)
{
	uint32_t id = ++next_id;
	struct process process = {
	    .pid = (int32_t)id * 10, .uid = uid, .started = id * 100, .command = "app"};
	struct session *session = registry_connect(peer_registry, id, &process);

	assert_non_null(session);
	session->greeted = true;
	session->who.uid = session->who.gid = uid;
	if (group) {
		session->who.groups = malloc(sizeof(*group));
		assert_non_null(session->who.groups);
		*session->who.groups = *group;
		session->who.count = 1;
	}
	return session;
}

int users_set_up(void **state)
{
	static const uint32_t team = TEAM;

	if (peer_set_up(state))
		return -1;
	next_id = 0;
	peer_registry->is_system = true;
	owner = user(OWNER, &team);
	member = user(MEMBER, &team);
	other = user(OTHER, NULL);
	root = user(0, NULL);
	return 0;
}

request share_of(const char *name, uint32_t mode, const char *group)
{
	request what = peer_share_of(name);

	what.verb.share.mode = mode;
	strcpy(what.verb.share.group, group);
	identity_find_group(group, 0, &peer_registry->group);
	return what;
}

uint64_t share(struct session *session, const char *name, uint32_t mode, const char *group)
{
	request what = share_of(name, mode, group);

	assert_int_equal(peer_ask(session, &what), GPUSHARE_OK);
	assert_int_equal(peer_answer.body.share.mode, mode ? mode : 0600);
	return peer_answer.body.share.generation;
}

void as_vmm(const char *name)
{
	store_find(&peer_registry->store, name)->info.backing = GPUSHARE_BACKING_VMM;
}

int attach(struct session *session, const char *name, bool read_only)
{
	request what = {.which_verb = gpushare_Request_attach_tag};

	strcpy(what.verb.attach.name, name);
	what.verb.attach.read_only = read_only;
	return peer_ask(session, &what);
}

unsigned int listed(struct session *session)
{
	request what = {.which_verb = gpushare_Request_list_tag};

	assert_int_equal(peer_ask(session, &what), GPUSHARE_OK);
	return peer_answer.body.list.buffers_count;
}

int tag(struct session *session, const char *name)
{
	request what = {.which_verb = gpushare_Request_tag_tag};

	strcpy(what.verb.tag.name, name);
	what.verb.tag.tags_count = 1;
	strcpy(what.verb.tag.tags[0].key, "k");
	strcpy(what.verb.tag.tags[0].value, "v");
	return peer_ask(session, &what);
}

int holders(struct session *session, const char *name, uint64_t generation)
{
	request what = {.which_verb = gpushare_Request_holders_tag};

	strcpy(what.verb.holders.name, name);
	what.verb.holders.generation = generation;
	return peer_ask(session, &what);
}

int lookup_of(struct session *session, const char *name, uint64_t generation)
{
	request what = {.which_verb = gpushare_Request_lookup_tag};

	strcpy(what.verb.lookup.name, name);
	what.verb.lookup.generation = generation;
	return peer_ask(session, &what);
}

int order(struct session *session, const char *name, uint64_t generation, uint32_t roles)
{
	request what = {.which_verb = gpushare_Request_order_tag};

	strcpy(what.verb.order.name, name);
	what.verb.order.generation = generation;
	what.verb.order.roles = roles;
	return peer_ask(session, &what);
}

gpushare_StatReply stat_of(struct session *session)
{
	request what = {.which_verb = gpushare_Request_stat_tag};

	assert_int_equal(peer_ask(session, &what), GPUSHARE_OK);
	return peer_answer.body.stat;
}
