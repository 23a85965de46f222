// What the files of the SDK share: from the texts of the bindings to those of `perpend.h`, and back.
#ifndef PERPEND_INSIDE_H
#define PERPEND_INSIDE_H

#include "perpend.h"

#include <stdlib.h>
#include <string.h>

static inline void *more(void *at, size_t size) {
    void *grown = realloc(at, size ? size : 1);
    if (!grown) abort();
    return grown;
}

// Room for so many, all of it 0.
static inline void *room(size_t n, size_t size) {
    void *at = calloc(n ? n : 1, size ? size : 1);
    if (!at) abort();
    return at;
}

// What is handed out is freed by the bindings, so it must not be a constant.
static inline wit_string_t owned(perpend_text text) {
    wit_string_t copy = {more(NULL, text.len), text.len};
    if (text.len) memcpy(copy.ptr, text.at, text.len);
    return copy;
}

static inline wit_string_t owned_string(const char *string) {
    return owned(perpend_text_of(string));
}

// What a call to the host only looks at.
static inline wit_string_t lent(perpend_text text) {
    return (wit_string_t){(uint8_t *)text.at, text.len};
}

static inline wit_string_t lent_string(const char *string) {
    return lent(perpend_text_of(string));
}

static inline perpend_text seen(wit_string_t string) {
    return (perpend_text){(const char *)string.ptr, string.len};
}

static inline perpend_part seen_part(bool is_present, perpend_evaluator_types_payload_t payload) {
    if (!is_present) return (perpend_part){false, false, {0, 0}};
    // Both cases hold one text.
    return (perpend_part){true, payload.tag == PERPEND_EVALUATOR_TYPES_PAYLOAD_JSON, seen(payload.val.text)};
}

// Of the options that the bindings have for each interface.
#define TEXT(option) ((option).is_some ? seen((option).val) : (perpend_text){0, 0})
#define NUMBER(option) ((option).is_some ? (option).val : 0)
#define PART(option) seen_part((option).is_some, (option).val)

#endif
