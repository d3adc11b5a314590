/* SPDX-License-Identifier: MIT */
/* Ask all nodes of the list at the same time, each in a thread, so that a node that doesn't answer
 * doesn't delay the others. */
#include <stdlib.h>
#include <string.h>

#include "copy/progress.h"
#include "node.h"
#include "peer.h"

#define STACK_SIZE ((size_t)1 << 20) /* bytes; each node has a thread */

static void *ask_one(void *user)
{
	struct node_answers *answers = user;
	struct peer peer;
	double began;

	answers->status = peer_open(&peer, answers->node, answers->folder);
	began = progress_seconds();
	/* Time a second Hello: the first, in peer_open(), also waited for the worker to start. */
	if (!answers->status)
		answers->status = peer_hello(&peer);
	answers->round_trip_s = progress_seconds() - began;
	if (!answers->status && answers->lists)
		answers->status = peer_list(&peer, answers->glob, &answers->infos);
	if (answers->status) /* drop an incomplete list */
		answers->infos.count = 0;
	memcpy(answers->version, peer.version, sizeof(answers->version));
	memcpy(answers->ucx, peer.ucx, sizeof(answers->ucx));
	memcpy(answers->why, peer.why, sizeof(answers->why));
	peer_close(&peer);
	return NULL;
}

struct node_answers *nodes_ask(struct nodes *nodes, const char *folder, bool lists,
			       const char *glob)
{
	struct node_answers *answers = calloc(nodes->count + 1, sizeof(*answers));
	pthread_attr_t small;

	if (!answers) {
		tool_error("no memory to ask %zu nodes", nodes->count);
		return NULL;
	}
	pthread_attr_init(&small);
	pthread_attr_setstacksize(&small, STACK_SIZE);
	for (size_t i = 0; i < nodes->count; i++) {
		struct node_answers *one = &answers[i];

		*one = (struct node_answers){
		    .node = &nodes->list[i], .folder = folder, .lists = lists, .glob = glob};
		one->threaded = !pthread_create(&one->thread, &small, ask_one, one);
	}
	pthread_attr_destroy(&small);
	for (size_t i = 0; i < nodes->count; i++) {
		if (answers[i].threaded)
			pthread_join(answers[i].thread, NULL);
		else
			ask_one(&answers[i]);
	}
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
