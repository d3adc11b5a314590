/* SPDX-License-Identifier: MIT */
/* Buffers as DLPack tensors. A tensor keeps the memory and the session until its deleter is
 * called. */
#include "api_session.h"

#include <string.h>

#include "base/cleanup.h"
#include "base/fork_check.h"
#include "dlpack.h"

#define NDIM_MAX 64

struct tensor {
	union {
		struct dlpack_plain plain;
		struct dlpack_versioned versioned;
	} managed; /* first member: its address is the tensor's */
	struct gpushare_buffer *buffer;
	/* fork_check_number() of the maker; in a forked child, `buffer` may have been freed */
	unsigned int process;
	int64_t dims[]; /* the shape, then the strides */
};

static const struct gpushare_dlpack_options BYTES = {0};

static size_t element_bits(const struct gpushare_dlpack_options *options)
{
	size_t bits = options->bits ? options->bits : 8;

	return bits * (options->lanes ? options->lanes : 1);
}

static int check_place(const struct gpushare_buffer *buffer, int device_type)
{
	bool unified = buffer->info.backing == GPUSHARE_BACKING_HOST;

	if (buffer->host_only)
		return api_fail(GPUSHARE_E_NOT_SUPPORTED,
				"'%s' is attached host_only: it has no address for a tensor; "
				"gpushare_map() gives the CPU one",
				buffer->info.name);
	if (!device_type || device_type == DLPACK_CUDA)
		return GPUSHARE_OK;
	if (device_type != DLPACK_CPU && device_type != DLPACK_CUDA_HOST)
		return api_fail(GPUSHARE_E_INVALID,
				"a tensor of '%s' can have DLPack's device type 1, 2 or 3, not %d",
				buffer->info.name, device_type);
	if (unified)
		return GPUSHARE_OK;
	return api_fail(GPUSHARE_E_NOT_SUPPORTED,
			"'%s' is in the GPU's memory, so it can't be a tensor of the CPU; use "
			"gpushare_map() or gpushare_mirror_open()",
			buffer->info.name);
}

/* The shape's bytes must lie in the buffer. */
static int check_shape(const struct gpushare_buffer *buffer,
		       const struct gpushare_dlpack_options *options)
{
	size_t length = element_bits(options) / 8;
	int64_t stride = 1;

	if (element_bits(options) % 8)
		return api_fail(GPUSHARE_E_INVALID,
				"a tensor's element of %u bits is not a whole number of bytes",
				(unsigned int)options->bits);
	if (options->ndim < 0 || options->ndim > NDIM_MAX || (options->ndim && !options->shape))
		return api_fail(
		    GPUSHARE_E_INVALID,
		    "a tensor of '%s' needs 0 to %d dimensions and a shape; ndim is %d, the "
		    "shape %s",
		    buffer->info.name, NDIM_MAX, options->ndim, options->shape ? "given" : "NULL");
	for (int i = 0; i < options->ndim; i++) {
		if (options->shape[i] < 0)
			return api_fail(GPUSHARE_E_INVALID, "dimension %d of a tensor is %lld", i,
					(long long)options->shape[i]);
		if (__builtin_mul_overflow(length, (size_t)options->shape[i], &length))
			return api_fail(GPUSHARE_E_INVALID, "that shape is larger than any buffer");
		/* one dimension of 0 leaves no bytes, whatever the others are */
		if (__builtin_mul_overflow(stride, options->shape[i] ? options->shape[i] : 1,
					   &stride))
			return api_fail(GPUSHARE_E_INVALID,
					"that shape's strides don't fit into 64 bits");
	}
	return transfer_check(buffer, options->offset, length, false);
}

static int check(const struct gpushare_buffer *buffer,
		 const struct gpushare_dlpack_options *options, void *const *out_managed)
{
	int status = API_NEED(session_check_buffer(buffer), out_managed);

	if (!status)
		status = check_place(buffer, options->device_type);
	/* without options, the tensor is the whole buffer */
	return status || options == &BYTES ? status : check_shape(buffer, options);
}

/* Wait for the GPU's work on the buffer before its memory is freed or unmapped. False: a stream
 * capture prevents the wait. */
static bool settle(const struct gpushare_buffer *buffer)
{
	_device_scope_ struct device_scope scope = {NULL};
	const struct driver *driver = buffer->session->driver;
	cu_result result;

	if (buffer->kind != BUFFER_ALLOCATED && buffer->kind != BUFFER_ATTACHED)
		return true; /* the memory is the program's, its context may have ended */
	if (device_enter_relaxed(driver, buffer->context, &scope) != GPUSHARE_OK)
		return true; /* no work can be waited for in a context that can't be entered */
	result = deferred_stand_in(driver); /* waits like cuMemFree, invalidates no capture */
	if (result != CU_OK && result != CU_STREAM_CAPTURE_UNSUPPORTED)
		result = driver->cuCtxSynchronize();
	return result != CU_STREAM_CAPTURE_UNSUPPORTED;
}

