/* SPDX-License-Identifier: MIT */
/* Descriptors and their tickets, without a socket: whose, once, how long, how many. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
/* cmocka wants the four above first */
#include <cmocka.h>

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "descriptors.h"
#include "clock.h"
#include "peer.h"

#define VAULT (&peer_registry->vault)

typedef uint8_t ticket_key[GPUSHARE_TICKET_SIZE];

static struct guest *guest; /* of the latest deposit */

static bool is_open(int fd)
{
	return fcntl(fd, F_GETFD) >= 0;
}

static void settle(void)
{
	held_close(vault_take_unneeded(VAULT));
}

static int deposit(const struct process *peer, size_t count, int *fds, ticket_key *tickets)
{
	int status;

	guest = vault_enter(VAULT, peer);
	assert_non_null(guest);
	for (size_t i = 0; i < count; i++)
		fds[i] = memfd_create("unit", MFD_CLOEXEC);
	status = vault_deposit(VAULT, guest, fds, count, clock_ns(), tickets);
	if (status)
		fds_close(fds, count);
	vault_leave(VAULT, guest);
	return status;
}

static request share_of(const char *name, const ticket_key ticket)
{
	request what = peer_share_of(name);

	what.verb.share.buffer.backing = GPUSHARE_BACKING_VMM;
	memset(what.verb.share.handle, 0, GPUSHARE_HANDLE_SIZE);
	memcpy(what.verb.share.ticket, ticket, GPUSHARE_TICKET_SIZE);
	return what;
}

static int share(struct lease *lease, const char *name, const ticket_key ticket)
{
	request what = share_of(name, ticket);

	return peer_ask(lease, &what);
}

/* A record of a descriptor, which is returned. */
static int shared(struct lease *lease, const char *name)
{
	ticket_key ticket[1];
	int fd;

	assert_int_equal(deposit(&lease->peer, 1, &fd, ticket), GPUSHARE_OK);
	assert_int_equal(share(lease, name, ticket[0]), GPUSHARE_OK);
	return fd;
}

static void a_ticket_serves_one_share(void **state)
{
	struct lease *owner = peer_new(1, 10, "owner");
	ticket_key ticket[1];
	int fd;

	(void)state;
	assert_int_equal(deposit(&owner->peer, 1, &fd, ticket), GPUSHARE_OK);
	assert_int_equal(share(owner, "x", ticket[0]), GPUSHARE_OK);
	assert_int_equal(share(owner, "y", ticket[0]), GPUSHARE_E_INVALID);
	peer_assert_sentence("deposit the file descriptor again");
	settle();
	assert_true(is_open(fd));
	assert_int_equal(peer_withdraw(owner, "x", 0), GPUSHARE_OK);
	assert_true(is_open(fd)); /* closing is left to a thread that may wait */
	settle();
	assert_false(is_open(fd));
	assert_int_equal(VAULT->count, 0);
}

static void a_share_that_fails_uses_the_ticket_up(void **state)
{
	struct lease *owner = peer_new(1, 10, "owner");
	ticket_key ticket[1];
	int fd;

	(void)state;
	peer_share(owner, "taken");
	assert_int_equal(deposit(&owner->peer, 1, &fd, ticket), GPUSHARE_OK);
	assert_int_equal(share(owner, "taken", ticket[0]), GPUSHARE_E_EXISTS);
	settle();
	assert_false(is_open(fd));
	assert_int_equal(share(owner, "free", ticket[0]), GPUSHARE_E_INVALID);
}

