/* SPDX-License-Identifier: MIT */
/*
 * Requests of several connections, deaths, and restarts of the registry, in any order. After each
 * one judge.h checks the registry. The three claims of tests/model are checked on the code itself:
 * no generation is given twice, kept buffers exist after a restart, and every record has a living
 * session or is kept.
 */
#include "os/clock.h"
#include "verbs/handlers.h"
#include "freed.h"
#include "judge.h"
#include "persist/persist.h"
#include "place.h"
#include "persist/persist.h"

#define CLIENTS 4
#define KNOWN 8 /* generations that an input can refer to */

static const char *const names[] = {"a", "b", "a/b", "w0"};

static struct world {
	struct registry *registry;
	struct session *session[CLIENTS]; /* NULL: not connected */
	uint8_t key[CLIENTS][GPUSHARE_SESSION_KEY_SIZE];
	uint64_t known[KNOWN], highest;
	uint64_t given; /* the latest that this registry gave by itself */
	bool has_told;	/* a client told of a higher generation than any that was given */
	unsigned int next_known;
	uint32_t last_id;
} world;

/* Clients 1 and 2 are connections of one process; client 3 belongs to another user. */
static struct process process_of(unsigned int client)
{
	struct process process = {.uid = client == 3 ? 1001 : 1000, .command = "fuzz"};

	process.pid = client == 2 ? 11 : 10 + (int32_t)client;
	process.started = (uint64_t)process.pid * 10;
	return process;
}

static const char *name_of(struct fuzz_bytes *from)
{
	return names[fuzz_byte(from) % (sizeof(names) / sizeof(*names))];
}

/* Return a generation that was given, the next one, 0, or an impossible one. */
static uint64_t generation_of(struct fuzz_bytes *from)
{
	static const uint64_t strange[] = {0, 1, UINT64_MAX, GENERATION_CLIENT_MAX,
					   GENERATION_CLIENT_MAX + 1};
	uint8_t byte = fuzz_byte(from);

	world.has_told |= byte >= 192;
	if (byte >= 224)
		return strange[byte % (sizeof(strange) / sizeof(*strange))];
	if (byte >= 192)
		return world.highest + byte % 4;
	return world.known[byte % KNOWN];
}

static void learn(uint64_t generation)
{
	world.known[world.next_known++ % KNOWN] = generation;
	if (generation > world.highest)
		world.highest = generation;
}

/* Ask as over fds.sock, with or without a descriptor. */
static int ask_with(unsigned int client, const request *what, int fd)
{
	struct registry *registry = world.registry;
	struct session *session = world.session[client];
	struct passing passing = {.came = NULL};
	struct ask ask = {.session = session, .request = *what};
	int status;

	if (fd >= 0 && check_descriptor(registry, session->user))
		close(fd);
	else if (fd >= 0)
		passing.came = fdref_new(&registry->state.users, session->user, fd);
	registry->passing = &passing;
	status = handle_request(registry, &ask);
	registry->passing = NULL;
	FUZZ_MUST(status != HANDLE_ELSEWHERE);
	if (passing.came)
		fdref_release(&registry->state.users, passing.came);
	if (passing.goes)
		fdref_release(&registry->state.users, passing.goes);
	return status;
}

static int ask(unsigned int client, const request *what)
{
	struct ask one = {.session = world.session[client], .request = *what};

	return handle_request(world.registry, &one);
}

static void join(unsigned int client, struct fuzz_bytes *from)
{
	request what = {.which_verb = gpushare_Request_hello_tag};
	struct process process = process_of(client);

	if (world.session[client])
		return;
	world.session[client] = registry_connect(world.registry, ++world.last_id, &process);
	what.verb.hello.protocol = GPUSHARE_PROTOCOL;
	memcpy(what.verb.hello.resume, world.key[fuzz_byte(from) % CLIENTS],
	       GPUSHARE_SESSION_KEY_SIZE);
	FUZZ_MUST(!ask(client, &what));
	memcpy(world.key[client], world.registry->reply.body.hello.session,
	       GPUSHARE_SESSION_KEY_SIZE);
}

static void part(unsigned int client)
{
	disconnect(world.registry, world.session[client]);
	world.session[client] = NULL;
}

