/* SPDX-License-Identifier: MIT */
/*
 * An ordinary CUDA program, written without gpushare. It fills a buffer on the GPU and polls the
 * first bytes until they change. Then it saves the buffer to FILE and stays until SIGTERM. After 30
 * s it gives up.
 */
#include <cuda_runtime_api.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define CANVAS_SIZE (1 << 20)
#define PATIENCE_MS 30000

static volatile sig_atomic_t told_to_stop;

static void stop(int signal)
{
	told_to_stop = 1;
}

static void must(cudaError_t error, const char *what)
{
	if (error == cudaSuccess)
		return;
	fprintf(stderr, "painter: %s: %s\n", what, cudaGetErrorString(error));
	exit(1);
}

static int save(const char *path, const char *bytes)
{
	FILE *file = fopen(path, "wb");
	size_t written;

	if (!file)
		return -1;
	written = fwrite(bytes, 1, CANVAS_SIZE, file);
	return fclose(file) || written != CANVAS_SIZE ? -1 : 0;
}

int main(int count, char **argument)
{
	static char picture[CANVAS_SIZE], seen[CANVAS_SIZE];
	void *canvas = NULL;
	int waited_ms = 0;

	if (count != 2) {
		fprintf(stderr, "usage: painter FILE\n");
		return 2;
	}
	setvbuf(stdout, NULL, _IOLBF, 0);
	signal(SIGTERM, stop);
	for (size_t i = 0; i < CANVAS_SIZE; i++)
		picture[i] = (char)(i * 31 + (i >> 8) * 7);
	strcpy(picture, "painted by the painter");

	must(cudaMalloc(&canvas, CANVAS_SIZE), "cudaMalloc");
	must(cudaMemcpy(canvas, picture, CANVAS_SIZE, cudaMemcpyHostToDevice), "cudaMemcpy");
	printf("painter %d: 1 MiB on the GPU reads \"%s\"\n", (int)getpid(), picture);
	for (;;) {
		must(cudaMemcpy(seen, canvas, 64, cudaMemcpyDeviceToHost), "cudaMemcpy");
		if (memcmp(seen, picture, 64) != 0)
			break;
		if (told_to_stop || waited_ms >= PATIENCE_MS) {
			fprintf(stderr, "painter: nobody touched the canvas\n");
			return 1;
		}
		usleep(5000);
		waited_ms += 5;
	}
	must(cudaMemcpy(seen, canvas, CANVAS_SIZE, cudaMemcpyDeviceToHost), "cudaMemcpy");
	if (save(argument[1], seen)) {
		fprintf(stderr, "painter: %s can't be written\n", argument[1]);
		return 1;
	}
	printf("painter %d: my buffer now reads \"%.63s\"\n", (int)getpid(), seen);
	for (; !told_to_stop && waited_ms < PATIENCE_MS; waited_ms += 5)
		usleep(5000);
	must(cudaFree(canvas), "cudaFree");
	return told_to_stop ? 0 : 1;
}
