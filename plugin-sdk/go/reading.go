package perpend

import "time"

// TraceInfo is a trace without its observations.
type TraceInfo struct {
	ID, Name, SessionID, UserID string
	Start                       time.Time
	Tags                        []string
	// Metadata is the text of a JSON object, or empty.
	Metadata         string
	ObservationCount int
}

// Observation is an observation without its large parts.
type Observation struct {
	ID, ParentID string
	// Kind is span, generation, event, agent, tool, chain, retriever, evaluator, embedding or guardrail.
	Kind, Name string
	Start      time.Time
	// End is zero when the observation has none.
	End time.Time
	// Severity is debug, standard, warning or error.
	Severity, StatusMessage   string
	Model                     string
	InputTokens, OutputTokens uint64
	// InputSize and OutputSize are the sizes of input and output in bytes.
	InputSize, OutputSize uint64
}

// Filter selects observations. Empty fields are ignored.
type Filter struct {
	// ParentID selects the direct children of an observation.
	ParentID string
	Kinds    []string
	Name     string
}

// OutlineEntry is one line of the outline of a trace.
type OutlineEntry struct {
	ID, ParentID string
	// Depth is 0 at the top of the requested tree.
	Depth int
	// Kind and Severity are those of Observation.
	Kind, Name, Severity string
	Start                time.Time
	// HasEnd is false for an observation without end; its Duration is 0.
	HasEnd   bool
	Duration time.Duration
	// InputSize and OutputSize are the sizes of input and output in bytes.
	InputSize, OutputSize uint64
	// ChildCount is the number of direct children.
	ChildCount int
}

// Hit is an occurrence of a text.
type Hit struct {
	ObservationID string
	// Part is Input, Output or Metadata.
	Part Part
	// Offset is the byte offset in the part, as for ReadRange.
	Offset uint64
	// Excerpt is the occurrence with about 100 bytes on each side.
	Excerpt string
}

// Slice is a range of a part.
type Slice struct {
	Text string
	// Offset is the start, moved back to the beginning of a character.
	Offset uint64
	// Total is the size of the whole part in bytes.
	Total uint64
	// IsJSON is true when the whole part is JSON, and not the text of a JSON string.
	IsJSON bool
}

// SessionInfo is a session without its traces.
type SessionInfo struct {
	ID         string
	TraceCount int
	// Start and End are the start times of the first and the last trace.
	Start, End time.Time
	// UserIDs are the users of the session, sorted; the first 100.
	UserIDs []string
}

// RunInfo is a run of an experiment without its items.
type RunInfo struct {
	ID, Name, DatasetID string
	// Metadata is JSON text, or empty.
	Metadata  string
	ItemCount int
}

// RunItem is the recorded execution of one item of the dataset.
type RunItem struct {
	ID, DatasetItemID string
	Trace             *TraceRef
	// Input is the input in the dataset; if absent, the recorded one.
	Input, Output, ExpectedOutput *Payload
	// Metadata is JSON text, that of the item of the dataset, or empty.
	Metadata string
}

var (
	kinds = []string{"span", "generation", "event", "agent", "tool", "chain", "retriever", "evaluator",
		"embedding", "guardrail"}
	severities = []string{"debug", "standard", "warning", "error"}
)

// GetTrace reads the trace of an item.
func GetTrace(id string) (TraceInfo, error) { return host.GetTrace(id) }

// Observations reads the observations of a trace page by page and calls `each`, ordered by start, until it
// returns false.
func Observations(traceID string, filter Filter, each func(Observation) bool) error {
	return pages(each, func(cursor string) ([]Observation, string, error) {
		return host.ListObservations(traceID, filter, cursor)
	})
}

// ReadInput reads the input of an observation; nil when it has none.
func ReadInput(traceID, observationID string) (*Payload, error) {
	return host.Read(traceID, observationID, Input)
}

// ReadOutput reads the output of an observation; nil when it has none.
func ReadOutput(traceID, observationID string) (*Payload, error) {
	return host.Read(traceID, observationID, Output)
}

// ReadMetadata reads the metadata of an observation; nil when it has none.
func ReadMetadata(traceID, observationID string) (*Payload, error) {
	return host.Read(traceID, observationID, Metadata)
}

// Outline reads the tree of a trace, or with a parentID the subtree below an observation, page by page and calls
// `each` until it returns false: depth first, children of one parent by start. A trace of more than 50,000
// observations has no outline.
func Outline(traceID, parentID string, each func(OutlineEntry) bool) error {
	return pages(each, func(cursor string) ([]OutlineEntry, string, error) {
		return host.Outline(traceID, parentID, cursor)
	})
}

// Search returns the occurrences of a text of 1 to 1,000 bytes in the inputs, outputs and metadata of a trace,
// ignoring case; at most 100.
func Search(traceID, text string, limit int) ([]Hit, error) {
	return host.Search(traceID, text, uint32(max(0, limit)))
}

// ReadRange reads length bytes, at most 1 MiB, of the Input, Output or Metadata of an observation from the byte
// offset; both ends move back to the beginning of a character. Nil when the observation has no such part.
func ReadRange(traceID, observationID string, part Part, offset uint64, length uint32) (*Slice, error) {
	if part != Input && part != Output && part != Metadata {
		return nil, &Error{KindInternal, "the part of a range must be one of Input, Output, Metadata"}
	}
	return host.ReadRange(traceID, observationID, part, offset, length)
}

// GetSession reads the session that Item.Session names.
func GetSession(id string) (SessionInfo, error) { return host.GetSession(id) }

// SessionTraces reads the traces of a session page by page and calls `each`, ordered by start, until it returns
// false.
func SessionTraces(sessionID string, each func(TraceInfo) bool) error {
	return pages(each, func(cursor string) ([]TraceInfo, string, error) {
		return host.ListTraces(sessionID, cursor)
	})
}

// GetRun reads the run that Item.Run names.
func GetRun(id string) (RunInfo, error) { return host.GetRun(id) }

// RunItems reads the items of a run page by page and calls `each`, the newest first, until it returns false.
func RunItems(runID string, each func(RunItem) bool) error {
	return pages(each, func(cursor string) ([]RunItem, string, error) {
		return host.ListItems(runID, cursor)
	})
}

// pages calls each for the elements of all pages.
func pages[T any](each func(T) bool, read func(cursor string) ([]T, string, error)) error {
	for cursor := ""; ; {
		page, next, err := read(cursor)
		if err != nil {
			return err
		}
		for _, one := range page {
			if !each(one) {
				return nil
			}
		}
		if next == "" {
			return nil
		}
		cursor = next
	}
}
