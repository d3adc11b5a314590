// SPDX-License-Identifier: MIT
/*
 * `drv_unload LIBRARY`: capture a publication into a graph, dlclose() LIBRARY, and launch the
 * graph. Then load LIBRARY again and print the last published number.
 */
#include "api_cuda.h"

typedef struct graph_exec_opaque *graph_exec;

static const char *(*explain)(void);

/* For must(): nothing is linked against the library. */
const char *gpushare_explain(void)
{
	return explain ? explain() : "";
}

#define SYMBOL(library, name) ((__typeof__(&name))found(library, #name))

static void *found(void *library, const char *name)
{
	void *symbol = library ? dlsym(library, name) : NULL;

	must(symbol != NULL, name);
	return symbol;
}

static void capture(void *library, cu_stream stream, cu_graph *graph)
{
	struct gpushare_session *session;
	struct gpushare_buffer *buffer;

	MUST(SYMBOL(library, gpushare_open)(NULL, &session));
	MUST(SYMBOL(library, gpushare_alloc)(session, "frame", -1, 4096, &buffer));
	MUST(cu.cuStreamBeginCapture_v2(stream, CU_CAPTURE_GLOBAL));
	MUST(SYMBOL(library, gpushare_publish)(buffer, stream, NULL));
	MUST(cu.cuStreamEndCapture(stream, graph));
}

static uint64_t published(const char *path)
{
	void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
	struct gpushare_session *session;
	struct gpushare_buffer *buffer;
	uint64_t number;

	MUST(SYMBOL(library, gpushare_open)(NULL, &session));
	MUST(SYMBOL(library, gpushare_attach)(session, "frame", NULL, &buffer));
	MUST(SYMBOL(library, gpushare_sequence)(buffer, &number));
	MUST(SYMBOL(library, gpushare_close)(session));
	return number;
}

int main(int count, char **argument)
{
	void *library;
	cu_result (*instantiate)(graph_exec *, cu_graph, unsigned long long);
	cu_result (*launch)(graph_exec, cu_stream);
	cu_stream stream;
	cu_graph graph;
	graph_exec exec;

	must(count == 2, "LIBRARY");
	*(void **)&instantiate = cuda_call("cuGraphInstantiateWithFlags");
	*(void **)&launch = cuda_call("cuGraphLaunch");
	cuda_start();
	MUST(cu.cuStreamCreate(&stream, CU_STREAM_NONBLOCKING));
	library = dlopen(argument[1], RTLD_NOW | RTLD_LOCAL);
	explain = SYMBOL(library, gpushare_explain);
	capture(library, stream, &graph);
	explain = NULL;
	MUST(dlclose(library));
	MUST(instantiate(&exec, graph, 0));
	MUST(launch(exec, stream));
	MUST(cu.cuStreamSynchronize(stream));
	printf("published %llu\n", (unsigned long long)published(argument[1]));
	return 0;
}
