/* SPDX-License-Identifier: MIT */
#include "order/order.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/random.h>
#include <unistd.h>

#include "os/clock.h"
#include "fdstore/fdstore.h"

#define AGAIN_NS (250 * NS_PER_MS) /* between two repetitions of a mark */
#define COOL_NS (LIMIT_ORDER_SETTLE_MS * NS_PER_MS)
#define AWAIT_NS (LIMIT_UNSEEN_S * NS_PER_S)

/* The fd store's number of a page is the buffer's generation with this bit set. */
#define PAGE (UINT64_C(1) << 63)
/* The number of a process that the registry can see is start time * PIDS + pid. PIDS: the largest
 * pid_max, see proc(5). */
#define PIDS 4194304u
/* Set in the number of any other process. The rest is a hash of its Hello.self. */
#define INVISIBLE (UINT64_C(1) << 63)

static struct order *find(const struct registry *registry, uint64_t generation)
{
	struct order *order;

	HASH_FIND(hh, registry->orders, &generation, sizeof(generation), order);
	return order;
}

struct order *order_find(const struct registry *registry, uint64_t generation)
{
	struct order *order = find(registry, generation);

	return order && !order->ended ? order : NULL;
}

static struct entry *entry_of(const struct registry *registry, const struct order *order)
{
	return store_find_generation(&registry->state.store, order->generation);
}

/* Whether the owner has a session, perhaps a disconnected one, and has neither freed the buffer nor
 * left it out of a resync. */
static bool has_owner(const struct entry *entry)
{
	return entry && entry->session && !entry->info.deferred && !entry->info.unsynced;
}

bool order_may(const struct entry *entry, const struct session *session)
{
	return (entry->session == session && has_owner(entry)) ||
	       session_find_attachment(session, entry->info.generation);
}

/* The index doesn't show publications. So remove the buffer from the index: clients that don't find
 * it there ask the registry. */
static struct order *order_new(struct registry *registry, uint64_t generation)
{
	struct order *order = calloc(1, sizeof(*order));
	struct entry *entry;

	if (!order)
		return NULL;
	order->generation = generation;
	HASH_ADD(hh, registry->orders, generation, sizeof(generation), order);
	if (!order->hh.tbl) {
		free(order);
		return NULL;
	}
	entry = entry_of(registry, order);
	if (entry)
		indexer_remove(&registry->index, entry);
	return order;
}

static void stop_marking(struct registry *registry, struct order *order)
{
	if (order->mark_until_ns)
		DL_DELETE(registry->marking, order);
	order->mark_until_ns = order->again_ns = 0;
}

void order_free(struct registry *registry, struct order *order)
{
	stop_marking(registry, order);
	order_page_unmap(order->page);
	if (order->fdref)
		registry_release(registry, order->fdref);
	HASH_DEL(registry->orders, order);
	free(order);
}

/* If this succeeds, the order owns the reference. */
static bool hold_new(struct registry *registry, struct order *order, struct fdref *fdref)
{
	if (order_page_map(fdref->fd, order->generation, &order->page))
		return false;
	order->fdref = fdref;
	fdref->stored = order->generation | PAGE;
	if (registry->fdstore)
		fdstore_put(registry->fdstore, fdref);
	return true;
}

static int make_page(struct registry *registry, struct order *order)
{
	struct user *user = entry_of(registry, order)->user;
	struct fdref *fdref;
	uint64_t id;
	int fd;

	if (state_limit(&registry->state, user, LIMIT_descriptors, 1))
		return GPUSHARE_E_LIMIT;
	if (getrandom(&id, sizeof(id), GRND_NONBLOCK) != (ssize_t)sizeof(id))
		return GPUSHARE_E_NO_MEMORY;
	fd = order_page_make(order->generation, id | 1);
	if (fd < 0)
		return errno == EMFILE || errno == ENFILE ? GPUSHARE_E_LIMIT : GPUSHARE_E_NO_MEMORY;
	fdref = fdref_new(&registry->state.users, user, fd);
	if (fdref && hold_new(registry, order, fdref))
		return GPUSHARE_OK;
	if (fdref)
		registry_release(registry, fdref);
	else
		close(fd);
	return GPUSHARE_E_NO_MEMORY;
}

