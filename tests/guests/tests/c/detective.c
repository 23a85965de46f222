// An evaluator that looks into traces with a model that calls tools, and into sessions and runs.

#include "perpend.h"

#include <stdlib.h>

#define COUNT(list) (sizeof(list) / sizeof *(list))

static bool is(perpend_text text, const char *string) {
    return perpend_equal(text, perpend_text_of(string));
}

static perpend_text joined(perpend_text all, const char *between, perpend_text next) {
    return perpend_format("%.*s%s%.*s", PERPEND_ARG(all), all.len ? between : "", PERPEND_ARG(next));
}

// ---- traces ----

static const perpend_tool tools[] = {
    {"search", "Finds a text in the trace.",
     "{\"type\":\"object\",\"properties\":{\"text\":{\"type\":\"string\"}},\"required\":[\"text\"]}"},
    {"read", "Reads on from a place.",
     "{\"type\":\"object\",\"properties\":{\"observation\":{\"type\":\"string\"},\"offset\":{\"type\":\"integer\"}}}"},
};

static perpend_error outline(perpend_text trace_id, perpend_text *line) {
    unsigned count = 0, depth = 0;
    perpend_text failed = {0, 0};
    perpend_list list = {0};
    perpend_outline_entry entry;
    while (perpend_next_outline_entry(&list, trace_id, (perpend_text){0, 0}, &entry)) {
        count++;
        if (depth < entry.depth) depth = entry.depth;
        if (entry.severity == PERPEND_SEVERITY_ERROR && entry.kind == PERPEND_KIND_TOOL && is(entry.parent_id, "o1"))
            failed = perpend_format("%.*s after %llu ms", PERPEND_ARG(entry.name), (unsigned long long)entry.duration_ms);
    }
    *line = perpend_format("%u steps, %u deep, error in %.*s", count, depth, PERPEND_ARG(failed));
    return list.error;
}

static perpend_error searched(perpend_text trace_id, perpend_text wanted, perpend_text *content) {
    const perpend_hit *hits;
    size_t n_hits;
    perpend_error error = perpend_search(trace_id, wanted, 3, &hits, &n_hits);
    for (size_t i = 0; error.kind == PERPEND_FINE && i < n_hits; i++) {
        if (hits[i].part != PERPEND_OUTPUT) continue;
        perpend_text line = perpend_format("%.*s output %llu %.*s",
            PERPEND_ARG(hits[i].observation_id), (unsigned long long)hits[i].offset, PERPEND_ARG(hits[i].excerpt));
        *content = joined(*content, "\n", line);
    }
    return error;
}

static perpend_tool_result carried_out(perpend_text trace_id, const perpend_tool_call *call) {
    perpend_tool_result result = {.call_id = call->id};
    perpend_text none = {0, 0};
    perpend_json arguments = perpend_json_of(call->arguments);
    perpend_error error = PERPEND_OK;
    if (is(call->name, "search")) {
        perpend_text wanted = perpend_json_string(perpend_json_get(arguments, "text"), none);
        if (wanted.len) error = searched(trace_id, wanted, &result.content);
        else error = PERPEND_ERROR(PERPEND_INVALID_INPUT, "text is missing");
    } else {
        perpend_text observation = perpend_json_string(perpend_json_get(arguments, "observation"), none);
        uint64_t offset = (uint64_t)perpend_json_number(perpend_json_get(arguments, "offset"), 0);
        perpend_slice slice;
        error = perpend_read_range(trace_id, observation, PERPEND_OUTPUT, offset, 5, &slice);
        if (error.kind == PERPEND_FINE && slice.is_present && slice.total == 23) result.content = slice.text;
    }
    result.is_error = error.kind != PERPEND_FINE;
    if (result.is_error) result.content = error.message;
    return result;
}

static perpend_error judged(perpend_answer answer, perpend_text line, perpend_scores *scores) {
    static const char *const choices[] = {"yes", "no"};
    perpend_distribution found;
    if (perpend_probabilities(&answer, choices, 2, (perpend_place){PERPEND_MEMBER, .member = "verdict"}, &found))
        return PERPEND_ERROR(PERPEND_INTERNAL, "there is no such member");
    if (!perpend_probabilities(&answer, choices, 2, (perpend_place){PERPEND_WHOLE}, &found))
        return PERPEND_ERROR(PERPEND_INTERNAL, "there are no probabilities");
    perpend_release(&answer);
    perpend_distribution released;
    if (perpend_probabilities(&answer, choices, 2, (perpend_place){PERPEND_WHOLE}, &released))
        return PERPEND_ERROR(PERPEND_INTERNAL, "the answer was not released");
    perpend_score *score = perpend_add_numeric(scores, "found", found.shares[1]);
    perpend_comment(score, "%.*s\n%.*s by %.*s", PERPEND_ARG(line), PERPEND_ARG(answer.text), PERPEND_ARG(answer.model));
    perpend_add_numeric(scores, "margin", found.margin);
    perpend_add_numeric(scores, "coverage", found.coverage);
    return PERPEND_OK;
}

