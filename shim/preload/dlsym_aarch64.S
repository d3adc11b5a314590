/* SPDX-License-Identifier: MIT */
/*
 * dlsym(handle, symbol) calls lookup_dlsym(handle, symbol, caller), which returns two words. If the
 * second is 0, the first is dlsym's result. If not, the second is the address of the real dlsym,
 * and this dlsym tail-jumps there, with its caller's arguments and return address: the results for
 * RTLD_NEXT and RTLD_DEFAULT depend on the return address (tests/gpu/FACTS.md).
 *
 * On a processor
 * without branch protection the hints do nothing. A jump by x16 may land on the "bti c" of a
 * function.
 */
	.text
	.globl dlsym
	.type dlsym, %function
	.p2align 4
dlsym:
	.cfi_startproc
	hint #34 /* bti c */
	mov x2, x30
	hint #25 /* paciasp */
	.cfi_negate_ra_state
	stp x29, x30, [sp, #-32]!
	.cfi_def_cfa_offset 32
	.cfi_offset 29, -32
	.cfi_offset 30, -24
	mov x29, sp
	stp x0, x1, [sp, #16]
	bl lookup_dlsym
	cbz x1, 1f
	mov x16, x1
	ldp x0, x1, [sp, #16]
	.cfi_remember_state
	ldp x29, x30, [sp], #32
	.cfi_def_cfa_offset 0
	.cfi_restore 29
	.cfi_restore 30
	hint #29 /* autiasp */
	.cfi_negate_ra_state
	br x16
1:	.cfi_restore_state
	ldp x29, x30, [sp], #32
	.cfi_def_cfa_offset 0
	.cfi_restore 29
	.cfi_restore 30
	hint #29 /* autiasp */
	.cfi_negate_ra_state
	ret
	.cfi_endproc
	.size dlsym, . - dlsym
/* Declares the branch protection. If one object file lacks this note, the linker leaves the note
 * out of the library. */
	.section .note.gnu.property, "a"
	.p2align 3
	.word 4, 16, 5
	.asciz "GNU"
	.word 0xc0000000, 4, 3, 0 /* AArch64's features: BTI, PAC */
	.section .note.GNU-stack, "", %progbits
