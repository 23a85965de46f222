// What a plug-in in C includes: an evaluator is a description and one function.
//
// Nothing has to be freed: every call gets a fresh instance, which is dropped when it ends. Texts are
// UTF-8 with a length and no zero byte at their end. What is not here (several model calls at once,
// embeddings, traces) is in `wit.h`, which is generated from the contract.
#ifndef PERPEND_H
#define PERPEND_H

#include "wit.h"

#ifdef __cplusplus
extern "C" {
#endif

// ---- texts ----

// A text somewhere in memory.
typedef struct {
    const char *at;
    size_t len;
} perpend_text;

// The text of a zero-terminated string.
perpend_text perpend_text_of(const char *string);
// A formatted text, as printf writes it.
perpend_text perpend_format(const char *format, ...) __attribute__((format(printf, 1, 2)));
bool perpend_equal(perpend_text a, perpend_text b);
// Without white space (ASCII) at both ends.
perpend_text perpend_trim(perpend_text text);
// Characters, and not bytes: Unicode scalar values.
size_t perpend_characters(perpend_text text);
// For printf: `"%.*s", PERPEND_ARG(text)`.
#define PERPEND_ARG(text) (int)(text).len, (text).at

// ---- JSON ----

typedef enum {
    PERPEND_ABSENT, // also: of another kind than was asked for, or no JSON
    PERPEND_NULL,
    PERPEND_BOOLEAN,
    PERPEND_NUMBER,
    PERPEND_STRING,
    PERPEND_ARRAY,
    PERPEND_OBJECT,
} perpend_json_kind;

// One value inside a JSON text. Reading parses as far as it has to and copies only strings.
typedef struct {
    perpend_json_kind kind;
    perpend_text raw;
} perpend_json;

perpend_json perpend_json_of(perpend_text text);
// The member of an object; absent when there is none. Of repeated members the first one counts.
perpend_json perpend_json_get(perpend_json object, const char *key);
// The element of an array; absent when there is none.
perpend_json perpend_json_at(perpend_json array, size_t index);
// Members of an object or elements of an array.
size_t perpend_json_count(perpend_json value);
// The value, or `otherwise` when it is absent or of another kind.
bool perpend_json_boolean(perpend_json value, bool otherwise);
double perpend_json_number(perpend_json value, double otherwise);
perpend_text perpend_json_string(perpend_json value, perpend_text otherwise);
// The text as a JSON string, quotes included.
perpend_text perpend_json_quote(perpend_text text);

// ---- items ----

// A part of an item. A JSON string arrives unescaped and without quotes, any other value as JSON text.
typedef struct {
    bool is_present;
    bool is_json;
    perpend_text text;
} perpend_part;

typedef struct {
    perpend_text id; // for log lines only: a score must not depend on it
    perpend_part input;
    perpend_part output;
    perpend_part expected_output;
    perpend_part metadata; // a JSON object when present
    bool has_trace;
    perpend_text trace_id;
    bool has_observation;
    perpend_text observation_id;
} perpend_item;

// ---- errors ----

// Why there is no score. The kind decides what happens next, the message is for people.
typedef struct {
    enum {
        PERPEND_FINE,
        PERPEND_INVALID_CONFIG,  // the configuration passed its schema and still cannot be used
        PERPEND_INVALID_INPUT,   // a part of the item is absent or has a wrong shape
        PERPEND_NOT_APPLICABLE,  // nothing to measure: recorded as skipped, never as 0
        PERPEND_UPSTREAM,        // a call to the host failed
        PERPEND_TRANSIENT,       // another attempt may work
        PERPEND_INTERNAL,        // anything else
    } kind;
    perpend_text message;
} perpend_error;

#define PERPEND_OK ((perpend_error){PERPEND_FINE, {0, 0}})
#define PERPEND_ERROR(kind, ...) ((perpend_error){(kind), perpend_format(__VA_ARGS__)})

// ---- scores ----

typedef perpend_evaluator_types_score_t perpend_score;
typedef struct perpend_scores perpend_scores;

// Each adds a score, to which a comment, metadata and an observation may be added.
perpend_score *perpend_add_numeric(perpend_scores *scores, const char *name, double value);
perpend_score *perpend_add_boolean(perpend_scores *scores, const char *name, bool value);
perpend_score *perpend_add_category(perpend_scores *scores, const char *name, const char *category);
void perpend_comment(perpend_score *score, const char *format, ...) __attribute__((format(printf, 2, 3)));
// The text of a JSON object.
void perpend_metadata(perpend_score *score, perpend_text object);
void perpend_on_observation(perpend_score *score, perpend_text observation_id);

// ---- the plug-in ----

typedef struct {
    const char *name;
    const char *description;
    enum { PERPEND_IN_NUMBERS, PERPEND_IN_BOOLEANS, PERPEND_IN_CATEGORIES } domain;
    // Of numbers. INFINITY and -INFINITY for no end.
    double min, max;
    bool lower_is_better;
    // Of categories: they end with NULL. NULL for any.
    const char *const *categories;
} perpend_score_spec;

// A place where whoever configures the evaluator puts a model.
typedef struct {
    const char *name;
    const char *description;
    bool is_embedding;
    bool is_required;
} perpend_slot;

enum { PERPEND_INPUT = 1, PERPEND_OUTPUT = 2, PERPEND_EXPECTED_OUTPUT = 4, PERPEND_METADATA = 8, PERPEND_TRACE = 16 };

// What is wrong with a configuration.
typedef struct perpend_problems perpend_problems;
// Adds one. `pointer` is a JSON Pointer into the configuration, such as "/min"; "" for the whole of it.
void perpend_add_problem(perpend_problems *problems, const char *pointer, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

typedef struct {
    const char *id;
    const char *title;
    const char *description;
    // JSON Schema of the configuration; NULL when there is nothing to configure.
    const char *config_schema;
    // PERPEND_INPUT | PERPEND_OUTPUT ...: what is not named is not loaded.
    unsigned needs;
    const perpend_score_spec *scores;
    size_t n_scores;
    const perpend_slot *slots;
    size_t n_slots;
    bool has_dynamic_scores;
    // Set when equal items and configurations may give different scores.
    bool varies;
    perpend_error (*evaluate)(const perpend_item *item, perpend_json config, perpend_scores *scores);
    // What a schema cannot say, asked when a configuration is saved; NULL when there is no such rule.
    void (*check_config)(perpend_json config, perpend_problems *problems);
} perpend_evaluator;

typedef struct {
    const char *name; // vendor/name
    const char *version;
    const char *description;
    const perpend_evaluator *const *evaluators;
    size_t n_evaluators;
} perpend_plugin;

// Defined by the author.
extern const perpend_plugin perpend_this_plugin;

// ---- the host ----

typedef struct {
    enum { PERPEND_SYSTEM, PERPEND_USER, PERPEND_ASSISTANT } role;
    perpend_text content;
} perpend_message;

// A question to a model. What is left 0 is not sent, but for the temperature: set `has_temperature`.
typedef struct {
    const char *slot; // NULL: the first slot of the evaluator
    const perpend_message *messages;
    size_t n_messages;
    const char *response_schema; // JSON Schema of the answer
    bool has_temperature;
    float temperature;
    uint32_t max_output_tokens;
} perpend_question;

typedef struct {
    perpend_text text;
    perpend_json structured; // absent without a response schema
    perpend_text model;
    uint64_t input_tokens, output_tokens;
    bool is_from_cache;
} perpend_answer;

// Asks a model. An error can be returned as it is: the host decides whether to try again.
perpend_error perpend_complete(const perpend_question *question, perpend_answer *answer);
// Equal calls get equal seeds.
uint64_t perpend_seed(void);
// When the run started, in milliseconds since 1970.
uint64_t perpend_run_time_ms(void);

enum { PERPEND_DEBUG, PERPEND_INFO, PERPEND_WARN, PERPEND_SEVERE };
// Adds a line to the log of the evaluation. `fields` is the text of a JSON object, or empty.
void perpend_log(int level, perpend_text message, perpend_text fields);

#ifdef __cplusplus
}
#endif
#endif
