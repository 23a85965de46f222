// The SDK for plug-ins in C: an evaluator is a description and a function.
//
// Memory need not be freed: every call has a fresh instance, which is dropped at its end. Texts are UTF-8
// with a length, without a terminating zero byte. `wit.h` is generated from the contract.
#ifndef PERPEND_H
#define PERPEND_H

#include "wit.h"

#ifdef __cplusplus
extern "C" {
#endif

// ---- texts ----

// A text in memory that it does not own.
typedef struct {
    const char *at;
    size_t len;
} perpend_text;

// The text of a zero-terminated string.
perpend_text perpend_text_of(const char *string);
// A formatted text, as printf writes it.
perpend_text perpend_format(const char *format, ...) __attribute__((format(printf, 1, 2)));
bool perpend_equal(perpend_text a, perpend_text b);
// The text without ASCII white space at both ends.
perpend_text perpend_trim(perpend_text text);
// The number of Unicode scalar values.
size_t perpend_characters(perpend_text text);
// For printf: `"%.*s", PERPEND_ARG(text)`.
#define PERPEND_ARG(text) (int)(text).len, (text).at

// ---- JSON ----

typedef enum {
    PERPEND_ABSENT, // also for invalid JSON
    PERPEND_NULL,
    PERPEND_BOOLEAN,
    PERPEND_NUMBER,
    PERPEND_STRING,
    PERPEND_ARRAY,
    PERPEND_OBJECT,
} perpend_json_kind;

// A value inside a JSON text. Functions parse only the necessary part and copy only strings.
typedef struct {
    perpend_json_kind kind;
    perpend_text raw;
} perpend_json;

perpend_json perpend_json_of(perpend_text text);
// The member of an object, or absent. Of repeated members the first one is returned.
perpend_json perpend_json_get(perpend_json object, const char *key);
// The element of an array, or absent.
perpend_json perpend_json_at(perpend_json array, size_t index);
// The number of members of an object or elements of an array.
size_t perpend_json_count(perpend_json value);
// The value, or `otherwise` when it is absent or has another kind.
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
    perpend_text session; // the id of the scored session; otherwise empty
    perpend_text run;     // the id of the scored run of an experiment; otherwise empty
} perpend_item;

// ---- errors ----

// The reason why there is no score. The kind determines how the host continues; the message is for users.
typedef struct {
    enum {
        PERPEND_FINE,
        PERPEND_INVALID_CONFIG,  // the configuration satisfies its schema and is invalid nevertheless
        PERPEND_INVALID_INPUT,   // a part of the item is absent or has an invalid shape
        PERPEND_NOT_APPLICABLE,  // nothing to measure: recorded as skipped, never as 0
        PERPEND_UPSTREAM,        // a call to the host failed
        PERPEND_TRANSIENT,       // another attempt may succeed
        PERPEND_INTERNAL,        // any other failure
    } kind;
    perpend_text message;
} perpend_error;

#define PERPEND_OK ((perpend_error){PERPEND_FINE, {0, 0}})
#define PERPEND_ERROR(kind, ...) ((perpend_error){(kind), perpend_format(__VA_ARGS__)})

// ---- scores ----

typedef perpend_evaluator_types_score_t perpend_score;
typedef struct perpend_scores perpend_scores;

// Each adds a score. A comment, metadata and an observation can be added to it.
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
    // The range of numbers; -INFINITY and INFINITY for no bound.
    double min, max;
    bool lower_is_better;
    // The categories, terminated by NULL; NULL for any category.
    const char *const *categories;
} perpend_score_spec;

// A slot for a model, which the configuration of an evaluator assigns.
typedef struct {
    const char *name;
    const char *description;
    bool is_embedding;
    bool is_required;
} perpend_slot;

enum { PERPEND_INPUT = 1, PERPEND_OUTPUT = 2, PERPEND_EXPECTED_OUTPUT = 4, PERPEND_METADATA = 8, PERPEND_TRACE = 16 };

