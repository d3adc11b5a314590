/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <malloc.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <unistd.h>

#include "os/clock.h"
#include "os/socket_access.h"
#include "persist/fdstore.h"
#include "persist/keeper.h"
#include "os/log.h"
#include "persist/notify.h"
#include "options.h"
#include "os/instance.h"
#include "restore.h"
#include "save.h"
#include "server/fds.h"
#include "server/server.h"

#define EXIT_SERVED 3
#define CLOSING_MS 500	  /* who replaces us waits, and so do those who are connected */
#define LOOK_MS 500	  /* from one look at the place to the next... */
#define LOOK_IDLE_MS 1000 /* ...where nobody asks */
#define LINGER_MS 100	  /* for a client that connected just before the socket was hidden */
#define TRIM_RECORDS 1000 /* fewer are not worth giving their memory back */

/* Signals come through a fd; nng's threads, started later, inherit the mask. */
static int open_signals(void)
{
	sigset_t ending;

	signal(SIGHUP, SIG_IGN); /* a child's, too; what is blocked comes all the same */
	signal(SIGPIPE, SIG_IGN);
	signal(SIGCHLD, SIG_IGN); /* nobody waits for a keeper */
	sigemptyset(&ending);
	sigaddset(&ending, SIGTERM);
	sigaddset(&ending, SIGINT);
	sigaddset(&ending, SIGHUP);
	pthread_sigmask(SIG_BLOCK, &ending, NULL);
	return signalfd(-1, &ending, SFD_CLOEXEC | SFD_NONBLOCK);
}

/* Returns how many file descriptors there may be. */
static uint64_t raise_file_limit(void)
{
	struct rlimit files;

	if (getrlimit(RLIMIT_NOFILE, &files))
		return UINT64_MAX;
	if (files.rlim_cur < files.rlim_max) {
		struct rlimit raised = {files.rlim_max, files.rlim_max};

		if (!setrlimit(RLIMIT_NOFILE, &raised))
			files = raised;
	}
	watch_limit((int)(files.rlim_cur / 2 < INT_MAX ? files.rlim_cur / 2 : INT_MAX));
	return files.rlim_cur;
}

/* Of several users none takes more than half of that. */
static void clamp(struct limits *limits, enum limit what, bool is_system, uint64_t most)
{
	uint64_t *of_all = &limits->of_all[what], *of_user = &limits->of_user[what];
	uint64_t each = is_system ? (most + 1) / 2 : most;

	*of_all = *of_all < most ? *of_all : most;
	*of_user = *of_user < each ? *of_user : each;
}

/*
 * What the kernel lets us have. A connection is a file descriptor, and so is what some backings travel as. The
 * death of a process takes one more, in the lower half: at most a quarter, where each has its socket beside it.
 */
static void limit_descriptors(struct limits *limits, bool is_system, uint64_t fds)
{
	if (fds / 16 < limits->spare)
		limits->spare = fds / 16;
	limits->together = fds / 3 * 2;
	clamp(limits, LIMIT_connections, is_system, fds / 3 * 2 - limits->spare);
	clamp(limits, LIMIT_descriptors, is_system, fds / 2);
}

static void tell_ready(const struct options *options, const struct instance *place)
{
	static const char ready[] = "READY=1\n";
	int null;

	log_line("serving %s", place->socket);
	notify_say("READY=1");
	if (options->ready_fd >= 0) {
		if (write(options->ready_fd, ready, sizeof(ready) - 1) < 0)
			log_line("can't write to fd %d: %s", options->ready_fd, strerror(errno));
		close(options->ready_fd);
	}
	if (options->foreground)
		return;
	null = open("/dev/null", O_RDWR | O_CLOEXEC);
	for (int fd = 0; null >= 0 && fd <= 2; fd++)
		dup2(null, fd);
	if (null > 2)
		close(null);
}

/*
 * Leave only if nobody comes: the socket's name is taken away, and those who were quicker get the
 * time to say hello. If one does, the name is given back. A daemon that is started meanwhile waits
 * at the lock.
 */
