/* SPDX-License-Identifier: MIT */
#include "scripted.h"

#include "unit.h"

#include "raw.h"

#define PEERS 16
enum { LISTENER, FDS_LISTENER, FIRST_PEER };

struct scripted scripted;

static struct {
	pthread_t thread;
	pthread_mutex_t lock;
	bool runs, ends;
	unsigned int lives; /* number of starts; each byte of the session key */
	struct pollfd sockets[FIRST_PEER + PEERS];
	bool greeted[FIRST_PEER + PEERS], carries_fds[FIRST_PEER + PEERS];
	bool lost; /* scripted.lose_staged applied; the next Commit gets E_NOT_FOUND */
	int came;  /* the request's descriptor; -1: none, or a request over registry.sock */
} play = {.lock = PTHREAD_MUTEX_INITIALIZER};

void scripted_lock(void)
{
	pthread_mutex_lock(&play.lock);
}

void scripted_unlock(void)
{
	pthread_mutex_unlock(&play.lock);
}

static bool loses(unsigned int *times)
{
	play.lost = *times > 0;
	*times -= play.lost;
	return play.lost;
}

static bool matches_once(pb_size_t *at, pb_size_t verb)
{
	bool matches = *at == verb;

	if (matches)
		*at = 0;
	return matches;
}

static void take_hold(const gpushare_Hold *hold, gpushare_Hold *list, size_t *count, reply *answer)
{
	gpushare_ResyncReply *body = &answer->body.resync;

	if (*count < SCRIPTED_MAX)
		list[(*count)++] = *hold;
	for (size_t i = 0; i < scripted.wants_count; i++)
		if (scripted.wants[i] == hold->generation)
			body->wanted[body->wanted_count++] = hold->generation;
}

static void on_resync(const gpushare_Resync *part, reply *answer)
{
	static bool goes_on;

	if (!goes_on)
		scripted.shared_count = scripted.attached_count = 0;
	goes_on = !part->last;
	answer->which_body = gpushare_Reply_resync_tag;
	for (pb_size_t i = 0; i < part->shared_count; i++)
		take_hold(&part->shared[i], scripted.shared, &scripted.shared_count, answer);
	for (pb_size_t i = 0; i < part->attached_count; i++)
		take_hold(&part->attached[i], scripted.attached, &scripted.attached_count, answer);
	scripted.resyncings += part->last;
}

static void on_share(const gpushare_Share *share, reply *answer)
{
	if (scripted.shares_count < SCRIPTED_MAX) {
		scripted.brought[scripted.shares_count] = play.came >= 0;
		scripted.shares[scripted.shares_count++] = *share;
	}
	if (share->again && scripted.share_status) {
		answer->status = scripted.share_status;
		strcpy(answer->message, "not again");
		return;
	}
	answer->which_body = gpushare_Reply_share_tag;
	answer->body.share.generation = share->again ? share->again : ++scripted.generation;
	if (!share->adopt)
		return;
	answer->body.share.adopted = answer->body.share.has_buffer = true;
	answer->body.share.buffer = share->buffer;
	answer->body.share.buffer.generation = answer->body.share.generation;
}

static void on_attach(bool by_fds, reply *answer)
{
	const gpushare_Share *latest = &scripted.shares[scripted.shares_count - 1];
	gpushare_AttachReply *body = &answer->body.attach;

	answer->which_body = gpushare_Reply_attach_tag;
	body->at_fds = !by_fds && backing_is_fd(latest->buffer.backing);
	if (body->at_fds)
		return;
	body->has_buffer = true;
	body->buffer = latest->buffer;
	body->buffer.generation = scripted.generation;
	memcpy(body->handle, latest->handle, sizeof(body->handle));
}

static void on_order(reply *answer)
{
	gpushare_OrderReply *body = &answer->body.order;

	answer->which_body = gpushare_Reply_order_tag;
	body->id = 1;
}

static void on_hello(const gpushare_Hello *hello, reply *answer)
{
	memcpy(scripted.resumed_by, hello->resume, sizeof(scripted.resumed_by));
	scripted.attempt = hello->attempt;
	answer->which_body = gpushare_Reply_hello_tag;
	answer->body.hello.protocol = GPUSHARE_PROTOCOL;
	answer->body.hello.pid = getpid();
	memset(answer->body.hello.session, (int)play.lives, 16);
}

