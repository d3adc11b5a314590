/* SPDX-License-Identifier: MIT */
#include "observe/audit.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "os/clock.h"
#include "os/log.h"
#include "state/session.h"

#define LINES_MAX (1 << 18) /* bytes of lines that wait to be written; further lines are left out */
#define WRITE_MS 200	    /* how long writing a batch of lines may take */
#define JOURNAL_WAIT_MS 20  /* how long one send waits for room in journald's queue */

static const struct sockaddr_un journal = {.sun_family = AF_UNIX,
					   .sun_path = "/run/systemd/journal/socket"};

struct line {
	const char *verb, *name, *outcome, *why;
	struct process who;
	uint64_t generation, size, count; /* 0: the line doesn't have this field */
};

/* Clients choose `words`, so escape bytes that could end the line or the quotes. */
static void put_quoted(FILE *to, const char *key, const char *words)
{
	fprintf(to, " %s=\"", key);
	for (; *words; words++) {
		unsigned char byte = (unsigned char)*words;

		if (byte < ' ' || byte >= 0x7f || byte == '"' || byte == '\\')
			fprintf(to, "\\x%02x", byte);
		else
			fputc(byte, to);
	}
	fputc('"', to);
}

/* Write the text of a line, without its time. The name is not escaped: codec.c has refused names
 * that aren't valid. */
static void put_line(FILE *to, const struct line *line)
{
	fprintf(to, "%s uid=%" PRIu32, line->verb, line->who.uid);
	if (line->count) {
		fprintf(to, " count=%" PRIu64, line->count);
		return;
	}
	fprintf(to, " pid=%" PRId32, line->who.pid);
	put_quoted(to, "command", line->who.command);
	if (*line->name)
		fprintf(to, " name=\"%s\"", line->name);
	if (line->generation)
		fprintf(to, " generation=%" PRIu64, line->generation);
	if (line->size)
		fprintf(to, " size=%" PRIu64, line->size);
	fprintf(to, " outcome=%s", line->outcome);
	if (line->why)
		put_quoted(to, "why", line->why);
}

/* Add the line as text for a file, or as fields for journald (systemd.journal-fields(7)). */
static void add(struct audit *audit, const struct line *line)
{
	uint64_t now_ns = clock_unix_ns();
	time_t now = (time_t)(now_ns / NS_PER_S);
	FILE *to = audit->lines;
	char time[32] = "";
	struct tm utc;

	if (*audit->path) {
		strftime(time, sizeof(time), "%Y-%m-%dT%H:%M:%S", gmtime_r(&now, &utc));
		fprintf(to, "%s.%06uZ ", time, (unsigned int)(now_ns % NS_PER_S / 1000));
		put_line(to, line);
	} else {
		fputs("MESSAGE=", to);
		put_line(to, line);
		fprintf(to,
			"\nPRIORITY=%d\nSYSLOG_IDENTIFIER=gpushare-registry\nGPUSHARE_VERB=%s\n"
			"GPUSHARE_UID=%" PRIu32 "\nGPUSHARE_PID=%" PRId32
			"\nGPUSHARE_NAME=%s\nGPUSHARE_OUTCOME=%s",
			line->why || line->count ? 4 : 5, line->verb, line->who.uid, line->who.pid,
			line->name, line->outcome);
	}
	fwrite("\n", 1, 2, to); /* the line feed and the NUL */
}

/* Whether the user may have one more line: `rate` lines a second, counting also what the user left
 * unused in the last second. */
static bool may_add(struct audit *audit, struct user *user)
{
	int64_t now = clock_ns(), each = NS_PER_S / (int64_t)audit->rate;
	int64_t next = user->lines_ns > now - NS_PER_S ? user->lines_ns : now - NS_PER_S;

	if (next + each > now)
		return false;
	if (!audit->lines) {
		audit->lines = open_memstream(&audit->text, &audit->size);
		*audit->due = true;
	}
	if (!audit->lines || ftell(audit->lines) > LINES_MAX)
		return false;
	user->lines_ns = next + each;
	return true;
}

/* Report how many lines of the user were left out. false: the user may have no line now. */
static bool report_left_out(struct audit *audit, struct user *user)
{
	struct line line = {.verb = "left_out", .name = "", .outcome = "", .count = user->left_out};

	if (!user->left_out)
		return true;
	if (!may_add(audit, user))
		return false;
	line.who.uid = user->uid;
	add(audit, &line);
	user->left_out = 0;
	return true;
}

