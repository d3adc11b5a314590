/* SPDX-License-Identifier: MIT */
#ifndef GPUSHARE_TESTS_UNIT_RAW_H
#define GPUSHARE_TESTS_UNIT_RAW_H
/* The daemon as a process, and peers that send bytes to it over a socket. All times are in ms. */
#include <sys/types.h>

#include "protocol.h"

#define RAW_GONE_MS (100 + raw_slack_ms()) /* names of a dead owner must be gone by then */
#define RAW_HANDLE_BYTE 0xc3		   /* each byte of raw_share()'s handles */
#define RAW_TIMEOUT_MS 5000		   /* for immediate events, on a busy machine */

struct raw_daemon {
	char directory[64];
	char socket[GPUSHARE_PATH_MAX];
	pid_t pid;
};

extern struct raw_daemon raw_here; /* started by raw_set_up() */
extern reply raw_answer;	   /* to the latest raw_say() */
#define RAW_FDS 1024
extern gpushare_HelloReply
    raw_hellos[RAW_FDS]; /* raw_connect()'s answers by descriptor, for those below RAW_FDS */

/* For cmocka: each test has its own daemon and folder. If the daemon's exit status isn't 0, the
 * test fails: a sanitizer reports errors that way. */
int raw_set_up(void **state);
int raw_tear_down(void **state);
#define RAW_TEST(test) cmocka_unit_test_setup_teardown(test, raw_set_up, raw_tear_down)
/* Make only the folder. The path of a file in it, in a static buffer. */
int raw_make_folder(void **state);
char *raw_in_folder(const char *name);

long long raw_now_ms(void);
/* Extra time of each limit, for a busy machine. It is constant in a run: more with a sanitizer or
 * under an emulator. */
#define RAW_SLACK_MS 500 /* without sanitizer and emulator */
int raw_slack_ms(void);
/* Under an emulator the daemon can't start itself again as a keeper, so kept buffers end with their
 * registry. */
bool raw_is_emulated(void);
/* Fork a child that the kernel kills when the test ends in any way. */
pid_t raw_fork(void);
void raw_sleep_ms(int ms);

/* Start $BUILD/gpushare-registry ("build" if BUILD is unset) for daemon->directory and wait for
 * READY=1. `extra` arguments end with NULL. On failure, fail the test. */
void raw_daemon_start(struct raw_daemon *daemon, const char *const extra[]);
/* Called in the daemon's process before exec(); NULL: no call. Must not touch descriptor 9. */
extern void (*raw_daemon_begins)(void);
/* End raw_here by `signal` and check its exit status. raw_daemon_again() also starts a new one. */
void raw_daemon_end(int signal);
void raw_daemon_again(int signal);
/* Kill raw_here, delete its state file, and start another daemon. */
void raw_daemon_lose(void);
/* Wait for the exit status. 128 + signal if a signal ended it; -1 if it does not end in time. */
int raw_daemon_wait(struct raw_daemon *daemon, int timeout_ms);

/* Connect without a greeting. */
int raw_dial(const struct raw_daemon *daemon);
/* Connect and greet; raw_connect() also sends Hello. */
int raw_greet(const struct raw_daemon *daemon);
int raw_connect(const struct raw_daemon *daemon);
/* On a connection that another process made: greet; raw_hello() also sends Hello. */
void raw_greet_on(int fd);
void raw_hello(int fd);
/* false: the peer closed the connection, or the time is up. */
bool raw_write(int fd, const void *from, size_t size);
bool raw_read(int fd, void *to, size_t size, int timeout_ms);
/* Does the daemon close the connection in time? Discards what arrives before. */
bool raw_is_closed(int fd, int timeout_ms);

bool raw_send_bytes(int fd, uint32_t id, const void *body, size_t size);
bool raw_send(int fd, uint32_t id, const request *ask);
/* Receive the next answer. If it can't be decoded, fail the test. */
bool raw_receive_any(int fd, uint32_t *out_id, reply *answer, int timeout_ms);
/* The same; if it isn't the answer to `id`, fail the test. */
bool raw_receive(int fd, uint32_t id, reply *answer, int timeout_ms);
/* Send a request and receive its answer; return the answer's status. If there is no answer, fail
 * the test. */
int raw_ask(int fd, const request *ask, reply *answer);

int raw_say(int fd, request what);
void raw_assert_sentence(const char *part);
/* Check that raw_here serves another peer at once. */
void raw_assert_serves(void);
/* Wait until the registry counts `wanted` connections: it notices a closed socket with a delay. */
void raw_await_connections(int fd, uint64_t wanted);
long long raw_ms_until_gone(int fd, const char *name);

request raw_hello_request(void);
request raw_share(const char *name);
request raw_lookup(const char *name, uint32_t wait_ms);
request raw_attach(const char *name);
request raw_withdraw(const char *name, uint64_t generation);
/* The owner's free. If others have the buffer attached, the registry defers it. */
request raw_free(const char *name, uint64_t generation);
request raw_detach(const char *name, uint64_t generation);
request raw_order(const char *name, uint64_t generation, uint32_t roles);
/* Add a buffer to a Resync request: attached `count` times, or shared if `count` is 0. */
void raw_tell(request *resync, const char *name, uint64_t generation, uint32_t count);
gpushare_StatReply raw_stat(int fd);

/* Send a Share, Attach or Lookup; if it fails, fail the test. Return the generation or record. */
uint64_t raw_shared(int fd, const char *name);
void raw_attached(int fd, const char *name);
const record *raw_seen(int fd, const char *name);

#endif