static void answer_to(const request *ask, bool by_fds, reply *answer)
{
	memset(answer, 0, sizeof(*answer));
	if (ask->which_verb == gpushare_Request_hello_tag) {
		on_hello(&ask->verb.hello, answer);
	} else if (ask->which_verb == gpushare_Request_share_tag) {
		on_share(&ask->verb.share, answer);
	} else if (ask->which_verb == gpushare_Request_resync_tag) {
		on_resync(&ask->verb.resync, answer);
	} else if (ask->which_verb == gpushare_Request_attach_tag && scripted.gives_latest) {
		on_attach(by_fds, answer);
	} else if (ask->which_verb == gpushare_Request_lookup_tag ||
		   ask->which_verb == gpushare_Request_attach_tag) {
		answer->status = GPUSHARE_E_NOT_FOUND;
	} else if (ask->which_verb == gpushare_Request_list_tag) {
		answer->which_body = gpushare_Reply_list_tag;
	} else if (ask->which_verb == gpushare_Request_order_tag) {
		on_order(answer);
	} else if (ask->which_verb == gpushare_Request_commit_tag && play.lost) {
		play.lost = false;
		answer->status = GPUSHARE_E_NOT_FOUND;
	}
}

static bool send_answer(int fd, uint32_t id, reply *answer, bool half)
{
	uint8_t wire[GPUSHARE_MESSAGE_MAX];
	const size_t header = SP_HEADER_SIZE + SP_ID_SIZE;
	size_t size;

	if (codec_encode_reply(answer, wire + header, sizeof(wire) - header, &size))
		return false;
	sp_header(wire, id, size);
	return raw_write(fd, wire, half ? header / 2 : header + size) && !half;
}

static void lose_connections(void)
{
	for (int i = FIRST_PEER; i < FIRST_PEER + PEERS; i++) {
		if (play.sockets[i].fd < 0 || play.carries_fds[i])
			continue;
		close(play.sockets[i].fd);
		play.sockets[i].fd = -1;
	}
}

/* Don't answer until the test changes scripted.mute_at. Call it with the lock held. */
static void stand_still(pb_size_t verb)
{
	while (scripted.mute_at == verb && !play.ends) {
		scripted_unlock();
		poll(NULL, 0, 1);
		scripted_lock();
	}
}

/* false: close the connection instead of answering. */
static bool is_answered(const request *ask, bool by_fds)
{
	pb_size_t verb = ask->which_verb;

	scripted.asked[verb]++;
	if (verb == gpushare_Request_commit_tag && !play.lost && loses(&scripted.lose_staged))
		return false;
	if (by_fds && scripted.lose_fds) {
		scripted.lose_fds--;
		lose_connections();
		return false;
	}
	if (matches_once(&scripted.drop_at, verb)) {
		if (by_fds)
			lose_connections();
		return false;
	}
	if (matches_once(&scripted.end_at, verb)) {
		play.ends = true;
		return false;
	}
	stand_still(verb);
	return !play.ends;
}

/* false: close the connection. */
static bool serve_request(int fd)
{
	static uint8_t body[GPUSHARE_MESSAGE_MAX];
	static request ask;
	static reply answer;
	uint8_t header[SP_HEADER_SIZE + SP_ID_SIZE];
	long size;

	if (!raw_read(fd, header, sizeof(header), RAW_TIMEOUT_MS))
		return false;
	size = sp_header_body_size(header);
	if (size < 0 || !raw_read(fd, body, (size_t)size, RAW_TIMEOUT_MS) ||
	    codec_decode_request(body, (size_t)size, &ask))
		return false;
	play.came = -1;
	if (!is_answered(&ask, false))
		return false;
	answer_to(&ask, false, &answer);
	poll(NULL, 0, (int)scripted.nap_ms);
	return send_answer(fd, sp_id(header + SP_HEADER_SIZE), &answer,
			   matches_once(&scripted.half_at, ask.which_verb));
}

/* The descriptor for the answer; -1: none. */
static int memory_for(const request *ask)
{
	bool wanted = ask->which_verb == gpushare_Request_attach_tag ||
		      (ask->which_verb == gpushare_Request_share_tag && ask->verb.share.adopt) ||
		      (ask->which_verb == gpushare_Request_order_tag && !ask->verb.order.again);

	scripted.given += wanted;
	return wanted && scripted.memory ? scripted.memory : -1;
}

static bool serve_question(int fd, struct fds_header *header, uint8_t *body, size_t size)
{
	static request ask;
	static reply answer;
	int memory;

	if (codec_decode_request(body, size, &ask))
		return false;
	scripted.came += play.came >= 0;
	memory = memory_for(&ask);
	if (!is_answered(&ask, true))
		return false;
	answer_to(&ask, true, &answer);
	poll(NULL, 0, (int)scripted.nap_ms);
	if (codec_encode_reply(&answer, body, GPUSHARE_MESSAGE_MAX, &size))
		return false;
	if (matches_once(&scripted.half_at, ask.which_verb)) {
		fds_send(fd, header, "\xff", 1, -1);
		return false;
	}
	return !fds_send(fd, header, body, size, answer.status ? -1 : memory);
}

