/* SPDX-License-Identifier: MIT */
/* The daemon's fd store: a keeper, or a service manager that the test plays. Tests what the
 * daemon stores there and what the next daemon gets back. */
#include "unit.h"

#include "order_page.h"
#include "raw_fds.h"
#include "shelf.h"

#define KEPT_MAX 64
#define FIRST_FD 3

static struct {
	int fd;
	char path[128], told[256]; /* the latest message */
	struct {
		char name[64];
		int fd;
	} kept[KEPT_MAX];
	int count;
	const char *size, *started; /* $FDSTORE and $SYSTEMD_EXEC_PID; NULL: not set */
} manager;

static void manager_listen(const char *where)
{
	struct sockaddr_un at = {.sun_family = AF_UNIX};
	size_t length = strlen(where);

	close(manager.fd);
	snprintf(manager.path, sizeof(manager.path), "%s", where);
	memcpy(at.sun_path, where, length);
	if (*where == '@')
		at.sun_path[0] = '\0';
	manager.fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	assert_int_equal(bind(manager.fd, (const struct sockaddr *)&at,
			      (socklen_t)(offsetof(struct sockaddr_un, sun_path) + length)),
			 0);
}

static void manager_add(const char *name, int fd)
{
	strcpy(manager.kept[manager.count].name, name);
	manager.kept[manager.count++].fd = fd;
}

static void forget(const char *name)
{
	for (int i = manager.count - 1; i >= 0; i--) {
		if (strcmp(manager.kept[i].name, name) != 0)
			continue;
		close(manager.kept[i].fd);
		manager.kept[i] = manager.kept[--manager.count];
	}
}

/* Carry out the next message. Returns false if there is none. */
static bool manager_hear(int timeout_ms)
{
	struct pollfd event = {.fd = manager.fd, .events = POLLIN};
	char name[64] = "";
	const char *field;
	size_t size;
	int fd;

	if (poll(&event, 1, timeout_ms) != 1)
		return false;
	assert_int_equal(
	    fds_receive(manager.fd, NULL, manager.told, sizeof(manager.told) - 1, &size, &fd), 0);
	manager.told[size] = '\0';
	field = strstr(manager.told, "FDNAME=");
	if (field)
		sscanf(field, "FDNAME=%63[^\n]", name);
	if (strstr(manager.told, "FDSTOREREMOVE=1")) {
		assert_int_equal(fd, -1);
		forget(name);
	} else if (strstr(manager.told, "FDSTORE=1")) {
		assert_true(fd >= 0);
		assert_null(strchr(name, ':'));
		manager_add(name, fd);
	} else {
		fds_close(&fd, fd >= 0);
	}
	return true;
}

static void manager_hear_all(void)
{
	while (manager_hear(0))
		;
}

/* In the daemon's process: set up what systemd gives to a service. */
static void give(void)
{
	char names[KEPT_MAX * (sizeof(manager.kept->name) + 1)] = "", text[32];

	for (int i = 0; i < manager.count; i++) /* away from FIRST_FD */
		manager.kept[i].fd = fcntl(manager.kept[i].fd, F_DUPFD_CLOEXEC, 100);
	for (int i = 0; i < manager.count; i++) {
		dup2(manager.kept[i].fd, FIRST_FD + i);
		strcat(strcat(names, i ? ":" : ""), manager.kept[i].name);
	}
	unsetenv("SYSTEMD_EXEC_PID");
	if (manager.started)
		setenv("SYSTEMD_EXEC_PID", manager.started, 1);
	setenv("NOTIFY_SOCKET", manager.path, 1);
	if (manager.size)
		setenv("FDSTORE", manager.size, 1);
	setenv("LISTEN_FDNAMES", names, 1);
	sprintf(text, "%d", manager.count);
	setenv("LISTEN_FDS", text, 1);
	sprintf(text, "%d", getpid());
	setenv("LISTEN_PID", text, 1);
}

static void start(const char *const extra[])
{
	raw_daemon_begins = give;
	raw_daemon_start(&raw_here, extra);
}

