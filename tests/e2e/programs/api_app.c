// SPDX-License-Identifier: MIT
/* A program that uses gpushare's API, driven by a script: see script.h. */
#include <poll.h>

#include "api_keep.h"
#include "script_life.h"
#include "script_marks.h"
#include "status.h"

static struct gpushare_session *session;
static struct gpushare_buffer *buffers[128];
static struct gpushare_map *maps[128];

static struct gpushare_buffer **buffer_of(const char *slot)
{
	return &buffers[(unsigned char)slot[0] & 127];
}

/* Print `what name: STATUS`. On failure, print the explanation to stderr. */
static void say(const char *what, const char *name, int status)
{
	printf("%s%s%s: %s\n", what, *name ? " " : "", name, status_name(status));
	if (status)
		fprintf(stderr, "%s\n", gpushare_explain());
}

VERB(open, 0, 1)
{
	struct gpushare_open_options options = {.directory = count ? argument[0] : NULL};

	say("open", "", gpushare_open(&options, &session));
}

VERB(close, 0, 0)
{
	say("close", "", gpushare_close(session));
	session = NULL;
}

static int print_one(const struct gpushare_info *info, void *user)
{
	printf("%s %llu\n", info->name, (unsigned long long)info->size);
	return 0;
}

VERB(list, 0, 1)
{
	int status = gpushare_list(session, count ? argument[0] : NULL, print_one, NULL);

	if (status)
		say("list", "", status);
}

static int stop_at_once(const struct gpushare_info *info, void *user)
{
	return 1;
}

VERB(liststop, 0, 0)
{
	say("liststop", "", gpushare_list(session, NULL, stop_at_once, NULL));
}

/* stat=NAME: print what doesn't differ from run to run; mine says whether this process owns it */
VERB(stat, 1, 1)
{
	struct gpushare_info info;
	int status = gpushare_stat(session, argument[0], &info);

	say("stat", argument[0], status);
	if (!status)
		printf("size %llu offset %llu base %llu attachers %u mine %d uid %d\n",
		       (unsigned long long)info.size, (unsigned long long)info.base_offset,
		       (unsigned long long)info.base_size, info.attachers,
		       info.owner_pid == getpid(), info.owner_uid == getuid());
}

VERB(unlink, 1, 1)
{
	say("unlink", argument[0], gpushare_unlink(session, argument[0]));
}

/* alloc=SLOT,NAME,SIZE */
VERB(alloc, 3, 3)
{
	say("alloc", argument[1],
	    gpushare_alloc(session, argument[1], -1, script_number(argument[2]),
			   buffer_of(argument[0])));
}

/* make=SLOT,NAME,SIZE,OPTIONS: see keep_options() */
VERB(make, 4, 4)
{
	struct gpushare_alloc_options options = keep_options(argument[3]);
	struct gpushare_buffer **slot = buffer_of(argument[0]);
	int status =
	    gpushare_alloc_with(session, argument[1], script_number(argument[2]), &options, slot);

	say("make", argument[1], status);
	if (!status && gpushare_was_adopted(*slot))
		printf("adopted\n");
}

VERB(commit, 1, 1)
{
	say("commit", argument[0], gpushare_commit(*buffer_of(argument[0])));
}

/* what=NAME: print its flags, its ttl, and whether its owner is alive */
VERB(what, 1, 1)
{
	struct gpushare_info info;
	int status = gpushare_stat(session, argument[0], &info);

	if (status)
		say("what", argument[0], status);
	else
		printf("what %s: flags %u ttl %u owner %s\n", argument[0], info.flags, info.ttl_s,
		       info.owner_alive ? "alive" : "gone");
}

/* tag=NAME,KEY,VALUE */
VERB(tag, 3, 3)
{
	struct gpushare_tag tag = {0};

	snprintf(tag.key, sizeof(tag.key), "%s", argument[1]);
	snprintf(tag.value, sizeof(tag.value), "%s", argument[2]);
	say("tag", argument[0], gpushare_tag(session, argument[0], &tag, 1));
}

