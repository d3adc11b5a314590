/* SPDX-License-Identifier: MIT */
#ifndef GPUSHARE_SHIM_CLIENT_H
#define GPUSHARE_SHIM_CLIENT_H
/*
 * The registry client: blocking calls with a deadline over one socket, without a thread and without
 * nng. The requests are the verbs of registry.proto: Hello, Share, Withdraw, Attach, Detach and
 * others. The preload and the API use this client. Only one thread may use a client at a time:
 * callers hold a lock.
 */
#include "protocol.h"

#define CLIENT_TRIES 5	  /* consecutive closes by one registry before a call gives up */
#define CLIENT_ENDINGS 20 /* closes by any registries before a call gives up */

struct client_options {
	const char *directory;	 /* NULL: see directory_find() */
	const char *who;	 /* "shim" or "api", for the registry's log */
	unsigned int timeout_ms; /* 0: $GPUSHARE_TIMEOUT_MS or 1000 */
	bool autostart;		 /* start a registry, unless $GPUSHARE_AUTOSTART is 0 */
	bool shares_late; /* don't undo a Share that is answered late: a resync corrects it */
};

/*
 * A resync: the client's owner (the preload, or a session of the API) reports to the registry all
 * that it shares and has attached. It is due on each connection after the first, and after
 * client_tell_anew(). While it is due (`client->fresh`), client_call() first calls this function,
 * and sends its own request only if that returns OK. The function sends the parts of the resync by
 * client_ask_aside(), until the deadline.
 */
struct client;
typedef int client_resync(struct client *client, void *owner, int64_t deadline_ms);

/* The device and inode show whether the program has replaced the fd by another file. */
struct client_socket {
	int fd;
	unsigned long long device, inode;
};

/* A request whose caller has given up: see client_late.c. */
struct client_late {
	pb_size_t verb; /* 0: there is no late request */
	bool stands;	/* don't undo the request when its answer arrives */
	bool adopts;	/* a Share that adopts the buffer */
	char name[GPUSHARE_NAME_MAX + 1];
	uint32_t id; /* 0: the answer arrives on client->fds */
};

/* The registry's shared pages, mapped read-only. They belong to the current connection: an answer
 * over it is out of date once `changes` shows a change of its name. */
struct client_pages {
	const struct changes_page *changes; /* NULL: none */
	const struct index_page *index;	    /* index.h */
	bool has_asked_changes, has_asked_index;
	unsigned int lookups; /* sent over the socket so far */
};

struct client {
	struct client_socket socket; /* fd -1: not connected */
	struct client_socket fds; /* connection to fds.sock, kept for later requests; fd -1: none */
	unsigned int process;	  /* fork_check_number() of the process that made the client */
	int server;		  /* registry's pid in our pid namespace; 0: not visible */
	uint32_t next_id;
	unsigned int timeout_ms;
	bool autostart;
	bool giving_back; /* the request gives buffers back: start a registry only if it would know
			   * them */
	bool shares_late;
	bool greeted, ready; /* the greeting arrived on this connection; the hello's answer did */
	uint32_t hello;	     /* request id of the hello; 0: not sent */
	uint8_t *out, *in;   /* GPUSHARE_MESSAGE_MAX bytes each: unsent output, unread input */
	size_t out_size, in_size;
	unsigned int unanswered; /* answers still to come, discarded ones included */
	uint32_t ahead;		 /* request id of a list's prefetched page; 0: none */
	gpushare_List ahead_of;	 /* the request for that page */
	struct client_late late;
	struct client_pages pages;
	unsigned int outlived;	      /* value of `connections` when is_ending() waited in vain */
	bool asked;		      /* the latest call's request was sent, answered or not */
	struct directory_trust trust; /* of the directory: which user may run its registry */
	bool fresh;		      /* the registry needs a resync from the owner */
	bool anew;		      /* ...and another whole resync after that */
	bool told, told_anew;	      /* in the latest ask(): a resync's part was answered; a resync
				       * began */
	bool begins;		      /* the next Resync part is the first */
	unsigned int connections;     /* made so far */
	uint8_t session_key[16];      /* of the latest session, to resume it; all zero: none */
	uint32_t connection;	      /* the registry's number for the latest connection */
	client_resync *resync;
	void *owner;
	char who[64];
	char directory[GPUSHARE_PATH_MAX];
	char why[512]; /* explains the last failure */
	request request;
	request aside; /* a Resync, sent while `request` waits */
	request own;   /* one of the client itself: a hello, an undo, a list's next page */
	reply reply;
	int events;	/* an epoll instance that includes the socket; -1: none */
	int dial_error; /* errno of the latest connect(); 0: it succeeded */
	int goes;	/* a descriptor to send with `request`; stays the caller's; -1: none */
	int came;	/* received with `reply`; -1: none. See client_take_fd(). */
};

