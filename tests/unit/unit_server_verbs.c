/* SPDX-License-Identifier: MIT */
/* The real daemon's requests: what it refuses, counts and lists, and its sentences. */
#include "unit.h"

#include <fnmatch.h>

#include "raw_peer.h"
#include "state/limit.h"

static int owner, other; /* two processes of one user */

static int set_up(void **state)
{
	if (raw_set_up(state))
		return -1;
	owner = raw_peer(0, 0);
	other = raw_connect(&raw_here);
	return 0;
}

static int tear_down(void **state)
{
	raw_peers_end();
	close(other);
	return raw_tear_down(state);
}

static void hello_is_wanted_first(void **state)
{
	int fd = raw_greet(&raw_here);
	request hello = raw_hello_request();

	assert_int_equal(raw_say(fd, raw_lookup("x", 0)), GPUSHARE_E_PROTOCOL);
	raw_assert_sentence("hello");
	hello.verb.hello.protocol = 99;
	assert_int_equal(raw_say(fd, hello), GPUSHARE_E_NOT_SUPPORTED);
	raw_assert_sentence("protocol 99");
	hello.verb.hello.protocol = GPUSHARE_PROTOCOL;
	assert_int_equal(raw_say(fd, hello), GPUSHARE_OK);
	assert_int_equal(raw_answer.body.hello.pid, raw_here.pid);
	assert_int_equal(raw_say(fd, raw_lookup("x", 0)), GPUSHARE_E_NOT_FOUND);
	close(fd);
}

static void a_handle_leaves_only_to_who_attaches(void **state)
{
	request asks[] = {raw_lookup("x", 0),
			  {.which_verb = gpushare_Request_list_tag},
			  {.which_verb = gpushare_Request_stat_tag},
			  raw_share("x")};
	uint8_t wire[SP_HEADER_SIZE + SP_ID_SIZE + gpushare_Reply_size], needle[8];
	int fd = raw_connect(&raw_here);

	memset(needle, RAW_HANDLE_BYTE, sizeof(needle));
	assert_int_equal(raw_say(fd, raw_share("x")), GPUSHARE_OK);
	for (size_t i = 0; i < sizeof(asks) / sizeof(*asks); i++) {
		const size_t ahead = SP_HEADER_SIZE + SP_ID_SIZE;
		size_t size;

		assert_true(raw_send(fd, (uint32_t)i, &asks[i]));
		assert_true(raw_read(fd, wire, ahead, RAW_TIMEOUT_MS));
		size = (size_t)sp_header_body_size(wire);
		assert_in_range(size, 1, gpushare_Reply_size);
		assert_true(raw_read(fd, wire + ahead, size, RAW_TIMEOUT_MS));
		assert_null(memmem(wire, ahead + size, needle, sizeof(needle)));
	}
	close(fd);
}

/* The registry ignores what a client writes into the fields that the registry fills in. */
static void the_registry_fills_in_its_own(void **state)
{
	request what = raw_share("x");
	record *told = &what.verb.share.buffer;
	const record *is;

	told->size = 100;
	told->base_offset = 28;
	told->generation = told->owner_started = told->created_unix_ns = 1;
	told->owner_pid = 1;
	told->attachers = 9;
	told->mode = 0777;
	told->owner_gone = told->missing = told->deferred = true;
	strcpy(told->owner_command, "init");
	assert_int_equal(raw_say(owner, what), GPUSHARE_OK);
	is = raw_seen(other, "x");
	assert_int_equal(is->size, 100);
	assert_int_equal(is->base_offset, 28);
	assert_int_equal(is->base_size, 4096);
	assert_true(is->generation > 1 && is->owner_started > 1 && is->created_unix_ns > 1);
	assert_int_equal(is->owner_pid, raw_peer_pid(owner));
	assert_int_equal(is->attachers, 0);
	assert_int_equal(is->mode, 0600);
	assert_false(is->owner_gone || is->missing || is->deferred);
	assert_string_equal(is->owner_command, "unit_server_ver");
}

