/* SPDX-License-Identifier: MIT */
/* Validation: the fields of a request, the rights of its peer, and the limits of its user. Error
 * messages: each names the buffer, the cause and the next step. None reveals what the peer may not
 * see. */
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "os/clock.h"
#include "verbs/call.h"

#define WHO_SIZE (sizeof("pid 2147483647 ()") + GPUSHARE_COMMAND_MAX)

int explain(reply *answer, int status, const char *format, ...)
{
	va_list arguments;

	va_start(arguments, format);
	vsnprintf(answer->message, sizeof(answer->message), format, arguments);
	va_end(arguments);
	return status;
}

static const char *describe(const struct process *process, char who[WHO_SIZE])
{
	if (process->pid <= 0)
		snprintf(who, WHO_SIZE, "a process that is not visible here");
	else if (*process->command)
		snprintf(who, WHO_SIZE, "pid %d (%s)", process->pid, process->command);
	else
		snprintf(who, WHO_SIZE, "pid %d", process->pid);
	return who;
}

int explain_taken(const struct call *call, const struct entry *entry)
{
	bool is_seen = access_sees(call->session, entry);
	char who[WHO_SIZE];

	describe(entry_owner(entry), who);
	if (!is_seen && entry_is_staged(entry->info.flags) &&
	    entry_owner(entry)->uid == call->session->peer.uid)
		return refuse(call, GPUSHARE_E_EXISTS,
			      "\"%s\" is taken by %s, which has not committed it yet; wait, or "
			      "choose another name",
			      call->name, who);
	if (!is_seen)
		return refuse(call, GPUSHARE_E_EXISTS,
			      "\"%s\" is taken by another user; choose another name", call->name);
	if (!entry->session)
		return refuse(call, GPUSHARE_E_EXISTS,
			      "\"%s\" is kept for uid %u; choose another name", call->name,
			      entry_owner(entry)->uid);
	return refuse(call, GPUSHARE_E_EXISTS,
		      "\"%s\" is taken by %s, uid %u, for %lld s; choose another name or end "
		      "that process",
		      call->name, who, entry_owner(entry)->uid,
		      (long long)(call->state->unix_ns - entry->info.created_unix_ns) / NS_PER_S);
}

static int explain_gone(const struct call *call, int status, const struct tombstone *gone)
{
	static const char *const what[] = {
	    [DEPARTURE_OWNER_GONE] = "exited",
	    [DEPARTURE_WITHDRAWN] = "withdrew it",
	    [DEPARTURE_EXPIRED] = "had it; its ttl ran out",
	    [DEPARTURE_LOST] = "had it; it was lost with the registry, noticed",
	    [DEPARTURE_UNLINKED] = "had it; it was unlinked",
	};
	bool is_alive = gone->how == DEPARTURE_OWNER_GONE && process_runs(&gone->owner);
	char who[WHO_SIZE];

	return refuse(call, status, "\"%s\" is gone: %s %s %lld s ago", call->name,
		      describe(&gone->owner, who),
		      is_alive ? "closed its session" : what[gone->how],
		      (long long)((clock_ns() - gone->when_ns) / NS_PER_S));
}

int explain_missing(const struct call *call, int status)
{
	const struct registry *registry = call->registry;
	const struct entry *entry = call_find(call, 0);
	const struct tombstone *gone = call_find_gone(call);
	char who[WHO_SIZE];

	if (entry && entry->info.missing)
		return refuse(call, status,
			      "\"%s\" was shared before the registry restarted, and nobody has "
			      "brought its memory back yet; %s %s it",
			      call->name, describe(entry_owner(entry), who),
			      entry->session ? "has" : "had");
	if (gone)
		return explain_gone(call, status, gone);
	return refuse(call, status, "no buffer is named \"%s\"; %s", call->name,
		      !registry->state.store.names.root && may_know_all(call)
			  ? "nothing is shared now"
			  : "run 'gpushare ls' to see what is");
}

int explain_other(const struct call *call, uint64_t generation)
{
	const struct entry *entry = call_find(call, 0);

	if (!entry)
		return explain_missing(call, GPUSHARE_E_NOT_FOUND);
	return refuse(call, GPUSHARE_E_NOT_FOUND,
		      "\"%s\" is another buffer now: generation %" PRIu64 ", not %" PRIu64,
		      call->name, entry->info.generation, generation);
}

int explain_rights(const struct call *call, const struct entry *entry, const char *may,
		   const char *cure)
{
	return refuse(call, GPUSHARE_E_DENIED,
		      "\"%s\" belongs to uid %u, its mode is %04o, and uid %u %s; %s", entry->name,
		      entry_owner(entry)->uid, (unsigned int)entry->info.mode,
		      call->session->peer.uid, may, cure);
}

int explain_protocol(const struct call *call)
{
	return refuse(call, GPUSHARE_E_PROTOCOL,
		      "this registry (gpushare %s, protocol %d) doesn't understand the request",
		      GPUSHARE_VERSION, GPUSHARE_PROTOCOL);
}