/* Repeat the marks of the order for LIMIT_ORDER_SETTLE_MS. */
static void mark_again(struct registry *registry, struct order *order)
{
	if (!order->mark_until_ns)
		DL_PREPEND(registry->marking, order);
	order->mark_until_ns = clock_ns() + COOL_NS;
	registry->due = true;
}

/* If the consumer that left has made the last release that it announced, its GPU no longer
 * writes to the slot. Otherwise order_tick() waits for the end of its process. */
static bool is_free(const struct order *order, uint32_t at, int64_t now_ns)
{
	return !order->slot[at].taken &&
	       (order->slot[at].free_ns <= now_ns || order_slot_is_final(&order->page->slot[at]));
}

/* From 1 on; 0: no slot is free. Lowest first: publishers check all slots up to the highest one
 * ever used. */
static uint32_t free_slot(const struct order *order, int64_t now_ns)
{
	uint32_t at = 0;

	while (at < ORDER_SLOTS && !is_free(order, at, now_ns))
		at++;
	return at < ORDER_SLOTS ? at + 1 : 0;
}

struct participant *participant_find(const struct order *order, const struct session *session)
{
	struct participant *participant;

	DL_FOREACH (order->participants, participant) {
		if (participant->session == session)
			return participant;
	}
	return NULL;
}

static struct participant *participant_new(struct order *order, struct session *session)
{
	struct participant *participant = calloc(1, sizeof(*participant));

	if (!participant)
		return NULL;
	participant->session = session;
	participant->order = order;
	DL_APPEND(order->participants, participant);
	DL_APPEND2(session->participants, participant, session_prev, session_next);
	return participant;
}

static void participant_free(struct participant *participant)
{
	DL_DELETE(participant->order->participants, participant);
	DL_DELETE2(participant->session->participants, participant, session_prev, session_next);
	free(participant);
}

uint64_t participant_number(const struct process *peer)
{
	if (peer->pid > 0)
		return peer->started * PIDS + (uint32_t)peer->pid;
	return INVISIBLE | (peer->own_namespace * 1099511628211u + peer->own_started * PIDS +
			    (uint32_t)peer->own_pid);
}

/* Whether the process with this number has a session here. */
static bool is_here(const struct registry *registry, uint64_t number)
{
	const struct session *session = registry->state.sessions.by_id;

	while (session && (session->ending || participant_number(&session->peer) != number))
		session = session->hh.next;
	return session;
}

bool participant_has_ended(uint64_t number, uint64_t stack)
{
	const struct process process = {
	    .pid = (int32_t)(number % PIDS), .started = number / PIDS, .stack = stack};

	return number && !(number & INVISIBLE) && !process_lives(&process);
}

/* Whether a process lives, with `number` and `stack` as in struct order_slot. If the registry can't
 * see the process: whether it has a session here. False if `number` is 0. */
static bool lives(const struct registry *registry, uint64_t number, uint64_t stack)
{
	return number & INVISIBLE ? is_here(registry, number)
				  : number && !participant_has_ended(number, stack);
}

/* Clears the stack first. So even if the registry is killed here, no number is paired with another
 * process's stack. */
static void sign(_Atomic uint64_t *number, _Atomic uint64_t *stack, const struct process *peer)
{
	atomic_store(stack, 0);
	atomic_store(number, participant_number(peer));
	atomic_store(stack, peer->stack);
}

/* Writes the number and the stack of the participant's process into the page. */
static void participant_sign(const struct participant *participant)
{
	struct order_page *page = participant->order->page;
	const struct process *peer = &participant->session->peer;

	if (page && (participant->roles & ORDER_PUBLISHES))
		sign(&page->publisher, &page->publisher_stack, peer);
	if (page && participant->slot)
		sign(&page->slot[participant->slot - 1].process,
		     &page->slot[participant->slot - 1].stack, peer);
}

/* Whether a slot's process may still write to the slot, unless order_slot_is_final(). */
static bool may_release(const struct registry *registry, const struct order_slot *slot)
{
	uint64_t number = atomic_load(&slot->process);

	if (lives(registry, number, atomic_load(&slot->stack)))
		return true;
	return (number & INVISIBLE) && atomic_load(&slot->final) == ORDER_UNSETTLED;
}

