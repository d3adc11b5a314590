/* SPDX-License-Identifier: MIT */
#ifndef GPUSHARE_SHIM_CLIENT_H
#define GPUSHARE_SHIM_CLIENT_H
/*
 * The registry client: plain blocking calls with a deadline over one socket, no thread, no nng.
 * Used by the shim and by the API. One client serves one caller at a time: callers lock.
 */
#include "protocol.h"

#define CLIENT_TRIES 5	  /* with a registry that closes the connection under it */
#define CLIENT_ENDINGS 20 /* ...or one after the other ends under one request */

struct client_options {
	const char *directory;	 /* NULL: see directory_find() */
	const char *who;	 /* "shim" or "api", for the registry's log */
	unsigned int timeout_ms; /* 0: $GPUSHARE_TIMEOUT_MS or 1000 */
	bool autostart;		 /* and $GPUSHARE_AUTOSTART isn't 0 */
	bool
	    shares_late; /* a Share that is answered too late stands, until a Resync says otherwise */
};

/*
 * How the client's owner tells a registry anew what it has: client_call() calls it before a request
 * that goes over another connection than the one before, and again until `client->fresh` is false.
 * It asks by client_ask_aside(), by the deadline. Anything but OK: the request is not sent.
 */
struct client;
typedef int client_resync(struct client *client, void *owner, int64_t deadline_ms);

/* With the proof that the fd is still ours. */
struct client_socket {
	int fd;
	unsigned long long device, inode;
};

/* A request whose caller has given up: client_late.c. */
struct client_late {
	pb_size_t verb; /* 0: none is late */
	bool stands;	/* what it did is not to be undone */
	bool adopts;
	char name[GPUSHARE_NAME_MAX + 1];
	uint32_t id;		     /* 0: the answer comes by `socket` */
	struct client_socket socket; /* to fds.sock */
};

/* Memory of the registry's, mapped for reading. It belongs to the connection: the answers that came over that stand
 * as the pages say. */
struct client_pages {
	const struct changes_page *changes; /* NULL: none */
	const struct index_page *index;	    /* index.h */
	bool has_asked_changes, has_asked_index;
	unsigned int lookups; /* over the socket so far */
};

struct client {
	struct client_socket socket; /* its fd is -1: not connected */
	unsigned int process;	     /* fork_check_number() of who connected */
	int server;		     /* the registry's, as seen from here; 0: not visible */
	uint32_t next_id;
	unsigned int timeout_ms;
	bool autostart;
	bool giving_back; /* so no registry is started but one that would know what is given back */
	bool shares_late;
	bool greeted, ready; /* by this connection's registry; and it has answered the hello */
	uint32_t hello;	     /* its id; 0: not said so far */
	uint8_t *out,
	    *in; /* of GPUSHARE_MESSAGE_MAX bytes: still to be written, and read in advance */
	size_t out_size, in_size;
	unsigned int unanswered; /* answers that are to come, whoever waits for them */
	uint32_t ahead;		 /* the id of the request for a list's next page; 0: none */
	gpushare_List ahead_of;	 /* that page */
	struct client_late late;
	struct client_pages pages;
	unsigned int
	    outlived; /* the connection (`connections`) that outlived the wait for its end */
	bool asked;   /* the latest call's request was sent to somebody, answered or not */
	struct directory_trust trust; /* of the directory: who is to answer there */
	bool fresh;		      /* the registry is to be told of all that the owner has */
	bool anew;		      /* ...once more, when it has been told of it */
	bool told, told_anew; /* behind this question: some of that, and from its beginning on */
	bool begins;	      /* the next part is the first */
	unsigned int connections; /* made so far */
	uint8_t session_key[16];  /* the latest one's, to resume by; all zero: none */
	uint32_t connection;	  /* the registry's number of it */
	client_resync *resync;
	void *owner;
	struct client *next_ended; /* client_ended.c */
	char who[64];
	char directory[GPUSHARE_PATH_MAX];
	char why[512]; /* the sentence behind the last failure */
	request request;
	request aside; /* of the owner's resyncing, while `request` waits */
	request own;   /* the client's: a hello, or what undoes something */
	reply reply;
	int events;	/* an epoll instance that has the socket; -1: none */
	int dial_error; /* errno of the latest try to connect; 0: it did */
	int goes; /* a descriptor that goes with `request`, and stays the caller's; -1: none */
	int came; /* one that came with `reply`; -1: none. See client_take_fd(). */
	bool attached_by_fds; /* so did the latest Attach's */
};