static bool all_zero(const uint8_t *bytes, size_t size)
{
	while (size && !bytes[size - 1])
		size--;
	return size == 0;
}

int check_tags(const struct call *call, const gpushare_Tag *tags, pb_size_t count)
{
	for (pb_size_t i = 0; i < count; i++) {
		const gpushare_Tag *tag = &tags[i];

		/* A key has the alphabet of names, without the slash. */
		if (!name_is_valid(tag->key) || strchr(tag->key, '/'))
			return refuse(call, GPUSHARE_E_INVALID,
				      "\"%s\": the key of tag %d is not made of A-Z a-z 0-9 . _ -",
				      call->name, i + 1);
		/* Values end up on terminals and in one-line logs. */
		if (text_control(tag->value))
			return refuse(call, GPUSHARE_E_INVALID,
				      "\"%s\": the value of tag %s holds a control character",
				      call->name, tag->key);
		for (pb_size_t j = 0; j < i; j++) {
			if (!strcmp(tags[j].key, tag->key))
				return refuse(call, GPUSHARE_E_INVALID,
					      "\"%s\": tag %s is given twice", call->name,
					      tag->key);
		}
	}
	return GPUSHARE_OK;
}

int check_generation(const struct call *call, const char *name, uint64_t generation)
{
	if (generation <= GENERATION_CLIENT_MAX)
		return GPUSHARE_OK;
	return refuse(call, GPUSHARE_E_INVALID, "\"%s\" can't have had generation %" PRIu64, name,
		      generation);
}

#define KINDS (GPUSHARE_FLAG_KEEP | GPUSHARE_FLAG_READONLY)

/* Only a buffer with a descriptor can be kept or be read-only. Returns the contradiction as the end
 * of the message, or NULL. */
static const char *contradiction(const gpushare_Share *share, bool with_fd)
{
	const record *info = &share->buffer;
	uint32_t flags = info->flags;
	bool fd = backing_is_fd(info->backing), event = info->backing == GPUSHARE_BACKING_EVENT;
	bool handle = !all_zero(share->handle, sizeof(share->handle));

	if (event && (info->size || info->base_offset || info->base_size))
		return "is an event, but has a size or an offset";
	if (!event && !info->size)
		return "has size 0";
	if (all_zero(info->device_uuid, sizeof(info->device_uuid)))
		return "names no GPU";
	if (flags & KINDS && !fd)
		return "can't be kept or read-only without a file descriptor; use memory of "
		       "cuMemCreate";
	if (!entry_is_kept(flags) && info->ttl_s)
		return "has a ttl, but is not kept; add keep";
	if (!entry_is_kept(flags) && share->adopt)
		return "is to be adopted, but not kept; add keep";
	if (entry_is_staged(flags) && (share->adopt || share->orphan))
		return "can't be staged: other processes see it already";
	if (share->orphan && (!share->again || !entry_is_kept(flags)))
		return "is brought back by an attacher, but without keep or its generation";
	if (share->part_of && (share->again || share->adopt))
		return "is a part of a buffer, so it can't be brought back or adopted";
	if (share->again && share->adopt)
		return "is brought back or adopted, not both";
	if (fd && !with_fd && !share->adopt)
		return "comes without its file descriptor; send both to " GPUSHARE_FDS_SOCKET;
	if (!fd && !handle)
		return "comes without a handle";
	if (with_fd && handle)
		return "comes with a handle and a file descriptor; its backing uses one of them";
	return NULL;
}

static int check_group(const struct call *call, gpushare_Share *share)
{
	const struct identity_group *group = call->group;
	const struct session *session = call->session;

	if (group->status == GPUSHARE_E_IO) /* the look-up failed, or fds.sock made none */
		return refuse(call, GPUSHARE_E_IO,
			      "\"%s\": the group '%s' can't be looked up on this host now; try "
			      "again, or give its number",
			      call->name, share->group);
	if (group->status)
		return refuse(call, GPUSHARE_E_NOT_FOUND,
			      "\"%s\": there is no group '%s' where the registry runs; 'getent "
			      "group' lists the groups",
			      call->name, share->group);
	if (session->peer.uid && !identity_is_in(&session->who, group->gid))
		return refuse(call, GPUSHARE_E_DENIED,
			      "\"%s\": this process of uid %u is not in the group '%s'%s; use "
			      "a group that 'id' lists",
			      call->name, session->peer.uid, share->group,
			      session->who.count ? "" : ", or the registry can't see its groups");
	share->buffer.owner_gid = group->gid;
	return GPUSHARE_OK;
}

static int check_rights(const struct call *call, gpushare_Share *share)
{
	if (share->mode & ~ACCESS_MODE)
		return refuse(call, GPUSHARE_E_INVALID,
			      "\"%s\": mode %04o is invalid; use only read and write bits, such as "
			      "0600, 0640 or 0666",
			      call->name, (unsigned int)share->mode);
	share->buffer.mode = share->mode ? share->mode : ACCESS_MODE_DEFAULT;
	share->buffer.owner_gid = call->session->who.gid;
	return *share->group ? check_group(call, share) : GPUSHARE_OK;
}

