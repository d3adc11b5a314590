/* SPDX-License-Identifier: MIT */
/*
 * dlsym(handle, symbol) calls lookup_dlsym(handle, symbol, caller), which returns two words. If the
 * second is 0, the first is dlsym's result. If not, the second is the address of the real dlsym,
 * and this dlsym tail-jumps there, with its caller's arguments and return address: the results for
 * RTLD_NEXT and RTLD_DEFAULT depend on the return address (tests/gpu/FACTS.md).
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
