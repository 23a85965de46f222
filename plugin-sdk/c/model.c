// Language models, which the host calls. Requests and answers are handles of the host.

#include "inside.h"

static perpend_error wrong(const perpend_evaluator_model_model_error_t *error) {
    if (error->tag == PERPEND_EVALUATOR_MODEL_MODEL_ERROR_CANCELLED)
        return PERPEND_ERROR(PERPEND_UPSTREAM, "the run was cancelled");
    // All cases have the same layout.
    return (perpend_error){PERPEND_UPSTREAM, view(error->val.unavailable)};
}

// ---- requests ----

static perpend_evaluator_model_part_t part(const perpend_message_part *part) {
    // The kinds have the order of the contract; a text and the id of a medium have the same layout.
    perpend_evaluator_model_part_t made = {.tag = (uint8_t)part->kind, .val.text = borrowed(part->text)};
    if (part->kind == PERPEND_PART_CALL) {
        made.val.tool_call = (perpend_evaluator_model_tool_call_t){
            borrowed(part->call.id), borrowed(part->call.name), borrowed(part->call.arguments)};
    } else if (part->kind == PERPEND_PART_RESULT) {
        made.val.tool_result = (perpend_evaluator_model_tool_result_t){
            borrowed(part->result.call_id), borrowed(part->result.content), part->result.is_error};
    }
    return made;
}

static perpend_evaluator_model_message_t message(const perpend_message *message) {
    bool has_text = message->content.len || !message->n_parts;
    perpend_evaluator_model_message_t made = {.role = (perpend_evaluator_model_role_t)message->role};
    made.parts.len = has_text + message->n_parts;
    made.parts.ptr = zeroed(made.parts.len, sizeof *made.parts.ptr);
    if (has_text) made.parts.ptr[0].val.text = borrowed(message->content);
    for (size_t i = 0; i < message->n_parts; i++) made.parts.ptr[has_text + i] = part(&message->parts[i]);
    return made;
}

static void set_tools(perpend_evaluator_model_borrow_request_t request, const perpend_question *question) {
    perpend_evaluator_model_list_tool_t tools = {
        zeroed(question->n_tools, sizeof(perpend_evaluator_model_tool_t)), question->n_tools};
    for (size_t i = 0; i < tools.len; i++) {
        const perpend_tool *tool = &question->tools[i];
        tools.ptr[i] = (perpend_evaluator_model_tool_t){
            borrowed_string(tool->name), borrowed_string(tool->description), borrowed_string(tool->parameters)};
    }
    perpend_evaluator_model_tool_choice_t choice = {
        .tag = (uint8_t)question->tool_choice, .val.named = borrowed_string(question->tool_name)};
    perpend_evaluator_model_method_request_set_tools(request, &tools, &choice);
}

static void set_stop(perpend_evaluator_model_borrow_request_t request, const perpend_question *question) {
    wit_list_string_t texts = {zeroed(question->n_stop, sizeof(wit_string_t)), question->n_stop};
    for (size_t i = 0; i < texts.len; i++) texts.ptr[i] = borrowed_string(question->stop[i]);
    perpend_evaluator_model_method_request_set_stop(request, &texts);
}

static perpend_evaluator_model_own_request_t wire_request(const perpend_question *question) {
    perpend_evaluator_model_list_message_t messages = {
        zeroed(question->n_messages, sizeof(perpend_evaluator_model_message_t)), question->n_messages};
    for (size_t i = 0; i < messages.len; i++) messages.ptr[i] = message(&question->messages[i]);
    perpend_evaluator_model_own_request_t own = perpend_evaluator_model_constructor_request(&messages);
    perpend_evaluator_model_borrow_request_t request = perpend_evaluator_model_borrow_request(own);
    if (question->slot) {
        wit_string_t slot = borrowed_string(question->slot);
        perpend_evaluator_model_method_request_set_slot(request, &slot);
    }
    if (question->response_schema) {
        wit_string_t schema = borrowed_string(question->response_schema);
        perpend_evaluator_model_method_request_set_response_schema(request, &schema);
    }
    if (question->has_temperature)
        perpend_evaluator_model_method_request_set_temperature(request, question->temperature);
    if (question->has_top_p) perpend_evaluator_model_method_request_set_top_p(request, question->top_p);
    if (question->max_output_tokens)
        perpend_evaluator_model_method_request_set_max_output_tokens(request, question->max_output_tokens);
    if (question->has_seed) perpend_evaluator_model_method_request_set_seed(request, question->seed);
    if (question->n_stop) set_stop(request, question);
    if (question->top_logprobs)
        perpend_evaluator_model_method_request_set_top_logprobs(request, question->top_logprobs);
    if (question->cache)
        perpend_evaluator_model_method_request_set_cache(request, (perpend_evaluator_model_cache_mode_t)question->cache);
    if (question->extra) {
        wit_string_t settings = borrowed_string(question->extra);
        perpend_evaluator_model_method_request_set_extra(request, &settings);
    }
    if (question->n_tools || question->tool_choice) set_tools(request, question);
    return own;
}

