// Internal helpers of the SDK: conversions between the types of the bindings and of `perpend.h`.
#ifndef PERPEND_INSIDE_H
#define PERPEND_INSIDE_H

#include "perpend.h"

#include <stdlib.h>
#include <string.h>

static inline void *resize(void *at, size_t size) {
    void *grown = realloc(at, size ? size : 1);
    if (!grown) abort();
    return grown;
}

// Zeroed memory for n elements.
static inline void *zeroed(size_t n, size_t size) {
    void *at = calloc(n ? n : 1, size ? size : 1);
    if (!at) abort();
    return at;
}

// A copy, because the bindings free results.
static inline wit_string_t owned(perpend_text text) {
    wit_string_t copy = {resize(NULL, text.len), text.len};
    if (text.len) memcpy(copy.ptr, text.at, text.len);
    return copy;
}

static inline wit_string_t owned_string(const char *string) {
    return owned(perpend_text_of(string));
}

// A text that the host only reads during a call.
static inline wit_string_t borrowed(perpend_text text) {
    return (wit_string_t){(uint8_t *)text.at, text.len};
}

static inline wit_string_t borrowed_string(const char *string) {
    return borrowed(perpend_text_of(string));
}

static inline perpend_text view(wit_string_t string) {
    return (perpend_text){(const char *)string.ptr, string.len};
}

static inline perpend_part view_part(bool is_present, perpend_evaluator_types_payload_t payload) {
    if (!is_present) return (perpend_part){false, false, {0, 0}};
    // Both cases contain one text.
    return (perpend_part){true, payload.tag == PERPEND_EVALUATOR_TYPES_PAYLOAD_JSON, view(payload.val.text)};
}

// The values of the option types in the bindings.
#define TEXT(option) ((option).is_some ? view((option).val) : (perpend_text){0, 0})
#define NUMBER(option) ((option).is_some ? (option).val : 0)
#define PART(option) view_part((option).is_some, (option).val)

#endif