/* Share a kept buffer whose memory holds `number`, then end its owner. */
static void keep(const char *name, uint64_t number)
{
	int own = raw_connect(&raw_here), memory = shelf_make(number);
	request what = raw_fds_share(name);

	what.verb.share.buffer.flags = GPUSHARE_FLAG_KEEP;
	assert_int_equal(raw_fds_say(own, what, memory), GPUSHARE_OK);
	close(memory);
	close(own);
}

static void assert_kept(const char *name, uint64_t number)
{
	int own = raw_connect(&raw_here);

	assert_int_equal(raw_fds_say(own, raw_attach(name), -1), GPUSHARE_OK);
	shelf_assert_is(raw_fds_came, number);
	close(raw_fds_came);
	close(own);
}

static int withdraw(const char *name)
{
	int own = raw_connect(&raw_here), status = raw_say(own, raw_withdraw(name, 0));

	close(own);
	return status;
}

static int set_up(void **state)
{
	if (raw_make_folder(state))
		return -1;
	strcpy(shelf_directory, raw_here.directory);
	memset(&manager, 0, sizeof(manager));
	manager.fd = -1;
	manager_listen(raw_in_folder("notify"));
	return 0;
}

static int tear_down(void **state)
{
	pid_t keeper = raw_is_emulated() ? 0 : shelf_keeper();

	raw_daemon_begins = NULL;
	while (manager.count)
		close(manager.kept[--manager.count].fd);
	close(manager.fd);
	if (raw_tear_down(state))
		return -1;
	if (keeper) /* the keeper removes the directory */
		shelf_await_end(keeper, RAW_TIMEOUT_MS);
	return 0;
}

/* The manager listens at an abstract socket, as in some containers. */
static void it_keeps_and_gives_back(void **state)
{
	char where[64];
	int own;

	snprintf(where, sizeof(where), "@gpushare-unit-%d", getpid());
	manager_listen(where);

	manager.size = "3";
	start(NULL);
	assert_true(manager_hear(RAW_TIMEOUT_MS));
	assert_string_equal(manager.told, "READY=1");
	keep("a", 1);
	keep("b", 2);
	keep("c", 3);
	assert_int_equal(withdraw("b"), GPUSHARE_OK);
	keep("d", 4);
	keep("e", 5); /* one more than the store keeps */
	raw_daemon_end(SIGKILL);
	manager_hear_all();
	assert_int_equal(manager.count, 3);
	assert_int_not_equal(access(raw_in_folder("keeper.sock"), F_OK), 0);
	manager_add("gpushare", shelf_make(0));
	manager_add("gpushare-x", shelf_make(0));
	manager_add("stored", shelf_make(0));
	start(NULL);
	assert_kept("a", 1);
	assert_kept("c", 3);
	assert_kept("d", 4);
	own = raw_connect(&raw_here);
	assert_int_equal(raw_fds_get(own, "e"), GPUSHARE_E_NOT_FOUND);
	close(own);
	assert_int_equal(withdraw("c"), GPUSHARE_OK);
	raw_daemon_end(SIGTERM);
	manager_hear_all();
	assert_string_equal(manager.told, "STOPPING=1");
	assert_int_equal(manager.count, 5); /* c is removed; other programs' descriptors stay */
	start(NULL);
	assert_kept("d", 4);
	assert_int_equal(withdraw("a"), GPUSHARE_OK);
	assert_int_equal(withdraw("d"), GPUSHARE_OK);
	raw_daemon_end(SIGTERM);
	manager_hear_all();
	assert_int_equal(manager.count, 3);
}

static void what_was_not_stored_takes_no_room(void **state)
{
	manager.size = "1";
	start(NULL);
	keep("a", 1);
	keep("b", 2); /* not stored */
	assert_int_equal(withdraw("a"), GPUSHARE_OK);
	keep("c", 3);
	raw_daemon_end(SIGKILL);
	manager_hear_all();
	assert_int_equal(manager.count, 1);
	start(NULL);
	assert_kept("c", 3);
}

/* Before systemd 254 the manager doesn't say how many it keeps. One that gave a descriptor back
 * has a store. */
