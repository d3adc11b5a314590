/* SPDX-License-Identifier: MIT */
#ifndef GPUSHARE_TOOLS_NODE_H
#define GPUSHARE_TOOLS_NODE_H
/* What `gpushare node`, `nodes`, `pull` and `ls --nodes` do. These report errors and return a
 * tool_exit. */
#include "address.h"
#include "copy/copy.h"

struct node_listen {
	const char *address;   /* NULL: NODE_LISTEN */
	const char *folder;    /* of the TLS files; NULL: the default */
	const char *interface; /* a trusted network, for tcp:// and UCX; NULL: none */
	const char *registry;  /* its directory; NULL: the default */
	const char *announce;  /* address for the directory; NULL: the one where it listens */
	const char *as;	       /* name for the directory; NULL: the host's */
};
#define NODE_LISTEN "tls://0.0.0.0:7411"
/* Serves until a signal ends it. */
int node_serve(const struct node_listen *listen);

/* The name of the process that serves one connection; its argument is the registry's directory. */
#define NODE_WORKER "gpushare-worker"
int node_worker(int argc, char **argv);

struct pull {
	struct copy_request copy;		     /* names: NODE:NAME, patterns are allowed */
	const char *as;				     /* NULL: as it is called there */
	const char *folder;			     /* of the TLS files; NULL: the default */
	const char *interface;			     /* a trusted network, for UCX; NULL: none */
	struct gpushare_tag tags[GPUSHARE_TAGS_MAX]; /* to set, beside those it has there */
	size_t tag_count;
	const char *via; /* a node that may have copies; NULL: none */
	bool follows;	 /* not with a pattern */
};
int node_pull(const struct pull *pull, struct gpushare_session *session);

struct node_infos {
	struct gpushare_info *list;
	size_t count, room;
};
/* False: out of memory. */
bool node_infos_add(struct node_infos *infos, const struct gpushare_info *info);

/* What a node has answered. */
struct node_answers {
	const struct node *node;
	int status;		       /* of gpushare.h */
	char why[NODES_WHY_MAX + 128]; /* a sentence, if status isn't GPUSHARE_OK */
	char version[32];
	char ucx[16]; /* of its UCX; "": it offers none */
	double round_trip_s;
	struct node_infos infos;
};
/* Ask all nodes at once; *out gets one for each, in the file's order. `lists`: for the buffers that
 * `glob` matches (NULL: all). Returns NULL after it has reported why. */
struct node_answers *nodes_ask(struct nodes *nodes, const char *folder, bool lists,
			       const char *glob);
/* Report the nodes that did not answer. Returns `code`, or TOOL_FAILED if there are any. */
int nodes_report(const struct nodes *nodes, const struct node_answers *answers, int code);
void nodes_free_answers(struct nodes *nodes, struct node_answers *answers);

#endif
