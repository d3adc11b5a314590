/* SPDX-License-Identifier: MIT */
/* Tags, who holds what, and what a registry counts, in a registry without a socket. */
#include "unit.h"

#include <stdio.h>
#include <unistd.h>

#include "verbs/check.h"
#include "peer.h"

/* "dtype=f16" and so on, to a NULL; the status. */
static int tag(struct session *session, const char *name, uint64_t generation, ...)
{
	request what = {.which_verb = gpushare_Request_tag_tag};
	gpushare_SetTags *tags = &what.verb.tag;
	const char *text;
	va_list list;

	strcpy(tags->name, name);
	tags->generation = generation;
	va_start(list, generation);
	while ((text = va_arg(list, const char *))) {
		const char *equals = strchr(text, '=');
		gpushare_Tag *to = &tags->tags[tags->tags_count++];

		snprintf(to->key, sizeof(to->key), "%.*s", (int)(equals - text), text);
		snprintf(to->value, sizeof(to->value), "%s", equals + 1);
	}
	va_end(list);
	return peer_ask(session, &what);
}

/* "a=1 b=2" */
static const char *tags_of(struct session *session, const char *name)
{
	static char text[1024];
	const record *found = &peer_answer.body.lookup.buffer;
	size_t length = 0;

	assert_int_equal(peer_lookup(session, name, 0), GPUSHARE_OK);
	*text = '\0';
	for (pb_size_t i = 0; i < found->tags_count; i++)
		length += (size_t)snprintf(text + length, sizeof(text) - length, "%s%s=%s",
					   i ? " " : "", found->tags[i].key, found->tags[i].value);
	return text;
}

static void set_change_and_take_away(void **state)
{
	struct session *owner = peer_new(1, 10, "owner"), *other = peer_new(2, 20, "other");

	(void)state;
	peer_share(owner, "w");
	assert_string_equal(tags_of(other, "w"), "");
	assert_int_equal(tag(owner, "w", 0, "dtype=f16", "shape=2,3", NULL), GPUSHARE_OK);
	assert_string_equal(tags_of(other, "w"), "dtype=f16 shape=2,3");
	/* another process of the same user */
	assert_int_equal(tag(other, "w", 0, "dtype=f32", "step=7", NULL), GPUSHARE_OK);
	assert_string_equal(tags_of(owner, "w"), "dtype=f32 shape=2,3 step=7");
	assert_int_equal(tag(other, "w", 0, "dtype=", "never=", "new= a b =c", NULL), GPUSHARE_OK);
	assert_string_equal(tags_of(owner, "w"), "shape=2,3 step=7 new= a b =c");
	assert_int_equal(tag(other, "w", 0, NULL), GPUSHARE_OK);
	assert_int_equal(tag(other, "w", 0, "step=", "shape=", "new=", NULL), GPUSHARE_OK);
	assert_string_equal(tags_of(owner, "w"), "");
}

static void what_is_refused_changes_nothing(void **state)
{
	struct session *owner = peer_new(1, 10, "owner"), *stranger = peer_new(2, 20, "stranger");
	uint64_t generation = peer_share(owner, "w");

	(void)state;
	assert_int_equal(tag(owner, "w", 0, "a=1", "b=2", "c=3", NULL), GPUSHARE_OK);
	assert_int_equal(tag(owner, "w", 0, "a=9", "d=4", "e=5", NULL), GPUSHARE_E_LIMIT);
	peer_assert_sentence("at most 4");
	assert_int_equal(tag(owner, "w", 0, "a=9", "b c=1", NULL), GPUSHARE_E_INVALID);
	assert_int_equal(tag(owner, "w", 0, "a=9", "=1", NULL), GPUSHARE_E_INVALID);
	assert_int_equal(tag(owner, "w", 0, "a/b=9", NULL), GPUSHARE_E_INVALID);
	assert_int_equal(tag(owner, "w", 0, "a=9", "a=8", NULL), GPUSHARE_E_INVALID);
	assert_int_equal(tag(owner, "w", 0, "a=\x1b[2J", NULL), GPUSHARE_E_INVALID);
	/* C1: a byte, in UTF-8, overlong, and after a cut character */
	assert_int_equal(tag(owner, "w", 0, "a=\x9bm", NULL), GPUSHARE_E_INVALID);
	assert_int_equal(tag(owner, "w", 0, "a=b\xc2\x9bm", NULL), GPUSHARE_E_INVALID);
	assert_int_equal(tag(owner, "w", 0, "a=\xe0\x82\x9bm", NULL), GPUSHARE_E_INVALID);
	assert_int_equal(tag(owner, "w", 0, "a=\xe2\x9bm", NULL), GPUSHARE_E_INVALID);
	assert_int_equal(tag(owner, "w", 0, "a=\xf0\x9f\x9b", NULL), GPUSHARE_E_INVALID);
	peer_assert_sentence("control character");
	assert_int_equal(tag(owner, "w", generation + 1, "a=9", NULL), GPUSHARE_E_NOT_FOUND);
	peer_assert_sentence("another buffer now");
	assert_int_equal(tag(owner, "x", 0, "a=9", NULL), GPUSHARE_E_NOT_FOUND);
	stranger->peer.uid = stranger->who.uid = 1001;
	assert_int_equal(tag(stranger, "w", 0, "a=9", NULL), GPUSHARE_E_NOT_FOUND);
	store_find(&peer_registry->store, "w")->info.mode = 0666;
	assert_int_equal(tag(stranger, "w", 0, "a=9", NULL), GPUSHARE_E_DENIED);
	peer_assert_sentence("uid 1000");
	assert_string_equal(tags_of(owner, "w"), "a=1 b=2 c=3");
	/* one goes, two come: four */
	assert_int_equal(tag(owner, "w", generation, "d=4", "a=", "e=5", NULL), GPUSHARE_OK);
	assert_string_equal(tags_of(owner, "w"), "b=2 c=3 d=4 e=5");
}

