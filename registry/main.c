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
#include <sys/inotify.h>
#include <sys/resource.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <unistd.h>

#include "options.h"
#include "os/clock.h"
#include "os/instance.h"
#include "os/log.h"
#include "fdstore/fdstore.h"
#include "fdstore/keeper.h"
#include "fdstore/notify.h"
#include "persist/records.h"
#include "persist/persist.h"
#include "server/fds.h"
#include "server/server.h"

#define EXIT_SERVED 3
#define LOOK_MS 500 /* between two calls of look_around(), unless the registry is idle */

static struct {
	struct options options;
	struct instance instance;
	struct registry *registry;
	struct server server;
	struct fds_server fds_server;
	int signals;
	int watches; /* from watch_open(): readable when a watched process has ended */
	/* from watch_folder(); -1: not available */
	int folder;
	/* connection to the keeper, readable when the keeper has ended; -1: none */
	int keeper;
	int64_t look_ns;  /* when look_around() is due */
	uint64_t served;  /* number of sessions and requests so far, at the last look_around() */
	int64_t idle_ns;  /* when the registry became idle; INT64_MAX: it isn't idle */
	int64_t leave_ns; /* when to exit because of --idle-exit; INT64_MAX: never */
} self;

/* Block signals and return a descriptor to read them from. nng's threads start later, and inherit
 * the mask. */
static int open_signals(void)
{
	sigset_t ending;

	signal(SIGHUP, SIG_IGN); /* blocked below, so the signalfd gets it although it is ignored */
	signal(SIGPIPE, SIG_IGN);
	signal(SIGCHLD, SIG_IGN); /* the registry doesn't wait for its keeper */
	sigemptyset(&ending);
	sigaddset(&ending, SIGTERM);
	sigaddset(&ending, SIGINT);
	sigaddset(&ending, SIGHUP);
	pthread_sigmask(SIG_BLOCK, &ending, NULL);
	return signalfd(-1, &ending, SFD_CLOEXEC | SFD_NONBLOCK);
}

/* With --system, no user gets more than half of `most`. */
static void clamp(struct limits *limits, enum limit what, uint64_t most)
{
	uint64_t *of_all = &limits->of_all[what], *of_user = &limits->of_user[what];
	uint64_t each = self.options.is_system ? (most + 1) / 2 : most;

	*of_all = *of_all < most ? *of_all : most;
	*of_user = *of_user < each ? *of_user : each;
}

/* Fit the limits to RLIMIT_NOFILE. Each connection takes a descriptor, and so do some buffers.
 * Watching a peer's process takes one, too, in the lower half of the numbers. */
static void fit_limits(struct limits *limits)
{
	struct rlimit files = {RLIM_INFINITY, RLIM_INFINITY}, raised;
	uint64_t fds;

	getrlimit(RLIMIT_NOFILE, &files);
	raised = (struct rlimit){files.rlim_max, files.rlim_max};
	fds = setrlimit(RLIMIT_NOFILE, &raised) ? files.rlim_cur : files.rlim_max;
	self.watches = watch_open((int)(fds / 2 < INT_MAX ? fds / 2 : INT_MAX));
	limits->spare = fds / 16 < limits->spare ? fds / 16 : limits->spare;
	limits->together = fds / 3 * 2;
	clamp(limits, LIMIT_connections, fds / 3 * 2 - limits->spare);
	clamp(limits, LIMIT_descriptors, fds / 2);
}

static void redirect_stdio(void)
{
	int null = open("/dev/null", O_RDWR | O_CLOEXEC);

	for (int standard = 0; null >= 0 && standard <= 2; standard++) {
		if (standard != self.options.ready)
			dup2(null, standard);
	}
	if (null > 2)
		close(null);
}

/* Close --ready-fd last: when the program that reads from it sees the end, stdio is already
 * redirected. */
static void report_ready(void)
{
	static const char ready[] = "READY=1\n";
	int fd = self.options.ready;

	log_line("serving %s", self.instance.socket);
	notify_say("READY=1");
	if (!self.options.foreground)
		redirect_stdio();
	if (fd >= 0 && write(fd, ready, sizeof(ready) - 1) < 0)
		log_line("can't write to fd %d: %s", fd, strerror(errno));
	if (fd >= 0)
		close(fd);
}

static int64_t idle_until_ns(void)
{
	uint64_t limit_s = self.options.settings.idle_exit_s;
	struct process parent;

	if (!limit_s || self.idle_ns == INT64_MAX)
		return INT64_MAX;
	/* With --orphan, the parent usually is pid 1 or a systemd. Any other parent may wait for
	 * this process to end, perhaps without knowing that it is the parent
	 * (PR_SET_CHILD_SUBREAPER, as compute-sanitizer sets it). */
	process_read(self.options.orphan ? getppid() : 0, 0, &parent);
	if (parent.pid > 1 && strcmp(parent.command, "systemd") != 0)
		limit_s = 1;
	return self.idle_ns + (int64_t)limit_s * NS_PER_S;
}

