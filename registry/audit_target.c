/* SPDX-License-Identifier: MIT */
#include "audit_target.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "audit.h"
#include "os/log.h"

#define JOURNAL "/run/systemd/journal/socket"

bool audit_target_is_off(const char *word)
{
	return !strcmp(word, "off");
}

static bool is_journal(const char *word)
{
	return !strcmp(word, "journal");
}

/* In the registry's directory it must be no file of its own. */
static bool is_log_name(const char *word)
{
	size_t length = strlen(word);

	return length > 4 && !strcmp(word + length - 4, ".log") && !strchr(word, '/');
}

const char *audit_target_fault(const char *word)
{
	size_t length = strlen(word);

	if (audit_target_is_off(word) || is_journal(word) || is_log_name(word))
		return NULL;
	if (*word == '/' && length > 1 && word[length - 1] != '/')
		return NULL;
	return "wants off, journal, an absolute path, or a file's name that ends in .log";
}

/* Nobody else's, and no other name for what is something else. */
static const char *distrust(int fd)
{
	struct stat is;

	if (fstat(fd, &is))
		return strerror(errno);
	if (S_ISCHR(is.st_mode) || S_ISFIFO(is.st_mode))
		return NULL;
	if (!S_ISREG(is.st_mode))
		return "it is no file";
	if (is.st_uid != geteuid() || is.st_mode & (S_IWGRP | S_IWOTH))
		return "it is another user's, or others may write to it";
	return is.st_nlink > 1 ? "it has another name (a hard link)" : NULL;
}

/* -1: `why`. */
static int open_file(const char *path, const char **why)
{
	int fd = open(
	    path, O_WRONLY | O_APPEND | O_CREAT | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK | O_NOCTTY,
	    0600);

	if (fd < 0) {
		*why = errno == ELOOP ? "it is a link, and none is followed" : strerror(errno);
		return -1;
	}
	*why = distrust(fd);
	if (!*why)
		return fd;
	close(fd);
	return -1;
}

static int open_journal(const char **why)
{
	struct sockaddr_un at = {.sun_family = AF_UNIX, .sun_path = JOURNAL};
	int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);

	/* Asked once whether it is there; then by its path each time, for it may be started anew. */
	if (fd >= 0 && !connect(fd, (const struct sockaddr *)&at, sizeof(at)) &&
	    !connect(fd, &(struct sockaddr){.sa_family = AF_UNSPEC}, sizeof(struct sockaddr)))
		return fd;
	*why = strerror(errno);
	if (fd >= 0)
		close(fd);
	return -1;
}

bool audit_target_open(struct audit_target *target, const char *word, const char *directory)
{
	const char *why = "its path is too long";
	size_t length = 0;

	*target = (struct audit_target){.fd = -1};
	if (is_journal(word)) {
		target->fd = open_journal(&why);
	} else {
		length =
		    (size_t)snprintf(target->path, sizeof(target->path), "%s%s%s",
				     *word == '/' ? "" : directory, *word == '/' ? "" : "/", word);
		if (length < sizeof(target->path))
			target->fd = open_file(target->path, &why);
	}
	if (target->fd >= 0)
		return true;
	log_error("can't write the audit to %s: %s; without it nothing is served",
		  *target->path ? target->path : JOURNAL, why);
	return false;
}

void audit_target_close(struct audit_target *target)
{
	close(target->fd);
	target->fd = -1;
}

bool audit_target_reopen(struct audit_target *target)
{
	const char *why;
	int fd;

	if (!*target->path)
		return true;
	fd = open_file(target->path, &why);
	if (fd < 0) {
		log_error("can't open %s again: %s; the audit goes on in the old file",
			  target->path, why);
		return false;
	}
	close(target->fd);
	target->fd = fd;
	target->torn = false;
	return true;
}

static bool tell_journal(const struct audit_target *target, const struct audit_line *line)
{
	struct sockaddr_un at = {.sun_family = AF_UNIX, .sun_path = JOURNAL};
	char text[2 * AUDIT_LINE_MAX];
	size_t length = audit_journal_text(line, text);

	return sendto(target->fd, text, length, MSG_NOSIGNAL, (const struct sockaddr *)&at,
		      sizeof(at)) == (ssize_t)length;
}

/* One write() for one line: others may append to the file, too. */
bool audit_target_write(struct audit_target *target, const struct audit_line *line)
{
	char text[AUDIT_LINE_MAX + 2] = "\n"; /* ends what was torn */
	size_t length;
	ssize_t wrote;

	if (!*target->path)
		return tell_journal(target, line);
	length = 1 + audit_text(line, true, text + 1);
	text[length++] = '\n';
	wrote = write(target->fd, text + !target->torn, length - !target->torn);
	if (wrote < 0)
		return false;
	target->torn = (size_t)wrote < length - !target->torn;
	if (target->torn)
		errno = ENOSPC;
	return !target->torn;
}