// The problems of a configuration.
typedef struct perpend_problems perpend_problems;
// Adds a problem. `pointer` is a JSON Pointer into the configuration, such as "/min"; "" for the whole of it.
void perpend_add_problem(perpend_problems *problems, const char *pointer, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

typedef struct {
    const char *id;
    const char *title;
    const char *description;
    // JSON Schema of the configuration; NULL for an evaluator without configuration.
    const char *config_schema;
    // PERPEND_INPUT | PERPEND_OUTPUT ...: other parts are not loaded.
    unsigned needs;
    const perpend_score_spec *scores;
    size_t n_scores;
    const perpend_slot *slots;
    size_t n_slots;
    bool has_dynamic_scores;
    // True when equal items and configurations can have different scores.
    bool varies;
    perpend_error (*evaluate)(const perpend_item *item, perpend_json config, perpend_scores *scores);
    // Checks that the JSON Schema cannot express, called when a configuration is saved; may be NULL.
    void (*check_config)(perpend_json config, perpend_problems *problems);
} perpend_evaluator;

typedef struct {
    const char *name; // vendor/name
    const char *version;
    const char *description;
    const perpend_evaluator *const *evaluators;
    size_t n_evaluators;
} perpend_plugin;

// Defined by the plug-in.
extern const perpend_plugin perpend_this_plugin;

// ---- models ----

// A call of a tool by the model.
typedef struct {
    perpend_text id; // the identifier that the result refers to
    perpend_text name;
    perpend_text arguments; // a JSON object, which may violate the schema of the tool
} perpend_tool_call;

// The result of a tool call.
typedef struct {
    perpend_text call_id;
    perpend_text content; // the output for the model
    bool is_error;        // true when the tool failed; `content` is the reason
} perpend_tool_result;

// A part of a message. Media are ids of stored media of the project; the host loads them.
typedef struct {
    enum {
        PERPEND_PART_TEXT,
        PERPEND_PART_IMAGE,
        PERPEND_PART_AUDIO,
        PERPEND_PART_FILE,
        PERPEND_PART_CALL,   // in messages of the assistant
        PERPEND_PART_RESULT, // in messages of PERPEND_TOOL
    } kind;
    perpend_text text; // the text, or the id of the medium
    perpend_tool_call call;
    perpend_tool_result result;
} perpend_message_part;

typedef enum { PERPEND_SYSTEM, PERPEND_USER, PERPEND_ASSISTANT, PERPEND_TOOL } perpend_role;

// A message of a conversation: a text and further parts.
typedef struct {
    perpend_role role;
    perpend_text content; // before the parts; optional for a message with parts
    const perpend_message_part *parts;
    size_t n_parts;
} perpend_message;

// A function of the plug-in that the model may call.
typedef struct {
    const char *name; // 1 to 64 letters, digits, _ and -
    const char *description;
    const char *parameters; // JSON Schema of the arguments, whose type is object
} perpend_tool;

// A request to a model. Members that are 0 are not sent, except those with a `has_` member.
typedef struct {
    const char *slot; // NULL: the first slot of the evaluator
    const perpend_message *messages;
    size_t n_messages;
    const char *response_schema; // JSON Schema of the answer
    bool has_temperature;
    float temperature;
    bool has_top_p;
    float top_p;
    uint32_t max_output_tokens;
    bool has_seed;
    uint64_t seed; // perpend_seed() is a stable one
    const char *const *stop; // texts that end the answer
    size_t n_stop;
    uint8_t top_logprobs; // alternatives of each token; required by perpend_probabilities
    enum { PERPEND_CACHE_STANDARD, PERPEND_CACHE_REFRESH, PERPEND_CACHE_BYPASS } cache;
    const char *extra; // a JSON object with settings of the provider
    const perpend_tool *tools; // the host does not execute them: see perpend_add_results
    size_t n_tools;
    enum { PERPEND_TOOLS_AUTO, PERPEND_TOOLS_REQUIRED, PERPEND_TOOLS_NONE, PERPEND_TOOLS_NAMED } tool_choice;
    const char *tool_name; // with PERPEND_TOOLS_NAMED
} perpend_question;

typedef struct {
    perpend_text token;
    float logprob;
} perpend_alternative;

typedef struct {
    perpend_text token;
    float logprob;
    const perpend_alternative *alternatives; // ordered by descending probability
    size_t n_alternatives;
} perpend_token;

typedef struct {
    perpend_text text;       // may be empty when the model calls tools
    perpend_json structured; // absent without a response schema, and when the model calls tools instead
    enum {
        PERPEND_FINISH_STOP,
        PERPEND_FINISH_LENGTH,
        PERPEND_FINISH_CONTENT_FILTER,
        PERPEND_FINISH_TOOL_CALLS, // the model waits for the results
        PERPEND_FINISH_OTHER,
    } finish;
    perpend_text model;
    uint64_t input_tokens, output_tokens;
    bool is_from_cache;
    const perpend_tool_call *tool_calls; // in the order of the model
    size_t n_tool_calls;
    const perpend_token *logprobs; // empty unless requested and supported by the provider
    size_t n_logprobs;
    int32_t held; // the answer in the host, for perpend_probabilities; 0 when there are no log-probabilities
} perpend_answer;

// Calls a model. Return its error unchanged: the host decides whether to retry.
perpend_error perpend_complete(const perpend_question *question, perpend_answer *answer);
// Sends at most 64 requests concurrently. There is an answer and an error for each, in order.
void perpend_complete_all(const perpend_question *questions, size_t n, perpend_answer *answers, perpend_error *errors);

typedef struct {
    const float *at;
    size_t len;
} perpend_vector;

// Computes a vector for each text, at most 256. NULL is the first slot for embeddings.
perpend_error perpend_embed(const char *slot, const perpend_text *texts, size_t n, perpend_vector *vectors);

// A growing list of messages, for a conversation with tools. `{0}` is empty.
typedef struct {
    perpend_message *at;
    size_t len, capacity;
} perpend_messages;

void perpend_add_message(perpend_messages *messages, perpend_message message);
void perpend_add_text(perpend_messages *messages, perpend_role role, perpend_text text);
// Adds the reply of the model with its calls, and the results of the calls.
void perpend_add_results(
    perpend_messages *messages, const perpend_answer *reply, const perpend_tool_result *results, size_t n);

// The position of a choice in an answer.
typedef struct {
    enum {
        PERPEND_WHOLE,  // the answer is the choice, with optional white space around it
        PERPEND_MEMBER, // in a member of a JSON object: a string, a boolean or a number
        PERPEND_OFFSET, // at a byte of the text
    } kind;
    const char *member;
    uint64_t offset;
} perpend_place;

typedef struct {
    const double *shares; // one for each choice, in order; their sum is 1
    size_t n_shares;
    double margin;   // the probability of the first choice minus that of the second
    double coverage; // the total probability of the tokens that begin a choice; below about 0.9 the shares are not reliable
} perpend_distribution;

// The probability of each choice, from the log-probabilities of the tokens that distinguish them. Choices are plain
// text: yes and not "yes", true for a boolean. Returns false without log-probabilities, or when no choice begins at
// the place. The host keeps the answer until the end of the call or perpend_release.
bool perpend_probabilities(
    const perpend_answer *answer, const char *const *choices, size_t n, perpend_place place,
    perpend_distribution *distribution);
// Frees the answer in the host; afterwards it has no probabilities. Only necessary for evaluators that request more
// than 32 MiB of log-probabilities, the limit of the host. Answers without log-probabilities are not kept.
void perpend_release(perpend_answer *answer);

// ---- traces, sessions and runs ----

// Absent texts are empty.
typedef struct {
    perpend_text id, name, session_id, user_id;
    uint64_t start_ms;
    const perpend_text *tags;
    size_t n_tags;
    perpend_text metadata; // a JSON object
    uint32_t n_observations;
} perpend_trace;

typedef enum {
    PERPEND_KIND_SPAN,
    PERPEND_KIND_GENERATION,
    PERPEND_KIND_EVENT,
    PERPEND_KIND_AGENT,
    PERPEND_KIND_TOOL,
    PERPEND_KIND_CHAIN,
    PERPEND_KIND_RETRIEVER,
    PERPEND_KIND_EVALUATOR,
    PERPEND_KIND_EMBEDDING,
    PERPEND_KIND_GUARDRAIL,
} perpend_kind;

typedef enum {
    PERPEND_SEVERITY_DEBUG,
    PERPEND_SEVERITY_STANDARD,
    PERPEND_SEVERITY_WARNING,
    PERPEND_SEVERITY_ERROR,
} perpend_severity;

// An observation without its large parts.
typedef struct {
    perpend_text id, parent_id;
    perpend_kind kind;
    perpend_text name;
    uint64_t start_ms;
    bool has_end;
    uint64_t end_ms;
    perpend_severity severity;
    perpend_text status_message;
    perpend_text model;
    uint64_t input_tokens, output_tokens;
    uint64_t input_size, output_size; // in bytes
} perpend_observation;

// Selects observations. Members that are 0 are ignored.
typedef struct {
    perpend_text parent_id; // direct children of this observation only
    unsigned kinds;         // 1 << PERPEND_KIND_TOOL | 1 << PERPEND_KIND_AGENT ...
    perpend_text name;
} perpend_filter;

// A line of the outline of a trace.
typedef struct {
    perpend_text id, parent_id;
    uint32_t depth; // 0 at the top of the requested tree
    perpend_kind kind;
    perpend_text name;
    perpend_severity severity;
    uint64_t start_ms;
    bool has_end;
    uint64_t duration_ms;
    uint64_t input_size, output_size;
    uint32_t n_children;
} perpend_outline_entry;

// An occurrence of a text.
typedef struct {
    perpend_text observation_id;
    unsigned part;        // PERPEND_INPUT, PERPEND_OUTPUT or PERPEND_METADATA
    uint64_t offset;      // byte offset in the part, as for perpend_read_range
    perpend_text excerpt; // the occurrence with about 100 bytes on each side
} perpend_hit;

// A range of a part.
typedef struct {
    bool is_present;
    perpend_text text;
    uint64_t offset; // the start, moved back to the beginning of a character
    uint64_t total;  // the size of the whole part in bytes
    bool is_json;    // true when the whole part is JSON, and not the text of a JSON string
} perpend_slice;

typedef struct {
    perpend_text id;
    uint32_t n_traces;
    uint64_t start_ms, end_ms; // the start of the first and of the last trace
    const perpend_text *user_ids; // the users of the session, sorted; the first 100
    size_t n_user_ids;
} perpend_session;

// A run of an experiment.
typedef struct {
    perpend_text id, name, dataset_id;
    perpend_text metadata; // JSON
    uint32_t n_items;
} perpend_run;

// The recorded execution of one item of the dataset.
typedef struct {
    perpend_text id, dataset_item_id;
    perpend_text trace_id, observation_id;
    perpend_part input; // the input in the dataset; if absent, the recorded one
    perpend_part output;
    perpend_part expected_output;
    perpend_text metadata; // JSON, that of the item of the dataset
} perpend_run_item;

perpend_error perpend_get_trace(perpend_text trace_id, perpend_trace *trace);
// The input, output or metadata of an observation: `part` is PERPEND_INPUT, PERPEND_OUTPUT or PERPEND_METADATA.
perpend_error perpend_read(perpend_text trace_id, perpend_text observation_id, unsigned part, perpend_part *found);
// `length` bytes of a part, at most 1 MiB, from a byte offset; both ends move back to the beginning of a character.
perpend_error perpend_read_range(
    perpend_text trace_id, perpend_text observation_id, unsigned part, uint64_t offset, uint32_t length,
    perpend_slice *slice);
// The occurrences of a text of 1 to 1,000 bytes in the inputs, outputs and metadata of a trace, ignoring case; at
// most 100.
perpend_error perpend_search(
    perpend_text trace_id, perpend_text text, uint32_t limit, const perpend_hit **hits, size_t *n_hits);
perpend_error perpend_get_session(perpend_text session_id, perpend_session *session);
perpend_error perpend_get_run(perpend_text run_id, perpend_run *run);

// A list that is read page by page. Start with `{0}`. Each call returns the next element, or false at the end and
// after an error, which is stored in `error`.
typedef struct {
    perpend_error error;
    perpend_text cursor;
    void *page;
    size_t len, next;
    bool is_last;
} perpend_list;

// Observations in order of start. The filter may be NULL.
bool perpend_next_observation(
    perpend_list *list, perpend_text trace_id, const perpend_filter *filter, perpend_observation *observation);
// The tree of a trace, or the subtree below the observation `parent_id` if not empty: depth first, the
// children of one parent by start. A trace of more than 50,000 observations has no outline.
bool perpend_next_outline_entry(
    perpend_list *list, perpend_text trace_id, perpend_text parent_id, perpend_outline_entry *entry);
// The traces of a session in order of start.
bool perpend_next_trace(perpend_list *list, perpend_text session_id, perpend_trace *trace);
// The items of a run, the newest first.
bool perpend_next_run_item(perpend_list *list, perpend_text run_id, perpend_run_item *item);

// ---- the host ----

// A number that is the same for equal calls.
uint64_t perpend_seed(void);
// The start time of the run, in milliseconds since 1970.
uint64_t perpend_run_time_ms(void);

enum { PERPEND_DEBUG, PERPEND_INFO, PERPEND_WARN, PERPEND_SEVERE };
// Adds a line to the log of the evaluation. `fields` is the text of a JSON object, or empty.
void perpend_log(int level, perpend_text message, perpend_text fields);

#ifdef __cplusplus
}
#endif
#endif