static void a_bad_share_is_refused(void **state)
{
	request what;

#define refused(change, wanted) \
	do { \
		what = raw_share("x"); \
		what.verb.share.buffer.base_offset = 28; \
		what.verb.share.buffer.size = 100; \
		what.verb.share.buffer.base_size = 128; \
		change; \
		assert_int_equal(raw_say(owner, what), wanted); \
		assert_true(*raw_answer.message); \
	} while (0)
	refused(what.verb.share.buffer.size = 0, GPUSHARE_E_INVALID);
	refused(what.verb.share.buffer.base_offset = 29, GPUSHARE_E_RANGE);
	refused(what.verb.share.buffer.base_offset = UINT64_MAX - 50, GPUSHARE_E_RANGE);
	refused(what.verb.share.buffer.size = UINT64_MAX, GPUSHARE_E_RANGE);
	refused(what.verb.share.buffer.base_size = 0, GPUSHARE_E_RANGE);
	refused(what.verb.share.buffer.backing = 0, GPUSHARE_E_NOT_SUPPORTED);
	refused(what.verb.share.buffer.backing = 77, GPUSHARE_E_NOT_SUPPORTED);
	refused(what.verb.share.buffer.flags = 8, GPUSHARE_E_NOT_SUPPORTED);
	refused(what.verb.share.buffer.flags = GPUSHARE_FLAG_VMM, GPUSHARE_E_NOT_SUPPORTED);
	refused(what.verb.share.buffer.flags = GPUSHARE_FLAG_KEEP, GPUSHARE_E_INVALID);
	refused(what.verb.share.buffer.flags = GPUSHARE_FLAG_READONLY, GPUSHARE_E_INVALID);
	refused(what.verb.share.buffer.ttl_s = 5, GPUSHARE_E_INVALID);
	refused(what.verb.share.adopt = true, GPUSHARE_E_INVALID);
	refused(memset(what.verb.share.buffer.device_uuid, 0, 16), GPUSHARE_E_INVALID);
	refused(memset(what.verb.share.handle, 0, 64), GPUSHARE_E_INVALID);
	refused(what.verb.share.buffer.tags_count = 1, GPUSHARE_E_INVALID);
	refused((what.verb.share.buffer.tags_count = 1,
		 strcpy(what.verb.share.buffer.tags[0].key, "a/b")),
		GPUSHARE_E_INVALID);
	refused((what.verb.share.buffer.tags_count = 1,
		 strcpy(what.verb.share.buffer.tags[0].key, "k"),
		 strcpy(what.verb.share.buffer.tags[0].value, "\x1b[2J")),
		GPUSHARE_E_INVALID);
	refused((what.verb.share.buffer.tags_count = 2,
		 strcpy(what.verb.share.buffer.tags[0].key, "k"),
		 strcpy(what.verb.share.buffer.tags[1].key, "k")),
		GPUSHARE_E_INVALID);
#undef refused
	assert_int_equal(raw_stat(other).names, 0);
	/* a handle with one non-zero byte is valid, and so is a range of the whole allocation */
	what = raw_share("x");
	memset(what.verb.share.handle, 0, 63);
	assert_int_equal(raw_say(owner, what), GPUSHARE_OK);
}

static request event_of(const char *name)
{
	request what = raw_share(name);

	what.verb.share.buffer.size = what.verb.share.buffer.base_size = 0;
	what.verb.share.buffer.backing = GPUSHARE_BACKING_EVENT;
	return what;
}

static void a_bad_event_is_refused(void **state)
{
	int file = raw_fds_make();
	request what;

#define refused(change, fd, words) \
	do { \
		what = event_of("e"); \
		change; \
		assert_int_equal(fd < 0 ? raw_say(owner, what) : raw_fds_say(owner, what, fd), \
				 GPUSHARE_E_INVALID); \
		raw_assert_sentence(words); \
	} while (0)
	refused(what.verb.share.buffer.size = 1, -1, "has bytes");
	refused(what.verb.share.buffer.base_size = 512, -1, "has bytes");
	refused(what.verb.share.buffer.base_offset = 1, -1, "has bytes");
	refused(what.verb.share.buffer.backing = GPUSHARE_BACKING_IPC, -1, "has no bytes");
	refused(what.verb.share.buffer.flags = GPUSHARE_FLAG_KEEP, -1, "can't be kept");
	refused(memset(what.verb.share.handle, 0, 64), -1, "without a handle");
	refused(memset(what.verb.share.handle, 0, 64), file, "without a handle");
	refused(memset(what.verb.share.buffer.device_uuid, 0, 16), -1, "names no GPU");
#undef refused
	assert_int_equal(raw_stat(other).names, 0);
	close(file);
}

static int open_event(int peer, const char *name)
{
	request what = raw_attach(name, 0);

	what.verb.attach.event = true;
	return raw_say(peer, what);
}

static int look(int peer, const char *name, uint64_t generation)
{
	request what = raw_lookup(name, 60000); /* a lookup of a generation never waits */

	what.verb.lookup.generation = generation;
	return raw_say(peer, what);
}

/* A request for memory never returns an event's handle, nor the other way round. An unlinked or
 * deferred event is found by its generation until its owner ends. */
