// SPDX-License-Identifier: MIT
/*
 * Kills owners, attachers and the registry at random moments and checks what is left: see
 * README.md. `api_chaos sim|gpu PROGRAMS PRELOAD` takes the workers from the folder PROGRAMS.
 */
#include "crew.h"
#include "judge.h"

#define BATCH 50 /* rounds between two checks, if that is at least twice the slots */
#define BATCH_MAX (2 * CREW_SLOTS)
#define LOOK_NS INT64_C(60000000000)	/* between two checks for leaks, in a run limited by time */
#define REGISTRY_NS INT64_C(2000000000) /* likewise, between two kills of the registry */

/* X(moment, victim, the gate that it has passed last, whether an attacher takes part) */
#define MOMENTS(X) \
	X(before_share, OWNER, START, false) \
	X(during_share, OWNER, CALL, false) \
	X(after_share, OWNER, WRITE, false) \
	X(while_read, OWNER, BUSY, true) \
	X(during_free, OWNER, END, false) \
	X(during_free_while_read, OWNER, END, true) \
	X(during_attach, ATTACHER, CALL, true) \
	X(during_copy, ATTACHER, BUSY, true) \
	X(during_detach, ATTACHER, END, true) \
	X(registry_at_share, REGISTRY, CALL, true) \
	X(registry_at_copy, REGISTRY, BUSY, true) \
	X(registry_at_free, REGISTRY, END, true)

enum victim {
	VICTIM_OWNER,
	VICTIM_ATTACHER,
	VICTIM_REGISTRY,
};

static const struct moment {
	const char *name;
	enum victim victim;
	enum chaos_gate gate;
	bool read;
} moments[] = {
#define X(moment, victim, gate, read) {#moment, VICTIM_##victim, CHAOS_##gate, read},
    MOMENTS(X)
#undef X
};
#define MOMENT_COUNT (sizeof(moments) / sizeof(*moments))

struct round {
	unsigned int number;
	uint64_t random;
	const struct moment *moment;
	const struct crew_kind *kind, *attacher_kind;
	struct member owner, attacher;
	struct kept left;
	bool again; /* an earlier owner has left the name kept */
};

static struct {
	uint64_t seed;
	unsigned int kills, slots, batch;
	int64_t until_ns; /* if not 0: run until then instead of `kills` rounds */
	bool registry;	  /* kill the registry too */
	const char *only; /* run only moments with this in their name; NULL: all */
} settings;

static atomic_uint next_round; /* of the running batch */
static unsigned int batch_end;
static struct kept kept[BATCH_MAX];
static atomic_uint kept_count;
static atomic_int bad_rounds;
static atomic_uint killed[MOMENT_COUNT];
static pthread_mutex_t registry_lock = PTHREAD_MUTEX_INITIALIZER;
static int64_t next_death_ns; /* earliest next kill of the registry; under registry_lock */
static int64_t next_look_ns;