static void one_that_came_back_proves_it(void **state)
{
	manager.size = "1";
	start(NULL);
	keep("a", 1);
	raw_daemon_end(SIGKILL);
	manager_hear_all();
	manager.size = NULL;
	start(NULL);
	assert_kept("a", 1);
	keep("b", 2);
	raw_daemon_end(SIGKILL);
	manager_hear_all();
	assert_int_equal(manager.count, 2);
}

/* The manager's store is not for an autostarted registry (--orphan) or for a child of the
 * service's process. */
static void what_is_not_meant_for_us_is_left(void **state)
{
	static const char *const orphan[] = {"--orphan", NULL};

	shelf_needs_keeper();
	manager.size = "9";
	manager_add("gpushare-1", shelf_make(1));
	for (int which = 0; which < 2; which++) {
		manager.started = which ? "1" : NULL;
		start(which ? NULL : orphan);
		keep(which ? "b" : "a", 1);
		shelf_await_kept(shelf_keeper(), 1 + which);
		raw_daemon_end(SIGKILL);
		assert_false(manager_hear(0));
	}
}

static void without_a_store_there_is_a_keeper(void **state)
{
	static const char *const sizes[] = {NULL, "0", "-0", "x"};
	char path[64], environment[65536];

	shelf_needs_keeper();
	for (int i = 0; i < 4; i++) {
		pid_t keeper;
		ssize_t length;
		int file;

		manager.size = sizes[i];
		start(NULL);
		assert_true(manager_hear(RAW_TIMEOUT_MS));
		assert_string_equal(manager.told, "READY=1");
		keep((const char[]){(char)('a' + i), '\0'}, 1);
		keeper = shelf_keeper();
		shelf_await_kept(keeper, 1 + i);
		snprintf(path, sizeof(path), "/proc/%d/environ", keeper);
		file = open(path, O_RDONLY | O_CLOEXEC);
		length = read(file, environment, sizeof(environment));
		close(file);
		assert_true(length > 0);
		assert_null(memmem(environment, (size_t)length, "NOTIFY_SOCKET", 13));
		assert_null(memmem(environment, (size_t)length, "LISTEN_", 7));
		raw_daemon_end(SIGKILL);
		assert_false(manager_hear(0));
	}
}

/* The manager reads slowly. By the kernel's default at most 10 messages wait in its socket. */
static void a_busy_manager_gets_it_later(void **state)
{
	int own, memory = shelf_make(0);
	request what = raw_fds_share("again");
	char name[16];

	manager.size = "50";
	start(NULL);
	for (int i = 0; i < 49; i++) {
		snprintf(name, sizeof(name), "n%d", i);
		keep(name, 1);
	}
	own = raw_connect(&raw_here);
	assert_int_equal(raw_fds_say(own, what, memory), GPUSHARE_OK);
	/* The manager first removes its old descriptor of that name. */
	what.verb.share.again = raw_answer.body.share.generation;
	assert_int_equal(raw_fds_say(own, what, memory), GPUSHARE_OK);
	while (manager.count < 50)
		assert_true(manager_hear(RAW_TIMEOUT_MS));
	raw_assert_serves();
	raw_daemon_end(SIGTERM);
	manager_hear_all();
	assert_int_equal(manager.count, 50);
	close(memory);
	close(own);
}

static void share_part(int own, const char *name, uint64_t whole)
{
	request what = {.which_verb = gpushare_Request_share_tag};

	what.verb.share.part_of = whole;
	what.verb.share.has_buffer = true;
	what.verb.share.buffer.size = 1;
	strcpy(what.verb.share.buffer.name, name);
	assert_int_equal(raw_say(own, what), GPUSHARE_OK);
}

static void share_memory(int own, request what, uint64_t number)
{
	int memory = shelf_make(number);

	assert_int_equal(raw_fds_say(own, what, memory), GPUSHARE_OK);
	close(memory);
}

static void restart(void)
{
	raw_daemon_end(SIGKILL);
	manager_hear_all();
	start(NULL);
}

/* A resync leaves out the whole buffer, and its owner shares it again while a part still uses the
 * first descriptor. Whichever of the two ends, the other one's descriptor stays stored. */