/* $GPUSHARE_TIMEOUT_MS where it is a whole number of 1 to 3600000, else 1000. */
unsigned int client_default_timeout_ms(void);

/* Heap-allocated and unconnected; the first call connects. NULL: out of memory. */
struct client *client_new(const struct client_options *options);
/* Closes (without a word: the registry sees the connection go) and frees. NULL is allowed. Returns NULL. */
struct client *client_free(struct client *client);

void client_resync_by(struct client *client, client_resync *resync, void *owner);
/* All is told from its beginning on; that was its end. What has changed in between where it was told already
 * has all told once more. */
void client_begin_resyncing(struct client *client);
void client_end_resyncing(struct client *client);
void client_tell_anew(struct client *client);
/* Send client->aside, a part of that, receive into client->reply. The answer's status, or the transport's. */
int client_ask_aside(struct client *client, int64_t deadline_ms);
/* For the last part of a Resync, which has room: whose free the waiting request defers, and is
 * told of by nobody else any more, stands until then. */
void client_tell_rest(const struct client *client, gpushare_Resync *part);

/* Connect, starting a registry where none runs, and say hello. OK when connected already. */
int client_connect(struct client *client);
/* Does the connection stand, with a registry that has answered over it? Without a word, and without a wait. */
bool client_stands(const struct client *client);
/* The latest call's failure is the transport's: no registry, or it has not answered in time. */
bool client_is_silent(const struct client *client);
/* Where none stands: is there a registry to connect to? It never waits, and what it begins client_connect()
 * goes on with. OK: one runs, as it has greeted us. E_TIMED_OUT: one listens and has not greeted so far.
 * E_NO_REGISTRY, E_NOT_READY (client_await_next()): none listens. */
int client_probe(struct client *client);
/* Drop the connection; in a forked child too, where only the inherited fds are closed. */
void client_disconnect(struct client *client);

/*
 * Send client->request, receive into client->reply, within timeout_ms + extra_ms altogether.
 * Connects first where needed, and where the registry has ended meanwhile asks the one that came
 * after it, and so on; the same one CLIENT_TRIES at most. Returns the reply's own status, or a transport status
 * (E_NO_REGISTRY, E_TIMED_OUT, E_PROTOCOL, E_FORKED); client->why has the sentence either way.
 * What a file descriptor goes with, client->goes or one that comes back, is asked at fds.sock; client->goes is -1
 * afterwards.
 * A registry that is only slow keeps the connection: the next call first takes the late answer.
 */
int client_call(struct client *client, unsigned int extra_ms);
/* What came with the answer of the latest call, close-on-exec, is the caller's from here on; -1: nothing did. What
 * nobody takes the next call closes. */
int client_take_fd(struct client *client);

/*
 * Send `question` over the connection that stands, without a wait for its answer, which later calls skip. Returns
 * its id; 0: it is not sent. Where the connection ends before it is answered, the resyncing must say the same.
 */
uint32_t client_post(struct client *client, const request *question);

/* Asks for the page of changes, once a connection; there may be none. */
void client_fetch_changes(struct client *client);
bool client_has_asked_changes(const struct client *client);
/* The name's count there; false: there is no page, or its registry has ended. */
bool client_read_changes(const struct client *client, const char *name, uint64_t *out_count);
/* Does the page say that nobody has that generation attached any more, whose free is deferred? */
bool client_has_left(const struct client *client, uint64_t generation);
/* What the registry would answer to a lookup now, but for an address. False: ask it, and then say so by
 * client_has_looked_up(), which fetches the index when that has become worth it. */
bool client_look_up(const struct client *client, const char *name, record *out_found);
void client_has_looked_up(struct client *client);

/* Of a call's status: E_NOT_READY in place of E_NO_REGISTRY where the one that ran left what a next one
 * would know of this client's buffers by. */
int client_await_next(const struct client *client, int status);

/* This process, as the kernel would tell of it; zeros where /proc doesn't say. */
void client_self(gpushare_Self *out_self);

/* autostart.c: start `gpushare-registry --dir DIRECTORY` detached: no SIGCHLD, nothing that the
 * program could reap, none of its fds, its signal mask as it was. `said` is its standard error until it
 * listens; -1: /dev/null. */
int autostart_registry(const char *directory, int said, char *why, size_t why_size);

#endif