/* Whether `number`, read from the page, may be that of `peer`. A registry in another pid namespace
 * may have written a different number for the same process. True also for 0 (no process). */
static bool is_number_of(uint64_t number, const struct process *peer)
{
	const struct process own = {.pid = peer->own_pid, .started = peer->own_started};
	struct process unseen = *peer;

	unseen.pid = 0;
	return !number || number == participant_number(peer) ||
	       number == participant_number(&unseen) ||
	       (own.pid > 0 && number == participant_number(&own));
}

/* Gives the consumer the slot that it asks to resume, if its process had that slot, else a free
 * one. */
static int consume(const struct registry *registry, struct participant *participant, uint32_t slot)
{
	struct order *order = participant->order;
	uint64_t number = participant_number(&participant->session->peer);
	bool resumes = slot && slot <= ORDER_SLOTS && !order->slot[slot - 1].taken &&
		       is_number_of(atomic_load(&order->page->slot[slot - 1].process),
				    &participant->session->peer);

	if (!resumes)
		slot = free_slot(order, registry->state.now_ns);
	if (!slot)
		return GPUSHARE_E_LIMIT;
	order->slot[slot - 1].taken = true;
	participant->slot = slot;
	if (resumes)
		order_rejoin(order->page, slot - 1, number);
	else
		order_join(order->page, slot - 1, number);
	return GPUSHARE_OK;
}

/* After exec(), the same process counts as a new publisher. */
static void begin(struct order_page *page, const struct process *peer)
{
	const struct process last = {.stack = atomic_load(&page->publisher_stack)};

	if (process_is_other_program(&last, peer))
		atomic_store(&page->publisher, 0);
	order_begin(page, participant_number(peer));
}

static int take_roles(struct registry *registry, struct participant *participant, uint32_t roles,
		      uint32_t slot)
{
	struct order *order = participant->order;

	if ((roles & ORDER_CONSUMES) && consume(registry, participant, slot))
		return GPUSHARE_E_LIMIT;
	if (roles & ORDER_PUBLISHES) {
		begin(order->page, &participant->session->peer);
		order->left = order->gone = false;
	}
	participant->roles |= roles;
	participant_sign(participant);
	state_emit(&registry->state, .kind = CHANGE_ROLES, .participant = participant);
	return GPUSHARE_OK;
}

int participant_add(struct registry *registry, struct order *order, struct session *session,
		    uint32_t roles, uint32_t slot, uint64_t *out_first)
{
	struct participant *participant = participant_find(order, session);
	int status = GPUSHARE_OK;

	*out_first = 0;
	if (!roles)
		return GPUSHARE_OK;
	if (!participant)
		participant = participant_new(order, session);
	if (!participant)
		return GPUSHARE_E_NO_MEMORY;
	roles &= ~participant->roles;
	if (roles)
		status = take_roles(registry, participant, roles, slot);
	if (participant->slot)
		*out_first = order_number(order->page->slot[participant->slot - 1].released) + 1;
	if (!participant->roles)
		participant_free(participant);
	return status;
}

void participant_part(struct registry *registry, struct participant *participant, uint32_t roles)
{
	struct order *order = participant->order;
	struct order_page *page = order->page;

	roles &= participant->roles;
	if (roles & ORDER_CONSUMES) {
		order->slot[participant->slot - 1].taken = false;
		order->slot[participant->slot - 1].free_ns = INT64_MAX;
		if (page)
			order_mark_left(page, participant->slot - 1);
		if (page && !order_slot_is_final(&page->slot[participant->slot - 1]))
			mark_again(registry, order);
		participant->slot = 0;
	}
	if (roles & ORDER_PUBLISHES) {
		order->left = true;
		order->under_way_ns = clock_ns() + COOL_NS;
	}
	participant->roles &= ~roles;
	state_emit(&registry->state, .kind = CHANGE_ROLES, .participant = participant);
	if (!participant->roles)
		participant_free(participant);
}

const struct participant *participant_rival(const struct order *order,
					    const struct session *session)
{
	const struct participant *participant;

	DL_FOREACH (order->participants, participant) {
		if ((participant->roles & ORDER_PUBLISHES) &&
		    !(session && process_is_same(&participant->session->peer, &session->peer)))
			return participant;
	}
	return NULL;
}