// ---- answers ----

static void read_tool_calls(perpend_evaluator_model_borrow_completion_t from, perpend_answer *answer) {
    perpend_evaluator_model_list_tool_call_t calls;
    perpend_evaluator_model_method_completion_tool_calls(from, &calls);
    perpend_tool_call *shown = zeroed(calls.len, sizeof *shown);
    for (size_t i = 0; i < calls.len; i++) {
        shown[i] = (perpend_tool_call){
            view(calls.ptr[i].id), view(calls.ptr[i].name), view(calls.ptr[i].arguments)};
    }
    answer->tool_calls = shown;
    answer->n_tool_calls = calls.len;
}

static void read_logprobs(perpend_evaluator_model_borrow_completion_t from, perpend_answer *answer) {
    perpend_evaluator_model_list_token_logprob_t tokens;
    perpend_evaluator_model_method_completion_logprobs(from, &tokens);
    perpend_token *shown = zeroed(tokens.len, sizeof *shown);
    for (size_t i = 0; i < tokens.len; i++) {
        size_t n = tokens.ptr[i].alternatives.len;
        perpend_alternative *others = zeroed(n, sizeof *others);
        for (size_t j = 0; j < n; j++) {
            others[j].token = view(tokens.ptr[i].alternatives.ptr[j].token);
            others[j].logprob = tokens.ptr[i].alternatives.ptr[j].logprob;
        }
        shown[i] = (perpend_token){view(tokens.ptr[i].token), tokens.ptr[i].logprob, others, n};
    }
    answer->logprobs = shown;
    answer->n_logprobs = tokens.len;
}

static void answered(
    perpend_evaluator_model_own_completion_t own, const perpend_question *question, perpend_answer *answer) {
    perpend_evaluator_model_borrow_completion_t from = perpend_evaluator_model_borrow_completion(own);
    wit_string_t text, structured, model;
    perpend_evaluator_model_token_usage_t usage;
    perpend_evaluator_model_method_completion_text(from, &text);
    perpend_evaluator_model_method_completion_model(from, &model);
    perpend_evaluator_model_method_completion_usage(from, &usage);
    memset(answer, 0, sizeof *answer);
    answer->text = view(text);
    answer->model = view(model);
    answer->input_tokens = usage.input_tokens;
    answer->output_tokens = usage.output_tokens;
    answer->is_from_cache = perpend_evaluator_model_method_completion_from_cache(from);
    // In the order of the contract.
    answer->finish = perpend_evaluator_model_method_completion_finish(from);
    if (question->response_schema && perpend_evaluator_model_method_completion_structured(from, &structured))
        answer->structured = perpend_json_of(view(structured));
    if (question->n_tools || question->tool_choice) read_tool_calls(from, answer);
    if (question->top_logprobs) read_logprobs(from, answer);
    if (answer->n_logprobs) answer->held = own.__handle;
    else perpend_evaluator_model_completion_drop_own(own);
}

perpend_error perpend_complete(const perpend_question *question, perpend_answer *answer) {
    perpend_evaluator_model_own_completion_t own;
    perpend_evaluator_model_model_error_t error;
    if (!perpend_evaluator_model_complete(wire_request(question), &own, &error)) return wrong(&error);
    answered(own, question, answer);
    return PERPEND_OK;
}

