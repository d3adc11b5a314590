/* SPDX-License-Identifier: MIT */
#ifndef GPUSHARE_REGISTRY_PROTOCOL_H
#define GPUSHARE_REGISTRY_PROTOCOL_H
/* What both sides agree on: limits, socket names, the codec, the SP framing, descriptors, names, the
 * directory. */
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "gpushare.h"
#include "registry.pb.h"

#define GPUSHARE_PROTOCOL 1
#define GPUSHARE_SOCKET "registry.sock"
#define GPUSHARE_FDS_SOCKET "fds.sock"
#define GPUSHARE_STATE "registry.state" /* what a registry leaves for its successor */
#define GPUSHARE_HANDLE_SIZE 64
#define GPUSHARE_SESSION_KEY_SIZE \
	16		      /* of HelloReply.session, by which a lost connection is resumed */
#define GPUSHARE_PATH_MAX 108 /* sun_path, NUL included */
#define GPUSHARE_MESSAGE_MAX 65536 /* bytes of one encoded Request or Reply */
#define GPUSHARE_TIMEOUT_MS 1000
#define GPUSHARE_IDLE_EXIT_S "60" /* --idle-exit of a registry that was started on its own */

typedef gpushare_Request request;
typedef gpushare_Reply reply;
typedef gpushare_Notice notice;
typedef gpushare_Buffer record;

/* codec.c. Both return a status; sizes in bytes. Decoding refuses what breaks a bound, a fixed
 * length, or holds a NUL or a byte outside its alphabet in a name. */
int codec_encode_request(const request *message, uint8_t *to, size_t room, size_t *out_size);
int codec_decode_request(const uint8_t *from, size_t size, request *out_message);
/* The message is as it was afterwards. */
int codec_encode_reply(reply *message, uint8_t *to, size_t room, size_t *out_size);
int codec_decode_reply(const uint8_t *from, size_t size, reply *out_message);
/* The verbs, as the fields of Request are called. */
#define REQUEST_VERBS(X) \
	X(hello) \
	X(share) \
	X(lookup) \
	X(attach) \
	X(detach) \
	X(withdraw) \
	X(list) X(stat) X(limbo) X(resync) X(tag) X(holders) X(order) X(commit) X(subscribe)
/* "attach"; NULL: there is no such verb. */
const char *request_verb(pb_size_t which);
/* The name that a request is about; "": it is about none, or about several. */
const char *request_name(const request *message);

/* SP (scalability protocols) over AF_UNIX, as nng speaks it on ipc://. FACTS: nng 1.5.2. */
#define SP_GREETING_SIZE 8
#define SP_HEADER_SIZE 9 /* 01, then the length as u64 BE */
#define SP_ID_SIZE 4	 /* request id, u32 BE, top bit set */
#define SP_REQ 0x30
#define SP_REP 0x31
void sp_greeting(uint8_t to[SP_GREETING_SIZE], uint16_t protocol);
bool sp_greeting_is(const uint8_t from[SP_GREETING_SIZE], uint16_t protocol);
void sp_header(uint8_t to[SP_HEADER_SIZE + SP_ID_SIZE], uint32_t id, size_t body_size);
/* body size, or -1 when the header makes no sense or the message is over GPUSHARE_MESSAGE_MAX */
long sp_header_body_size(const uint8_t from[SP_HEADER_SIZE]);
uint32_t sp_id(const uint8_t from[SP_ID_SIZE]);
/* A header's bytes alone, of a message of so many. */
void sp_length(uint8_t to[SP_HEADER_SIZE], size_t size);
/* How many bytes the ids have with which a message of that size begins: the last one has the top bit
 * set, and there is one more for each device that it came through. 0: it ends before. */
size_t sp_ids_size(const uint8_t *from, size_t size);

/*
 * fds.c: file descriptors, which nng can't carry, over fds.sock (SOCK_SEQPACKET) in the same directory. One
 * message each way: a header in the host's byte order, as it never leaves the host, and a body. FDS_ASK is a
 * Request as on registry.sock and its Reply, with at most one descriptor beside either: it is the request of
 * the connection to registry.sock that the header names by its number and its session's key, both of its
 * HelloReply, and waits for no name. The others have no body. A daemon that is to be replaced is asked so
 * here: OK says that it leaves, its lock that it has left. FDS_CHANGES gets the descriptor of the page of
 * changes, FDS_INDEX that of the index (index.h).
 */
#define FDS_VERSION 2
#define FDS_MAX 128 /* descriptors of one message */
#define FDS_KERNEL_MAX \
	253 /* SCM_MAX_FD: with room for all of them, one that is missing was refused */
