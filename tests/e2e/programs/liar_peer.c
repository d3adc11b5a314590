// SPDX-License-Identifier: MIT
/*
 * `liar_peer DIRECTORY UUID`: share records that are not true with the registry in DIRECTORY, print
 * `told`, and hold them until killed. UUID is a GPU's, 32 hex digits.
 *   event    an event whose handle CUDA never made, at an address where no event is
 *   nowhere  unified memory without an address
 *   loose    unified memory whose file can still be truncated
 *   huge     more bytes than any process can map
 *   far      bytes past the end of the address space
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "client/client.h"
#include "gpushare.h"

#define SIZE ((size_t)3 << 20)
#define SOMEWHERE UINT64_C(0x3a0000000000)

static struct client *client;
static const char *uuid;

static void tell(const char *name, int backing, uint64_t address, uint64_t base_size)
{
	record *what = &client->request.verb.share.buffer;
	int fd = memfd_create("lie", MFD_CLOEXEC | MFD_ALLOW_SEALING);

	client->request = (request){.which_verb = gpushare_Request_share_tag};
	client->request.verb.share.has_buffer = true;
	strcpy(what->name, name);
	what->backing = (uint32_t)backing;
	what->address = address;
	for (int i = 0; i < GPUSHARE_UUID_SIZE; i++)
		sscanf(uuid + 2 * (size_t)i, "%2hhx", &((unsigned char *)what->device_uuid)[i]);
	if (backing == GPUSHARE_BACKING_EVENT) {
		memset(client->request.verb.share.handle, 0x5a, GPUSHARE_HANDLE_SIZE);
	} else {
		what->size = 1000;
		what->base_size = base_size;
		client->goes = fd;
	}
	if (fd < 0 || ftruncate(fd, SIZE) || client_call(client, 0)) {
		fprintf(stderr, "liar_peer: %s: %s\n", name, client->why);
		exit(1);
	}
	close(fd);
}

int main(int argc, char **argv)
{
	const struct client_options options = {.directory = argv[1], .who = "liar"};

	if (argc != 3 || strlen(argv[2]) != 2 * GPUSHARE_UUID_SIZE ||
	    !(client = client_new(&options)))
		return 2;
	uuid = argv[2];
	tell("event", GPUSHARE_BACKING_EVENT, 0xdeadbeef, 0);
	tell("nowhere", GPUSHARE_BACKING_HOST, 0, SIZE);
	tell("loose", GPUSHARE_BACKING_HOST, SOMEWHERE, SIZE);
	tell("huge", GPUSHARE_BACKING_HOST, SOMEWHERE, UINT64_C(1) << 50);
	tell("far", GPUSHARE_BACKING_HOST, UINT64_C(0xffffffffffff0000), SIZE);
	puts("told");
	fflush(stdout);
	for (;;)
		pause();
}