/* Whether the last publisher has assigned numbers, or is assigning one, that are not published, or
 * one of its graphs may publish at any time. */
static bool is_under_way(const struct order_page *page)
{
	return atomic_load(&page->turn) || atomic_load(&page->late) ||
	       !order_reaches(atomic_load(&page->published), atomic_load(&page->next));
}

bool participant_is_under_way(const struct registry *registry, const struct order *order,
			      const struct session *session)
{
	uint64_t last = order->page ? atomic_load(&order->page->publisher) : 0;

	return last && last != participant_number(&session->peer) &&
	       clock_ns() < order->under_way_ns && is_under_way(order->page) &&
	       lives(registry, last, atomic_load(&order->page->publisher_stack));
}

struct participant *participant_load(struct registry *registry, struct session *session,
				     uint64_t generation, uint32_t roles, uint32_t slot)
{
	struct order *order = order_find(registry, generation);
	struct participant *participant;

	if (slot > ORDER_SLOTS || (!order && order_open(registry, generation, false, &order)))
		return NULL;
	participant = participant_find(order, session);
	if (!participant)
		participant = participant_new(order, session);
	if (!participant)
		return NULL;
	if (participant->slot) /* this record replaces an earlier one */
		order->slot[participant->slot - 1].taken = false;
	if (!slot || order->slot[slot - 1].taken)
		roles &= ~(uint32_t)ORDER_CONSUMES;
	participant->roles = roles;
	participant->slot = roles & ORDER_CONSUMES ? slot : 0;
	if (participant->slot)
		order->slot[slot - 1].taken = true;
	return participant;
}

void participant_see(struct session *session, const struct process *peer)
{
	const struct participant *participant;

	session->peer = *peer;
	DL_FOREACH2 (session->participants, participant, session_next) {
		participant_sign(participant);
	}
}

void participant_move_all(struct session *from, struct session *to)
{
	struct participant *participant;

	to->participants = from->participants;
	from->participants = NULL;
	DL_FOREACH2 (to->participants, participant, session_next) {
		participant->session = to;
		participant_sign(participant);
	}
}

/* Whether the page names a publisher that hasn't left, but no participant publishes. */
static bool has_unknown_publisher(const struct order *order)
{
	return order->page && atomic_load(&order->page->publisher) && !order->left &&
	       !participant_rival(order, NULL);
}

/* Removes the mark of a page that is gone. If the last publisher's process lives, its numbers
 * continue. Otherwise the next publisher begins after the last published number. */
static void revive(const struct registry *registry, struct order *order)
{
	uint64_t last = atomic_load(&order->page->publisher);
	uint64_t stack = atomic_load(&order->page->publisher_stack);

	order_begin(order->page, last && lives(registry, last, stack) ? last : 0);
}

/* Marks the page as gone if nothing more will be published, or removes that mark. `entry` NULL: the
 * buffer was removed. */
static void update(struct registry *registry, struct order *order, const struct entry *entry)
{
	bool published = participant_rival(order, NULL);
	bool awaited = order->awaited_ns && (!entry || has_unknown_publisher(order));

	order->gone = !published && !awaited && (order->left || !has_owner(entry));
	if (!order->page)
		return;
	if (order->gone && order_mark_gone(order->page))
		mark_again(registry, order);
	if (!order->gone && !published && order_is_gone(order->page))
		revive(registry, order);
}

int order_open(struct registry *registry, uint64_t generation, bool make, struct order **out_order)
{
	struct order *order = find(registry, generation);
	int status;

	if (!order)
		order = order_new(registry, generation);
	if (!order)
		return GPUSHARE_E_NO_MEMORY;
	order->ended = false; /* the owner brought the buffer back */
	*out_order = order;
	if (!make || order->page)
		return GPUSHARE_OK;
	if (order->participants) /* they use the lost page and would not see a new one */
		return GPUSHARE_E_TIMED_OUT;
	status = make_page(registry, order);
	if (status)
		order_free(registry, order);
	else
		update(registry, order, entry_of(registry, order));
	return status;
}

/* Call this after a page came from the fd store or from a participant. Participants that are in the
 * page but not in the records get AWAIT_NS to resume their roles. */
