# Files embedded in disc-gen (generator/emit/embed.h): a table of paths and of what .incbin reads.  Made anew when a file changes,
# comes or goes.  Needs GEN and OBJ.
EMBEDDED := $(sort $(wildcard runtime/*/*.h runtime/*/*.c runtime/*/*.cu runtime/*/*.cpp templates/*))

$(shell mkdir -p $(GEN); echo '$(EMBEDDED)' | cmp -s - $(GEN)/embedded.list || echo '$(EMBEDDED)' >$(GEN)/embedded.list)

$(GEN)/embedded.S: $(GEN)/embedded.list generator/emit/embed.mk
	@mkdir -p $(@D)
	@{ n=0; for f in $(EMBEDDED); do \
	     printf '.section .rodata\npath_%d: .asciz "%s"\n.balign 16\nfile_%d: .incbin "%s"\nend_%d: .byte 0\n' $$n $$f $$n $$f $$n; n=$$((n + 1)); \
	   done; \
	   printf '.section .data.rel.ro,"aw"\n.balign 8\n.globl embedded_files\nembedded_files:\n'; \
	   n=0; for f in $(EMBEDDED); do printf '.quad path_%d, file_%d, end_%d\n' $$n $$n $$n; n=$$((n + 1)); done; \
	   printf '.quad 0, 0, 0\n.section .note.GNU-stack,"",%%progbits\n'; } >$@

$(OBJ)/embedded.o: $(GEN)/embedded.S $(EMBEDDED)
	@mkdir -p $(@D)
	@echo "  EMBED    runtime templates"; $(CC) -c -o $@ $<