static perpend_error investigate(const perpend_item *item, perpend_scores *scores) {
    perpend_text line;
    perpend_error error = outline(item->trace_id, &line);
    if (error.kind != PERPEND_FINE) return error;

    perpend_message_part image = {.kind = PERPEND_PART_IMAGE, .text = perpend_text_of("m1")};
    perpend_messages messages = {0};
    perpend_add_text(&messages, PERPEND_SYSTEM, perpend_text_of("Did it work? Say yes or no."));
    perpend_add_message(&messages, (perpend_message){PERPEND_USER, item->output.text, &image, 1});
    perpend_question question = {
        .top_logprobs = 5,
        .tools = tools,
        .n_tools = COUNT(tools),
        .tool_choice = PERPEND_TOOLS_NAMED,
        .tool_name = "search",
    };
    for (int round = 0; round < 5; round++) {
        question.messages = messages.at;
        question.n_messages = messages.len;
        perpend_answer answer;
        error = perpend_complete(&question, &answer);
        if (error.kind != PERPEND_FINE) return error;
        if (answer.finish != PERPEND_FINISH_TOOL_CALLS) return judged(answer, line, scores);
        size_t n = answer.n_tool_calls;
        perpend_tool_result *results = calloc(n, sizeof *results);
        if (!results) abort();
        for (size_t i = 0; i < n; i++) results[i] = carried_out(item->trace_id, &answer.tool_calls[i]);
        perpend_add_results(&messages, &answer, results, n);
        question.tool_choice = PERPEND_TOOLS_AUTO;
    }
    return PERPEND_ERROR(PERPEND_INTERNAL, "the model does not come to an end");
}

// ---- sessions and runs ----

static perpend_error session(perpend_text id, perpend_scores *scores) {
    perpend_session info;
    perpend_error error = perpend_get_session(id, &info);
    if (error.kind != PERPEND_FINE) return error;
    perpend_text users = {0, 0}, traces = {0, 0};
    for (size_t i = 0; i < info.n_user_ids; i++) users = joined(users, ", ", info.user_ids[i]);
    perpend_list list = {0};
    perpend_trace trace;
    while (perpend_next_trace(&list, id, &trace)) {
        perpend_text line = trace.id;
        if (trace.n_tags) line = perpend_format(
            "%.*s %.*s [%.*s]", PERPEND_ARG(trace.id), PERPEND_ARG(trace.name), PERPEND_ARG(trace.tags[0]));
        traces = joined(traces, ", ", line);
    }
    if (list.error.kind != PERPEND_FINE) return list.error;
    perpend_score *score = perpend_add_numeric(scores, "found", info.n_traces);
    perpend_comment(score, "%.*s of %.*s in %llu ms: %.*s", PERPEND_ARG(info.id), PERPEND_ARG(users),
        (unsigned long long)(info.end_ms - info.start_ms), PERPEND_ARG(traces));
    return PERPEND_OK;
}

static perpend_error run(perpend_text id, perpend_scores *scores) {
    perpend_run info;
    perpend_error error = perpend_get_run(id, &info);
    if (error.kind != PERPEND_FINE) return error;
    unsigned equal = 0;
    perpend_text items = {0, 0};
    perpend_list list = {0};
    perpend_run_item item;
    while (perpend_next_run_item(&list, id, &item)) {
        perpend_text line = item.id;
        if (item.trace_id.len) line = perpend_format("%.*s %.*s %.*s/%.*s", PERPEND_ARG(item.id),
            PERPEND_ARG(item.dataset_item_id), PERPEND_ARG(item.trace_id), PERPEND_ARG(item.observation_id));
        items = joined(items, ", ", line);
        equal += item.output.is_json == item.expected_output.is_json
            && perpend_equal(item.output.text, item.expected_output.text);
    }
    if (list.error.kind != PERPEND_FINE) return list.error;
    perpend_score *score = perpend_add_numeric(scores, "found", (double)equal / info.n_items);
    perpend_comment(score, "%.*s, %u items: %.*s", PERPEND_ARG(info.name), info.n_items, PERPEND_ARG(items));
    return PERPEND_OK;
}

static perpend_error look(const perpend_item *item, perpend_json config, perpend_scores *scores) {
    perpend_text into = perpend_json_string(perpend_json_get(config, "look"), perpend_text_of(""));
    if (is(into, "trace")) return investigate(item, scores);
    return is(into, "session") ? session(item->session, scores) : run(item->run, scores);
}

static const perpend_score_spec detective_scores[] = {
    {.name = "found", .description = "what was found", .domain = PERPEND_IN_NUMBERS, .min = 0, .max = 100},
    {.name = "margin", .description = "how sure the model was", .domain = PERPEND_IN_NUMBERS, .min = 0, .max = 1},
    {.name = "coverage", .description = "how much the shares say", .domain = PERPEND_IN_NUMBERS, .min = 0, .max = 1},
};

static const perpend_slot detective_slots[] = {{.name = "judge", .description = "Judges."}};

const perpend_evaluator detective_evaluator = {
    .id = "detective",
    .title = "Detective",
    .description = "Looks into things.",
    .config_schema = "{\"type\":\"object\",\"properties\":{\"look\":{\"enum\":[\"trace\",\"session\",\"run\"]}}}",
    .needs = PERPEND_OUTPUT | PERPEND_TRACE,
    .scores = detective_scores,
    .n_scores = COUNT(detective_scores),
    .slots = detective_slots,
    .n_slots = COUNT(detective_slots),
    .evaluate = look,
    .varies = true,
};
