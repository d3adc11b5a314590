/* SPDX-License-Identifier: MIT */
#ifndef GPUSHARE_SHIM_API_SESSION_H
#define GPUSHARE_SHIM_API_SESSION_H
/* What the API's files share: sessions, buffers, and how they ask the registry. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <utlist.h>

#include "api_resync.h"
#include "core/api_status.h"
#include "api_turn.h"
#include "client/client.h"
#include "client/client.h"
#include "core/device.h"
#include "core/buffer/deferred.h"
#include "cuda/vmm_peers.h"

#define API_BLOCK ((uint64_t)2 << 20) /* what the driver maps at once: FACTS.md */

enum buffer_kind {
	BUFFER_SHARED,	  /* the caller's memory under a name */
	BUFFER_ALLOCATED, /* our memory under a name */
	BUFFER_ATTACHED,  /* another process's memory */
	BUFFER_OWN,	  /* this process's memory, attached by name */
};

/* As the caller asked for them; a registry that has lost the buffer is told again. */
struct api_rights {
	uint32_t mode; /* 0: none */
	char group[sizeof(((gpushare_Share *)0)->group)];
};

struct gpushare_buffer {
	struct gpushare_session *session;
	struct gpushare_buffer *prev, *next; /* the latest first */
	enum buffer_kind kind;
	unsigned int
	    count;	   /* attaches that wait for their detach, and that the registry knows of */
	unsigned int warm; /* those that it was not told of, besides */
	uint64_t change;   /* the name's count (protocol.h) when the registry named it */
	bool is_watched;   /* there is one */
	unsigned int users; /* open mirrors: the memory stays for them */
	bool owed;	    /* a detach that the registry hears of when the last of them goes */
	bool deferred;	    /* freed, and the registry says that others have it attached */
	bool committing;    /* a thread asks the registry to */
	uint64_t pointer;
	uint64_t opened;  /* BUFFER_ATTACHED: where the allocation begins here */
	uint64_t address; /* BUFFER_ATTACHED: where its owner has the buffer */
	bool lost;	  /* a registry's restart took the name: it is another's, or nobody's */
	struct vmm_mapping
	    mapping;	       /* where it came as a descriptor or was made for one; else size 0 */
	uint64_t elsewhere;    /* host_only, unified: where those have it who have CUDA */
	struct map_view *view; /* host_only: what copies go through; NULL: none was made yet */
	bool read_only, adopted, host_only;
	bool asked_read_only;	  /* attached so */
	struct api_rights rights; /* of what is shared */
	_Atomic bool passive;	  /* a stream that waits for it makes nobody a consumer */
	_Atomic(struct ordering *) ordering; /* NULL: none so far; see api_order.h */
	bool away;  /* mapped for another GPU than its own, which reaches it by peer access */
	int device; /* ordinal here */
	cu_context context;
	cu_ipc_mem_handle handle; /* of an event (api_event.h): what it was shared by */
	int64_t ask_ms;		  /* of one: before that the registry is not asked for its owner */
	struct gpushare_info info;
};

/* Pinned host memory and what moves it; lives in one context. */
struct staging {
	cu_context context; /* NULL: none */
	size_t size;	    /* bytes of each */
	void *host[2];
	cu_event done[2];
	cu_stream stream;
};

struct client_seen {
	unsigned int connections;
	bool connected;
};

struct gpushare_session {
	int pid;	      /* that opened it, for words */
	unsigned int process; /* the same */
	pthread_mutex_t lock; /* the rest; never held over a CUDA call or a question */
	struct turn asking;   /* client, changes, index: session_try_client() */
	struct client *client;
	int64_t taken_ms;	     /* when its client was taken; 0: for a look */
	struct client_seen seen;     /* the client as of its latest session_give_client() */
	unsigned int timeout_ms;     /* of a call, as it was opened */
	unsigned int driver_ms;	     /* the same of who is at the driver, which may be slow */
	const struct driver *driver; /* NULL until session_driver() */
	struct gpushare_buffer *buffers;
	struct resync resync;
	_Atomic int64_t silent_until_ms; /* after a registry that did not answer */
	struct staging staging;		 /* kept between transfers */
	struct devices devices;
	struct vmm_links links;
	struct deferred deferred;
	struct deferred events;		 /* the same for events */
	struct ordering *orderings;	 /* of its buffers; see api_order.h */
	bool ordering_busy;		 /* a thread tells of them again */
	struct gpushare_mirror *mirrors; /* that are open */
	struct pinned *spares;		 /* of closed mirrors, for the next */
	unsigned int tensors;		 /* DLPack's, that were not deleted yet */
	bool closed;			 /* when the last of those goes, the session does */
};