static bool may_leave(struct server *server, const struct instance *place)
{
	int64_t since = server_idle_since_ns(server);

	if (instance_is_lost(place))
		return true;
	if (!instance_hide(place))
		return true; /* somebody removed it: nobody will ever find us again */
	poll(NULL, 0, LINGER_MS);
	if (server_idle_since_ns(server) == since)
		return true;
	return !instance_show(place);
}

/* Who started us has left us to whoever collects orphans: mostly pid 1, which has time. */
static unsigned int idle_limit_s(const struct options *options)
{
	if (options->orphan && options->settings.idle_exit_s > 1 && process_is_awaited())
		return 1;
	return (unsigned int)options->settings.idle_exit_s;
}

/* A keeper that was killed is missed here. When to look again at the latest. */
static int64_t tend_store(struct registry *registry)
{
	int64_t next = INT64_MAX;

	registry_lock(registry);
	if (registry->fdstore)
		next = fdstore_tick(registry->fdstore);
	registry_unlock(registry);
	return next;
}

/*
 * What is freed lies in the C library's arenas of the threads that allocated it, which give back only what
 * is at their end. When more than half of the records have gone, all of it is given back.
 */
static void tidy(struct registry *registry)
{
	const uint64_t *held = registry->users.held;
	uint64_t records;
	bool fell;

	registry_lock(registry);
	save_tend(registry);
	records = held[LIMIT_names] + held[LIMIT_limbo] + held[LIMIT_attachments];
	if (records > registry->records_most)
		registry->records_most = records;
	fell = registry->records_most - records > records + TRIM_RECORDS;
	if (fell)
		registry->records_most = records;
	registry_unlock(registry);
	if (fell)
		malloc_trim(0);
}

/* Whether it goes on after that. */
static bool next_signal(struct registry *registry, int signals)
{
	struct signalfd_siginfo signal;

	if (read(signals, &signal, sizeof(signal)) != sizeof(signal))
		return true; /* nothing there after all */
	if (signal.ssi_signo != SIGHUP)
		return false;
	audit_reopen(&registry->audit);
	return true;
}

/* When to look around again; INT64_MAX: the place has gone, and nobody is here who would miss us. */
static int64_t look_around(struct server *server, const struct instance *place)
{
	bool busy = server_has_served(server);

	tidy(server->registry);
	if (instance_is_lost(place) && server_is_alone(server))
		return INT64_MAX;
	return clock_ns() + (busy ? LOOK_MS : LOOK_IDLE_MS) * NS_PER_MS;
}

/* Without the lock: a write may wait for a disk. */
static void write_audit(struct registry *registry)
{
	char *lines;
	size_t size;

	do {
		registry_lock(registry);
		lines = audit_take(&registry->audit, &size);
		registry_unlock(registry);
		if (lines)
			audit_write(&registry->audit, lines, size);
	} while (lines);
}

static void serve(struct server *server, struct fds_server *fds_server,
		  const struct instance *place, const struct options *options, int signals)
{
	struct pollfd events[] = {
	    {.fd = signals, .events = POLLIN},
	    {.fd = fds_server->events, .events = POLLIN},
	    {.fd = server->wake, .events = POLLIN},
	    {.fd = server->watches, .events = POLLIN},
	};
	int64_t look_ns = clock_ns() + LOOK_MS * NS_PER_MS;

	for (;;) {
		int64_t next = server_tick(server), store_ns = tend_store(server->registry);
		int64_t fds_ns = fds_server_tick(fds_server);
		int64_t since = server_idle_since_ns(server);
		eventfd_t ignored;

		write_audit(server->registry);
		if (options->settings.idle_exit_s && since != INT64_MAX) {
			int64_t idle_ns = idle_limit_s(options) * NS_PER_S;

			if (clock_ns() - since >= idle_ns && may_leave(server, place)) {
				log_line("idle: leaving");
				return;
			}
			next = since + idle_ns < next ? since + idle_ns : next;
		}
		if (clock_ns() >= look_ns)
			look_ns = look_around(server, place);
		if (look_ns == INT64_MAX) {
			log_line("%s has gone: leaving", place->directory);
			return;
		}
		next = store_ns < next ? store_ns : next;
		next = fds_ns < next ? fds_ns : next;
		next = look_ns < next ? look_ns : next;
		poll(events, 4, clock_timeout_ms(next));
		if (events[0].revents && !next_signal(server->registry, signals)) {
			log_line("ended by a signal");
			return;
		}
		if (events[1].revents)
			fds_server_run(fds_server);
		if (fds_server->replaced)
			return;
		if (events[2].revents)
			eventfd_read(server->wake, &ignored);
	}
}

