/* Writes JSON into a Buf: one item a line, or a whole level on one line where it is opened "inline".
 *
 *     Json j = json_begin(&buf);
 *     json_object(&j, NULL);
 *     json_int(&j, "kernels", 7);
 *     json_array_inline(&j, "dims");
 *     json_text(&j, NULL, "batch");
 *     json_close(&j);
 *     json_close(&j);
 *
 * The key is NULL inside an array and at the top.  Numbers that JSON does not know (nan, inf) become null. */
#ifndef SUPPORT_JSON_H
#define SUPPORT_JSON_H
#include "support/arena.h"

enum { JSON_DEPTH = 64 };
typedef struct {
    Buf *out;
    int depth;
    struct {
        char close; /* } or ] */
        bool on_one_line, has_items;
    } level[JSON_DEPTH];
} Json;

Json json_begin(Buf *out);
void json_object(Json *json, const char *key);
void json_object_inline(Json *json, const char *key);
void json_array(Json *json, const char *key);
void json_array_inline(Json *json, const char *key);
void json_close(Json *json); /* the object or array opened last; a new line follows the outermost */
void json_int(Json *json, const char *key, int64_t value);
void json_real(Json *json, const char *key, double value); /* shortest text that reads back as the same double */
void json_bool(Json *json, const char *key, bool value);
void json_text(Json *json, const char *key, const char *value); /* NULL becomes null */
void json_escape(Buf *out, const char *text);                   /* with its quotes; bytes that are no UTF-8 become U+FFFD */
#endif
