// What a plug-in in C includes: an evaluator is a description and one function.
//
// Nothing has to be freed: every call gets a fresh instance, which is dropped when it ends. Texts are
// UTF-8 with a length and no zero byte at their end. What is not here (several model calls at once,
// embeddings, traces) is in `wit.h`, which is generated from the contract.
#ifndef ASSAY_H
#define ASSAY_H

#include "wit.h"

#ifdef __cplusplus
extern "C" {
#endif

// ---- texts ----

// A text somewhere in memory.
typedef struct {
    const char *at;
    size_t len;
} assay_text;

// The text of a zero-terminated string.
assay_text assay_text_of(const char *string);
// A formatted text, as printf writes it.
assay_text assay_format(const char *format, ...) __attribute__((format(printf, 1, 2)));
bool assay_equal(assay_text a, assay_text b);
// Without white space (ASCII) at both ends.
assay_text assay_trim(assay_text text);
// Characters, and not bytes: Unicode scalar values.
size_t assay_characters(assay_text text);
// For printf: `"%.*s", ASSAY_ARG(text)`.
#define ASSAY_ARG(text) (int)(text).len, (text).at

// ---- JSON ----

typedef enum {
    ASSAY_ABSENT, // also: of another kind than was asked for, or no JSON
    ASSAY_NULL,
    ASSAY_BOOLEAN,
    ASSAY_NUMBER,
    ASSAY_STRING,
    ASSAY_ARRAY,
    ASSAY_OBJECT,
} assay_json_kind;

// One value inside a JSON text. Reading parses as far as it has to and copies only strings.
typedef struct {
    assay_json_kind kind;
    assay_text raw;
} assay_json;

assay_json assay_json_of(assay_text text);
// The member of an object; absent when there is none. Of repeated members the first one counts.
assay_json assay_json_get(assay_json object, const char *key);
// The element of an array; absent when there is none.
assay_json assay_json_at(assay_json array, size_t index);
// Members of an object or elements of an array.
size_t assay_json_count(assay_json value);
// The value, or `otherwise` when it is absent or of another kind.
bool assay_json_boolean(assay_json value, bool otherwise);
double assay_json_number(assay_json value, double otherwise);
assay_text assay_json_string(assay_json value, assay_text otherwise);
// The text as a JSON string, quotes included.
assay_text assay_json_quote(assay_text text);

// ---- items ----

// A part of an item. A JSON string arrives unescaped and without quotes, any other value as JSON text.
typedef struct {
    bool is_present;
    bool is_json;
    assay_text text;
} assay_part;

typedef struct {
    assay_text id; // for log lines only: a score must not depend on it
    assay_part input;
    assay_part output;
    assay_part expected_output;
    assay_part metadata; // a JSON object when present
    bool has_trace;
    assay_text trace_id;
    bool has_observation;
    assay_text observation_id;
} assay_item;

// ---- errors ----

// Why there is no score. The kind decides what happens next, the message is for people.
typedef struct {
    enum {
        ASSAY_FINE,
        ASSAY_INVALID_CONFIG,  // the configuration passed its schema and still cannot be used
        ASSAY_INVALID_INPUT,   // a part of the item is absent or has a wrong shape
        ASSAY_NOT_APPLICABLE,  // nothing to measure: recorded as skipped, never as 0
        ASSAY_UPSTREAM,        // a call to the host failed
        ASSAY_TRANSIENT,       // another attempt may work
        ASSAY_INTERNAL,        // anything else
    } kind;
    assay_text message;
} assay_error;

#define ASSAY_OK ((assay_error){ASSAY_FINE, {0, 0}})
#define ASSAY_ERROR(kind, ...) ((assay_error){(kind), assay_format(__VA_ARGS__)})

// ---- scores ----

typedef assay_evaluator_types_score_t assay_score;
typedef struct assay_scores assay_scores;

// Each adds a score, to which a comment, metadata and an observation may be added.
assay_score *assay_add_numeric(assay_scores *scores, const char *name, double value);
assay_score *assay_add_boolean(assay_scores *scores, const char *name, bool value);
assay_score *assay_add_category(assay_scores *scores, const char *name, const char *category);
void assay_comment(assay_score *score, const char *format, ...) __attribute__((format(printf, 2, 3)));
// The text of a JSON object.
void assay_metadata(assay_score *score, assay_text object);
void assay_on_observation(assay_score *score, assay_text observation_id);

// ---- the plug-in ----

typedef struct {
    const char *name;
    const char *description;
    enum { ASSAY_IN_NUMBERS, ASSAY_IN_BOOLEANS, ASSAY_IN_CATEGORIES } domain;
    // Of numbers. INFINITY and -INFINITY for no end.
    double min, max;
    bool lower_is_better;
    // Of categories: they end with NULL. NULL for any.
    const char *const *categories;
} assay_score_spec;

// A place where whoever configures the evaluator puts a model.
typedef struct {
    const char *name;
    const char *description;
    bool is_embedding;
    bool is_required;
} assay_slot;

enum { ASSAY_INPUT = 1, ASSAY_OUTPUT = 2, ASSAY_EXPECTED_OUTPUT = 4, ASSAY_METADATA = 8, ASSAY_TRACE = 16 };

// What is wrong with a configuration.
typedef struct assay_problems assay_problems;
// Adds one. `pointer` is a JSON Pointer into the configuration, such as "/min"; "" for the whole of it.
void assay_add_problem(assay_problems *problems, const char *pointer, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

typedef struct {
    const char *id;
    const char *title;
    const char *description;
    // JSON Schema of the configuration; NULL when there is nothing to configure.
    const char *config_schema;
    // ASSAY_INPUT | ASSAY_OUTPUT ...: what is not named is not loaded.
    unsigned needs;
    const assay_score_spec *scores;
    size_t n_scores;
    const assay_slot *slots;
    size_t n_slots;
    bool has_dynamic_scores;
    // Set when equal items and configurations may give different scores.
    bool varies;
    assay_error (*evaluate)(const assay_item *item, assay_json config, assay_scores *scores);
    // What a schema cannot say, asked when a configuration is saved; NULL when there is no such rule.
    void (*check_config)(assay_json config, assay_problems *problems);
} assay_evaluator;

typedef struct {
    const char *name; // vendor/name
    const char *version;
    const char *description;
    const assay_evaluator *const *evaluators;
    size_t n_evaluators;
} assay_plugin;

// Defined by the author.
extern const assay_plugin assay_this_plugin;

// ---- the host ----

typedef struct {
    enum { ASSAY_SYSTEM, ASSAY_USER, ASSAY_ASSISTANT } role;
    assay_text content;
} assay_message;

// A question to a model. What is left 0 is not sent, but for the temperature: set `has_temperature`.
typedef struct {
    const char *slot; // NULL: the first slot of the evaluator
    const assay_message *messages;
    size_t n_messages;
    const char *response_schema; // JSON Schema of the answer
    bool has_temperature;
    float temperature;
    uint32_t max_output_tokens;
} assay_question;

typedef struct {
    assay_text text;
    assay_json structured; // absent without a response schema
    assay_text model;
    uint64_t input_tokens, output_tokens;
    bool is_from_cache;
} assay_answer;

// Asks a model. An error can be returned as it is: the host decides whether to try again.
assay_error assay_complete(const assay_question *question, assay_answer *answer);
// Equal calls get equal seeds.
uint64_t assay_seed(void);
// When the run started, in milliseconds since 1970.
uint64_t assay_run_time_ms(void);

enum { ASSAY_DEBUG, ASSAY_INFO, ASSAY_WARN, ASSAY_SEVERE };
// Adds a line to the log of the evaluation. `fields` is the text of a JSON object, or empty.
void assay_log(int level, assay_text message, assay_text fields);

#ifdef __cplusplus
}
#endif
#endif
