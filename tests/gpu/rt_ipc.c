/* SPDX-License-Identifier: MIT */
/*
 * An ordinary program of two processes that shares its own buffers by cudaIpc* and knows nothing of
 * gpushare. The child is forked before any use of CUDA.
 */
#include <sys/wait.h>
#include <unistd.h>

#include "rt_check.h"

#define SIZE ((size_t)4 << 20)
#define BUFFERS 3

static unsigned char host[SIZE];

struct sent {
	cudaIpcMemHandle_t handle;
	size_t offset; /* of the exported pointer within its allocation */
};

static void give(int fd, const void *data, size_t size)
{
	if (write(fd, data, size) != (ssize_t)size)
		exit(1);
}

static void take(int fd, void *data, size_t size)
{
	if (read(fd, data, size) != (ssize_t)size)
		exit(1);
}

static int child(int from, int to)
{
	for (int i = 0; i < BUFFERS; i++) {
		void *pointer = NULL, *again = NULL;
		struct sent sent;

		take(from, &sent, sizeof(sent));
		rt_must(cudaIpcOpenMemHandle(&pointer, sent.handle, cudaIpcMemLazyEnablePeerAccess),
			"cudaIpcOpenMemHandle");
		rt_must(cudaMemcpy(host, pointer, SIZE, cudaMemcpyDeviceToHost), "cudaMemcpy");
		printf("child: buffer %d: %016llx\n", i, (unsigned long long)rt_sum(0, host, SIZE));
		rt_must(cudaMemset((char *)pointer + sent.offset, 0xc0 + i, SIZE / 2),
			"cudaMemset");
		rt_must(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
		rt_say("child: open again",
		       cudaIpcOpenMemHandle(&again, sent.handle, cudaIpcMemLazyEnablePeerAccess));
		printf("child: the same address: %s\n", again == pointer ? "yes" : "no");
		rt_say("child: close", cudaIpcCloseMemHandle(pointer));
		rt_say("child: close again", cudaIpcCloseMemHandle(pointer));
		fflush(stdout);
		give(to, &i, sizeof(i));
	}
	return 0;
}

int main(void)
{
	int there[2], back[2], status = 1, done;
	void *pointers[BUFFERS], *mine = NULL;
	pid_t pid;

	if (pipe(there) || pipe(back))
		return 1;
	pid = fork();
	if (!pid) {
		close(there[1]);
		close(back[0]);
		return child(there[0], back[1]);
	}
	close(there[0]);
	close(back[1]);
	for (int i = 0; i < BUFFERS; i++)
		rt_must(cudaMalloc(&pointers[i], SIZE), "cudaMalloc");
	for (int i = 0; i < BUFFERS; i++) {
		struct sent sent = {.offset = (size_t)i * 4096};

		rt_fill(host, SIZE, (unsigned int)i);
		rt_must(cudaMemcpy(pointers[i], host, SIZE, cudaMemcpyHostToDevice), "cudaMemcpy");
		rt_must(cudaIpcGetMemHandle(&sent.handle, (char *)pointers[i] + sent.offset),
			"cudaIpcGetMemHandle");
		rt_say("parent: open its own", cudaIpcOpenMemHandle(&mine, sent.handle, 1));
		fflush(stdout);
		give(there[1], &sent, sizeof(sent));
		take(back[0], &done, sizeof(done));
		rt_must(cudaMemcpy(host, pointers[i], SIZE, cudaMemcpyDeviceToHost), "cudaMemcpy");
		printf("parent: buffer %d: %016llx\n", i,
		       (unsigned long long)rt_sum(0, host, SIZE));
	}
	for (int i = 0; i < BUFFERS; i++)
		rt_say("parent: cudaFree", cudaFree(pointers[i]));
	waitpid(pid, &status, 0);
	printf("allocations: %d\nchild: exit code %d\n", BUFFERS, WEXITSTATUS(status));
	return status != 0;
}