/* $GPUSHARE_TIMEOUT_MS if it is a whole number from 1 to 3600000, else 1000. */
unsigned int client_default_timeout_ms(void);

/* Heap-allocated and unconnected; the first call connects. NULL: out of memory. */
struct client *client_new(const struct client_options *options);
/* Closes the connection without a request (the registry notices) and frees the client. NULL is
 * allowed. Returns NULL. */
struct client *client_free(struct client *client);

void client_resync_by(struct client *client, client_resync *resync, void *owner);
/* client_begin_resyncing(): the owner starts a resync from the beginning.
 * client_end_resyncing(): the last part was sent. client_tell_anew(): something that was already
 * reported has changed, so another whole resync is needed. */
void client_begin_resyncing(struct client *client);
void client_end_resyncing(struct client *client);
void client_tell_anew(struct client *client);
/* Send client->aside, a part of a resync, and receive the answer into client->reply. Returns the
 * answer's status, or a transport status. */
int client_ask_aside(struct client *client, int64_t deadline_ms);
/* Call this for the last part of a Resync, which must have room for one more buffer. If the waiting
 * request is a Withdraw with a deferred free, its buffer is no longer in the owner's tables. This
 * adds that buffer to the part, so that the registry keeps it until the Withdraw arrives. */
void client_tell_rest(const struct client *client, gpushare_Resync *part);

/* Connect and say hello; if no registry runs, start one. OK if connected already. */
int client_connect(struct client *client);
/* Is there a connection whose registry has answered the hello? Sends nothing and does not wait. */
bool client_stands(const struct client *client);
/* Did the latest call fail in transport: no registry, or no answer in time? */
bool client_is_silent(const struct client *client);
/* If there is no connection: does a registry listen? Never waits. client_connect() continues with a
 * connection that this began. OK: a registry runs and has greeted us. E_TIMED_OUT: a registry
 * listens but has not greeted us. E_NO_REGISTRY or E_NOT_READY (see client_await_next()): no
 * registry listens. */
int client_probe(struct client *client);
/* Drop the connection. In a forked child this only closes the inherited fds. */
void client_disconnect(struct client *client);

/*
 * Send client->request, receive into client->reply, within timeout_ms + extra_ms altogether.
 * Connects first if needed. If the registry ends meanwhile, the next registry is asked, and so on.
 * Each registry is asked at most CLIENT_TRIES times in a row. Returns the reply's own status, or a
 * transport status (E_NO_REGISTRY, E_TIMED_OUT, E_PROTOCOL, E_FORKED); client->why explains either.
 * A request that carries a descriptor (client->goes), or whose answer may carry one, is sent to
 * fds.sock. client->goes is -1 afterwards. After E_TIMED_OUT the connection stays: the next call
 * first receives the late answer.
 */
int client_call(struct client *client, unsigned int extra_ms);
/*
 * A pipeline is a separate connection to fds.sock, on which requests are sent before the earlier
 * ones are answered. Any request that fds.sock takes may go there, with or without a descriptor in
 * its answer. Only opening a pipeline needs the client. So its user may make driver calls between
 * two answers while other threads use the client. One thread uses a pipeline at a time.
 */
