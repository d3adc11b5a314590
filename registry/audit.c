/* SPDX-License-Identifier: MIT */
#include "audit.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "state/access.h"
#include "os/clock.h"
#include "os/log.h"
#include "registry.h"

#define OWING_MS 1000 /* how soon a line says what was left out, once there is room */

/* Each user has so many a second, and what it did not use of one second. */
static bool may_have(const struct audit *audit, struct user *user)
{
	int64_t now = clock_ns(), each = NS_PER_S / (int64_t)audit->rate;
	int64_t next = user->lines_ns > now - NS_PER_S ? user->lines_ns : now - NS_PER_S;

	if (next + each > now || audit->count == AUDIT_WAITING)
		return false;
	user->lines_ns = next + each;
	return true;
}

static struct audit_line *line_new(struct audit *audit, const char *verb, uint32_t uid)
{
	struct audit_line *line = &audit->waiting[(audit->first + audit->count) % AUDIT_WAITING];

	audit->count++;
	*line = (struct audit_line){.unix_ns = clock_unix_ns(), .verb = verb, .uid = uid};
	eventfd_write(audit->wake, 1);
	return line;
}

/* true: a line says so now, or there is nothing to say. */
static bool pay(struct audit *audit, struct user *user)
{
	if (!user->left_out)
		return true;
	if (!may_have(audit, user))
		return false;
	line_new(audit, "left_out", user->uid)->left_out = user->left_out;
	user->left_out = 0;
	return true;
}

/* NULL: there is no audit, or no line for this. */
static struct audit_line *begin(struct registry *registry, const char *verb,
				const struct process *who, const char *outcome)
{
	struct audit *audit = registry->audit;
	struct audit_line *line;
	struct user *user;

	if (!audit || registry->leaving)
		return NULL;
	user = user_of(&registry->users, who->uid);
	if (!user || !pay(audit, user) || !may_have(audit, user)) {
		registry->counts.audited[AUDITED_left_out]++;
		if (user) {
			user->left_out++;
			audit->owing = true;
			eventfd_write(audit->wake, 1);
		}
		return NULL;
	}
	line = line_new(audit, verb, who->uid);
	line->pid = who->pid;
	line->outcome = outcome;
	strcpy(line->command, who->command);
	return line;
}

static void say_what(struct audit_line *line, const char *name, uint64_t generation, uint64_t size)
{
	strcpy(line->name, name);
	line->generation = generation;
	line->size = size;
}

static void audit_success(struct registry *registry, const struct session *session,
			  const request *ask, const reply *answer)
{
	const record *shared = &ask->verb.share.buffer, *attached = &answer->body.attach.buffer;
	struct audit_line *line;

	if (ask->which_verb == gpushare_Request_attach_tag) {
		line = begin(registry, "attach", &session->peer, "ok");
		if (line)
			say_what(line, attached->name, attached->generation, attached->size);
	} else if (ask->which_verb == gpushare_Request_share_tag) {
		line = begin(registry, "share", &session->peer,
			     answer->body.share.adopted ? "adopted"
			     : ask->verb.share.again	? "again"
							: "ok");
		if (line)
			say_what(line, shared->name, answer->body.share.generation, shared->size);
	}
}

/* That nothing is there is no refusal. */
static bool is_refusal(int status)
{
	return status < 0 && status != GPUSHARE_E_NOT_FOUND && status != GPUSHARE_E_TIMED_OUT;
}

/* It stands, and who asks may not know: to him nothing is there. What will be his to see is just early. */
static bool is_hidden(const struct registry *registry, const struct session *session,
		      const char *name)
{
	const struct entry *entry = store_find(&registry->store, name);

	return entry && !access_sees(session, entry) &&
	       !(entry_is_staged(entry->info.flags) &&
		 access_rights(&entry->info, &session->who) & ACCESS_SEE);
}

void audit_request(struct registry *registry, const struct session *session, const request *ask,
		   const reply *answer)
{
	const char *verb = ask ? request_verb(ask->which_verb) : NULL;
	struct audit_line *line;
	bool hidden;

	if (!answer->status && ask)
		audit_success(registry, session, ask, answer);
	hidden = answer->status < 0 && ask && is_hidden(registry, session, request_name(ask));
	registry->counts.hidden += hidden;
	if (!is_refusal(answer->status) && !hidden)
		return;
	line = begin(registry, verb ? verb : "request", &session->peer,
		     status_name(hidden ? GPUSHARE_E_DENIED : answer->status));
	if (!line)
		return;
	strcpy(line->name, ask ? request_name(ask) : "");
	if (ask && ask->which_verb == gpushare_Request_share_tag)
		line->size = ask->verb.share.buffer.size;
	snprintf(line->why, sizeof(line->why), "%s", answer->message);
}

bool audit_wait(struct registry *registry, const struct session *session, const request *ask)
{
	struct audit_line *line;

	if (!is_hidden(registry, session, request_name(ask)))
		return false;
	registry->counts.hidden++;
	line = begin(registry, request_verb(ask->which_verb), &session->peer,
		     status_name(GPUSHARE_E_DENIED));
	if (!line)
		return true;
	strcpy(line->name, request_name(ask));
	strcpy(line->why, "it waits for what is there and it may not see");
	return true;
}

void audit_refused(struct registry *registry, const struct process *who, const char *verb,
		   int status)
{
	struct audit_line *line;

	if (!is_refusal(status))
		return;
	line = begin(registry, verb, who, status_name(status));
	if (line)
		snprintf(line->why, sizeof(line->why), "%s", status_text(status));
}