static void events_and_memory_are_told_apart(void **state)
{
	request what = {.which_verb = gpushare_Request_list_tag};
	const gpushare_AttachReply *got = &raw_answer.body.attach;
	uint64_t one, two;

	assert_int_equal(raw_say(owner, event_of("one")), GPUSHARE_OK);
	one = raw_answer.body.share.generation;
	assert_int_equal(raw_say(owner, event_of("two")), GPUSHARE_OK);
	two = raw_answer.body.share.generation;
	raw_shared(owner, "b");
	assert_int_equal(raw_say(other, raw_attach("one", 0)), GPUSHARE_E_INVALID);
	raw_assert_sentence("gpushare_event_open()");
	assert_int_equal(raw_answer.which_body, 0);
	assert_int_equal(open_event(other, "b"), GPUSHARE_E_INVALID);
	raw_assert_sentence("gpushare_attach()");
	assert_int_equal(raw_answer.which_body, 0);
	assert_int_equal(open_event(other, "one"), GPUSHARE_OK);
	assert_int_equal(got->handle[63], RAW_HANDLE_BYTE);
	assert_false(got->own);
	/* The address is a CUevent, which means nothing in another process. */
	assert_true(got->buffer.address == 0);
	assert_int_equal(open_event(owner, "one"), GPUSHARE_OK);
	assert_true(got->own && got->buffer.address == 0x7f0000000000);
	assert_int_equal(open_event(other, "two"), GPUSHARE_OK);
	assert_int_equal(raw_say(other, what), GPUSHARE_OK);
	assert_int_equal(raw_answer.body.list.buffers_count, 1);
	assert_string_equal(raw_answer.body.list.buffers[0].name, "b");
	what.verb.list.events = true;
	assert_int_equal(raw_say(other, what), GPUSHARE_OK);
	assert_int_equal(raw_answer.body.list.buffers_count, 2);

	assert_int_equal(look(other, "one", one), GPUSHARE_OK);
	assert_int_equal(raw_say(other, raw_withdraw("one", 0)), GPUSHARE_OK); /* unlinked */
	assert_int_equal(raw_say(other, raw_lookup("one", 0)), GPUSHARE_E_NOT_FOUND);
	assert_int_equal(look(other, "one", one), GPUSHARE_OK);
	assert_true(raw_answer.body.lookup.has_buffer);
	what = raw_withdraw("two", two);
	what.verb.withdraw.deferred = true;
	assert_int_equal(raw_say(owner, what), GPUSHARE_OK);
	assert_true(raw_answer.body.withdraw.deferred);
	assert_int_equal(look(other, "two", two), GPUSHARE_OK);
	raw_shared(other, "two");
	raw_peer_end(owner);
	raw_await_connections(other, 1);
	assert_int_equal(look(other, "one", one), GPUSHARE_E_NOT_FOUND);
	raw_assert_sentence("unlinked");
	assert_int_equal(look(other, "two", two), GPUSHARE_E_NOT_FOUND);
	raw_assert_sentence("another buffer now");
}

/* The backing decides whether a share brings a handle or a descriptor, and which of them an
 * attach returns. */
static void a_share_brings_what_its_backing_wants(void **state)
{
	static const uint8_t zero[GPUSHARE_HANDLE_SIZE];
	int before = raw_fds_settled(), file = raw_fds_make();
	request what = raw_fds_share("x");

	assert_int_equal(raw_fds_say(owner, what, -1), GPUSHARE_E_INVALID);
	raw_assert_sentence("without its file descriptor");
	what.verb.share.handle[0] = 1;
	assert_int_equal(raw_fds_say(owner, what, file), GPUSHARE_E_INVALID);
	raw_assert_sentence("with a handle and a file descriptor");
	what = raw_fds_share("x");
	what.verb.share.buffer.backing = GPUSHARE_BACKING_IPC;
	assert_int_equal(raw_fds_say(owner, what, file), GPUSHARE_E_INVALID);
	what.verb.share.handle[0] = 1;
	assert_int_equal(raw_fds_say(owner, what, file), GPUSHARE_E_INVALID);
	raw_assert_sentence("with a handle and a file descriptor");
	raw_fds_await(before);
	assert_int_equal(raw_stat(other).names, 0);

	assert_int_equal(raw_fds_say(owner, raw_fds_share("x"), file), GPUSHARE_OK);
	/* The answer at registry.sock only sends the client to fds.sock, and counts no
	 * attachment. */
	assert_int_equal(raw_say(other, raw_attach("x", 100)), GPUSHARE_OK);
	assert_true(raw_answer.body.attach.at_fds && !raw_answer.body.attach.has_buffer);
	assert_int_equal(raw_seen(other, "x")->attachers, 0);
	assert_int_equal(raw_fds_get(other, "x"), GPUSHARE_OK);
	assert_memory_equal(raw_answer.body.attach.handle, zero, sizeof(zero));
	assert_int_equal(raw_answer.body.attach.buffer.backing, GPUSHARE_BACKING_VMM);
	assert_false(raw_answer.body.attach.own);
	/* The owner's own mapping of a vmm buffer counts like any other. */
	assert_int_equal(raw_fds_get(owner, "x"), GPUSHARE_OK);
	assert_true(raw_answer.body.attach.own);
	assert_int_equal(raw_seen(other, "x")->attachers, 2);
	close(file);
}