enum fds_verb {
	FDS_ASK = 1,
	FDS_REPLACE = 3,
	FDS_CHANGES = 4,
	FDS_INDEX = 5,
};

struct fds_header {
	uint8_t version;
	uint8_t verb;
	uint16_t unused;
	int32_t status; /* of an answer that has no body: enum gpushare_status */
	uint32_t connection;
	uint8_t session[GPUSHARE_SESSION_KEY_SIZE];
};

/* A whole message or nothing, at once, with `fd` beside it (-1: none). OK; E_TIMED_OUT: the socket is not
 * ready for it; E_NO_REGISTRY: the other side has gone; E_LIMIT: no room for more descriptors; E_IO. */
int fds_send(int socket, const struct fds_header *header, const void *body, size_t size, int fd);
/* The same; besides E_PROTOCOL: that is no message, or has a longer body than the room for it. The descriptor
 * (-1: none) is close-on-exec; whatever the answer but OK, none is left open. */
int fds_receive(int socket, struct fds_header *out_header, void *body, size_t room,
		size_t *out_size, int *out_fd);
/* The same, but the `*out_count` descriptors that came stay open, whatever the answer. */
int fds_receive_open(int socket, struct fds_header *out_header, void *body, size_t room,
		     size_t *out_size, int out_fds[FDS_KERNEL_MAX], size_t *out_count);
/* For other messages, of `size` bytes; what is longer than the room for it is E_PROTOCOL. */
int fds_send_bytes(int socket, const void *bytes, size_t size, const int *fds, size_t count);
int fds_receive_bytes(int socket, void *bytes, size_t room_size, size_t *out_size,
		      int out_fds[FDS_MAX], size_t *out_count);
void fds_close(const int *fds, size_t count);
/* How a backing travels: as a descriptor, else as a handle. */
bool backing_is_fd(uint32_t backing);
bool backing_is_known(uint32_t backing);

/*
 * slot.c: the page of changes, which the registry writes and clients map for reading. Before
 * anybody is told that a name has gone or stands for another generation, the count at its slot
 * grows. A count is compared with an earlier one of the same page for being equal, and no more.
 * When the last attacher of a buffer without a name leaves, the buffer's generation is written to
 * left[generation % CHANGES_SLOTS]. A later generation may overwrite it.
 */
#define CHANGES_SLOTS 512
struct changes_page {
	_Atomic uint64_t count[CHANGES_SLOTS];
	_Atomic uint64_t left[CHANGES_SLOTS]; /* 0: none */
};
size_t changes_slot(const char *name);

/* name.c */
bool name_is_valid(const char *name);	  /* 1..255 of [A-Za-z0-9._/-], not '-' first */
const char *name_fault(const char *name); /* why not, in words; NULL when it is valid */
bool name_is_number(const char *group);	  /* a group by its number, and not by a name */

/* directory.c: $GPUSHARE_DIR, else $XDG_RUNTIME_DIR/gpushare, else /tmp/gpushare-<uid>.
 * `given` (may be NULL) comes before all three. */
int directory_find(const char *given, char out_path[GPUSHARE_PATH_MAX]);
/* Make it (0700) where it is missing; refuse a link, another owner, or group/world access.
 * `why` receives the sentence on failure. */
int directory_prepare(const char *path, char *why, size_t why_size);
/* Whether a client may trust it: the user's own alone, or one of a registry for all users. That one has
 * the mark, is written to by its owner only, and is root's, or its owner's where root has put it. */
#define DIRECTORY_SYSTEM_MARK 01000 /* the sticky bit: it is not open by mistake */
struct directory_trust {
	uint32_t uid;	/* whose registry is to answer there, or root's */
	bool is_system; /* started by an administrator alone */
};
int directory_check(const char *path, char *why, size_t why_size);
int directory_check_trust(const char *path, struct directory_trust *out_trust, char *why,
			  size_t why_size);
/* The last of these: nobody but root, or its owner, can have put it there. */
int directory_check_place(const char *path, char *why, size_t why_size);
bool directory_is_served_by(const struct directory_trust *trust, uint32_t uid);
int directory_socket(const char *path, char out_socket[GPUSHARE_PATH_MAX]);
int directory_fds_socket(const char *path, char out_socket[GPUSHARE_PATH_MAX]);

/* status.c */
const char *status_text(int status);
const char *status_name(int status); /* "E_DENIED" */
int status_from_errno(int error);

#endif
