// What a plug-in in C includes: an evaluator is a description and one function.
//
// Nothing has to be freed: every call gets a fresh instance, which is dropped when it ends. Texts are
// UTF-8 with a length and no zero byte at their end. `wit.h` is generated from the contract.
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
    perpend_text session; // the session that is scored; empty when the subject is none
    perpend_text run;     // the run of an experiment that is scored; empty when the subject is none
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

// ---- models ----

// A model asks for a tool.
typedef struct {
    perpend_text id; // what the result names
    perpend_text name;
    perpend_text arguments; // a JSON object, which need not fit the schema of the tool
} perpend_tool_call;

// What came of a tool call.
typedef struct {
    perpend_text call_id;
    perpend_text content; // what the model is to read
    bool is_error;        // the tool failed, and `content` says why
} perpend_tool_result;

// A piece of a message. Media are named by their ids in the project; the host loads them.
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

// Something that was said: a text, and what else belongs to it.
typedef struct {
    perpend_role role;
    perpend_text content; // comes before the parts; with parts it may be empty
    const perpend_message_part *parts;
    size_t n_parts;
} perpend_message;

// A function that the model may ask the plug-in to carry out.
typedef struct {
    const char *name; // 1 to 64 letters, digits, _ and -
    const char *description;
    const char *parameters; // JSON Schema of the arguments, an object at its top
} perpend_tool;

// A question to a model. What is left 0 is not sent, but for what has a `has_`.
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
    uint8_t top_logprobs; // alternatives of each token; perpend_probabilities needs some
    enum { PERPEND_CACHE_STANDARD, PERPEND_CACHE_REFRESH, PERPEND_CACHE_BYPASS } cache;
    const char *extra; // a JSON object with settings of the provider
    const perpend_tool *tools; // the host carries out none of it: see perpend_add_results
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
    const perpend_alternative *alternatives; // the most likely first
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
    const perpend_token *logprobs; // none unless asked for and offered
    size_t n_logprobs;
    int32_t held; // the answer in the host, for perpend_probabilities; 0 when there are no log-probabilities
} perpend_answer;

// Asks a model. An error can be returned as it is: the host decides whether to try again.
perpend_error perpend_complete(const perpend_question *question, perpend_answer *answer);
// Asks several questions at once, at most 64: an answer and an error for each, in order.
void perpend_complete_all(const perpend_question *questions, size_t n, perpend_answer *answers, perpend_error *errors);

typedef struct {
    const float *at;
    size_t len;
} perpend_vector;

// Makes a vector of each text, at most 256. The slot is NULL for the first one of that kind.
perpend_error perpend_embed(const char *slot, const perpend_text *texts, size_t n, perpend_vector *vectors);

// Messages that become more: those of a conversation with tools. `{0}` has none.
typedef struct {
    perpend_message *at;
    size_t len, capacity;
} perpend_messages;

void perpend_add_message(perpend_messages *messages, perpend_message message);
void perpend_add_text(perpend_messages *messages, perpend_role role, perpend_text text);
// What the model said, its calls included, and what came of each of them.
void perpend_add_results(
    perpend_messages *messages, const perpend_answer *said, const perpend_tool_result *results, size_t n);

// Where in an answer a choice stands.
typedef struct {
    enum {
        PERPEND_WHOLE,  // the answer is the choice, and white space around it
        PERPEND_MEMBER, // in a member of a JSON object: a string, a boolean or a number
        PERPEND_OFFSET, // from a byte of the text on
    } kind;
    const char *member;
    uint64_t offset;
} perpend_place;

typedef struct {
    const double *shares; // of each choice, in order; they sum up to 1
    size_t n_shares;
    double margin;   // how far the most probable choice is ahead of the next one
    double coverage; // of all that was seen to begin a choice: below about 0.9 the shares say little
} perpend_distribution;

// How probable each choice was, from the log-probabilities of the tokens that tell them apart. Choices are plain
// text: yes and not "yes", true for a boolean. False when there are no log-probabilities, or when none of the
// choices was begun at the place. The host holds the answer for it until the call ends or perpend_release.
bool perpend_probabilities(
    const perpend_answer *answer, const char *const *choices, size_t n, perpend_place place,
    perpend_distribution *distribution);