/* Whether look_around() needn't be called regularly, because anything that it checks wakes the main
 * loop. Call this with the lock held. */
static bool may_rest(void)
{
	const struct registry *registry = self.registry;

	return self.folder >= 0 && !registry->state.ending && !registry->audit.owing &&
	       !restore_looks(registry) && records_stand(registry->records) &&
	       !fdstore_owes(registry->fdstore);
}

/*
 * Regular checks. false: exit, because the registry is idle, or because the folder was removed and
 * nobody is connected. If nothing happened since the last call, the next call is due when a thread
 * takes the lock, a file in the folder is removed, or it is time to exit. So an idle registry
 * sleeps.
 */
static bool look_around(void)
{
	const struct state *state = &self.registry->state;
	bool rests, alone, busy;
	uint64_t served;
	int64_t now;

	registry_lock(self.registry);
	now = clock_ns();
	if (records_want_all(self.registry->records))
		save_all(self.registry);
	alone = !state->users.total.held[LIMIT_connections];
	busy = state->sessions.by_id || state->kept.root;
	served = state->sessions.ever + state->users.total.requests;
	self.registry->rests = rests = served == self.served && may_rest();
	if (busy || served != self.served || self.idle_ns == INT64_MAX)
		self.idle_ns = busy ? INT64_MAX : now;
	self.served = served;
	self.look_ns = rests ? INT64_MAX : clock_ns() + LOOK_MS * NS_PER_MS;
	registry_unlock(self.registry);
	self.leave_ns = idle_until_ns();
	if (rests)
		malloc_trim(0);	  /* free() returns no memory to the kernel: see main() */
	if (now >= self.leave_ns) /* a client whose connection now fails starts another registry */
		log_line("idle: leaving");
	else if (alone && instance_is_lost(&self.instance))
		log_line("%s was removed: leaving", self.instance.directory);
	else
		return true;
	return false;
}

/* Write audit lines, without the lock, because a write may wait for a disk. */
static void write_audit(void)
{
	struct audit *audit = &self.registry->audit;
	char *lines;
	size_t size;

	registry_lock(self.registry);
	lines = audit_take(audit, &size);
	registry_unlock(self.registry);
	if (lines)
		audit_write(audit, lines, size);
}

/* Do what is due. Returns when to call this again at the latest. */
static int64_t tick(void)
{
	int64_t next = clock_sooner(server_tick(&self.server), fds_server_tick(&self.fds_server));

	registry_lock(self.registry);
	next = clock_sooner(next, fdstore_tick(self.registry->fdstore, &self.keeper));
	registry_unlock(self.registry);
	write_audit();
	return next;
}

/* false: SIGTERM or SIGINT. */
static bool take_signal(void)
{
	struct signalfd_siginfo signal;

	if (read(self.signals, &signal, sizeof(signal)) != sizeof(signal))
		return true;
	if (signal.ssi_signo == SIGHUP)
		audit_reopen(&self.registry->audit);
	return signal.ssi_signo == SIGHUP;
}

/* Return an inotify descriptor that becomes readable when the folder or a file in it was removed or
 * moved. look_around() then checks which. -1: not available. */
static int watch_folder(const char *directory)
{
	int fd = inotify_init1(IN_CLOEXEC | IN_NONBLOCK);

	if (fd >= 0 && inotify_add_watch(fd, directory,
					 IN_DELETE | IN_MOVE | IN_DELETE_SELF | IN_MOVE_SELF) < 0) {
		close(fd);
		fd = -1;
	}
	return fd;
}

static void wait_for(struct pollfd *events, size_t count, int64_t next_ns)
{
	eventfd_t ignored;
	char removed[4096];

	poll(events, count, clock_timeout_ms(next_ns));
	if (events[2].revents)
		eventfd_read(self.registry->wake, &ignored);
	while (events[4].revents && read(self.folder, removed, sizeof(removed)) > 0)
		;
	if (self.look_ns == INT64_MAX)
		self.look_ns = clock_ns() + LOOK_MS * NS_PER_MS;
}

