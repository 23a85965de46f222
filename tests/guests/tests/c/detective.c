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

static perpend_error all_calls(perpend_text *line) {
    static const char *const stop[] = {"END", "."};
    perpend_message_part parts[] = {
        {.kind = PERPEND_PART_TEXT, .text = perpend_text_of("and")},
        {.kind = PERPEND_PART_AUDIO, .text = perpend_text_of("a1")},
        {.kind = PERPEND_PART_FILE, .text = perpend_text_of("f1")},
    };
    perpend_message first = {PERPEND_USER, perpend_text_of("first"), parts, COUNT(parts)};
    perpend_message second = {PERPEND_USER, perpend_text_of("second")};
    perpend_question questions[] = {
        {
            .slot = "judge", .messages = &first, .n_messages = 1, .response_schema = "{\"type\":\"object\"}",
            .has_temperature = true, .temperature = 0.5f, .has_top_p = true, .top_p = 0.25f, .max_output_tokens = 9,
            .has_seed = true, .seed = 7, .stop = stop, .n_stop = COUNT(stop), .cache = PERPEND_CACHE_BYPASS,
            .extra = "{\"a\":1}", .tool_choice = PERPEND_TOOLS_NONE,
        },
        {.messages = &second, .n_messages = 1},
    };
    perpend_answer answers[2];
    perpend_error errors[2];
    perpend_complete_all(questions, 2, answers, errors);
    if (errors[0].kind != PERPEND_FINE) return errors[0];
    *line = joined(answers[0].structured.raw, "; ", errors[1].message);
    return PERPEND_OK;
}

static perpend_error all(perpend_text trace_id, perpend_scores *scores) {
    perpend_text line;
    perpend_error error = all_calls(&line);
    if (error.kind != PERPEND_FINE) return error;

    perpend_text texts[] = {perpend_text_of("a"), perpend_text_of("bc")};
    perpend_vector vectors[2];
    error = perpend_embed("vectors", texts, 2, vectors);
    if (error.kind != PERPEND_FINE) return error;
    double sum = 0;
    for (size_t i = 0; i < 2; i++)
        for (size_t j = 0; j < vectors[i].len; j++) sum += vectors[i].at[j];

    perpend_trace trace;
    error = perpend_get_trace(trace_id, &trace);
    if (error.kind != PERPEND_FINE) return error;
    line = joined(line, "; ", perpend_format("%.*s %u", PERPEND_ARG(trace.name), trace.n_observations));
    perpend_filter filter = {perpend_text_of("o1"), 1 << PERPEND_KIND_TOOL | 1 << PERPEND_KIND_AGENT, perpend_text_of("search")};
    perpend_list list = {0};
    perpend_observation step;
    while (perpend_next_observation(&list, trace_id, &filter, &step)) {
        unsigned long long took = step.end_ms - step.start_ms;
        line = joined(line, "; ", perpend_format("%.*s in %llu ms", PERPEND_ARG(step.id), took));
    }
    if (list.error.kind != PERPEND_FINE) return list.error;
    static const unsigned parts[] = {PERPEND_INPUT, PERPEND_OUTPUT, PERPEND_METADATA};
    for (size_t i = 0; i < COUNT(parts); i++) {
        perpend_part part;
        error = perpend_read(trace_id, perpend_text_of("o2"), parts[i], &part);
        if (error.kind != PERPEND_FINE) return error;
        line = joined(line, "; ", part.is_present ? part.text : perpend_text_of("none"));
    }
    perpend_score *score = perpend_add_numeric(scores, "found", sum);
    perpend_comment(score, "%.*s", PERPEND_ARG(line));
    return PERPEND_OK;
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
    if (is(into, "all")) return all(item->trace_id, scores);
    return is(into, "session") ? session(item->session, scores) : run(item->run, scores);
}

static const perpend_score_spec detective_scores[] = {
    {.name = "found", .description = "what was found", .domain = PERPEND_IN_NUMBERS, .min = 0, .max = 100},
    {.name = "margin", .description = "how sure the model was", .domain = PERPEND_IN_NUMBERS, .min = 0, .max = 1},
    {.name = "coverage", .description = "how much the shares say", .domain = PERPEND_IN_NUMBERS, .min = 0, .max = 1},
};

static const perpend_slot detective_slots[] = {
    {.name = "judge", .description = "Judges."},
    {.name = "vectors", .description = "Makes vectors.", .is_embedding = true},
};

const perpend_evaluator detective_evaluator = {
    .id = "detective",
    .title = "Detective",
    .description = "Looks into things.",
    .config_schema = "{\"type\":\"object\",\"properties\":{\"look\":{\"enum\":[\"trace\",\"session\",\"run\",\"all\"]}}}",
    .needs = PERPEND_OUTPUT | PERPEND_TRACE,
    .scores = detective_scores,
    .n_scores = COUNT(detective_scores),
    .slots = detective_slots,
    .n_slots = COUNT(detective_slots),
    .evaluate = look,
    .varies = true,
};
