/* SPDX-License-Identifier: MIT */
/* Names, the directory, message headers, status codes. */
#include "unit.h"

#include "protocol.h"

static void only_the_alphabet_is_a_name(void **state)
{
	for (int byte = 1; byte < 256; byte++) {
		char name[] = {'x', (char)byte, '\0'};
		bool want =
		    byte < 128 && strchr("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
					 "0123456789._/-",
					 byte);

		assert_int_equal(name_is_valid(name), want);
		assert_int_equal(name_fault(name) == NULL, want);
	}
}

#define A51 "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"

/* A leading hyphen is refused, because a program would take it for an option. */
static void a_name_has_a_length_and_a_first_byte(void **state)
{
	static const struct {
		const char *name, *fault; /* NULL: none */
	} is[] = {
	    {"", "at least one"},
	    {"-", "does not begin with '-'"},
	    {"-w", "does not begin with '-'"},
	    {"--all", "does not begin with '-'"},
	    {"w-", NULL},
	    {"a/-w", NULL},
	    {A51 A51 A51 A51 A51, NULL}, /* 255 bytes */
	    {A51 A51 A51 A51 A51 "a", "255"},
	};

	assert_false(name_is_valid(NULL));
	for (size_t i = 0; i < sizeof(is) / sizeof(*is); i++) {
		assert_int_equal(name_is_valid(is[i].name), !is[i].fault);
		if (is[i].fault)
			assert_non_null(strstr(name_fault(is[i].name), is[i].fault));
	}
}

static void a_header_without_sense_is_refused(void **state)
{
	uint8_t to[SP_HEADER_SIZE + SP_ID_SIZE];

	sp_header(to, 1, 0);
	assert_int_equal(sp_header_body_size(to), 0);
	to[8] = 3; /* no room for the id */
	assert_int_equal(sp_header_body_size(to), -1);
	sp_header(to, 1, GPUSHARE_MESSAGE_MAX);
	assert_int_equal(sp_header_body_size(to), GPUSHARE_MESSAGE_MAX);
	sp_header(to, 1, GPUSHARE_MESSAGE_MAX + 1);
	assert_int_equal(sp_header_body_size(to), -1);
	memset(to + 1, 0xff, 8);
	assert_int_equal(sp_header_body_size(to), -1);
	sp_header(to, 1, 5);
	to[0] = 0; /* as in an old SP draft */
	assert_int_equal(sp_header_body_size(to), -1);
}

static char scratch[64];

static int make_scratch(void **state)
{
	unsetenv("GPUSHARE_DIR");
	unsetenv("XDG_RUNTIME_DIR");
	strcpy(scratch, "/tmp/gpushare-unit-XXXXXX");
	return mkdtemp(scratch) ? 0 : -1;
}

static int remove_scratch(void **state)
{
	return rmdir(scratch);
}

static void assert_found(const char *given, const char *want)
{
	char path[GPUSHARE_PATH_MAX];

	assert_int_equal(directory_find(given, path), GPUSHARE_OK);
	assert_string_equal(path, want);
}

static void the_directory_is_found_in_order(void **state)
{
	char by_uid[64];

	snprintf(by_uid, sizeof(by_uid), "/tmp/gpushare-%u", (unsigned)geteuid());
	assert_found(NULL, by_uid);
	assert_found("", by_uid);
	setenv("XDG_RUNTIME_DIR", "", 1);
	assert_found(NULL, by_uid);
	setenv("XDG_RUNTIME_DIR", "run/me", 1); /* relative: ignored, as specified */
	assert_found(NULL, by_uid);
	setenv("XDG_RUNTIME_DIR", "/run/user/7", 1);
	assert_found(NULL, "/run/user/7/gpushare");
	setenv("GPUSHARE_DIR", "", 1);
	assert_found(NULL, "/run/user/7/gpushare");
	setenv("GPUSHARE_DIR", "/here//", 1);
	assert_found(NULL, "/here");
	assert_found("/given/", "/given");
	assert_found("/", "/");
}

static void a_relative_directory_is_pinned(void **state)
{
	char here[GPUSHARE_PATH_MAX], want[GPUSHARE_PATH_MAX + 8];

	assert_non_null(getcwd(here, sizeof(here)));
	assert_int_equal(chdir(scratch), 0);
	snprintf(want, sizeof(want), "%s/sub", scratch);
	assert_found("sub/", want);
	setenv("GPUSHARE_DIR", "sub", 1);
	assert_found(NULL, want);
	assert_int_equal(mkdir("gone", 0700), 0);
	assert_int_equal(chdir("gone"), 0);
	assert_int_equal(rmdir("../gone"), 0);
	assert_int_equal(directory_find("sub", want), GPUSHARE_E_NOT_FOUND);
	assert_int_equal(chdir(here), 0);
}