/* Another process, a successor with the same pid, another user; and the ticket stays good. */
static void a_ticket_is_its_processs_own(void **state)
{
	struct lease *owner = peer_new(1, 10, "owner"), *other = peer_new(2, 11, "other"),
		     *reused = peer_new(3, 10, "owner"), *stranger = peer_new(4, 10, "owner"),
		     *same = peer_new(5, 10, "owner");
	ticket_key ticket[1], fetch[1];
	struct held *held;
	int fd;

	(void)state;
	reused->peer.started++;
	stranger->peer.uid++;
	assert_int_equal(deposit(&owner->peer, 1, &fd, ticket), GPUSHARE_OK);
	assert_int_equal(share(other, "x", ticket[0]), GPUSHARE_E_INVALID);
	assert_int_equal(share(reused, "x", ticket[0]), GPUSHARE_E_INVALID);
	assert_int_equal(share(stranger, "x", ticket[0]), GPUSHARE_E_INVALID);
	assert_int_equal(share(same, "x", ticket[0]), GPUSHARE_OK); /* another connection of it */

	assert_int_equal(peer_attach(other, "x"), GPUSHARE_OK);
	memcpy(fetch[0], peer_answer.body.attach.ticket, sizeof(fetch[0]));
	guest = vault_enter(VAULT, &owner->peer);
	assert_false(vault_redeem(VAULT, guest, fetch, 1, &held));
	vault_leave(VAULT, guest);
	guest = vault_enter(VAULT, &other->peer);
	assert_true(vault_redeem(VAULT, guest, fetch, 1, &held));
	assert_int_equal(held->fd, fd);
	vault_release(VAULT, held);
	assert_false(vault_redeem(VAULT, guest, fetch, 1, &held));
	vault_leave(VAULT, guest);
}

/* A ticket to share is none to fetch with, and the other way round. */
static void a_ticket_serves_one_purpose(void **state)
{
	struct lease *owner = peer_new(1, 10, "owner");
	ticket_key ticket[1], none = {0};
	struct held *held;
	int fd;

	(void)state;
	assert_int_equal(deposit(&owner->peer, 1, &fd, ticket), GPUSHARE_OK);
	guest = vault_enter(VAULT, &owner->peer);
	assert_false(vault_redeem(VAULT, guest, ticket, 1, &held));
	assert_false(vault_redeem(VAULT, guest, &none, 1, &held));
	vault_leave(VAULT, guest);
	assert_int_equal(share(owner, "x", ticket[0]), GPUSHARE_OK);
	assert_int_equal(peer_attach(owner, "x"), GPUSHARE_OK);
	assert_int_equal(share(owner, "y", peer_answer.body.attach.ticket), GPUSHARE_E_INVALID);
}

static void a_ticket_ends(void **state)
{
	struct lease *owner = peer_new(1, 10, "owner");
	int64_t now = clock_ns(), limit = LIMIT_TICKET_MS * NS_PER_MS, end;
	ticket_key tickets[2];
	int fds[2];

	(void)state;
	assert_true(vault_expire(VAULT, now) == INT64_MAX);
	assert_int_equal(deposit(&owner->peer, 2, fds, tickets), GPUSHARE_OK);
	end = vault_expire(VAULT, now);
	assert_true(end >= now + limit && end < now + 2 * limit);
	assert_true(vault_expire(VAULT, end - 1) == end);
	settle();
	assert_true(is_open(fds[0]) && is_open(fds[1]));
	assert_int_equal(share(owner, "x", tickets[1]), GPUSHARE_OK);
	assert_true(vault_expire(VAULT, end) == INT64_MAX);
	settle();
	assert_false(is_open(fds[0]));
	assert_true(is_open(fds[1])); /* that one is a record's */
	assert_int_equal(share(owner, "y", tickets[0]), GPUSHARE_E_INVALID);
	assert_null(VAULT->guests);
}

static void a_dead_processs_tickets_go(void **state)
{
	struct lease *owner = peer_new(1, 10, "owner"), *other = peer_new(2, 20, "other");
	ticket_key tickets[2], more[1];
	uint32_t id;
	int fds[2], fd;

	(void)state;
	assert_int_equal(deposit(&owner->peer, 2, fds, tickets), GPUSHARE_OK);
	id = guest->id;
	assert_int_equal(deposit(&other->peer, 1, &fd, more), GPUSHARE_OK);
	vault_bury(VAULT, id);
	settle();
	assert_false(is_open(fds[0]) || is_open(fds[1]));
	assert_true(is_open(fd));
	assert_int_equal(share(other, "x", more[0]), GPUSHARE_OK);
}

/* Its last message may be read after we heard of its end. */
static void a_dead_process_deposits_nothing(void **state)
{
	const struct process peer = {.pid = 10, .uid = 1000, .started = 100};
	struct guest *dead = vault_enter(VAULT, &peer);
	ticket_key ticket[1];
	int fd = memfd_create("unit", MFD_CLOEXEC);

	(void)state;
	vault_bury(VAULT, dead->id);
	assert_int_equal(vault_deposit(VAULT, dead, &fd, 1, clock_ns(), ticket),
			 GPUSHARE_E_OWNER_GONE);
	assert_int_equal(VAULT->count, 0);
	vault_leave(VAULT, dead);
	assert_null(VAULT->guests);
	close(fd);
}