static void attachers_are_counted(void **state)
{
	uint64_t generation = raw_shared(owner, "x");
	int third = raw_peer(0, 0);

	assert_int_equal(raw_say(other, raw_attach("x", 0)), GPUSHARE_OK);
	assert_int_equal(raw_answer.body.attach.buffer.attachers, 1);
	assert_int_equal(raw_say(other, raw_attach("x", 0)), GPUSHARE_OK);
	assert_int_equal(raw_say(third, raw_attach("x", 0)), GPUSHARE_OK);
	assert_int_equal(raw_say(owner, raw_attach("x", 0)), GPUSHARE_OK); /* owner: no attacher */
	assert_int_equal(raw_seen(owner, "x")->attachers, 3);
	assert_int_equal(raw_stat(other).attachments, 4);
	assert_int_equal(raw_say(other, raw_detach("x", generation)), GPUSHARE_OK);
	assert_int_equal(raw_seen(owner, "x")->attachers, 2);
	assert_int_equal(raw_say(other, raw_detach("x", generation)), GPUSHARE_OK);
	assert_int_equal(raw_say(other, raw_detach("x", generation)), GPUSHARE_E_NOT_FOUND);
	raw_assert_sentence("has not attached \"x\"");
	assert_int_equal(raw_say(third, raw_detach("x", generation + 1)), GPUSHARE_E_NOT_FOUND);
	assert_int_equal(raw_say(third, raw_detach("y", generation)), GPUSHARE_E_NOT_FOUND);
	assert_int_equal(raw_say(owner, raw_detach("x", generation)), GPUSHARE_OK);
	assert_int_equal(raw_seen(owner, "x")->attachers, 1);
	raw_peer_end(third);
	raw_await_connections(other, 2);
	assert_int_equal(raw_seen(owner, "x")->attachers, 0);
	assert_int_equal(raw_stat(other).attachments, 0);
}

static void an_attachment_outlives_the_name(void **state)
{
	uint64_t first = raw_shared(owner, "x"), second;

	assert_int_equal(raw_say(other, raw_attach("x", 0)), GPUSHARE_OK);
	assert_int_equal(raw_say(owner, raw_withdraw("x", first)), GPUSHARE_OK);
	assert_int_equal(raw_stat(other).attachments, 1);
	second = raw_shared(owner, "x");
	assert_true(second > first);
	assert_int_equal(raw_say(other, raw_attach("x", 0)), GPUSHARE_OK);
	assert_int_equal(raw_say(other, raw_detach("x", first)), GPUSHARE_OK);
	assert_int_equal(raw_seen(other, "x")->attachers, 1); /* the second buffer's */
	assert_int_equal(raw_say(other, raw_detach("x", first)), GPUSHARE_E_NOT_FOUND);
	assert_int_equal(raw_say(other, raw_detach("x", second)), GPUSHARE_OK);
	assert_int_equal(raw_seen(other, "x")->attachers, 0);
}

static void who_takes_a_name_away(void **state)
{
	uint64_t generation = raw_shared(owner, "x");
	char sentence[128];

	assert_int_equal(raw_say(other, raw_withdraw("x", generation)), GPUSHARE_E_DENIED);
	assert_int_equal(raw_say(owner, raw_withdraw("x", generation + 1)), GPUSHARE_E_NOT_FOUND);
	raw_assert_sentence("another buffer now");
	raw_seen(other, "x");
	assert_int_equal(raw_say(owner, raw_withdraw("x", generation)), GPUSHARE_OK);
	assert_int_equal(raw_say(owner, raw_withdraw("x", generation)), GPUSHARE_E_NOT_FOUND);
	snprintf(sentence, sizeof(sentence), "pid %d (unit_server_ver) withdrew it",
		 raw_peer_pid(owner));
	raw_assert_sentence(sentence);
	/* Another process of the same user may unlink it; the name is free then. */
	raw_shared(owner, "x");
	assert_int_equal(raw_say(other, raw_withdraw("x", 0)), GPUSHARE_OK);
	assert_int_equal(raw_say(other, raw_lookup("x", 0)), GPUSHARE_E_NOT_FOUND);
	raw_assert_sentence("had it; it was unlinked");
	snprintf(sentence, sizeof(sentence), "pid %d (unit_server_ver) had it",
		 raw_peer_pid(owner));
	raw_assert_sentence(sentence);
	raw_shared(owner, "x");
}

static void sentences_say_what_to_do(void **state)
{
	char name[GPUSHARE_NAME_MAX + 1], who[64];
	int mine = raw_connect(&raw_here);

	raw_shared(owner, "weights");
	assert_int_equal(raw_say(other, raw_lookup("gradients", 0)), GPUSHARE_E_NOT_FOUND);
	assert_string_equal(raw_answer.message,
			    "no buffer is named \"gradients\"; run 'gpushare ls' to see what is");
	assert_int_equal(raw_say(other, raw_share("weights")), GPUSHARE_E_EXISTS);
	raw_assert_sentence("for 0 s; choose another name or end that process");
	snprintf(who, sizeof(who), "taken by pid %d (unit_server_ver), uid %d", raw_peer_pid(owner),
		 (int)getuid());
	raw_assert_sentence(who);
	/* the owner's connection ends, its process lives on */
	raw_shared(mine, "mine");
	close(mine);
	raw_ms_until_gone(other, "mine");
	raw_assert_sentence("closed its session");
	memset(name, 'n', sizeof(name) - 1);
	name[sizeof(name) - 1] = '\0';
	raw_shared(owner, name);
	name[sizeof(name) - 2] = 'z';
	assert_int_equal(raw_say(other, raw_lookup(name, 0)), GPUSHARE_E_NOT_FOUND);
	assert_in_range(strlen(raw_answer.message), 255, sizeof(raw_answer.message) - 1);
}

