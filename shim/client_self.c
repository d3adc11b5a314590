/* SPDX-License-Identifier: MIT */
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cleanup.h"
#include "client_internal.h"

/* Field 22 of /proc/self/stat. The command, field 2, may hold blanks and parentheses. */
static uint64_t self_started(void)
{
	_cleanup_close_ int fd = open("/proc/self/stat", O_RDONLY | O_CLOEXEC);
	char text[1024];
	ssize_t length = fd >= 0 ? read(fd, text, sizeof(text) - 1) : -1;
	const char *after;
	uint64_t started = 0;

	text[length > 0 ? length : 0] = '\0';
	after = strrchr(text, ')');
	if (!after || sscanf(after + 1,
			     " %*c %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s "
			     "%*s %*s %*s %" SCNu64,
			     &started) != 1)
		return 0;
	return started;
}

void client_self(gpushare_Self *out_self)
{
	struct stat is;

	*out_self = (gpushare_Self){.pid = getpid(), .started = self_started()};
	if (!stat("/proc/self/ns/pid", &is))
		out_self->pid_namespace = is.st_ino;
}
