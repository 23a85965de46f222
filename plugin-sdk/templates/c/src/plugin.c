// A Perpend plug-in with one evaluator.

#include "perpend.h"

#define COUNT(list) (sizeof(list) / sizeof *(list))

// Passes when the output has at most `max_chars` characters.
static perpend_error max_length(const perpend_item *item, perpend_json config, perpend_scores *scores) {
    // An absent output is invalid input, not a score of 0.
    if (!item->output.is_present) return PERPEND_ERROR(PERPEND_INVALID_INPUT, "the item has no output");

    // The configuration satisfies the schema below; its defaults are filled in.
    size_t max_chars = (size_t)perpend_json_number(perpend_json_get(config, "max_chars"), 80);
    bool trim = perpend_json_boolean(perpend_json_get(config, "trim"), false);

    size_t length = perpend_characters(trim ? perpend_trim(item->output.text) : item->output.text);
    perpend_score *score = perpend_add_boolean(scores, "within_limit", length <= max_chars);
    perpend_comment(score, "%zu of %zu characters", length, max_chars);
    return PERPEND_OK;
}

static const perpend_score_spec scores[] = {
    {.name = "within_limit", .description = "true when the output is not too long", .domain = PERPEND_IN_BOOLEANS},
};

static const perpend_evaluator max_length_evaluator = {
    .id = "max-length",
    .title = "Maximum length",
    .description = "Passes when the output is not too long.",
    // The server checks configurations against this schema and shows its descriptions in the form.
    .config_schema =
        "{\"type\": \"object\", \"additionalProperties\": false, \"properties\": {"
        "\"max_chars\": {\"type\": \"integer\", \"minimum\": 0, \"default\": 80,"
        " \"description\": \"The maximum number of characters that passes.\"},"
        "\"trim\": {\"type\": \"boolean\", \"default\": false,"
        " \"description\": \"Ignore white space at both ends.\"}}}",
    // The parts of the item that the evaluator reads; others are not loaded.
    .needs = PERPEND_OUTPUT,
    .scores = scores,
    .n_scores = COUNT(scores),
    .evaluate = max_length,
};

static const perpend_evaluator *const evaluators[] = {&max_length_evaluator};

const perpend_plugin perpend_this_plugin = {
    .name = "example/{{name}}",
    .version = "0.1.0",
    .description = "Checks on the length of an output",
    .evaluators = evaluators,
    .n_evaluators = COUNT(evaluators),
};