/* Whoever is told of the first socket must find the others. */
static bool open_servers(struct server *server, struct fds_server *fds_server,
			 struct registry *registry, const struct instance *place)
{
	if (!fds_server_open(fds_server, registry, place->fds_socket))
		return false;
	if (server_open(server, registry, place->socket))
		return true;
	fds_server_close(fds_server);
	return false;
}

/* Its keeper is not to start another one, which would be for this user alone: the administrator does. */
static bool open_door(const struct options *options)
{
	struct identity_group group = {.gid = IDENTITY_NO_GROUP};

	if (!options->is_system)
		return true;
	if (options->group)
		identity_find_group(options->group, geteuid(), &group);
	if (group.status)
		log_error("there is no group '%s'", options->group);
	socket_access_set(true, group.gid);
	setenv("GPUSHARE_AUTOSTART", "0", 1);
	return !group.status;
}

/* The sockets are unlinked and the lock goes with the process: nothing is left to do. */
static void leave_now(int number)
{
	(void)number;
	_exit(0);
}

/* Started by a client or a keeper, which know nothing of the file that the one before was given. */
static void inherit_config(struct options *options, const char *directory)
{
	char config[OPTIONS_CONFIG_MAX];

	if (options->orphan && !*options->config && load_config(directory, config))
		options_inherit(options, config);
}

int main(int argc, char **argv)
{
	static const struct itimerval closing = {.it_value.tv_usec = CLOSING_MS * 1000};
	struct options options;
	static struct fds_server fds_server; /* large */
	struct registry *registry;
	struct server server;
	struct instance place;
	int leave = options_parse(&options, argc, argv);
	uint64_t fds_limit;
	int signals, status;

	if (leave >= 0)
		return leave;
	log_enable(options.foreground);
	umask(077);
	if (options.keeper)
		return keeper_run(options.directory);
	notify_init(!options.orphan);
	signals = open_signals();
	fds_limit = raise_file_limit();
	if (!open_door(&options))
		return 1;
	status = instance_open(&place, options.directory, options.is_system, options.replace);
	if (status)
		return status == INSTANCE_SERVED ? EXIT_SERVED : 1;
	inherit_config(&options, place.directory);
	registry = registry_new();
	if (registry) {
		registry->config = *options.config ? options.config : NULL;
		registry->limits = options.settings.limits;
		registry->limits.message_bytes = options.settings.message_bytes;
		registry->limits.silent_ns = (int64_t)options.settings.silent_s * NS_PER_S;
		registry->is_system = options.is_system;
		limit_descriptors(&registry->limits, options.is_system, fds_limit);
	}
	if (signals < 0 || !registry)
		log_error("there is no memory, or no file descriptor, to begin with");
	if (signals < 0 || !registry ||
	    !audit_open(&registry->audit, options.settings.audit, options.settings.audit_rate,
			place.directory) ||
	    !restore_open(registry, place.directory) ||
	    !open_servers(&server, &fds_server, registry, &place)) {
		registry_free(registry);
		instance_close(&place);
		return 1;
	}
	tell_ready(&options, &place);
	serve(&server, &fds_server, &place, &options, signals);
	notify_say("STOPPING=1");
	restore_leave(registry);
	write_audit(registry);
	audit_close(&registry->audit); /* what ends from here on is the successor's to report */
	if (instance_is_lost(&place))
		_exit(0);	    /* nng would remove the socket of whoever has the place now */
	instance_clear(&place);	    /* nobody new, then nobody at all, then the lock */
	signal(SIGALRM, leave_now); /* whatever holds it up from here on */
	setitimer(ITIMER_REAL, &closing, NULL);
	server_close(&server);
	fds_server_close(&fds_server);
	registry_free(registry);
	instance_close(&place);
	return 0;
}
