// A judge that takes what `assay.h` has beyond the template, and fails as it is told to.

#include "assay.h"

#include <stdlib.h>

static volatile int bottom = 0;

static int recurse(int depth) {
    volatile char space[4096];
    space[0] = (char)depth;
    return depth == bottom - 1 ? 0 : recurse(depth + 1) + space[0];
}

static assay_error fail_as_told(assay_text mode) {
    if (assay_equal(mode, assay_text_of("invalid-config"))) return ASSAY_ERROR(ASSAY_INVALID_CONFIG, "told to");
    if (assay_equal(mode, assay_text_of("not-applicable"))) return ASSAY_ERROR(ASSAY_NOT_APPLICABLE, "told to");
    if (assay_equal(mode, assay_text_of("transient"))) return ASSAY_ERROR(ASSAY_TRANSIENT, "told to");
    if (assay_equal(mode, assay_text_of("internal"))) return ASSAY_ERROR(ASSAY_INTERNAL, "told to");
    if (assay_equal(mode, assay_text_of("abort"))) abort();
    if (assay_equal(mode, assay_text_of("recurse"))) return ASSAY_ERROR(ASSAY_INTERNAL, "%d", recurse(0));
    return ASSAY_OK;
}

static assay_error judge(const assay_item *item, assay_json config, assay_scores *scores) {
    assay_error told = fail_as_told(assay_json_string(assay_json_get(config, "mode"), assay_text_of("none")));
    if (told.kind != ASSAY_FINE) return told;

    assay_log(ASSAY_INFO, assay_text_of("asked"), assay_format("{\"seed\":%llu}", (unsigned long long)assay_seed()));
    assay_message messages[] = {
        {ASSAY_SYSTEM, assay_text_of("You judge answers.")},
        {ASSAY_USER, assay_format("%.*s\n---\n%.*s", ASSAY_ARG(item->input.text), ASSAY_ARG(item->output.text))},
    };
    assay_question question = {
        .slot = "judge",
        .messages = messages,
        .n_messages = 2,
        .response_schema = "{\"type\":\"object\"}",
        .has_temperature = true,
    };
    assay_answer answer;
    assay_error error = assay_complete(&question, &answer);
    if (error.kind != ASSAY_FINE) return error;

    assay_json points = assay_json_get(answer.structured, "points");
    size_t last = assay_json_count(points) - 1;
    assay_score *score = assay_add_numeric(scores, "points", assay_json_number(assay_json_at(points, last), -1));
    assay_text verdict = assay_json_string(assay_json_get(answer.structured, "verdict"), assay_text_of("none"));
    assay_comment(score, "%.*s", ASSAY_ARG(verdict));
    assay_json tone = assay_json_get(assay_json_of(item->metadata.text), "tone");
    assay_metadata(score, assay_format(
        "{\"asked\":%.*s,\"tone\":%.*s}", ASSAY_ARG(assay_json_quote(item->input.text)), ASSAY_ARG(tone.raw)));
    assay_add_category(scores, "model", assay_format("%.*s", ASSAY_ARG(answer.model)).at);
    return ASSAY_OK;
}

static const assay_score_spec judge_scores[] = {
    {.name = "points", .description = "points", .domain = ASSAY_IN_NUMBERS, .min = 0, .max = 1},
    {.name = "model", .description = "who judged", .domain = ASSAY_IN_CATEGORIES},
};

static const assay_slot judge_slots[] = {
    {.name = "judge", .description = "Judges.", .is_required = true},
};

static void check(assay_json config, assay_problems *problems) {
    assay_text mode = assay_json_string(assay_json_get(config, "mode"), assay_text_of(""));
    if (assay_equal(mode, assay_text_of("never"))) {
        assay_add_problem(problems, "/mode", "%.*s is no mode", ASSAY_ARG(mode));
        assay_add_problem(problems, "", "nothing would be told");
    }
}

static const assay_evaluator judge_evaluator = {
    .id = "judge",
    .title = "Judge",
    .description = "Asks a model.",
    .config_schema = "{\"type\":\"object\",\"properties\":{\"mode\":{\"type\":\"string\"}}}",
    .needs = ASSAY_INPUT | ASSAY_OUTPUT | ASSAY_METADATA,
    .scores = judge_scores,
    .n_scores = 2,
    .slots = judge_slots,
    .n_slots = 1,
    .evaluate = judge,
    .check_config = check,
};

static const assay_evaluator *const evaluators[] = {&judge_evaluator};

const assay_plugin assay_this_plugin = {
    .name = "acme/judge",
    .version = "0.1.0",
    .description = "A judge",
    .evaluators = evaluators,
    .n_evaluators = 1,
};
