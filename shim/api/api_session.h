/* SPDX-License-Identifier: MIT */
#ifndef GPUSHARE_SHIM_API_SESSION_H
#define GPUSHARE_SHIM_API_SESSION_H
/* Shared by the API's files: sessions, buffers, and requests to the registry. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <utlist.h>

#include "core/api_status.h"
#include "client/client.h"
#include "core/device.h"
#include "core/buffer/deferred.h"
#include "core/buffer/resync.h"
#include "cuda/vmm.h"

/* API_TEXTS() defines a public function that returns the text of a value from one of the lists in
 * gpushare.h. */
#define API_TEXT(name, value, text) \
	case value: \
		return text;
#define API_TEXTS(function, type, parameter, LIST) \
	API_PUBLIC const char *function(type parameter) \
	{ \
		switch ((int)(parameter)) { \
			LIST(API_TEXT) \
		} \
		return "unknown"; \
	}

enum buffer_kind {
	BUFFER_SHARED,	  /* the caller's memory under a name */
	BUFFER_ALLOCATED, /* our memory under a name */
	BUFFER_ATTACHED,  /* another process's memory */
	BUFFER_OWN,	  /* this process's memory, attached by name */
};

/* The access rights that the caller asked for. They are kept to share the buffer again with a
 * registry that has lost it. */
struct api_rights {
	uint32_t mode; /* 0: not asked for */
	char group[sizeof(((gpushare_Share *)0)->group)];
};

struct gpushare_buffer {
	struct gpushare_session *session;
	struct gpushare_buffer *prev, *next; /* in session->buffers, the newest first */
	enum buffer_kind kind;
	/* Open attaches that the registry has counted; 1 if the buffer is shared or allocated
	 * here. */
	unsigned int count;
	unsigned int warm; /* open attaches that the registry has not counted */
	/* The name's count in struct changes_page, read before the registry answered. */
	uint64_t change;
	bool is_watched;    /* `change` is valid */
	unsigned int users; /* open mirrors and tensors: they keep the memory */
	bool owed;	    /* a detach to report; the last session_unuse() does */
	/* Freed while other processes have it attached, or may have: the memory is kept. */
	bool deferred;
	/* For a part made by gpushare_share_parts(): the buffer that contains it. The part ends
	 * with that buffer. NULL: this is no part. */
	const struct gpushare_buffer *whole;
	bool has_parts; /* some buffer may have this one as its `whole` */
	uint64_t pointer;
	uint64_t address; /* BUFFER_ATTACHED: the buffer's address in its owner's process */
	/* Freed, or not shared again after a registry's restart: resync leaves it out. */
	bool lost;
	/* Set only for memory that was mapped from a descriptor, or that can be exported as one;
	 * else mapping.size is 0. If host_only, only mapping.held is set. */
	struct vmm_mapping mapping;
	struct map_view *view; /* host_only: the mapping for copies; NULL until the first copy */
	bool read_only, adopted, host_only;
	bool asked_read_only;		     /* the attach asked for read_only */
	bool staged;			     /* shared as staged and not committed so far */
	unsigned int committing;	     /* threads in gpushare_commit() */
	struct api_rights rights;	     /* if the buffer is shared or allocated here */
	_Atomic bool passive;		     /* acquiring it doesn't make this process a consumer */
	_Atomic(struct ordering *) ordering; /* NULL until first used; see api_order.h */
	/* Mapped for a GPU that doesn't hold the memory and reaches it by peer access. */
	bool away;
	int device; /* CUDA ordinal in this process; -1: host_only */
	cu_context context;
	cu_ipc_mem_handle handle; /* the CUDA IPC handle by which it is shared here */
	/* For an event that is not watched: earliest time to ask the registry about its owner. */
	int64_t ask_ms;
	struct gpushare_info info;
};

/* Two pinned host buffers with the events and the stream for copies, all in one context. */
struct staging {
	cu_context context; /* NULL: the struct is empty */
	size_t size;	    /* bytes of each host buffer */
	void *host[2];
	cu_event done[2];
	cu_stream stream;
};

