// The exports of the contract, implemented with the functions of the plug-in.

#include "inside.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct perpend_scores {
    perpend_score *at;
    size_t len, capacity;
};

// ---- texts ----

perpend_text perpend_text_of(const char *string) {
    return (perpend_text){string, string ? strlen(string) : 0};
}

static perpend_text formatted(const char *format, va_list arguments) {
    va_list again;
    va_copy(again, arguments);
    int len = vsnprintf(NULL, 0, format, arguments);
    if (len < 0) len = 0;
    char *at = resize(NULL, (size_t)len + 1);
    vsnprintf(at, (size_t)len + 1, format, again);
    va_end(again);
    return (perpend_text){at, (size_t)len};
}

perpend_text perpend_format(const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    perpend_text text = formatted(format, arguments);
    va_end(arguments);
    return text;
}

bool perpend_equal(perpend_text a, perpend_text b) {
    return a.len == b.len && (a.len == 0 || memcmp(a.at, b.at, a.len) == 0);
}

static bool is_space(char c) {
    return c == ' ' || (c >= '\t' && c <= '\r');
}

perpend_text perpend_trim(perpend_text text) {
    while (text.len && is_space(text.at[0])) text.at++, text.len--;
    while (text.len && is_space(text.at[text.len - 1])) text.len--;
    return text;
}

size_t perpend_characters(perpend_text text) {
    size_t count = 0;
    for (size_t i = 0; i < text.len; i++) count += ((unsigned char)text.at[i] & 0xC0) != 0x80;
    return count;
}

// ---- scores ----

static perpend_score *add(perpend_scores *scores, const char *name) {
    if (scores->len == scores->capacity) {
        scores->capacity = scores->capacity ? 2 * scores->capacity : 4;
        scores->at = resize(scores->at, scores->capacity * sizeof *scores->at);
    }
    perpend_score *score = &scores->at[scores->len++];
    memset(score, 0, sizeof *score);
    score->name = owned_string(name);
    return score;
}

perpend_score *perpend_add_numeric(perpend_scores *scores, const char *name, double value) {
    perpend_score *score = add(scores, name);
    score->value.tag = PERPEND_EVALUATOR_TYPES_SCORE_VALUE_NUMERIC;
    score->value.val.numeric = value;
    return score;
}

perpend_score *perpend_add_boolean(perpend_scores *scores, const char *name, bool value) {
    perpend_score *score = add(scores, name);
    score->value.tag = PERPEND_EVALUATOR_TYPES_SCORE_VALUE_BOOLEAN;
    score->value.val.boolean = value;
    return score;
}

perpend_score *perpend_add_category(perpend_scores *scores, const char *name, const char *category) {
    perpend_score *score = add(scores, name);
    score->value.tag = PERPEND_EVALUATOR_TYPES_SCORE_VALUE_CATEGORICAL;
    score->value.val.categorical = owned_string(category);
    return score;
}

void perpend_comment(perpend_score *score, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    perpend_text text = formatted(format, arguments);
    va_end(arguments);
    score->comment.is_some = true;
    score->comment.val = (wit_string_t){(uint8_t *)text.at, text.len};
}

void perpend_metadata(perpend_score *score, perpend_text object) {
    score->metadata.is_some = true;
    score->metadata.val = owned(object);
}

void perpend_on_observation(perpend_score *score, perpend_text observation_id) {
    score->observation_id.is_some = true;
    score->observation_id.val = owned(observation_id);
}

// ---- the host ----

uint64_t perpend_seed(void) {
    return perpend_evaluator_context_seed();
}

uint64_t perpend_run_time_ms(void) {
    return perpend_evaluator_context_run_time();
}

void perpend_log(int level, perpend_text message, perpend_text fields) {
    wit_string_t line = {(uint8_t *)message.at, message.len};
    wit_string_t object = {(uint8_t *)fields.at, fields.len};
    perpend_evaluator_log_log((perpend_evaluator_log_level_t)level, &line, fields.len ? &object : NULL);
}

