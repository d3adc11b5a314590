/* SPDX-License-Identifier: MIT */
#ifndef GPUSHARE_SHIM_LINE_H
#define GPUSHARE_SHIM_LINE_H
/*
 * The shim's one connection to the registry, and whose turn it is: one thread's at a time, from
 * line_enter() to line_leave(). After a failure the registry is left alone for a while.
 */
#include "client/client.h"

struct line {
	struct client *client;
	int64_t until_ms; /* this turn's deadline */
};

extern struct line line; /* for whose turn it is */

/* Wait for the turn, by the same deadline as its calls have; E_TIMED_OUT, E_NO_REGISTRY, E_NO_MEMORY: there is
 * none, and `why` says so. */
int line_enter(char *why, size_t why_size);
/* The same for what has to be over by then. */
int line_enter_by(int64_t until_ms, char *why, size_t why_size);
/* The turn over a connection that stands, at once. Else no turn: E_TIMED_OUT: another thread has it, or a
 * registry listens that may be stopped; E_NO_REGISTRY, E_NOT_READY: client_probe(). *out_runs: in place of any
 * of those, another registry runs, which line_enter() connects to. */
int line_enter_standing(bool *out_runs);
/* Then, in nobody's turn, what the registry has asked for is shared again. */
void line_leave(void);
/* Does another thread wait for its turn? One atomic load. */
bool line_is_queued(void);

/* In a turn. A request to fill in; ask it, within what is left of the turn and `extra_ms`. */
request *line_ask(pb_size_t verb);
int line_call(unsigned int extra_ms, char *why, size_t why_size);
/* The same for what is given back: it has a moment even where no time is left, and no registry is
 * started for it but one that would know what is meant. */
int line_give_back(char *why, size_t why_size);
/* Did the latest of them to fail get no answer in time, so that it may have been heard? At any time. */
bool line_is_unanswered(void);
/* At once, in no turn: which connection stands, as client->connections counts them; 0: none does.
 * False: a turn is on, and it can't be told. */
bool line_standing(unsigned int *out_connection);

#endif