static void look_over(struct registry *registry, struct order *order)
{
	const struct participant *participant;
	int64_t now = clock_ns();

	DL_FOREACH (order->participants, participant) {
		participant_sign(participant);
	}
	order->left |= order_is_gone(order->page);
	order->under_way_ns = now + COOL_NS;
	if (has_unknown_publisher(order) || !entry_of(registry, order))
		order->awaited_ns = now + AWAIT_NS;
	for (uint32_t at = 0; at < ORDER_SLOTS; at++) {
		uint32_t state = atomic_load(&order->page->slot[at].state);

		if (order->slot[at].taken || state == ORDER_SLOT_UNUSED)
			continue;
		order->slot[at].free_ns = INT64_MAX;
		if (state == ORDER_SLOT_ACTIVE)
			order->awaited_ns = now + AWAIT_NS;
	}
	mark_again(registry, order);
}

bool order_give_back(struct registry *registry, struct order *order, struct fdref *fdref)
{
	if (order->page || !hold_new(registry, order, fdref))
		return false;
	look_over(registry, order);
	return true;
}

static bool may_stay(const struct order *order, const struct entry *entry,
		     const struct session *session)
{
	return entry ? order_may(entry, session)
		     : order->awaited_ns && session_find_attachment(session, order->generation);
}

void order_check(struct registry *registry, uint64_t generation)
{
	struct order *order = order_find(registry, generation);
	const struct entry *entry = store_find_generation(&registry->state.store, generation);
	struct participant *participant, *after;

	if (!order || registry->loading) /* while loading, attachments may still be missing */
		return;
	DL_FOREACH_SAFE (order->participants, participant, after) {
		if (!may_stay(order, entry, participant->session))
			participant_part(registry, participant, UINT32_MAX);
	}
	update(registry, order, entry);
}

void order_adopt(struct registry *registry, uint64_t generation)
{
	struct order *order = order_find(registry, generation);

	if (order)
		order->left = false;
	order_check(registry, generation);
}

void order_end(struct registry *registry, uint64_t generation)
{
	struct order *order = order_find(registry, generation);

	if (!order || registry->loading)
		return;
	while (order->participants)
		participant_part(registry, order->participants, UINT32_MAX);
	order->awaited_ns = 0;
	update(registry, order, NULL);
	order->ended = true;
	if (!order->mark_until_ns)
		order_free(registry, order);
}

void order_end_session(struct registry *registry, struct session *session)
{
	while (session->participants) {
		struct participant *participant = session->participants;
		struct order *order = participant->order;

		participant_part(registry, participant, UINT32_MAX);
		update(registry, order, entry_of(registry, order));
	}
}

/* The time to resume is over: participants that have not resumed count as gone. */
static void stop_awaiting(struct registry *registry, struct order *order)
{
	const struct entry *entry = entry_of(registry, order);

	order->awaited_ns = 0;
	if (has_unknown_publisher(order) &&
	    !is_here(registry, atomic_load(&order->page->publisher)))
		order->left = true;
	if (entry)
		update(registry, order, entry);
	else
		order_end(registry, order->generation);
}

static uint32_t top_of(const struct order *order)
{
	uint32_t top = atomic_load(&order->page->top);

	return top < ORDER_SLOTS ? top : ORDER_SLOTS;
}

/* Whether the slot's consumer has no record, but still has time to resume. */
static bool is_awaited(const struct order *order, uint32_t at)
{
	return order->awaited_ns && atomic_load(&order->page->slot[at].state) == ORDER_SLOT_ACTIVE;
}

/* Checks the processes of slots until the piece is over; the next call continues there. A consumer
 * whose process has ended can't resume, but its slot is free only after COOL_NS: under MPS, the
 * server's process may write there for a little longer. */
static void look_at_processes(const struct registry *registry, struct order *order,
			      struct piece *piece, int64_t now_ns)
{
	uint32_t top = top_of(order);

	for (uint32_t count = 0; count < top && !piece_is_over(piece); count++) {
		uint32_t at = order->looked++ % top;
		struct order_slot *slot = &order->page->slot[at];

		if (order->slot[at].taken || order->slot[at].free_ns != INT64_MAX)
			continue;
		if (!is_awaited(order, at) && !may_release(registry, slot))
			order->slot[at].free_ns = now_ns + COOL_NS;
		else if (is_awaited(order, at) && participant_has_ended(slot->process, slot->stack))
			order_mark_left(order->page, at);
	}
}