struct client_seen {
	unsigned int connections;
	bool connected;
	bool pending; /* resync_is_pending(); set only by see_reports() */
};

struct gpushare_session {
	int pid;	      /* process that opened it, for messages */
	unsigned int process; /* fork_check_number() of that process */
	/* Guards what follows, except what `asking` guards. Never held during a CUDA call or a
	 * registry request. */
	pthread_mutex_t lock;
	/* Guards `client` with its two mapped pages (index, changes), and `taken_ms`. Taken by
	 * session_try_client() and session_look_client(). */
	pthread_mutex_t asking;
	struct client *client;
	int64_t taken_ms;	 /* when the client was taken; 0: taken by session_look_client() */
	struct client_seen seen; /* the client's state at the latest session_give_client() */
	unsigned int timeout_ms; /* limit of a call, set by gpushare_open() */
	/* Limit for a wait on a thread that is in a driver call, which may be slow. */
	unsigned int driver_ms;
	const struct driver *driver; /* NULL until session_driver() */
	struct gpushare_buffer *buffers;
	/* Incremented when an attached buffer is added to `buffers`, and when a buffer there gets a
	 * new generation. */
	uint64_t attached;
	struct resync resync;
	/* The registry did not answer: until this time, skip requests that aren't needed. */
	_Atomic int64_t silent_until_ms;
	struct staging staging; /* kept from one transfer to the next */
	struct devices devices;
	struct vmm_links links;
	struct deferred deferred;
	struct deferred events;		 /* deferred frees of events */
	struct ordering *orderings;	 /* of the session's buffers; see api_order.h */
	bool ordering_busy;		 /* a thread is in session_order_again() */
	struct gpushare_mirror *mirrors; /* open mirrors */
	struct gpushare_mirror *spares;	 /* ended mirrors, whose pinned memory is for reuse */
	unsigned int tensors;		 /* DLPack tensors whose deleter has not run */
	/* gpushare_close() was called while tensors were left: the end of the last one closes the
	 * session. */
	bool closed;
};

/* GPUSHARE_OK, E_INVALID or E_FORKED. */
int session_check(const struct gpushare_session *session);
int session_check_buffer(const struct gpushare_buffer *buffer);
/* The same, and check the name, or the pattern (NULL: no pattern). */
int session_check_name(const struct gpushare_session *session, const char *name);
int session_check_glob(const struct gpushare_session *session, const char *glob);

/* True: the buffer was attached, and a detach ends it. False: this session shared or allocated it,
 * and a free ends it. */
static inline bool buffer_is_attached(const struct gpushare_buffer *buffer)
{
	return buffer->kind == BUFFER_ATTACHED || buffer->kind == BUFFER_OWN;
}

/* Whether that status means that no registry answered. */
static inline bool status_is_unheard(int status)
{
	return status == GPUSHARE_E_NO_REGISTRY || status == GPUSHARE_E_TIMED_OUT;
}

static inline bool buffer_is_event(const struct gpushare_buffer *buffer)
{
	return buffer->info.backing == GPUSHARE_BACKING_EVENT;
}

/* The address in this process at which the buffer's allocation begins. */
static inline uint64_t buffer_base(const struct gpushare_buffer *buffer)
{
	return buffer->pointer - buffer->info.base_offset;
}

/* Free the struct and what this process keeps for the buffer, without telling the registry. Allowed
 * in a forked child. */
void buffer_free(struct gpushare_buffer *buffer);

/* Return the driver, or NULL after api_fail(GPUSHARE_E_NO_DRIVER). Once the session has a buffer
 * that is not host_only, session->driver is set. */
const struct driver *session_driver(struct gpushare_session *session);

/* session_deadline(): when this thread's call has used up its time limit. session_waited(): count
 * the time since `began_ms` against the limit; for waits on the registry, or on another thread's
 * request. */
