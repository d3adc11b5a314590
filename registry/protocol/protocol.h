/* SPDX-License-Identifier: MIT */
#ifndef GPUSHARE_REGISTRY_PROTOCOL_H
#define GPUSHARE_REGISTRY_PROTOCOL_H
/* What daemon and clients share: sizes, socket names, codec, framing, descriptors, the folder. */
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>

#include "gpushare.h"
#include "registry.pb.h"

#define GPUSHARE_PROTOCOL 2
#define GPUSHARE_SOCKET "registry.sock"
#define GPUSHARE_FDS_SOCKET "fds.sock"
#define KEEPER_SOCKET \
	"keeper.sock" /* removing it ends the keeper, and closes what only the keeper holds */
#define KEEPER_NAME "gpushare-keeper"	/* the keeper's command in /proc */
#define GPUSHARE_STATE "registry.state" /* the file that a registry leaves for its successor */
#define GPUSHARE_HANDLE_SIZE 64
#define GPUSHARE_SESSION_KEY_SIZE \
	16 /* bytes of HelloReply.session, which resumes a lost connection's session */
#define GPUSHARE_PATH_MAX 108	   /* sun_path, NUL included */
#define GPUSHARE_MESSAGE_MAX 65536 /* bytes of one encoded Request or Reply */
#define GPUSHARE_TIMEOUT_MS 1000
#define GPUSHARE_IDLE_EXIT_S "60" /* --idle-exit of a registry that a client or keeper starts */

typedef gpushare_Request request;
typedef gpushare_Reply reply;
typedef gpushare_Notice notice;
typedef gpushare_Buffer record;

/* codec.c. The functions return a status; sizes are in bytes. Decoding refuses a message that
 * breaks a bound or a fixed length, and a request with an invalid name. */
int codec_encode_request(const request *message, uint8_t *to, size_t room, size_t *out_size);
int codec_decode_request(const uint8_t *from, size_t size, request *out_message);
/* Modifies the message while it runs, and restores it before it returns. */
int codec_encode_reply(reply *message, uint8_t *to, size_t room, size_t *out_size);
int codec_decode_reply(const uint8_t *from, size_t size, reply *out_message);
/* Decodes only the PageEnd of a Reply: where its list continues. False: the Reply has no list. */
bool codec_page_ends(const uint8_t *from, size_t size, gpushare_PageEnd *out_end);
/* What a user sees of a record. */
void codec_read_info(const record *from, struct gpushare_info *out);
/* Fields that both structs have */
#define INFO_NUMBERS(X) \
	X(generation) \
	X(size) \
	X(base_offset) \
	X(base_size) \
	X(owner_uid) \
	X(owner_pid) \
	X(owner_started) \
	X(attachers) \
	X(created_unix_ns) \
	X(backing) \
	X(ordering) X(flags) X(ttl_s) X(ttl_left_s) X(missing) X(sequence) X(mode) X(owner_gid)
#define INFO_ARRAYS(X) X(name) X(device_uuid) X(owner_command)
/* The verbs, which are the fields of Request; the first ones have a field `name` */
#define NAMED_VERBS(X) \
	X(lookup) X(attach) X(detach) X(withdraw) X(tag) X(holders) X(order) X(commit)
#define REQUEST_VERBS(X) \
	NAMED_VERBS(X) X(hello) X(share) X(list) X(stat) X(deferred) X(resync) X(subscribe)
/* e.g. "attach"; NULL: no such verb */
const char *request_verb(pb_size_t which);
/* "": the request has no name, or several */
const char *request_name(const request *message);

/* SP (scalability protocols) over AF_UNIX, as nng 1.5.2 speaks it on ipc://. */
#define SP_GREETING_SIZE 8
#define SP_HEADER_SIZE 9 /* 01, then the length as u64 BE */
#define SP_ID_SIZE 4	 /* request id, u32 BE, top bit set */
#define SP_REQ 0x30
#define SP_REP 0x31
void sp_greeting(uint8_t to[SP_GREETING_SIZE], uint16_t protocol);
bool sp_greeting_is(const uint8_t from[SP_GREETING_SIZE], uint16_t protocol);
void sp_header(uint8_t to[SP_HEADER_SIZE + SP_ID_SIZE], uint32_t id, size_t body_size);
/* Returns the body's size, or -1 if the header is invalid or the message is longer than
 * GPUSHARE_MESSAGE_MAX. */
long sp_header_body_size(const uint8_t from[SP_HEADER_SIZE]);
uint32_t sp_id(const uint8_t from[SP_ID_SIZE]);
/* Writes only the header of a message of `size` bytes. */
void sp_length(uint8_t to[SP_HEADER_SIZE], size_t size);
/* Size of the ids at the beginning of a message: one for each device that forwarded it, then the
 * request's, which has the top bit set. 0: the message ends before the request's id. */
size_t sp_ids_size(const uint8_t *from, size_t size);

/*
 * fds.c: requests with file descriptors, which nng can't carry, over fds.sock (SOCK_SEQPACKET). One
 * message each way: a header in the host's byte order and a body. FDS_ASK carries a Request and its
 * Reply, each with at most one descriptor. The header names a connection to registry.sock by
 * HelloReply.connection and .session; the Request belongs to that connection. No Request here waits
 * for a name. The other verbs have no body. FDS_REPLACE asks the daemon to exit, which releases its
 * instance lock. FDS_CHANGES returns a descriptor of the page of changes, FDS_INDEX one of the
 * index (index.h).
 */
#define FDS_VERSION 2
#define FDS_KERNEL_MAX \
	253 /* SCM_MAX_FD, the kernel's limit for one message: if a descriptor is missing although
	     * there was room for this many, this process may open no more */
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

