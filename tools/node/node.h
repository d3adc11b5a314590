/* SPDX-License-Identifier: MIT */
#ifndef GPUSHARE_TOOLS_NODE_H
#define GPUSHARE_TOOLS_NODE_H
/* The commands `gpushare node`, `nodes`, `pull` and `ls --nodes`. Functions that return int report
 * errors, and return an enum tool_exit. */
#include <pthread.h>

#include "address.h"
#include "copy/copy.h"

struct node_listen {
	const char *address;   /* NULL: NODE_LISTEN */
	const char *folder;    /* of the TLS files; NULL: the default */
	const char *interface; /* of a trusted network, for tcp:// and UCX; NULL: none */
	const char *registry;  /* the registry's directory; NULL: the default */
	const char *announce;  /* address to register in an etcd; NULL: made from `address` */
	const char *as;	       /* name to register in an etcd; NULL: the host's */
};
#define NODE_LISTEN "tls://0.0.0.0:7411"
/* Serves until a signal ends it. */
int node_serve(const struct node_listen *listen);

/* The name of the process that node_serve() starts for each connection. */
#define NODE_WORKER "gpushare-worker"
/* The worker sets this option of its socket when its peer has completed the handshake. The node has
 * the same socket, and can read the option. */
#define NODE_SPOKE SO_KEEPALIVE
int node_worker(int argc, char **argv);

struct pull {
	struct copy_request copy; /* names: NODE:NAME, patterns are allowed */
	const char *as;		  /* name of the copy; NULL: the same as the source's */
	const char *folder;	  /* of the TLS files; NULL: the default */
	const char *interface;	  /* of a trusted network, for UCX; NULL: none */
	struct gpushare_tag tags[GPUSHARE_TAGS_MAX]; /* set in addition to the source's */
	size_t tag_count;
	const char *via; /* a node that may have copies of the buffers; NULL: none */
	bool follows;	 /* --follow; not with a pattern */
};
int node_pull(const struct pull *pull, struct gpushare_session *session);

struct node_infos {
	struct gpushare_info *list;
	size_t count, room;
};
/* Append a copy of *info. False: out of memory. */
bool node_infos_add(struct node_infos *infos, const struct gpushare_info *info);

/* A question to a node, and what it has answered. */
struct node_answers {
	const struct node *node;
	const char *folder, *glob; /* arguments of nodes_ask() */
	bool lists, threaded;
	pthread_t thread;
	int status;		       /* enum gpushare_status */
	char why[NODES_WHY_MAX + 128]; /* a sentence, if status isn't GPUSHARE_OK */
	char version[32];
	char ucx[16]; /* version of the node's UCX; "": it offers no UCX */
	double round_trip_s;
	struct node_infos infos;
};
/* Ask all nodes at once. Returns an array with one answer for each, in their order; NULL after
 * reporting an error. `lists`: ask also for the buffers that `glob` matches (NULL: all). */
struct node_answers *nodes_ask(struct nodes *nodes, const char *folder, bool lists,
			       const char *glob);
/* Report the nodes that did not answer. Returns `code`, or TOOL_FAILED if there are such nodes. */
int nodes_report(const struct nodes *nodes, const struct node_answers *answers, int code);
void nodes_free_answers(struct nodes *nodes, struct node_answers *answers);

#endif