VERB(link, 1, 1)
{
	printf("link %s: %d\n", argument[0], keep_link(*buffer_of(argument[0])));
}

VERB(walk, 1, 1)
{
	printf("walk %s: %ld\n", argument[0], keep_walk(*buffer_of(argument[0])));
}

/* attach=SLOT,NAME[,WAIT_MS[,same|prefer|host|read]] */
VERB(attach, 2, 4)
{
	struct gpushare_attach_options options = {0};

	if (count > 2)
		options.wait_ms = (unsigned int)script_number(argument[2]);
	if (count > 3)
		*(*argument[3] == 's'	? &options.same_address
		  : *argument[3] == 'h' ? &options.host_only
		  : *argument[3] == 'r' ? &options.read_only
					: &options.prefer_same_address) = 1;
	say("attach", argument[1],
	    gpushare_attach(session, argument[1], &options, buffer_of(argument[0])));
	if (gpushare_is_read_only(*buffer_of(argument[0])))
		printf("read-only\n");
}

/* attachfor=SLOT,NAME[,DEVICE]: with DEVICE, map it for that device (on_device) */
VERB(attachfor, 2, 3)
{
	const struct gpushare_attach_options options = {
	    .on_device = count > 2,
	    .device = count > 2 ? (int)script_number(argument[2]) : 0,
	};
	int status = gpushare_attach(session, argument[1], &options, buffer_of(argument[0]));

	say("attach", argument[1], status);
	if (!status)
		printf("for device %d\n", gpushare_device(*buffer_of(argument[0])));
}

VERB(detach, 1, 1)
{
	say("detach", argument[0], gpushare_detach(*buffer_of(argument[0])));
}

VERB(free, 1, 1)
{
	say("free", argument[0], gpushare_free(*buffer_of(argument[0])));
}

VERB(state, 1, 1)
{
	enum gpushare_state state;
	int status = gpushare_state(*buffer_of(argument[0]), &state);

	if (status)
		say("state", argument[0], status);
	else
		printf("state %s: %s\n", argument[0], gpushare_state_text(state));
}

/* same=SLOT,SLOT: print whether both have the same address */
VERB(same, 2, 2)
{
	printf("same: %s\n", gpushare_pointer(*buffer_of(argument[0])) ==
				     gpushare_pointer(*buffer_of(argument[1]))
				 ? "yes"
				 : "no");
}

VERB(size, 1, 1)
{
	printf("size %s: %zu\n", argument[0], gpushare_size(*buffer_of(argument[0])));
}

VERB(fill, 2, 2)
{
	struct gpushare_buffer *buffer = *buffer_of(argument[0]);
	unsigned char *bytes =
	    script_pattern_new(script_number(argument[1]), gpushare_size(buffer));

	say("fill", argument[0], gpushare_copy_to(buffer, 0, bytes, gpushare_size(buffer)));
	free(bytes);
}

VERB(put, 3, 3)
{
	unsigned char byte = (unsigned char)script_number(argument[2]);

	say("put", argument[0],
	    gpushare_copy_to(*buffer_of(argument[0]), script_number(argument[1]), &byte, 1));
}

VERB(byte, 2, 2)
{
	unsigned char byte = 0;
	int status =
	    gpushare_copy_from(*buffer_of(argument[0]), script_number(argument[1]), &byte, 1);

	if (status)
		say("byte", argument[0], status);
	else
		printf("byte %s: %d\n", argument[0], byte);
}

VERB(save, 2, 2)
{
	struct gpushare_buffer *buffer = *buffer_of(argument[0]);
	unsigned char *bytes = script_pattern_new(0, gpushare_size(buffer));

	say("save", argument[0], gpushare_copy_from(buffer, 0, bytes, gpushare_size(buffer)));
	script_save(argument[1], bytes, gpushare_size(buffer));
	free(bytes);
}

/* share=SLOT,NAME,RAW,OFFSET,SIZE[,OPTIONS]: of the options only mode and group count. @B in place
 * of RAW: the memory of the buffer in slot B */
