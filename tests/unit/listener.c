/* SPDX-License-Identifier: MIT */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
/* cmocka wants the four above first */
#include <cmocka.h>

#include <sys/socket.h>
#include <sys/un.h>

#include "listener.h"
#include "raw.h"

int listener_dial(void)
{
	struct sockaddr_un to = {.sun_family = AF_UNIX};
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	assert_int_equal(directory_events_socket(raw_here.directory, to.sun_path), GPUSHARE_OK);
	assert_int_equal(connect(fd, (struct sockaddr *)&to, sizeof(to)), 0);
	return fd;
}

int listener_greet(void)
{
	uint8_t mine[SP_GREETING_SIZE], theirs[SP_GREETING_SIZE];
	int fd = listener_dial();

	sp_greeting(mine, SP_SUB);
	assert_true(raw_write(fd, mine, sizeof(mine)));
	assert_true(raw_read(fd, theirs, sizeof(theirs), RAW_TIMEOUT_MS));
	assert_true(sp_greeting_is(theirs, SP_PUB));
	return fd;
}
