/* SPDX-License-Identifier: MIT */
#ifndef GPUSHARE_TESTS_UNIT_RAW_H
#define GPUSHARE_TESTS_UNIT_RAW_H
/* The daemon as a process, and peers that speak to it over a bare socket. All times in ms. */
#include <sys/types.h>

#include "protocol.h"

#define RAW_GONE_MS (100 + raw_slack_ms()) /* a dead owner's names, by the issue */
#define RAW_HANDLE_BYTE 0xc3		   /* raw_share() makes handles of it */
#define RAW_TIMEOUT_MS 5000		   /* for what should come at once; a machine may be busy */

struct raw_daemon {
	char directory[64];
	char socket[GPUSHARE_PATH_MAX];
	pid_t pid;
};

extern struct raw_daemon raw_here; /* of raw_set_up() */
extern reply raw_answer;	   /* to the latest raw_say() */
#define RAW_FDS 1024
extern gpushare_HelloReply
    raw_hellos[RAW_FDS]; /* of raw_connect(), by descriptor, as far as that goes */

/* For cmocka: a daemon and a folder of one test's own. The daemon's exit status counts: a
 * sanitizer's report is one. */
int raw_set_up(void **state);
int raw_tear_down(void **state);
#define RAW_TEST(test) cmocka_unit_test_setup_teardown(test, raw_set_up, raw_tear_down)
/* The folder alone, and the path of a file in it. */
int raw_make_folder(void **state);
char *raw_in_folder(const char *name);

long long raw_now_ms(void);
/* What each limit gets for a busy machine: a constant, more with instruments or under an emulator. */
#define RAW_SLACK_MS 500 /* without those */
int raw_slack_ms(void);
/* An emulator can't start itself again as a keeper: what is kept does not outlive its registry there. */
bool raw_is_emulated(void);
/* A client's limit, of tests of who does not answer: long enough for who does. The same all the time, in
 * children that are made later, too. The other one sets GPUSHARE_TIMEOUT_MS. */
int raw_limit_ms(int ms);
void raw_set_limit(int ms);
/* A child that ends with the test, however that ends. */
pid_t raw_fork(void);
/* A process of its own that shares `name`, as `make` there says, and stays until it is killed. */
pid_t raw_owner(const char *name, request (*make)(const char *name));
/* The same, by what `share` does: a status. */
pid_t raw_owner_by(const char *name, int (*share)(int own, const char *name));
void raw_sleep_ms(int ms);

/* Start $BUILD/gpushare-registry (build) there and wait for READY=1; extra arguments end
 * with NULL. Fails the test. */
void raw_daemon_start(struct raw_daemon *daemon, const char *const extra[]);
/* Called in its process, before it is the daemon's; NULL: nothing. Descriptor 9 is taken. */
extern void (*raw_daemon_begins)(void);
/* Run it to its end, stderr into `words`: its exit status. */
int raw_daemon_run(const char *const arguments[], char *words, size_t size);
/* raw_here is ended so, with the status that this has; and the next one is started there. */
void raw_daemon_end(int signal);
void raw_daemon_again(int signal);
/* It is killed, and the next one finds none of its records. */
void raw_daemon_lose(void);
/* Its exit status, -1 when it does not end in time, 128 + signal. */
int raw_daemon_wait(struct raw_daemon *daemon, int timeout_ms);

/* Connected, no word said. */
int raw_dial(const struct raw_daemon *daemon);
/* Greeted; hello said as well. */
int raw_greet(const struct raw_daemon *daemon);
int raw_connect(const struct raw_daemon *daemon);
/* On a connection that another process made: greet; that and hello. */
void raw_greet_on(int fd);
void raw_hello(int fd);
/* false: the peer closed, or the time is up. */
bool raw_write(int fd, const void *from, size_t size);
bool raw_read(int fd, void *to, size_t size, int timeout_ms);
/* Whether the daemon closes the connection in time. */
bool raw_is_closed(int fd, int timeout_ms);

bool raw_send_bytes(int fd, uint32_t id, const void *body, size_t size);
bool raw_send(int fd, uint32_t id, const request *ask);
/* The next answer, which must decode. */
bool raw_receive_any(int fd, uint32_t *out_id, reply *answer, int timeout_ms);
/* The same, and it must be that of `id`. */
bool raw_receive(int fd, uint32_t id, reply *answer, int timeout_ms);
/* Both; the answer's status. Fails the test when there is none. */
int raw_ask(int fd, const request *ask, reply *answer);

int raw_say(int fd, request what);
void raw_assert_sentence(const char *part);
/* Another peer of raw_here is served, at once. */
void raw_assert_serves(void);
/* Waits until the registry has that many: who is told of a closed socket is told before it. */
void raw_await_connections(int fd, uint64_t wanted);
long long raw_ms_until_gone(int fd, const char *name);

request raw_hello_request(void);
request raw_share(const char *name);
request raw_lookup(const char *name, uint32_t wait_ms);
request raw_attach(const char *name, uint32_t wait_ms);
request raw_withdraw(const char *name, uint64_t generation);
/* The owner's free, which holds the memory where others have it attached. */
request raw_free(const char *name, uint64_t generation);
request raw_detach(const char *name, uint64_t generation);
request raw_order(const char *name, uint64_t generation, uint32_t roles);
/* One more hold that a Resync tells of: attached so often; 0: shared. */
void raw_tell(request *resync, const char *name, uint64_t generation, uint32_t count);
gpushare_StatReply raw_stat(int fd);

/* What succeeds, said: the generation; what a look-up tells; does that free hold the memory? */
uint64_t raw_shared(int fd, const char *name);
void raw_attached(int fd, const char *name);
const record *raw_seen(int fd, const char *name);
bool raw_is_deferred(int fd, const char *name, uint64_t generation);

#endif