// Lets the host forget the answer: there are no probabilities then. For the few evaluators that ask for more
// log-probabilities than the host holds at a time, 32 MiB; answers without any are not held.
void perpend_release(perpend_answer *answer);

// ---- traces, sessions and runs ----

// Texts are empty where there is none.
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

// A step of a trace without its bulky parts.
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
    uint64_t input_size, output_size; // what reading them costs, in bytes
} perpend_observation;

// Chooses observations; what is 0 does not count.
typedef struct {
    perpend_text parent_id; // direct children of this one only
    unsigned kinds;         // 1 << PERPEND_KIND_TOOL | 1 << PERPEND_KIND_AGENT ...
    perpend_text name;
} perpend_filter;

// A line of the outline of a trace.
typedef struct {
    perpend_text id, parent_id;
    uint32_t depth; // 0 at the top of what was asked for
    perpend_kind kind;
    perpend_text name;
    perpend_severity severity;
    uint64_t start_ms;
    bool has_end;
    uint64_t duration_ms;
    uint64_t input_size, output_size;
    uint32_t n_children;
} perpend_outline_entry;

// A place where a text was found.
typedef struct {
    perpend_text observation_id;
    unsigned part;        // PERPEND_INPUT, PERPEND_OUTPUT or PERPEND_METADATA
    uint64_t offset;      // a byte of the part, good for perpend_read_range
    perpend_text excerpt; // the place with about 100 bytes on each side
} perpend_hit;

// A range of a part.
typedef struct {
    bool is_present;
    perpend_text text;
    uint64_t offset; // where it begins, moved back to the beginning of a character
    uint64_t total;  // bytes of the whole part
    bool is_json;    // the whole part is JSON, and not the text of a JSON string
} perpend_slice;

typedef struct {
    perpend_text id;
    uint32_t n_traces;
    uint64_t start_ms, end_ms; // when the first and the last of its traces began
    const perpend_text *user_ids; // whose it was, sorted; the first 100
    size_t n_user_ids;
} perpend_session;

// A run of an experiment.
typedef struct {
    perpend_text id, name, dataset_id;
    perpend_text metadata; // JSON
    uint32_t n_items;
} perpend_run;

// What was recorded for one item of the dataset.
typedef struct {
    perpend_text id, dataset_item_id;
    perpend_text trace_id, observation_id;
    perpend_part input; // what the dataset says, else what was recorded
    perpend_part output;
    perpend_part expected_output;
    perpend_text metadata; // JSON, that of the item of the dataset
} perpend_run_item;

perpend_error perpend_get_trace(perpend_text trace_id, perpend_trace *trace);
// The input, output or metadata of an observation: `part` is PERPEND_INPUT, PERPEND_OUTPUT or PERPEND_METADATA.
perpend_error perpend_read(perpend_text trace_id, perpend_text observation_id, unsigned part, perpend_part *found);
// `length` bytes of a part, at most 1 MiB, from a byte on; both ends move back to the beginning of a character.
perpend_error perpend_read_range(
    perpend_text trace_id, perpend_text observation_id, unsigned part, uint64_t offset, uint32_t length,
    perpend_slice *slice);
// Where a text of 1 to 1,000 bytes stands in the inputs, outputs and metadata of a trace, literally and in any
// case; at most 100 places.
perpend_error perpend_search(
    perpend_text trace_id, perpend_text text, uint32_t limit, const perpend_hit **hits, size_t *n_hits);
perpend_error perpend_get_session(perpend_text session_id, perpend_session *session);
perpend_error perpend_get_run(perpend_text run_id, perpend_run *run);

// Lists, read page by page. `{0}` before the first; each call goes to the next one, and says false at the end and
// after an error, which stays in `error`.
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
// The tree of a trace, or what is below one observation of it where `parent_id` is not empty: depth first, the
// children of one parent by start. A trace of more than 50,000 observations has no outline.
bool perpend_next_outline_entry(
    perpend_list *list, perpend_text trace_id, perpend_text parent_id, perpend_outline_entry *entry);
// The traces of a session in order of start.
bool perpend_next_trace(perpend_list *list, perpend_text session_id, perpend_trace *trace);
// The items of a run, the newest first.
bool perpend_next_run_item(perpend_list *list, perpend_text run_id, perpend_run_item *item);

// ---- the host ----

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
