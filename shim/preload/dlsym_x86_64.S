/* SPDX-License-Identifier: MIT */
/*
 * dlsym(handle, symbol): ask lookup_dlsym(handle, symbol, caller). It returns two words: the
 * answer, and the real dlsym to go on to, or 0. Going on is a tail jump with the caller's own
 * registers and return address: RTLD_NEXT and RTLD_DEFAULT depend on the caller
 * (tests/gpu/FACTS.md).
 */
	.text
	.globl dlsym
	.type dlsym, @function
	.p2align 4
dlsym:
	.cfi_startproc
	endbr64
	pushq %rdi
	.cfi_adjust_cfa_offset 8
	pushq %rsi
	.cfi_adjust_cfa_offset 8
	subq $8, %rsp
	.cfi_adjust_cfa_offset 8
	movq 24(%rsp), %rdx
	call lookup_dlsym
	addq $8, %rsp
	.cfi_adjust_cfa_offset -8
	popq %rsi
	.cfi_adjust_cfa_offset -8
	popq %rdi
	.cfi_adjust_cfa_offset -8
	testq %rdx, %rdx
	jz 1f
	jmp *%rdx
1:	ret
	.cfi_endproc
	.size dlsym, . - dlsym
	.section .note.GNU-stack, "", @progbits
