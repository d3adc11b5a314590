/* SPDX-License-Identifier: MIT */
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "client_internal.h"

/* Field 22 of /proc/self/stat. Field 2, the command, may contain blanks and parentheses. */
static uint64_t self_started(void)
{
	_cleanup_close_ int fd = open("/proc/self/stat", O_RDONLY | O_CLOEXEC);
	char text[512]; /* a command has 15 bytes, a number 20 at most */
	ssize_t length = fd >= 0 ? read(fd, text, sizeof(text) - 1) : -1;
	const char *at;

	text[length > 0 ? length : 0] = '\0';
	at = strrchr(text, ')');
	for (int field = 2; at && field < 22; field++)
		at = strchr(at + 1, ' ');
	return at ? strtoull(at, NULL, 10) : 0;
}

void client_self(gpushare_Self *out_self)
{
	struct stat is;

	*out_self = (gpushare_Self){.pid = getpid(), .started = self_started()};
	if (!stat("/proc/self/ns/pid", &is))
		out_self->pid_namespace = is.st_ino;
}