/* Its record may go while somebody is on the way to fetch it. */
static void who_was_told_may_still_fetch(void **state)
{
	struct lease *owner = peer_new(1, 10, "owner"), *other = peer_new(2, 20, "other");
	int fd = shared(owner, "x");
	ticket_key fetch[1];
	struct held *held;

	(void)state;
	assert_int_equal(peer_attach(other, "x"), GPUSHARE_OK);
	memcpy(fetch[0], peer_answer.body.attach.ticket, sizeof(fetch[0]));
	assert_null(registry_disconnect(peer_registry, owner));
	settle();
	assert_true(is_open(fd));
	guest = vault_enter(VAULT, &other->peer);
	assert_true(vault_redeem(VAULT, guest, fetch, 1, &held));
	vault_leave(VAULT, guest);
	vault_release(VAULT, held);
	settle();
	assert_false(is_open(fd));
}

static void a_leases_end_takes_its_tickets(void **state)
{
	struct lease *owner = peer_new(1, 10, "owner"), *other = peer_new(2, 20, "other");
	int fd = shared(owner, "x");

	(void)state;
	assert_int_equal(peer_attach(other, "x"), GPUSHARE_OK);
	assert_non_null(VAULT->by_age);
	assert_null(registry_disconnect(peer_registry, other));
	assert_null(VAULT->by_age);
	assert_null(VAULT->guests);
	settle();
	assert_true(is_open(fd));
	assert_int_equal(peer_attachers(owner, "x"), 0);
}

static void redeeming_is_all_or_nothing(void **state)
{
	struct lease *owner = peer_new(1, 10, "owner"), *other = peer_new(2, 20, "other");
	ticket_key fetch[3];
	struct held *held[3];

	(void)state;
	shared(owner, "x");
	shared(owner, "y");
	assert_int_equal(peer_attach(other, "x"), GPUSHARE_OK);
	memcpy(fetch[0], peer_answer.body.attach.ticket, sizeof(fetch[0]));
	memcpy(fetch[1], fetch[0], sizeof(fetch[0]));
	guest = vault_enter(VAULT, &other->peer);
	assert_false(vault_redeem(VAULT, guest, fetch, 2, held)); /* one ticket twice */
	memset(fetch[1], 1, sizeof(fetch[1]));
	assert_false(vault_redeem(VAULT, guest, fetch, 2, held));
	assert_int_equal(peer_attach(other, "y"), GPUSHARE_OK);
	memcpy(fetch[1], peer_answer.body.attach.ticket, sizeof(fetch[1]));
	assert_true(vault_redeem(VAULT, guest, fetch, 2, held));
	assert_ptr_not_equal(held[0], held[1]);
	vault_release(VAULT, held[0]);
	vault_release(VAULT, held[1]);
	vault_leave(VAULT, guest);
}

static void limits_are_kept(void **state)
{
	struct lease *owner = peer_new(1, 10, "owner"), *other = peer_new(2, 20, "other");
	ticket_key tickets[4];
	int fds[4], before = descriptors_open();

	(void)state;
	assert_int_equal(VAULT->guest_limit, 256);
	VAULT->guest_limit = 3;
	assert_int_equal(deposit(&owner->peer, 4, fds, tickets), GPUSHARE_E_LIMIT);
	assert_int_equal(VAULT->count, 0);
	assert_null(VAULT->guests);
	assert_int_equal(deposit(&owner->peer, 3, fds, tickets), GPUSHARE_OK);
	assert_int_equal(deposit(&owner->peer, 1, fds + 3, tickets + 3), GPUSHARE_E_LIMIT);
	assert_int_equal(deposit(&other->peer, 1, fds + 3, tickets + 3), GPUSHARE_OK);
	assert_int_equal(share(owner, "x", tickets[0]), GPUSHARE_OK);
	/* an attach needs one as well, and nothing is attached without it */
	VAULT->guest_limit = 2;
	assert_int_equal(peer_attach(owner, "x"), GPUSHARE_E_LIMIT);
	peer_assert_sentence("2 descriptors wait");
	assert_int_equal(peer_registry->leases.attachments, 0);
	assert_int_equal(peer_attachers(owner, "x"), 0);
	VAULT->guest_limit = 100;
	peer_registry->limits.descriptors = 4;
	assert_int_equal(deposit(&other->peer, 1, fds + 3, tickets + 3), GPUSHARE_E_LIMIT);
	assert_int_equal(descriptors_open(), before + 4);
	peer_tear_down(state);
	peer_set_up(state); /* which has some of its own */
	assert_int_equal(descriptors_open(), before);
}

