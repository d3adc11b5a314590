/* SPDX-License-Identifier: MIT */
#include "log.h"

#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <unistd.h>

#include "protocol.h"

static bool enabled;

void log_enable(bool on)
{
	enabled = on;
}

void log_write(bool always, const char *format, ...)
{
	char line[1024];
	int room = sizeof(line) - 1, length;
	va_list arguments;

	if (!enabled && !always)
		return;
	length = snprintf(line, sizeof(line), "gpushare-registry: ");
	va_start(arguments, format);
	length += vsnprintf(line + length, (size_t)(room - length), format, arguments);
	va_end(arguments);
	if (length >= room)
		length = room - 1;
	/* Text from a peer must not begin a new line. */
	for (char *at = line; (at = text_control(at));)
		*at = '?';
	line[length++] = '\n';
	/* One write(), so that threads don't mix lines. If stderr is a pipe that is full, the line
	 * is lost. */
	if (poll(&(struct pollfd){.fd = STDERR_FILENO, .events = POLLOUT}, 1, 0) == 1)
		(void)!write(STDERR_FILENO, line, (size_t)length);
}
