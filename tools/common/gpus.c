/* SPDX-License-Identifier: MIT */
#include "gpus.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A folder for each GPU, named by its PCI bus address. nvidia-smi numbers GPUs in that order. */
#define FOLDER "/proc/driver/nvidia/gpus"
#define GPUS_MAX 64

static struct gpu {
	char uuid[TOOL_TEXT_MAX], model[TOOL_TEXT_MAX];
} gpus[GPUS_MAX];

/* Lines are "GPU UUID: <blanks> GPU-..." and "Model: <blanks> NVIDIA H200". */
static void read_gpu(const char *bus, struct gpu *gpu)
{
	char path[sizeof(FOLDER "//information") + 256], line[256];
	FILE *file;

	snprintf(path, sizeof(path), FOLDER "/%s/information", bus);
	file = fopen(path, "re");
	while (file && fgets(line, sizeof(line), file)) {
		sscanf(line, "GPU UUID: %63s", gpu->uuid);
		if (sscanf(line, "Model: NVIDIA %63[^\n]", gpu->model) < 1)
			sscanf(line, "Model: %63[^\n]", gpu->model);
	}
	if (file)
		fclose(file);
}

static int is_gpu(const struct dirent *entry)
{
	return *entry->d_name != '.';
}

/* Returns the number of GPUs; 0 if there are none or more than GPUS_MAX, or if their models
 * differ. */
static int find_gpus(void)
{
	struct dirent **entries = NULL;
	int count = scandir(FOLDER, &entries, is_gpu, alphasort);
	bool alike = count <= GPUS_MAX;

	for (int i = 0; i < count; i++) {
		if (i < GPUS_MAX)
			read_gpu(entries[i]->d_name, &gpus[i]);
		alike = alike && !strcmp(gpus[i].model, gpus[0].model);
		free(entries[i]);
	}
	free(entries);
	return alike && count > 0 ? count : 0;
}

bool gpus_label(const unsigned char uuid[GPUSHARE_UUID_SIZE], char out[TOOL_TEXT_MAX])
{
	static int count = -1;
	char wanted[TOOL_TEXT_MAX], model[TOOL_TEXT_MAX];

	if (count < 0)
		count = find_gpus();
	tool_format_uuid(uuid, wanted);
	for (int i = 0; i < count; i++) {
		if (strcmp(gpus[i].uuid, wanted) != 0)
			continue;
		tool_printable(gpus[i].model, model, sizeof(model));
		snprintf(out, TOOL_TEXT_MAX, "%d %.40s", i, model);
		return true;
	}
	return false;
}
