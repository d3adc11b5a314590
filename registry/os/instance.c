/* SPDX-License-Identifier: MIT */
#include "os/instance.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "os/clock.h"
#include "os/socket_access.h"
#include "os/running_instance.h"
#include "os/log.h"
#include "os/replace.h"

#define INSTANCE_LOCK "registry.lock"
#define LOCK_PATH_MAX (GPUSHARE_PATH_MAX + sizeof(INSTANCE_LOCK))
#define INSTANCE_WAIT_MS 2000 /* for a daemon that is starting or leaving to make that clear */
#define REPLACE_WAIT_MS 5000  /* for one that was asked to leave */
#define INSTANCE_RETRY_MS 5

static void lock_path(const struct instance *place, char out_path[LOCK_PATH_MAX])
{
	snprintf(out_path, LOCK_PATH_MAX, "%s/%s", place->directory, INSTANCE_LOCK);
}

/* Is what we hold, or are about to, what others who come find? */
static bool lock_has_name(const struct instance *place)
{
	char path[LOCK_PATH_MAX];
	struct stat is, held;

	lock_path(place, path);
	return !lstat(path, &is) && !fstat(place->lock, &held) && is.st_ino == held.st_ino &&
	       is.st_dev == held.st_dev;
}

static int read_holder(int lock)
{
	char text[16] = "";

	return pread(lock, text, sizeof(text) - 1, 0) > 0 ? atoi(text) : 0;
}

static void write_holder(int lock)
{
	char text[16];
	int length = snprintf(text, sizeof(text), "%d\n", getpid());

	if (ftruncate(lock, 0) || pwrite(lock, text, (size_t)length, 0) != length)
		log_line("can't write the pid to %s: %s", INSTANCE_LOCK, strerror(errno));
}

static int say_served(const struct instance *place, const struct replace *asking)
{
	int pid = read_holder(place->lock);
	char who[32] = "";

	if (pid > 0)
		snprintf(who, sizeof(who), " (pid %d)", pid);
	if (asking)
		log_error(
		    "the registry%s that serves %s does not leave (%s); end it with 'kill', or "
		    "'kill -KILL' where it hangs",
		    who, place->directory, asking->why);
	else
		log_error("a registry%s already serves %s", who, place->directory);
	return INSTANCE_SERVED;
}

/*
 * A lock that is held while there is no socket belongs to a daemon that has not begun to listen or
 * is about to leave; the first will show its socket, the second let go of the lock. So will one that
 * was killed, whose socket is there; one that only takes long answers in the end.
 */
static bool may_wait(const struct instance *place, struct replace *asking, int64_t began_ns)
{
	int64_t wait_ns = asking ? REPLACE_WAIT_MS * NS_PER_MS : INSTANCE_WAIT_MS * NS_PER_MS;

	if (clock_ns() >= began_ns + wait_ns)
		return false;
	if (asking)
		return replace_ask(asking);
	return access(place->socket, F_OK) ||
	       !running_instance_answers(place->fds_socket, began_ns + wait_ns);
}

static int take_lock(const struct instance *place, struct replace *asking)
{
	int64_t began_ns = clock_ns();

	while (flock(place->lock, LOCK_EX | LOCK_NB) < 0) {
		if (errno != EWOULDBLOCK) {
			log_error("can't lock %s/%s: %s", place->directory, INSTANCE_LOCK,
				  strerror(errno));
			return GPUSHARE_E_IO;
		}
		if (!may_wait(place, asking, began_ns))
			return say_served(place, asking);
		poll(NULL, 0, INSTANCE_RETRY_MS);
	}
	write_holder(place->lock);
	return GPUSHARE_OK;
}

static int open_lock(struct instance *place)
{
	char path[LOCK_PATH_MAX];

	lock_path(place, path);
	place->lock = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (place->lock >= 0)
		return GPUSHARE_OK;
	log_error("can't open %s: %s", path, strerror(errno));
	return status_from_errno(errno);
}

static int take_place(struct instance *place, bool replace)
{
	struct replace asking;
	int status;

	replace_init(&asking, place->fds_socket);
	for (;;) {
		status = open_lock(place);
		if (!status)
			status = take_lock(place, replace ? &asking : NULL);
		if (status || lock_has_name(place))
			break;
		close(place->lock); /* somebody removed it while we waited */
		place->lock = -1;
	}
	replace_finish(&asking);
	return status;
}

/* Only a socket: somebody's file is not ours to delete. */
static int remove_stale(const char *path)
{
	struct stat is;

	if (lstat(path, &is) < 0)
		return GPUSHARE_OK;
	if (!S_ISSOCK(is.st_mode)) {
		log_error("%s is in the way and is no socket; remove it", path);
		return GPUSHARE_E_EXISTS;
	}
	if (unlink(path) < 0) {
		log_error("can't remove %s: %s", path, strerror(errno));
		return status_from_errno(errno);
	}
	return GPUSHARE_OK;
}

int instance_open(struct instance *place, const char *given, bool is_system, bool replace)
{
	char why[512];
	int status;

	*place = (struct instance){.lock = -1};
	status = directory_find(given || !is_system ? given : DOOR_DIRECTORY, place->directory);
	if (status) {
		log_error(
		    "the directory's path is too long for a socket; choose a shorter one with "
		    "--dir");
		return status;
	}
	status = is_system ? socket_access_prepare(place->directory, why, sizeof(why))
			   : directory_prepare(place->directory, why, sizeof(why));
	if (status) {
		log_error("%s", why);
		return status;
	}
	directory_socket(place->directory, place->socket);
	directory_fds_socket(place->directory, place->fds_socket);
	snprintf(place->aside, sizeof(place->aside), "%s.aside", place->socket);
	status = take_place(place, replace);
	if (!status)
		status = remove_stale(place->socket);
	if (!status)
		status = remove_stale(place->aside);
	if (!status)
		status = remove_stale(place->fds_socket);
	if (status && place->lock >= 0) {
		close(place->lock);
		place->lock = -1;
	}
	return status;
}

bool instance_is_lost(const struct instance *place)
{
	char path[LOCK_PATH_MAX];
	struct stat held;

	if (fstat(place->lock, &held) || held.st_nlink)
		return false;
	lock_path(place, path);
	return !access(path, F_OK) || access(place->socket, F_OK);
}

void instance_clear(const struct instance *place)
{
	if (!lock_has_name(place))
		return; /* nor may what stands there be ours */
	unlink(place->socket);
	unlink(place->aside);
	unlink(place->fds_socket);
}

void instance_close(struct instance *place)
{
	instance_clear(place);
	close(place->lock);
	place->lock = -1;
}

bool instance_hide(const struct instance *place)
{
	return !rename(place->socket, place->aside);
}

bool instance_show(const struct instance *place)
{
	return !rename(place->aside, place->socket);
}