void perpend_complete_all(const perpend_question *questions, size_t n, perpend_answer *answers, perpend_error *errors) {
    perpend_evaluator_model_list_own_request_t requests = {zeroed(n, sizeof *requests.ptr), n};
    for (size_t i = 0; i < n; i++) requests.ptr[i] = wire_request(&questions[i]);
    perpend_evaluator_model_list_result_own_completion_model_error_t results;
    perpend_evaluator_model_complete_all(&requests, &results);
    memset(answers, 0, n * sizeof *answers);
    for (size_t i = 0; i < n; i++) {
        if (results.len <= i) {
            errors[i] = PERPEND_ERROR(PERPEND_UPSTREAM, "the host returned no answer");
        } else if (results.ptr[i].is_err) {
            errors[i] = wrong(&results.ptr[i].val.err);
        } else {
            errors[i] = PERPEND_OK;
            answered(results.ptr[i].val.ok, &questions[i], &answers[i]);
        }
    }
}

perpend_error perpend_embed(const char *slot, const perpend_text *texts, size_t n, perpend_vector *vectors) {
    wit_string_t name = borrowed_string(slot);
    wit_list_string_t given = {zeroed(n, sizeof *given.ptr), n};
    for (size_t i = 0; i < n; i++) given.ptr[i] = borrowed(texts[i]);
    wit_list_list_f32_t found;
    perpend_evaluator_model_model_error_t error;
    if (!perpend_evaluator_model_embed(slot ? &name : NULL, &given, &found, &error)) return wrong(&error);
    if (found.len != n) return PERPEND_ERROR(PERPEND_UPSTREAM, "the host returned a different number of vectors than texts");
    for (size_t i = 0; i < n; i++) vectors[i] = (perpend_vector){found.ptr[i].ptr, found.ptr[i].len};
    return PERPEND_OK;
}

// ---- conversations ----

void perpend_add_message(perpend_messages *messages, perpend_message message) {
    if (messages->len == messages->capacity) {
        messages->capacity = messages->capacity ? 2 * messages->capacity : 8;
        messages->at = resize(messages->at, messages->capacity * sizeof *messages->at);
    }
    messages->at[messages->len++] = message;
}

void perpend_add_text(perpend_messages *messages, perpend_role role, perpend_text text) {
    perpend_add_message(messages, (perpend_message){.role = role, .content = text});
}

void perpend_add_results(
    perpend_messages *messages, const perpend_answer *reply, const perpend_tool_result *results, size_t n) {
    perpend_message_part *calls = zeroed(reply->n_tool_calls, sizeof *calls);
    for (size_t i = 0; i < reply->n_tool_calls; i++)
        calls[i] = (perpend_message_part){.kind = PERPEND_PART_CALL, .call = reply->tool_calls[i]};
    perpend_message_part *parts = zeroed(n, sizeof *parts);
    for (size_t i = 0; i < n; i++)
        parts[i] = (perpend_message_part){.kind = PERPEND_PART_RESULT, .result = results[i]};
    perpend_add_message(messages, (perpend_message){PERPEND_ASSISTANT, reply->text, calls, reply->n_tool_calls});
    perpend_add_message(messages, (perpend_message){PERPEND_TOOL, {0, 0}, parts, n});
}

// ---- probabilities ----

bool perpend_probabilities(
    const perpend_answer *answer, const char *const *choices, size_t n, perpend_place place,
    perpend_distribution *distribution) {
    if (!answer->held) return false;
    wit_list_string_t names = {zeroed(n, sizeof *names.ptr), n};
    for (size_t i = 0; i < n; i++) names.ptr[i] = borrowed_string(choices[i]);
    // The kinds have the order of the contract.
    perpend_evaluator_model_place_t at = {.tag = (uint8_t)place.kind};
    if (place.kind == PERPEND_MEMBER) at.val.member = borrowed_string(place.member);
    if (place.kind == PERPEND_OFFSET) at.val.offset = place.offset;
    perpend_evaluator_model_borrow_completion_t from = {answer->held};
    perpend_evaluator_model_distribution_t found;
    if (!perpend_evaluator_model_method_completion_probabilities(from, &names, &at, &found)) return false;
    double *shares = zeroed(found.shares.len, sizeof *shares);
    for (size_t i = 0; i < found.shares.len; i++) shares[i] = found.shares.ptr[i].probability;
    *distribution = (perpend_distribution){shares, found.shares.len, found.margin, found.coverage};
    return true;
}

void perpend_release(perpend_answer *answer) {
    if (answer->held) perpend_evaluator_model_completion_drop_own((perpend_evaluator_model_own_completion_t){answer->held});
    answer->held = 0;
}
