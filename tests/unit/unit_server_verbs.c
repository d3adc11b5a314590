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

/* Send a hello with that identity on a greeted connection; return `fd`. */
static int says(int fd, uint64_t pid_namespace, int32_t pid)
{
	request hello = raw_hello_request();

	hello.verb.hello.has_self = true;
	hello.verb.hello.self = (gpushare_Self){pid_namespace, pid, 500};
	assert_int_equal(raw_say(fd, hello), GPUSHARE_OK);
	return fd;
}

/* Only the owner's process is told the address. */
static bool owns(int fd, const char *name)
{
	const gpushare_AttachReply *got = &raw_answer.body.attach;

	assert_int_equal(raw_say(fd, raw_attach(name)), GPUSHARE_OK);
	assert_int_equal(got->own, got->buffer.address != 0);
	return got->own;
}

static void whom_the_kernel_tells_is_not_asked(void **state)
{
	int liar = says(raw_peer_greeted(0), 77, 1);

	raw_shared(says(raw_greet(&raw_here), 77, 1), "w");
	assert_true(owns(says(raw_greet(&raw_here), 78, 3), "w"));
	assert_false(owns(liar, "w"));
}

static void a_connection_waits_for_notices_once(void **state)
{
	request subscribe = {.which_verb = gpushare_Request_subscribe_tag};

	assert_int_equal(raw_say(owner, subscribe), GPUSHARE_OK); /* the welcome */
	assert_true(raw_send(owner, 1, &subscribe));
	assert_true(raw_send(owner, 2, &subscribe));
	assert_true(raw_receive(owner, 2, &raw_answer, RAW_TIMEOUT_MS));
	assert_int_equal(raw_answer.status, GPUSHARE_E_INVALID);
	raw_assert_sentence("already waits for notices");
	raw_shared(other, "x");
	assert_true(raw_receive(owner, 1, &raw_answer, RAW_TIMEOUT_MS));
	assert_int_equal(raw_answer.body.subscribe.notices_count, 1);
}

static request event_of(const char *name)
{
	request what = raw_share(name);

	what.verb.share.buffer.size = what.verb.share.buffer.base_size = 0;
	what.verb.share.buffer.backing = GPUSHARE_BACKING_EVENT;
	return what;
}

static request part_of(const char *name)
{
	request what = raw_share(name);

	what.verb.share.buffer.base_offset = 28;
	what.verb.share.buffer.size = 100;
	what.verb.share.buffer.base_size = 128;
	return what;
}