/* Repeats marks, which a GPU may overwrite. True: a mark was missing, or the GPU of a consumer
 * that left may still overwrite one. */
static bool mark(struct order *order, int64_t now_ns)
{
	bool missing = order->gone && order_mark_gone(order->page), owned = false;

	for (uint32_t at = 0; at < top_of(order); at++) {
		if (order->slot[at].taken || is_awaited(order, at))
			continue;
		missing |= order_mark_left(order->page, at);
		owned |= !order->ended && !is_free(order, at, now_ns);
	}
	if (missing)
		order->mark_until_ns = now_ns + COOL_NS;
	return missing || owned;
}

/* False: no mark needs to be repeated any more. */
static bool mark_repeatedly(struct registry *registry, struct order *order, struct piece *piece,
			    int64_t now_ns)
{
	if (order->awaited_ns && order->awaited_ns <= now_ns)
		stop_awaiting(registry, order);
	look_at_processes(registry, order, piece, now_ns);
	return mark(order, now_ns) || order->awaited_ns || now_ns < order->mark_until_ns;
}

int64_t order_tick(struct registry *registry, int64_t now_ns)
{
	struct piece piece = piece_begin();
	struct order *order;

	/* The list is sorted by again_ns. */
	while ((order = registry->marking) && order->again_ns <= now_ns) {
		if (piece_is_over(&piece))
			return clock_ns() + PIECE_NS;
		DL_DELETE(registry->marking, order);
		DL_APPEND(registry->marking, order);
		order->again_ns = now_ns + AGAIN_NS;
		if (mark_repeatedly(registry, order, &piece, now_ns))
			continue;
		stop_marking(registry, order);
		if (order->ended)
			order_free(registry, order);
	}
	return order ? order->again_ns : INT64_MAX;
}

void order_describe(const struct registry *registry, const struct entry *entry, record *out_info)
{
	const struct order *order = order_find(registry, entry->info.generation);
	const struct order_page *page = order ? order->page : NULL;

	out_info->sequence = page ? order_published(page) : 0;
	out_info->ordering = page ? atomic_load(&page->means) : 0;
}

/* If this succeeds, the order owns the reference. The generation comes from the fd store, because
 * clients can write to the page. */
static bool hold_left(struct registry *registry, struct order *order, struct fdref *fdref)
{
	const struct entry *entry = entry_of(registry, order);

	if (order_page_map(fdref->fd, order->generation, &order->page))
		return false;
	order->fdref = fdref;
	if (entry)
		fdref_charge(fdref, entry->user);
	return true;
}

/* Takes the pages of removed buffers too, because their marks must be repeated. */
static void take_pages(struct registry *registry)
{
	for (uint64_t number = 0; fdstore_next(registry->fdstore, &number);) {
		uint64_t generation = number & ~PAGE;
		struct order *order = order_find(registry, generation);
		struct fdref *fdref;

		if (!(number & PAGE) ||
		    !(generation > registry->state.since || order ||
		      store_find_generation(&registry->state.store, generation)))
			continue;
		fdref = fdstore_take(registry->fdstore, number);
		if (fdref && !order)
			order = order_new(registry, generation);
		if (fdref && !(order && hold_left(registry, order, fdref)))
			registry_release(registry, fdref);
	}
}

void order_restore(struct registry *registry)
{
	struct order *order, *after;

	take_pages(registry);
	HASH_ITER (hh, registry->orders, order, after) {
		if (order->page)
			look_over(registry, order);
		/* Generations up to `since` may lack a record: their owner may still resume. */
		if (entry_of(registry, order) || (order->page && order->participants &&
						  order->generation <= registry->state.since))
			order_check(registry, order->generation);
		else
			order_end(registry, order->generation);
	}
}

void order_unmap_all(struct registry *registry)
{
	for (struct order *order = registry->orders; order; order = order->hh.next) {
		stop_marking(registry, order);
		order_page_unmap(order->page);
		order->page = NULL;
	}
}