void audit_removal(struct registry *registry, const struct entry *entry, const struct process *by,
		   const char *outcome)
{
	struct audit_line *line = begin(registry, "remove", by ? by : &entry->owner, outcome);

	if (line)
		say_what(line, entry->info.name, entry->info.generation, entry->info.size);
}

void audit_departure(struct registry *registry, const struct entry *entry, enum departure how)
{
	static const char *const outcomes[] = {
	    [DEPARTURE_OWNER_GONE] = "owner_gone", [DEPARTURE_WITHDRAWN] = "withdrawn",
	    [DEPARTURE_EXPIRED] = "expired",	   [DEPARTURE_LOST] = "lost",
	    [DEPARTURE_UNLINKED] = "unlinked",
	};

	/* Another one's request may be what makes an owner's end known. */
	audit_removal(registry, entry, how == DEPARTURE_UNLINKED ? registry->asking : NULL,
		      outcomes[how]);
}

void audit_stranger(struct registry *registry, uint32_t uid, int32_t pid)
{
	struct process who;

	if (!registry->audit)
		return;
	process_read(pid, uid, &who);
	begin(registry, "connect", &who, "E_DENIED");
}

/* Those whose lines were left out and who have room for a line now. */
static void pay_all(struct audit *audit)
{
	struct user *user = audit->owing ? audit->registry->users.by_uid : NULL;

	audit->owing = false;
	for (; user; user = user->hh.next)
		audit->owing |= !pay(audit, user);
}

/* When the next look is due; the oldest line in *out_line, and true. */
static bool take(struct audit *audit, uint64_t written, struct audit_line *out_line,
		 int *timeout_ms)
{
	struct registry *registry = audit->registry;
	bool took;

	registry_lock(registry);
	registry->counts.audited[AUDITED_written] += written;
	took = audit->count;
	if (!took)
		pay_all(audit);
	if (took) {
		*out_line = audit->waiting[audit->first];
		audit->first = (audit->first + 1) % AUDIT_WAITING;
		audit->count--;
	}
	*timeout_ms = audit->count ? 0 : audit->owing ? OWING_MS : -1;
	registry_unlock(registry);
	return took;
}

static void count_lost(struct audit *audit)
{
	registry_lock(audit->registry);
	audit->registry->counts.audited[AUDITED_lost]++;
	registry_unlock(audit->registry);
	if (!audit->lost++)
		log_error("the audit can't be written: %s; lines are lost", strerror(errno));
}

/* true: it is written, and what was lost before is said. */
static bool write_line(struct audit *audit, const struct audit_line *line)
{
	struct audit_line lost = {
	    .unix_ns = clock_unix_ns(), .verb = "lost", .uid = line->uid, .left_out = audit->lost};

	if (audit->lost && !audit_target_write(&audit->target, &lost)) {
		count_lost(audit);
		return false;
	}
	audit->lost = 0;
	if (audit_target_write(&audit->target, line))
		return true;
	count_lost(audit);
	return false;
}

static void *serve(void *argument)
{
	struct audit *audit = argument;
	struct pollfd wake = {.fd = audit->wake, .events = POLLIN};
	uint64_t written = 0;

	for (;;) {
		bool ending = atomic_load(&audit->ending);
		struct audit_line line;
		eventfd_t ignored;
		int timeout_ms;

		if (atomic_exchange(&audit->reopening, false))
			audit_target_reopen(&audit->target);
		if (take(audit, written, &line, &timeout_ms)) {
			written = write_line(audit, &line);
			continue;
		}
		written = 0;
		if (ending)
			return NULL;
		if (poll(&wake, 1, timeout_ms) > 0)
			eventfd_read(audit->wake, &ignored);
	}
}

bool audit_open(struct registry *registry, const char *word, uint64_t rate, const char *directory)
{
	struct audit *audit;

	if (audit_target_is_off(word))
		return true;
	audit = calloc(1, sizeof(*audit));
	if (!audit) {
		log_error("no memory for the audit");
		return false;
	}
	if (!audit_target_open(&audit->target, word, directory)) {
		free(audit);
		return false;
	}
	audit->registry = registry;
	audit->rate = rate;
	audit->waiting = calloc(AUDIT_WAITING, sizeof(*audit->waiting));
	audit->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (audit->waiting && audit->wake >= 0) {
		registry->audit = audit;
		errno = pthread_create(&audit->thread, NULL, serve, audit);
		if (!errno)
			return true;
		registry->audit = NULL;
	}
	log_error("can't start the audit: %s", strerror(errno));
	audit_target_close(&audit->target);
	if (audit->wake >= 0)
		close(audit->wake);
	free(audit->waiting);
	free(audit);
	return false;
}

void audit_close(struct registry *registry)
{
	struct audit *audit = registry->audit;

	if (!audit)
		return;
	atomic_store(&audit->ending, true);
	eventfd_write(audit->wake, 1);
	pthread_join(audit->thread, NULL);
	registry_lock(registry);
	registry->audit = NULL;
	registry_unlock(registry);
	audit_target_close(&audit->target);
	close(audit->wake);
	free(audit->waiting);
	free(audit);
}

void audit_reopen(struct registry *registry)
{
	if (!registry->audit)
		return;
	atomic_store(&registry->audit->reopening, true);
	eventfd_write(registry->audit->wake, 1);
}