/* Sends a whole message, with `fd` (-1: none), without waiting. OK; E_TIMED_OUT: the socket isn't
 * ready; E_NO_REGISTRY: the peer has gone; E_LIMIT: too many descriptors in flight; E_IO. */
int fds_send(int socket, const struct fds_header *header, const void *body, size_t size, int fd);
/*
 * Receives a message, without waiting; if `out_header` is NULL, a message without a header. Errors
 * are those of fds_send(), but E_LIMIT means that this process may open no more descriptors.
 * E_PROTOCOL: the message is invalid, or its body is longer than `room`. *out_fd (-1: none) is
 * close-on-exec. If this fails, no received descriptor stays open.
 */
int fds_receive(int socket, struct fds_header *out_header, void *body, size_t room,
		size_t *out_size, int *out_fd);
/* As fds_receive(), but all `*out_count` descriptors stay open even if this fails. */
int fds_receive_open(int socket, struct fds_header *out_header, void *body, size_t room,
		     size_t *out_size, int out_fds[FDS_KERNEL_MAX], size_t *out_count);
/* Sends a message without a struct fds_header. */
int fds_send_bytes(int socket, const void *bytes, size_t size, const int *fds, size_t count);
void fds_close(const int *fds, size_t count);
/* Whether memory of that backing is passed as a descriptor, not as a handle. */
bool backing_is_fd(uint32_t backing);
bool backing_is_known(uint32_t backing);

/*
 * index.c: the page of changes, which the registry writes and clients map for reading. Before any
 * answer shows that a name was removed or has another generation, the registry increments the count
 * at the name's slot. When the last attacher of a deferred free leaves, the registry writes the
 * buffer's generation to left[generation % CHANGES_SLOTS], where another generation may overwrite
 * it.
 */
#define CHANGES_SLOTS 512
struct changes_page {
	_Atomic uint64_t count[CHANGES_SLOTS];
	_Atomic uint64_t left[CHANGES_SLOTS]; /* 0: none */
};
size_t changes_slot(const char *name);

/* Do `size` bytes from `offset` on lie within `whole` bytes? */
static inline bool span_fits(uint64_t offset, uint64_t size, uint64_t whole)
{
	return offset <= whole && size <= whole - offset;
}

#define DRIVER_BLOCK ((uint64_t)2 << 20) /* size of the blocks that the driver maps: FACTS.md */

/* True: an attacher can't reach other memory. cuMemCreate memory is mapped alone; cuMemAlloc may
 * place other allocations into the rest of a block. */
static inline bool backing_is_isolated(uint32_t backing, uint64_t base_size)
{
	return backing_is_fd(backing) || base_size % DRIVER_BLOCK == 0;
}

/* The bytes that a name is charged for. If less than a granule of cuMemCreate (2 MiB: FACTS.md) of
 * the allocation is outside of the buffer, they are `base_size`. Otherwise other names may share
 * the allocation, and they are `size`. */
static inline uint64_t held_bytes(uint64_t size, uint64_t base_size)
{
	return base_size - size < (uint64_t)2 << 20 ? base_size : size;
}

/* text.c */
bool name_is_valid(const char *name);	  /* 1..255 of [A-Za-z0-9._/-], not '-' first */
const char *name_fault(const char *name); /* why it is invalid; NULL: it is valid */
bool name_is_number(const char *group);	  /* it begins with a digit, so it is a gid */
/* Returns the first byte of a control character, as strpbrk() does; NULL: there is none. Control
 * characters are the bytes 0 to 31 and 127, and C1: U+0080 to U+009F in UTF-8, and the bytes 0x80
 * to 0x9f outside of a UTF-8 character. A terminal may obey any of them. */
char *text_control(const char *text);
/* Reads bytes: digits, then K M G T (1000s), Ki Mi Gi Ti (1024s) or nothing. Returns what follows;
 * NULL: there is no number, or it is too large. */
const char *text_size(const char *text, uint64_t *out_size);

/* How many bytes must be inserted, removed or replaced to turn one word into the other. `most` + 1:
 * more than `most`, or a word is longer than a name can be. */
unsigned int edit_distance(const char *a, const char *b, unsigned int most);

/* directory.c. Finds the folder: `given` (may be NULL), else $GPUSHARE_DIR,
 * $XDG_RUNTIME_DIR/gpushare, /tmp/gpushare-<uid>. */
int directory_find(const char *given, char out_path[GPUSHARE_PATH_MAX]);
/* Makes the directory (0700) if it is missing. Refuses a symbolic link, another owner, and group or
 * world access. If this fails, `why` is set. */
int directory_prepare(const char *path, char *why, size_t why_size);
/* Clients trust their user's own folder, and the folder of a registry for all users. A folder for
 * all users has the mark below, and only its owner can write to it. The owner is root, the client's
 * user, or any user if only root can have put the folder there. */
#define DIRECTORY_SYSTEM_MARK 01000 /* the sticky bit, which nobody sets by mistake */
struct directory_trust {
	uint32_t uid;	/* the folder's registry has to run as this user or root */
	bool is_system; /* the folder is that of a registry for all users */
};
int directory_check(const char *path, struct directory_trust *out_trust, char *why,
		    size_t why_size);
/* `fd` and `is`: the folder. OK if root owns it, or if only root may write to the folder above
 * it. */
int directory_examine_place(int fd, const struct stat *is, const char *path, char *why,
			    size_t why_size);
/* The path of `file` in the directory; `file` is no longer than GPUSHARE_SOCKET. E_INVALID: the
 * path is too long. */
int directory_join(const char *path, const char *file, char out_path[GPUSHARE_PATH_MAX]);

/* status.c */
const char *status_text(int status);
const char *status_name(int status); /* "E_DENIED" */
int status_from_errno(int error);

#endif
