//go:build !wasip1

package perpend

import (
	"time"
	"unicode/utf8"
)

// Host implements the functions of the host for `go test`. A call of a nil function is refused, as for a
// plug-in without capabilities.
type Host struct {
	// Complete implements Complete and each request of CompleteAll.
	Complete func(Request) (Completion, error)
	// Probabilities implements Completion.Probabilities. It may return nil.
	Probabilities func(reply Completion, choices []string, place Place) *Distribution
	Embedding     func(slot string, texts []string) ([][]float32, error)
	Trace         func(id string) (TraceInfo, error)
	// Page, OutlinePage, SessionPage and RunPage return one page and the cursor of the next one, which is
	// empty on the last page.
	Page        func(traceID string, filter Filter, cursor string) ([]Observation, string, error)
	Part        func(traceID, observationID string, part Part) (*Payload, error)
	OutlinePage func(traceID, parentID, cursor string) ([]OutlineEntry, string, error)
	Hits        func(traceID, text string, limit uint32) ([]Hit, error)
	// Range implements ReadRange; if nil, the range is taken from the result of Part.
	Range       func(traceID, observationID string, part Part, offset uint64, length uint32) (*Slice, error)
	Session     func(id string) (SessionInfo, error)
	SessionPage func(sessionID, cursor string) ([]TraceInfo, string, error)
	Run         func(id string) (RunInfo, error)
	RunPage     func(runID, cursor string) ([]RunItem, string, error)
	Line        func(level Level, message, fields string)
	// SeedNumber is the result of Seed, and StartOfTheRun that of RunTime.
	SeedNumber    uint64
	StartOfTheRun time.Time
}

// As on a server, a released completion has no probabilities. Copies share the state.
type handle struct{ isReleased *bool }

func (h handle) release() {
	if h.isReleased != nil {
		*h.isReleased = true
	}
}

var host = &Host{}

// UseHost replaces the host by `with` until the returned function is called.
func UseHost(with Host) (restore func()) {
	before := host
	host = &with
	return func() { host = before }
}

func refused() error { return upstream("not granted; use UseHost to implement the host in tests") }

// CompleteAll calls Complete for each request.
func (h *Host) CompleteAll(requests []Request) []Answer {
	answers := make([]Answer, len(requests))
	for i, request := range requests {
		if h.Complete == nil {
			answers[i].Err = refused()
		} else {
			answers[i].Completion, answers[i].Err = h.Complete(request)
			answers[i].Completion.handle.isReleased = new(bool)
		}
	}
	return answers
}

// Probable calls Probabilities.
func (h *Host) Probable(reply *Completion, choices []string, place Place) *Distribution {
	if h.Probabilities == nil || reply.handle.isReleased != nil && *reply.handle.isReleased {
		return nil
	}
	return h.Probabilities(*reply, choices, place)
}

// Embed calls Embedding.
func (h *Host) Embed(slot string, texts []string) ([][]float32, error) {
	if h.Embedding == nil {
		return nil, refused()
	}
	return h.Embedding(slot, texts)
}

// GetTrace calls Trace.
func (h *Host) GetTrace(id string) (TraceInfo, error) {
	if h.Trace == nil {
		return TraceInfo{}, refused()
	}
	return h.Trace(id)
}

// ListObservations calls Page.
func (h *Host) ListObservations(traceID string, filter Filter, cursor string) ([]Observation, string, error) {
	if h.Page == nil {
		return nil, "", refused()
	}
	return h.Page(traceID, filter, cursor)
}

// Read calls Part.
func (h *Host) Read(traceID, observationID string, part Part) (*Payload, error) {
	if h.Part == nil {
		return nil, refused()
	}
	return h.Part(traceID, observationID, part)
}

// Outline calls OutlinePage.
func (h *Host) Outline(traceID, parentID, cursor string) ([]OutlineEntry, string, error) {
	if h.OutlinePage == nil {
		return nil, "", refused()
	}
	return h.OutlinePage(traceID, parentID, cursor)
}

// Search calls Hits.
func (h *Host) Search(traceID, text string, limit uint32) ([]Hit, error) {
	if h.Hits == nil {
		return nil, refused()
	}
	return h.Hits(traceID, text, limit)
}

// ReadRange calls Range, or Part.
func (h *Host) ReadRange(traceID, observationID string, part Part, offset uint64, length uint32) (*Slice, error) {
	if h.Range != nil {
		return h.Range(traceID, observationID, part, offset, length)
	}
	found, err := h.Read(traceID, observationID, part)
	if err != nil || found == nil {
		return nil, err
	}
	total := uint64(len(found.Text))
	offset = min(offset, total)
	begin := characterAt(found.Text, offset)
	end := characterAt(found.Text, offset+min(uint64(length), total-offset))
	return &Slice{Text: found.Text[begin:end], Offset: begin, Total: total, IsJSON: found.IsJSON}, nil
}

// characterAt returns the start of the character at this byte.
func characterAt(text string, byte uint64) uint64 {
	for 0 < byte && byte < uint64(len(text)) && !utf8.RuneStart(text[byte]) {
		byte--
	}
	return byte
}

// GetSession calls Session.
func (h *Host) GetSession(id string) (SessionInfo, error) {
	if h.Session == nil {
		return SessionInfo{}, refused()
	}
	return h.Session(id)
}

// ListTraces calls SessionPage.
func (h *Host) ListTraces(sessionID, cursor string) ([]TraceInfo, string, error) {
	if h.SessionPage == nil {
		return nil, "", refused()
	}
	return h.SessionPage(sessionID, cursor)
}

// GetRun calls Run.
func (h *Host) GetRun(id string) (RunInfo, error) {
	if h.Run == nil {
		return RunInfo{}, refused()
	}
	return h.Run(id)
}

// ListItems calls RunPage.
func (h *Host) ListItems(runID, cursor string) ([]RunItem, string, error) {
	if h.RunPage == nil {
		return nil, "", refused()
	}
	return h.RunPage(runID, cursor)
}

// Log calls Line.
func (h *Host) Log(level Level, message, fields string) {
	if h.Line != nil {
		h.Line(level, message, fields)
	}
}

// Seed returns SeedNumber.
func (h *Host) Seed() uint64 { return h.SeedNumber }

// RunTime returns StartOfTheRun.
func (h *Host) RunTime() time.Time { return h.StartOfTheRun }

// Export has no effect outside of a component.
func Export(*Plugin) {}