static void serve(void)
{
	struct pollfd events[] = {
	    {.fd = self.signals, .events = POLLIN},
	    {.fd = self.fds_server.events, .events = POLLIN},
	    {.fd = self.registry->wake, .events = POLLIN},
	    {.fd = self.watches, .events = POLLIN},
	    {.fd = self.folder, .events = POLLIN},
	    {.fd = -1, .events = POLLIN},
	};

	self.idle_ns = self.leave_ns = INT64_MAX;
	while (!self.fds_server.replaced) {
		int64_t next = tick();

		if (clock_ns() >= clock_sooner(self.look_ns, self.leave_ns) && !look_around())
			return;
		next = clock_sooner(next, clock_sooner(self.look_ns, self.leave_ns));
		events[5].fd = self.keeper;
		wait_for(events, sizeof(events) / sizeof(*events), next);
		if (events[0].revents && !take_signal()) {
			log_line("ended by a signal");
			return;
		}
		if (events[1].revents)
			fds_server_run(&self.fds_server);
	}
}

/* A keeper starts registries for one user only. So a registry for all users turns these starts off,
 * and an administrator must restart it. */
static bool set_access(void)
{
	struct identity_group group = {.gid = IDENTITY_NO_GROUP};

	if (!self.options.is_system)
		return true;
	if (self.options.group)
		identity_find_group(self.options.group, &group);
	if (group.status)
		log_error("there is no group '%s'", self.options.group);
	socket_access_set(true, group.gid);
	setenv("GPUSHARE_AUTOSTART", "0", 1);
	return !group.status;
}

static bool make_registry(void)
{
	const struct settings *settings = &self.options.settings;
	struct registry *registry = registry_new();

	self.registry = registry;
	if (!registry || self.signals < 0) {
		log_error("can't start: out of memory or file descriptors");
		return false;
	}
	registry->state.users.limits = settings->limits;
	registry->state.users.limits.message_bytes = settings->message_bytes;
	registry->state.users.limits.silent_ns = (int64_t)settings->silent_s * NS_PER_S;
	registry->is_system = self.options.is_system;
	fit_limits(&registry->state.users.limits);
	if (self.watches < 0) {
		log_error("can't watch processes: %s", strerror(errno));
		return false;
	}
	return audit_open(&registry->audit, settings->audit, settings->audit_rate,
			  self.instance.directory) &&
	       restore_open(registry, self.instance.directory);
}

static int open_instance(void)
{
	const char *directory = self.options.directory;
	enum instance_access as = self.options.tidy	   ? INSTANCE_AS_IS
				  : self.options.is_system ? INSTANCE_SYSTEM
							   : INSTANCE_USER;

	/* With --orphan, the program that starts the registry has made the folder. If the folder
	 * was removed since, don't make it again. */
	if (self.options.orphan && directory && access(directory, F_OK)) {
		log_error("%s was removed: %s", directory, strerror(errno));
		return GPUSHARE_E_NOT_FOUND;
	}
	return instance_open(&self.instance, directory, as, self.options.replace);
}

/* Open registry.sock last: a client that finds it must find fds.sock, too. */
static bool open_servers(void)
{
	if (!fds_server_open(&self.fds_server, self.registry, self.instance.fds_socket) ||
	    !server_open(&self.server, self.registry, self.instance.socket))
		return false;
	stat(self.instance.socket, &self.instance.listens);
	return true;
}

int main(int argc, char **argv)
{
	int status = options_parse(&self.options, argc, argv);

	if (status >= 0)
		return status;
	log_enable(self.options.foreground);
	/* One malloc() arena: with one for each of nng's threads, more freed memory would stay
	 * unused. free() often runs under the lock and must be fast, so only look_around() returns
	 * memory to the kernel. */
	mallopt(M_ARENA_MAX, 1);
	mallopt(M_TRIM_THRESHOLD, INT_MAX);
	umask(077);
	if (self.options.keeper)
		return keeper_run(self.options.directory);
	/* a keeper executes the program as /proc/self/fd/N, so the process would be called N */
	if (self.options.orphan)
		prctl(PR_SET_NAME, "gpushare-registry");
	notify_init(!self.options.orphan);
	self.signals = open_signals();
	if (!set_access())
		return 1;
	status = open_instance();
	if (status)
		return status == INSTANCE_SERVED ? EXIT_SERVED : 1;
	self.keeper = -1;
	self.folder = watch_folder(self.instance.directory);
	if (!make_registry() || (!self.options.tidy && !open_servers())) {
		instance_clear(&self.instance);
		return 1;
	}
	if (self.options
		.tidy) { /* restore_open() has already ended the sessions of dead processes */
		registry_lock(self.registry);
		while (registry_expire(self.registry, clock_ns()) <= clock_ns() + PIECE_NS)
			;
		registry_unlock(self.registry);
	} else {
		report_ready();
		serve();
	}
	/* The kernel closes connections and the lock when the process ends. */
	notify_say("STOPPING=1");
	restore_leave(self.registry);
	write_audit();
	instance_clear(&self.instance);
#ifdef __SANITIZE_ADDRESS__
	_exit(0); /* the leak checker stops all threads, nng's too, and hangs */
#endif
	return 0;
}