static bool serve_fds(int fd)
{
	static uint8_t body[GPUSHARE_MESSAGE_MAX];
	struct fds_header header;
	bool stays = false;
	size_t size;

	if (fds_receive(fd, &header, body, sizeof(body), &size, &play.came))
		return false;
	if (header.verb == FDS_ASK)
		stays = serve_question(fd, &header, body, size);
	if (play.came >= 0)
		close(play.came);
	return stays;
}

static bool serve(int i)
{
	uint8_t greeting[SP_GREETING_SIZE];
	int fd = play.sockets[i].fd;

	if (play.carries_fds[i])
		return serve_fds(fd);
	if (play.greeted[i])
		return serve_request(fd);
	play.greeted[i] = true;
	if (!raw_read(fd, greeting, sizeof(greeting), RAW_TIMEOUT_MS))
		return false;
	sp_greeting(greeting, SP_REP);
	return raw_write(fd, greeting, sizeof(greeting));
}

static void welcome(int listener)
{
	int fd = accept4(play.sockets[listener].fd, NULL, NULL, SOCK_CLOEXEC), i = FIRST_PEER;

	while (i < FIRST_PEER + PEERS - 1 && play.sockets[i].fd >= 0)
		i++;
	play.sockets[i].fd = fd;
	play.greeted[i] = false;
	play.carries_fds[i] = listener == FDS_LISTENER;
}

static void serve_all(void)
{
	for (int i = 0; i < FIRST_PEER + PEERS && !play.ends; i++) {
		if (!(play.sockets[i].revents & (POLLIN | POLLHUP)))
			continue;
		if (i < FIRST_PEER) {
			welcome(i);
		} else if (!serve(i)) {
			scripted.ended++;
			close(play.sockets[i].fd);
			play.sockets[i].fd = -1;
		}
	}
}

static void *run(void *unused)
{
	for (bool ends = false; !ends;) {
		if (poll(play.sockets, FIRST_PEER + PEERS, 10) < 0)
			continue;
		scripted_lock();
		serve_all();
		ends = play.ends;
		scripted_unlock();
	}
	for (int i = 0; i < FIRST_PEER + PEERS; i++) {
		if (play.sockets[i].fd >= 0)
			close(play.sockets[i].fd);
		play.sockets[i].fd = -1;
	}
	return NULL;
}

static int listen_at(const char *path, int type)
{
	struct sockaddr_un at = {.sun_family = AF_UNIX};
	int fd = socket(AF_UNIX, type | SOCK_CLOEXEC, 0);

	snprintf(at.sun_path, sizeof(at.sun_path), "%s", path);
	unlink(path);
	if (bind(fd, (struct sockaddr *)&at, sizeof(at)) || listen(fd, 8))
		abort();
	return fd;
}

void scripted_start(void)
{
	char path[GPUSHARE_PATH_MAX];

	for (int i = 0; i < FIRST_PEER + PEERS; i++)
		play.sockets[i] = (struct pollfd){.fd = -1, .events = POLLIN};
	directory_socket(scripted.directory, path);
	play.sockets[LISTENER].fd = listen_at(path, SOCK_STREAM);
	directory_fds_socket(scripted.directory, path);
	play.sockets[FDS_LISTENER].fd = listen_at(path, SOCK_SEQPACKET);
	play.ends = false;
	play.lives++;
	play.runs = !pthread_create(&play.thread, NULL, run, NULL);
	if (!play.runs)
		abort();
}

void scripted_end(void)
{
	if (!play.runs)
		return;
	scripted_lock();
	play.ends = true;
	scripted_unlock();
	pthread_join(play.thread, NULL);
	play.runs = false;
}

int scripted_set_up(void **state)
{
	scripted = (struct scripted){.generation = 100};
	play.lives = 0;
	strcpy(scripted.directory, "/tmp/gpushare-unit-XXXXXX");
	if (!mkdtemp(scripted.directory))
		return -1;
	setenv("GPUSHARE_DIR", scripted.directory, 1);
	setenv("GPUSHARE_AUTOSTART", "0", 1);
	return 0;
}

int scripted_tear_down(void **state)
{
	char command[128];

	scripted_end();
	snprintf(command, sizeof(command), "rm -rf %s", scripted.directory);
	return system(command);
}
