/* Epilogues that a library for CUDA has too. */
#ifndef EMIT_KNOWN_EPILOGUE_H
#define EMIT_KNOWN_EPILOGUE_H
#include "emit/emit.h"

/* y, and with GELU x where the gradient will want it, or with its gradient the x that it reads. */
bool known_epilogue(Arena *arena, Symbols *s, const Group *group, KnownEpilogue *known);
#endif
