/* SPDX-License-Identifier: MIT */
/* Whom the directory of a registry and its sockets let in: this user, a group, all. */
#include "unit.h"

#include <stdio.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "os/socket_access.h"
#include "os/identity.h"
#include "protocol.h"

static char directory[64], why[256];

static int set_up(void **state)
{
	(void)state;
	strcpy(directory, "/tmp/gpushare-unit-XXXXXX");
	return mkdtemp(directory) ? 0 : -1;
}

static int tear_down(void **state)
{
	char command[128];

	(void)state;
	socket_access_set(false, IDENTITY_NO_GROUP);
	snprintf(command, sizeof(command), "rm -rf %s", directory);
	return system(command);
}

static const char *inside(const char *name)
{
	static char path[128];

	snprintf(path, sizeof(path), "%s/%s", directory, name);
	return path;
}

static unsigned int mode_of(const char *path)
{
	struct stat is;

	assert_int_equal(lstat(path, &is), 0);
	return is.st_mode & 07777;
}

/* A socket that listens, of that mode. */
static void assert_listens(const char *name, unsigned int mode)
{
	int fd = socket_access_listen(inside(name), SOCK_STREAM);

	assert_true(fd >= 0);
	assert_int_equal(socket_access_mode(), mode);
	assert_int_equal(mode_of(inside(name)), mode);
	close(fd);
}

static void a_users_own_is_for_nobody_else(void **state)
{
	(void)state;
	socket_access_set(false, IDENTITY_NO_GROUP);
	assert_listens("own", 0600);
	assert_true(socket_access_open(inside("none"))); /* nothing is to be opened to anybody */
}

/* All may trust root's directory anywhere, an ordinary user's only where nobody can put another one. */
static void assert_prepared(const char *path, unsigned int mode)
{
	assert_int_equal(socket_access_prepare(path, why, sizeof(why)),
			 geteuid() ? GPUSHARE_E_DENIED : GPUSHARE_OK);
	if (geteuid())
		assert_non_null(strstr(why, "others than root may write to the directory above"));
	assert_int_equal(mode_of(path), mode);
}

static void a_hosts_is_for_all_or_a_group(void **state)
{
	(void)state;
	socket_access_set(true, IDENTITY_NO_GROUP);
	assert_prepared(directory, DIRECTORY_SYSTEM_MARK | 0755);
	assert_listens("all", 0666);
	socket_access_set(true, getegid());
	assert_prepared(directory, DIRECTORY_SYSTEM_MARK | 0750);
	assert_listens("group", 0660);
	assert_prepared(inside("made"), DIRECTORY_SYSTEM_MARK | 0750);
}

static void what_cant_be_opened_is_not(void **state)
{
	(void)state;
	socket_access_set(true, IDENTITY_NO_GROUP);
	assert_false(socket_access_open(inside("none")));
	assert_int_equal(socket_access_listen(inside("none/socket"), SOCK_STREAM), -1);
	socket_access_set(true, getegid());
	assert_false(socket_access_open(inside("none")));
}

static void a_directory_that_others_write_to_is_refused(void **state)
{
	(void)state;
	socket_access_set(true, IDENTITY_NO_GROUP);
	assert_int_equal(chmod(directory, 0775), 0);
	assert_int_equal(socket_access_prepare(directory, why, sizeof(why)), GPUSHARE_E_DENIED);
	assert_non_null(strstr(why, "has mode 775"));
	assert_int_equal(mode_of(directory), 0775);
	assert_int_equal(chmod(directory, 0757), 0);
	assert_int_equal(socket_access_prepare(directory, why, sizeof(why)), GPUSHARE_E_DENIED);
}

static void what_is_no_directory_is_refused(void **state)
{
	(void)state;
	socket_access_set(true, IDENTITY_NO_GROUP);
	assert_int_equal(symlink(directory, inside("link")), 0);
	assert_int_not_equal(socket_access_prepare(inside("link"), why, sizeof(why)), GPUSHARE_OK);
	assert_non_null(strstr(why, "can't open"));
	assert_int_not_equal(socket_access_prepare(inside("none/none"), why, sizeof(why)),
			     GPUSHARE_OK);
	assert_non_null(strstr(why, "can't make"));
}

static void another_users_directory_is_refused(void **state)
{
	(void)state;
	if (geteuid())
		skip(); /* only root can give a directory away */
	socket_access_set(true, IDENTITY_NO_GROUP);
	assert_int_equal(mkdir(inside("theirs"), 0755), 0);
	assert_int_equal(chown(inside("theirs"), 12345, 12345), 0);
	assert_int_equal(socket_access_prepare(inside("theirs"), why, sizeof(why)),
			 GPUSHARE_E_DENIED);
	assert_non_null(strstr(why, "uid 12345"));
	assert_int_equal(mode_of(inside("theirs")), 0755);
}

#define DOOR_TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
	    DOOR_TEST(a_users_own_is_for_nobody_else),
	    DOOR_TEST(a_hosts_is_for_all_or_a_group),
	    DOOR_TEST(what_cant_be_opened_is_not),
	    DOOR_TEST(a_directory_that_others_write_to_is_refused),
	    DOOR_TEST(what_is_no_directory_is_refused),
	    DOOR_TEST(another_users_directory_is_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