static const gpushare_ListReply *list(const char *glob, const char *after, uint32_t limit)
{
	request what = {.which_verb = gpushare_Request_list_tag};

	strcpy(what.verb.list.glob, glob);
	strcpy(what.verb.list.after, after);
	what.verb.list.limit = limit;
	assert_int_equal(raw_say(other, what), GPUSHARE_OK);
	return &raw_answer.body.list;
}

static void a_list_is_paged_in_byte_order(void **state)
{
	enum { COUNT = 12 * LIMIT_PAGE + 8 };
	char name[16], last[GPUSHARE_NAME_MAX + 1] = "";
	const gpushare_ListReply *page;
	int found = 0, pages = 0;

	page = list("", "", 0);
	assert_true(page->buffers_count == 0 && !page->more);
	for (int i = 0; i < COUNT; i++) { /* in mixed order */
		snprintf(name, sizeof(name), "n%03d", i * 77 % COUNT);
		raw_shared(owner, name);
	}
	raw_shared(owner, "Z/upper");
	do {
		page = list("n*", last, LIMIT_PAGE);
		assert_in_range(page->buffers_count, 1, LIMIT_PAGE);
		for (pb_size_t i = 0; i < page->buffers_count; i++, found++) {
			snprintf(name, sizeof(name), "n%03d", found);
			assert_string_equal(page->buffers[i].name, name);
		}
		strcpy(last, name);
		pages++;
	} while (page->more);
	assert_int_equal(found, COUNT);
	assert_int_equal(pages, 13);

	page = list("", "", 1);
	assert_int_equal(page->buffers_count, 1);
	assert_string_equal(page->buffers[0].name, "Z/upper");
	assert_int_equal(list("", "", 99999)->buffers_count, LIMIT_PAGE);
	assert_int_equal(list("", "", 0)->buffers_count, LIMIT_PAGE_UNASKED);
	page = list("*er", "", 0); /* '*' matches '/' */
	assert_true(page->buffers_count == 1 && !page->more);
	page = list("n00[0-3]", "", 4);
	assert_true(page->buffers_count == 4 && !page->more); /* no match follows */
	page = list("n00[0-3]", "", 3);
	assert_true(page->buffers_count == 3 && page->more);
	snprintf(name, sizeof(name), "n%03d", COUNT - 1);
	assert_int_equal(list("", name, 0)->buffers_count, 0);
	snprintf(name, sizeof(name), "n%03d5", COUNT - 2);
	assert_int_equal(list("", name, 0)->buffers_count, 1); /* a cursor need not exist */
	assert_int_equal(list("[", "", 0)->buffers_count, 0);
}

/* The registry skips names that can't match. The list must still be what fnmatch(3) gives name
 * by name. */
static void a_list_has_what_fits_its_pattern(void **state)
{
	static const char *const names[] = {"a",    "a-",     "a.b", "a/b", "aa", "aab", "ab",
					    "ab/c", "ab/c.w", "abc", "b",   "ba", "bb"};
	static const char *const patterns[] = {
	    "*",     "a",      "ab",	 "a*",	"ab*",	   "*b",	   "*.w",  "a?",
	    "a[ab]", "a[ab]*", "[ab]",	 "a[b", "ab/c*.w", "a\\b",	   "a\\*", "z*",
	    "A*",    "a**b",   "*a*b*",	 "?",	"??",	   "a?*",	   "*?b",  "*/?.w",
	    "[!a]*", "*[!a]",  "a[!/]b", "b]",	"a[]b]b",  "a[[:alpha:]]", "\\",   "a\\",
	};
	enum { NAMES = sizeof(names) / sizeof(*names) };

	for (size_t i = 0; i < NAMES; i++)
		raw_shared(owner, names[i * 5 % NAMES]);
	for (size_t p = 0; p < sizeof(patterns) / sizeof(*patterns); p++) {
		for (size_t after = 0; after < NAMES; after++) {
			const gpushare_ListReply *page = list(patterns[p], names[after], 0);
			pb_size_t found = 0;

			for (size_t i = after + 1; i < NAMES; i++) {
				if (fnmatch(patterns[p], names[i], 0))
					continue;
				assert_in_range(found, 0, page->buffers_count - 1);
				assert_string_equal(page->buffers[found++].name, names[i]);
			}
			assert_int_equal(found, page->buffers_count);
		}
	}
}

static request tags(const char *name, uint64_t generation, const char *const texts[4])
{
	request what = {.which_verb = gpushare_Request_tag_tag};
	gpushare_SetTags *set = &what.verb.tag;

	strcpy(set->name, name);
	set->generation = generation;
	for (int i = 0; i < 4 && texts[i]; i++) {
		const char *equals = strchr(texts[i], '=');
		gpushare_Tag *to = &set->tags[set->tags_count++];

		snprintf(to->key, sizeof(to->key), "%.*s", (int)(equals - texts[i]), texts[i]);
		snprintf(to->value, sizeof(to->value), "%s", equals + 1);
	}
	return what;
}

