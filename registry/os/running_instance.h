/* SPDX-License-Identifier: MIT */
#ifndef GPUSHARE_REGISTRY_INCUMBENT_H
#define GPUSHARE_REGISTRY_INCUMBENT_H
/* The daemon that serves a directory, as another one sees it: at its fds.sock. */
#include <stdbool.h>
#include <stdint.h>

/* A connection; -1: nobody listens there, or it is somebody else's. */
int running_instance_dial(const char *fds_socket, int *out_pid);
/* Whether it is there to be asked, by then. One that was killed listens as long as the kernel has not
 * come to the last of its threads, and has the lock so long. */
bool running_instance_answers(const char *fds_socket, int64_t deadline_ns);

#endif
