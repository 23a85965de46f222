//go:build wasip1

package perpend

import (
	"slices"
	"time"

	run "perpend/internal/perpend_evaluator_run_reader"
	session "perpend/internal/perpend_evaluator_session_reader"
	reader "perpend/internal/perpend_evaluator_trace_reader"
	wit "perpend/internal/wit/types"
)

func traceError(err reader.TraceError) error {
	switch err.Tag() {
	case reader.TraceErrorNotGranted:
		return upstream(err.NotGranted())
	case reader.TraceErrorNotFound:
		return upstream(err.NotFound())
	case reader.TraceErrorTooLarge:
		return upstream(err.TooLarge())
	case reader.TraceErrorUnavailable:
		return upstream(err.Unavailable())
	default:
		return upstream("the run was cancelled")
	}
}

func (component) GetTrace(id string) (TraceInfo, error) {
	result := reader.GetTrace(id)
	if result.Tag() == wit.ResultErr {
		return TraceInfo{}, traceError(result.Err())
	}
	return traceInfo(result.Ok()), nil
}

func traceInfo(given reader.TraceInfo) TraceInfo {
	return TraceInfo{
		ID: given.Id, Name: or(given.Name, ""), SessionID: or(given.SessionId, ""), UserID: or(given.UserId, ""),
		Start: at(given.Start), Tags: given.Tags, Metadata: or(given.Metadata, ""),
		ObservationCount: int(given.ObservationCount),
	}
}

// The maximum page size of the host.
const (
	page        = 500
	sessionPage = 100
	runPage     = 20
)

func (component) ListObservations(traceID string, filter Filter, cursor string) ([]Observation, string, error) {
	wireFilter := reader.ObservationFilter{ParentId: some(filter.ParentID), Name: some(filter.Name)}
	for _, kind := range filter.Kinds {
		number := slices.Index(kinds, kind)
		if number < 0 {
			return nil, "", &Error{KindInternal, "unknown kind of observation " + kind}
		}
		wireFilter.Kinds = append(wireFilter.Kinds, uint8(number))
	}
	result := reader.ListObservations(traceID, wireFilter, some(cursor), page)
	if result.Tag() == wit.ResultErr {
		return nil, "", traceError(result.Err())
	}
	given := result.Ok()
	observations := make([]Observation, len(given.Observations))
	for i, head := range given.Observations {
		observations[i] = Observation{
			ID: head.Id, ParentID: or(head.ParentId, ""), Kind: named(kinds, head.Kind), Name: or(head.Name, ""),
			Start: at(head.Start), Severity: named(severities, head.Severity),
			StatusMessage: or(head.StatusMessage, ""), Model: or(head.Model, ""),
			InputTokens: or(head.InputTokens, 0), OutputTokens: or(head.OutputTokens, 0),
			InputSize: head.InputSize, OutputSize: head.OutputSize,
		}
		if head.End.Tag() == wit.OptionSome {
			observations[i].End = at(head.End.Some())
		}
	}
	return observations, or(given.NextCursor, ""), nil
}

func (component) Read(traceID, observationID string, part Part) (*Payload, error) {
	if part == Metadata {
		result := reader.ReadMetadata(traceID, observationID)
		if result.Tag() == wit.ResultErr {
			return nil, traceError(result.Err())
		}
		if result.Ok().Tag() == wit.OptionNone {
			return nil, nil
		}
		return JSON(result.Ok().Some()), nil
	}
	read := reader.ReadOutput
	if part == Input {
		read = reader.ReadInput
	}
	result := read(traceID, observationID)
	if result.Tag() == wit.ResultErr {
		return nil, traceError(result.Err())
	}
	return payload(result.Ok()), nil
}