#define CLIENT_AHEAD 32 /* unanswered requests of one pipeline, at most */
struct client_pipeline {
	int fd;
	struct fds_header header;
	reply answer; /* the latest */
	bool waited;  /* the answer had not arrived when client_pipeline_receive() was called */
	uint8_t bytes[GPUSHARE_MESSAGE_MAX];
};
/* Connects to fds.sock only; the main connection must exist. NULL: not possible now; the next
 * client_call() fails too and says why, or makes a pipeline possible. */
struct client_pipeline *client_pipeline_open(struct client *client);
/* Never waits. E_TIMED_OUT: the socket has no room now. Other failures: the connection is
 * useless. */
int client_pipeline_send(struct client_pipeline *pipeline, const request *question);
/* Receive the next answer, in the order of the requests, and its descriptor (-1: none), which is
 * then the caller's. OK: the answer is in pipeline->answer, and may be a refusal. Otherwise no more
 * answers can be received. */
int client_pipeline_receive(struct client_pipeline *pipeline, int64_t deadline_ms, int *out_fd);
/* Closes the connection. The registry carries out no request that it reads after this. It may have
 * carried out requests whose answers were not received: a resync must undo those. NULL is allowed.
 * Returns NULL. */
struct client_pipeline *client_pipeline_close(struct client_pipeline *pipeline);
/* Wait up to `wait_ms` for the name, over a new connection, so that other connections stay usable
 * meanwhile. On return the name may be gone again, or its owner may not have shared the memory with
 * a restarted registry yet. In that second case, and before it returns E_NO_REGISTRY or E_LIMIT
 * (too many requests wait), the function pauses, so that the caller can try again at once. If it
 * fails, `why` has the sentence. */
int client_await_name(const struct client_options *options, const char *name, unsigned int wait_ms,
		      char *why, size_t why_size);
/* The descriptor that came with the latest call's answer, close-on-exec; the caller owns it from
 * then on. -1: none came. The next call closes a descriptor that nobody took. */
int client_take_fd(struct client *client);

/*
 * Send `question` over the existing connection without waiting for its answer, which later calls
 * discard. Returns the request's id; 0: it was not sent. If the connection ends before the answer,
 * the resync must report the same change.
 */
uint32_t client_post(struct client *client, const request *question);

/* Fetches the registry's page of changes, unless this connection has fetched it. The registry may
 * have none. */
void client_fetch_changes(struct client *client);
bool client_has_asked_changes(const struct client *client);
/* The count of changes of `name` on that page. False: there is no page, or its registry has
 * ended. */
bool client_read_changes(const struct client *client, const char *name, uint64_t *out_count);
/* Does that page say that the deferred free of buffer `generation` has no attacher left? */
bool client_has_left(const struct client *client, uint64_t generation);
/* Answer a lookup from the index page, as the registry would, but without the address. False: ask
 * the registry, then call client_has_looked_up(), which fetches the page once that pays off. */
bool client_look_up(const struct client *client, const char *name, record *out_found);
void client_has_looked_up(struct client *client);

/* Returns E_NOT_READY for E_NO_REGISTRY if this client's previous registry left a state file, from
 * which the next one will know the client's buffers. Returns any other status unchanged. */
int client_await_next(const struct client *client, int status);

/* This process's pid, start time and pid namespace; 0 for what /proc doesn't say. */
void client_self(gpushare_Self *out_self);

/* autostart.c: start `gpushare-registry --dir DIRECTORY` detached. The program gets no SIGCHLD
 * and no child to reap; the registry inherits no fd of the program. The program's signal mask is
 * unchanged. `said`: the registry's standard error until the registry listens; -1: /dev/null. */
int autostart_registry(const char *directory, int said, char *why, size_t why_size);

#endif
