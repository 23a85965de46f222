// A judge that takes what `perpend.h` has beyond the template, and fails as its configuration requests.

#include "perpend.h"

#include <stdlib.h>

static volatile int bottom = 0;

static int recurse(int depth) {
    volatile char space[4096];
    space[0] = (char)depth;
    return depth == bottom - 1 ? 0 : recurse(depth + 1) + space[0];
}

static perpend_error fail_as_requested(perpend_text mode) {
    if (perpend_equal(mode, perpend_text_of("invalid-config"))) return PERPEND_ERROR(PERPEND_INVALID_CONFIG, "requested");
    if (perpend_equal(mode, perpend_text_of("not-applicable"))) return PERPEND_ERROR(PERPEND_NOT_APPLICABLE, "requested");
    if (perpend_equal(mode, perpend_text_of("transient"))) return PERPEND_ERROR(PERPEND_TRANSIENT, "requested");
    if (perpend_equal(mode, perpend_text_of("internal"))) return PERPEND_ERROR(PERPEND_INTERNAL, "requested");
    if (perpend_equal(mode, perpend_text_of("abort"))) abort();
    if (perpend_equal(mode, perpend_text_of("recurse"))) return PERPEND_ERROR(PERPEND_INTERNAL, "%d", recurse(0));
    return PERPEND_OK;
}

static perpend_error judge(const perpend_item *item, perpend_json config, perpend_scores *scores) {
    perpend_error failure = fail_as_requested(perpend_json_string(perpend_json_get(config, "mode"), perpend_text_of("none")));
    if (failure.kind != PERPEND_FINE) return failure;

    perpend_log(PERPEND_INFO, perpend_text_of("asked"), perpend_format("{\"seed\":%llu}", (unsigned long long)perpend_seed()));
    perpend_message messages[] = {
        {PERPEND_SYSTEM, perpend_text_of("You judge answers.")},
        {PERPEND_USER, perpend_format("%.*s\n---\n%.*s", PERPEND_ARG(item->input.text), PERPEND_ARG(item->output.text))},
    };
    perpend_question question = {
        .slot = "judge",
        .messages = messages,
        .n_messages = 2,
        .response_schema = "{\"type\":\"object\"}",
        .has_temperature = true,
    };
    perpend_answer answer;
    perpend_error error = perpend_complete(&question, &answer);
    if (error.kind != PERPEND_FINE) return error;

    perpend_json points = perpend_json_get(answer.structured, "points");
    size_t last = perpend_json_count(points) - 1;
    perpend_score *score = perpend_add_numeric(scores, "points", perpend_json_number(perpend_json_at(points, last), -1));
    perpend_text verdict = perpend_json_string(perpend_json_get(answer.structured, "verdict"), perpend_text_of("none"));
    perpend_comment(score, "%.*s", PERPEND_ARG(verdict));
    perpend_json tone = perpend_json_get(perpend_json_of(item->metadata.text), "tone");
    perpend_metadata(score, perpend_format(
        "{\"asked\":%.*s,\"tone\":%.*s}", PERPEND_ARG(perpend_json_quote(item->input.text)), PERPEND_ARG(tone.raw)));
    perpend_add_category(scores, "model", perpend_format("%.*s", PERPEND_ARG(answer.model)).at);
    return PERPEND_OK;
}

static const perpend_score_spec judge_scores[] = {
    {.name = "points", .description = "points", .domain = PERPEND_IN_NUMBERS, .min = 0, .max = 1},
    {.name = "model", .description = "who judged", .domain = PERPEND_IN_CATEGORIES},
};

static const perpend_slot judge_slots[] = {
    {.name = "judge", .description = "Judges.", .is_required = true},
};

static void check(perpend_json config, perpend_problems *problems) {
    perpend_text mode = perpend_json_string(perpend_json_get(config, "mode"), perpend_text_of(""));
    if (perpend_equal(mode, perpend_text_of("never"))) {
        perpend_add_problem(problems, "/mode", "%.*s is no mode", PERPEND_ARG(mode));
        perpend_add_problem(problems, "", "tone is empty");
    }
}

static const perpend_evaluator judge_evaluator = {
    .id = "judge",
    .title = "Judge",
    .description = "Asks a model.",
    .config_schema = "{\"type\":\"object\",\"properties\":{\"mode\":{\"type\":\"string\"}}}",
    .needs = PERPEND_INPUT | PERPEND_OUTPUT | PERPEND_METADATA,
    .scores = judge_scores,
    .n_scores = 2,
    .slots = judge_slots,
    .n_slots = 1,
    .evaluate = judge,
    .check_config = check,
};

extern const perpend_evaluator detective_evaluator;

static const perpend_evaluator *const evaluators[] = {&judge_evaluator, &detective_evaluator};

const perpend_plugin perpend_this_plugin = {
    .name = "acme/judge",
    .version = "0.1.0",
    .description = "A judge",
    .evaluators = evaluators,
    .n_evaluators = 2,
};