static void a_part_outlives_its_whole_that_came_back(void **state)
{
	static const char *const names[] = {"p", "w"};

	for (int ends = 0; ends < 2; ends++) {
		request what = raw_fds_share("w"), told = {0};
		int own;

		manager.size = "9";
		start(NULL);
		own = raw_connect(&raw_here);
		share_memory(own, what, 1);
		what.verb.share.again = raw_answer.body.share.generation;
		share_part(own, "p", what.verb.share.again);
		raw_tell(&told, "p", raw_answer.body.share.generation, 0);
		told.verb.resync.last = true;
		assert_int_equal(raw_say(own, told), GPUSHARE_OK);
		share_memory(own, what, 2);
		assert_int_equal(raw_say(own, raw_withdraw(names[ends], 0)), GPUSHARE_OK);
		restart();
		assert_int_equal(manager.count, 1);
		assert_kept(names[!ends], 2u - (unsigned int)ends);
		/* The next registry gives new descriptors other keys. */
		keep("k", 3);
		restart();
		assert_int_equal(manager.count, 2);
		assert_kept(names[!ends], 2u - (unsigned int)ends);
		assert_kept("k", 3);
		assert_int_equal(withdraw("k"), GPUSHARE_OK);
		assert_int_equal(withdraw(names[!ends]), GPUSHARE_OK);
		raw_daemon_end(SIGTERM);
		manager_hear_all();
		assert_int_equal(manager.count, 0);
		close(own);
	}
}

/* Attach the buffer. Returns its page, for the publisher. */
static struct order_page *page_of(int own, const char *name, uint64_t *out_generation)
{
	struct order_page *page;
	request what = raw_attach(name);

	assert_int_equal(raw_fds_say(own, what, -1), GPUSHARE_OK);
	close(raw_fds_came);
	*out_generation = raw_answer.body.attach.buffer.generation;
	what = raw_order(name, *out_generation, ORDER_PUBLISHES);
	assert_int_equal(raw_fds_say(own, what, -1), GPUSHARE_OK);
	assert_int_equal(order_page_map(raw_fds_came, 0, &page), GPUSHARE_OK);
	close(raw_fds_came);
	return page;
}

/* Whatever a user writes to the page, the next registry takes it for this buffer's alone. */
static void a_page_cant_be_passed_off_as_anothers(void **state)
{
	struct order_page *mine, *theirs;
	uint64_t mine_id, generation;
	int own;

	manager.size = "9";
	start(NULL);
	keep("theirs", 1);
	keep("mine", 2);
	own = raw_connect(&raw_here);
	assert_int_equal(raw_fds_say(own, raw_attach("theirs"), -1), GPUSHARE_OK);
	close(raw_fds_came);
	generation = raw_answer.body.attach.buffer.generation;
	mine = page_of(own, "mine", &(uint64_t){0});
	mine_id = mine->id;
	mine->generation = generation;
	order_page_unmap(mine);
	close(own);
	restart();
	own = raw_connect(&raw_here);
	theirs = page_of(own, "theirs", &generation);
	assert_true(theirs->id != mine_id);
	order_page_unmap(theirs);
	close(own);
}

static void a_manager_that_is_not_there_harms_nobody(void **state)
{
	static const char *const places[] = {"/nowhere/at/all", "/dev/null", "relative", "@", "",
					     "vsock:2:1234"};

	shelf_needs_keeper();
	manager.size = "5";
	for (int i = 0; i < 7; i++) {
		memset(manager.path, 'x', sizeof(manager.path) - 1);
		*manager.path = '/';
		if (i < 6)
			strcpy(manager.path, places[i]);
		start(NULL);
		keep("a", 1);
		assert_int_equal(withdraw("a"), GPUSHARE_OK);
		raw_daemon_end(SIGTERM);
	}
}

#define with_manager(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)

UNIT_MAIN(with_manager(it_keeps_and_gives_back), with_manager(one_that_came_back_proves_it),
	  with_manager(what_is_not_meant_for_us_is_left),
	  with_manager(without_a_store_there_is_a_keeper),
	  with_manager(a_busy_manager_gets_it_later),
	  with_manager(a_part_outlives_its_whole_that_came_back),
	  with_manager(what_was_not_stored_takes_no_room),
	  with_manager(a_page_cant_be_passed_off_as_anothers),
	  with_manager(a_manager_that_is_not_there_harms_nobody))
