/* SPDX-License-Identifier: MIT */
#include "log.h"

#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <unistd.h>

#include "text.h"

static bool enabled; /* set once, before there are threads */

void log_enable(bool on)
{
	enabled = on;
}

/* One write(), so that lines of several threads don't mix. What a peer may have chosen can't begin
 * a line of its own. A reader that has stopped reading loses lines: nobody waits for it. */
static void log_write(const char *format, va_list arguments)
{
	char line[1024];
	int begin = snprintf(line, sizeof(line), "gpushare-registry: ");
	int length = begin + vsnprintf(line + begin, sizeof(line) - begin - 1, format, arguments);

	if (length > (int)sizeof(line) - 2)
		length = (int)sizeof(line) - 2;
	line[length] = '\0';
	for (char *at = line; (at = text_control(at));)
		*at = '?';
	line[length] = '\n';
	if (poll(&(struct pollfd){.fd = STDERR_FILENO, .events = POLLOUT}, 1, 0) != 1)
		return;
	(void)!write(STDERR_FILENO, line, (size_t)length + 1);
}

void log_line(const char *format, ...)
{
	va_list arguments;

	if (!enabled)
		return;
	va_start(arguments, format);
	log_write(format, arguments);
	va_end(arguments);
}

void log_error(const char *format, ...)
{
	va_list arguments;

	va_start(arguments, format);
	log_write(format, arguments);
	va_end(arguments);
}