/* GPUSHARE_OK, E_INVALID or E_FORKED. */
int session_check(const struct gpushare_session *session);
int session_check_buffer(const struct gpushare_buffer *buffer);

/* It came from gpushare_attach(); else it is this session's, to be freed. */
static inline bool buffer_is_attached(const struct gpushare_buffer *buffer)
{
	return buffer->kind == BUFFER_ATTACHED || buffer->kind == BUFFER_OWN;
}

static inline bool buffer_is_event(const struct gpushare_buffer *buffer)
{
	return buffer->info.backing == GPUSHARE_BACKING_EVENT;
}

/* Also in a forked child: the struct and what this process has of it; nothing is told to anybody. */
void buffer_free(struct gpushare_buffer *buffer);

/* The driver, or NULL after api_fail(GPUSHARE_E_NO_DRIVER). A buffer's session has one. */
const struct driver *session_driver(struct gpushare_session *session);

static inline void session_lock(struct gpushare_session *session)
{
	pthread_mutex_lock(&session->lock);
}

/* When this thread's call has used up its time limit. session_waited() counts the time since `began_ms` against the
 * limit: a wait for the registry or for another thread that asks it. session_answered() begins the limit anew. */
int64_t session_deadline(const struct gpushare_session *session);
void session_waited(int64_t began_ms);
void session_answered(struct gpushare_session *session);
/* Take the client until session_give_client(); its time limit is what is left until then. The owner of the client may
 * take the session's lock, but nobody takes the client under the lock. False: another thread had it too long, as
 * session_fail_client() says. session_look_client() is for a look at what the client has, without a question: it reads
 * no clock. */
bool session_try_client(struct gpushare_session *session, int64_t until_ms);
bool session_look_client(struct gpushare_session *session);
int session_fail_client(const struct gpushare_session *session);
void session_give_client(struct gpushare_session *session);
/* client_call() by the owner of the client. It notes whether the registry is silent. session_is_heard(): the registry
 * answered lately, so a question that isn't needed may be asked. */
int session_call(struct gpushare_session *session);
bool session_is_heard(const struct gpushare_session *session);
/* Ask the registry. `body` is the wanted gpushare_Reply_*_tag with its struct copied to `out_body`,
 * or 0. */
int session_ask(struct gpushare_session *session, const request *ask, pb_size_t body,
		void *out_body, size_t body_size);
/* And note how many readings there had been, for resync_check(). */
int session_ask_noting(struct gpushare_session *session, const request *ask, pb_size_t body,
		       void *out_body, size_t body_size, unsigned int *out_readings);
/* And with a descriptor beside it, which stays the caller's (-1: none); one that comes back is the caller's, too, in
 * *out_fd, close-on-exec, or -1. `out_fd` may be NULL. */
int session_ask_passing(struct gpushare_session *session, const request *ask, pb_size_t body,
			void *out_body, size_t body_size, unsigned int *out_readings, int fd,
			int *out_fd);
/* How many connections it has made. */
unsigned int session_connections(struct gpushare_session *session);
/* The same in silence, and to a registry that is there: for giving things back. */
void session_tell(struct gpushare_session *session, const request *tell);
/* It is on no list any more, since there were so many readings. */
void session_tell_detach(struct gpushare_session *session, const struct gpushare_info *info,
			 unsigned int readings);
void session_tell_withdraw(struct gpushare_session *session, const struct gpushare_info *info);

/* Shared or attached when there were so many readings. */
void session_add(struct gpushare_session *session, struct gpushare_buffer *buffer,
		 unsigned int readings);
enum release {
	RELEASE_WARM,	 /* it stays, and the registry was not told of that one */
	RELEASE_COUNTED, /* it stays */
	RELEASE_LAST,	 /* it is off the session's list, to be ended now */
	RELEASE_HELD,	 /* the last session_unuse() ends it, and tells of the detach */
};
/* Count down; what that was. */
enum release session_release(struct gpushare_session *session, struct gpushare_buffer *buffer,
			     unsigned int *out_readings);
