/* SPDX-License-Identifier: MIT */
#ifndef GPUSHARE_SHIM_API_SESSION_H
#define GPUSHARE_SHIM_API_SESSION_H
/* What the API's files share: sessions, buffers, and how they ask the registry. */
#include <pthread.h>
#include <stdbool.h>

#include "api_status.h"
#include "client.h"
#include "device.h"
#include "vmm.h"

#define API_BLOCK ((uint64_t)2 << 20) /* what the driver maps at once: FACTS.md */

enum buffer_kind {
	BUFFER_SHARED,	  /* the caller's memory under a name */
	BUFFER_ALLOCATED, /* our memory under a name */
	BUFFER_ATTACHED,  /* another process's memory */
	BUFFER_OWN,	  /* this process's memory, attached by name */
};

struct gpushare_buffer {
	struct gpushare_session *session;
	struct gpushare_buffer *next;
	enum buffer_kind kind;
	unsigned int count; /* attaches that wait for their detach */
	unsigned int users; /* open mirrors and maps: the memory stays for them */
	bool owed;	    /* a detach that the registry hears of when the last of them goes */
	uint64_t pointer;
	uint64_t opened; /* BUFFER_ATTACHED: where the allocation begins here */
	struct vmm_mapping
	    mapping;	       /* where it came as a descriptor or was made for one; else size 0 */
	int fd;		       /* what came as a descriptor has it still, to be mapped: else -1 */
	uint64_t elsewhere;    /* host_only, unified: where those have it who have CUDA */
	struct map_view *view; /* host_only: what copies go through; NULL: none was made yet */
	bool read_only, adopted, host_only;
	int device; /* ordinal here */
	cu_context context;
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

struct gpushare_session {
	int pid;	      /* that opened it */
	pthread_mutex_t lock; /* client, buffers, staging; never held over a CUDA call */
	struct client *client;
	const struct driver *driver; /* NULL until session_driver() */
	struct gpushare_buffer *buffers;
	struct staging staging; /* kept between transfers */
	struct devices devices;
	struct gpushare_mirror *mirrors; /* that are open */
	struct pinned *spares;		 /* of closed mirrors, for the next */
};

/* GPUSHARE_OK, E_INVALID or E_FORKED. */
int session_check(const struct gpushare_session *session);
int session_check_buffer(const struct gpushare_buffer *buffer);

/* Also in a forked child: the struct and what this process has of it; nothing is told to anybody. */
void buffer_free(struct gpushare_buffer *buffer);

/* The driver, or NULL after api_fail(GPUSHARE_E_NO_DRIVER). A buffer's session has one. */
const struct driver *session_driver(struct gpushare_session *session);

/* Ask the registry. `body` is the wanted gpushare_Reply_*_tag with its struct copied to `out_body`,
 * or 0. */
int session_ask(struct gpushare_session *session, const request *ask, pb_size_t body,
		void *out_body, size_t body_size);
/* The same in silence and to an open connection only: for giving things back. */
void session_tell(struct gpushare_session *session, const request *tell);
void session_tell_detach(struct gpushare_session *session, const struct gpushare_info *info);
void session_tell_withdraw(struct gpushare_session *session, const struct gpushare_info *info);

/* api_fds.c: leave a descriptor at the registry for a ticket, and fetch one for a ticket. */
int session_deposit(struct gpushare_session *session, int fd,
		    uint8_t out_ticket[GPUSHARE_TICKET_SIZE]);
int session_withdraw(struct gpushare_session *session, const uint8_t ticket[GPUSHARE_TICKET_SIZE],
		     int *out_fd);

void session_add(struct gpushare_session *session, struct gpushare_buffer *buffer);
enum release {
	RELEASE_COUNTED, /* it stays */
	RELEASE_LAST,	 /* it is off the session's list, to be ended now */
	RELEASE_HELD,	 /* the last session_unuse() ends it, and tells of the detach */
};
enum release session_release(struct gpushare_session *session, struct gpushare_buffer *buffer);
/* Keep the memory where it is, whatever is detached and freed meanwhile. */
void session_use(struct gpushare_buffer *buffer);
void session_unuse(struct gpushare_buffer *buffer);

/* api_mapping.c: the CUDA side of an attachment; the struct stays. */
int mapping_open(struct gpushare_buffer *buffer, const gpushare_AttachReply *answer,
		 const struct gpushare_attach_options *options);
/* The same without CUDA: its descriptor, and no address. */
int mapping_open_host(struct gpushare_buffer *buffer, const gpushare_AttachReply *answer);
/* Map a descriptor's memory for a buffer whose device is known and whose context is current. */
int mapping_place(struct gpushare_buffer *buffer, const record *from, int fd,
		  const struct vmm_wish *wish);
int mapping_own(struct gpushare_buffer *buffer, uint64_t address);
int mapping_close(const struct gpushare_buffer *buffer);

/* api_alloc.c: free what gpushare_alloc() made; the struct stays. */
int share_release(const struct gpushare_buffer *buffer);

/* api_transfer.c: what can be said of a range and of writing to it; one copy by the GPU, of which
 * one of `to` and `from` says the way, and which is there when this returns. */
int transfer_check(const struct gpushare_buffer *buffer, size_t offset, size_t length, bool write);
int transfer_dma(const struct gpushare_buffer *buffer, size_t offset, void *to, const void *from,
		 size_t length);
void staging_finish(struct staging *staging, const struct driver *driver);

/* api_mirror.c: drop what is open, and free the structs of a session that is not this process's. */
void mirror_drop_all(struct gpushare_session *session);
void mirror_forget_all(struct gpushare_session *session);

/* api_query.c */
void query_info(const record *from, struct gpushare_info *to);
int query_isolated(const struct gpushare_info *info);

#endif
