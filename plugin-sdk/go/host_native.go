//go:build !wasip1

package perpend

import (
	"time"
	"unicode/utf8"
)

// Host answers what an evaluator asks while `go test` runs it. What is nil is refused, as it is for a
// plug-in that was granted nothing.
type Host struct {
	// Complete answers Complete and each request of CompleteAll.
	Complete func(Request) (Completion, error)
	// Probabilities answers Completion.Probabilities; nil says that there are none.
	Probabilities func(said Completion, choices []string, place Place) *Distribution
	Embedding     func(slot string, texts []string) ([][]float32, error)
	Trace         func(id string) (TraceInfo, error)
	// Page, OutlinePage, SessionPage and RunPage answer with one page and the cursor of the next one, which is
	// empty on the last.
	Page        func(traceID string, filter Filter, cursor string) ([]Observation, string, error)
	Part        func(traceID, observationID string, part Part) (*Payload, error)
	OutlinePage func(traceID, parentID, cursor string) ([]OutlineEntry, string, error)
	Hits        func(traceID, text string, limit uint32) ([]Hit, error)
	// Range answers ReadRange; nil gives a range of what Part gives.
	Range       func(traceID, observationID string, part Part, offset uint64, length uint32) (*Slice, error)
	Session     func(id string) (SessionInfo, error)
	SessionPage func(sessionID, cursor string) ([]TraceInfo, string, error)
	Run         func(id string) (RunInfo, error)
	RunPage     func(runID, cursor string) ([]RunItem, string, error)
	Line        func(level Level, message, fields string)
	// SeedNumber answers Seed, and StartOfTheRun RunTime.
	SeedNumber    uint64
	StartOfTheRun time.Time
}

// As with a server, an answer that was released has no probabilities. Copies share it.
type held struct{ isReleased *bool }

func (h held) release() {
	if h.isReleased != nil {
		*h.isReleased = true
	}
}

var host = &Host{}

// UseHost answers host calls with `with` until the function it returns is called.
func UseHost(with Host) (restore func()) {
	before := host
	host = &with
	return func() { host = before }
}

func refused() error { return upstream("not granted; tests say what the host answers with UseHost") }

// CompleteAll asks Complete one by one.
func (h *Host) CompleteAll(requests []Request) []Answer {
	answers := make([]Answer, len(requests))
	for i, request := range requests {
		if h.Complete == nil {
			answers[i].Err = refused()
		} else {
			answers[i].Completion, answers[i].Err = h.Complete(request)
			answers[i].Completion.held.isReleased = new(bool)
		}
	}
	return answers
}

// Probable asks Probabilities.
func (h *Host) Probable(said *Completion, choices []string, place Place) *Distribution {
	if h.Probabilities == nil || said.held.isReleased != nil && *said.held.isReleased {
		return nil
	}
	return h.Probabilities(*said, choices, place)
}

// Embed asks Embedding.
func (h *Host) Embed(slot string, texts []string) ([][]float32, error) {
	if h.Embedding == nil {
		return nil, refused()
	}
	return h.Embedding(slot, texts)
}

// GetTrace asks Trace.
func (h *Host) GetTrace(id string) (TraceInfo, error) {
	if h.Trace == nil {
		return TraceInfo{}, refused()
	}
	return h.Trace(id)
}

// ListObservations asks Page.
func (h *Host) ListObservations(traceID string, filter Filter, cursor string) ([]Observation, string, error) {
	if h.Page == nil {
		return nil, "", refused()
	}
	return h.Page(traceID, filter, cursor)
}

// Read asks Part.
func (h *Host) Read(traceID, observationID string, part Part) (*Payload, error) {
	if h.Part == nil {
		return nil, refused()
	}
	return h.Part(traceID, observationID, part)
}

// Outline asks OutlinePage.
func (h *Host) Outline(traceID, parentID, cursor string) ([]OutlineEntry, string, error) {
	if h.OutlinePage == nil {
		return nil, "", refused()
	}
	return h.OutlinePage(traceID, parentID, cursor)
}

// Search asks Hits.
func (h *Host) Search(traceID, text string, limit uint32) ([]Hit, error) {
	if h.Hits == nil {
		return nil, refused()
	}
	return h.Hits(traceID, text, limit)
}

// ReadRange asks Range, or Part.
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

// characterAt is the beginning of the character that this byte belongs to.
func characterAt(text string, byte uint64) uint64 {
	for 0 < byte && byte < uint64(len(text)) && !utf8.RuneStart(text[byte]) {
		byte--
	}
	return byte
}

// GetSession asks Session.
func (h *Host) GetSession(id string) (SessionInfo, error) {
	if h.Session == nil {
		return SessionInfo{}, refused()
	}
	return h.Session(id)
}

// ListTraces asks SessionPage.
func (h *Host) ListTraces(sessionID, cursor string) ([]TraceInfo, string, error) {
	if h.SessionPage == nil {
		return nil, "", refused()
	}
	return h.SessionPage(sessionID, cursor)
}

// GetRun asks Run.
func (h *Host) GetRun(id string) (RunInfo, error) {
	if h.Run == nil {
		return RunInfo{}, refused()
	}
	return h.Run(id)
}

// ListItems asks RunPage.
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

// Seed is SeedNumber.
func (h *Host) Seed() uint64 { return h.SeedNumber }

// RunTime is StartOfTheRun.
func (h *Host) RunTime() time.Time { return h.StartOfTheRun }

// Export says what the component offers; there is none while `go test` runs.
func Export(*Plugin) {}
