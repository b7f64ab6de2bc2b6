# SPDX-License-Identifier: GPL-2.0-or-later
# cmake -DNM=... -DELF=... -DOUT=... -P symbols.cmake: write the functions of the image ELF as a table
# in assembly (symbols.h) to OUT. Without ELF the table is empty, for the first of the two links
# (CMakeLists.txt). The table comes after all code, so the second link moves no code.
set(rows "")
set(names "")
set(count 0)
set(offset 0)
if(ELF)
  execute_process(COMMAND ${NM} -n --defined-only ${ELF} OUTPUT_VARIABLE text
    COMMAND_ERROR_IS_FATAL ANY)
  string(REPLACE "\n" ";" lines "${text}")
  set(last "")
  foreach(line IN LISTS lines)
    if(NOT line MATCHES "^0*([0-9a-f]+) [tT] ([A-Za-z][A-Za-z0-9_.]*)$")
      continue()
    endif()
    set(address ${CMAKE_MATCH_1})
    set(name ${CMAKE_MATCH_2})
    # These symbols are marks, not functions.
    if(address STREQUAL last OR name MATCHES "^(branch_(code|entry_jmp|blocks|code_end|done)|chain_end)$")
      continue()
    endif()
    set(last ${address})
    string(LENGTH ${name} length)
    string(APPEND rows "\t.long 0x${address}, ${offset}\n")
    string(APPEND names "\t.asciz \"${name}\"\n")
    math(EXPR offset "${offset} + ${length} + 1")
    math(EXPR count "${count} + 1")
  endforeach()
endif()
file(WRITE ${OUT} "/* Made by symbols.cmake. */
	.section .rodata.symbols, \"a\"
	.p2align 3
	.globl symbol_count, symbol_table, symbol_names
symbol_count:
	.quad ${count}
symbol_table:
${rows}symbol_names:
${names}	.byte 0
	.section .note.GNU-stack, \"\", @progbits
")