int64_t session_deadline(const struct gpushare_session *session);
void session_waited(int64_t began_ms);
/* session_try_client(): take the client for a request, until session_give_client(). The client's
 * own time limit becomes what is left until `until_ms`. False: another thread kept the client too
 * long; session_fail_client() sets that error. session_look_client(): take the client only to read
 * its data; if it is free, this reads no clock. A thread that has taken the client may take the
 * session's lock, but a thread that holds the lock must not take the client. */
bool session_try_client(struct gpushare_session *session, int64_t until_ms);
bool session_look_client(struct gpushare_session *session);
int session_fail_client(const struct gpushare_session *session);
void session_give_client(struct gpushare_session *session);
/* The expected body of an answer: gpushare_Reply_TAG_tag, to be copied to *out. Tag 0: none. */
struct session_body {
	pb_size_t tag;
	void *out;
	size_t size;
};
#define BODY(name, out) \
	(struct session_body) \
	{ \
		gpushare_Reply_##name##_tag, out, sizeof(*(out)) \
	}
#define NO_BODY \
	(struct session_body) \
	{ \
		0 \
	}
/* What session_ask_passing() returns about an answer, besides its body. */
struct session_answer {
	int status;
	int fd; /* with status OK: its descriptor, close-on-exec, the caller's to close; -1: none */
	unsigned int readings; /* resync_readings() as of the answer, for resync_check() */
	/* The registry may have answered before the session shared its buffers with it again, so an
	 * E_NOT_FOUND is not final. */
	bool early;
};
/* Send a request to the registry. session_ask_passing() also sends descriptor `fd` (-1: none),
 * which stays the caller's. If the registry was restarted, and may have answered too early, the
 * request is sent once more. */
int session_ask(struct gpushare_session *session, const request *ask, struct session_body body);
int session_ask_passing(struct gpushare_session *session, const request *ask,
			struct session_body body, int fd, struct session_answer *out_answer);
/* Copy the body of an answer that is no refusal, as session_ask() does. E_PROTOCOL: the answer has
 * another body. */
int session_read_answer(const struct gpushare_session *session, const reply *answer,
			struct session_body body);

/*
 * api_many.c: requests 0, 1 and so on. Each is made as by session_ask_passing(), but sent ahead of
 * the answers to earlier ones. Neither the client nor a lock is held during make() and take().
 */
struct session_many {
	struct session_body body;
	/* Write the request, perhaps a second time if it was not answered. False: none is
	 * needed. */
	bool (*make)(void *user, size_t index, request *out_request);
	/* Take an answer, in the order of the requests. After take() has returned another status
	 * than OK, no request is sent, but take() still gets the answers to requests that were
	 * sent. OK for a refusal means that take() has waited for the name. The answers to later
	 * requests are then out of date, and these requests are sent again. If the request was sent
	 * ahead, answer->readings was read before it was sent. */
	int (*take)(void *user, size_t index, const struct session_answer *answer);
	void *user;
};
/* Returns take()'s first status that is not OK, with its sentence. */
int session_ask_many(struct gpushare_session *session, const struct session_many *many,
		     size_t count);
/* How many connections the client had made at the latest session_give_client(). */
unsigned int session_connections(struct gpushare_session *session);
/* Send a request that gives something back, such as a detach. If the connection has ended, send it
 * to the next registry, which may know the names; start a registry only if it would know them. If
 * the registry did not answer lately, send nothing: a later resync reports the change. Sets no
 * error sentence. session_tell_of() also returns client_await_next()'s status, and copies the
 * answer's body as session_ask() does. `readings`: as for session_tell_detach(); NULL: none. */
int session_tell_of(struct gpushare_session *session, const request *tell,
		    const unsigned int *readings, struct session_body body);
void session_tell(struct gpushare_session *session, const request *tell);
/* Tell the registry of a detach. `readings`, for resync_check(): resync_readings() when the attach
 * was counted down. For an attach that failed after the registry's answer: as of that answer. */
void session_tell_detach(struct gpushare_session *session, const char *name, uint64_t generation,
			 unsigned int readings);
void session_tell_withdraw(struct gpushare_session *session, const struct gpushare_info *info);

/* Add the buffer to the session. `readings`: resync_readings() as of the registry's answer. */
void session_add(struct gpushare_session *session, struct gpushare_buffer *buffer,
		 unsigned int readings);
