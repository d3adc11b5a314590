/* SPDX-License-Identifier: MIT */
/* Descriptors that the library holds beside the memory that was imported from them. */
#include "unit.h"

#include "base/client_held.h"
#include "descriptors.h"

static int make(char byte)
{
	int fd = memfd_create("unit", MFD_CLOEXEC);

	assert_int_equal(write(fd, &byte, 1), 1);
	return fd;
}

static char byte_of(int fd)
{
	char byte = 0;

	return pread(fd, &byte, 1, 0) == 1 ? byte : 0;
}

static void what_is_held_can_be_had(void **state)
{
	int one = make('1'), two = make('2'), before = descriptors_open(), fd;
	uint64_t first = held_keep(one), second = held_keep(two);

	close(one);
	close(two);
	assert_true(first && second && first != second);
	fd = held_open(first);
	assert_int_equal(byte_of(fd), '1');
	assert_int_equal(fcntl(fd, F_GETFD), FD_CLOEXEC);
	close(fd);
	errno = 77;
	held_drop(first);
	held_drop(first);
	held_drop(0);
	assert_int_equal(errno, 77);
	assert_int_equal(held_open(first), -1);
	fd = held_open(second);
	assert_int_equal(byte_of(fd), '2');
	close(fd);
	held_drop(second);
	assert_int_equal(descriptors_open(), before - 2);
	errno = 77;
	assert_int_equal(held_keep(-1), 0);
	assert_int_equal(errno, 77);
}

/* The number of the next duplicate, which the test then closes. */
static int next_number(int fd)
{
	int number = fcntl(fd, F_DUPFD_CLOEXEC, 256);

	close(number);
	return number;
}

static void what_the_program_closed_is_not(void **state)
{
	int one = make('1'), other = make('2'), number = next_number(one);
	uint64_t held = held_keep(one);

	assert_int_equal(byte_of(number), '1');
	close(number);
	assert_int_equal(held_open(held), -1);
	assert_int_equal(dup2(other, number), number); /* the number is now the program's own */
	assert_int_equal(held_open(held), -1);
	held_drop(held);
	assert_int_equal(byte_of(number), '2');
	close(number);
	close(one);
	close(other);
}

static void a_child_has_none(void **state)
{
	int one = make('1'), number = next_number(one), status, fd;
	uint64_t held = held_keep(one);
	pid_t pid = fork();

	if (!pid)
		_exit(fcntl(number, F_GETFD) >= 0 || held_open(held) >= 0);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	fd = held_open(held);
	assert_int_equal(byte_of(fd), '1');
	close(fd);
	held_drop(held);
	close(one);
}

UNIT_MAIN(UNIT(what_is_held_can_be_had), UNIT(what_the_program_closed_is_not),
	  UNIT(a_child_has_none))
