/* SPDX-License-Identifier: MIT */
#include <stdarg.h>
#include <stdio.h>

#include "map_backend.h"

int map_refuse(struct map_reason *why, int status, const char *format, ...)
{
	va_list arguments;

	va_start(arguments, format);
	vsnprintf(why->text, sizeof(why->text), format, arguments);
	va_end(arguments);
	return status;
}
