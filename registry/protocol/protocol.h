/* SPDX-License-Identifier: MIT */
#ifndef GPUSHARE_REGISTRY_PROTOCOL_H
#define GPUSHARE_REGISTRY_PROTOCOL_H
/* What both sides agree on: limits, socket names, the codec, the SP framing, names, the directory. */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "gpushare.h"
#include "registry.pb.h"

#define GPUSHARE_PROTOCOL 1
#define GPUSHARE_SOCKET "registry.sock"
#define GPUSHARE_HANDLE_SIZE 64
#define GPUSHARE_PATH_MAX 108 /* sun_path, NUL included */
#define GPUSHARE_MESSAGE_MAX 65536 /* bytes of one encoded Request or Reply */
#define GPUSHARE_TIMEOUT_MS 1000

typedef gpushare_Request request;
typedef gpushare_Reply reply;
typedef gpushare_Buffer record;

/* codec.c. Both return a status; sizes in bytes. Decoding refuses what breaks a bound, a fixed
 * length, or holds a NUL or a byte outside its alphabet in a name. */
int codec_encode_request(const request *message, uint8_t *to, size_t room, size_t *out_size);
int codec_decode_request(const uint8_t *from, size_t size, request *out_message);
int codec_encode_reply(const reply *message, uint8_t *to, size_t room, size_t *out_size);
int codec_decode_reply(const uint8_t *from, size_t size, reply *out_message);

/* SP (scalability protocols) over AF_UNIX, as nng speaks it on ipc://. FACTS: nng 1.5.2. */
#define SP_GREETING_SIZE 8
#define SP_HEADER_SIZE 9 /* 01, then the length as u64 BE */
#define SP_ID_SIZE 4     /* request id, u32 BE, top bit set */
#define SP_REQ 0x30
#define SP_REP 0x31
void sp_greeting(uint8_t to[SP_GREETING_SIZE], uint16_t protocol);
bool sp_greeting_is(const uint8_t from[SP_GREETING_SIZE], uint16_t protocol);
void sp_header(uint8_t to[SP_HEADER_SIZE + SP_ID_SIZE], uint32_t id, size_t body_size);
/* body size, or -1 when the header makes no sense or the message is over GPUSHARE_MESSAGE_MAX */
long sp_header_body_size(const uint8_t from[SP_HEADER_SIZE]);
uint32_t sp_id(const uint8_t from[SP_ID_SIZE]);

/* name.c */
bool name_is_valid(const char *name);             /* 1..255 of [A-Za-z0-9._/-] */
const char *name_fault(const char *name);         /* why not, in words; NULL when it is valid */

/* directory.c: $GPUSHARE_DIR, else $XDG_RUNTIME_DIR/gpushare, else /tmp/gpushare-<uid>.
 * `given` (may be NULL) comes before all three. */
int directory_find(const char *given, char out_path[GPUSHARE_PATH_MAX]);
/* Make it (0700) where it is missing; refuse a link, another owner, or group/world access.
 * `why` receives the sentence on failure. */
int directory_prepare(const char *path, char *why, size_t why_size);
int directory_check(const char *path, char *why, size_t why_size);
int directory_socket(const char *path, char out_socket[GPUSHARE_PATH_MAX]);

/* status.c */
const char *status_text(int status);
int status_from_errno(int error);

#endif