/* Return the tags of a name as "a=1 b=2". */
static const char *tags_of(const char *name)
{
	static char text[1024];
	const record *found = raw_seen(other, name);
	size_t length = 0;

	*text = '\0';
	for (pb_size_t i = 0; i < found->tags_count; i++)
		length += (size_t)snprintf(text + length, sizeof(text) - length, "%s%s=%s",
					   i ? " " : "", found->tags[i].key, found->tags[i].value);
	return text;
}

static void tags_are_set_or_refused(void **state)
{
	static const struct {
		const char *tags[4];
		int status;
		const char *after;
	} is[] = {
	    {{"a=1", "b=2"}, GPUSHARE_OK, "a=1 b=2"},
	    {{"a=9", "c= x y =3"}, GPUSHARE_OK, "a=9 b=2 c= x y =3"},
	    {{"a=", "never=", "c=3"}, GPUSHARE_OK, "b=2 c=3"},
	    {{NULL}, GPUSHARE_OK, "b=2 c=3"},
	    {{"a=1"}, GPUSHARE_OK, "b=2 c=3 a=1"},
	    {{"d=4", "e=5"}, GPUSHARE_E_LIMIT, "b=2 c=3 a=1"},
	    {{"a=9", "b c=1"}, GPUSHARE_E_INVALID, "b=2 c=3 a=1"},
	    {{"a=9", "=1"}, GPUSHARE_E_INVALID, "b=2 c=3 a=1"},
	    {{"a/b=9"}, GPUSHARE_E_INVALID, "b=2 c=3 a=1"},
	    {{"a=9", "a=8"}, GPUSHARE_E_INVALID, "b=2 c=3 a=1"},
	    /* control characters: C0; C1 as a byte, in UTF-8, overlong, after a cut character */
	    {{"a=\x1b[2J"}, GPUSHARE_E_INVALID, "b=2 c=3 a=1"},
	    {{"a=\x9bm"}, GPUSHARE_E_INVALID, "b=2 c=3 a=1"},
	    {{"a=b\xc2\x9bm"}, GPUSHARE_E_INVALID, "b=2 c=3 a=1"},
	    {{"a=\xe0\x82\x9bm"}, GPUSHARE_E_INVALID, "b=2 c=3 a=1"},
	    {{"a=\xe2\x9bm"}, GPUSHARE_E_INVALID, "b=2 c=3 a=1"},
	    {{"a=\xf0\x9f\x9b"}, GPUSHARE_E_INVALID, "b=2 c=3 a=1"},
	    /* one is removed, two are added: four */
	    {{"d=4", "a=", "e=5"}, GPUSHARE_OK, "b=2 c=3 d=4 e=5"},
	    {{"b=", "c=", "d=", "e="}, GPUSHARE_OK, ""},
	    /* no control characters, though most contain a byte of 0x80 to 0x9f; the last is not
	     * UTF-8 */
	    {{"a=\u00c0\u00df", "b=\u65e5\u672c", "c=\U0001f600", "d=\xe9t\xe9"},
	     GPUSHARE_OK,
	     "a=\u00c0\u00df b=\u65e5\u672c c=\U0001f600 d=\xe9t\xe9"},
	};
	uint64_t generation = raw_shared(owner, "w");

	for (size_t i = 0; i < sizeof(is) / sizeof(*is); i++) {
		assert_int_equal(raw_say(other, tags("w", 0, is[i].tags)), is[i].status);
		assert_true(!is[i].status == !*raw_answer.message);
		assert_string_equal(tags_of("w"), is[i].after);
	}
	assert_int_equal(raw_say(other, tags("w", generation + 1, is[0].tags)),
			 GPUSHARE_E_NOT_FOUND);
	raw_assert_sentence("another buffer now");
	assert_int_equal(raw_say(other, tags("x", 0, is[0].tags)), GPUSHARE_E_NOT_FOUND);
}

static const gpushare_HoldersReply *holders(const char *name, uint64_t generation, uint32_t after)
{
	request what = {.which_verb = gpushare_Request_holders_tag};

	strcpy(what.verb.holders.name, name);
	what.verb.holders.generation = generation;
	what.verb.holders.after = after;
	assert_int_equal(raw_say(owner, what), GPUSHARE_OK);
	return &raw_answer.body.holders;
}