// ---- the exports of the contract ----

// The bindings refer to an object file with the types of the contract; `perpend plugin build` adds the types to the
// linked module instead.
void __component_type_object_force_link_wit(void) {}

static perpend_evaluator_types_score_spec_t described_score(const perpend_score_spec *spec) {
    perpend_evaluator_types_score_spec_t described;
    memset(&described, 0, sizeof described);
    described.name = owned_string(spec->name);
    described.description = owned_string(spec->description);
    if (spec->domain == PERPEND_IN_BOOLEANS) {
        described.domain.tag = PERPEND_EVALUATOR_TYPES_SCORE_DOMAIN_BOOLEAN;
    } else if (spec->domain == PERPEND_IN_NUMBERS) {
        described.domain.tag = PERPEND_EVALUATOR_TYPES_SCORE_DOMAIN_NUMERIC;
        perpend_evaluator_types_numeric_range_t *range = &described.domain.val.numeric;
        range->min = (wit_option_f64_t){isfinite(spec->min), spec->min};
        range->max = (wit_option_f64_t){isfinite(spec->max), spec->max};
        range->higher_is_better = !spec->lower_is_better;
    } else {
        described.domain.tag = PERPEND_EVALUATOR_TYPES_SCORE_DOMAIN_CATEGORICAL;
        wit_list_string_t *names = &described.domain.val.categorical;
        while (spec->categories && spec->categories[names->len]) names->len++;
        names->ptr = resize(NULL, names->len * sizeof *names->ptr);
        for (size_t i = 0; i < names->len; i++) names->ptr[i] = owned_string(spec->categories[i]);
    }
    return described;
}

static perpend_evaluator_types_evaluator_info_t described(const perpend_evaluator *evaluator) {
    perpend_evaluator_types_evaluator_info_t info;
    memset(&info, 0, sizeof info);
    info.id = owned_string(evaluator->id);
    info.title = owned_string(evaluator->title);
    info.description = owned_string(evaluator->description);
    info.config_schema = owned_string(evaluator->config_schema
        ? evaluator->config_schema : "{\"type\":\"object\",\"additionalProperties\":false}");
    info.needs = (perpend_evaluator_types_item_parts_t)evaluator->needs;
    info.slots.len = evaluator->n_slots;
    info.slots.ptr = resize(NULL, evaluator->n_slots * sizeof *info.slots.ptr);
    for (size_t i = 0; i < evaluator->n_slots; i++) {
        const perpend_slot *slot = &evaluator->slots[i];
        info.slots.ptr[i] = (perpend_evaluator_types_model_slot_t){
            owned_string(slot->name), owned_string(slot->description), slot->is_embedding, slot->is_required};
    }
    info.scores.len = evaluator->n_scores;
    info.scores.ptr = resize(NULL, evaluator->n_scores * sizeof *info.scores.ptr);
    for (size_t i = 0; i < evaluator->n_scores; i++) info.scores.ptr[i] = described_score(&evaluator->scores[i]);
    info.dynamic_scores = evaluator->has_dynamic_scores;
    info.deterministic = !evaluator->varies;
    return info;
}

void exports_perpend_evaluator_evaluator_describe(exports_perpend_evaluator_evaluator_plugin_info_t *ret) {
    const perpend_plugin *plugin = &perpend_this_plugin;
    ret->name = owned_string(plugin->name);
    ret->version = owned_string(plugin->version);
    ret->description = owned_string(plugin->description);
    ret->evaluators.len = plugin->n_evaluators;
    ret->evaluators.ptr = resize(NULL, plugin->n_evaluators * sizeof *ret->evaluators.ptr);
    for (size_t i = 0; i < plugin->n_evaluators; i++) ret->evaluators.ptr[i] = described(plugin->evaluators[i]);
}

