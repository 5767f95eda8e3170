/* A small JSON writer.  Needs keys inside objects and none inside arrays: anything else is a fault of the caller. */
#include "support/json.h"
#include "support/diag.h"
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

Json json_begin(Buf *out)
{
    return (Json){.out = out};
}

/* How many bytes the UTF-8 character at c takes; 0 where it is malformed (overlong, surrogate, past U+10FFFF, cut off). */
static int utf8_length(const unsigned char *c)
{
    if (c[0] < 0x80) return 1;
    int n = c[0] >= 0xc2 && c[0] <= 0xdf ? 2 : c[0] >= 0xe0 && c[0] <= 0xef ? 3 : c[0] >= 0xf0 && c[0] <= 0xf4 ? 4 : 0;
    for (int i = 1; i < n; i++)
        if ((c[i] & 0xc0) != 0x80) return 0;
    bool overlong = (c[0] == 0xe0 && c[1] < 0xa0) || (c[0] == 0xf0 && c[1] < 0x90);
    bool beyond = (c[0] == 0xed && c[1] > 0x9f) || (c[0] == 0xf4 && c[1] > 0x8f);
    return overlong || beyond ? 0 : n;
}

void json_escape(Buf *out, const char *text)
{
    buf_put(out, "\"");
    for (const unsigned char *c = (const unsigned char *)text; *c;) {
        int n = utf8_length(c);
        if (n == 0) {
            buf_put(out, "\\ufffd");
            n = 1;
        } else if (*c == '"' || *c == '\\') {
            buf_printf(out, "\\%c", *c);
        } else if (*c == '\n') {
            buf_put(out, "\\n");
        } else if (*c == '\t') {
            buf_put(out, "\\t");
        } else if (*c < 0x20 || *c == 0x7f) {
            buf_printf(out, "\\u%04x", *c);
        } else {
            buf_write(out, (const char *)c, (size_t)n);
        }
        c += n;
    }
    buf_put(out, "\"");
}

static void new_line(Json *json)
{
    buf_printf(json->out, "\n%*s", 2 * json->depth, "");
}

/* The comma, the indent and the key before an item. */
static void item(Json *json, const char *key)
{
    if (json->depth == 0) {
        check(!key);
        return;
    }
    bool *has_items = &json->level[json->depth - 1].has_items;
    bool on_one_line = json->level[json->depth - 1].on_one_line;
    check((json->level[json->depth - 1].close == '}') == (key != NULL));
    if (*has_items) buf_put(json->out, on_one_line ? ", " : ",");
    if (!on_one_line) new_line(json);
    *has_items = true;
    if (!key) return;
    json_escape(json->out, key);
    buf_put(json->out, ": ");
}

static void open_level(Json *json, const char *key, char open, bool on_one_line)
{
    item(json, key);
    if (json->depth == JSON_DEPTH) bug("JSON nested deeper than %d", JSON_DEPTH);
    buf_write(json->out, &open, 1);
    if (json->depth && json->level[json->depth - 1].on_one_line) on_one_line = true;
    json->level[json->depth].close = open == '{' ? '}' : ']';
    json->level[json->depth].on_one_line = on_one_line;
    json->level[json->depth].has_items = false;
    json->depth++;
}

void json_object(Json *json, const char *key)
{
    open_level(json, key, '{', false);
}

void json_object_inline(Json *json, const char *key)
{
    open_level(json, key, '{', true);
}

void json_array(Json *json, const char *key)
{
    open_level(json, key, '[', false);
}

void json_array_inline(Json *json, const char *key)
{
    open_level(json, key, '[', true);
}

void json_close(Json *json)
{
    check(json->depth > 0);
    json->depth--;
    if (json->level[json->depth].has_items && !json->level[json->depth].on_one_line) new_line(json);
    buf_write(json->out, &json->level[json->depth].close, 1);
    if (json->depth == 0) buf_put(json->out, "\n");
}

void json_int(Json *json, const char *key, int64_t value)
{
    item(json, key);
    buf_printf(json->out, "%" PRId64, value);
}

void json_real(Json *json, const char *key, double value)
{
    item(json, key);
    if (!isfinite(value)) {
        buf_put(json->out, "null");
        return;
    }
    char text[32];
    for (int digits = 1; digits <= 17; digits++) {
        snprintf(text, sizeof text, "%.*g", digits, value);
        if (strtod(text, NULL) == value) break;
    }
    buf_put(json->out, text);
}

void json_bool(Json *json, const char *key, bool value)
{
    item(json, key);
    buf_put(json->out, value ? "true" : "false");
}

void json_text(Json *json, const char *key, const char *value)
{
    item(json, key);
    if (value)
        json_escape(json->out, value);
    else
        buf_put(json->out, "null");
}
