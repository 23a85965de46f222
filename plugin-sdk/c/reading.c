// Reading of traces, sessions and runs.

#include "inside.h"

// The maximum page sizes of the host.
enum { PAGE = 500, SESSION_PAGE = 100, RUN_PAGE = 20 };

static perpend_error wrong(const perpend_evaluator_trace_reader_trace_error_t *error) {
    if (error->tag == PERPEND_EVALUATOR_TRACE_READER_TRACE_ERROR_CANCELLED)
        return PERPEND_ERROR(PERPEND_UPSTREAM, "the run was cancelled");
    // All cases have the same layout.
    return (perpend_error){PERPEND_UPSTREAM, view(error->val.unavailable)};
}

static const perpend_text *texts(wit_list_string_t list) {
    perpend_text *shown = zeroed(list.len, sizeof *shown);
    for (size_t i = 0; i < list.len; i++) shown[i] = view(list.ptr[i]);
    return shown;
}

static perpend_trace trace_of(const perpend_evaluator_trace_reader_trace_info_t *given) {
    return (perpend_trace){
        .id = view(given->id),
        .name = TEXT(given->name),
        .session_id = TEXT(given->session_id),
        .user_id = TEXT(given->user_id),
        .start_ms = given->start,
        .tags = texts(given->tags),
        .n_tags = given->tags.len,
        .metadata = TEXT(given->metadata),
        .n_observations = given->observation_count,
    };
}

perpend_error perpend_get_trace(perpend_text trace_id, perpend_trace *trace) {
    wit_string_t id = borrowed(trace_id);
    perpend_evaluator_trace_reader_trace_info_t found;
    perpend_evaluator_trace_reader_trace_error_t error;
    if (!perpend_evaluator_trace_reader_get_trace(&id, &found, &error)) return wrong(&error);
    *trace = trace_of(&found);
    return PERPEND_OK;
}

// ---- parts of observations ----

static perpend_error no_part(void) {
    return PERPEND_ERROR(PERPEND_INTERNAL, "`part` must be one of PERPEND_INPUT, PERPEND_OUTPUT, PERPEND_METADATA");
}

perpend_error perpend_read(perpend_text trace_id, perpend_text observation_id, unsigned part, perpend_part *found) {
    wit_string_t trace = borrowed(trace_id), observation = borrowed(observation_id);
    perpend_evaluator_trace_reader_trace_error_t error;
    if (part == PERPEND_METADATA) {
        perpend_evaluator_trace_reader_option_json_t json;
        if (!perpend_evaluator_trace_reader_read_metadata(&trace, &observation, &json, &error)) return wrong(&error);
        *found = (perpend_part){json.is_some, json.is_some, TEXT(json)};
        return PERPEND_OK;
    }
    if (part != PERPEND_INPUT && part != PERPEND_OUTPUT) return no_part();
    perpend_evaluator_trace_reader_option_payload_t payload;
    bool is_fine = part == PERPEND_INPUT
        ? perpend_evaluator_trace_reader_read_input(&trace, &observation, &payload, &error)
        : perpend_evaluator_trace_reader_read_output(&trace, &observation, &payload, &error);
    if (!is_fine) return wrong(&error);
    *found = PART(payload);
    return PERPEND_OK;
}

// The parts in the order of the contract.
static const unsigned parts[] = {PERPEND_INPUT, PERPEND_OUTPUT, PERPEND_METADATA};
enum { N_PARTS = sizeof parts / sizeof *parts };

perpend_error perpend_read_range(
    perpend_text trace_id, perpend_text observation_id, unsigned part, uint64_t offset, uint32_t length,
    perpend_slice *slice) {
    uint8_t number = 0;
    while (number < N_PARTS && parts[number] != part) number++;
    if (number == N_PARTS) return no_part();
    wit_string_t trace = borrowed(trace_id), observation = borrowed(observation_id);
    perpend_evaluator_trace_reader_option_slice_t found;
    perpend_evaluator_trace_reader_trace_error_t error;
    if (!perpend_evaluator_trace_reader_read_range(&trace, &observation, number, offset, length, &found, &error))
        return wrong(&error);
    memset(slice, 0, sizeof *slice);
    if (found.is_some) {
        *slice = (perpend_slice){
            true, view(found.val.text), found.val.offset, found.val.total, found.val.is_json};
    }
    return PERPEND_OK;
}