VERB(share, 5, 6)
{
	uint64_t pointer = *argument[2] == '@' ? gpushare_pointer(*buffer_of(argument[2] + 1))
					       : *raw_of(argument[2]);
	struct gpushare_alloc_options rights = keep_options(argument[count - 1]);
	const struct gpushare_share_options options = {.mode = rights.mode, .group = rights.group};

	if (pointer)
		pointer += script_number(argument[3]);
	say("share", argument[1],
	    gpushare_share_with(session, argument[1], pointer, script_number(argument[4]), &options,
				buffer_of(argument[0])));
}

/* many=RAW,COUNT: share COUNT parts of one allocation, as m000, m001, ... */
VERB(many, 2, 2)
{
	uint64_t pointer = *raw_of(argument[0]);
	struct gpushare_buffer *one;
	char name[32];

	for (uint64_t i = 0; i < script_number(argument[1]); i++) {
		int status;

		snprintf(name, sizeof(name), "m%03u", (unsigned int)i);
		status = gpushare_share(session, name, pointer + i, 1, &one);
		if (status)
			say("share", name, status);
	}
}

/* parts=SLOT,NAME...: name parts of the buffer in that slot, of a byte each */
VERB(parts, 2, 8)
{
	struct gpushare_part parts[SCRIPT_ARGUMENTS] = {{.name = NULL}};
	size_t names = (size_t)count - 1;

	for (size_t i = 0; i < names; i++) {
		parts[i].name = argument[i + 1];
		parts[i].offset = i;
		parts[i].size = 1;
	}
	say("parts", argument[0], gpushare_share_parts(*buffer_of(argument[0]), parts, names));
}

/* retag=NAME,COUNT: set the same tag COUNT times, each time to another value */
VERB(retag, 2, 2)
{
	struct gpushare_tag tag = {.key = "step"};
	int status = 0;

	for (uint64_t i = 0; !status && i < script_number(argument[1]); i++) {
		snprintf(tag.value, sizeof(tag.value), "%u", (unsigned int)i);
		status = gpushare_tag(session, argument[0], &tag, 1);
	}
	say("tag", argument[0], status);
}

/*
 * gone=PID,NAME,LIMIT_MS: wait until the process ends, then until the name has gone. Print `late`
 * if that takes more than LIMIT_MS from the end of the process.
 */
VERB(gone, 3, 3)
{
	int pid_fd = (int)syscall(SYS_pidfd_open, (pid_t)script_number(argument[0]), 0);
	long limit_ms = (long)script_number(argument[2]), ended_ms, took_ms;
	struct pollfd ended = {.fd = pid_fd, .events = POLLIN};
	struct gpushare_info info;
	int status;

	if (pid_fd >= 0 && poll(&ended, 1, 60000) != 1)
		script_stop("gone: the process does not end");
	ended_ms = script_now_ms();
	do {
		status = gpushare_stat(session, argument[1], &info);
		took_ms = script_now_ms() - ended_ms;
		if (status == GPUSHARE_OK)
			script_nap_ms(1);
	} while (status == GPUSHARE_OK && took_ms < limit_ms + 5000);
	if (status == GPUSHARE_E_NOT_FOUND && took_ms > limit_ms)
		printf("gone %s: late, %ld ms\n", argument[1], took_ms);
	else
		say("gone", argument[1], status);
}

/* inherit: print what a call on the inherited session returns in a forked child */
VERB(inherit, 0, 0)
{
	struct gpushare_info info;
	pid_t child = fork();
	int status = 0;

	if (!child) {
		status = gpushare_stat(session, "x", &info);
		printf("inherit: %s\n", status_name(status));
		exit(0);
	}
	waitpid(child, &status, 0);
	if (status)
		printf("inherit: child ended with %d\n", status);
}

#include "api_event.h"
#include "api_map.h"
#include "api_mirror.h"
#include "api_ordering.h"
#include "api_set.h"
#include "api_turns.h"
#include "api_unified.h"

int main(int argc, char **argv)
{
	return script_run(argv + 1);
}
