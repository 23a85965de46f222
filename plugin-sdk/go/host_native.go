//go:build !wasip1

package perpend

import "time"

// Host answers what an evaluator asks while `go test` runs it. What is nil is refused, as it is for a
// plug-in that was granted nothing.
type Host struct {
	Complete      func(Request) (Completion, error)
	Embedding     func(slot string, texts []string) ([][]float32, error)
	Trace         func(id string) (TraceInfo, error)
	Page          func(traceID string, filter Filter, cursor string) ([]Observation, string, error)
	Part          func(traceID, observationID string, part Part) (*Payload, error)
	Line          func(level Level, message, fields string)
	SeedNumber    uint64
	StartOfTheRun time.Time
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
		}
	}
	return answers
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
