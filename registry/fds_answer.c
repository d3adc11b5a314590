/* SPDX-License-Identifier: MIT */
#include "fds_answer.h"

#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "clock.h"
#include "closer.h"
#include "log.h"

#define NVIDIA_MAJOR 195 /* /dev/nvidiactl: exported device memory and memory of a NUMA node */

/* NULL: out of memory, then the caller closes itself. */
static struct closer *closer_of(struct registry *registry, uint32_t uid)
{
	struct closer *closer = NULL;
	struct user *user;

	pthread_mutex_lock(&registry->lock);
	user = user_of(&registry->users, uid);
	if (user && !user->closer)
		user->closer = closer_open();
	if (user)
		closer = user->closer;
	pthread_mutex_unlock(&registry->lock);
	return closer;
}

void fds_refuse(struct registry *registry, uint32_t uid, const int *fds, size_t count)
{
	struct closer *closer = count ? closer_of(registry, uid) : NULL;

	while (count-- > 0)
		closer_add(closer, fds[count]);
}

/*
 * Whether it is of a kind that holds memory: a device file of NVIDIA's, an anonymous inode (a dma-buf), a
 * memfd. Another process may serve its file system, which must not be asked: hence the cached type, and
 * seals, which only files in memory have. Closing these kinds waits for no process.
 */
static bool is_welcome(int fd)
{
	struct statx is;

	if (statx(fd, "", AT_EMPTY_PATH | AT_STATX_DONT_SYNC, STATX_TYPE, &is))
		return false;
	switch (is.stx_mode & S_IFMT) {
	case 0:
		return true;
	case S_IFCHR:
		return is.stx_rdev_major == NVIDIA_MAJOR;
	case S_IFREG:
		return fcntl(fd, F_GET_SEALS) >= 0;
	}
	return false;
}

static bool are_welcome(const int *fds, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		if (!is_welcome(fds[i]))
			return false;
	}
	return true;
}

static int handle_deposit(struct registry *registry, struct guest *guest,
			  const struct fds_message *ask, const int *fds, size_t count,
			  struct fds_message *answer)
{
	int status = GPUSHARE_OK;

	if (!count || ask->count != count || !are_welcome(fds, count))
		status = GPUSHARE_E_INVALID;
	pthread_mutex_lock(&registry->lock);
	if (!status)
		status =
		    vault_deposit(&registry->vault, guest, fds, count, clock_ns(), answer->tickets);
	pthread_mutex_unlock(&registry->lock);
	if (status) {
		memset(answer->tickets, 0, sizeof(answer->tickets));
		fds_refuse(registry, guest->peer.uid, fds, count);
		return status;
	}
	answer->count = (uint16_t)count;
	return GPUSHARE_OK;
}

/* Whom a ticket does not belong to is not told whether it is one. */
static int handle_withdraw(struct registry *registry, struct guest *guest, struct fds_message *ask,
			   struct held **held)
{
	bool redeemed;

	if (!ask->count)
		return GPUSHARE_E_INVALID;
	pthread_mutex_lock(&registry->lock);
	redeemed = vault_redeem(&registry->vault, guest, ask->tickets, ask->count, held);
	pthread_mutex_unlock(&registry->lock);
	return redeemed ? GPUSHARE_OK : GPUSHARE_E_NOT_FOUND;
}

static int withdraw(struct registry *registry, struct guest *guest, struct fds_message *ask,
		    int socket, struct fds_message *answer)
{
	struct held *held[FDS_MAX];
	int fds[FDS_MAX];
	int status = handle_withdraw(registry, guest, ask, held);

	if (status)
		return status;
	for (int i = 0; i < ask->count; i++)
		fds[i] = held[i]->fd;
	answer->count = ask->count;
	status = fds_send(socket, answer, fds, ask->count);
	pthread_mutex_lock(&registry->lock);
	for (int i = 0; i < ask->count; i++)
		vault_release(&registry->vault, held[i]);
	pthread_mutex_unlock(&registry->lock);
	answer->count = 0;
	return status;
}