func (component) Outline(traceID, parentID, cursor string) ([]OutlineEntry, string, error) {
	result := reader.Outline(traceID, some(parentID), some(cursor), page)
	if result.Tag() == wit.ResultErr {
		return nil, "", traceError(result.Err())
	}
	given := result.Ok()
	entries := make([]OutlineEntry, len(given.Entries))
	for i, entry := range given.Entries {
		entries[i] = OutlineEntry{
			ID: entry.Id, ParentID: or(entry.ParentId, ""), Depth: int(entry.Depth), Kind: named(kinds, entry.Kind),
			Name: or(entry.Name, ""), Severity: named(severities, entry.Severity), Start: at(entry.Start),
			HasEnd:    entry.DurationMs.Tag() == wit.OptionSome,
			Duration:  time.Duration(or(entry.DurationMs, 0)) * time.Millisecond,
			InputSize: entry.InputSize, OutputSize: entry.OutputSize, ChildCount: int(entry.ChildCount),
		}
	}
	return entries, or(given.NextCursor, ""), nil
}

// The parts in the order of the contract.
var observationParts = []Part{Input, Output, Metadata}

func (component) Search(traceID, text string, limit uint32) ([]Hit, error) {
	result := reader.Search(traceID, text, limit)
	if result.Tag() == wit.ResultErr {
		return nil, traceError(result.Err())
	}
	hits := make([]Hit, len(result.Ok()))
	for i, hit := range result.Ok() {
		hits[i] = Hit{ObservationID: hit.ObservationId, Offset: hit.Offset, Excerpt: hit.Excerpt}
		if int(hit.Part) < len(observationParts) {
			hits[i].Part = observationParts[hit.Part]
		}
	}
	return hits, nil
}

func (component) ReadRange(traceID, observationID string, part Part, offset uint64, length uint32) (*Slice, error) {
	number := uint8(slices.Index(observationParts, part))
	result := reader.ReadRange(traceID, observationID, number, offset, length)
	if result.Tag() == wit.ResultErr {
		return nil, traceError(result.Err())
	}
	if result.Ok().Tag() == wit.OptionNone {
		return nil, nil
	}
	given := result.Ok().Some()
	return &Slice{Text: given.Text, Offset: given.Offset, Total: given.Total, IsJSON: given.IsJson}, nil
}

func (component) GetSession(id string) (SessionInfo, error) {
	result := session.GetSession(id)
	if result.Tag() == wit.ResultErr {
		return SessionInfo{}, traceError(result.Err())
	}
	given := result.Ok()
	return SessionInfo{
		ID: given.Id, TraceCount: int(given.TraceCount), Start: at(given.Start), End: at(given.End),
		UserIDs: given.UserIds,
	}, nil
}

func (component) ListTraces(sessionID, cursor string) ([]TraceInfo, string, error) {
	result := session.ListTraces(sessionID, some(cursor), sessionPage)
	if result.Tag() == wit.ResultErr {
		return nil, "", traceError(result.Err())
	}
	given := result.Ok()
	traces := make([]TraceInfo, len(given.Traces))
	for i, trace := range given.Traces {
		traces[i] = traceInfo(trace)
	}
	return traces, or(given.NextCursor, ""), nil
}

func (component) GetRun(id string) (RunInfo, error) {
	result := run.GetRun(id)
	if result.Tag() == wit.ResultErr {
		return RunInfo{}, traceError(result.Err())
	}
	given := result.Ok()
	return RunInfo{
		ID: given.Id, Name: or(given.Name, ""), DatasetID: or(given.DatasetId, ""), Metadata: or(given.Metadata, ""),
		ItemCount: int(given.ItemCount),
	}, nil
}

func (component) ListItems(runID, cursor string) ([]RunItem, string, error) {
	result := run.ListItems(runID, some(cursor), runPage)
	if result.Tag() == wit.ResultErr {
		return nil, "", traceError(result.Err())
	}
	given := result.Ok()
	items := make([]RunItem, len(given.Items))
	for i, item := range given.Items {
		items[i] = RunItem{
			ID: item.Id, DatasetItemID: or(item.DatasetItemId, ""), Trace: traceRef(item.Trace),
			Input: payload(item.Input), Output: payload(item.Output), ExpectedOutput: payload(item.ExpectedOutput),
			Metadata: or(item.Metadata, ""),
		}
	}
	return items, or(given.NextCursor, ""), nil
}