static void record_line(struct audit *audit, const struct line *line)
{
	struct user *user;

	if (!audit->rate)
		return;
	user = user_of(audit->users, line->who.uid);
	if (user && report_left_out(audit, user) && may_add(audit, user)) {
		add(audit, line);
		return;
	}
	audit->users->total.audited[AUDITED_left_out]++;
	if (user)
		user->left_out++;
	audit->owing = true;
}

/* Whether the name exists but is hidden from the peer. A staged buffer is hidden only if the peer
 * may not see it after the commit, either. */
static bool is_hidden(const struct audit *audit, const struct session *session, const char *name)
{
	const struct entry *entry = store_find(audit->store, name);

	return entry && !access_sees(session, entry) &&
	       !(entry_is_staged(entry->info.flags) &&
		 access_rights(entry, &session->who) & ACCESS_SEE);
}

/* Write a line about a refusal. Returns whether the name exists but is hidden from the peer. */
static bool record_refusal(struct audit *audit, const struct session *session, const request *ask,
			   int status, const char *why)
{
	const char *verb = request_verb(ask->which_verb);
	bool hidden = is_hidden(audit, session, request_name(ask));
	struct line line = {
	    .verb = verb ? verb : "request",
	    .who = session->peer,
	    .name = request_name(ask),
	    .outcome = status_name(hidden ? GPUSHARE_E_DENIED : status),
	    .why = why,
	};

	if (ask->which_verb == gpushare_Request_share_tag)
		line.size = ask->verb.share.buffer.size;
	audit->users->total.hidden += hidden;
	/* If a name doesn't exist or doesn't appear in time, this is no refusal. */
	if (hidden || (status != GPUSHARE_E_NOT_FOUND && status != GPUSHARE_E_TIMED_OUT))
		record_line(audit, &line);
	return hidden;
}

void audit_request(struct audit *audit, const struct session *session, const request *ask,
		   const reply *answer)
{
	const record *attached = &answer->body.attach.buffer;
	struct line line = {.who = session->peer, .outcome = "ok"};

	if (answer->status) {
		record_refusal(audit, session, ask, answer->status, answer->message);
		return;
	}
	line.verb = request_verb(ask->which_verb);
	line.name = request_name(ask);
	if (ask->which_verb == gpushare_Request_attach_tag) {
		line.generation = attached->generation;
		line.size = attached->size;
	} else if (ask->which_verb == gpushare_Request_share_tag) {
		line.generation = answer->body.share.generation;
		line.size = ask->verb.share.buffer.size;
		if (answer->body.share.adopted || ask->verb.share.again)
			line.outcome = answer->body.share.adopted ? "adopted" : "again";
	} else {
		return;
	}
	record_line(audit, &line);
}

bool audit_wait(struct audit *audit, const struct session *session, const request *ask)
{
	return record_refusal(audit, session, ask, GPUSHARE_E_TIMED_OUT,
			      "the peer waits for a name that it may not see");
}

void audit_refused(struct audit *audit, const struct process *who, const char *verb, int status)
{
	struct line line = {
	    .verb = verb,
	    .who = *who,
	    .name = "",
	    .outcome = status_name(status),
	    .why = status_text(status),
	};

	record_line(audit, &line);
}

void audit_removal(struct audit *audit, const struct entry *entry, const struct process *by,
		   const char *outcome)
{
	struct line line = {
	    .verb = "remove",
	    .who = *by,
	    .name = entry->name,
	    .generation = entry->info.generation,
	    .size = entry->info.size,
	    .outcome = outcome,
	};

	record_line(audit, &line);
}

char *audit_take(struct audit *audit, size_t *out_size)
{
	struct user *user = audit->owing ? audit->users->by_uid : NULL;
	char *text;

	for (audit->owing = false; user; user = user->hh.next)
		audit->owing |= !report_left_out(audit, user);
	if (!audit->lines)
		return NULL;
	fclose(audit->lines);
	audit->lines = NULL;
	*out_size = audit->size;
	text = audit->text;
	audit->text = NULL;
	return text;
}