static void holders_come_in_pages(void **state)
{
	const gpushare_HoldersReply *page;
	uint32_t after = 0, found = 0;
	int fds[40];

	raw_shared(owner, "w");
	for (int i = 0; i < 40; i++) {
		fds[i] = raw_connect(&raw_here);
		assert_int_equal(raw_say(fds[i], raw_attach("w", 0)), GPUSHARE_OK);
	}
	do {
		page = holders("w", 0, after);
		for (pb_size_t i = 0; i < page->holders_count; i++, found++) {
			assert_true(page->holders[i].connection > after);
			assert_int_equal(page->holders[i].count, 1);
			assert_int_equal(page->holders[i].pid, getpid());
			after = page->holders[i].connection;
		}
	} while (page->more);
	assert_int_equal(found, 40);
	page = holders("w", 0, after);
	assert_true(page->holders_count == 0 && !page->more);
	for (int i = 0; i < 40; i++)
		close(fds[i]);
}

static void holders_of_deferred_and_of_the_owner(void **state)
{
	uint64_t generation = raw_shared(owner, "w");
	request what = raw_withdraw("w", generation);
	const gpushare_HoldersReply *page;
	bool first_is_own;

	assert_int_equal(raw_say(owner, raw_attach("w", 0)), GPUSHARE_OK);
	assert_int_equal(raw_say(other, raw_attach("w", 0)), GPUSHARE_OK);
	assert_int_equal(raw_say(other, raw_attach("w", 0)), GPUSHARE_OK);
	page = holders("w", generation, 0);
	assert_int_equal(page->holders_count, 2);
	first_is_own = page->holders[0].own;
	assert_true(page->holders[first_is_own].count == 2 &&
		    page->holders[first_is_own].pid == getpid());
	assert_true(page->holders[!first_is_own].own);
	what.verb.withdraw.deferred = true;
	assert_int_equal(raw_say(owner, what), GPUSHARE_OK);
	page = holders("w", generation, 0);
	assert_int_equal(page->holders[page->holders_count - 1].pid, getpid());
	what = (request){.which_verb = gpushare_Request_holders_tag};
	strcpy(what.verb.holders.name, "w");
	assert_int_equal(raw_say(owner, what), GPUSHARE_E_NOT_FOUND);
}

/* Return which of the two nobody has attached any more: bit 0 for `one`, bit 1 for `two`. */
static unsigned int left(int peer, uint64_t one, uint64_t two)
{
	request what = {.which_verb = gpushare_Request_deferred_tag};
	const gpushare_DeferredReply *answer = &raw_answer.body.deferred;
	unsigned int bits = 0;

	what.verb.deferred.generations_count = 2;
	what.verb.deferred.generations[0] = one;
	what.verb.deferred.generations[1] = two;
	assert_int_equal(raw_say(peer, what), GPUSHARE_OK);
	assert_int_equal(raw_answer.which_body, gpushare_Reply_deferred_tag);
	for (pb_size_t i = 0; i < answer->generations_count; i++)
		bits |= (answer->generations[i] == one) | (answer->generations[i] == two) << 1;
	return bits;
}

static bool page_says(const struct changes_page *page, uint64_t generation)
{
	return atomic_load(&page->left[generation % CHANGES_SLOTS]) == generation;
}

/* The registry reports the end of the last attachment by its answers and on the changes page. It
 * reports nothing about a buffer that has its name, which others may still attach. */
static void the_last_attacher_ends_it(void **state)
{
	const struct changes_page *page = raw_fds_page(FDS_CHANGES, sizeof(*page));
	uint64_t x = raw_shared(owner, "x"), y = raw_shared(owner, "y");
	int third = raw_peer(0, 0);

	raw_attached(other, "x");
	raw_attached(third, "x");
	raw_attached(other, "y");
	assert_int_equal(raw_say(other, raw_detach("y", y)), GPUSHARE_OK);
	assert_false(page_says(page, y));
	raw_attached(third, "y");
	assert_true(raw_is_deferred(owner, "x", x));
	assert_true(raw_is_deferred(owner, "y", y));
	assert_int_equal(raw_stat(other).deferred, 2);
	assert_int_equal(raw_stat(other).names, 0);
	assert_int_equal(raw_say(other, raw_lookup("x", 0)), GPUSHARE_E_NOT_FOUND);
	raw_assert_sentence("withdrew it");
	assert_int_equal(left(owner, x, y), 0);
	assert_int_equal(raw_say(other, raw_detach("x", x)), GPUSHARE_OK);
	assert_int_equal(left(owner, x, y), 0);
	assert_false(page_says(page, x));
	assert_int_equal(raw_say(third, raw_detach("x", x)), GPUSHARE_OK);
	assert_true(page_says(page, x) && !page_says(page, y));
	assert_int_equal(left(owner, x, y), 1);
	assert_int_equal(raw_stat(other).deferred, 1);
	raw_peer_end(third);
	raw_await_connections(other, 2);
	assert_true(page_says(page, y));
	assert_int_equal(left(owner, x, y), 3);
	assert_int_equal(raw_stat(other).deferred, 0);
	assert_int_equal(raw_stat(other).attachments, 0);
}

static const gpushare_ListReply *list_deferred(const char *glob, uint64_t after, uint32_t limit)
{
	request what = {.which_verb = gpushare_Request_list_tag};

	what.verb.list.deferred = true;
	strcpy(what.verb.list.glob, glob);
	what.verb.list.after_generation = after;
	what.verb.list.limit = limit;
	assert_int_equal(raw_say(other, what), GPUSHARE_OK);
	return &raw_answer.body.list;
}

