/* JSON as the trainer writes it: straight to a stream, always one line, strings escaped. */
#ifndef TRAINER_JSON_H
#define TRAINER_JSON_H
#include <stdint.h>
#include <stdio.h>
#include "../controller/controller.h"

void json_string(FILE *to, const char *text);                  /* quoted; bytes below 32, quotes and backslashes escaped */
void json_real(FILE *to, double value);                        /* %.9g; a value JSON cannot say becomes null */
void json_dims(FILE *to, const Model *m, const int64_t *dims); /* {"batch":2,"seq":7} */
void json_shape(FILE *to, int rank, const int64_t *dims);      /* [2,7] */
#endif