/* Keep the memory where it is, whatever is detached and freed meanwhile. */
void session_use(struct gpushare_buffer *buffer);
/* What ending it answers, where that was the last. */
int session_unuse(struct gpushare_buffer *buffer);
/* api_dlpack.c: true, and the last tensor's end closes the session, if there are any. */
bool dlpack_holds(struct gpushare_session *session);

/* What the registry answered to an attach: the caller closes `fd`, of what travels so; else -1. `readings`: as
 * session_ask_noting() says. */
struct attach_answer {
	gpushare_AttachReply reply;
	int fd;
	unsigned int readings;
};

/* api_mapping.c: the CUDA side of an attachment; the struct stays. */
int mapping_open(struct gpushare_buffer *buffer, const struct attach_answer *answer,
		 const struct gpushare_attach_options *options);
/* The same without CUDA: its descriptor, and no address. */
int mapping_open_host(struct gpushare_buffer *buffer, const struct attach_answer *answer);
/* Map a descriptor's memory for a buffer whose device is known and whose context is current. */
int mapping_place(struct gpushare_buffer *buffer, const record *from, int fd,
		  const struct vmm_wish *wish);
int mapping_own(struct gpushare_buffer *buffer, uint64_t address);
int mapping_close(const struct gpushare_buffer *buffer);

/* api_share.c: the buffer's record, as it is to be entered; what gpushare_free() does. */
void share_describe(const struct gpushare_buffer *buffer, gpushare_Share *share);
/* Rights that nobody asked for are those of its record, should that have to be told. */
void share_keep_rights(struct gpushare_buffer *buffer);
int session_end_shared(struct gpushare_buffer *buffer);

/* api_attach_wait.c: attach at the registry, what may not be there yet. api_attach.c: what gpushare_detach()
 * does. */
enum attach_kind { ATTACH_MEMORY, ATTACH_READ_ONLY, ATTACH_EVENT };
int attach_register(struct gpushare_session *session, const char *name, uint32_t wait_ms,
		    enum attach_kind kind, struct attach_answer *out_answer);
int session_end_attached(struct gpushare_buffer *buffer);
/* What the registry has counted: attached here already as `options` ask, or made by `by`, which is not on the
 * session's list so far. */
typedef int attach_make(struct gpushare_session *session, const struct attach_answer *answer,
			const void *how, struct gpushare_buffer **out_buffer);
int attach_answered(struct gpushare_session *session, const struct attach_answer *answer,
		    const struct gpushare_attach_options *options, attach_make *by, const void *how,
		    struct gpushare_buffer **out_buffer);

/* api_alloc.c: free what gpushare_alloc() made; the struct stays. The first of what is no vmm buffer. */
int alloc_free(const struct driver *driver, cu_context context, uint64_t pointer);
int share_release(const struct gpushare_buffer *buffer);

/* api_deferred.c: memory that others have attached, and that is freed. */
void session_deferred_init(struct gpushare_session *session);
/* Free what nobody has attached any more; or all of it: true if there was any. */
void session_deferred_sweep(struct gpushare_session *session);
bool session_deferred_empty(struct gpushare_session *session);
void session_deferred_empty_events(struct gpushare_session *session);
/* Forget all of it. */
void session_deferred_finish(struct gpushare_session *session);
/* The buffer's name goes. True: others have its memory, which is to be held for them. */
bool session_deferred_leave(struct gpushare_session *session, const struct gpushare_buffer *buffer);
/* Hold it from now on. False: it is to be freed. */
bool session_deferred_put(struct gpushare_session *session, const struct gpushare_buffer *buffer);

/* api_transfer.c: what can be said of a range and of writing to it; one copy by the GPU, of which
 * one of `to` and `from` says the way, and which is there when this returns. */
int transfer_check(const struct gpushare_buffer *buffer, size_t offset, size_t length, bool write);
int transfer_dma(const struct gpushare_buffer *buffer, size_t offset, void *to, const void *from,
		 size_t length);
void staging_finish(struct staging *staging, const struct driver *driver);

/* api_mirror.c: drop what is open, and free the structs of a session that is not this process's. */
void mirror_drop_all(struct gpushare_session *session);
void mirror_forget_all(struct gpushare_session *session);

/* api_tags.c: how many there are. */
uint32_t tags_read(const record *from, struct gpushare_tag out_tags[GPUSHARE_TAGS_MAX]);

/* api_query.c */
void query_info(const record *from, struct gpushare_info *to);
int query_isolated(const struct gpushare_info *info);

#endif