perpend_error perpend_search(
    perpend_text trace_id, perpend_text text, uint32_t limit, const perpend_hit **hits, size_t *n_hits) {
    wit_string_t trace = borrowed(trace_id), query = borrowed(text);
    perpend_evaluator_trace_reader_list_hit_t found;
    perpend_evaluator_trace_reader_trace_error_t error;
    if (!perpend_evaluator_trace_reader_search(&trace, &query, limit, &found, &error)) return wrong(&error);
    perpend_hit *shown = zeroed(found.len, sizeof *shown);
    for (size_t i = 0; i < found.len; i++) {
        unsigned part = found.ptr[i].part < N_PARTS ? parts[found.ptr[i].part] : 0;
        shown[i] = (perpend_hit){
            view(found.ptr[i].observation_id), part, found.ptr[i].offset, view(found.ptr[i].excerpt)};
    }
    *hits = shown;
    *n_hits = found.len;
    return PERPEND_OK;
}

// ---- sessions and runs ----

perpend_error perpend_get_session(perpend_text session_id, perpend_session *session) {
    wit_string_t id = borrowed(session_id);
    perpend_evaluator_session_reader_session_info_t found;
    perpend_evaluator_session_reader_trace_error_t error;
    if (!perpend_evaluator_session_reader_get_session(&id, &found, &error)) return wrong(&error);
    *session = (perpend_session){
        view(found.id), found.trace_count, found.start, found.end, texts(found.user_ids), found.user_ids.len};
    return PERPEND_OK;
}

perpend_error perpend_get_run(perpend_text run_id, perpend_run *run) {
    wit_string_t id = borrowed(run_id);
    perpend_evaluator_run_reader_run_info_t found;
    perpend_evaluator_run_reader_trace_error_t error;
    if (!perpend_evaluator_run_reader_get_run(&id, &found, &error)) return wrong(&error);
    *run = (perpend_run){
        view(found.id), TEXT(found.name), TEXT(found.dataset_id), TEXT(found.metadata), found.item_count};
    return PERPEND_OK;
}

// ---- lists ----

// Whether there can be another page.
static bool goes_on(perpend_list *list) {
    return !list->is_last && list->error.kind == PERPEND_FINE;
}

static bool ends(perpend_list *list, const perpend_evaluator_trace_reader_trace_error_t *error) {
    list->error = wrong(error);
    return false;
}

static void turned(perpend_list *list, void *page, size_t len, wit_option_string_t next) {
    list->page = page;
    list->len = len;
    list->next = 0;
    list->is_last = !next.is_some;
    list->cursor = TEXT(next);
}

// The text at `place`; NULL for none.
static wit_string_t *maybe(perpend_text text, wit_string_t *place) {
    *place = borrowed(text);
    return text.len ? place : NULL;
}

static bool turn_observations(perpend_list *list, perpend_text trace_id, const perpend_filter *filter) {
    perpend_filter every = {0};
    if (!filter) filter = &every;
    uint8_t kinds[PERPEND_KIND_GUARDRAIL + 1];
    perpend_evaluator_trace_reader_observation_filter_t wire_filter = {
        .parent_id = {filter->parent_id.len != 0, borrowed(filter->parent_id)},
        .kinds = {kinds, 0},
        .name = {filter->name.len != 0, borrowed(filter->name)},
    };
    for (uint8_t kind = 0; kind <= PERPEND_KIND_GUARDRAIL; kind++)
        if (filter->kinds >> kind & 1) kinds[wire_filter.kinds.len++] = kind;
    wit_string_t id = borrowed(trace_id), at;
    perpend_evaluator_trace_reader_observation_page_t page;
    perpend_evaluator_trace_reader_trace_error_t error;
    if (!perpend_evaluator_trace_reader_list_observations(&id, &wire_filter, maybe(list->cursor, &at), PAGE, &page, &error))
        return ends(list, &error);
    turned(list, page.observations.ptr, page.observations.len, page.next_cursor);
    return true;
}