static void a_descriptors_record_has_a_ticket_and_no_handle(void **state)
{
	static const uint8_t zero[GPUSHARE_HANDLE_SIZE];
	struct lease *owner = peer_new(1, 10, "owner"), *other = peer_new(2, 20, "other");
	const gpushare_AttachReply *answer = &peer_answer.body.attach;

	(void)state;
	shared(owner, "x");
	assert_int_equal(peer_attach(other, "x"), GPUSHARE_OK);
	assert_memory_equal(answer->handle, zero, sizeof(zero));
	assert_memory_not_equal(answer->ticket, zero, sizeof(answer->ticket));
	assert_int_equal(answer->buffer.backing, GPUSHARE_BACKING_VMM);
	assert_false(answer->own);
	/* The owner's own mapping is one like any other. */
	assert_int_equal(peer_attach(owner, "x"), GPUSHARE_OK);
	assert_true(answer->own);
	assert_memory_not_equal(answer->ticket, zero, sizeof(answer->ticket));
	assert_int_equal(peer_attachers(owner, "x"), 2);
	assert_int_equal(peer_detach(owner, "x", peer_answer.body.lookup.buffer.generation), 0);
	assert_int_equal(peer_attachers(owner, "x"), 1);
	/* And what travels by handle has no ticket. */
	peer_share(owner, "ipc");
	assert_int_equal(peer_attach(other, "ipc"), GPUSHARE_OK);
	assert_memory_equal(answer->ticket, zero, sizeof(answer->ticket));
}

static void a_share_brings_what_its_backing_wants(void **state)
{
	struct lease *owner = peer_new(1, 10, "owner");
	ticket_key ticket[1], none = {0};
	request what;
	int fd;

	(void)state;
	assert_int_equal(deposit(&owner->peer, 1, &fd, ticket), GPUSHARE_OK);
	assert_int_equal(share(owner, "x", none), GPUSHARE_E_INVALID);
	peer_assert_sentence("without the ticket");
	what = share_of("x", ticket[0]);
	what.verb.share.handle[0] = 1;
	assert_int_equal(peer_ask(owner, &what), GPUSHARE_E_INVALID);
	what = share_of("x", ticket[0]);
	what.verb.share.buffer.backing = GPUSHARE_BACKING_IPC;
	assert_int_equal(peer_ask(owner, &what), GPUSHARE_E_INVALID);
	what.verb.share.handle[0] = 1;
	assert_int_equal(peer_ask(owner, &what), GPUSHARE_E_INVALID);
	peer_assert_sentence("with a handle and with a ticket");
	assert_int_equal(peer_registry->store.count, 0);
	assert_int_equal(share(owner, "x", ticket[0]), GPUSHARE_OK); /* none of those used it up */
}

#define with_registry(test) cmocka_unit_test_setup_teardown(test, peer_set_up, peer_tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
	    with_registry(a_ticket_serves_one_share),
	    with_registry(a_share_that_fails_uses_the_ticket_up),
	    with_registry(a_ticket_is_its_processs_own),
	    with_registry(a_ticket_serves_one_purpose),
	    with_registry(a_ticket_ends),
	    with_registry(a_dead_processs_tickets_go),
	    with_registry(a_dead_process_deposits_nothing),
	    with_registry(who_was_told_may_still_fetch),
	    with_registry(a_leases_end_takes_its_tickets),
	    with_registry(redeeming_is_all_or_nothing),
	    with_registry(limits_are_kept),
	    with_registry(a_descriptors_record_has_a_ticket_and_no_handle),
	    with_registry(a_share_brings_what_its_backing_wants),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