/* They are made once and stay: nobody needs the lock for them. */
static int handle_page(const struct registry *registry, int socket, struct fds_message *answer)
{
	const struct store *store = &registry->store;
	int fd = answer->verb == FDS_INDEX ? store->index.fd : store->changes.fd;

	return fd >= 0 ? fds_send(socket, answer, &fd, 1) : GPUSHARE_E_NOT_SUPPORTED;
}

static bool is_known(uint8_t verb)
{
	return verb >= FDS_DEPOSIT && verb < FDS_NO_VERB;
}

/* Refused: counted as a request's refusal is. Who has gone, and what there is none of, was not. */
static void refuse(struct registry *registry, const struct process *peer, int status)
{
	struct user *user;

	if (status == GPUSHARE_E_IO || status == GPUSHARE_E_NO_REGISTRY ||
	    status == GPUSHARE_E_NOT_SUPPORTED)
		return;
	pthread_mutex_lock(&registry->lock);
	user = user_of(&registry->users, peer->uid);
	if (user)
		counts_refused(&user->counts, status);
	counts_refused(&registry->counts, status);
	audit_refused(registry, peer, "descriptors", status);
	pthread_mutex_unlock(&registry->lock);
}

/* Whether it is a message that this guest may send, with what belongs beside it. */
static int check(const struct guest *guest, const struct fds_message *ask, size_t count)
{
	if (guest->connections > LIMIT_FDS_CONNECTIONS_PER_PROCESS)
		return GPUSHARE_E_LIMIT;
	if (ask->verb == FDS_DEPOSIT)
		return GPUSHARE_OK;
	if (ask->verb == FDS_REPLACE && guest->peer.uid != geteuid() && guest->peer.uid)
		return GPUSHARE_E_DENIED;
	return is_known(ask->verb) && !count ? GPUSHARE_OK : GPUSHARE_E_PROTOCOL;
}

enum fds_outcome fds_answer(struct registry *registry, struct guest *guest, int socket)
{
	struct fds_message ask = {0}, answer = {.version = FDS_VERSION};
	int fds[FDS_KERNEL_MAX];
	size_t count = 0;
	int status;

	if (closer_count(closer_of(registry, guest->peer.uid)) >= LIMIT_FDS_REFUSED)
		return FDS_CLOSE;
	status = fds_receive_open(socket, &ask, fds, &count);
	if (status == GPUSHARE_E_TIMED_OUT)
		return FDS_GO_ON; /* nothing there after all */
	if (status == GPUSHARE_E_NO_REGISTRY || status == GPUSHARE_E_IO)
		return FDS_CLOSE; /* nothing came */
	answer.verb = ask.verb;
	if (!status)
		status = check(guest, &ask, count);
	if (status) {
		fds_refuse(registry, guest->peer.uid, fds, count);
	} else if (ask.verb == FDS_DEPOSIT) {
		status = handle_deposit(registry, guest, &ask, fds, count, &answer);
	} else if (ask.verb != FDS_REPLACE) {
		status = ask.verb == FDS_WITHDRAW ? withdraw(registry, guest, &ask, socket, &answer)
						  : handle_page(registry, socket, &answer);
		if (!status)
			return FDS_GO_ON;
	}
	answer.status = status;
	if (status) {
		log_line("%s: uid %u pid %d (%s), request %u of %u: %s", GPUSHARE_FDS_SOCKET,
			 guest->peer.uid, guest->peer.pid, guest->peer.command, ask.verb, ask.count,
			 status_text(status));
		refuse(registry, &guest->peer, status);
	}
	/* Who sends nonsense or takes no answer has no business here; who asked us to leave and has
	 * gone meanwhile does not come in our place. */
	if (fds_send(socket, &answer, NULL, 0) || status == GPUSHARE_E_PROTOCOL)
		return FDS_CLOSE;
	return !status && ask.verb == FDS_REPLACE ? FDS_LEAVE : FDS_GO_ON;
}