static void share(unsigned int client, struct fuzz_bytes *from)
{
	request what = {.which_verb = gpushare_Request_share_tag};
	gpushare_Share *share = &what.verb.share;
	uint8_t kind = fuzz_byte(from);

	share->has_buffer = true;
	strcpy(share->buffer.name, name_of(from));
	share->buffer.size = share->buffer.base_size = kind & 1 ? 4096 : 8192;
	memset(share->buffer.device_uuid, 0xd, sizeof(share->buffer.device_uuid));
	share->buffer.backing = kind & 2 ? GPUSHARE_BACKING_VMM : GPUSHARE_BACKING_IPC;
	share->buffer.flags = kind & 4 ? GPUSHARE_FLAG_KEEP : 0;
	share->buffer.ttl_s = kind & 8 ? 5 : 0;
	share->adopt = kind & 16;
	share->orphan = kind & 32;
	if (kind & 64)
		share->again = generation_of(from);
	if (!(kind & 2))
		memset(share->handle, 0xab, sizeof(share->handle));
	if (ask_with(client, &what, (kind & 130) == 130 ? place_again() : -1))
		return;
	FUZZ_MUST(world.registry->reply.body.share.generation);
	if (!share->again && !world.registry->reply.body.share.adopted) {
		/* After a restart a registry may have forgotten what only clients told it. */
		FUZZ_MUST(world.registry->reply.body.share.generation >
			  (world.has_told ? world.given : world.highest));
		world.given = world.registry->reply.body.share.generation;
	}
	learn(world.registry->reply.body.share.generation);
}

static void attach(unsigned int client, struct fuzz_bytes *from)
{
	request what = {.which_verb = gpushare_Request_attach_tag};
	const struct entry *entry;

	strcpy(what.verb.attach.name, name_of(from));
	if (world.known[0] % 2 ? ask(client, &what) : ask_with(client, &what, -1))
		return;
	entry = store_find(&world.registry->state.store, what.verb.attach.name);
	FUZZ_MUST(entry && !entry->info.missing);
	FUZZ_MUST(world.registry->reply.body.attach.buffer.generation == entry->info.generation);
	FUZZ_MUST(entry->info.generation <= world.highest);
}

static void detach(unsigned int client, struct fuzz_bytes *from)
{
	request what = {.which_verb = gpushare_Request_detach_tag};

	strcpy(what.verb.detach.name, name_of(from));
	what.verb.detach.generation = generation_of(from);
	ask(client, &what);
}

static void withdraw(unsigned int client, struct fuzz_bytes *from)
{
	request what = {.which_verb = gpushare_Request_withdraw_tag};

	strcpy(what.verb.withdraw.name, name_of(from));
	what.verb.withdraw.generation = generation_of(from);
	what.verb.withdraw.deferred = fuzz_byte(from) % 2;
	ask(client, &what);
}

static void hold(gpushare_Hold *hold, struct fuzz_bytes *from)
{
	strcpy(hold->name, name_of(from));
	hold->generation = generation_of(from);
	hold->count = fuzz_byte(from) % 4;
}

static void resync(unsigned int client, struct fuzz_bytes *from)
{
	request what = {.which_verb = gpushare_Request_resync_tag};
	gpushare_Resync *resync = &what.verb.resync;
	uint8_t counts = fuzz_byte(from);

	resync->shared_count = counts % 4;
	resync->attached_count = counts / 4 % 4;
	resync->last = counts & 128;
	for (pb_size_t i = 0; i < resync->shared_count; i++)
		hold(&resync->shared[i], from);
	for (pb_size_t i = 0; i < resync->attached_count; i++)
		hold(&resync->attached[i], from);
	ask(client, &what);
}

static void deferred(unsigned int client, struct fuzz_bytes *from)
{
	request what = {.which_verb = gpushare_Request_deferred_tag};

	what.verb.deferred.generations_count = fuzz_byte(from) % 4;
	for (pb_size_t i = 0; i < what.verb.deferred.generations_count; i++)
		what.verb.deferred.generations[i] = generation_of(from);
	ask(client, &what);
}

