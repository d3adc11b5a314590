/* SPDX-License-Identifier: MIT */
#include "lone.h"

#include "base/fork_check.h"
#include "unit.h"

struct client lone_client;
static uint8_t out[GPUSHARE_MESSAGE_MAX], in[GPUSHARE_MESSAGE_MAX];
char lone_folder[64];

int lone_set_up(void **state)
{
	lone_client = (struct client){.timeout_ms = SHORTLY_MS,
				      .process = fork_check_number(),
				      .socket.fd = -1,
				      .out = out,
				      .in = in};
	strcpy(lone_folder, "/tmp/gpushare-unit-XXXXXX");
	if (!mkdtemp(lone_folder))
		return -1;
	strcpy(lone_client.directory, lone_folder);
	return 0;
}

int lone_tear_down(void **state)
{
	char command[128];

	client_disconnect(&lone_client);
	snprintf(command, sizeof(command), "rm -rf %s", lone_folder);
	return system(command);
}

void lone_why_has(const char *words)
{
	if (!strstr(lone_client.why, words))
		fail_msg("\"%s\" does not hold \"%s\"", lone_client.why, words);
}