bool perpend_next_observation(
    perpend_list *list, perpend_text trace_id, const perpend_filter *filter, perpend_observation *observation) {
    while (list->next == list->len)
        if (!goes_on(list) || !turn_observations(list, trace_id, filter)) return false;
    const perpend_evaluator_trace_reader_observation_head_t *head = list->page;
    head += list->next++;
    *observation = (perpend_observation){
        .id = view(head->id),
        .parent_id = TEXT(head->parent_id),
        .kind = head->kind,
        .name = TEXT(head->name),
        .start_ms = head->start,
        .has_end = head->end.is_some,
        .end_ms = NUMBER(head->end),
        .severity = head->severity,
        .status_message = TEXT(head->status_message),
        .model = TEXT(head->model),
        .input_tokens = NUMBER(head->input_tokens),
        .output_tokens = NUMBER(head->output_tokens),
        .input_size = head->input_size,
        .output_size = head->output_size,
    };
    return true;
}

static bool turn_outline(perpend_list *list, perpend_text trace_id, perpend_text parent_id) {
    wit_string_t id = borrowed(trace_id), parent, at;
    perpend_evaluator_trace_reader_outline_page_t page;
    perpend_evaluator_trace_reader_trace_error_t error;
    if (!perpend_evaluator_trace_reader_outline(
            &id, maybe(parent_id, &parent), maybe(list->cursor, &at), PAGE, &page, &error))
        return ends(list, &error);
    turned(list, page.entries.ptr, page.entries.len, page.next_cursor);
    return true;
}

bool perpend_next_outline_entry(
    perpend_list *list, perpend_text trace_id, perpend_text parent_id, perpend_outline_entry *entry) {
    while (list->next == list->len)
        if (!goes_on(list) || !turn_outline(list, trace_id, parent_id)) return false;
    const perpend_evaluator_trace_reader_outline_entry_t *line = list->page;
    line += list->next++;
    *entry = (perpend_outline_entry){
        .id = view(line->id),
        .parent_id = TEXT(line->parent_id),
        .depth = line->depth,
        .kind = line->kind,
        .name = TEXT(line->name),
        .severity = line->severity,
        .start_ms = line->start,
        .has_end = line->duration_ms.is_some,
        .duration_ms = NUMBER(line->duration_ms),
        .input_size = line->input_size,
        .output_size = line->output_size,
        .n_children = line->child_count,
    };
    return true;
}

static bool turn_traces(perpend_list *list, perpend_text session_id) {
    wit_string_t id = borrowed(session_id), at;
    perpend_evaluator_session_reader_trace_page_t page;
    perpend_evaluator_session_reader_trace_error_t error;
    if (!perpend_evaluator_session_reader_list_traces(&id, maybe(list->cursor, &at), SESSION_PAGE, &page, &error))
        return ends(list, &error);
    turned(list, page.traces.ptr, page.traces.len, page.next_cursor);
    return true;
}

bool perpend_next_trace(perpend_list *list, perpend_text session_id, perpend_trace *trace) {
    while (list->next == list->len)
        if (!goes_on(list) || !turn_traces(list, session_id)) return false;
    const perpend_evaluator_session_reader_trace_info_t *given = list->page;
    *trace = trace_of(&given[list->next++]);
    return true;
}

static bool turn_items(perpend_list *list, perpend_text run_id) {
    wit_string_t id = borrowed(run_id), at;
    perpend_evaluator_run_reader_run_page_t page;
    perpend_evaluator_run_reader_trace_error_t error;
    if (!perpend_evaluator_run_reader_list_items(&id, maybe(list->cursor, &at), RUN_PAGE, &page, &error))
        return ends(list, &error);
    turned(list, page.items.ptr, page.items.len, page.next_cursor);
    return true;
}

bool perpend_next_run_item(perpend_list *list, perpend_text run_id, perpend_run_item *item) {
    while (list->next == list->len)
        if (!goes_on(list) || !turn_items(list, run_id)) return false;
    const perpend_evaluator_run_reader_run_item_t *given = list->page;
    given += list->next++;
    memset(item, 0, sizeof *item);
    item->id = view(given->id);
    item->dataset_item_id = TEXT(given->dataset_item_id);
    if (given->trace.is_some) {
        item->trace_id = view(given->trace.val.trace_id);
        item->observation_id = TEXT(given->trace.val.observation_id);
    }
    item->input = PART(given->input);
    item->output = PART(given->output);
    item->expected_output = PART(given->expected_output);
    item->metadata = TEXT(given->metadata);
    return true;
}