enum release {
	RELEASE_WARM,	 /* the buffer stays; the registry has not counted this attach */
	RELEASE_COUNTED, /* the buffer stays */
	RELEASE_LAST,	 /* the buffer is off the session's list; the caller ends it */
	RELEASE_HELD,	 /* in use: the last session_unuse() ends it and reports the detach */
};
/* End one attach, or the share; return what that did. If it was the last one, end the process's
 * roles (api_order.h), too. *out_readings is resync_readings() as of then. */
enum release session_release(struct gpushare_session *session, struct gpushare_buffer *buffer,
			     unsigned int *out_readings);
/* Keep the memory in place until session_unuse(), even if the buffer is detached or freed
 * meanwhile. */
void session_use(struct gpushare_buffer *buffer);
/* Return the status of ending the buffer, if this was its last use; else OK. */
int session_unuse(struct gpushare_buffer *buffer);
/* api_dlpack.c: true if DLPack tensors are left; the end of the last one then closes the
 * session. */
bool dlpack_holds(struct gpushare_session *session);

/* The registry's answer to an attach. */
struct attach_answer {
	gpushare_AttachReply reply;
	struct session_answer got;
};

/* api_mapping.c. mapping_open(): open an attachment in CUDA. mapping_close(): close the attachment,
 * or free memory that the session has allocated; the struct stays. */
int mapping_open(struct gpushare_buffer *buffer, const struct attach_answer *answer,
		 const struct gpushare_attach_options *options);
/* Open an attachment without CUDA: the buffer gets the descriptor, and no address. */
int mapping_open_host(struct gpushare_buffer *buffer, const struct attach_answer *answer);
/* Map a descriptor's memory for a buffer whose device is known and whose context is current. */
int mapping_place(struct gpushare_buffer *buffer, const record *from, int fd,
		  const struct vmm_wish *wish);
int mapping_own(struct gpushare_buffer *buffer, uint64_t address);
int mapping_close(const struct gpushare_buffer *buffer);
/* Return the status, and set the sentence, for an IPC handle that CUDA does not open. */
int mapping_refused(const struct driver *driver, cu_result result, const record *from);

/* api_share.c. share_check(): check a caller's arguments. */
int share_check(const struct gpushare_session *session, const char *name, size_t size,
		struct gpushare_buffer *const *out_buffer);
/* Make a buffer of this process, after checking `mode` and `group` (may be NULL). The caller sets
 * device and context, `pointer`, `staged`, and size, flags and ttl_s in `info`. */
int share_new(struct gpushare_session *session, const char *name, enum buffer_kind kind,
	      uint32_t mode, const char *group, struct gpushare_buffer **out_buffer);
/* Export the memory at buffer->pointer: set buffer->handle, or *out_fd for cuMemCreate memory. Also
 * sets backing, device_uuid, base_offset and base_size in buffer->info. */
int share_export(struct gpushare_buffer *buffer, int *out_fd);
/* Share an exported buffer and add it to its session. `fd`: for a backing that has a descriptor. */
int share_enter(struct gpushare_buffer *buffer, int fd);
/* Write the buffer's record into a Share request. */
void share_describe(const struct gpushare_buffer *buffer, gpushare_Share *share);
/* For sharing the buffer again: take the rights that the caller did not ask for from its record. */
void share_keep_rights(struct gpushare_buffer *buffer);
/* The work of gpushare_free(). */
int session_end_shared(struct gpushare_buffer *buffer);

/* Map the memory, or open the event, that the registry's answer describes. The caller has set
 * session, count and info of the buffer, and puts the buffer on the session's list. */
typedef int attach_make(struct gpushare_buffer *buffer, const struct attach_answer *answer,
			const void *options);
enum attach_kind { ATTACH_MEMORY, ATTACH_READ_ONLY, ATTACH_EVENT };
/* How to attach some names. */
struct attach_way {
	enum attach_kind kind;
	const struct gpushare_attach_options *options;
	attach_make *make;
	const void *make_options;
	uint32_t wait_ms; /* how long to wait for missing names, all together; 0: don't wait */
};