static void it_is_listed_by_generation(void **state)
{
	enum { COUNT = LIMIT_PAGE + 40 };
	const gpushare_ListReply *page;
	uint64_t generations[COUNT];
	char name[8];

	for (int i = 0; i < COUNT; i++) {
		snprintf(name, sizeof(name), "n%d", i);
		generations[i] = raw_shared(owner, name);
		raw_attached(other, name);
	}
	for (int i = COUNT - 1; i >= 0; i--) {
		snprintf(name, sizeof(name), "n%d", i);
		assert_true(raw_is_deferred(owner, name, generations[i]));
	}
	page = list_deferred("", 0, LIMIT_PAGE);
	assert_int_equal(page->buffers_count, LIMIT_PAGE);
	assert_true(page->more);
	for (pb_size_t i = 0; i < page->buffers_count; i++) {
		assert_int_equal(page->buffers[i].generation, generations[i]);
		assert_true(page->buffers[i].deferred);
		assert_int_equal(page->buffers[i].attachers, 1);
		assert_int_equal(page->buffers[i].address, 0);
	}
	page = list_deferred("", generations[LIMIT_PAGE - 1], 3);
	assert_int_equal(page->buffers_count, 3);
	snprintf(name, sizeof(name), "n%d", LIMIT_PAGE);
	assert_string_equal(page->buffers[0].name, name);
	page = list_deferred("n3?", 0, 0);
	assert_true(page->buffers_count == 10 && !page->more);
	assert_int_equal(list_deferred("", generations[COUNT - 1], 0)->buffers_count, 0);
}

static uint64_t counted(const gpushare_Count *counts, pb_size_t count, const char *what)
{
	for (pb_size_t i = 0; i < count; i++) {
		if (!strcmp(counts[i].what, what))
			return counts[i].count;
	}
	return UINT64_MAX;
}

static void what_was_asked_is_counted(void **state)
{
	gpushare_StatReply told;
	request wait = raw_lookup("later", 60000);

	raw_shared(owner, "a");
	raw_shared(owner, "b");
	raw_say(owner, raw_lookup("a", 0));
	raw_say(owner, raw_lookup("none", 0));
	raw_say(owner, raw_lookup("none", 0));
	raw_say(owner, tags("a", 0, (const char *const[4]){"k =v"}));
	assert_true(raw_send(owner, 7, &wait)); /* stays unanswered */
	while ((told = raw_stat(other)).waiters != 1)
		raw_sleep_ms(1);
	assert_int_equal(counted(told.by_verb, told.by_verb_count, "share"), 2);
	assert_int_equal(counted(told.by_verb, told.by_verb_count, "lookup"), 3);
	assert_int_equal(counted(told.by_verb, told.by_verb_count, "tag"), 1);
	assert_int_equal(counted(told.by_verb, told.by_verb_count, "attach"), 0);
	assert_int_equal(counted(told.by_verb, told.by_verb_count, "unknown"), 0);
	assert_int_equal(counted(told.by_status, told.by_status_count, "E_NOT_FOUND"), 2);
	assert_int_equal(counted(told.by_status, told.by_status_count, "E_INVALID"), 1);
	assert_int_equal(counted(told.by_status, told.by_status_count, "E_LIMIT"), UINT64_MAX);
	assert_int_equal(counted(told.by_backing, told.by_backing_count, "ipc"), 2);
	assert_int_equal(told.by_backing[0].bytes, 2 * 4096);
	assert_int_equal(counted(told.by_backing, told.by_backing_count, "vmm"), 0);
	assert_string_equal(told.version, GPUSHARE_VERSION);
	assert_int_equal(told.pid, raw_here.pid);
	assert_int_equal(told.names, 2);
	assert_int_equal(told.connections, 2);
	assert_int_equal(told.kept_bytes, 0);
	assert_int_equal(told.kept_limit, (uint64_t)1 << 40);
	assert_true(told.started_unix_ns > 0 && told.requests >= 8);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
UNIT_MAIN(TEST(hello_is_wanted_first), TEST(a_handle_leaves_only_to_who_attaches),
	  TEST(the_registry_fills_in_its_own), TEST(a_bad_share_is_refused),
	  TEST(a_bad_event_is_refused), TEST(events_and_memory_are_told_apart),
	  TEST(a_share_brings_what_its_backing_wants), TEST(attachers_are_counted),
	  TEST(an_attachment_outlives_the_name), TEST(who_takes_a_name_away),
	  TEST(sentences_say_what_to_do), TEST(a_list_is_paged_in_byte_order),
	  TEST(a_list_has_what_fits_its_pattern), TEST(tags_are_set_or_refused),
	  TEST(holders_come_in_pages), TEST(holders_of_deferred_and_of_the_owner),
	  TEST(the_last_attacher_ends_it), TEST(it_is_listed_by_generation),
	  TEST(what_was_asked_is_counted))
