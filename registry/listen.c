/* SPDX-License-Identifier: MIT */
#include "listen.h"

#include <errno.h>
#include <nng/transport/ipc/ipc.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "door.h"
#include "log.h"
#include "probe.h"
#include "protocol.h"

#define BACKLOG 128
#define FRESH_SUFFIX ".new" /* of a socket that is about to take the old one's place */

static int start(nng_socket socket, const char *path, const char *suffix)
{
	char url[sizeof("ipc://") + GPUSHARE_PATH_MAX + 8];
	nng_listener listener;
	int result;

	snprintf(url, sizeof(url), "ipc://%s%s", path, suffix);
	if ((result = nng_listener_create(&listener, socket, url)))
		return result;
	if (!(result = nng_listener_set_int(listener, NNG_OPT_IPC_PERMISSIONS, 0600)) &&
	    !(result = nng_listener_start(listener, 0)) &&
	    !(result = door_open(url + sizeof("ipc://") - 1) ? 0 : NNG_EPERM))
		return 0;
	nng_listener_close(listener);
	return result;
}

int listen_start(nng_socket socket, const char *path)
{
	return start(socket, path, "");
}

int listen_plain(const char *path, int type)
{
	struct sockaddr_un at = {.sun_family = AF_UNIX};
	int fd = socket(AF_UNIX, type | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	snprintf(at.sun_path, sizeof(at.sun_path), "%s", path);
	/* The mode before the name: never open to others, not for a moment. */
	if (fd >= 0 && !fchmod(fd, 0600) && !bind(fd, (const struct sockaddr *)&at, sizeof(at)) &&
	    !listen(fd, BACKLOG) && door_open(path))
		return fd;
	if (fd >= 0)
		close(fd);
	return -1;
}

void listen_hear(nng_socket socket, const char *path, uint16_t protocol, int heard)
{
	char fresh[GPUSHARE_PATH_MAX + 8];
	int result;

	if (probe_is_answered(path, protocol, heard))
		return;
	snprintf(fresh, sizeof(fresh), "%s%s", path, FRESH_SUFFIX);
	unlink(fresh);
	result = start(socket, path, FRESH_SUFFIX);
	if (result || rename(fresh, path))
		log_error("%s does not answer and can't be opened anew: %s", path,
			  result ? nng_strerror(result) : strerror(errno));
	else
		log_line("%s did not answer: opened anew", path);
}