/* The backing decides whether a share brings a handle or a descriptor. */
static void a_bad_share_is_refused(void **state)
{
	int before = raw_fds_settled(), file = raw_fds_make();
	request what;
	gpushare_Share *share = &what.verb.share;
	record *info = &share->buffer;

#define STAGED (GPUSHARE_FLAG_KEEP | GPUSHARE_FLAG_STAGED)
#define refused(status, words, file, make, ...) \
	do { \
		what = make("x"); \
		__VA_ARGS__; \
		assert_int_equal(raw_fds_say(owner, what, file), GPUSHARE_E_##status); \
		raw_assert_sentence(words); \
	} while (0)
	refused(INVALID, "", -1, part_of, info->size = 0);
	refused(RANGE, "", -1, part_of, info->base_offset = 29);
	refused(RANGE, "", -1, part_of, info->base_offset = UINT64_MAX - 50);
	refused(RANGE, "", -1, part_of, info->size = UINT64_MAX);
	refused(RANGE, "", -1, part_of, info->base_size = 0);
	refused(NOT_SUPPORTED, "", -1, part_of, info->backing = 0);
	refused(NOT_SUPPORTED, "", -1, part_of, info->backing = 77);
	refused(NOT_SUPPORTED, "", -1, part_of, info->flags = 8);
	refused(NOT_SUPPORTED, "", -1, part_of, info->flags = GPUSHARE_FLAG_VMM);
	refused(INVALID, "", -1, part_of, info->flags = GPUSHARE_FLAG_KEEP);
	refused(INVALID, "", -1, part_of, info->flags = GPUSHARE_FLAG_READONLY);
	refused(INVALID, "", -1, part_of, info->ttl_s = 5);
	refused(INVALID, "", -1, part_of, share->adopt = true);
	refused(INVALID, "mode 1000 is invalid", -1, part_of, share->mode = 01000);
	refused(INVALID, "mode 0111 is invalid", -1, part_of, share->mode = 0111);
	refused(INVALID, "can't have had generation", -1, part_of, share->again = UINT64_MAX);
	refused(INVALID, "tag a is given twice", -1, part_of, info->tags_count = 2,
		strcpy(info->tags[0].key, "a"), strcpy(info->tags[1].key, "a"));
	refused(INVALID, "", -1, part_of, memset(info->device_uuid, 0, 16));
	refused(INVALID, "", -1, part_of, memset(share->handle, 0, 64));
	refused(INVALID, "", -1, part_of, info->tags_count = 1);
	refused(INVALID, "without its file descriptor", -1, raw_fds_share, );
	refused(INVALID, "with a handle and a file", file, raw_fds_share, share->handle[0] = 1);
	refused(INVALID, "with a handle and a file", file, raw_share, );
	refused(INVALID, "see it already", file, raw_fds_share, info->flags = STAGED,
		share->adopt = true);
	refused(INVALID, "see it already", file, raw_fds_share, info->flags = STAGED,
		share->orphan = true, share->again = 1);
	refused(INVALID, "brought back by an attacher", file, raw_fds_share, share->orphan = true,
		share->again = 1);
	refused(INVALID, "brought back or adopted, not both", file, raw_fds_share,
		info->flags = GPUSHARE_FLAG_KEEP, share->adopt = true, share->again = 1);
	refused(INVALID, "", file, raw_share, memset(share->handle, 0, 64));
	refused(INVALID, "has a size", -1, event_of, info->size = 1);
	refused(INVALID, "has a size", -1, event_of, info->base_size = 512);
	refused(INVALID, "has a size", -1, event_of, info->base_offset = 1);
	refused(INVALID, "has size 0", -1, event_of, info->backing = GPUSHARE_BACKING_IPC);
	refused(INVALID, "can't be kept", -1, event_of, info->flags = GPUSHARE_FLAG_KEEP);
	refused(INVALID, "without a handle", -1, event_of, memset(share->handle, 0, 64));
	refused(INVALID, "without a handle", file, event_of, memset(share->handle, 0, 64));
	refused(INVALID, "names no GPU", -1, event_of, memset(info->device_uuid, 0, 16));
#undef refused
	raw_fds_await(before);
	assert_int_equal(raw_stat(other).names, 0);
	/* a handle with one non-zero byte is valid */
	what = raw_share("x");
	memset(share->handle, 0, 63);
	assert_int_equal(raw_say(owner, what), GPUSHARE_OK);
	close(file);
}

/* A part takes all but its name, place, size and tags from a buffer of its own connection. */
static void a_part_is_of_a_buffer_of_its_connection(void **state)
{
	request what = {.which_verb = gpushare_Request_share_tag};
	request whole_share = raw_fds_share("whole");
	gpushare_Share *share = &what.verb.share;
	record *info = &share->buffer, whole;

	whole_share.verb.share.buffer.flags = GPUSHARE_FLAG_READONLY;
	whole_share.verb.share.buffer.base_offset = 28;
	whole_share.verb.share.buffer.size = 100; /* of 4096 */
	assert_int_equal(raw_fds_give(owner, whole_share), GPUSHARE_OK);
	whole = *raw_seen(owner, "whole");
	share->has_buffer = true;
	strcpy(info->name, "part");
	info->size = 1;
	share->part_of = whole.generation + 1;
	assert_int_equal(raw_say(owner, what), GPUSHARE_E_NOT_FOUND);
	raw_assert_sentence("not a vmm buffer of this connection");
	share->part_of = whole.generation;
	assert_int_equal(raw_say(other, what), GPUSHARE_E_NOT_FOUND);
	info->base_offset = whole.size;
	assert_int_equal(raw_say(owner, what), GPUSHARE_E_RANGE);
	info->base_offset = UINT64_MAX;
	assert_int_equal(raw_say(owner, what), GPUSHARE_E_RANGE);
	info->base_offset = 1;
	info->size = whole.size;
	assert_int_equal(raw_say(owner, what), GPUSHARE_E_RANGE);
	share->again = 1;
	info->size = whole.size - 1;
	assert_int_equal(raw_say(owner, what), GPUSHARE_E_INVALID);
	raw_assert_sentence("it can't be brought back or adopted");
	share->again = 0;
	share->adopt = true;
	info->flags = GPUSHARE_FLAG_KEEP;
	assert_int_equal(raw_say(owner, what), GPUSHARE_E_INVALID);
	share->adopt = false;
	strcpy(info->name, "whole");
	assert_int_equal(raw_say(owner, what), GPUSHARE_E_EXISTS);
	raw_assert_sentence("a part needs another");
	strcpy(info->name, "part");
	info->flags = GPUSHARE_FLAG_KEEP; /* ignored */
	assert_int_equal(raw_say(owner, what), GPUSHARE_OK);
	info = (record *)raw_seen(owner, "part");
	assert_int_equal(info->base_offset, whole.base_offset + 1);
	assert_int_equal(info->base_size, whole.base_size);
	assert_int_equal(info->flags, GPUSHARE_FLAG_READONLY);
	share->part_of = raw_shared(owner, "handle");
	assert_int_equal(raw_say(owner, what), GPUSHARE_E_NOT_FOUND);
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

/* A client's text in the log has no character that a terminal obeys, nor begins a line. */
static void the_log_holds_no_control_characters(void **state)
{
	request hello = raw_hello_request();
	int log = open(raw_in_folder("log"), O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
	int saved = dup(STDERR_FILENO);
	char words[4096] = "";

	assert_true(log >= 0 && saved >= 0);
	dup2(log, STDERR_FILENO);
	raw_daemon_start(&raw_here, (const char *const[]){"--foreground", NULL});
	dup2(saved, STDERR_FILENO);
	close(saved);
	strcpy(hello.verb.hello.client, "\x9bm;\xc2\x9bm;\x1bm;\u00c0\u65e5");
	assert_int_equal(raw_say(raw_greet(&raw_here), hello), GPUSHARE_OK);
	assert_true(pread(log, words, sizeof(words) - 1, 0) > 0);
	close(log);
	assert_non_null(strstr(words, "?m;??m;?m;\u00c0\u65e5\n"));
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
UNIT_MAIN(TEST(hello_is_wanted_first), TEST(a_handle_leaves_only_to_who_attaches),
	  TEST(the_registry_fills_in_its_own), TEST(whom_the_kernel_tells_is_not_asked),
	  TEST(a_connection_waits_for_notices_once), TEST(a_bad_share_is_refused),
	  TEST(a_part_is_of_a_buffer_of_its_connection), TEST(a_list_has_what_fits_its_pattern),
	  cmocka_unit_test_setup_teardown(the_log_holds_no_control_characters, raw_make_folder,
					  raw_tear_down))