/* The deleter's caller may hold any lock and have any context current. It may call at exit. */
static void tensor_end(struct tensor *tensor)
{
	struct gpushare_buffer *buffer = tensor->buffer;
	struct gpushare_session *session;
	bool stays, close;

	if (tensor->process != fork_check_number()) {
		free(tensor); /* the buffer and the session are the parent's */
		return;
	}
	free(tensor);
	session = buffer->session;
	pthread_mutex_lock(&session->lock);
	stays = buffer->count || buffer->users > 1;
	if (stays)
		buffer->users--;
	pthread_mutex_unlock(&session->lock);
	if (!stays) {
		if (!settle(buffer))
			return; /* during a capture: the buffer stays until the process ends */
		(void)session_unuse(buffer);
	}
	pthread_mutex_lock(&session->lock);
	close = --session->tensors == 0 && session->closed;
	pthread_mutex_unlock(&session->lock);
	if (close)
		gpushare_close(session);
}

static void delete_plain(struct dlpack_plain *self)
{
	API_CALL;

	tensor_end((struct tensor *)self);
}

static void delete_versioned(struct dlpack_versioned *self)
{
	API_CALL;

	tensor_end((struct tensor *)self);
}

static void describe(struct tensor *tensor, const struct gpushare_dlpack_options *options,
		     struct dlpack_tensor *out)
{
	const struct gpushare_buffer *buffer = tensor->buffer;
	int type = options->device_type ? options->device_type : DLPACK_CUDA;
	int ndim = options == &BYTES ? 1 : options->ndim;
	int64_t *strides = tensor->dims + ndim, stride = 1;

	for (int i = ndim; i-- > 0;) {
		tensor->dims[i] =
		    options == &BYTES ? (int64_t)buffer->info.size : options->shape[i];
		strides[i] = stride;
		stride *= tensor->dims[i] ? tensor->dims[i] : 1;
	}
	*out = (struct dlpack_tensor){
	    .data = (void *)(uintptr_t)(buffer->pointer + options->offset), // NOLINT
	    .device = {.type = type, .id = type == DLPACK_CUDA ? buffer->device : 0},
	    .ndim = ndim,
	    .type = {.code = options->bits ? options->code : DLPACK_UINT,
		     .bits = options->bits ? options->bits : 8,
		     .lanes = options->lanes ? options->lanes : 1},
	    .shape = ndim ? tensor->dims : NULL,
	    .strides = ndim ? strides : NULL,
	};
}

static void fill(struct tensor *tensor, const struct gpushare_dlpack_options *options)
{
	if (!options->versioned) {
		describe(tensor, options, &tensor->managed.plain.tensor);
		tensor->managed.plain.context = tensor;
		tensor->managed.plain.deleter = delete_plain;
		return;
	}
	tensor->managed.versioned = (struct dlpack_versioned){
	    .major = DLPACK_MAJOR,
	    .minor = DLPACK_MINOR,
	    .context = tensor,
	    .deleter = delete_versioned,
	    .flags = tensor->buffer->read_only ? DLPACK_READ_ONLY : 0,
	};
	describe(tensor, options, &tensor->managed.versioned.tensor);
}

API_PUBLIC int gpushare_dlpack(struct gpushare_buffer *buffer,
			       const struct gpushare_dlpack_options *options, void **out_managed)
{
	API_CALL;
	struct tensor *tensor;
	int status;

	if (!options)
		options = &BYTES;
	status = check(buffer, options, out_managed);
	if (status)
		return status;
	tensor = calloc(1, sizeof(*tensor) + 2 * (size_t)(options->ndim + 1) * sizeof(int64_t));
	if (!tensor)
		return api_fail(GPUSHARE_E_NO_MEMORY, "no memory for a tensor of '%s'",
				buffer->info.name);
	tensor->buffer = buffer;
	tensor->process = fork_check_number();
	fill(tensor, options);
	session_use(buffer);
	pthread_mutex_lock(&buffer->session->lock);
	buffer->session->tensors++;
	pthread_mutex_unlock(&buffer->session->lock);
	*out_managed = tensor;
	return GPUSHARE_OK;
}

/* Find a buffer that the program has not given back. NULL: there is none. */
static struct gpushare_buffer *left(struct gpushare_session *session)
{
	struct gpushare_buffer *buffer;

	pthread_mutex_lock(&session->lock);
	for (buffer = session->buffers; buffer && !buffer->count; buffer = buffer->next)
		;
	pthread_mutex_unlock(&session->lock);
	return buffer;
}

bool dlpack_holds(struct gpushare_session *session)
{
	struct gpushare_buffer *buffer;
	bool holds;

	pthread_mutex_lock(&session->lock);
	holds = session->tensors && !session->closed;
	pthread_mutex_unlock(&session->lock);
	if (!holds)
		return false;
	while ((buffer = left(session)))
		(void)(buffer_is_attached(buffer) ? gpushare_detach(buffer)
						  : gpushare_free(buffer));
	pthread_mutex_lock(&session->lock);
	holds = session->tensors;
	session->closed = holds;
	pthread_mutex_unlock(&session->lock);
	return holds;
}
