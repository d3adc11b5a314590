/* SPDX-License-Identifier: MIT */
/* The summary of all checks: which features work. */
#include "doctor.h"

#define AREA "works"

static void say_sharing(struct doctor *doctor, const struct doctor_found *found)
{
	if (found->gpus && found->registry && !found->alone)
		doctor_say(doctor, VERDICT_OK, AREA, NULL,
			   "names and attaching, in the same process or another");
	else
		doctor_say(doctor, VERDICT_FAIL, AREA, "mend what failed above",
			   "no sharing of GPU memory: %s",
			   !found->gpus	      ? "no GPU"
			   : !found->registry ? "no registry"
					      : "a GPU is one process's alone");
}

static void say_vmm(struct doctor *doctor, const struct doctor_found *found)
{
	if (found->vmm)
		doctor_say(
		    doctor, VERDICT_OK, AREA, NULL,
		    "'keep', 'readonly', 'vmm' and 'unified' of rules and gpushare_alloc_with()");
	else
		doctor_say(doctor, VERDICT_WARN, AREA, "use names without those options",
			   "no 'keep', 'readonly' or 'vmm': no cuMemCreate memory here");
}

static void say_map(struct doctor *doctor, const struct doctor_found *found)
{
	if (found->gpus && found->mapped == found->gpus)
		doctor_say(doctor, VERDICT_OK, AREA, NULL,
			   "'map' and gpushare_map(): the CPU's pointers into GPU memory; "
			   "get and put without CUDA");
	else
		doctor_say(doctor, VERDICT_WARN, AREA,
			   "use mirrors and copies, or install the driver's Vulkan part",
			   "no gpushare_map() of %s GPU's memory: Vulkan does not show %s",
			   found->mapped ? "every" : "any", found->mapped ? "them all" : "it");
}

void doctor_works(struct doctor *doctor, const struct doctor_found *found)
{
	say_sharing(doctor, found);
	if (!found->gpus || !found->registry || found->alone)
		return; /* all other features need sharing */
	say_vmm(doctor, found);
	say_map(doctor, found);
}