static void utf8_is_no_control_character(void **state)
{
	struct session *owner = peer_new(1, 10, "owner");

	(void)state;
	peer_share(owner, "w");
	/* each of them has a byte of 0x80 to 0x9f but the last one, which is no UTF-8 */
	assert_int_equal(tag(owner, "w", 0, "a=\u00c0\u00df", "b=\u65e5\u672c", "c=\U0001f600",
			     "d=\xe9t\xe9", NULL),
			 GPUSHARE_OK);
	assert_string_equal(tags_of(owner, "w"),
			    "a=\u00c0\u00df b=\u65e5\u672c c=\U0001f600 d=\xe9t\xe9");
}

static const gpushare_HoldersReply *holders(struct session *session, const char *name,
					    uint64_t generation, uint32_t after)
{
	request what = {.which_verb = gpushare_Request_holders_tag};

	strcpy(what.verb.holders.name, name);
	what.verb.holders.generation = generation;
	what.verb.holders.after = after;
	assert_int_equal(peer_ask(session, &what), GPUSHARE_OK);
	assert_int_equal(peer_answer.which_body, gpushare_Reply_holders_tag);
	return &peer_answer.body.holders;
}

static void holders_come_in_pages(void **state)
{
	struct session *owner = peer_new(1, 10, "owner");
	const gpushare_HoldersReply *page;
	uint32_t after = 0, seen = 0;

	(void)state;
	peer_share(owner, "w");
	/* connected in another order than that of their numbers */
	for (uint32_t i = 0; i < 40; i++) {
		struct session *session = peer_new(2 + i * 7 % 40, 100 + (int32_t)i, "holder");

		assert_int_equal(peer_attach(session, "w"), GPUSHARE_OK);
	}
	do {
		page = holders(owner, "w", 0, after);
		for (pb_size_t i = 0; i < page->holders_count; i++, seen++) {
			assert_int_equal(page->holders[i].connection, 2 + seen);
			assert_int_equal(page->holders[i].count, 1);
			assert_string_equal(page->holders[i].command, "holder");
			after = page->holders[i].connection;
		}
	} while (page->more);
	assert_int_equal(seen, 40);
	page = holders(owner, "w", 0, 41);
	assert_int_equal(page->holders_count, 0);
	assert_false(page->more);
}

static void holders_of_limbo_and_of_the_owner(void **state)
{
	struct session *owner = peer_new(1, 10, "owner"), *own = peer_new(2, 10, "owner"),
		       *other = peer_new(3, 30, "other");
	uint64_t generation = peer_share(owner, "w");
	const gpushare_HoldersReply *page;
	request what = {.which_verb = gpushare_Request_withdraw_tag};

	(void)state;
	own->peer.started = owner->peer.started;
	assert_int_equal(peer_attach(own, "w"), GPUSHARE_OK);
	assert_int_equal(peer_attach(other, "w"), GPUSHARE_OK);
	assert_int_equal(peer_attach(other, "w"), GPUSHARE_OK);
	page = holders(owner, "w", generation, 0);
	assert_int_equal(page->holders_count, 2);
	assert_true(page->holders[0].own);
	assert_false(page->holders[1].own);
	assert_int_equal(page->holders[1].count, 2);
	assert_int_equal(page->holders[1].pid, 30);
	assert_int_equal(page->holders[1].started, 300);
	strcpy(what.verb.withdraw.name, "w");
	what.verb.withdraw.generation = generation;
	what.verb.withdraw.limbo = true;
	assert_int_equal(peer_ask(owner, &what), GPUSHARE_OK);
	page = holders(owner, "w", generation, 2);
	assert_int_equal(page->holders_count, 1);
	assert_int_equal(page->holders[0].pid, 30);
	what = (request){.which_verb = gpushare_Request_holders_tag};
	strcpy(what.verb.holders.name, "w");
	assert_int_equal(peer_ask(owner, &what), GPUSHARE_E_NOT_FOUND);
}

