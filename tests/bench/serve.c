// SPDX-License-Identifier: MIT
/*
 * Round trips without gpushare. `serve echo SOCKET`: SOCK_SEQPACKET with a thread for each client.
 * `serve fd SOCKET`: the same with one thread for all, which answers with a descriptor. `serve nng
 * SOCKET`: nng's streams, as the registry uses them, with the greeting of its REP.
 */
#include <nng/nng.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

/* It receives, sends the same bytes back, and repeats. */
struct peer {
	nng_stream *stream;
	nng_aio *aio;
	bool sending;
	size_t size, sent;
	char bytes[4096];
};

static void stop(const char *what)
{
	fprintf(stderr, "serve: %s\n", what);
	exit(1);
}

static void *echo(void *argument)
{
	int fd = (int)(intptr_t)argument;
	char message[4096];
	ssize_t got;

	while ((got = recv(fd, message, sizeof(message), 0)) > 0)
		if (send(fd, message, (size_t)got, MSG_NOSIGNAL) != got)
			break;
	close(fd);
	return NULL;
}

static int listen_at(const char *path)
{
	struct sockaddr_un at = {.sun_family = AF_UNIX};
	int listening = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);

	snprintf(at.sun_path, sizeof(at.sun_path), "%s", path);
	if (bind(listening, (const struct sockaddr *)&at, sizeof(at)) || listen(listening, 128))
		stop("can't listen");
	return listening;
}

static int accept_next(int listening)
{
	int fd = accept4(listening, NULL, NULL, SOCK_CLOEXEC);

	if (fd < 0)
		stop("no client could be taken");
	return fd;
}

static void serve_echo(const char *path)
{
	int listening = listen_at(path);

	for (;;) {
		int fd = accept_next(listening);
		pthread_t thread;

		if (pthread_create(&thread, NULL, echo, (void *)(intptr_t)fd))
			stop("no client could be taken");
		pthread_detach(thread);
	}
}

/* Echo the message and send a descriptor with it: this program's standard input. */
static void answer_with_fd(int fd)
{
	char message[4096], control[CMSG_SPACE(sizeof(int))] = "";
	ssize_t got = recv(fd, message, sizeof(message), 0);
	struct iovec part = {message, got > 0 ? (size_t)got : 0};
	struct msghdr answer = {.msg_iov = &part,
				.msg_iovlen = 1,
				.msg_control = control,
				.msg_controllen = sizeof(control)};
	struct cmsghdr *header = CMSG_FIRSTHDR(&answer);

	header->cmsg_level = SOL_SOCKET;
	header->cmsg_type = SCM_RIGHTS;
	header->cmsg_len = CMSG_LEN(sizeof(int));
	memcpy(CMSG_DATA(header), &(int){STDIN_FILENO}, sizeof(int));
	if (got > 0)
		sendmsg(fd, &answer, MSG_NOSIGNAL);
}

static void serve_fd(const char *path)
{
	int listening = listen_at(path);

	for (;;) {
		int fd = accept_next(listening);

		answer_with_fd(fd);
		close(fd);
	}
}

static void move_on(struct peer *peer)
{
	size_t at = peer->sending ? peer->sent : 0;
	nng_iov part = {peer->bytes + at, (peer->sending ? peer->size : sizeof(peer->bytes)) - at};

	nng_aio_set_iov(peer->aio, 1, &part);
	if (peer->sending)
		nng_stream_send(peer->stream, peer->aio);
	else
		nng_stream_recv(peer->stream, peer->aio);
}

static void on_done(void *argument)
{
	struct peer *peer = argument;

	if (nng_aio_result(peer->aio)) {
		nng_stream_free(peer->stream);
		nng_aio_reap(peer->aio);
		free(peer);
		return;
	}
	if (!peer->sending) {
		peer->size = nng_aio_count(peer->aio);
		peer->sent = 0;
		peer->sending = true;
	} else {
		peer->sent += nng_aio_count(peer->aio);
		peer->sending = peer->sent < peer->size;
	}
	move_on(peer);
}

/* Exchange greetings before anything else. */
static void serve_peer(nng_stream *stream, nng_aio *greeting)
{
	struct peer *peer = calloc(1, sizeof(*peer));
	nng_iov part = {(char[]){0, 'S', 'P', 0, 0, 0x31, 0, 0}, 8};

	if (!peer || nng_aio_alloc(&peer->aio, on_done, peer))
		stop("no memory for a client");
	peer->stream = stream;
	nng_aio_set_iov(greeting, 1, &part);
	nng_stream_send(stream, greeting);
	nng_aio_wait(greeting);
	part.iov_buf = peer->bytes;
	nng_aio_set_iov(greeting, 1, &part);
	nng_stream_recv(stream, greeting);
	nng_aio_wait(greeting);
	if (nng_aio_result(greeting) || nng_aio_count(greeting) != 8)
		stop("a client did not greet");
	move_on(peer);
}

static void serve_nng(const char *path)
{
	nng_stream_listener *listener;
	nng_aio *accepting, *greeting;
	char url[256];

	snprintf(url, sizeof(url), "ipc://%s", path);
	if (nng_aio_alloc(&accepting, NULL, NULL) || nng_aio_alloc(&greeting, NULL, NULL) ||
	    nng_stream_listener_alloc(&listener, url) || nng_stream_listener_listen(listener))
		stop("can't listen");
	for (;;) {
		nng_stream_listener_accept(listener, accepting);
		nng_aio_wait(accepting);
		if (nng_aio_result(accepting))
			stop("no client could be taken");
		serve_peer(nng_aio_get_output(accepting, 0), greeting);
	}
}

int main(int argc, char **argv)
{
	if (argc == 3 && !strcmp(argv[1], "echo"))
		serve_echo(argv[2]);
	if (argc == 3 && !strcmp(argv[1], "fd"))
		serve_fd(argv[2]);
	if (argc == 3 && !strcmp(argv[1], "nng"))
		serve_nng(argv[2]);
	stop("usage: serve echo|fd|nng SOCKET");
}
