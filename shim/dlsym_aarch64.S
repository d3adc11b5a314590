/* SPDX-License-Identifier: MIT */
/*
 * dlsym(handle, symbol): ask lookup_dlsym(handle, symbol, caller). It returns two words: the
 * answer, and the real dlsym to go on to, or 0. Going on is a tail jump with the caller's own
 * registers and return address: RTLD_NEXT and RTLD_DEFAULT depend on who called (FACTS.md).
 */
	.text
	.globl dlsym
	.type dlsym, %function
	.p2align 4
dlsym:
	.cfi_startproc
	hint #34 /* bti c */
	stp x29, x30, [sp, #-32]!
	.cfi_def_cfa_offset 32
	.cfi_offset 29, -32
	.cfi_offset 30, -24
	mov x29, sp
	stp x0, x1, [sp, #16]
	mov x2, x30
	bl lookup_dlsym
	cbz x1, 1f
	mov x16, x1
	ldp x0, x1, [sp, #16]
	ldp x29, x30, [sp], #32
	.cfi_def_cfa_offset 0
	.cfi_restore 29
	.cfi_restore 30
	br x16
1:	ldp x29, x30, [sp], #32
	ret
	.cfi_endproc
	.size dlsym, . - dlsym
	.section .note.GNU-stack, "", %progbits