/* One write() for each line, because other processes may append to the file, too. */
static bool write_line(struct audit *audit, const char *line)
{
	size_t length = strlen(line);
	ssize_t wrote;

	if (!*audit->path)
		return sendto(audit->fd, line, length, MSG_NOSIGNAL,
			      (const struct sockaddr *)&journal, sizeof(journal)) >= 0;
	if (audit->torn && write(audit->fd, "\n", 1) == 1)
		audit->torn = false;
	wrote = write(audit->fd, line, length);
	audit->torn |= wrote >= 0 && (size_t)wrote < length;
	if (audit->torn)
		errno = ENOSPC;
	return wrote >= 0 && !audit->torn;
}

void audit_write(struct audit *audit, char *lines, size_t size)
{
	int64_t deadline_ns = clock_ns() + WRITE_MS * NS_PER_MS;
	bool lost = false;
	int error = 0;

	for (const char *line = lines; line < lines + size; line += strlen(line) + 1) {
		/* The main loop has other work. If journald had no room within JOURNAL_WAIT_MS, or
		 * after WRITE_MS, the remaining lines are lost. */
		if (error != EAGAIN && clock_ns() < deadline_ns)
			error = write_line(audit, line) ? 0 : errno;
		else
			error = EAGAIN;
		audit->users->total.audited[error ? AUDITED_lost : AUDITED_written]++;
		if (error && !lost)
			log_error("the audit can't be written: %s; lines are lost",
				  strerror(error));
		lost |= error;
	}
	free(lines);
}

const char *audit_fault(const char *word)
{
	const char *suffix = strrchr(word, '.');

	if (!strcmp(word, "off") || !strcmp(word, "journal") || *word == '/')
		return NULL;
	/* No other file in the registry's directory has that suffix. */
	if (suffix && suffix > word && !strcmp(suffix, ".log") && !strchr(word, '/'))
		return NULL;
	return "wants off, journal, an absolute path, or a file's name that ends in .log";
}

/* Refuse a block device, a file that another user owns or may write to, and a file with a second
 * hard link. */
static int open_file(const char *path, const char **why)
{
	int flags = O_WRONLY | O_APPEND | O_CREAT | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK | O_NOCTTY;
	int fd = open(path, flags, 0600);
	struct stat is;

	if (fd < 0 || fstat(fd, &is))
		*why = errno == ELOOP ? "it is a symbolic link" : strerror(errno);
	else if (S_ISBLK(is.st_mode) ||
		 (S_ISREG(is.st_mode) &&
		  (is.st_uid != geteuid() || is.st_mode & (S_IWGRP | S_IWOTH) || is.st_nlink > 1)))
		*why = "it must be this user's own, not writable by others, without a hard link";
	else
		return fd;
	if (fd >= 0)
		close(fd);
	return -1;
}

/* The socket isn't connected: journald may restart, so each line is sent to its path. */
static int open_journal(const char **why)
{
	const struct timeval wait = {.tv_usec = JOURNAL_WAIT_MS * 1000};
	int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);

	if (fd >= 0 && !access(journal.sun_path, W_OK) &&
	    !setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &wait, sizeof(wait)))
		return fd;
	*why = strerror(errno);
	if (fd >= 0)
		close(fd);
	return -1;
}

bool audit_open(struct audit *audit, const char *word, uint64_t rate, const char *directory)
{
	bool is_journal = !strcmp(word, "journal");
	const char *why;

	if (!strcmp(word, "off"))
		return true;
	if (!is_journal)
		snprintf(audit->path, sizeof(audit->path), "%s%s%s", *word == '/' ? "" : directory,
			 *word == '/' ? "" : "/", word);
	audit->fd = is_journal ? open_journal(&why) : open_file(audit->path, &why);
	if (audit->fd < 0) {
		log_error("can't write the audit to %s: %s; the registry doesn't start without it",
			  is_journal ? journal.sun_path : audit->path, why);
		return false;
	}
	audit->rate = rate;
	return true;
}

void audit_reopen(struct audit *audit)
{
	const char *why;
	int fd;

	if (!audit->rate || !*audit->path)
		return;
	fd = open_file(audit->path, &why);
	if (fd < 0) {
		log_error("can't open %s again: %s; the audit continues in the old file",
			  audit->path, why);
		return;
	}
	close(audit->fd);
	audit->fd = fd;
	audit->torn = false;
}
