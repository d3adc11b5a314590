/* SPDX-License-Identifier: MIT */
/* gpushare pull from a node of this host: attach the source here, and let the GPU copy it. If a
 * step fails, the caller reads over the connection instead. */
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

#include "cuda/cuda_abi.h"
#include "pull.h"

void same_host_begin(struct puller *puller)
{
	const struct gpushare_open_options options = {.directory = puller->peer.directory,
						      .no_autostart = 1};
	const char *wanted = getenv("GPUSHARE_SAME_HOST");
	char place[PLACE_MAX];

	place_find(puller->peer.directory, place);
	if (*place && !strcmp(place, puller->peer.place) && !(wanted && !strcmp(wanted, "0")))
		(void)gpushare_open(&options, &puller->beside);
}

void same_host_end(struct puller *puller)
{
	gpushare_close(puller->beside);
	puller->beside = NULL;
}

bool same_host_find(struct puller *puller, const char *name, struct gpushare_info *out)
{
	return puller->beside && !gpushare_stat(puller->beside, name, out) &&
	       !(out->sequence && out->owner_alive);
}

bool same_host_copy(struct puller *puller, struct gpushare_buffer *to)
{
	const struct gpushare_info *version = &puller->version;
	const struct gpushare_attach_options options = {
	    .read_only = 1, .on_device = 1, .device = gpushare_device(to)};
	struct gpushare_buffer *source;
	struct gpushare_info own, now;
	double began = progress_seconds();
	bool good;

	if (gpushare_attach(puller->beside, version->name, &options, &source))
		return false;
	good = !gpushare_buffer_info(source, &own) && own.generation == version->generation &&
	       device_copy(to, source) && !gpushare_stat(puller->beside, version->name, &now) &&
	       now.generation == version->generation && now.sequence == version->sequence;
	gpushare_detach(source);
	puller->took = progress_seconds() - began;
	if (good)
		progress_add(&puller->progress, gpushare_size(to));
	return good;
}

/* X(call): calls of the CUDA driver, which libgpushare has loaded and initialized */
#define CALLS(X) \
	X(cuDeviceGet) \
	X(cuDevicePrimaryCtxRetain) X(cuCtxSetCurrent) X(cuMemcpy) X(cuCtxSynchronize)

bool device_copy(struct gpushare_buffer *to, struct gpushare_buffer *from)
{
	void *driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
	cu_context context;
	cu_device device;

#define X(name) cu_##name##_call *name = driver ? (cu_##name##_call *)dlsym(driver, #name) : NULL;
	CALLS(X)
#undef X
#define X(name) name &&
	return CALLS(X) cuDeviceGet(&device, gpushare_device(to)) == CU_OK &&
	       cuDevicePrimaryCtxRetain(&context, device) == CU_OK &&
	       cuCtxSetCurrent(context) == CU_OK &&
	       cuMemcpy(gpushare_pointer(to), gpushare_pointer(from), gpushare_size(from)) ==
		   CU_OK &&
	       cuCtxSynchronize() == CU_OK;
#undef X
}
