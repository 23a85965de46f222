// Reads JSON in place, without a tree and without recursion.

#include "perpend.h"

#include <stdlib.h>
#include <string.h>

static bool is_space(char c) {
    return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

static perpend_text after(perpend_text text, size_t n) {
    return (perpend_text){text.at + n, text.len - n};
}

static perpend_text skip_space(perpend_text text) {
    while (text.len && is_space(text.at[0])) text = after(text, 1);
    return text;
}

// The length of the string at the beginning of the text, with quotes; 0 when it does not end.
static size_t string_length(perpend_text text) {
    for (size_t i = 1; i < text.len; i++) {
        if (text.at[i] == '\\') i++;
        else if (text.at[i] == '"') return i + 1;
    }
    return 0;
}

// The length of the value at the beginning of the text; 0 when it does not end.
static size_t value_length(perpend_text text) {
    size_t depth = 0, i = 0;
    while (i < text.len) {
        char c = text.at[i];
        if (c == '"') {
            size_t n = string_length(after(text, i));
            if (n == 0) return 0;
            i += n;
        } else if (c == '[' || c == '{') {
            depth++, i++;
        } else if (c == ']' || c == '}') {
            if (depth == 0) return 0;
            depth--, i++;
        } else if (depth && (c == ',' || c == ':' || is_space(c))) {
            i++;
            continue;
        } else {
            size_t from = i;
            while (i < text.len && !is_space(text.at[i]) && !strchr(",:]}[{\"", text.at[i])) i++;
            if (i == from) return 0;
        }
        if (depth == 0) return i;
    }
    return 0;
}

static perpend_json_kind kind_of(char first) {
    switch (first) {
    case '{': return PERPEND_OBJECT;
    case '[': return PERPEND_ARRAY;
    case '"': return PERPEND_STRING;
    case 't':
    case 'f': return PERPEND_BOOLEAN;
    case 'n': return PERPEND_NULL;
    default: return first == '-' || (first >= '0' && first <= '9') ? PERPEND_NUMBER : PERPEND_ABSENT;
    }
}

perpend_json perpend_json_of(perpend_text text) {
    text = skip_space(text);
    size_t len = value_length(text);
    if (len == 0) return (perpend_json){PERPEND_ABSENT, {0, 0}};
    return (perpend_json){kind_of(text.at[0]), {text.at, len}};
}

// Iterates over the members of an object or the elements of an array.
typedef struct {
    perpend_text rest;
    bool is_object;
} walk;

static walk walk_of(perpend_json value) {
    bool is_object = value.kind == PERPEND_OBJECT;
    if (!is_object && value.kind != PERPEND_ARRAY) return (walk){{0, 0}, false};
    // Without the brackets.
    return (walk){{value.raw.at + 1, value.raw.len - 2}, is_object};
}

static bool next(walk *walk, perpend_text *key, perpend_json *value) {
    perpend_text rest = skip_space(walk->rest);
    if (walk->is_object) {
        if (!rest.len || rest.at[0] != '"') return false;
        size_t len = string_length(rest);
        if (len == 0) return false;
        *key = (perpend_text){rest.at, len};
        rest = skip_space(after(rest, len));
        if (!rest.len || rest.at[0] != ':') return false;
        rest = skip_space(after(rest, 1));
    }
    *value = perpend_json_of(rest);
    if (value->kind == PERPEND_ABSENT) return false;
    rest = skip_space(after(rest, value->raw.len));
    if (rest.len && rest.at[0] == ',') rest = after(rest, 1);
    walk->rest = rest;
    return true;
}

perpend_json perpend_json_get(perpend_json object, const char *key) {
    perpend_json value, absent = {PERPEND_ABSENT, {0, 0}};
    if (object.kind != PERPEND_OBJECT) return absent;
    perpend_text name, expected_name = perpend_text_of(key);
    for (walk at = walk_of(object); next(&at, &name, &value);) {
        perpend_json string = {PERPEND_STRING, name};
        if (perpend_equal(perpend_json_string(string, absent.raw), expected_name)) return value;
    }
    return absent;
}

perpend_json perpend_json_at(perpend_json array, size_t index) {
    perpend_json value;
    perpend_text name;
    if (array.kind == PERPEND_ARRAY)
        for (walk at = walk_of(array); next(&at, &name, &value);)
            if (index-- == 0) return value;
    return (perpend_json){PERPEND_ABSENT, {0, 0}};
}

size_t perpend_json_count(perpend_json value) {
    size_t count = 0;
    perpend_text name;
    perpend_json ignored;
    for (walk at = walk_of(value); next(&at, &name, &ignored);) count++;
    return count;
}

bool perpend_json_boolean(perpend_json value, bool otherwise) {
    return value.kind == PERPEND_BOOLEAN ? value.raw.at[0] == 't' : otherwise;
}

double perpend_json_number(perpend_json value, double otherwise) {
    if (value.kind != PERPEND_NUMBER) return otherwise;
    char *text = malloc(value.raw.len + 1);
    if (!text) abort();
    memcpy(text, value.raw.at, value.raw.len);
    text[value.raw.len] = 0;
    double number = strtod(text, NULL);
    free(text);
    return number;
}

static unsigned hex4(const char *at) {
    unsigned code = 0;
    for (int i = 0; i < 4; i++) {
        char c = at[i] | 0x20;
        unsigned digit = c >= 'a' && c <= 'f' ? (unsigned)(c - 'a') + 10 : (unsigned)(c - '0') & 15;
        code = code << 4 | digit;
    }
    return code;
}

static char *utf8(char *to, unsigned code) {
    if (code < 0x80) {
        *to++ = (char)code;
    } else if (code < 0x800) {
        *to++ = (char)(0xC0 | code >> 6);
        *to++ = (char)(0x80 | (code & 63));
    } else if (code < 0x10000) {
        *to++ = (char)(0xE0 | code >> 12);
        *to++ = (char)(0x80 | (code >> 6 & 63));
        *to++ = (char)(0x80 | (code & 63));
    } else {
        *to++ = (char)(0xF0 | code >> 18);
        *to++ = (char)(0x80 | (code >> 12 & 63));
        *to++ = (char)(0x80 | (code >> 6 & 63));
        *to++ = (char)(0x80 | (code & 63));
    }
    return to;
}

perpend_text perpend_json_string(perpend_json value, perpend_text otherwise) {
    if (value.kind != PERPEND_STRING) return otherwise;
    const char *from = value.raw.at + 1, *end = value.raw.at + value.raw.len - 1;
    if (!memchr(from, '\\', (size_t)(end - from))) return (perpend_text){from, (size_t)(end - from)};
    char *text = malloc(value.raw.len);
    if (!text) abort();
    char *to = text;
    while (from < end) {
        if (*from != '\\' || from + 1 == end) {
            *to++ = *from++;
            continue;
        }
        char c = from[1];
        from += 2;
        if (c == 'u' && end - from >= 4) {
            unsigned code = hex4(from);
            from += 4;
            bool is_pair = code >= 0xD800 && code < 0xDC00 && end - from >= 6 && from[0] == '\\' && from[1] == 'u';
            unsigned low = is_pair ? hex4(from + 2) : 0;
            if (low >= 0xDC00 && low < 0xE000) {
                code = 0x10000 + ((code - 0xD800) << 10) + (low - 0xDC00);
                from += 6;
            }
            // A lone surrogate is not a character.
            to = utf8(to, code >= 0xD800 && code < 0xE000 ? 0xFFFD : code);
        } else {
            const char *named = strchr("b\bf\fn\nr\rt\t", c);
            *to++ = named && c ? named[1] : c;
        }
    }
    return (perpend_text){text, (size_t)(to - text)};
}

perpend_text perpend_json_quote(perpend_text text) {
    static const char digits[] = "0123456789abcdef";
    char *quoted = malloc(6 * text.len + 2), *to = quoted;
    if (!quoted) abort();
    *to++ = '"';
    for (size_t i = 0; i < text.len; i++) {
        unsigned char c = (unsigned char)text.at[i];
        if (c == '"' || c == '\\') {
            *to++ = '\\';
            *to++ = (char)c;
        } else if (c < 0x20) {
            memcpy(to, "\\u00", 4);
            to[4] = digits[c >> 4];
            to[5] = digits[c & 15];
            to += 6;
        } else {
            *to++ = (char)c;
        }
    }
    *to++ = '"';
    return (perpend_text){quoted, (size_t)(to - quoted)};
}