static const perpend_evaluator *named(perpend_text id) {
    for (size_t i = 0; i < perpend_this_plugin.n_evaluators; i++) {
        const perpend_evaluator *evaluator = perpend_this_plugin.evaluators[i];
        if (perpend_equal(id, perpend_text_of(evaluator->id))) return evaluator;
    }
    return NULL;
}

static perpend_error evaluated(perpend_text id, const perpend_item *item, perpend_json config, perpend_scores *scores) {
    const perpend_evaluator *evaluator = named(id);
    if (evaluator) return evaluator->evaluate(item, config, scores);
    return PERPEND_ERROR(PERPEND_INVALID_CONFIG, "unknown evaluator %.*s", PERPEND_ARG(id));
}

bool exports_perpend_evaluator_evaluator_evaluate(
    wit_string_t *evaluator_id,
    exports_perpend_evaluator_evaluator_item_t *item,
    exports_perpend_evaluator_evaluator_json_t *config,
    exports_perpend_evaluator_evaluator_list_score_t *ret,
    exports_perpend_evaluator_evaluator_eval_error_t *err
) {
    perpend_item shown = {
        .id = view(item->id),
        .input = PART(item->input),
        .output = PART(item->output),
        .expected_output = PART(item->expected_output),
        .session = TEXT(item->session),
        .run = TEXT(item->run),
    };
    if (item->metadata.is_some) shown.metadata = (perpend_part){true, true, view(item->metadata.val)};
    if (item->trace.is_some) {
        shown.has_trace = true;
        shown.trace_id = view(item->trace.val.trace_id);
        shown.has_observation = item->trace.val.observation_id.is_some;
        shown.observation_id = TEXT(item->trace.val.observation_id);
    }
    perpend_scores scores = {NULL, 0, 0};
    perpend_error error = evaluated(view(*evaluator_id), &shown, perpend_json_of(view(*config)), &scores);
    if (error.kind != PERPEND_FINE) {
        // The kinds have the order of the contract, after the one for success.
        err->tag = (uint8_t)(error.kind - PERPEND_INVALID_CONFIG);
        err->val.internal = owned(error.message);
        return false;
    }
    ret->ptr = scores.at ? scores.at : resize(NULL, 0);
    ret->len = scores.len;
    return true;
}

// ---- the check of configurations ----

// The bindings do not contain this optional interface. It is implemented here with the layout of the canonical ABI:
// four numbers in, a pointer to a list of pairs of texts out.

struct perpend_problems {
    struct { wit_string_t pointer, message; } *at;
    size_t len, capacity;
};

void perpend_add_problem(perpend_problems *problems, const char *pointer, const char *format, ...) {
    if (problems->len == problems->capacity) {
        problems->capacity = problems->capacity ? 2 * problems->capacity : 4;
        problems->at = resize(problems->at, problems->capacity * sizeof *problems->at);
    }
    va_list arguments;
    va_start(arguments, format);
    perpend_text message = formatted(format, arguments);
    va_end(arguments);
    problems->at[problems->len].pointer = owned_string(pointer);
    problems->at[problems->len++].message = owned(message);
}

__attribute__((export_name("perpend:evaluator/config-check@1.0.0#check-config")))
void *perpend_exported_check_config(const char *id, size_t id_len, const char *config, size_t config_len) {
    static struct { void *at; size_t len; } list;
    perpend_problems problems = {NULL, 0, 0};
    perpend_text name = {id, id_len};
    const perpend_evaluator *evaluator = named(name);
    if (!evaluator) {
        perpend_add_problem(&problems, "", "unknown evaluator %.*s", PERPEND_ARG(name));
    } else if (evaluator->check_config) {
        evaluator->check_config(perpend_json_of((perpend_text){config, config_len}), &problems);
    }
    list.at = problems.at ? (void *)problems.at : resize(NULL, 0);
    list.len = problems.len;
    return &list;
}
