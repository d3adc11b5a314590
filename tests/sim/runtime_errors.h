/* SPDX-License-Identifier: MIT */
#ifndef GPUSHARE_TESTS_SIM_RUNTIME_ERRORS_H
#define GPUSHARE_TESTS_SIM_RUNTIME_ERRORS_H
/* E(name, value, words): the runtime's error numbers that the simulated driver can cause. */
#define RUNTIME_ERRORS(E) \
	E(cudaSuccess, 0, "no error") \
	E(cudaErrorInvalidValue, 1, "invalid argument") \
	E(cudaErrorMemoryAllocation, 2, "out of memory") \
	E(cudaErrorInitializationError, 3, "initialization error") \
	E(cudaErrorCudartUnloading, 4, "driver shutting down") \
	E(cudaErrorInvalidMemcpyDirection, 21, "invalid copy direction for memcpy") \
	E(cudaErrorInsufficientDriver, 35, "CUDA driver is missing or too old") \
	E(cudaErrorCallRequiresNewerDriver, 36, \
	  "API call is not supported in the installed driver") \
	E(cudaErrorNoDevice, 100, "no CUDA-capable device is detected") \
	E(cudaErrorInvalidDevice, 101, "invalid device ordinal") \
	E(cudaErrorDeviceUninitialized, 201, "invalid device context") \
	E(cudaErrorMapBufferObjectFailed, 205, "mapping of buffer object failed") \
	E(cudaErrorPeerAccessUnsupported, 217, "peer access is not supported") \
	E(cudaErrorOperatingSystem, 304, "OS call failed") \
	E(cudaErrorInvalidResourceHandle, 400, "invalid resource handle") \
	E(cudaErrorIllegalState, 401, "not in the state for this") \
	E(cudaErrorSymbolNotFound, 500, "named symbol not found") \
	E(cudaErrorNotReady, 600, "device not ready") \
	E(cudaErrorIllegalAddress, 700, "an illegal memory access was encountered") \
	E(cudaErrorContextIsDestroyed, 709, "context is destroyed") \
	E(cudaErrorHostMemoryAlreadyRegistered, 712, "host memory is already registered") \
	E(cudaErrorHostMemoryNotRegistered, 713, "host memory is not registered") \
	E(cudaErrorNotPermitted, 800, "operation not permitted") \
	E(cudaErrorNotSupported, 801, "operation not supported") \
	E(cudaErrorStreamCaptureUnsupported, 900, "operation not permitted while capturing") \
	E(cudaErrorStreamCaptureInvalidated, 901, "capture was invalidated") \
	E(cudaErrorStreamCaptureImplicit, 906, "would depend on a capture") \
	E(cudaErrorCapturedEvent, 907, "event was recorded in a capture") \
	E(cudaErrorStreamCaptureWrongThread, 908, "capture ended by another thread") \
	E(cudaErrorUnknown, 999, "unknown error")

#endif
