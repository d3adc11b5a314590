/* SPDX-License-Identifier: MIT */
/* registry.conf: what it may say, where each fault is, and whose file is believed. */
#include "unit.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "config.h"

static struct settings settings;
static char *said;
static size_t said_size;

/* What the file says; the faults in `said`. */
static unsigned int parse_bytes(const char *text, size_t size)
{
	unsigned int faults;
	FILE *say;

	free(said);
	said = NULL;
	say = open_memstream(&said, &said_size);
	settings_init(&settings);
	faults = config_parse("f", text, size, &settings, say);
	fclose(say);
	return faults;
}

static unsigned int parse(const char *text)
{
	return parse_bytes(text, strlen(text));
}

static void assert_fault(const char *text, const char *sentence)
{
	assert_int_equal(parse(text), 1);
	if (strncmp(said, sentence, strlen(sentence)) != 0)
		fail_msg("\"%s\" does not begin \"%s\"", said, sentence);
	assert_ptr_equal(strchr(said, '\n'), said + said_size - 1);
}

static int tear_down(void **state)
{
	(void)state;
	free(said);
	said = NULL;
	return 0;
}

static void nothing_is_the_defaults(void **state)
{
	struct settings preset;

	(void)state;
	settings_init(&preset);
	assert_int_equal(parse(""), 0);
	assert_memory_equal(&settings, &preset, sizeof(preset));
	assert_int_equal(parse("\n\n# names = 3\n   \t\n #names = 3"), 0);
	assert_memory_equal(&settings, &preset, sizeof(preset));
	assert_int_equal(preset.limits.of_user[LIMIT_connections], 10000);
	assert_string_equal(preset.audit, "off");
}

static void values(void **state)
{
	(void)state;
	assert_int_equal(parse("names=7\n\tuser_names =\t 64Ki # so many\nkept_bytes = 2T\n"
			       "user_tags = 1M\nidle_exit_s = 0\naudit = /a b#c.log  # there"),
			 0);
	assert_int_equal(settings.limits.names, 7);
	assert_int_equal(settings.limits.of_user[LIMIT_names], 65536);
	assert_int_equal(settings.limits.kept_bytes, 2000000000000);
	assert_int_equal(settings.limits.of_user[LIMIT_tags], 1000000);
	assert_string_equal(settings.audit, "/a b#c.log");
	assert_int_equal(parse("audit = registry.log"), 0);
	assert_int_equal(parse("audit = journal"), 0);
	assert_int_equal(parse("names = 9007199254740992"), 0);
	assert_int_equal(parse("names = 8Ti"), 0);
}

static void faults_say_where(void **state)
{
	(void)state;
	assert_fault("nmaes = 1", "f:1:1: \"nmaes\" is no key; did you mean \"names\"?");
	assert_fault("\n  zzzzzzzz = 1", "f:2:3: \"zzzzzzzz\" is no key; registry.conf(5)");
	assert_fault("names = 1\nx\nuser_names = 1", "f:2:2: '=' is missing");
	assert_fault("names = 1\n\nnames = 1", "f:3:1: names comes twice; line 1 has it");
	assert_fault("names = 0", "f:1:9: names wants a number from 1 to");
	assert_fault("names =   -1", "f:1:11: names wants");
	assert_fault("names =", "f:1:8: names wants");
	assert_fault("names = 1 2", "f:1:9: names wants");
	assert_fault("names = 1k", "f:1:9: names wants");
	assert_fault("names = 9007199254740993", "f:1:9: names wants");
	assert_fault("names = 99999999999999999999999999", "f:1:9: names wants");
	assert_fault("names = 16777217Ti", "f:1:9: names wants");
	assert_fault("silent_s = 3601", "f:1:12: silent_s wants a number from 1 to 3600");
	assert_fault("message_bytes = 1Ki", "f:1:17: message_bytes wants a number from 8192");
	assert_fault("= 1", "f:1:1: \"\" is no key");
	assert_fault("names = 1\r\n", "f:1:10: byte 0x0d is none of plain text's");
	assert_fault("names = \x1b[2J", "f:1:9: byte 0x1b is none");
	assert_fault("n\xc3\xa4mes = 1", "f:1:2: byte 0xc3 is none");
	assert_int_equal(parse("a = 1\nb = 2\nnames = x"), 3);
	assert_int_equal(
	    parse("x\nx\nx\nx\nx\nx\nx\nx\nx\nx\nx\nx\nx\nx\nx\nx\nx\nx\nx\nx\nx\nx\n"),
	    CONFIG_FAULTS_MAX);
	assert_int_equal(parse_bytes("names = 1\0\nb", 12), 2);
	assert_non_null(strstr(said, "f:1:10: byte 0x00"));
}