/* "/registry.sock" and the NUL must also fit into sun_path. */
static void a_long_directory_is_refused(void **state)
{
	char path[300], out[GPUSHARE_PATH_MAX] = "untouched", why[256];

	memset(path, 'd', sizeof(path));
	path[0] = '/';
	path[sizeof(path) - 1] = '\0';
	assert_int_equal(directory_find(path, out), GPUSHARE_E_INVALID);
	path[94] = '\0';
	assert_int_equal(directory_find(path, out), GPUSHARE_E_INVALID);
	assert_string_equal(out, "untouched");
	assert_int_equal(directory_join(path, GPUSHARE_SOCKET, out), GPUSHARE_E_INVALID);
	assert_int_equal(directory_prepare(path, why, sizeof(why)), GPUSHARE_E_INVALID);
	assert_non_null(strstr(why, "too long"));
	path[93] = '\0';
	assert_int_equal(directory_find(path, out), GPUSHARE_OK);
	assert_int_equal(directory_join(path, GPUSHARE_SOCKET, out), GPUSHARE_OK);
	assert_int_equal(strlen(out), GPUSHARE_PATH_MAX - 1);
	assert_string_equal(out + 93, "/registry.sock");
	setenv("XDG_RUNTIME_DIR", path, 1);
	assert_int_equal(directory_find(NULL, out), GPUSHARE_E_INVALID);
	path[93] = 'd';
	setenv("XDG_RUNTIME_DIR", path, 1);
	assert_int_equal(directory_find(NULL, out), GPUSHARE_E_INVALID);
}

static void statuses(void **state)
{
	assert_int_equal(status_from_errno(0), GPUSHARE_OK);
	assert_int_equal(status_from_errno(EACCES), GPUSHARE_E_DENIED);
	assert_int_equal(status_from_errno(ENOMEM), GPUSHARE_E_NO_MEMORY);
	assert_int_equal(status_from_errno(ECONNREFUSED), GPUSHARE_E_NO_REGISTRY);
	assert_int_equal(status_from_errno(EMFILE), GPUSHARE_E_LIMIT);
	for (int error = 1; error < 134; error++)
		assert_true(status_from_errno(error) < 0);
	assert_string_equal(status_name(-9999), "unknown");
	assert_string_equal(status_text(1), "unknown status");
}

#define in_place(test) cmocka_unit_test_setup_teardown(test, make_scratch, remove_scratch)

static void distances(void **state)
{
	static const struct {
		const char *one, *other;
		unsigned int most, distance;
	} is[] = {
	    {"weights", "weights", 2, 0}, {"wieghts", "weights", 2, 2},
	    {"weight", "weights", 2, 1},  {"kitten", "sitting", 5, 3},
	    {"kitten", "sitting", 2, 3},  {"", "abc", 5, 3},
	    {"abcdef", "uvwxyz", 3, 4},	  {"", "", 2, 0},
	    {A51 A51, "weights", 2, 3},	  {A51 A51 A51 A51 A51 "a", "a", 300, 301},
	};

	for (size_t i = 0; i < sizeof(is) / sizeof(*is); i++) {
		assert_int_equal(edit_distance(is[i].one, is[i].other, is[i].most), is[i].distance);
		assert_int_equal(edit_distance(is[i].other, is[i].one, is[i].most), is[i].distance);
	}
	for (int length = 60; length <= 130; length++) { /* across word boundaries */
		char one[256] = "", other[256] = "";

		memset(one, 'a', (size_t)length);
		memset(other, 'a', (size_t)length);
		other[length / 2] = other[length - 1] = 'b';
		assert_int_equal(edit_distance(one, other, 5), 2);
		memmove(other + 1, other, (size_t)length);
		other[0] = 'c';
		assert_int_equal(edit_distance(one, other, 5), 3);
		assert_int_equal(edit_distance(other, one, 5), 3);
		assert_int_equal(edit_distance(other, one, 2), 3);
	}
}

UNIT_MAIN(UNIT(only_the_alphabet_is_a_name), UNIT(a_name_has_a_length_and_a_first_byte),
	  UNIT(a_header_without_sense_is_refused), in_place(the_directory_is_found_in_order),
	  in_place(a_relative_directory_is_pinned), in_place(a_long_directory_is_refused),
	  UNIT(statuses), UNIT(distances))