/* Ask any request that the bytes decode to. */
static void ask_anything(unsigned int client, struct fuzz_bytes *from)
{
	size_t size;
	const uint8_t *bytes = fuzz_block(from, &size);
	request what = {0};

	if (codec_decode_request(bytes, size, &what) || ask(client, &what))
		return;
	if (world.registry->reply.which_body == gpushare_Reply_share_tag)
		learn(world.registry->reply.body.share.generation);
}

struct standing {
	char name[GPUSHARE_NAME_MAX + 1];
	uint64_t generation;
	bool owned;
	uint32_t attachers;
};

static size_t remember(struct standing *standing, size_t room)
{
	size_t count = 0;
	const struct entry *entry = judge_after(world.registry, "");

	for (; count < room && entry; count++) {
		strcpy(standing[count].name, entry->name);
		standing[count].generation = entry->info.generation;
		standing[count].owned = entry->session;
		standing[count].attachers = entry->info.attachers;
		entry = judge_after(world.registry, entry->name);
	}
	return count;
}

/*
 * Disconnect the sessions of dead processes, and mark records whose descriptors are lost; see
 * restore_open().
 */
static void bury(struct fuzz_bytes *from)
{
	struct session *session, *after;
	struct entry *entry, *next;
	uint8_t dead = fuzz_byte(from), lost = fuzz_byte(from);
	unsigned int at = 0;

	for (entry = judge_after(world.registry, ""); entry; entry = next, at++) {
		next = judge_after(world.registry, entry->name);
		if (!backing_is_fd(entry->info.backing))
			continue;
		entry->info.missing = lost & 1u << at % 8;
		if (entry->info.missing)
			buffer_lose(&world.registry->state, entry);
		else
			entry->fdref =
			    fdref_new(&world.registry->state.users, entry->user, place_again());
	}
	HASH_ITER (hh, world.registry->state.sessions.by_id, session, after) {
		if (dead & 1u << session->peer.pid % 4)
			disconnect(world.registry, session);
	}
}

/* End everything at once, as SIGKILL would: the old registry writes nothing more. */
static void restart(struct fuzz_bytes *from)
{
	struct standing before[64];
	size_t count = remember(before, sizeof(before) / sizeof(*before));
	uint64_t nameless = world.registry->state.users.total.held[LIMIT_deferred];

	registry_free(world.registry);
	memset(world.session, 0, sizeof(world.session));
	world.given = 0;
	world.registry = registry_new();
	world.registry->records = records_open(place_again());
	load_records(world.registry);
	save_all(world.registry);
	judge_registry(world.registry);
	FUZZ_MUST(world.registry->state.users.total.held[LIMIT_names] == count &&
		  world.registry->state.users.total.held[LIMIT_deferred] == nameless);
	for (size_t i = 0; i < count; i++) {
		const struct entry *entry =
		    store_find(&world.registry->state.store, before[i].name);

		FUZZ_MUST(entry && entry->info.generation == before[i].generation);
		FUZZ_MUST(!!entry->session == before[i].owned);
		FUZZ_MUST(entry->info.attachers == before[i].attachers);
	}
	bury(from);
	judge_registry(world.registry);
}

static void step(struct fuzz_bytes *from)
{
	uint8_t what = fuzz_byte(from);
	unsigned int client = what / 32 % CLIENTS;

	if (what % 32 == 31)
		return restart(from);
	if (what % 32 == 30)
		return (void)registry_expire(world.registry, INT64_MAX - 1);
	if (!world.session[client])
		return join(client, from);
	switch (what % 10) {
	case 0:
		return part(client);
	case 1:
	case 2:
		return share(client, from);
	case 3:
	case 4:
		return attach(client, from);
	case 5:
		return detach(client, from);
	case 6:
		return withdraw(client, from);
	case 7:
		return resync(client, from);
	case 8:
		return deferred(client, from);
	default:
		return ask_anything(client, from);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct fuzz_bytes from = {data, size};

	unlinkat(instance_open(), RECORDS_FILE, 0);
	world = (struct world){0};
	world.registry = registry_new();
	world.registry->records = records_open(place_again());
	save_all(world.registry);
	while (from.left) {
		step(&from);
		judge_registry(world.registry);
	}
	registry_free(world.registry);
	return 0;
}