static uint64_t counted(const gpushare_Count *counts, pb_size_t count, const char *what)
{
	for (pb_size_t i = 0; i < count; i++)
		if (!strcmp(counts[i].what, what))
			return counts[i].count;
	return UINT64_MAX;
}

static void what_was_asked_is_counted(void **state)
{
	struct session *owner = peer_new(1, 10, "owner");
	request what = {.which_verb = gpushare_Request_stat_tag};
	const gpushare_StatReply *stat = &peer_answer.body.stat;

	(void)state;
	peer_share(owner, "a");
	peer_share(owner, "b");
	peer_lookup(owner, "a", 0);
	peer_lookup(owner, "none", 0);
	peer_lookup(owner, "none", 0);
	assert_int_equal(peer_lookup(owner, "later", 1000), HANDLE_WAIT); /* not answered */
	tag(owner, "a", 0, "k =v", NULL);
	assert_int_equal(peer_ask(owner, &what), GPUSHARE_OK);
	assert_int_equal(counted(stat->by_verb, stat->by_verb_count, "share"), 2);
	assert_int_equal(counted(stat->by_verb, stat->by_verb_count, "lookup"), 3);
	assert_int_equal(counted(stat->by_verb, stat->by_verb_count, "tag"), 1);
	assert_int_equal(counted(stat->by_verb, stat->by_verb_count, "attach"), 0);
	assert_int_equal(counted(stat->by_verb, stat->by_verb_count, "unknown"), 0);
	assert_int_equal(counted(stat->by_status, stat->by_status_count, "E_NOT_FOUND"), 2);
	assert_int_equal(counted(stat->by_status, stat->by_status_count, "E_INVALID"), 1);
	assert_int_equal(counted(stat->by_status, stat->by_status_count, "E_LIMIT"), UINT64_MAX);
	assert_int_equal(counted(stat->by_backing, stat->by_backing_count, "ipc"), 2);
	assert_int_equal(stat->by_backing[0].bytes, 256);
	assert_int_equal(counted(stat->by_backing, stat->by_backing_count, "vmm"), 0);
	assert_string_equal(stat->version, GPUSHARE_VERSION);
	assert_int_equal(stat->pid, getpid());
	assert_int_equal(stat->kept_bytes, 0);
	assert_int_equal(stat->kept_limit, (uint64_t)1 << 40);
}

static void the_wire_bounds_them(void **state)
{
	request ask = {.which_verb = gpushare_Request_tag_tag}, *back = malloc(sizeof(*back));
	uint8_t wire[4096];
	size_t size;

	(void)state;
	strcpy(ask.verb.tag.name, "w");
	ask.verb.tag.tags_count = GPUSHARE_TAGS_MAX;
	for (int i = 0; i < GPUSHARE_TAGS_MAX; i++) {
		memset(ask.verb.tag.tags[i].key, 'k', GPUSHARE_TAG_KEY_MAX);
		memset(ask.verb.tag.tags[i].value, 'v', GPUSHARE_TAG_VALUE_MAX);
	}
	assert_int_equal(codec_encode_request(&ask, wire, sizeof(wire), &size), GPUSHARE_OK);
	assert_int_equal(codec_decode_request(wire, size, back), GPUSHARE_OK);
	assert_string_equal(back->verb.tag.tags[3].value, ask.verb.tag.tags[3].value);
	strcpy(ask.verb.tag.name, "w w");
	assert_int_equal(codec_encode_request(&ask, wire, sizeof(wire), &size), GPUSHARE_OK);
	assert_int_equal(codec_decode_request(wire, size, back), GPUSHARE_E_NAME);
	ask = (request){.which_verb = gpushare_Request_holders_tag};
	assert_int_equal(codec_encode_request(&ask, wire, sizeof(wire), &size), GPUSHARE_OK);
	assert_int_equal(codec_decode_request(wire, size, back), GPUSHARE_E_NAME);
	free(back);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
	    cmocka_unit_test_setup_teardown(set_change_and_take_away, peer_set_up, peer_tear_down),
	    cmocka_unit_test_setup_teardown(what_is_refused_changes_nothing, peer_set_up,
					    peer_tear_down),
	    cmocka_unit_test_setup_teardown(utf8_is_no_control_character, peer_set_up,
					    peer_tear_down),
	    cmocka_unit_test_setup_teardown(holders_come_in_pages, peer_set_up, peer_tear_down),
	    cmocka_unit_test_setup_teardown(holders_of_limbo_and_of_the_owner, peer_set_up,
					    peer_tear_down),
	    cmocka_unit_test_setup_teardown(what_was_asked_is_counted, peer_set_up, peer_tear_down),
	    cmocka_unit_test(the_wire_bounds_them),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
