/* SPDX-License-Identifier: MIT */
/* The summary of all checks: which features work. */
#include "doctor.h"

#define AREA "works"

static void say_sharing(const struct doctor_found *found)
{
	if (found->gpus && found->registry && !found->alone)
		doctor_ok(AREA, "names and attaching, in the same process or another");
	else
		doctor_fail(AREA, "repair what failed above", "no sharing of GPU memory: %s",
			    !found->gpus       ? "no GPU"
			    : !found->registry ? "no registry"
					       : "a GPU's compute mode forbids it");
}

static void say_vmm(const struct doctor_found *found)
{
	if (found->vmm)
		doctor_ok(AREA, "the options 'keep', 'readonly', 'vmm' and 'unified' of rules, and "
				"gpushare_alloc_with()");
	else
		doctor_warn(
		    AREA, "use names without those options",
		    "no 'keep', 'readonly' or 'vmm': cuMemCreate memory can't be shared here");
}

static void say_map(const struct doctor_found *found)
{
	if (found->gpus && found->mapped == found->gpus)
		doctor_ok(AREA, "'map' and gpushare_map(): the CPU's pointers into GPU memory; "
				"get and put without CUDA");
	else
		doctor_warn(AREA, "use mirrors and copies, or install the driver's Vulkan part",
			    "no gpushare_map() for the memory of %s: Vulkan does not show %s",
			    found->mapped ? "every GPU" : "any GPU",
			    found->mapped ? "them all" : "it");
}

void doctor_works(const struct doctor_found *found)
{
	say_sharing(found);
	if (!found->gpus || !found->registry || found->alone)
		return; /* all other features need sharing */
	say_vmm(found);
	say_map(found);
}