/* splitmix64. Each round has its own state, so the thread that runs it makes no difference. */
static uint64_t random_next(struct round *round)
{
	uint64_t word = round->random += UINT64_C(0x9e3779b97f4a7c15);

	word = (word ^ (word >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
	word = (word ^ (word >> 27)) * UINT64_C(0x94d049bb133111eb);
	return word ^ (word >> 31);
}

static bool moment_is_wanted(const struct moment *moment)
{
	return (settings.registry || moment->victim != VICTIM_REGISTRY) &&
	       (!settings.only || strstr(moment->name, settings.only));
}

static void round_plan(struct round *round, unsigned int number)
{
	static const size_t sizes[] = {4096, 65536 + 24, 1 << 20, 2 << 20, (3 << 20) + 40};
	size_t wanted = 0, at = 0;

	*round = (struct round){.number = number, .random = settings.seed * 1000003 + number};
	for (size_t i = 0; i < MOMENT_COUNT; i++)
		wanted += moment_is_wanted(&moments[i]);
	wanted = number % wanted; /* each moment as often as the others */
	while (!moment_is_wanted(&moments[at]) || wanted--)
		at++;
	round->moment = &moments[at];
	round->kind = &crew_kinds[random_next(round) % CREW_KIND_COUNT];
	round->attacher_kind = &crew_kinds[random_next(round) % CREW_KIND_COUNT];
	round->again = round->kind->keeps && random_next(round) % 4 == 0;
	round->left.size = sizes[random_next(round) % (sizeof(sizes) / sizeof(*sizes))];
	round->left.seed = random_next(round);
	snprintf(round->left.name, sizeof(round->left.name), "chaos/%u", number);
}

static bool round_start(struct round *round, struct member *member, unsigned int slot, bool owns)
{
	return member_start(member, (int)(slot * CREW_EACH + owns), owns,
			    owns ? round->kind : round->attacher_kind, round->left.name,
			    round->left.size, round->left.seed);
}

/* Wait for a random moment of the member's work behind the gate, or a little longer. */
static void round_delay(struct round *round, const struct member *member, enum chaos_gate gate)
{
	int64_t usual = atomic_load(&crew.usual_ns[member->owns][gate]);
	int64_t until = member->opened_ns +
			(int64_t)(random_next(round) % (uint64_t)(usual + usual / 4 + 100000));
	int64_t left;

	while ((left = until - chaos_now_ns()) > 0)
		if (left > 300000)
			chaos_nap_us(left / 1000 - 200);
}

/*
 * If another round has just killed the registry, a new one starts when a client needs it: wait for
 * it.
 */
static bool registry_kill(void)
{
	int64_t deadline = chaos_now_ns() + crew.deadline_ns / 100;
	pid_t pid;

	pthread_mutex_lock(&registry_lock);
	if (settings.until_ns && chaos_now_ns() < next_death_ns) {
		pthread_mutex_unlock(&registry_lock);
		return true;
	}
	next_death_ns = chaos_now_ns() + REGISTRY_NS;
	while (!(pid = sizes_registry(judge.directory)) && chaos_now_ns() < deadline)
		chaos_nap_us(500);
	if (pid)
		kill(pid, SIGKILL);
	while (pid && sizes_registry(judge.directory) == pid)
		chaos_nap_us(200);
	pthread_mutex_unlock(&registry_lock);
	return true;
}

/* Bring `member` to the moment's gate, then kill the victim. */
static bool round_strike(struct round *round, struct member *member)
{
	enum chaos_gate gate = round->moment->gate;

	if (gate > CHAOS_START &&
	    (!member_advance(member, gate - 1) || !member_await(member, gate)))
		return false;
	if (gate == CHAOS_BUSY && !member_advance(member, gate))
		return false;
	if (gate != CHAOS_START)
		member_open(member, gate);
	round_delay(round, member, gate);
	if (round->moment->victim == VICTIM_REGISTRY)
		return registry_kill();
	return member_kill(member);
}

/*
 * Note whether the buffer must be left, with known contents. That depends on how far its owner got.
 */
static void round_note(struct round *round)
{
	uint32_t asked = atomic_load(&round->owner.page->asked);
	bool called = atomic_load(&round->owner.page->open) >= CHAOS_CALL;

	if (!round->kind->keeps || (!called && !round->left.must))
		return;
	if (called) {
		round->left.must |= asked >= CHAOS_WRITE;
		round->left.known = asked >= CHAOS_BUSY;
	}
}

/*
 * Run an earlier owner, which leaves its buffer kept. The contents stay until the next owner
 * writes.
 */
static bool round_precede(struct round *round, unsigned int slot)
{
	if (!round->again)
		return true;
	if (!round_start(round, &round->owner, slot, true) ||
	    !member_advance(&round->owner, CHAOS_BUSY) || !member_kill(&round->owner))
		return false;
	round->left.must = round->left.known = true;
	return true;
}

static bool round_with_reader(struct round *round, unsigned int slot)
{
	struct member *owner = &round->owner, *attacher = &round->attacher;

	if (!member_advance(owner, CHAOS_BUSY) || !round_start(round, attacher, slot, false))
		return false;
	if (round->moment->victim == VICTIM_ATTACHER)
		return round_strike(round, attacher) && member_finish(owner);
	if (!member_advance(attacher, CHAOS_BUSY) || !member_await_copies(attacher, 1))
		return false;
	if (round->moment->gate != CHAOS_CALL && !round_strike(round, owner))
		return false;
	if (!member_await_copies(attacher, 3))
		return false;
	if (round->moment->victim == VICTIM_REGISTRY && !member_finish(owner))
		return false;
	return member_finish(attacher);
}

static bool round_run(struct round *round, unsigned int slot)
{
	if (!round_precede(round, slot) || !round_start(round, &round->owner, slot, true))
		return false;
	if (round->moment->read && round->moment->gate != CHAOS_CALL)
		return round_with_reader(round, slot);
	if (round->moment->victim == VICTIM_ATTACHER)
		return round_with_reader(round, slot);
	if (!round_strike(round, &round->owner))
		return false;
	return round->moment->victim != VICTIM_REGISTRY || round_with_reader(round, slot);
}

static void member_drop(struct member *member)
{
	if (member->pid) {
		kill(member->pid, SIGKILL);
		waitpid(member->pid, NULL, 0);
		crew_note(-1);
	}
}

/* The owner may have failed unnoticed, and the attacher because of that. */
static const char *round_trouble(const struct round *round)
{
	static _Thread_local char text[300];
	const struct chaos_page *page = round->owner.page;

	if (*round->owner.why || !page || !*page->trouble)
		return "";
	snprintf(text, sizeof(text), "; owner: %s", page->trouble);
	return text;
}

static void round_carry_out(unsigned int number, unsigned int slot)
{
	struct round round;
	bool good;

	round_plan(&round, number);
	good = round_run(&round, slot);
	member_drop(&round.owner);
	member_drop(&round.attacher);
	atomic_fetch_add(&killed[round.moment - moments], 1);
	if (!good) {
		atomic_fetch_add(&bad_rounds, 1);
		printf("chaos: kill %u, %s of %s, read by %s, %zu bytes: %s%s%s\n", number,
		       round.moment->name, round.kind->name, round.attacher_kind->name,
		       round.left.size, round.owner.why, round.attacher.why, round_trouble(&round));
	}
	round_note(&round);
	snprintf(round.left.how, sizeof(round.left.how), "%s%s of %s", round.moment->name,
		 round.again ? " again" : "", round.kind->name);
	if (round.kind->keeps)
		kept[atomic_fetch_add(&kept_count, 1)] = round.left;
}

static void *slot_run(void *argument)
{
	unsigned int slot = (unsigned int)(uintptr_t)argument, number;

	while ((number = atomic_fetch_add(&next_round, 1)) < batch_end)
		round_carry_out(number, slot);
	return NULL;
}

/*
 * The registry looks after a stream-sync page for 10 s after its buffer has ended, so a check with
 * such pages takes that long.
 */
static void batch_look(void)
{
	if (settings.until_ns && chaos_now_ns() < next_look_ns)
		return;
	judge_leaks();
	judge_growth();
	next_look_ns = chaos_now_ns() + LOOK_NS;
}

static bool batch_run(unsigned int first)
{
	pthread_t threads[CREW_SLOTS];

	atomic_store(&kept_count, 0);
	atomic_store(&next_round, first);
	batch_end =
	    first + settings.batch < settings.kills ? first + settings.batch : settings.kills;
	for (uintptr_t i = 0; i < settings.slots; i++)
		pthread_create(&threads[i], NULL, slot_run, (void *)i);
	for (uintptr_t i = 0; i < settings.slots; i++)
		pthread_join(threads[i], NULL);
	judge_batch(kept, atomic_load(&kept_count));
	batch_look();
	return !judge.faults && !atomic_load(&bad_rounds);
}

static uint64_t setting(const char *name, uint64_t otherwise)
{
	const char *text = getenv(name);

	return text && *text ? strtoull(text, NULL, 0) : otherwise;
}

static bool settle(char **argument)
{
	bool real = argument[1][0] == 'g'; /* gpu: the start takes longer there */
	uint64_t seconds = setting("GPUSHARE_CHAOS_SECONDS", 0);
	int64_t deadline_ns = (seconds ? 180 : real ? 60 : 20) * INT64_C(1000000000);

	settings.kills = (unsigned int)setting("GPUSHARE_CHAOS_KILLS", real ? 100 : 1000);
	settings.seed = setting("GPUSHARE_CHAOS_SEED", 4);
	settings.slots = (unsigned int)setting("GPUSHARE_CHAOS_SLOTS", real ? 8 : 4);
	settings.registry = setting("GPUSHARE_CHAOS_REGISTRY", 1);
	settings.only = getenv("GPUSHARE_CHAOS_ONLY");
	if (!settings.slots || settings.slots > CREW_SLOTS)
		return false;
	settings.batch = settings.slots * 2 > BATCH ? settings.slots * 2 : BATCH;
	crew.publishes = setting("GPUSHARE_CHAOS_PUBLISH", seconds > 0);
	if (seconds) {
		settings.until_ns = chaos_now_ns() + (int64_t)seconds * INT64_C(1000000000);
		settings.kills = UINT32_MAX / 2;
		next_look_ns = chaos_now_ns() + LOOK_NS;
	}
	return crew_open(argument[2], argument[3], settings.slots, deadline_ns) &&
	       judge_open(getenv("GPUSHARE_DIR"), deadline_ns / 2);
}

static bool is_to_go_on(unsigned int first)
{
	return first < settings.kills && (!settings.until_ns || chaos_now_ns() < settings.until_ns);
}

int main(int argc, char **argv)
{
	int64_t began_ns = chaos_now_ns();
	bool good = true;

	setvbuf(stdout, NULL, _IOLBF, 0);
	if (argc != 4 || !getenv("GPUSHARE_DIR") || !settle(argv)) {
		fprintf(stderr, "api_chaos sim|gpu PROGRAMS PRELOAD, with GPUSHARE_DIR\n");
		return 2;
	}
	printf("chaos: seed %llu, %u at a time\n", (unsigned long long)settings.seed,
	       settings.slots);
	for (unsigned int first = 0; good && is_to_go_on(first); first += settings.batch)
		good = batch_run(first);
	next_look_ns = 0;
	batch_look();
	good = good && !judge.faults;
	for (size_t i = 0; i < MOMENT_COUNT; i++)
		if (killed[i])
			printf("%6u %s\n", killed[i], moments[i].name);
	sizes_print("at the start", &judge.at_start);
	sizes_print("a while later", &judge.settled);
	judge.settled = sizes_now(judge.directory);
	sizes_print("at the end", &judge.settled);
	printf("chaos: %d names, %zu bytes of GPU memory are left\n", judge_count().names,
	       judge.free_at_start - judge_free_memory());
	printf(
	    "chaos: %s after %lld ms; at most %d processes lived, and %d names were kept at once\n",
	    good ? "nothing is wrong" : "SOMETHING IS WRONG",
	    (long long)(chaos_now_ns() - began_ns) / 1000000, atomic_load(&crew.most),
	    judge.most_names);
	gpushare_close(judge.session);
	return good ? 0 : 1;
}