static void targets(void **state)
{
	static const char *const none[] = {"",	      "on",	   "registry.state",
					   "a/b.log", ".log",	   "../audit.log",
					   "/",	      "/var/log/", "Journal"};
	char line[64];

	(void)state;
	for (size_t i = 0; i < sizeof(none) / sizeof(*none); i++) {
		snprintf(line, sizeof(line), "audit = %s", none[i]);
		assert_int_equal(parse(line), 1);
		assert_non_null(strstr(said, "audit wants off, journal, an absolute path"));
	}
}

static void long_lines(void **state)
{
	static char text[3 * CONFIG_LINE_MAX];

	(void)state;
	memset(text, 'x', sizeof(text) - 1);
	memcpy(text, "audit = /", 9);
	assert_int_equal(parse_bytes(text, CONFIG_LINE_MAX), 0);
	assert_int_equal(strlen(settings.audit), CONFIG_LINE_MAX - 8);
	assert_int_equal(parse_bytes(text, CONFIG_LINE_MAX + 1), 1);
	assert_non_null(strstr(said, "f:1:1025: the line goes on past 1024 bytes"));
	assert_string_equal(settings.audit, "off");
	text[CONFIG_LINE_MAX + 50] = '\n';
	assert_int_equal(parse_bytes(text, sizeof(text) - 1), 2);
}

/* What --check-config prints says the same again. */
static void printed_and_read(void **state)
{
	const struct setting *which;
	struct settings before;
	char *text = NULL;
	size_t size;
	FILE *to = open_memstream(&text, &size);

	(void)state;
	assert_int_equal(parse("names = 17\nuser_waiters = 3\naudit = /x y\nsilent_s = 2"), 0);
	before = settings;
	for (unsigned int i = 0; (which = settings_at(i)); i++)
		settings_print(&settings, which, to);
	fclose(to);
	assert_int_equal(parse(text), 0);
	assert_memory_equal(&settings, &before, sizeof(before));
	free(text);
}

static char directory[] = "/tmp/gpushare-unit-XXXXXX";
static char path[64];

static void write_file(const char *text, mode_t mode)
{
	int fd;

	snprintf(path, sizeof(path), "%s/c", directory);
	unlink(path);
	fd = open(path, O_WRONLY | O_CREAT | O_EXCL, 0600);
	assert_true(fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text));
	assert_int_equal(fchmod(fd, mode), 0);
	close(fd);
}

static bool read_file(const char *file)
{
	bool done;
	FILE *say;

	free(said);
	said = NULL;
	say = open_memstream(&said, &said_size);
	settings_init(&settings);
	done = config_read(file, &settings, say);
	fclose(say);
	return done;
}

static void files(void **state)
{
	char other[64];
	static char large[CONFIG_SIZE_MAX + 2];

	(void)state;
	assert_non_null(mkdtemp(directory));
	write_file("names = 5", 0644);
	assert_true(read_file(path));
	assert_int_equal(settings.limits.names, 5);
	write_file("names = five", 0644);
	assert_false(read_file(path));
	assert_memory_equal(said, path, strlen(path));
	snprintf(other, sizeof(other), "%s/l", directory);
	assert_int_equal(symlink("c", other), 0);
	assert_false(read_file(other));
	assert_non_null(strstr(said, "it is a link"));
	assert_false(read_file(directory));
	assert_non_null(strstr(said, "no plain file"));
	unlink(other);
	assert_int_equal(mkfifo(other, 0600), 0);
	assert_false(read_file(other)); /* and nobody is waited for */
	unlink(other);
	assert_false(read_file(other));
	assert_non_null(strstr(said, "No such file"));
	memset(large, '\n', sizeof(large) - 1);
	write_file(large, 0644);
	assert_false(read_file(path));
	assert_non_null(strstr(said, "larger than 64 KiB"));
	large[CONFIG_SIZE_MAX] = '\0';
	write_file(large, 0644);
	assert_true(read_file(path));
	unlink(path);
	rmdir(directory);
}

/* Root does what the file says: then nobody else may have written it. */
static void roots_file_is_roots(void **state)
{
	(void)state;
	if (geteuid() != 0) {
		printf("skipped: this is not root\n");
		skip();
	}
	strcpy(directory + strlen(directory) - 6, "XXXXXX");
	assert_non_null(mkdtemp(directory));
	write_file("names = 5", 0664);
	assert_false(read_file(path));
	assert_non_null(strstr(said, "others than root may write"));
	write_file("names = 5", 0602);
	assert_false(read_file(path));
	write_file("names = 5", 0644);
	assert_int_equal(chown(path, 4711, 0), 0);
	assert_false(read_file(path));
	assert_non_null(strstr(said, "it is not root's"));
	unlink(path);
	rmdir(directory);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_teardown(name, tear_down)
	const struct CMUnitTest tests[] = {
	    TEST(nothing_is_the_defaults),
	    TEST(values),
	    TEST(faults_say_where),
	    TEST(targets),
	    TEST(long_lines),
	    TEST(printed_and_read),
	    TEST(files),
	    TEST(roots_file_is_roots),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