/* api_attach.c: attach all of the names, or none. If the session has already attached a name with
 * the same way->options, count that buffer once more. Otherwise way->make() makes it. */
int attach_all(struct gpushare_session *session, const char *const *names, size_t count,
	       const struct attach_way *way, struct gpushare_buffer **out_buffers);
/* The work of gpushare_detach(). */
int session_end_attached(struct gpushare_buffer *buffer);

/* api_alloc.c: free memory of cuMemAlloc. */
int alloc_free(const struct driver *driver, cu_context context, uint64_t pointer);

/* api_deferred.c: memory that is freed while other processes have it attached. */
void session_deferred_init(struct gpushare_session *session);
/* session_deferred_sweep(): free what no process has attached any more. session_deferred_empty():
 * free all deferred memory, even if it is attached; if `events`, end the deferred events, too.
 * True: there was memory. */
void session_deferred_sweep(struct gpushare_session *session);
bool session_deferred_empty(struct gpushare_session *session, bool events);
/* Drop the lists without freeing the memory. */
void session_deferred_finish(struct gpushare_session *session);
/* Withdraw the buffer's name. True: other processes have the memory attached, or may have, so it
 * must be kept for them. */
bool session_deferred_leave(struct gpushare_session *session, const struct gpushare_buffer *buffer);
/* Keep the buffer's memory from now on. False: it can't be kept, and the caller frees it. */
bool session_deferred_put(struct gpushare_session *session, const struct gpushare_buffer *buffer);

/* api_transfer.c. transfer_check(): check a range of the buffer; if `write`, check that writing is
 * allowed. transfer_check_access(): the same for GPUSHARE_READ, GPUSHARE_WRITE or both.
 * transfer_dma(): copy by the GPU from the buffer to `to`; if `to` is NULL, from `from` to the
 * buffer. The copy is complete when it returns. */
int transfer_check(const struct gpushare_buffer *buffer, size_t offset, size_t length, bool write);
int transfer_check_access(const struct gpushare_buffer *buffer, size_t offset, size_t length,
			  unsigned int access);
int transfer_dma(const struct gpushare_buffer *buffer, size_t offset, void *to, const void *from,
		 size_t length);
/* Set the sentence for a callback that ended a copy; returns E_CANCELLED. */
int transfer_cancelled(const struct gpushare_buffer *buffer, const char *verb, size_t done,
		       size_t length);
void staging_finish(struct staging *staging, const struct driver *driver);

/* api_map.c: a user of the view ends. */
void map_view_close(struct map_view *view);
/* The copies of api_transfer.c for a host_only buffer, with checked arguments. One of `to` and
 * `from`, and one of `sink` and `source`, is set. */
int map_copy(struct gpushare_buffer *buffer, size_t offset, void *to, const void *from,
	     size_t length);
int map_stream(struct gpushare_buffer *buffer, size_t offset, size_t length,
	       int (*sink)(const void *data, size_t size, void *user),
	       int (*source)(void *data, size_t size, void *user), void *user);
/* Copy by the CPU if the buffer is mapped in this process. False, without a copy: it is not mapped,
 * is unified, or the GPU copies that length faster. */
bool map_copy_small(const struct gpushare_buffer *buffer, size_t offset, void *to, const void *from,
		    size_t length);

/* api_mirror.c. mirror_drop_all(): drop all open mirrors. mirror_forget_all(): only free the
 * structs, for a session of the parent process. */
void mirror_drop_all(struct gpushare_session *session);
void mirror_forget_all(struct gpushare_session *session);

/* api_parts.c: end the buffer's parts of gpushare_share_parts(). */
void parts_end(struct gpushare_buffer *whole);

/* api_query.c: write tags into a request. E_INVALID: a key or value doesn't end within its
 * array. */
int tags_write(const char *name, const struct gpushare_tag *tags, size_t count,
	       gpushare_Tag out_tags[GPUSHARE_TAGS_MAX], pb_size_t *out_count);

#endif
