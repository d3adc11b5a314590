/* SPDX-License-Identifier: MIT */
/* The runtime's errors: each thread's last one, and their names. */
#include "runtime_errors.h"
#include "runtime_sim.h"

static _Thread_local cudaError_t error_last;

#define E(name, value, words) _Static_assert((int)name == value, #name);
RUNTIME_ERRORS(E)
#undef E

cudaError_t runtime_note(cudaError_t error)
{
	if (error != cudaSuccess && error != cudaErrorNotReady)
		error_last = error;
	return error;
}

cudaError_t cudaGetLastError(void)
{
	cudaError_t error = error_last;

	error_last = cudaSuccess;
	return error;
}

const char *cudaGetErrorName(cudaError_t error)
{
	switch ((int)error) {
#define E(name, value, words) \
	case value: \
		return #name;
		RUNTIME_ERRORS(E)
#undef E
	default:
		return "unrecognized error code";
	}
}

const char *cudaGetErrorString(cudaError_t error)
{
	switch ((int)error) {
#define E(name, value, words) \
	case value: \
		return words;
		RUNTIME_ERRORS(E)
#undef E
	default:
		return "unrecognized error code";
	}
}
