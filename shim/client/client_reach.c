/* SPDX-License-Identifier: MIT */
/* Connects to the registry's socket, waiting for it if needed, and checks who runs the registry. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "client_internal.h"
#include "base/monotonic.h"

#define DAEMON "gpushare-registry"
#define REASON_MAX 160

int client_keep_clear(int fd)
{
	int moved, error;

	if (fd < 0 || fd >= CLIENT_FDS_FROM)
		return fd;
	moved = fcntl(fd, F_DUPFD_CLOEXEC, CLIENT_FDS_FROM);
	if (moved < 0 && fd > STDERR_FILENO)
		return fd;
	if (moved < 0)
		moved = fcntl(fd, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
	error = errno;
	close(fd);
	errno = error;
	return moved;
}

int client_dial(const char *path, int type)
{
	struct sockaddr_un to = {.sun_family = AF_UNIX};
	_cleanup_close_ int fd =
	    client_keep_clear(socket(AF_UNIX, type | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
	int taken;

	if (fd < 0)
		return -errno;
	strncpy(to.sun_path, path, sizeof(to.sun_path) - 1); /* snprintf() uses much stack */
	if (connect(fd, (const struct sockaddr *)&to, sizeof(to)) < 0)
		return -errno;
	taken = fd;
	fd = -1;
	return taken;
}

/* `*said`: a file for the error messages of the registries that are started, until one listens. */
static int start_registry(struct client *client, int *said)
{
	int status = directory_prepare(client->directory, client->why, sizeof(client->why));

	if (status)
		return status;
	if (*said < 0)
		*said = client_keep_clear(memfd_create(DAEMON, MFD_CLOEXEC));
	return autostart_registry(client->directory, *said, client->why, sizeof(client->why));
}

/* The first line in `said`, from the ": " after the program's name on; "" if `said` is empty. */
static const char *read_reason(int said, char reason[REASON_MAX])
{
	ssize_t size = said < 0 ? -1 : pread(said, reason, REASON_MAX - 1, 0);
	char *line = reason;

	reason[size > 0 ? size : 0] = '\0';
	reason[strcspn(reason, "\n")] = '\0';
	if (!strncmp(line, DAEMON ": ", strlen(DAEMON ": ")))
		line += strlen(DAEMON);
	return line;
}

/* Would a registry that is started now know what this client shared or attached? */
static bool is_remembered(const struct client *client)
{
	char path[GPUSHARE_PATH_MAX + sizeof(GPUSHARE_STATE)];

	snprintf(path, sizeof(path), "%s/" GPUSHARE_STATE, client->directory);
	return client->connections && !access(path, F_OK);
}

int client_await_next(const struct client *client, int status)
{
	return status == GPUSHARE_E_NO_REGISTRY && is_remembered(client) ? GPUSHARE_E_NOT_READY
									 : status;
}

/* No registry listens at `path`. Start one, unless one was started just now, or the registry of all
 * users is expected to return. *start_ms: the earliest time to start one, or another if that does
 * not listen by then. */
static int start_if_due(struct client *client, const char *path, bool may_start, int64_t *start_ms,
			int *said)
{
	int status;

	if (client->trust.is_system) {
		if (client->connections && !client->giving_back)
			return GPUSHARE_OK;
		return client_fail(client, GPUSHARE_E_NO_REGISTRY,
				   "no registry serves %s, a directory for all users; an "
				   "administrator must start one (gpushare-registry --system)",
				   client->directory);
	}
	if (!may_start)
		return client_fail(client, GPUSHARE_E_NO_REGISTRY,
				   "no registry listens on %s and autostart is off; start "
				   "gpushare-registry --dir %s",
				   path, client->directory);
	if (monotonic_ms() < *start_ms)
		return GPUSHARE_OK;
	status = start_registry(client, said);
	*start_ms = monotonic_ms() + CLIENT_START_MS;
	return status;
}

int client_reach(struct client *client, int64_t deadline, int *out_fd)
{
	char path[GPUSHARE_PATH_MAX], reason[REASON_MAX];
	_cleanup_close_ int said = -1;
	bool may_start = client->autostart && (!client->giving_back || is_remembered(client));
	int64_t start_ms = 0;

	client->dial_error = 0;
	if (!client->directory[0] ||
	    directory_join(client->directory, GPUSHARE_SOCKET, path) != GPUSHARE_OK)
		return client_fail(client, GPUSHARE_E_NO_REGISTRY,
				   "the registry's directory has too long a path; set GPUSHARE_DIR "
				   "to a shorter one");
	for (;;) {
		int status = GPUSHARE_OK, fd = client_dial(path, SOCK_STREAM);

		if (fd >= 0) {
			*out_fd = fd;
			return GPUSHARE_OK;
		}
		client->dial_error = -fd;
		if (fd == -ENOENT || fd == -ECONNREFUSED)
			status = start_if_due(client, path, may_start, &start_ms, &said);
		else if (fd != -EAGAIN)
			status = client_fail(
			    client, fd == -EACCES ? GPUSHARE_E_DENIED : GPUSHARE_E_NO_REGISTRY,
			    "the registry's socket %s can't be connected to: %s", path,
			    strerror(-fd));
		if (status != GPUSHARE_OK)
			return status;
		if (monotonic_ms() + CLIENT_RETRY_MS >= deadline)
			return client_fail(
			    client, GPUSHARE_E_NO_REGISTRY,
			    start_ms
				? "a registry was started for %s but did not listen within %u ms%s"
				: "the registry in %s took no connection within %u ms%s",
			    client->directory, client->timeout_ms, read_reason(said, reason));
		poll(NULL, 0, CLIENT_RETRY_MS);
	}
}

bool client_outlives(const struct client *client, struct client_endings *endings,
		     int64_t deadline_ms)
{
	int64_t left_ms = deadline_ms - monotonic_ms();
	int pause_ms = CLIENT_RETRY_MS << (endings->all < 6 ? endings->all : 6);

	endings->in_row = endings->server == client->server ? endings->in_row + 1 : 1;
	endings->server = client->server;
	if (++endings->all == CLIENT_ENDINGS || endings->in_row == CLIENT_TRIES || left_ms <= 0)
		return false;
	poll(NULL, 0, pause_ms < left_ms ? pause_ms : (int)left_ms);
	return true;
}

int client_check_peer(struct client *client, int fd)
{
	struct ucred peer;
	socklen_t size = sizeof(peer);

	client->server = 0;
	if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) < 0 ||
	    (peer.uid && peer.uid != client->trust.uid))
		return client_fail(
		    client, GPUSHARE_E_DENIED,
		    "the registry in %s runs as another user than the directory's; set "
		    "GPUSHARE_DIR to a directory of yours",
		    client->directory);
	client->server = peer.pid;
	return GPUSHARE_OK;
}