int check_share(const struct call *call, gpushare_Share *share, bool with_fd)
{
	const record *info = &share->buffer;
	const char *wrong;
	int status;

	if (!backing_is_known(info->backing))
		return refuse(call, GPUSHARE_E_NOT_SUPPORTED,
			      "\"%s\": this registry knows no backing %u", info->name,
			      (unsigned)info->backing);
	if (info->flags & ~(uint32_t)(KINDS | GPUSHARE_FLAG_STAGED))
		return refuse(call, GPUSHARE_E_NOT_SUPPORTED,
			      "\"%s\": this registry knows no flags 0x%x", info->name,
			      (unsigned)info->flags);
	wrong = contradiction(share, with_fd);
	if (wrong)
		return refuse(call, GPUSHARE_E_INVALID, "\"%s\" %s", info->name, wrong);
	if (!span_fits(info->base_offset, info->size, info->base_size))
		return refuse(call, GPUSHARE_E_RANGE,
			      "\"%s\" reaches past the end of its allocation", info->name);
	status = check_generation(call, info->name, share->again);
	if (!status)
		status = check_tags(call, info->tags, info->tags_count);
	return status ? status : check_rights(call, share);
}

bool may_know_all(const struct call *call)
{
	uint32_t uid = call->session->peer.uid;

	return !call->registry->is_system || !uid || uid == geteuid();
}

int check_limit(const struct call *call, struct user *user, enum limit what, uint64_t more)
{
	struct state *state = &call->registry->state;
	unsigned int index = state_limit(state, user, what, more);
	bool own = index > LIMIT_KINDS;
	uint64_t limit = (own ? state->users.limits.of_user : state->users.limits.of_all)[what];
	const struct limit_text *text = &limit_texts[what];

	if (!index)
		return GPUSHARE_OK;
	if (what == LIMIT_kept_bytes)
		return refuse(call, GPUSHARE_E_LIMIT,
			      "this buffer would keep %" PRIu64
			      " bytes more; this user keeps %" PRIu64 ", and %s may keep %" PRIu64
			      " (%s in registry.conf); %s",
			      more, user->own.held[what], own ? "one user" : "all users together",
			      limit, limit_keys[index - 1], text->helps);
	return refuse(call, GPUSHARE_E_LIMIT,
		      "%" PRIu64 " %s, which is the limit%s (%s in registry.conf); %s", limit,
		      text->what, own ? " for one user" : "", limit_keys[index - 1], text->helps);
}

int check_tag_limit(const struct call *call, struct user *user, const struct entry *entry,
		    pb_size_t count)
{
	pb_size_t had = entry && entry->user == user ? entry->info.tags_count : 0;

	return count > had ? check_limit(call, user, LIMIT_tags, count - had) : GPUSHARE_OK;
}

int check_descriptor(struct registry *registry, struct user *user)
{
	const struct call call = {.registry = registry, .answer = &registry->reply};
	const struct users *all = &registry->state.users;

	if (all->total.held[LIMIT_connections] + all->fds >= all->limits.together)
		return refuse(&call, GPUSHARE_E_LIMIT,
			      "this registry has as many connections and file descriptors as its "
			      "'ulimit -n' allows; free some buffers, or raise that limit");
	return check_limit(&call, user, LIMIT_descriptors, 1);
}

int check_owner(const struct call *call, const struct entry *entry, const char *verb)
{
	if (access_of(call->session, entry) & ACCESS_OWN)
		return GPUSHARE_OK;
	return refuse(call, GPUSHARE_E_DENIED,
		      "\"%s\" belongs to uid %u; only that user or root may %s it, not uid %u",
		      entry->name, entry_owner(entry)->uid, verb, call->session->peer.uid);
}

int check_attach(const struct call *call, const struct entry *entry, bool read_only,
		 bool *out_read_only)
{
	unsigned int rights = access_of(call->session, entry);
	bool may_write = rights & ACCESS_WRITE;

	if (!(rights & ACCESS_READ))
		return explain_rights(call, entry, "may not read it",
				      "its owner can share it with another mode");
	if (!may_write && entry->info.backing == GPUSHARE_BACKING_EVENT)
		return explain_rights(call, entry, "may only read it",
				      "an event can't be opened for reading only: its owner can "
				      "share it with another mode");
	if (!may_write && !backing_is_fd(entry->info.backing))
		return explain_rights(call, entry, "may only read it",
				      "cudaMalloc memory can't be attached read-only: its owner "
				      "can share it as vmm memory, or with another mode");
	if (!may_write && !read_only && !(entry->info.flags & GPUSHARE_FLAG_READONLY))
		return explain_rights(call, entry, "may only read it", "attach it read-only");
	*out_read_only = read_only || !may_write;
	return GPUSHARE_OK;
}

int check_socket(const struct call *call)
{
	if (call->registry->passing)
		return GPUSHARE_OK;
	return refuse(
	    call, GPUSHARE_E_INVALID,
	    "this answer comes with a file descriptor: send the request to " GPUSHARE_FDS_SOCKET);
}
