/* SPDX-License-Identifier: MIT */
/* Ask all nodes of the list at the same time. */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "copy/progress.h"
#include "node.h"
#include "peer.h"

#define STACK_SIZE ((size_t)256 << 10) /* bytes; each node has a thread */

/* What one thread asks. */
struct asking {
	struct node_answers *answers;
	const char *folder, *glob;
	bool lists, threaded;
	pthread_t thread;
};

static void *ask_one(void *user)
{
	struct asking *asking = user;
	struct node_answers *answers = asking->answers;
	struct peer peer;
	double began;

	answers->status = peer_open(&peer, answers->node, asking->folder);
	began = progress_seconds();
	/* to time a Hello: the first, in peer_open(), waited for the worker's start, too */
	if (!answers->status)
		answers->status = peer_hello(&peer);
	answers->round_trip_s = progress_seconds() - began;
	if (!answers->status && asking->lists)
		answers->status = peer_list(&peer, asking->glob, &answers->infos);
	if (answers->status) /* part of a list says nothing about the rest */
		answers->infos.count = 0;
	memcpy(answers->version, peer.version, sizeof(answers->version));
	memcpy(answers->ucx, peer.ucx, sizeof(answers->ucx));
	memcpy(answers->why, peer.why, sizeof(answers->why));
	peer_close(&peer);
	return NULL;
}

/* A thread for each: nodes that don't answer delay none of the others. */
static void ask_all(struct asking *all, size_t count)
{
	pthread_attr_t small;

	pthread_attr_init(&small);
	pthread_attr_setstacksize(&small, STACK_SIZE);
	for (size_t i = 0; i < count; i++)
		all[i].threaded = !pthread_create(&all[i].thread, &small, ask_one, &all[i]);
	pthread_attr_destroy(&small);
	for (size_t i = 0; i < count; i++) {
		if (all[i].threaded)
			pthread_join(all[i].thread, NULL);
		else
			ask_one(&all[i]);
	}
}

struct node_answers *nodes_ask(struct nodes *nodes, const char *folder, bool lists,
			       const char *glob)
{
	struct node_answers *answers = calloc(nodes->count + 1, sizeof(*answers));
	struct asking *all = calloc(nodes->count + 1, sizeof(*all));

	if (!answers || !all) {
		tool_error("no memory to ask %zu nodes", nodes->count);
		free(answers);
		free(all);
		return NULL;
	}
	for (size_t i = 0; i < nodes->count; i++) {
		answers[i].node = &nodes->list[i];
		all[i] = (struct asking){
		    .answers = &answers[i], .folder = folder, .lists = lists, .glob = glob};
	}
	ask_all(all, nodes->count);
	free(all);
	return answers;
}

int nodes_report(const struct nodes *nodes, const struct node_answers *answers, int code)
{
	for (size_t i = 0; i < nodes->count; i++)
		if (answers[i].status) {
			tool_error("%s", answers[i].why);
			code = TOOL_FAILED;
		}
	return code;
}

void nodes_free_answers(struct nodes *nodes, struct node_answers *answers)
{
	for (size_t i = 0; answers && i < nodes->count; i++)
		free(answers[i].infos.list);
	free(answers);
	nodes_free(nodes);
}
